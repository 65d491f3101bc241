"""Shared by every room's tests: one compile cache for the session, one compiler, the flagship, small kernels."""

import os
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from chromium import PROGRAM
from tilewright.compile import Compiled, Compiler
from tilewright.gpus import load
from tilewright.launch import find_kernel, load_case, make_launch
from tilewright.model import make_profile

ROOT = Path(__file__).parents[1]
TRITON = tuple(int(part) for part in metadata.version("triton").split(".")[:2])


REQUIREMENTS = {
    "block_pointers": (TRITON < (3, 8), "needs Triton 3.6 or 3.7: block pointers"),
    "no_block_pointers": (TRITON >= (3, 8), "needs Triton 3.8 or 3.9: no block pointers"),
    "browser": (bool(PROGRAM), "needs Chromium"),
    "published_compiler": (TRITON == (3, 6), "needs Triton 3.6: the published figures are its"),
}
"""What a test may ask for as a fixture, whether it is there, and the words for its absence."""


def pytest_generate_tests(metafunc):
    """Skip a test whose requirement is absent, and say so in its id."""
    for name, (met, words) in REQUIREMENTS.items():
        if name in metafunc.fixturenames and not met:
            absent = pytest.param(None, id=words, marks=pytest.mark.skip(reason=words))
            metafunc.parametrize(name, [absent])


@pytest.fixture
def block_pointers():
    """Asked for by tests of kernels with block pointers."""


@pytest.fixture
def no_block_pointers():
    """Asked for by tests of what happens where Triton has no block pointers."""


@pytest.fixture
def published_compiler():
    """Asked for by tests of figures that only the published compiler gives."""


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory):
    """The folder of compiled kernels: one for the session, shared by parallel test processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder / "compile-cache"))
        yield folder / "compile-cache"


@pytest.fixture(scope="session")
def compiler(compile_cache):
    """A compiler whose workers live as long as the session."""
    with Compiler(workers=2, cache_folder=compile_cache) as compiler:
        yield compiler


@pytest.fixture(scope="session")
def flagship():
    """Path of the flagship's case file."""
    return ROOT / "cases" / "flash_attention" / "case.py"


@pytest.fixture(scope="session")
def explain(compiler, flagship):
    """Profile one version of the flagship: explain("v0", "h200", N=512, num_warps=8)."""

    def explain(version, gpu, **values):
        gpu = load(gpu)
        launch = load_case(f"{flagship}:{version}").launch(values)
        return make_profile(launch, gpu, compiler.compile([(launch, gpu.target)])[0])

    return explain


@pytest.fixture
def kernel_file(tmp_path):
    """Write a kernel file from its body; the imports are put in front."""

    def write(body, name="kernel.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("import triton\nimport triton.language as tl\n\n" + textwrap.dedent(body))
        return file

    return write


@pytest.fixture
def compile_kernel(kernel_file, compiler):
    """Compile a kernel given as source: compile_kernel(body, gpu, args, num_warps=4) -> Compiled or Failure."""

    def compile_kernel(body, gpu, args, *, name="kernel", expect=Compiled, **options):
        launch = make_launch(find_kernel(f"{kernel_file(body)}:{name}"), args, (1,), **options)
        result = compiler.compile([(launch, load(gpu).target)])[0]
        assert isinstance(result, expect), result
        return result

    return compile_kernel


@pytest.fixture
def browser():
    """Asked for by tests that look at a page in Chromium."""


@pytest.fixture(scope="session")
def run(compile_cache):
    """Run the command as a user would, in a process of its own, from the repository's root; its output is piped.

    run("explain", "case.py:v0", cwd=..., NO_COLOR="1") -> CompletedProcess
    """

    def run(*arguments, cwd=ROOT, **environment):
        return subprocess.run(
            [sys.executable, "-m", "tilewright.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, **environment},
            timeout=300,
            check=False,
        )

    return run
