"""Kernels whose lanes part, whose predicates are packed and whose bounds are spilled, with marks to tell them apart.

A mark is a NANOSLEEP with a number of its own.
"""

import triton
import triton.language as tl

MARKS_17 = tl.constexpr("nanosleep.u32 17; mov.b32 $0, $1;")
MARKS_18 = tl.constexpr("nanosleep.u32 18; mov.b32 $0, $1;")
MARKS_19 = tl.constexpr("nanosleep.u32 19; mov.b32 $0, $1;")
MARKS_20 = tl.constexpr("nanosleep.u32 20; mov.b32 $0, $1;")
LOOP = tl.constexpr(
    "{ .reg .pred p; .reg .s32 i; mov.b32 i, 0; setp.ge.s32 p, i, $1; @p bra DONE;"
    " NEXT: nanosleep.u32 17; add.s32 i, i, 1; setp.lt.s32 p, i, $1; @p bra NEXT;"
    " DONE: mov.b32 $0, i; }"
)
EITHER = tl.constexpr(
    "{ .reg .pred p; setp.lt.s32 p, $1, 0; @p bra LESS; nanosleep.u32 18; nanosleep.u32 18; bra.uni DONE;"
    " LESS: nanosleep.u32 19; nanosleep.u32 19; nanosleep.u32 19; DONE: nanosleep.u32 20; mov.b32 $0, $1; }"
)
NESTED = tl.constexpr(
    "{ .reg .pred p, q; .reg .s32 i; mov.b32 i, 0;"
    " OUTER: setp.ge.s32 p, i, $1; @p bra DONE;"
    " xor.b32 $0, i, $2; and.b32 $0, $0, 3; setp.eq.s32 q, $0, 0; @q bra THIS;"
    " nanosleep.u32 21; nanosleep.u32 21; bra.uni JOIN; THIS: nanosleep.u32 22; nanosleep.u32 22;"
    " JOIN: add.s32 i, i, 1; nanosleep.u32 23; bra.uni OUTER; DONE: nanosleep.u32 24; mov.b32 $0, i; }"
)


