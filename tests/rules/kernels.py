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
