"""bfloat16 and fp8, against torch's and ml_dtypes' own conversions."""

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]


@triton.jit
def cast_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n).to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def cast_toward_zero_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + i, mask=i < n).to(y_ptr.dtype.element_ty, fp_downcast_rounding="rtz")
    tl.store(y_ptr + i, y, mask=i < n)


def cast(x, dtype, kernel=cast_kernel):
    y = torch.empty(x.shape, dtype=dtype)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


def bits(x):
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.element_size()])


def all_bf16():
    return torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16)


def around_bf16_halfway():
    """Every bfloat16, the points halfway between neighbours, and their neighbours in fp32."""
    upper = torch.arange(0, 2**16, dtype=torch.int64)[:, None] << 16
    lower = torch.tensor([0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    values = (upper | lower).flatten().to(torch.uint32).view(torch.float32)
    return values[~values.isnan()]


def test_fp32_to_bf16_rounds_to_nearest_even():
    x = around_bf16_halfway()
    assert torch.equal(bits(cast(x, torch.bfloat16)), bits(x.to(torch.bfloat16)))


def test_fp32_to_bf16_toward_zero():
    x = around_bf16_halfway()
    kept = x.abs() < 3.38e38
    found = cast(x[kept], torch.bfloat16, cast_toward_zero_kernel)
    assert torch.equal(bits(found), (bits(x[kept]) >> 16).to(torch.int16))


def test_bf16_to_fp32_is_exact():
    x = all_bf16()
    assert torch.equal(cast(x, torch.float32).nan_to_num(7.0), x.float().nan_to_num(7.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.float64], ids=str)
def test_bf16_and_other_types(dtype):
    x = torch.linspace(-300, 300, 777).to(torch.bfloat16)
    assert torch.equal(cast(x, dtype), x.to(dtype))
    back = torch.linspace(-300, 300, 777).to(dtype)
    assert torch.equal(cast(back, torch.bfloat16), back.to(torch.float32).to(torch.bfloat16))


def test_nan_stays_nan():
    x = torch.tensor([float("nan"), -float("nan")])
    for dtype in (torch.bfloat16, *FP8):
        assert cast(x, dtype).float().isnan().all()


@pytest.mark.parametrize("dtype", FP8, ids=str)
@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_to_fp8_rounds_to_nearest_even_and_saturates(source, dtype):
    largest = torch.finfo(dtype).max
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    values = values[values.isfinite()].sort().values
    halfway = (values[1:] + values[:-1]) / 2
    x = torch.cat([values, halfway, halfway * 1.001, halfway * 0.999, torch.tensor([60000.0, -60000.0])])
    x = torch.cat([x.to(source), torch.tensor([torch.inf, -torch.inf]).to(source)])
    expected = x.float().clamp(-largest, largest).to(dtype)
    assert torch.equal(bits(cast(x, dtype)), bits(expected))


@pytest.mark.parametrize("dtype", FP8, ids=str)
@pytest.mark.parametrize("wide", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_from_fp8_is_exact(dtype, wide):
    x = torch.arange(256, dtype=torch.uint8).view(dtype)
    assert torch.equal(cast(x, wide).nan_to_num(7.0, 8.0, 9.0), x.to(wide).nan_to_num(7.0, 8.0, 9.0))


@pytest.mark.parametrize(
    ("triton_type", "numpy_type"),
    [("float8e4b8", ml_dtypes.float8_e4m3fnuz), ("float8e5b16", ml_dtypes.float8_e5m2fnuz)],
)
def test_fp8_of_amd(triton_type, numpy_type):
    """Read as bits, since torch may lack the type: no negative zero, NaN in its place."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    x = np.array([0.0, -0.0, 0.3, 1e-9, 3e5, -3e5, np.nan], np.float32)
    handle = InterpreterBuilder().create_fp_to_fp(TensorHandle(x, tl.float32), getattr(tl, triton_type), None)
    largest = float(ml_dtypes.finfo(numpy_type).max)
    expected = np.clip(x, -largest, largest).astype(numpy_type)
    assert handle.data.view(np.uint8).tolist() == expected.view(np.uint8).tolist()


def test_fp8e4b15_is_refused():
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    with pytest.raises(NotImplementedError, match="fp8e4b15 cannot be interpreted"):
        InterpreterBuilder().create_fp_to_fp(
            TensorHandle(np.ones(1, np.float32), tl.float32), tl.float8e4b15, None
        )


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    y = tl.load(y_ptr + i, mask=i < n, other=1.0)
    half = tl.full((BLOCK,), 0.5, x.dtype)
    tl.store(out_ptr + i, x + y, mask=i < n)
    tl.store(out_ptr + n + i, x - y, mask=i < n)
    tl.store(out_ptr + 2 * n + i, x * y, mask=i < n)
    tl.store(out_ptr + 3 * n + i, tl.maximum(x, y), mask=i < n)
    tl.store(out_ptr + 4 * n + i, tl.where(x < y, -x, tl.abs(y)), mask=i < n)
    tl.store(out_ptr + 5 * n + i, x * half + 2.0, mask=i < n)
    tl.store(out_ptr + 6 * n + i, (x / y).to(x.dtype), mask=i < n)


def test_bf16_arithmetic_rounds_every_operation():
    torch.manual_seed(0)
    x, y = torch.randn(2, 500).to(torch.bfloat16)
    out = torch.empty(7, 500, dtype=torch.bfloat16)
    arithmetic_kernel[(1,)](x, y, out, 500, BLOCK=512)
    expected = [
        x + y,
        x - y,
        x * y,
        torch.maximum(x, y),
        torch.where(x < y, -x, y.abs()),
        x * 0.5 + 2.0,
        x / y,
    ]
    for row, value in zip(out, expected, strict=True):
        assert torch.equal(row, value)


@triton.jit
def reduce_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + 0, tl.sum(x, 0).to(tl.float32))
    tl.store(out_ptr + 1, tl.max(x, 0).to(tl.float32))
    tl.store(out_ptr + 2, tl.argmin(x, 0).to(tl.float32))


def test_bf16_reductions():
    """1,024 ones: a sum kept in bfloat16 would stop at 256."""
    x = torch.ones(1024, dtype=torch.bfloat16)
    x[300] = 0.5
    out = torch.empty(3)
    reduce_kernel[(1,)](x, out, N=1024)
    assert out.tolist() == [1024.0, 1.0, 300.0]


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    c = tl.dot(tl.load(a_ptr + i * N + j), tl.load(b_ptr + i * N + j))
    tl.store(c_ptr + i * N + j, c)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, *FP8], ids=str)
def test_dot_accumulates_in_fp32(dtype):
    torch.manual_seed(0)
    a, b = torch.randn(2, 32, 32).to(dtype)
    c = torch.empty(32, 32)
    dot_kernel[(1,)](a, b, c, N=32)
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), atol=1e-5, rtol=1e-5)


@triton.jit
def atomic_kernel(x_ptr, old_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    old = tl.atomic_add(x_ptr + i % 2, tl.full((BLOCK,), 1.0, x_ptr.dtype.element_ty), mask=i < n)
    tl.store(old_ptr + i, old, mask=i < n)


def test_bf16_atomic_add():
    """Three programs, seven additions each, on two addresses; each element gets the value that it found."""
    x, old = torch.zeros(2, dtype=torch.bfloat16), torch.full((8,), -1.0, dtype=torch.bfloat16)
    atomic_kernel[(3,)](x, old, 7, BLOCK=8)
    assert x.tolist() == [12.0, 9.0]
    assert old.tolist() == [8, 6, 9, 7, 10, 8, 11, -1]


@triton.jit
def scaled_dot_kernel(a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    s = tl.arange(0, 32)[:, None]
    a, b = tl.load(a_ptr + i * 32 + j), tl.load(b_ptr + i * 32 + j)
    sa, sb = tl.load(sa_ptr + s), tl.load(sb_ptr + s)
    tl.store(c_ptr + i * 32 + j, tl.dot_scaled(a, sa, "e4m3", b, sb, "e4m3"))


def test_scaled_dot():
    torch.manual_seed(0)
    a, b = torch.randn(2, 32, 32).to(torch.float8_e4m3fn)
    sa, sb = torch.randint(120, 130, (2, 32, 1), dtype=torch.uint8)
    c = torch.empty(32, 32)
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        with pytest.raises(
            InterpreterError, match=r"dot_scaled is not interpreted by this Triton: use Triton 3\.9"
        ):
            scaled_dot_kernel[(1,)](a, sa, b, sb, c)
        return
    scaled_dot_kernel[(1,)](a, sa, b, sb, c)
    expected = (a.double() * 2.0 ** (sa.double() - 127)) @ (b.double() * 2.0 ** (sb.double() - 127).T)
    torch.testing.assert_close(c.double(), expected, atol=1e-4, rtol=1e-4)
