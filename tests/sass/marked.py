"""Kernels that mark what they do: each `mark` is one reduction into memory, so its executions can be told apart.

With one warp a program, the executed RED instructions of a launch are the marks of all its programs.
"""

import triton
import triton.language as tl


@triton.jit
def mark(out_ptr):
    tl.atomic_add(out_ptr, 1, sem="relaxed")


@triton.jit
def counted_loop(out_ptr, start, stop, step):
    """A loop with bounds and a step that are arguments."""
    for _ in range(start + tl.program_id(0), stop, step):
        mark(out_ptr)


@triton.jit
def backward_loop(out_ptr, start, stop):
    """A loop that counts down by three."""
    for _ in range(start, stop - tl.program_id(0), -3):
        mark(out_ptr)


@triton.jit
def triangle(out_ptr, n, m):
    """Nested loops, the inner one as long as the outer one's index allows."""
    for i in range(n):
        for j in range(i + tl.program_id(0), m):
            if (i ^ j) & 1 == 0:
                mark(out_ptr)


@triton.jit
def divided(out_ptr, a, b):
    """Division and modulo of 32-bit integers by an argument."""
    x = a + tl.program_id(0)
    for _ in range(x // b & 7):
        mark(out_ptr)
    for _ in range(x % b & 7):
        mark(out_ptr)


@triton.jit
def divided_wide(out_ptr, a, b):
    """Division and modulo of 64-bit integers by an argument."""
    x = a + tl.program_id(0).to(tl.int64)
    b = b + tl.full((), 0, tl.int64)
    for _ in range((x // b & 7).to(tl.int32)):
        mark(out_ptr)
    for _ in range((x % b & 7).to(tl.int32)):
        mark(out_ptr)


@triton.jit
def persistent(out_ptr, tiles, group, last):
    """Tiles in groups, taken in turn by the programs; programs behind the last leave at once."""
    if tl.program_id(0) > last:
        return
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        first = tile // group * group
        size = min(tiles - first, group)
        for _ in range(tile % size + 1):
            mark(out_ptr)


@triton.jit
def bits(out_ptr, a, b):
    """Shifts, logic, least and largest, absolute values; 32 bits, signed and unsigned."""
    x = a ^ tl.program_id(0)
    b = b + tl.full((), 0, tl.int32)
    for _ in range(tl.minimum(tl.abs(x), 9)):
        mark(out_ptr)
    for _ in range((x >> 3 | b << 2) & 5):
        mark(out_ptr)
    for _ in range(tl.maximum(b & ~x, -4) + 4 & 7):
        mark(out_ptr)
    if x.to(tl.uint32, bitcast=True) > b.to(tl.uint32, bitcast=True):
        mark(out_ptr)
    if (x < b) & (x != 5) | (b >= 0) & (x * b > 100):
        mark(out_ptr)


@triton.jit
def wide(out_ptr, a, b):
    """64-bit sums, products, comparisons and a loop over 64-bit bounds."""
    a = a + tl.full((), 0, tl.int64)
    b = b + tl.full((), 0, tl.int64)
    x = a * 3 - b + tl.program_id(0)
    if x > a:
        mark(out_ptr)
    if x.to(tl.uint64, bitcast=True) <= b.to(tl.uint64, bitcast=True):
        mark(out_ptr)
    for _ in range(a, a + (x & 7)):
        mark(out_ptr)


@triton.jit
def searched(out_ptr, n):
    """A while loop: the integer square root of n + program, by halving."""
    low = 0
    high = n + tl.program_id(0) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if middle.to(tl.int64) * middle <= n + tl.program_id(0):
            low = middle
        else:
            high = middle
        mark(out_ptr)


@triton.jit
def loaded(out_ptr, bound_ptr):
    """A bound that is in memory."""
    bound = tl.load(bound_ptr)
    for _ in range(bound):
        mark(out_ptr)


@triton.jit
def by_number(out_ptr, limit):
    """A loop that a floating-point value ends."""
    x = 1.0
    while x < limit:
        x = x * 1.5 + 0.25
        mark(out_ptr)


@triton.jit
def axes(out_ptr, n):
    """All three axes of the grid decide."""
    for _ in range(tl.program_id(0) * 2 + tl.program_id(1) * 3 + tl.program_id(2) - n):
        mark(out_ptr)
