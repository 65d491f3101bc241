"""A matrix product, masked: tensor instructions, copies into shared memory, wide loads and stores."""

import triton
import triton.language as tl


@triton.jit
def bias(c, bias_ptr, j):
    return c + tl.load(bias_ptr + j)[None, :]


@triton.jit
def product(a_ptr, b_ptr, c_ptr, bias_ptr, rows, depth, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, 32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in range(0, depth, 32):
        a = tl.load(a_ptr + i[:, None] * depth + (at + k)[None, :], mask=i[:, None] < rows, other=0.0)
        b = tl.load(b_ptr + (at + k)[:, None] * columns + j[None, :])
        acc = tl.dot(a, b, acc)
    c = tl.exp(bias(acc, bias_ptr, j) - tl.max(acc, 1)[:, None])
    tl.store(c_ptr + i[:, None] * columns + j[None, :], c, mask=i[:, None] < rows)