@triton.jit
def run(x, asm: tl.constexpr):
    return tl.inline_asm_elementwise(asm, "=&r,r", [x], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit(do_not_specialize=["a", "b"])
def loop(x_ptr, a, b):
    """Each lane loops as often as it says."""
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.store(x_ptr + at, run((at * a + b) % 13 - 3, LOOP))


@triton.jit(do_not_specialize=["a", "b"])
def either(x_ptr, a, b):
    """Lanes take one of two ways and meet again."""
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.store(x_ptr + at, run(at * a + b, EITHER))


@triton.jit(do_not_specialize=["a", "b"])
def nested(x_ptr, a, b):
    """Lanes part inside a loop that they leave at different times."""
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    n = (at * a + b) % 9 - 3
    found = tl.inline_asm_elementwise(NESTED, "=&r,r,r", [n, at], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(x_ptr + at, found)


@triton.jit(do_not_specialize=["a", "b", "n"])
def masks(x_ptr, a, b, n):
    """More masks than there are predicate registers; one of them depends on what is loaded."""
    lane = tl.program_id(0) * 128 + tl.arange(0, 128)
    m0 = lane * a < b
    m1 = (lane * 3 + a) % 7 < 3
    m2 = (lane ^ a) & 5 == 1
    m3 = lane + b > 2 * a
    m4 = (lane * b) & 31 > a
    m5 = lane % 11 == a % 11
    m6 = (lane | a) < (b | 3)
    m7 = (lane - a) * (lane - b) < 0
    m8 = lane > b - a
    for i in range(n):
        x = x_ptr + i * 65536 + lane
        y = tl.load(x)
        tl.store(x + 1024, y, mask=m0)
        tl.store(x + 2048, y + 1, mask=m1 & (y != 1))
        tl.store(x + 3072, y, mask=m2)
        tl.store(x + 4096, y, mask=m3)
        tl.store(x + 5120, y, mask=m4)
        tl.store(x + 6144, y, mask=m5)
        tl.store(x + 7168, y, mask=m6)
        tl.store(x + 8192, y, mask=m7)
        tl.store(x + 9216, y, mask=m8)


@triton.jit(do_not_specialize=["a", "b", "n"])
def spilled(x_ptr, a, b, n):
    """Bounds and conditions that live across more values than there are registers."""
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + at)
    p = tl.program_id(0)
    b0 = (a + p) // b
    b1 = (a + p) % b
    b2 = (a * 7 + p) // (b + 3) & 15
    b3 = tl.minimum(b0, b1) & 7
    c0 = b0 > b1
    c1 = (b2 > 5) & (b3 < 4)
    c2 = a + p > 60
    c3 = (b1 & 1) == 0
    t = 0
    for i in range(n):
        x = x * x + tl.load(x_ptr + at + i * 4096)
        for _ in range(b0 & 7):
            t = run(t, MARKS_17)
        for _ in range(b1 & 7):
            t = run(t, MARKS_18)
        if c0:
            x += tl.load(x_ptr + at + i * 64)
            for _ in range(b2):
                t = run(t, MARKS_19)
        if c1:
            x = x * 3 + 1
            t = run(t, MARKS_20)
        if c2:
            x = x * 5 + x
            t = run(t, MARKS_20)
        if c3:
            x = x * 5 + x
            for _ in range(b3):
                t = run(t, MARKS_20)
    tl.store(x_ptr + at, x)


@triton.jit(do_not_specialize=["a", "b", "c", "d", "e"])
def narrow(x_ptr, a: tl.int8, b: tl.int8, c: tl.int16, d: tl.uint8, e: tl.int1):
    """Arguments of one and two bytes, side by side."""
    t = 0
    for _ in range(a.to(tl.int32)):
        t = run(t, MARKS_17)
    for _ in range(b.to(tl.int32)):
        t = run(t, MARKS_18)
    for _ in range(c.to(tl.int32)):
        t = run(t, MARKS_19)
    for _ in range(d.to(tl.int32)):
        t = run(t, MARKS_20)
    if e:
        t = run(t, MARKS_20)
    tl.store(x_ptr, t)


@triton.jit(do_not_specialize=["a", "b"])
def reduced(x_ptr, a, b):
    """A bound that is the largest value of all lanes, and one that is their sum."""
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    value = (at * a + b) % 17
    t = 0
    for _ in range(tl.max(value, 0)):
        t = run(t, MARKS_17)
    for _ in range(tl.sum(value, 0) & 31):
        t = run(t, MARKS_18)
    tl.store(x_ptr, t)


BALLOT = tl.constexpr("{ .reg .pred p; setp.gt.s32 p, $1, 5; vote.sync.ballot.b32 $0, p, -1; }")
ANY = tl.constexpr(
    "{ .reg .pred p, q; setp.gt.s32 p, $1, 14; vote.sync.any.pred q, p, -1; selp.b32 $0, 21, 9, q; }"
)
EVERY = tl.constexpr(
    "{ .reg .pred p, q; setp.gt.s32 p, $1, -9; vote.sync.all.pred q, p, -1; selp.b32 $0, 21, 9, q; }"
)
TOTAL = tl.constexpr("redux.sync.add.s32 $0, $1, -1;")
LEAST = tl.constexpr("redux.sync.min.s32 $0, $1, -1;")
MOST = tl.constexpr("redux.sync.max.u32 $0, $1, -1;")
JOINED = tl.constexpr("redux.sync.or.b32 $0, $1, -1;")
BUTTERFLY = tl.constexpr("shfl.sync.bfly.b32 $0, $1, 5, 0x1f, -1;")
ABOVE = tl.constexpr("shfl.sync.up.b32 $0, $1, 3, 0x0, -1;")
BELOW = tl.constexpr("shfl.sync.down.b32 $0, $1, 9, 0x1f, -1;")
CHOSEN = tl.constexpr("shfl.sync.idx.b32 $0, $1, 2, 0x181f, -1;")


@triton.jit
def keep(x_ptr, at, value):
    """One store, in the lanes where a bit that the lane chooses is set, so that its bytes tell the value."""
    tl.store(x_ptr + at, value, mask=((value >> (at & 7)) & 1) == 1)


@triton.jit(do_not_specialize=["a", "b"])
def together(x_ptr, a, b):
    """Votes, reductions and exchanges between the lanes of a warp."""
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    value = (at * a + b) % 17
    keep(x_ptr, at, run(value, BALLOT))
    keep(x_ptr + 1024, at, run(value, ANY))
    keep(x_ptr + 2048, at, run(value, EVERY))
    keep(x_ptr + 3072, at, run(value, TOTAL))
    keep(x_ptr + 4096, at, run(value, LEAST))
    keep(x_ptr + 5120, at, run(value, MOST))
    keep(x_ptr + 6144, at, run(value, JOINED))
    keep(x_ptr + 7168, at, run(value, BUTTERFLY))
    keep(x_ptr + 8192, at, run(value, ABOVE))
    keep(x_ptr + 9216, at, run(value, BELOW))
    keep(x_ptr + 10240, at, run(value, CHOSEN))


@triton.jit
def until_none_is_left(x_ptr, n):
    """A search in a sorted array: the loop ends where no lane of any warp has a span left."""
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    wanted = tl.load(x_ptr + at)
    low = tl.zeros((256,), tl.int32)
    left = low + n
    while tl.max(left) > 0:
        middle = low + left // 2
        found = tl.load(x_ptr + middle, mask=middle < n, other=0)
        low = tl.where(found < wanted, middle + 1, low)
        left = left // 2
    tl.store(x_ptr + at, low)
