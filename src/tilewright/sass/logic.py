"""Rules for predicates, votes, lane exchange, and the floating-point steps of integer division."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewright.sass.decode import Effect, Operands, State, predicate_reader, rule
from tilewright.sass.operands import Immediate, RegisterOperand, Special
from tilewright.sass.operands import Register as Reg
from tilewright.sass.values import (
    ALL_BITS,
    FALSE,
    FALSE_FLAG,
    TRUE,
    Array,
    Flag,
    Value,
    Word,
    all_bits,
    lanes_unknown,
    unknown_flag,
    unknown_word,
    word,
)

COMPARE: dict[str, Any] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


@rule("ISETP", "UISETP")
def _isetp(ops: Operands) -> Effect:
    relation = ops.one_of(*COMPARE)
    kind = ops.one_of("U32", "S32", "U64", "S64", default="S32")
    join = ops.one_of("AND", "OR", "XOR")
    extended = ops.flagged("EX")
    ops.no_more_modifiers()
    first, second = ops.destination(), ops.destination()
    a, b = (ops.pair() if kind.endswith("64") else (ops.word(),) for _ in range(2))
    other = ops.predicate()
    below = ops.predicate() if extended else None
    ops.end()

    def compute(state: State) -> tuple[Flag, Flag]:
        x, y = [r(state) for r in a], [r(state) for r in b]
        left, right = _number(x, kind), _number(y, kind)
        q = other(state)
        sources: list[Value] = [*x, *y, q]
        if below is None:
            found = COMPARE[relation](left, right)
        else:
            low = below(state)
            sources.append(low)
            found = _extended(relation, left, right, low.bits)
        return joined(join, found, q, sources)

    return Effect((first, second), compute)


def _number(words: list[Word], kind: str) -> Array:
    bits = words[0].bits
    if len(words) == 2:
        bits = bits.astype(np.uint64) | (words[1].bits.astype(np.uint64) << np.uint64(32))
    return bits.view(f"i{bits.dtype.itemsize}") if kind.startswith("S") else bits


def _extended(relation: str, left: Array, right: Array, low: Array) -> Array:
    """Compare the high words, with what comparing the low words gave."""
    equal = left == right
    if relation in ("EQ", "NE"):
        return equal & low if relation == "EQ" else ~equal | low
    strict = COMPARE["LT" if relation in ("LT", "LE") else "GT"](left, right)
    return strict | (equal & low)


def joined(join: str, found: Array, other: Flag, sources: list[Value]) -> tuple[Flag, Flag]:
    one, two = (_join(join, f, other.bits) for f in (found, ~found))
    lanes, cause = lanes_unknown(*sources)
    if lanes is None:
        return Flag(one), Flag(two)
    # What a known predicate settles alone is known: false AND anything, true OR anything.
    if join != "XOR" and (other.unknown is None or not other.unknown.any()):
        settled = ~other.bits if join == "AND" else other.bits
        lanes = lanes & ~settled
    marks = lanes if lanes.any() else None
    return Flag(one, marks, cause), Flag(two, marks, cause)


def _join(join: str, a: Array, b: Array) -> Array:
    return a & b if join == "AND" else a | b if join == "OR" else a ^ b


@rule("PLOP3", "UPLOP3")
def _plop3(ops: Operands) -> Effect:
    if not ops.flagged("LUT"):
        raise ops.fail("expected LUT")
    ops.no_more_modifiers()
    first, second = ops.destination(), ops.destination()
    a, b, c = ops.predicate(), ops.predicate(), ops.predicate()
    table, _ = ops.integer(), ops.integer()
    ops.end()
    if second.number is not None:
        raise ops.fail("its second result is not understood")

    def compute(state: State) -> tuple[Flag, Flag]:
        return _lookup((a(state), b(state), c(state)), table), FALSE_FLAG

    return Effect((first, second), compute)


def _lookup(flags: tuple[Flag, Flag, Flag], table: int) -> Flag:
    choices = [(f.bits,) if f.unknown is None else (f.bits & ~f.unknown, f.bits | f.unknown) for f in flags]
    low: Any = TRUE
    high: Any = FALSE
    for x in choices[0]:
        for y in choices[1]:
            for z in choices[2]:
                bits: Any = FALSE
                for row in range(8):
                    if table >> row & 1:
                        bits = bits | (
                            (x if row & 4 else ~x) & (y if row & 2 else ~y) & (z if row & 1 else ~z)
                        )
                low, high = low & bits, high | bits
    marks = low ^ high
    cause = next((f.cause for f in flags if f.unknown is not None), None)
    return Flag(low, marks if marks.any() else None, cause)


@rule("P2R", "UP2UR")
def _p2r(ops: Operands) -> Effect:
    """Pack predicates into the bits that the mask names; the other bits come from the register operand."""
    byte = ops.one_of("B1", "B2", "B3", default="B0")
    ops.no_more_modifiers()
    into = ops.destination()
    source = ops.take()
    if not isinstance(source, Special) or source.name not in ("PR", "UPR"):
        raise ops.fail("expected the predicates")
    rest, mask = ops.word(), ops.integer()
    ops.end()
    bank = "P" if ops.opcode == "P2R" else "UP"
    shift = 8 * int(byte[1])
    places = [n for n in range(7) if mask >> n & 1]
    if mask >> 7:
        raise ops.fail("its mask is not understood")

    def compute(state: State) -> tuple[Word]:
        base = rest(state)
        clear = np.uint32(~(mask << shift) & 0xFFFFFFFF)
        bits: Any = base.bits & clear
        marks: Any = np.uint32(0) if base.unknown is None else base.unknown & clear
        cause = base.cause
        for n in places:
            value = state.read(Reg(bank, n))
            assert isinstance(value, Flag)
            bits = bits | (value.bits.astype(np.uint32) << np.uint32(n + shift))
            if value.unknown is not None:
                marks = marks | (value.unknown.astype(np.uint32) << np.uint32(n + shift))
                cause = cause or value.cause
        return (Word(bits, None, marks if np.any(marks) else None, cause),)

    return Effect((into,), compute)


@rule("R2P", "UR2UP")
def _r2p(ops: Operands) -> Effect:
    ops.no_more_modifiers()
    target = ops.take()
    if not isinstance(target, Special) or target.name not in ("PR", "UPR"):
        raise ops.fail("expected the predicates")
    found = ops.take()
    shift = 0
    if isinstance(found, RegisterOperand) and found.suffixes and found.suffixes[0] in ("B1", "B2", "B3"):
        shift = 8 * int(found.suffixes[0][1])
        found = RegisterOperand(found.register)
    source, mask = ops.reader(found), ops.integer()
    ops.end()
    bank = "P" if ops.opcode == "R2P" else "UP"
    places = [n for n in range(7) if mask >> n & 1]

    def compute(state: State) -> list[Flag]:
        value = source(state)
        flags = []
        for n in places:
            bit = np.uint32(1 << (n + shift))
            marks = None if value.unknown is None else (value.unknown & bit) != 0
            flags.append(Flag((value.bits & bit) != 0, marks if np.any(marks) else None, value.cause))
        return flags

    return Effect(tuple(Reg(bank, n) for n in places), compute)


Across: TypeAlias = Callable[[State, Array], Sequence[Value]]
"""Computes values from what all lanes of a warp hold, given those that take part, of shape (.., .., 32)."""


def _across_lanes(ops: Operands, writes: tuple[Reg, ...], compute: Across) -> Effect:
    """Return the effect of an instruction whose result depends on which lanes execute it, its guard included."""
    guard = ops.instruction.guard if ops.instruction.conditional else None
    reader = None if guard is None else predicate_reader(guard)

    def run(state: State) -> Sequence[Value]:
        active = np.ones((1, 1, 32), bool) if state.active is None else state.active
        if reader is not None:
            found = reader(state)
            if found.unknown is not None and bool((found.unknown & active).any()):
                cause = found.cause or state.here("which lanes take part is not known")
                return [unknown_flag(cause) if r.is_predicate else unknown_word(cause) for r in writes]
            active = active & found.bits
        return compute(state, np.broadcast_to(active, np.broadcast_shapes(active.shape, (1, 1, 32))))

    return Effect(writes, run)


@rule("VOTE", "VOTEU")
def _vote(ops: Operands) -> Effect:
    kind = ops.one_of("ALL", "ANY", "EQ")
    ops.no_more_modifiers()
    into = [] if ops.peek_predicate() else [ops.destination()]
    predicates = ops.destinations(1)
    source = ops.predicate()
    ops.end()
    if kind == "EQ" and any(p.number is not None for p in predicates):
        raise ops.fail("a vote on equality is not understood")

    def compute(state: State, active: Array) -> list[Value]:
        value = source(state)
        bits = active & value.bits
        unknown = None if value.unknown is None else active & value.unknown
        found: list[Value] = []
        if into:
            found.append(Word(ballot(bits), None, None if unknown is None else ballot(unknown), value.cause))
        if predicates:
            sure = bits if unknown is None else bits & ~unknown
            maybe = bits if unknown is None else bits | unknown
            low, high = (
                (s.any(2, keepdims=True) if kind == "ANY" else (s | ~active).all(2, keepdims=True))
                for s in (sure, maybe)
            )
            marks = low ^ high
            found.append(Flag(low, marks if marks.any() else None, value.cause))
        return found

    return _across_lanes(ops, (*into, *predicates), compute)


def ballot(bits: Array) -> Array:
    """Put each warp's lanes into the bits of one word: (programs, warps, 32 or 1 for all alike) -> (..., 1)."""
    if bits.shape[2] == 1:
        return np.where(bits, ALL_BITS, np.uint32(0))
    return np.packbits(bits, axis=2, bitorder="little").view("<u4")


