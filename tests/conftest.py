"""Shared by every room's tests: one compile cache for the session, one compiler, the flagship, small kernels."""

import os
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from tilewright.compile import Compiled, Compiler
from tilewright.gpus import load
from tilewright.launch import find_kernel, load_case, make_launch
from tilewright.model import make_profile

ROOT = Path(__file__).parents[1]
TRITON = tuple(int(part) for part in metadata.version("triton").split(".")[:2])


def pytest_generate_tests(metafunc):
    """Skip what needs block pointers where Triton has none, and say so in the test's id."""
    if "block_pointers" in metafunc.fixturenames and TRITON >= (3, 8):
        skip = pytest.mark.skip(reason="needs Triton 3.6 or 3.7: block pointers")
        metafunc.parametrize("block_pointers", [pytest.param(None, id="needs Triton 3.6 or 3.7", marks=skip)])


@pytest.fixture
def block_pointers():
    """Asked for by tests of kernels with block pointers; see pytest_generate_tests."""


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
