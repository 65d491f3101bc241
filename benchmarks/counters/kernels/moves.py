"""Kernels that move data, count, or only compute where to go: transposes, atomics, division, odd loops."""

import triton
import triton.language as tl


@triton.jit
def transpose(x_ptr, y_ptr, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    """A tile through shared memory, written turned."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    x = tl.load(
        x_ptr + r[:, None].to(tl.int64) * columns + c[None, :],
        mask=(r[:, None] < rows) & (c[None, :] < columns),
    )
    y_at = y_ptr + c[:, None].to(tl.int64) * rows + r[None, :]
    tl.store(y_at, tl.trans(x), mask=(c[:, None] < columns) & (r[None, :] < rows))


@triton.jit
def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The sum of all elements, one atomic a program."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(y_ptr, tl.sum(x, 0), sem="relaxed")


@triton.jit
def scatter_max(x_ptr, y_ptr, n, bins, BLOCK: tl.constexpr):
    """Integer maxima into bins chosen by the index modulo their number."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_max(y_ptr + at % bins, x, mask=at < n, sem="relaxed")


@triton.jit
def histogram(x_ptr, y_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Counts of small integers in a block."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + at), BINS)
    tl.atomic_add(y_ptr + tl.arange(0, BINS), counts, sem="relaxed")


@triton.jit
def divide(y_ptr, n, a, b, BLOCK: tl.constexpr):
    """A copy whose places come from division and modulo by runtime values, lane by lane."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = at // a * a + (at % a + b) % a
    tl.store(y_ptr + place, at, mask=(at < n) & (place < n))


@triton.jit
def divide_wide(y_ptr, n, a, BLOCK: tl.constexpr):
    """Division of 64-bit integers by a runtime value decides how often a loop runs."""
    pid = tl.program_id(0).to(tl.int64)
    steps = (pid * 1000003 + 7) // a % 9
    total = tl.zeros((BLOCK,), tl.int32)
    for step in range(steps.to(tl.int32)):
        total += step
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, total, mask=at < n)


@triton.jit
def early_return(x_ptr, y_ptr, last, BLOCK: tl.constexpr):
    """Programs behind the last one return at once."""
    pid = tl.program_id(0)
    if pid > last:
        return
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * 2)


@triton.jit
def collatz(y_ptr, n, BLOCK: tl.constexpr):
    """A while loop whose length is a program's own; the inner loop runs backwards."""
    pid = tl.program_id(0)
    x = pid + 1
    steps = 0
    while x != 1:
        x = tl.where(x % 2 == 0, x // 2, 3 * x + 1)
        steps += 1
    total = tl.zeros((BLOCK,), tl.int32)
    for i in range(steps, -1, -3):
        for j in range(i % 4):
            total += i ^ j
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, total, mask=at < n)


@triton.jit
def gather_rows(x_ptr, y_ptr, rows, columns, step, BR: tl.constexpr, BC: tl.constexpr):
    """Rows in an order that a multiplication gives: uncoalesced along the rows."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    source = (r.to(tl.int64) * step) % rows
    keep = (r[:, None] < rows) & (c[None, :] < columns)
    x = tl.load(x_ptr + source[:, None] * columns + c[None, :], mask=keep)
    tl.store(y_ptr + r[:, None].to(tl.int64) * columns + c[None, :], x, mask=keep)


@triton.jit
def lane_loops(y_ptr, n, BLOCK: tl.constexpr):
    """Lanes of a warp loop differently often: lane l runs l % 5 + 1 times, then lanes below 7 once more."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %again, %few;
        .reg .b32 %left, %lane;
        mov.u32 %lane, %laneid;
        rem.u32 %left, %lane, 5;
        mov.u32 $0, 0;
        again_lanes:
        mad.lo.u32 $0, $0, 3, $1;
        xor.b32 $0, $0, %left;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %again, %left, 0;
        @%again bra again_lanes;
        setp.ge.u32 %few, %lane, 7;
        @%few bra done_lanes;
        mad.lo.u32 $0, $0, 5, 1;
        popc.b32 $0, $0;
        done_lanes:
        }""",
        "=r,r",
        [at],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def lane_branches(y_ptr, n, BLOCK: tl.constexpr):
    """Branches inside branches that lanes of a warp take differently, with a loop in one of them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %low, %odd, %more, %third;
        .reg .b32 %lane, %left, %rest;
        mov.u32 %lane, %laneid;
        mov.u32 $0, $1;
        setp.lt.u32 %low, %lane, 13;
        @!%low bra high_lanes;
        and.b32 %left, %lane, 1;
        setp.eq.u32 %odd, %left, 1;
        @%odd bra odd_lanes;
        mov.u32 %left, %lane;
        even_again:
        mad.lo.u32 $0, $0, 7, %left;
        sub.u32 %left, %left, 3;
        setp.gt.s32 %more, %left, 0;
        @%more bra even_again;
        bra.uni low_done;
        odd_lanes:
        popc.b32 %left, $0;
        mul.lo.u32 $0, $0, %left;
        low_done:
        xor.b32 $0, $0, 85;
        bra.uni all_done;
        high_lanes:
        rem.u32 %rest, %lane, 3;
        setp.eq.u32 %third, %rest, 0;
        @%third bra all_done;
        brev.b32 $0, $0;
        mad.lo.u32 $0, $0, 3, %rest;
        all_done:
        }""",
        "=r,r",
        [at],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(y_ptr + at, y, mask=at < n)