@rule("ELECT")
def _elect(ops: Operands) -> Effect:
    ops.no_more_modifiers()
    first = ops.destination()
    others = [] if not ops.left else [ops.destination()]
    if ops.left:
        ops.predicate()
    ops.end()
    if any(r.number is not None for r in others):
        raise ops.fail("the number of the elected lane is not understood")
    if ops.instruction.operands[-1] != RegisterOperand(Reg("P", None)) and len(ops.instruction.operands) > 2:
        raise ops.fail("its last predicate is not understood")

    def compute(state: State, active: Array) -> list[Value]:
        chosen = active & (np.cumsum(active, axis=2) == 1)
        return [Flag(chosen), *[Word(np.zeros((1, 1, 1), np.uint32))] * len(others)]

    return _across_lanes(ops, (first, *others), compute)


@rule("SHFL")
def _shfl(ops: Operands) -> Effect:
    """Exchange between lanes; the last operand holds the clamp and the width, as in PTX's shfl."""
    mode = ops.one_of("IDX", "UP", "DOWN", "BFLY")
    ops.no_more_modifiers()
    valid = ops.destination()
    into = ops.destination()
    source, which, clamp = ops.word(), ops.word(), ops.take()
    ops.end()
    if valid.number is not None:
        raise ops.fail("its predicate is not understood")
    if not isinstance(clamp, Immediate):
        if not (isinstance(clamp, RegisterOperand) and clamp.register.number is None):
            raise ops.fail("its clamp is not understood")
        limits = 0
    else:
        limits = clamp.value

    def compute(state: State, active: Array) -> tuple[Word]:
        value, offset = source(state), which(state)
        lane = np.arange(32, dtype=np.int64)[None, None, :]
        segment = np.int64(limits >> 8 & 0x1F)
        bound = np.int64(limits & 0x1F)
        least = lane & segment
        most = least | (bound & ~segment)
        step = (offset.bits & np.uint32(0x1F)).astype(np.int64)
        if mode == "UP":
            target = lane - step
            inside = target >= most
        elif mode == "DOWN":
            target, inside = lane + step, lane + step <= most
        elif mode == "BFLY":
            target, inside = lane ^ step, (lane ^ step) <= most
        else:
            target = least | (step & ~segment)
            inside = target <= most
        target = np.where(inside, target, lane)
        bits = np.broadcast_to(value.bits, np.broadcast_shapes(value.bits.shape, target.shape))
        target = np.broadcast_to(target, np.broadcast_shapes(bits.shape, target.shape))
        bits = np.broadcast_to(bits, target.shape)
        found = np.take_along_axis(bits, target, 2)
        active = np.broadcast_to(active, np.broadcast_shapes(active.shape, target.shape))
        absent = ~np.take_along_axis(active, np.broadcast_to(target, active.shape), 2)
        marks = np.where(absent, ALL_BITS, np.uint32(0))
        if value.unknown is not None:
            wide = np.broadcast_shapes(value.unknown.shape, target.shape)
            source_marks = np.broadcast_to(value.unknown, wide)
            marks = marks | np.take_along_axis(source_marks, np.broadcast_to(target, wide), 2)
        lanes, cause = lanes_unknown(offset)
        if lanes is not None:
            marks = marks | all_bits(lanes)
        if not marks.any():
            return (Word(found),)
        return (
            Word(found, None, marks, value.cause or cause or state.here("a lane that is not active is read")),
        )

    return _across_lanes(ops, (valid, into), lambda state, active: (FALSE_FLAG, *compute(state, active)))


