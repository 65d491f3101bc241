"""The interpreter from outside: `inside/` runs in interpreting processes, and what must fail fails clearly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).parent / "inside"

pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")


def python(*arguments, cwd=ROOT, **variables):
    """Run Python in a process that has not chosen a mode yet."""
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("TRITON_INTERPRET", "TILEWRIGHT_"))
    }
    environment |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, env=environment | variables, cwd=cwd, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("file", sorted(INSIDE.glob("check_*.py")), ids=lambda file: file.stem)
def test_inside(file):
    result = python(
        "-m", "pytest", "-p", "tilewright.interpret", "-p", "no:cacheprovider", "--noconftest", file
    )
    assert result.returncode == 0, result.stdout + result.stderr


CUDA_ONLY_TEST = """
import pytest, torch, triton, triton.language as tl

DEVICE = "cuda"

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)

@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA is needed")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_add(dtype):
    torch.cuda.manual_seed(0)
    x = torch.randn(1000, device=DEVICE, dtype=dtype)
    y = torch.rand_like(x.cpu()).cuda().to(torch.device("cuda:0"))
    assert x.is_cuda and y.is_cuda
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=256)
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)
"""


def test_cuda_only_tests_run_with_the_plugin(tmp_path):
    (tmp_path / "test_add.py").write_text(CUDA_ONLY_TEST)
    without = python("-m", "pytest", "test_add.py", cwd=tmp_path)
    assert "2 skipped" in without.stdout, without.stdout + without.stderr
    result = python("-m", "pytest", "-p", "tilewright.interpret", "test_add.py", cwd=tmp_path)
    assert "2 passed" in result.stdout, result.stdout + result.stderr
    assert "kernels run on the CPU" in result.stdout


def test_plugin_named_by_a_conftest(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tilewright.interpret"]\n')
    (tmp_path / "test_add.py").write_text(CUDA_ONLY_TEST)
    result = python("-m", "pytest", "test_add.py", cwd=tmp_path)
    assert "2 passed" in result.stdout, result.stdout + result.stderr


def test_importing_does_nothing():
    script = """
import os, sys
import tilewright, tilewright.interpret
assert not tilewright.interpret.enabled()
assert "TRITON_INTERPRET" not in os.environ
assert not {"torch", "triton", "ml_dtypes", "numpy"} & set(sys.modules)
"""
    result = python("-c", script)
    assert result.returncode == 0, result.stderr


def test_enabling_does_not_import_torch():
    script = """
import sys, tilewright.interpret
tilewright.interpret.enable()
tilewright.interpret.enable()
assert tilewright.interpret.enabled()
assert "torch" not in sys.modules
"""
    result = python("-c", script)
    assert result.returncode == 0, result.stderr


def test_too_late():
    script = """
import triton, tilewright.interpret
try:
    tilewright.interpret.enable()
except tilewright.interpret.InterpretError as error:
    print(error)
import os
assert "TRITON_INTERPRET" not in os.environ
assert not tilewright.interpret.enabled()
"""
    result = python("-c", script)
    assert result.returncode == 0, result.stderr
    assert "Triton was imported before tilewright.interpret.enable()" in result.stdout
    assert "TRITON_INTERPRET=1" in result.stdout


def test_triton_imported_interpreting_is_not_too_late():
    script = "import triton, tilewright.interpret as i; i.enable(); assert i.enabled()"
    result = python("-c", script, TRITON_INTERPRET="1")
    assert result.returncode == 0, result.stderr


def test_unknown_autotune_choice():
    result = python(
        "-c", "import tilewright.interpret as i; i.enable()", TILEWRIGHT_INTERPRET_AUTOTUNE="fastest"
    )
    assert result.returncode == 1
    assert "must be one of ('first', 'all'), found 'fastest'" in result.stderr


def test_missing_ml_dtypes():
    script = "import sys; sys.modules['ml_dtypes'] = None; import tilewright.interpret as i; i.enable()"
    result = python("-c", script)
    assert result.returncode == 1
    assert 'pip install "tilewright[interpret]"' in result.stderr
