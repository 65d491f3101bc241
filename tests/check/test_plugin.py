"""The pytest plugin, in a pytest of its own."""

import os
import subprocess
import sys

import pytest

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, i, mask=i < n)


@triton.jit
def counted(x_ptr, n_ptr):
    for _ in range(tl.load(n_ptr)):
        tl.store(x_ptr, 1)
"""
TESTS = """
import pytest

ARGS = {"args": "x_ptr: int32[4096], n: 4096, BLOCK: constexpr 128", "grid": "32"}


def test_figures(kernel_profile):
    k = kernel_profile("k.py:kernel", gpu="h200", **ARGS)
    assert k.fits
    assert k.spilled_registers == 0
    assert 0 < k.instructions < 10_000
    assert k.profile.launch.programs == 32
    assert [f.rule for f in k.findings] == ["too-few-programs", "short-launch"]


def test_settings(kernel_profile):
    small, large = (kernel_profile("k.py:kernel", num_warps=n, **ARGS) for n in (1, 4))
    assert small.profile.launch.num_warps == 1
    assert small.instructions < large.instructions


def test_worse(kernel_profile):
    assert kernel_profile("k.py:kernel", **ARGS).registers <= 1


def test_misspelt(kernel_profile):
    with pytest.raises(AttributeError, match="did you mean registers"):
        kernel_profile("k.py:kernel", **ARGS).register


def test_unknown(kernel_profile):
    assert kernel_profile("k.py:counted", args="x_ptr: int32[4], n_ptr: int32[1]", grid="1").instructions < 5


def test_assumed(kernel_profile):
    values = {"args": "x_ptr: int32[4], n_ptr: int32[1]", "grid": "1", "assume": ["k.py:14=8"]}
    assert kernel_profile("k.py:counted", **values).instructions > 8
"""


@pytest.fixture
def tested(tmp_path, compile_cache):
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "test_k.py").write_text(TESTS)

    def tested(*words):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)

    return tested


def test_plain_asserts(tested):
    done = tested()
    assert "2 failed, 4 passed" in done.stdout, done.stdout
    assert "FAILED test_k.py::test_worse" in done.stdout
    assert "FAILED test_k.py::test_unknown - Failed: instructions of <counted on H200" in done.stdout
    assert "is not known" in done.stdout
    assert "k.py:14" in done.stdout


def test_in_parallel(tested):
    assert "2 failed, 4 passed" in tested("-n", "2").stdout


def test_nothing_heavy_is_imported_by_pytest_itself(tmp_path):
    (tmp_path / "test_light.py").write_text(
        "import sys\n\n\ndef test():\n    assert not "
        "{'triton', 'torch', 'tilewright.model', 'numpy'} & set(sys.modules)\n"
    )
    # Other plugins that are installed may import what they like.
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tilewright.pytest_plugin", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