# The steps of an integer division by a number that is not constant: an estimate in floating point, then corrections
# in integers. So the estimate need only be what the hardware's is to within what the corrections mend: tests compare
# quotients with exact division, over all magnitudes.


@rule("I2F", "I2FP", "UI2F", "UI2FP")
def _i2f(ops: Operands) -> Effect:
    ops.flagged("F32")
    kind = ops.one_of("U32", "S32", "U64", default="S32")
    up = ops.flagged("RP")
    ops.no_more_modifiers()
    if kind == "U64" and not up:
        raise ops.fail("a conversion of 64 bits that rounds to nearest is not understood")
    into = ops.destination()
    source = ops.pair() if kind == "U64" else (ops.word(),)
    ops.end()

    def compute(state: State) -> tuple[Word]:
        words = [read(state) for read in source]
        near = _up_from_64(words) if kind == "U64" else _from_32(words[0], kind == "U32", up)
        return (word(near.view(np.uint32), *words),)

    return Effect((into,), compute)


def _from_32(value: Word, unsigned: bool, up: bool) -> Array:
    exact = value.bits.astype(np.float64) if unsigned else value.bits.view(np.int32).astype(np.float64)
    near = exact.astype(np.float32)
    if up:
        near = np.where(near.astype(np.float64) < exact, np.nextafter(near, np.float32(np.inf)), near)
    return np.asarray(near, np.float32)


