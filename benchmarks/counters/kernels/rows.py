"""Kernels that work on rows: softmax, layer normalisation, elementwise functions, random numbers."""

import triton
import triton.language as tl


@triton.jit
def softmax_row(x_ptr, y_ptr, stride, columns, BLOCK: tl.constexpr):
    """One program a row, the row in one block."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * stride + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def softmax_online(x_ptr, y_ptr, stride, columns, BLOCK: tl.constexpr):
    """One program a row, in steps of BLOCK columns, twice over the row."""
    row = tl.program_id(0).to(tl.int64)
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        new = tl.maximum(most, x)
        total = total * tl.exp(most - new) + tl.exp(x - new)
        most = new
    top = tl.max(most, 0)
    scale = 1.0 / tl.sum(total * tl.exp(most - top), 0)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + row * stride + at, tl.exp(x - top) * scale, mask=at < columns)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    """Mean and variance over a row in steps, then the normalised row."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 0) / columns
    scale = 1.0 / tl.sqrt(tl.sum(squares, 0) / columns - mean * mean + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        keep = at < columns
        x = tl.load(x_ptr + row * stride + at, mask=keep, other=0.0).to(tl.float32)
        w, b = tl.load(w_ptr + at, mask=keep), tl.load(b_ptr + at, mask=keep)
        tl.store(y_ptr + row * stride + at, (x - mean) * scale * w + b, mask=keep)


@triton.jit
def dropout(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Random numbers by Philox: 32-bit high multiplies."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    keep = tl.rand(seed, at) > p
    tl.store(y_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=at < n)


@triton.jit
def sines(y_ptr, n, step, BLOCK: tl.constexpr):
    """sin of arguments that a lane computes: with a large step some lanes take the slow path."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.sin(at.to(tl.float32) * step), mask=at < n)


@triton.jit
def doubles(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Arithmetic in fp64, without division."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x * x * 0.5 + x, mask=at < n)


@triton.jit
def running_sum(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    """Cumulative sum of a row, through an associative scan."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * stride + at, tl.cumsum(tl.load(x_ptr + row * stride + at), 0))


@triton.jit
def sort_row(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    """A bitonic sort of a row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * stride + at, tl.sort(tl.load(x_ptr + row * stride + at)))
