"""Kernels that a rule finds something in, each beside one in which it does not."""

import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, BLOCK: tl.constexpr, STEP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at * STEP))


@triton.jit
def multiply(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + at + k[None, :])
        b = tl.load(b_ptr + j[None, :] * K + at + k[:, None])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + tl.program_id(0) * M * N + i[:, None] * N + j[None, :], acc)


@triton.jit
def count_values(x_ptr, y_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(y_ptr + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def gather(x_ptr, y_ptr, width, stride, STEPS: tl.constexpr, BLOCK: tl.constexpr, DIVIDE: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        at = (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        if DIVIDE:
            at = at // width * stride + at % width
        total += tl.load(x_ptr + at)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def sum_rows(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr):
    lanes = tl.arange(0, BLOCK).to(tl.int64) if WIDE else tl.arange(0, BLOCK)
    x_ptr += tl.program_id(0).to(tl.int64) * n * stride
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = (start + lanes) * stride
        if EVEN:
            total += tl.load(x_ptr + at)
        else:
            total += tl.load(x_ptr + at, mask=start + lanes < n, other=0.0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def sum_all(x_ptr, y_ptr, BLOCK: tl.constexpr, FIRST: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if FIRST:
        tl.atomic_add(y_ptr, tl.sum(x))
    else:
        tl.atomic_add(y_ptr + tl.arange(0, BLOCK) // BLOCK, x)