def _up_from_64(words: list[Word]) -> Array:
    """Round a 64-bit number up to 24 bits, which float32 then holds exactly."""
    value = words[0].bits.astype(np.uint64) | (words[1].bits.astype(np.uint64) << np.uint64(32))
    length = np.where(value >> np.uint64(32) != 0, 64, 32)
    for step in (16, 8, 4, 2, 1):
        shorter = length - step
        length = np.where(value >> shorter.astype(np.uint64) == 0, shorter, length)
    drop = np.maximum(length - 24, 0).astype(np.uint64)
    kept = value >> drop
    kept = kept + ((kept << drop) != value)
    return np.asarray(np.ldexp(kept.astype(np.float64), drop.astype(np.int64)), np.float32)


@rule("MUFU", "UMUFU")
def _mufu(ops: Operands) -> Effect:
    """The reciprocal of a whole number, as integer division starts from; hardware's is off in its last bit or two."""
    if not ops.flagged("RCP"):
        raise ops.fail("only the reciprocal is understood")
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()

    def compute(state: State) -> tuple[Word]:
        value = source(state)
        number = value.bits.view(np.float32)
        with np.errstate(all="ignore"):
            found = np.asarray(np.float32(1) / number, np.float32).view(np.uint32)
            whole = np.isfinite(number) & (number >= 0) & (np.trunc(number) == number)
        if bool(whole.all()):
            return (word(found, value),)
        inexact = Word(found, None, np.where(whole, np.uint32(0), ALL_BITS), state.here(_INEXACT))
        return (word(found, value, inexact),)

    return Effect((into,), compute)


_INEXACT = "the reciprocal of a fraction is not exact, and only hardware knows its last bits"


