"""Both weighted row sums against plain PyTorch, on a GPU or, with `-p tilewright.interpret`, on the CPU.

pytest -p tilewright.interpret cases/row_sum/test_row_sum.py
"""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
sys.path.append(str(HERE))
from row_sum_reference import launch, weighted_row_sum  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU, or -p tilewright.interpret"
)


def load_kernel(file_name):
    """Load by path: other cases have a module `kernel` too."""
    spec = importlib.util.spec_from_file_location(f"row_sum_{Path(file_name).stem}", HERE / file_name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.weighted_row_sum_kernel


def kernels():
    yield pytest.param(load_kernel("kernel.py"), id="pointers")
    try:
        yield pytest.param(load_kernel("kernel_block_pointers.py"), id="block pointers")
    except ImportError as error:
        skip = pytest.mark.skip(reason=str(error))
        yield pytest.param(None, id="block pointers (needs Triton 3.6 or 3.7)", marks=skip)


@pytest.fixture(params=list(kernels()))
def kernel(request):
    return request.param


@pytest.mark.parametrize("n_cols", [0, 1, 63, 64, 100, 200])
@pytest.mark.parametrize("n_rows", [0, 1, 63, 100])
def test_shapes(kernel, n_rows, n_cols):
    torch.manual_seed(n_rows * 1000 + n_cols)
    x, w = torch.randn(n_rows, n_cols, device="cuda"), torch.randn(n_cols, device="cuda")
    torch.testing.assert_close(launch(kernel, x, w), weighted_row_sum(x, w), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_half_precision(kernel, dtype):
    """Products and sums are in fp32: the result is the reference, rounded once."""
    torch.manual_seed(0)
    x, w = torch.randn(33, 100, device="cuda").to(dtype), torch.rand(100, device="cuda").to(dtype)
    torch.testing.assert_close(launch(kernel, x, w), weighted_row_sum(x, w), atol=1e-4, rtol=2**-7)


def test_strided_inputs(kernel):
    """Every stride other than what contiguous inputs have: a transposed slice of x, every third weight."""
    x, w = torch.randn(150, 80, device="cuda")[10:110:2, 1::2].T, torch.randn(150, device="cuda")[::3]
    assert x.stride() == (2, 160)
    torch.testing.assert_close(launch(kernel, x, w), weighted_row_sum(x, w), atol=1e-4, rtol=1e-4)


def test_nothing_beyond_the_edges_is_read(kernel):
    """NaN all around the part that is passed in."""
    x, w = torch.full((40, 90), torch.nan, device="cuda"), torch.full((90,), torch.nan, device="cuda")
    x[:35, :70], w[:70] = 1.0, 2.0
    assert torch.equal(launch(kernel, x[:35, :70], w[:70]), torch.full((35,), 140.0, device="cuda"))


def test_refuses_weights_of_another_length(kernel):
    with pytest.raises(ValueError, match=r"x must be \(rows, cols\) and w \(cols,\)"):
        launch(kernel, torch.ones(4, 5, device="cuda"), torch.ones(4, device="cuda"))
