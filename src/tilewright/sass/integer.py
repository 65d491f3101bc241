"""Rules for integer arithmetic, logic, shifts and moves.

Semantics: the PTX ISA's for the operations that these instructions implement (add.cc, mad.wide, shf, lop3, bfe,
prmt, ...), checked against known counts and against readings of real kernels; each form that is not listed here
is not understood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.sass.decode import Effect, Operands, State, WordReader, rule
from tilewright.sass.operands import Constant, FloatImmediate, Register, RegisterOperand, Special
from tilewright.sass.values import (
    ALL_BITS,
    FALSE_FLAG,
    Array,
    Flag,
    Value,
    Word,
    add,
    all_bits,
    carries,
    constant,
    flag,
    invert,
    join_bits,
    lanes_unknown,
    largest,
    merge_words,
    multiply,
    negate,
    word,
)


def _signed(bits: Array) -> Array:
    return bits.view(np.int32)


def _wide(bits: Array, signed: bool) -> Array:
    """Extend 32 bits to 64, kept as uint64."""
    return bits.view(np.int32).astype(np.int64).view(np.uint64) if signed else bits.astype(np.uint64)


def _halves(bits: Array, *sources: Value) -> list[Word]:
    low = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return [word(low, *sources), word((bits >> np.uint64(32)).astype(np.uint32), *sources)]


def _plus_flag(total: Word, carry: Flag) -> Word:
    bits = carry.bits.astype(np.uint32)
    lanes, cause = lanes_unknown(carry)
    return add(total, Word(bits, None, all_bits(lanes), cause))


@rule("MOV", "UMOV")
def _mov(ops: Operands) -> Effect:
    ops.flagged("SPILL")
    wide = ops.flagged("64")
    ops.no_more_modifiers()
    into = ops.destination()
    if wide:
        low, high = ops.pair()
        ops.end()
        return Effect((into, into.next()), lambda state: (low(state), high(state)))
    if isinstance(ops.left[0], FloatImmediate):
        raise ops.fail("a floating-point number in a move is not understood")
    source = ops.word()
    # Some targets print a mask of the bytes that are moved.
    if len(ops.left) == 1 and ops.integer() != 0xF:
        raise ops.fail("a partial move is not understood")
    ops.end()
    return Effect((into,), lambda state: (source(state),))


@rule("R2UR")
def _r2ur(ops: Operands) -> Effect:
    for same in ("OR", "FILL"):
        ops.flagged(same)
    ops.no_more_modifiers()
    written = ops.destinations(1)
    if written and written[0].number is not None:
        raise ops.fail("its predicate is not understood")
    into = ops.destination()
    source = ops.word()
    ops.end()
    return Effect(
        (*written, into), lambda state: (*[FALSE_FLAG] * len(written), uniform(state, source(state)))
    )


def uniform(state: State, value: Word) -> Word:
    """Return a value that all active lanes of a warp share as one of shape (programs, warps, 1)."""
    bits, unknown = value.bits, value.unknown
    if bits.shape[2] == 1 and (unknown is None or unknown.shape[2] == 1):
        return value
    bits, unknown, differs = _first_active(state, bits, unknown)
    lanes = np.where(differs, ALL_BITS, unknown)
    if not lanes.any():
        return Word(bits)
    return Word(bits, None, lanes, value.cause or state.here("lanes of a warp disagree on a uniform value"))


def _first_active(state: State, bits: Array, unknown: Array | None) -> tuple[Array, Array, Array]:
    active = np.ones((1, 1, 32), bool) if state.active is None else state.active
    active, bits = np.broadcast_arrays(active, bits)
    first = np.argmax(active, axis=2)[:, :, None]
    one = np.take_along_axis(bits, first, 2)
    differs = ((bits != one) & active).any(2, keepdims=True)
    none = np.zeros((1, 1, 1), np.uint32)
    marks = none if unknown is None else np.where(active, unknown, np.uint32(0))
    marks = np.bitwise_or.reduce(marks, axis=2, keepdims=True)
    return one, marks, differs


@rule("S2R", "S2UR", "CS2R")
def _special(ops: Operands) -> Effect:
    words = 1
    if ops.opcode == "CS2R":
        words = 1 if ops.flagged("32") else 2
    ops.no_more_modifiers()
    into = ops.destination()
    source = ops.take()
    ops.end()
    if not isinstance(source, Special):
        raise ops.fail("expected a special register")
    name = source.name
    if words == 2 and name != "SRZ":
        raise ops.fail("a 64-bit special register is not understood")
    registers = (into, into.next())[:words]
    return Effect(registers, lambda state: [state.special(name)] * words)


@rule("LDC", "ULDC", "LDCU")
def _constant(ops: Operands) -> Effect:
    if (narrow := ops.one_of("U8", "S8", "U16", "S16", default="")) != "":
        return _narrow_constant(ops, narrow[0] == "S", int(narrow[1:]))
    count = {"32": 1, "64": 2, "128": 4}[ops.one_of("64", "128", default="32")]
    ops.no_more_modifiers()
    into = ops.destination()
    source = ops.take()
    ops.end()
    registers = tuple(into.next(i) for i in range(count))
    if not isinstance(source, Constant):
        raise ops.fail("expected a constant")
    bank, offset = source.bank, source.offset
    if source.index is not None and source.index.register.number is not None:
        if source.index.suffixes:
            raise ops.fail("a constant at a computed place has a form that is not understood")
        at = ops.reader(source.index)
        return Effect(
            registers,
            lambda state: [state.constant_at(bank, at(state), offset + 4 * i) for i in range(count)],
        )
    return Effect(registers, lambda state: [state.constant_word(bank, offset + 4 * i) for i in range(count)])


def _narrow_constant(ops: Operands, signed: bool, bits: int) -> Effect:
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.take()
    ops.end()
    if not isinstance(source, Constant) or source.index is not None:
        raise ops.fail("expected a constant at a fixed place")
    bank, offset = source.bank, source.offset & ~3
    shift = np.uint32(8 * (source.offset & 3))
    rest = np.uint32(32 - bits)

    def run(word: Array) -> Array:
        top = (word >> shift) << rest
        return (top.view(np.int32) >> np.int32(rest)).view(np.uint32) if signed else top >> rest

    def compute(state: State) -> tuple[Word]:
        value = state.constant_word(bank, offset)
        marks = None if value.unknown is None else run(value.unknown)
        return (Word(run(value.bits), None, marks, value.cause),)

    return Effect((into,), compute)


@rule("IMAD", "UIMAD")
def _imad(ops: Operands) -> Effect:
    if ops.flagged("MOV"):
        ops.flagged("U32")
        ops.no_more_modifiers()
        into = ops.destination()
        for _ in range(2):
            if ops.take() not in (
                RegisterOperand(Register("R", None)),
                RegisterOperand(Register("UR", None)),
            ):
                raise ops.fail("a move that multiplies is not understood")
        source = ops.word()
        ops.end()
        return Effect((into,), lambda state: (source(state),))
    if ops.flagged("WIDE"):
        return _imad_wide(ops, high_only=False)
    if ops.flagged("HI"):
        return _imad_wide(ops, high_only=True)
    for same in ("IADD", "SHL", "U32"):
        ops.flagged(same)
    extended = ops.flagged("X")
    ops.no_more_modifiers()
    into = ops.destination()
    if ops.peek_predicate():
        raise ops.fail("a carry out of a multiply-add is not understood")
    a, b, c = ops.word(), ops.word(), ops.word()
    carry = ops.predicate() if extended else None
    ops.end()

    def compute(state: State) -> tuple[Word]:
        total = add(multiply(a(state), b(state)), c(state))
        return (total if carry is None else _plus_flag(total, carry(state)),)

    return Effect((into,), compute)


def _imad_wide(ops: Operands, high_only: bool) -> Effect:
    signed = not ops.flagged("U32")
    extended = ops.flagged("X")
    ops.no_more_modifiers()
    into = ops.destination()
    carry_outs = ops.destinations(1)
    a, b = ops.word(), ops.word()
    addend = ops.left[0] if ops.left else None
    negative = isinstance(addend, RegisterOperand) and addend.negative
    if negative and isinstance(addend, RegisterOperand):
        ops.left[0] = RegisterOperand(addend.register, suffixes=addend.suffixes)
    low, high = ops.pair()
    carry_in = ops.predicate() if extended else None
    ops.end()
    if (signed or negative) and (extended or any(r.number is not None for r in carry_outs)):
        raise ops.fail("a carry of a signed multiply-add is not understood")

    def compute(state: State) -> list[Value]:
        x, y, below, above = a(state), b(state), low(state), high(state)
        if not (high_only or carry_outs or carry_in or negative):
            small = _wide_in_parts(x, y, below, above, signed)
            if small is not None:
                return [*small]
        sources: list[Value] = [x, y, below, above]
        product = _wide(x.bits, signed) * _wide(y.bits, signed)
        third = below.bits.astype(np.uint64) | (above.bits.astype(np.uint64) << np.uint64(32))
        total = product - third if negative else product + third
        over: Array = total < product
        if carry_in is not None:
            more = carry_in(state)
            sources.append(more)
            before, total = total, total + more.bits.astype(np.uint64)
            over = over | (total < before)
        halves = _halves(total, *sources)[1 if high_only else 0 :]
        return [*halves, *(flag(over, *sources) for _ in carry_outs)]

    words = (into,) if high_only else (into, into.next())
    return Effect((*words, *carry_outs), compute)


def _wide_in_parts(a: Word, b: Word, low: Word, high: Word, signed: bool) -> list[Word] | None:
    """a * b + (high, low) in parts, where the product keeps below 2**31 and nothing carries; else None."""
    if b.lane_part is not None or b.part.size != 1:
        a, b = b, a
    if b.lane_part is not None or b.part.size != 1 or (a.lane_part is None and low.lane_part is None):
        return None
    factor = int(b.part.flat[0])
    if factor >= 1 << 31 or largest(a) * max(factor, 1) >= 1 << 31:
        return None
    product = multiply(a, b)
    over, _ = carries([product, low])
    if over.any():
        return None
    lanes, cause = lanes_unknown(a, b, low, high)
    total = add(product, low)
    return [
        Word(total.part, total.lane_part, all_bits(lanes), cause),
        Word(high.part, high.lane_part, all_bits(lanes), cause),
    ]


@rule("IADD3", "UIADD3", "IADD", "VIADD")
def _iadd(ops: Operands) -> Effect:
    extended, wide = ops.flagged("X"), ops.flagged("64")
    ops.no_more_modifiers()
    into = ops.destination()
    carry_outs = ops.destinations(2)
    if wide:
        return _iadd_64(ops, into, carry_outs)
    terms = [ops.signed_word() for _ in range(3 if ops.opcode.endswith("IADD3") else 2)]
    ins = []
    while ops.left:
        ins.append(ops.predicate())
    if (ins and not extended) or len(ins) > 2:
        raise ops.fail("its carries are not understood")

    def compute(state: State) -> list[Value]:
        flat: list[Word] = []
        for negative, read in terms:
            # The carry out of a - b is that of a + ~b + 1.
            value = read(state)
            flat += (
                [invert(value), _ONE] if negative and carry_outs else [negate(value) if negative else value]
            )
        total = flat[0]
        for w in flat[1:]:
            total = add(total, w)
        flags = [read(state) for read in ins]
        for f in flags:
            total = _plus_flag(total, f)
        if not carry_outs:
            return [total]
        plus = [Word(f.bits.astype(np.uint32)) for f in flags]
        outs = carries([*flat, *plus])
        return [total, *(flag(out, *flat, *flags) for out in outs[: len(carry_outs)])]

    return Effect((into, *carry_outs), compute)


_ONE = constant(1)


def _iadd_64(ops: Operands, into: Register, carry_outs: list[Register]) -> Effect:
    if any(r.number is not None for r in carry_outs):
        raise ops.fail("a carry out of a 64-bit addition is not understood")
    pairs = []
    while ops.left:
        found = ops.left[0]
        negative = isinstance(found, RegisterOperand) and found.negative
        if negative and isinstance(found, RegisterOperand):
            ops.left[0] = RegisterOperand(found.register, suffixes=found.suffixes)
        pairs.append((negative, *ops.pair()))

    def compute(state: State) -> list[Value]:
        total: Any = np.uint64(0)
        used: list[Word] = []
        in_parts = _sum_64_in_parts(state, pairs)
        if in_parts is not None:
            return [*in_parts, *[FALSE_FLAG] * len(carry_outs)]
        for negative, low, high in pairs:
            a, b = low(state), high(state)
            used += [a, b]
            value = a.bits.astype(np.uint64) | (b.bits.astype(np.uint64) << np.uint64(32))
            total = total - value if negative else total + value
        return [*_halves(total, *used), *[FALSE_FLAG] * len(carry_outs)]

    return Effect((into, into.next(), *carry_outs), compute)


def _sum_64_in_parts(state: State, pairs: list[tuple[bool, WordReader, WordReader]]) -> list[Word] | None:
    if any(negative for negative, _, _ in pairs):
        return None
    lows = [low(state) for _, low, _ in pairs]
    highs = [high(state) for _, _, high in pairs]
    over, twice = carries(lows)
    if over.size > 1 or twice.size > 1:
        return None
    total, upper = lows[0], highs[0]
    for w in lows[1:]:
        total = add(total, w)
    for w in highs[1:]:
        upper = add(upper, w)
    if over.any():
        upper = add(upper, constant(2 if twice.any() else 1))
    lanes, cause = lanes_unknown(*lows, *highs)
    if lanes is None:
        return [total, upper]
    return [Word(w.part, w.lane_part, all_bits(lanes), cause) for w in (total, upper)]


@rule("LEA", "ULEA")
def _lea(ops: Operands) -> Effect:
    high, extended, sign = ops.flagged("HI"), ops.flagged("X"), ops.flagged("SX32")
    ops.no_more_modifiers()
    into = ops.destination()
    carry_outs = ops.destinations(1)
    if carry_outs and any(isinstance(o, RegisterOperand | Constant) and o.negative for o in ops.left):
        raise ops.fail("a carry out of a subtraction is not understood here")
    a, b = ops.word(), ops.word()
    upper = ops.word() if high and not sign else None
    shift = ops.integer() & 31
    carry = ops.predicate() if extended else None
    if not extended and ops.peek_predicate() and ops.take() != _NOT_TRUE:
        raise ops.fail("its carry is not understood")
    ops.end()

    def compute(state: State) -> list[Value]:
        x, y = a(state), b(state)
        sources: list[Word] = [x, y]
        if high:
            if not sign and upper is not None and largest(x) < 1 << (32 - shift):
                above = upper(state)
                sources.append(above)
                lanes, cause = lanes_unknown(*sources)
                shifted = multiply(above, constant(1 << shift))
                return finish(
                    state, Word(shifted.part, shifted.lane_part, all_bits(lanes), cause), y, sources
                )
            if sign:
                top = (_signed(x.bits) >> 31).view(np.uint32)
            else:
                assert upper is not None
                above = upper(state)
                sources.append(above)
                top = above.bits
            lanes, cause = lanes_unknown(*sources)
            bits = (top << np.uint32(shift)) | (x.bits >> np.uint32(32 - shift) if shift else np.uint32(0))
            shifted = Word(bits.astype(np.uint32), None, all_bits(lanes), cause)
        else:
            shifted = multiply(x, constant(1 << shift))
        return finish(state, shifted, y, sources)

    def finish(state: State, shifted: Word, y: Word, sources: list[Word]) -> list[Value]:
        total = add(shifted, y)
        flags = [carry(state)] if carry is not None else []
        for f in flags:
            total = _plus_flag(total, f)
        if not carry_outs:
            return [total]
        plus = [Word(f.bits.astype(np.uint32)) for f in flags]
        over, _ = carries([shifted, y, *plus])
        return [total, flag(over, *sources, *flags)]

    return Effect((into, *carry_outs), compute)


_NOT_TRUE = RegisterOperand(Register("P", None), inverted=True)
_NOT_TRUE_UNIFORM = RegisterOperand(Register("UP", None), inverted=True)


@rule("SHF", "USHF")
def _shf(ops: Operands) -> Effect:
    left = ops.one_of("L", "R") == "L"
    wrap = ops.flagged("W")
    kind = ops.one_of("U32", "S32", "U64", "S64", default="U32")
    take_high = ops.flagged("HI")
    ops.no_more_modifiers()
    into = ops.destination()
    low, amount, high = ops.word(), ops.word(), ops.word()
    ops.end()
    most = int(kind[1:])

    def compute(state: State) -> tuple[Word]:
        a, n, b = low(state), amount(state), high(state)
        fixed = n.part.size == 1 and n.lane_part is None and n.unknown is None and a.unknown is None
        if fixed and left and not take_high and kind == "U32" and int(n.part.flat[0]) < 32:
            return (multiply(a, constant(1 << int(n.part.flat[0]))),)
        by = n.bits & np.uint32(most - 1) if wrap else np.minimum(n.bits, np.uint32(most))
        return (_shifted(a, n, b, by.astype(np.uint64), left, kind[0] == "S", take_high),)

    return Effect((into,), compute)


def _shifted(
    low: Word, amount: Word, high: Word, n: Array, left: bool, signed: bool, take_high: bool
) -> Word:
    """Shift the 64 bits of high and low by n, and return one of their halves."""

    def run(a: Array, b: Array) -> Array:
        value = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
        small = np.minimum(n, np.uint64(63))
        if left:
            moved = np.where(n >= 64, np.uint64(0), value << small)
        elif signed:
            moved = (value.view(np.int64) >> small.view(np.int64)).view(np.uint64)
        else:
            moved = np.where(n >= 64, np.uint64(0), value >> small)
        moved = moved >> np.uint64(32) if take_high else moved
        return (moved & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    bits = run(low.bits, high.bits)
    if low.unknown is None and high.unknown is None and amount.unknown is None:
        return Word(bits)
    if amount.unknown is not None:
        return word(bits, low, amount, high)
    zero = np.zeros((1, 1, 1), np.uint32)
    marks = run(zero if low.unknown is None else low.unknown, zero if high.unknown is None else high.unknown)
    return Word(bits, None, marks, low.cause or high.cause)


@rule("SGXT", "USGXT")
def _sgxt(ops: Operands) -> Effect:
    unsigned, wrap = ops.flagged("U32"), ops.flagged("W")
    ops.no_more_modifiers()
    into = ops.destination()
    source = ops.word()
    # nvdisasm 12.8 prints another bank, and U32 where there is none, for a number of bits in a constant bank.
    if ops.left and isinstance(ops.left[0], Constant):
        raise ops.fail("a number of bits in a constant bank is not understood")
    count = ops.word()
    ops.end()

    def run(bits: Array, length: Array) -> Array:
        n = length & np.uint32(31) if wrap else np.minimum(length, np.uint32(32))
        gone = (np.uint32(32) - n).astype(np.uint64)
        top = ((bits.astype(np.uint64) << gone) & np.uint64(ALL_BITS)).astype(np.uint32)
        if unsigned:
            return (top.astype(np.uint64) >> gone).astype(np.uint32)
        return (top.view(np.int32).astype(np.int64) >> gone.astype(np.int64)).astype(np.uint32)

    def compute(state: State) -> tuple[Word]:
        value, length = source(state), count(state)
        bits = run(value.bits, length.bits)
        if length.unknown is not None:
            return (word(bits, value, length),)
        marks = None if value.unknown is None else run(value.unknown, length.bits)
        return (Word(bits, None, marks, value.cause),)

    return Effect((into,), compute)


@rule("BMSK", "UBMSK")
def _bmsk(ops: Operands) -> Effect:
    wrap = ops.one_of("C", "W", default="C") == "W"
    ops.no_more_modifiers()
    into = ops.destination()
    start, count = ops.word(), ops.word()
    ops.end()

    def limited(bits: Array) -> Array:
        return (bits & np.uint32(31) if wrap else np.minimum(bits, np.uint32(32))).astype(np.uint64)

    def compute(state: State) -> tuple[Word]:
        a, n = start(state), count(state)
        ones = (np.uint64(1) << limited(n.bits)) - np.uint64(1)
        return (word(((ones << limited(a.bits)) & np.uint64(0xFFFFFFFF)).astype(np.uint32), a, n),)

    return Effect((into,), compute)


@rule("LOP3", "ULOP3")
def _lop3(ops: Operands) -> Effect:
    if not ops.flagged("LUT"):
        raise ops.fail("expected LUT")
    ops.no_more_modifiers()
    written = ops.destinations(1)
    into = ops.destination()
    a, b, c = ops.word(), ops.word(), ops.word()
    table = ops.integer()
    if ops.peek_predicate():
        ops.predicate()
    ops.end()
    if ops.instruction.operands[-1] not in (_NOT_TRUE, _NOT_TRUE_UNIFORM):
        raise ops.fail("its last predicate is not understood")

    def compute(state: State) -> list[Value]:
        words = (a(state), b(state), c(state))
        value = _logic(words, table)
        if not written:
            return [value]
        return [_not_zero(value), value]

    return Effect((*written, into), compute)


_JOINING = {0xFC: (0, 1), 0xFE: (0, 1, 2), 0x3C: (0, 1), 0x96: (0, 1, 2), 0xFA: (0, 2), 0xEE: (1, 2)}
"""Tables of OR and exclusive OR, and the operands that they join."""


def _logic(words: tuple[Word, Word, Word], table: int) -> Word:
    if all(w.unknown is None for w in words):
        several = _JOINING.get(table)
        if several is not None and max(w.part.shape[0] for w in words) > 1:
            joined = join_bits([words[n] for n in several])
            if joined is not None:
                return joined
        return Word(_lookup(words[0].bits, words[1].bits, words[2].bits, table))
    # A bit of the result is known where all completions of the unknown bits agree on it.
    low: Any = ALL_BITS
    high: Any = np.uint32(0)
    choices = [(w.bits,) if w.unknown is None else (w.bits & ~w.unknown, w.bits | w.unknown) for w in words]
    for x in choices[0]:
        for y in choices[1]:
            for z in choices[2]:
                bits = _lookup(x, y, z, table)
                low, high = low & bits, high | bits
    marks = low ^ high
    cause = next((w.cause for w in words if w.unknown is not None), None)
    return Word(low, None, marks if marks.any() else None, cause)


def _lookup(a: Array, b: Array, c: Array, table: int) -> Array:
    simple = {0xC0: lambda: a & b, 0xFC: lambda: a | b, 0x3C: lambda: a ^ b, 0x0C: lambda: ~a & b}
    if table in simple:
        return simple[table]()
    result: Any = None
    for row in range(8):
        if table >> row & 1:
            term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
            result = term if result is None else result | term
    return a & ~a if result is None else result


def _not_zero(value: Word) -> Flag:
    if value.unknown is None:
        return Flag(value.bits != 0)
    sure = (value.bits & ~value.unknown) != 0
    marks = (value.unknown != 0) & ~sure
    return Flag(sure, marks if marks.any() else None, value.cause)


@rule("SEL", "USEL")
def _sel(ops: Operands) -> Effect:
    wide = ops.flagged("64")
    ops.no_more_modifiers()
    into = ops.destination()
    a, b = (ops.pair() if wide else (ops.word(),) for _ in range(2))
    chosen = ops.predicate()
    ops.end()

    def compute(state: State) -> list[Word]:
        which = chosen(state)
        return [
            merge_words(no(state), yes(state), which.bits, which.unknown, which.cause)
            for yes, no in zip(a, b, strict=True)
        ]

    return Effect((into, into.next()) if wide else (into,), compute)


@rule("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX")
def _imnmx(ops: Operands) -> Effect:
    kind = ops.one_of("U32", "S32", "U64", "S64", default="S32")
    ops.no_more_modifiers()
    if kind.endswith("64"):
        return _imnmx_64(ops, kind == "S64")
    into = ops.destination()
    predicates = ops.destinations(2)
    if any(r.number is not None for r in predicates):
        raise ops.fail("its predicates are not understood")
    a, b, least = ops.word(), ops.word(), ops.predicate()
    ops.end()
    signed = kind == "S32"
    return Effect((into,), lambda state: (_least(a(state), b(state), least(state), signed),))


def _imnmx_64(ops: Operands, signed: bool) -> Effect:
    if any(r.number is not None for r in ops.destinations(2)):
        raise ops.fail("its predicates are not understood")
    into = ops.destination()
    a, b, least = ops.pair(), ops.pair(), ops.predicate()
    if ops.take() not in (_NOT_TRUE, _NOT_TRUE_UNIFORM):
        raise ops.fail("its last predicate is not understood")
    ops.end()

    def compute(state: State) -> list[Word]:
        words = [read(state) for read in (*a, *b)]
        which = least(state)
        x, y = (
            low.bits.astype(np.uint64) | (high.bits.astype(np.uint64) << np.uint64(32))
            for low, high in (words[:2], words[2:])
        )
        if signed:
            x, y = x.view(np.int64), y.view(np.int64)
        found: Array = np.where(which.bits, np.minimum(x, y), np.maximum(x, y))
        return _halves(found.view(np.uint64), *words, which)

    return Effect((into, into.next()), compute)


@rule("VIMNMX3")
def _vimnmx3(ops: Operands) -> Effect:
    signed = ops.one_of("U32", "S32", default="S32") == "S32"
    ops.no_more_modifiers()
    into = ops.destination()
    a, b, c, least = ops.word(), ops.word(), ops.word(), ops.predicate()
    ops.end()

    def compute(state: State) -> tuple[Word]:
        which = least(state)
        return (_least(_least(a(state), b(state), which, signed), c(state), which, signed),)

    return Effect((into,), compute)


def _least(a: Word, b: Word, least: Flag, signed: bool) -> Word:
    x, y = (_signed(a.bits), _signed(b.bits)) if signed else (a.bits, b.bits)
    found: Array = np.where(least.bits, np.minimum(x, y), np.maximum(x, y))
    return word(found.view(np.uint32), a, b, least)


@rule("VIADDMNMX")
def _viaddmnmx(ops: Operands) -> Effect:
    signed = ops.one_of("U32", "S32", default="S32") == "S32"
    ops.no_more_modifiers()
    into = ops.destination()
    a, b, c, least = ops.word(), ops.word(), ops.word(), ops.predicate()
    ops.end()
    return Effect((into,), lambda state: (_least(add(a(state), b(state)), c(state), least(state), signed),))


@rule("IABS")
def _iabs(ops: Operands) -> Effect:
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()

    def compute(state: State) -> tuple[Word]:
        value = source(state)
        return (word(np.abs(_signed(value.bits).astype(np.int64)).astype(np.uint32), value),)

    return Effect((into,), compute)


@rule("VABSDIFF")
def _vabsdiff(ops: Operands) -> Effect:
    """|a - b| + c."""
    unsigned = ops.flagged("U32")
    ops.no_more_modifiers()
    into = ops.destination()
    a, b, c = ops.word(), ops.word(), ops.word()
    ops.end()

    def wide(bits: Array) -> Array:
        return bits.astype(np.int64) if unsigned else _signed(bits).astype(np.int64)

    def compute(state: State) -> tuple[Word]:
        x, y, z = a(state), b(state), c(state)
        apart = np.abs(wide(x.bits) - wide(y.bits)).astype(np.uint32)
        return (word(apart + z.bits, x, y, z),)

    return Effect((into,), compute)


@rule("PRMT", "UPRMT")
def _prmt(ops: Operands) -> Effect:
    ops.no_more_modifiers()
    into = ops.destination()
    a, selector, b = ops.word(), ops.word(), ops.word()
    ops.end()

    def pick(low: Array, high: Array, chosen: Array) -> Array:
        both = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
        found: Any = np.uint64(0)
        for byte in range(4):
            choice = (chosen >> np.uint32(4 * byte)) & np.uint32(0xF)
            bits = (both >> (np.uint64(8) * (choice & np.uint32(7)).astype(np.uint64))) & np.uint64(0xFF)
            sign = np.where(bits >= 0x80, np.uint64(0xFF), np.uint64(0))
            bits = np.where(choice & np.uint32(8) != 0, sign, bits)
            found = found | (bits << np.uint64(8 * byte))
        return np.asarray(found).astype(np.uint32)

    def compute(state: State) -> tuple[Word]:
        x, y, chosen = a(state), b(state), selector(state)
        bits = pick(x.bits, y.bits, chosen.bits)
        if chosen.unknown is not None:
            return (word(bits, x, y, chosen),)
        if x.unknown is None and y.unknown is None:
            return (Word(bits),)
        zero = np.zeros((1, 1, 1), np.uint32)
        low, high = (zero if w.unknown is None else w.unknown for w in (x, y))
        marks = pick(low, high, chosen.bits)
        return (Word(bits, None, marks if marks.any() else None, x.cause or y.cause),)

    return Effect((into,), compute)


@rule("POPC", "UPOPC")
def _popc(ops: Operands) -> Effect:
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()

    def compute(state: State) -> tuple[Word]:
        value = source(state)
        count = sum((value.bits >> np.uint32(bit)) & np.uint32(1) for bit in range(32))
        return (word(np.asarray(count, np.uint32), value),)

    return Effect((into,), compute)


@rule("FLO", "UFLO")
def _flo(ops: Operands) -> Effect:
    unsigned = ops.flagged("U32")
    from_top = ops.flagged("SH")
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()

    def compute(state: State) -> tuple[Word]:
        value = source(state)
        bits = value.bits
        if not unsigned:
            # The highest bit that is not a copy of the sign.
            bits = bits ^ (_signed(bits) >> np.int32(31)).view(np.uint32)
        place = np.frexp(bits.astype(np.float64))[1] - 1
        place = 31 - place if from_top else place
        found = np.asarray(np.where(bits == 0, -1, place), np.int32)
        return (word(found.view(np.uint32), value),)

    return Effect((into,), compute)


@rule("BREV", "UBREV")
def _brev(ops: Operands) -> Effect:
    ops.no_more_modifiers()
    into, source = ops.destination(), ops.word()
    ops.end()

    def turned(bits: Array) -> Array:
        found: Any = np.uint32(0)
        for bit in range(32):
            found = found | (((bits >> np.uint32(bit)) & np.uint32(1)) << np.uint32(31 - bit))
        return np.asarray(found, np.uint32)

    def compute(state: State) -> tuple[Word]:
        value = source(state)
        marks = None if value.unknown is None else turned(value.unknown)
        return (Word(turned(value.bits), None, marks, value.cause),)

    return Effect((into,), compute)


@rule("HFMA2")
def _hfma2(ops: Operands) -> Effect:
    """Only `HFMA2 R4, -RZ, RZ, 1, 2`, which loads a constant: -0 * 0 + (1, 2) as two fp16 numbers."""
    ops.flagged("MMA")
    ops.no_more_modifiers()
    into = ops.destination()
    zeros = [ops.take(), ops.take()]
    halves = [ops.take(), ops.take()]
    ops.end()
    if zeros != [RegisterOperand(Register("R", None), negative=True), RegisterOperand(Register("R", None))]:
        raise ops.fail("half-precision arithmetic is not understood")
    bits = 0
    for half in halves:
        if not isinstance(half, FloatImmediate) or "NAN" in half.text.upper():
            raise ops.fail("half-precision arithmetic is not understood")
        bits = bits << 16 | int(np.float16(float(half.text)).view(np.uint16))
    value = constant(bits)
    return Effect((into,), lambda state: (value,))


@rule("NOP")
def _nop(ops: Operands) -> Effect:
    return Effect((), lambda state: ())
