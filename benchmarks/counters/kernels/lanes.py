"""Kernels in which lanes of a warp part: loops, branches, exits and calls that depend on the lane alone.

Every path is known from the lane's number, so how often a warp issues each instruction can be worked out by hand. One
element a thread: the assembly stands once in the code.
"""

import triton
import triton.language as tl


@triton.jit
def _at(BLOCK: tl.constexpr):
    return tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def nested_loops(y_ptr, n, BLOCK: tl.constexpr):
    """Lane l runs l % 3 + 1 rounds; round r has (l + r) % 5 + 1 steps."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %more;
        .reg .b32 %lane, %rounds, %steps, %round;
        mov.u32 %lane, %laneid;
        rem.u32 %rounds, %lane, 3;
        mov.u32 %round, 0;
        mov.u32 $0, $1;
        next_round:
        add.u32 %steps, %lane, %round;
        rem.u32 %steps, %steps, 5;
        next_step:
        mad.lo.u32 $0, $0, 3, %steps;
        sub.u32 %steps, %steps, 1;
        setp.ge.s32 %more, %steps, 0;
        @%more bra next_step;
        add.u32 %round, %round, 1;
        setp.le.u32 %more, %round, %rounds;
        @%more bra next_round;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def loop_left_early(y_ptr, n, BLOCK: tl.constexpr):
    """A loop of 12 steps that lane l leaves in its middle after l % 7 steps, odd lanes skipping part of each step."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %leave, %skip, %more;
        .reg .b32 %lane, %last, %step, %odd;
        mov.u32 %lane, %laneid;
        rem.u32 %last, %lane, 7;
        and.b32 %odd, %lane, 1;
        setp.eq.u32 %skip, %odd, 1;
        mov.u32 %step, 0;
        mov.u32 $0, $1;
        again:
        mad.lo.u32 $0, $0, 5, %step;
        setp.eq.u32 %leave, %step, %last;
        @%leave bra left;
        @%skip bra skipped;
        popc.b32 %odd, $0;
        mad.lo.u32 $0, $0, %odd, 1;
        brev.b32 $0, $0;
        mad.lo.u32 $0, $0, 9, %odd;
        skipped:
        add.u32 %step, %step, 1;
        setp.lt.u32 %more, %step, 12;
        @%more bra again;
        left:
        xor.b32 $0, $0, 21;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def switch(y_ptr, n, BLOCK: tl.constexpr):
    """Four arms by l % 4, each with a loop of its own length, joined behind the last."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %is, %more;
        .reg .b32 %lane, %arm, %step;
        mov.u32 %lane, %laneid;
        and.b32 %arm, %lane, 3;
        mov.u32 $0, $1;
        mov.u32 %step, %lane;
        setp.eq.u32 %is, %arm, 1;
        @%is bra arm_one;
        setp.eq.u32 %is, %arm, 2;
        @%is bra arm_two;
        setp.eq.u32 %is, %arm, 3;
        @%is bra arm_three;
        arm_zero:
        mad.lo.u32 $0, $0, 3, %step;
        sub.u32 %step, %step, 8;
        setp.gt.s32 %more, %step, 0;
        @%more bra arm_zero;
        bra.uni joined;
        arm_one:
        popc.b32 $0, $0;
        mad.lo.u32 $0, $0, 7, %step;
        sub.u32 %step, %step, 5;
        setp.gt.s32 %more, %step, 0;
        @%more bra arm_one;
        bra.uni joined;
        arm_two:
        brev.b32 $0, $0;
        sub.u32 %step, %step, 11;
        setp.gt.s32 %more, %step, 0;
        @%more bra arm_two;
        bra.uni joined;
        arm_three:
        clz.b32 $0, $0;
        mad.lo.u32 $0, $0, 11, %lane;
        joined:
        xor.b32 $0, $0, 85;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def jump_table(y_ptr, n, BLOCK: tl.constexpr):
    """The same choice by an indirect branch."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .b32 %lane, %arm;
        mov.u32 %lane, %laneid;
        and.b32 %arm, %lane, 3;
        mov.u32 $0, $1;
        arms: .branchtargets arm_zero, arm_one, arm_two, arm_three;
        brx.idx %arm, arms;
        arm_zero:
        mad.lo.u32 $0, $0, 3, %lane;
        bra.uni joined;
        arm_one:
        popc.b32 $0, $0;
        mad.lo.u32 $0, $0, 7, %lane;
        bra.uni joined;
        arm_two:
        brev.b32 $0, $0;
        bra.uni joined;
        arm_three:
        clz.b32 $0, $0;
        mad.lo.u32 $0, $0, 11, %lane;
        joined:
        xor.b32 $0, $0, 85;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def exits(y_ptr, n, BLOCK: tl.constexpr):
    """Lanes with l % 3 = 2 exit; the others loop l % 4 + 1 times, lane 9 exits after its loop, the rest store."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %gone, %more;
        .reg .b32 %lane, %left;
        mov.u32 %lane, %laneid;
        rem.u32 %left, %lane, 3;
        setp.eq.u32 %gone, %left, 2;
        @%gone exit;
        and.b32 %left, %lane, 3;
        mov.u32 $0, $1;
        again:
        mad.lo.u32 $0, $0, 3, %left;
        popc.b32 $0, $0;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %more, %left, 0;
        @%more bra again;
        setp.eq.u32 %gone, %lane, 9;
        @%gone exit;
        xor.b32 $0, $0, 85;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def exits_in_branch(y_ptr, n, BLOCK: tl.constexpr):
    """Inside one arm of a branch some lanes loop and exit, so that the join waits for those that are left."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %high, %gone, %more;
        .reg .b32 %lane, %left;
        mov.u32 %lane, %laneid;
        mov.u32 $0, $1;
        setp.ge.u32 %high, %lane, 20;
        @%high bra high;
        and.b32 %left, %lane, 3;
        again:
        mad.lo.u32 $0, $0, 3, %left;
        popc.b32 $0, $0;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %more, %left, 0;
        @%more bra again;
        rem.u32 %left, %lane, 5;
        setp.eq.u32 %gone, %left, 1;
        @%gone exit;
        mad.lo.u32 $0, $0, %left, 3;
        bra.uni joined;
        high:
        brev.b32 $0, $0;
        mad.lo.u32 $0, $0, 3, %lane;
        brev.b32 $0, $0;
        mad.lo.u32 $0, $0, 5, %lane;
        joined:
        xor.b32 $0, $0, 85;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def warp_sync(y_ptr, n, BLOCK: tl.constexpr):
    """Lanes loop l % 5 + 1 times and meet at a barrier of the warp, even lanes at one of their own inside a branch."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %odd, %more;
        .reg .b32 %lane, %left;
        mov.u32 %lane, %laneid;
        mov.u32 $0, $1;
        rem.u32 %left, %lane, 5;
        again:
        mad.lo.u32 $0, $0, 3, %left;
        popc.b32 $0, $0;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %more, %left, 0;
        @%more bra again;
        bar.warp.sync 0xffffffff;
        and.b32 %left, %lane, 1;
        setp.eq.u32 %odd, %left, 1;
        @%odd bra odd_lanes;
        rem.u32 %left, %lane, 3;
        even_again:
        mad.lo.u32 $0, $0, 5, %left;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %more, %left, 0;
        @%more bra even_again;
        bar.warp.sync 0x55555555;
        brev.b32 $0, $0;
        bra.uni joined;
        odd_lanes:
        mad.lo.u32 $0, $0, 7, %lane;
        popc.b32 $0, $0;
        mad.lo.u32 $0, $0, 9, %lane;
        joined:
        xor.b32 $0, $0, 85;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def votes(y_ptr, n, BLOCK: tl.constexpr):
    """Votes, a match, a reduction and a shuffle across the warp, then a vote among the lanes below 13 alone."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %low, %some, %ok;
        .reg .b32 %lane, %third, %got;
        mov.u32 %lane, %laneid;
        rem.u32 %third, %lane, 3;
        setp.eq.u32 %some, %third, 0;
        vote.sync.ballot.b32 $0, %some, 0xffffffff;
        match.any.sync.b32 %got, %third, 0xffffffff;
        xor.b32 $0, $0, %got;
        redux.sync.add.s32 %got, %third, 0xffffffff;
        add.u32 $0, $0, %got;
        shfl.sync.down.b32 %got, $0, 3, 31, 0xffffffff;
        add.u32 $0, $0, %got;
        setp.lt.u32 %low, %lane, 13;
        @!%low bra joined;
        vote.sync.any.pred %ok, %some, 0x1fff;
        selp.b32 %got, 5, 9, %ok;
        mad.lo.u32 $0, $0, %got, $1;
        match.any.sync.b32 %got, %third, 0x1fff;
        mad.lo.u32 $0, $0, %got, 3;
        joined:
        xor.b32 $0, $0, 85;
        }""",
        "=&r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def active_lanes(y_ptr, n, BLOCK: tl.constexpr):
    """Every lane loops l % 5 + 1 times and keeps, mixed, which lanes were active with it in each step."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %more;
        .reg .b32 %left, %lanes;
        mov.u32 %left, %laneid;
        rem.u32 %left, %left, 5;
        mov.u32 $0, 0;
        again:
        activemask.b32 %lanes;
        mad.lo.u32 $0, $0, 31, %lanes;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %more, %left, 0;
        @%more bra again;
        activemask.b32 %lanes;
        mad.lo.u32 $0, $0, 31, %lanes;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def crossed_arms(y_ptr, n, BLOCK: tl.constexpr):
    """Two arms of which the first jumps into the middle of the second for some lanes: no block structure."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %high, %third, %more;
        .reg .b32 %lane, %rest;
        mov.u32 %lane, %laneid;
        mov.u32 $0, $1;
        rem.u32 %rest, %lane, 3;
        setp.eq.u32 %third, %rest, 0;
        setp.ge.u32 %high, %lane, 11;
        @%high bra high;
        mad.lo.u32 $0, $0, 3, %lane;
        popc.b32 $0, $0;
        @%third bra middle;
        mad.lo.u32 $0, $0, 5, %lane;
        brev.b32 $0, $0;
        bra.uni joined;
        high:
        mad.lo.u32 $0, $0, 7, %lane;
        clz.b32 $0, $0;
        middle:
        mad.lo.u32 $0, $0, 9, %rest;
        popc.b32 $0, $0;
        sub.u32 %rest, %rest, 1;
        setp.ge.s32 %more, %rest, 0;
        @%more bra middle;
        joined:
        xor.b32 $0, $0, 85;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def warp_loops(y_ptr, n, BLOCK: tl.constexpr):
    """All lanes of warp w loop w % 4 + 1 times: warps part, lanes do not."""
    at = _at(BLOCK)
    y = tl.inline_asm_elementwise(
        """{
        .reg .pred %more;
        .reg .b32 %left;
        mov.u32 %left, %tid.x;
        shr.u32 %left, %left, 5;
        and.b32 %left, %left, 3;
        mov.u32 $0, $1;
        again:
        mad.lo.u32 $0, $0, 3, %left;
        popc.b32 $0, $0;
        sub.u32 %left, %left, 1;
        setp.ge.s32 %more, %left, 0;
        @%more bra again;
        }""",
        "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def divisions(y_ptr, n, every, BLOCK: tl.constexpr):
    """Division rounded to nearest; lanes at multiples of `every` divide by a tiny number, which takes the slow path."""
    at = _at(BLOCK)
    tiny = (at % 32) % every == 0
    x = (at % 61 + 1).to(tl.float32)
    d = tl.where(tiny, 1e-39, 3.0).to(tl.float32)
    tl.store(y_ptr + at, tl.math.div_rn(x, d), mask=at < n)


@triton.jit
def roots(y_ptr, n, every, BLOCK: tl.constexpr):
    """Square roots rounded to nearest; lanes at multiples of `every` take that of a tiny number."""
    at = _at(BLOCK)
    x = tl.where((at % 32) % every == 0, 1e-39, (at % 61 + 1).to(tl.float32)).to(tl.float32)
    tl.store(y_ptr + at, tl.math.sqrt_rn(x), mask=at < n)


@triton.jit
def wide_divisions(y_ptr, n, every, BLOCK: tl.constexpr):
    """Division in fp64; lanes at multiples of `every` divide by a tiny number."""
    at = _at(BLOCK)
    x = (at % 61 + 1).to(tl.float64)
    d = tl.where((at % 32) % every == 0, (at % 3 + 1).to(tl.float64) * 1e-310, 3.0)
    tl.store(y_ptr + at, x / d, mask=at < n)


@triton.jit
def sines_of_some(y_ptr, n, every, BLOCK: tl.constexpr):
    """sin: lanes at multiples of `every` of a large argument, the others of a small one."""
    at = _at(BLOCK)
    x = tl.where((at % 32) % every == 0, 1e6, 1.0) * (at % 61 + 1).to(tl.float32)
    tl.store(y_ptr + at, tl.sin(x), mask=at < n)


@triton.jit
def some_atomics(y_ptr, n, every, BLOCK: tl.constexpr):
    """Atomic additions with a result, from lanes at multiples of `every` alone."""
    at = _at(BLOCK)
    some = (at % 32) % every == 0
    old = tl.atomic_add(y_ptr + at // 64, at % 7, mask=some & (at < n), sem="relaxed")
    tl.store(y_ptr + 100_000 + at, tl.where(old >= 0, at, 0), mask=at < n)