@rule("F2I", "UF2I")
def _f2i(ops: Operands) -> Effect:
    ops.flagged("FTZ")
    kind = ops.one_of("U32", "S32", "U64", default="S32")
    if not ops.flagged("TRUNC"):
        raise ops.fail("only truncation is understood")
    # What a NaN becomes: 0 only where NTZ says so.
    zero = ops.flagged("NTZ")
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()
    least, most = {"U32": (0, 2**32 - 1), "S32": (-(2**31), 2**31 - 1), "U64": (0, 2**64 - 1)}[kind]

    def compute(state: State) -> list[Word]:
        value = source(state)
        number = value.bits.view(np.float32)
        nan = np.isnan(number)
        with np.errstate(all="ignore"):
            exact = np.trunc(np.where(nan, np.float32(0), number).astype(np.float64))
            inside = (exact >= least) & (exact < float(most) + (0 if kind == "U64" else 1))
            limit = np.where(exact < least, np.uint64(least & _ALL_64), np.uint64(most))
            whole = exact.astype(np.uint64) if kind != "S32" else exact.astype(np.int64).view(np.uint64)
            whole = np.where(inside, whole, limit)
        sources: list[Value] = [value]
        if not zero and nan.any():
            sources.append(Word(value.bits, None, np.where(nan, ALL_BITS, np.uint32(0)), state.here(_NAN)))
        halves = (whole & np.uint64(0xFFFFFFFF), whole >> np.uint64(32))[: 2 if kind == "U64" else 1]
        return [word(half.astype(np.uint32), *sources) for half in halves]

    return Effect((into, into.next()) if kind == "U64" else (into,), compute)


_NAN = "a NaN is made a whole number"
_ALL_64 = (1 << 64) - 1


@rule("REDUX", "CREDUX")
def _redux(ops: Operands) -> Effect:
    """A reduction over the active lanes into a uniform register."""
    kind = ops.one_of("SUM", "MIN", "MAX", "OR", "AND", "XOR", default="AND")
    signed = ops.flagged("S32")
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()
    if kind not in ("SUM", "MIN", "MAX", "OR"):
        raise ops.fail("this reduction is not understood")

    def compute(state: State, active: Array) -> tuple[Word]:
        value = source(state)
        bits = value.bits.view(np.int32).astype(np.int64) if signed else value.bits.astype(np.int64)
        bits, active = np.broadcast_arrays(bits, active)
        if kind == "SUM" or kind == "OR":
            chosen = np.where(active, bits, 0)
            found = (
                chosen.sum(2, keepdims=True) if kind == "SUM" else np.bitwise_or.reduce(chosen, 2)[:, :, None]
            )
        else:
            edge = np.iinfo(np.int64).max if kind == "MIN" else np.iinfo(np.int64).min
            chosen = np.where(active, bits, edge)
            found = (chosen.min if kind == "MIN" else chosen.max)(2, keepdims=True)
        lanes = None if value.unknown is None else ((value.unknown != 0) & active).any(2, keepdims=True)
        return (Word((found & 0xFFFFFFFF).astype(np.uint32), None, all_bits(lanes), value.cause),)

    return _across_lanes(ops, (into,), compute)


@rule("SYNCS")
def _syncs(ops: Operands) -> Effect:
    """Only the wait on an mbarrier, which is taken to succeed at once."""
    if not (ops.flagged("PHASECHK") and ops.flagged("TRANS64")):
        if ops.instruction.writes:
            raise ops.fail("its result is not understood")
        return Effect((), lambda state: ())
    ops.flagged("TRYWAIT")
    ops.no_more_modifiers()
    into = ops.destination()

    def compute(state: State) -> tuple[Flag]:
        state.assume("waits on mbarriers succeed at once")
        return (Flag(TRUE),)

    return Effect((into,), compute)


@rule("USETMAXREG")
def _usetmaxreg(ops: Operands) -> Effect:
    """A warp group gives registers back, or asks for more, which is taken to succeed at once."""
    into = [r.register for r in ops.left if isinstance(r, RegisterOperand) and r.register.is_predicate]

    def compute(state: State) -> list[Flag]:
        state.assume("registers are free when a warp group asks for more")
        return [Flag(TRUE)] * len(into)

    return Effect(tuple(into), compute)


@rule("UTCATOMSWS")
def _utcatomsws(ops: Operands) -> Effect:
    """The allocation of tensor memory, which is taken to succeed at once; where it lies is not known."""
    if not ops.flagged("FIND_AND_SET"):
        raise ops.fail("its result is not understood")
    success, place = ops.destination(), ops.destination()

    def compute(state: State) -> list[Value]:
        state.assume("tensor memory is free when a program asks for it")
        return [
            Flag(TRUE),
            unknown_word(state.here("where tensor memory is allocated is known only on hardware")),
        ]

    return Effect((success, place), compute)
