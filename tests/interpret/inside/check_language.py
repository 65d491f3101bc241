"""What a kernel's Python sees: loops over every kind of bound, scalar arguments, pointers, no numpy noise."""

import warnings

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError


@triton.jit
def loops_kernel(out_ptr, n, start_ptr, N: tl.constexpr):
    count = 0
    for _ in range(N):
        count += 1
    for _ in range(n):
        count += 10
    for _ in range(0, tl.cdiv(n, 2), 1):
        count += 100
    for _ in tl.static_range(N):
        count += 1000
    first = tl.load(start_ptr)
    for i in range(first, first + n, 2):
        count += tl.cast(i, tl.int32) * 10000
    tl.store(out_ptr, count)


def test_loop_bounds():
    """A constexpr, an argument, a value computed from it, a loaded value."""
    out = torch.zeros(1, dtype=torch.int32)
    loops_kernel[(1,)](out, 5, torch.tensor([2], dtype=torch.int32), N=3)
    assert out.item() == 3 + 50 + 300 + 3000 + (2 + 4 + 6) * 10000


@triton.jit
def scalars_kernel(out_ptr, scale, flag):
    value = scale.to(tl.float32) * 2.0
    if flag:
        value += 100.0
    tl.store(out_ptr, value)


@pytest.mark.parametrize("flag", [False, True])
def test_scalar_arguments_are_tensors(flag):
    """As in a compiled kernel: `scale.to` exists, and 0.1 is fp32's 0.1."""
    out = torch.zeros(1)
    scalars_kernel[(1,)](out, 0.1, flag)
    assert out.item() == (torch.tensor(0.1) * 2 + 100 * flag).item()


@triton.jit
def quiet_kernel(out_ptr):
    i = tl.arange(0, 4)
    x = tl.load(out_ptr + i)
    tl.store(out_ptr + i, tl.exp(x) / (x - x))


def test_inf_and_nan_without_warnings():
    out = torch.tensor([1e9, -1e9, 0.0, float("-inf")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet_kernel[(1,)](out)
    assert out[0] == torch.inf
    assert out[1].isnan()


@triton.jit
def failing_kernel(out_ptr):
    tl.static_assert(False, "this kernel does not want to run")


def test_errors_name_their_cause():
    with pytest.raises(InterpreterError, match="this kernel does not want to run"):
        failing_kernel[(1,)](torch.zeros(1))


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, n, N: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, shape=(n,), strides=(1,), offsets=(0,), block_shape=(N,), order=(0,))
    for _ in range(tl.cdiv(n, N)):
        x = tl.load(block, boundary_check=(0,), padding_option="nan")
        block = tl.advance(block, (N,))
    tl.store(out_ptr + tl.arange(0, N), x)


@pytest.mark.skipif(triton.__version__ >= "3.9", reason="block pointers: needs Triton 3.6 or 3.7")
def test_block_pointers_pad_bf16_with_nan():
    x, out = torch.arange(6).to(torch.bfloat16), torch.zeros(4, dtype=torch.bfloat16)
    block_pointer_kernel[(1,)](x, out, 6, N=4)
    assert out[:2].tolist() == [4.0, 5.0]
    assert out[2:].isnan().all()


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, n_rows, n_cols, N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[n_rows, n_cols], strides=[n_cols, 1], block_shape=[N, N])
    out = tl.make_tensor_descriptor(out_ptr, shape=[n_rows, n_cols], strides=[n_cols, 1], block_shape=[N, N])
    tile = tl.program_id(0) * N
    out.store([tile, 0], x.load([tile, 0]) * 2.0)


def test_tensor_descriptors_of_bf16():
    x = torch.randn(20, 16).to(torch.bfloat16)
    out = torch.zeros_like(x)
    descriptor_kernel[(2,)](x, out, 20, 16, N=16)
    assert torch.equal(out, x * 2)
