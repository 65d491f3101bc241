"""Each rule of the emulator on its own: against plain integers, with bits that are not known, with values in parts."""

import re
import zlib

import numpy as np
import pytest

import tilewright.sass.integer
import tilewright.sass.logic  # noqa: F401 (the two enter their rules into the table)
from tilewright.sass.decode import RULES, NotUnderstood, understand
from tilewright.sass.operands import Register, parse_operand, split_operands
from tilewright.sass.text import Instruction
from tilewright.sass.values import ALL_BITS, Cause, Flag, Word

M, M64 = 1 << 32, 1 << 64
SHAPE = (6, 1, 32)


def s(x, bits=32):
    """As a signed number."""
    x %= 1 << bits
    return x - (1 << bits) if x >> (bits - 1) else x


def pair(low, high):
    return low | high << 32


def halves(x):
    return x % M, x % M64 >> 32


def bit(x, table, *others):
    """The row of a truth table that three bits choose."""
    return table >> (x << 2 | others[0] << 1 | others[1]) & 1


def shifted(low, n, high, left, kind, take_high):
    most = int(kind[1:])
    n = min(n, most)
    value = pair(low, high)
    if not left and kind[0] == "S":
        value = s(value, 64)
    value = value << n if left else value >> n
    return (value % M64 >> 32 if take_high else value) % M


# Text, the registers it writes, and what it gives from the registers that it reads.
FORMS = {
    "MOV R0, R2": ("R0", lambda R2: (R2,)),
    "MOV R0, 0x12": ("R0", lambda: (0x12,)),
    "MOV.64 R0, R2": ("R0 R1", lambda R2, R3: (R2, R3)),
    "IMAD.MOV.U32 R0, RZ, RZ, R2": ("R0", lambda R2: (R2,)),
    "UMOV UR0, UR2": ("UR0", lambda UR2: (UR2,)),
    "HFMA2 R0, -RZ, RZ, 1.875, -2": ("R0", lambda: (0x3F80C000,)),
    "HFMA2.MMA R0, -RZ, RZ, 0, 5.9604644775390625e-08": ("R0", lambda: (1,)),
    "IADD3 R0, R2, -R3, R4": ("R0", lambda R2, R3, R4: (R2 - R3 + R4,)),
    "IADD3 R0, PT, PT, R2, R3, R4": ("R0", lambda R2, R3, R4: (R2 + R3 + R4,)),
    "IADD3 R0, P1, R2, R3, RZ": ("R0 P1", lambda R2, R3: (R2 + R3, R2 + R3 >= M)),
    "IADD3 R0, P1, R2, -R3, RZ": ("R0 P1", lambda R2, R3: (R2 - R3, R2 >= R3)),
    "IADD3 R0, P1, P2, R2, R3, R4": (
        "R0 P1 P2",
        lambda R2, R3, R4: (R2 + R3 + R4, R2 + R3 + R4 >= M, R2 + R3 + R4 >= 2 * M),
    ),
    "IADD3.X R0, R2, ~R3, RZ, P0, !PT": ("R0", lambda R2, R3, P0: (R2 + M - 1 - R3 + P0,)),
    "IADD3.X R0, P1, R2, R3, RZ, P0, !PT": (
        "R0 P1",
        lambda R2, R3, P0: (R2 + R3 + P0, R2 + R3 + P0 >= M),
    ),
    "IADD3.X R0, R2, R3, R4, P0, P1": ("R0", lambda R2, R3, R4, P0, P1: (R2 + R3 + R4 + P0 + P1,)),
    "UIADD3.64 UR0, UPT, UPT, UR2, UR4, URZ": (
        "UR0 UR1",
        lambda UR2, UR3, UR4, UR5: halves(pair(UR2, UR3) + pair(UR4, UR5)),
    ),
    "UIADD3.64 UR0, UPT, UPT, UR2, UR4, UR6": (
        "UR0 UR1",
        lambda UR2, UR3, UR4, UR5, UR6, UR7: halves(pair(UR2, UR3) + pair(UR4, UR5) + pair(UR6, UR7)),
    ),
    "IADD.64 R0, R2, -R4": (
        "R0 R1",
        lambda R2, R3, R4, R5: halves(pair(R2, R3) - pair(R4, R5)),
    ),
    "IADD.64 R0, R2, 0x7fffffff": ("R0 R1", lambda R2, R3: halves(pair(R2, R3) + 0x7FFFFFFF)),
    "VIADD R0, R2, 0xfffffff0": ("R0", lambda R2: (R2 - 16,)),
    "IMAD R0, R2, R3, R4": ("R0", lambda R2, R3, R4: (R2 * R3 + R4,)),
    "IMAD R0, R2, -0x8, R4": ("R0", lambda R2, R4: (R4 - 8 * R2,)),
    "IMAD.IADD R0, R2, 0x1, -R3": ("R0", lambda R2, R3: (R2 - R3,)),
    "IMAD.SHL.U32 R0, R2, 0x8, RZ": ("R0", lambda R2: (R2 * 8,)),
    "IMAD.X R0, R2, 0x1, ~R3, P0": ("R0", lambda R2, R3, P0: (R2 + M - 1 - R3 + P0,)),
    "IMAD.WIDE R0, R2, R3, R4": (
        "R0 R1",
        lambda R2, R3, R4, R5: halves(s(R2) * s(R3) + pair(R4, R5)),
    ),
    "IMAD.WIDE.U32 R0, R2, R3, R4": ("R0 R1", lambda R2, R3, R4, R5: halves(R2 * R3 + pair(R4, R5))),
    "IMAD.WIDE.U32 R0, P1, R2, R3, R4": (
        "R0 R1 P1",
        lambda R2, R3, R4, R5: (*halves(R2 * R3 + pair(R4, R5)), R2 * R3 + pair(R4, R5) >= M64),
    ),
    "IMAD.WIDE.U32.X R0, P1, R2, R3, R4, P0": (
        "R0 R1 P1",
        lambda R2, R3, R4, R5, P0: (
            *halves(R2 * R3 + pair(R4, R5) + P0),
            R2 * R3 + pair(R4, R5) + P0 >= M64,
        ),
    ),
    "IMAD.HI.U32 R0, R2, R3, R4": ("R0", lambda R2, R3, R4, R5: halves(R2 * R3 + pair(R4, R5))[1:]),
    "IMAD.HI.U32 R0, P1, R2, R3, R4": (
        "R0 P1",
        lambda R2, R3, R4, R5: (halves(R2 * R3 + pair(R4, R5))[1], R2 * R3 + pair(R4, R5) >= M64),
    ),
    "IMAD.HI R0, R2, R3, R4": ("R0", lambda R2, R3, R4, R5: halves(s(R2) * s(R3) + pair(R4, R5))[1:]),
    "LEA R0, R2, R3, 0x5": ("R0", lambda R2, R3: ((R2 << 5) + R3,)),
    "LEA R0, P1, R2, R3, 0x2": ("R0 P1", lambda R2, R3: ((R2 << 2) + R3, (R2 << 2) % M + R3 >= M)),
    "LEA.HI R0, R2, R3, RZ, 0x5": ("R0", lambda R2, R3: ((R2 >> 27) + R3,)),
    "LEA.HI.X R0, R2, R3, R4, 0x2, P0": (
        "R0",
        lambda R2, R3, R4, P0: ((pair(R2, R4) << 2 >> 32) + R3 + P0,),
    ),
    "LEA.HI.X R0, R2, R3, R4, 0x0, P0": ("R0", lambda R2, R3, R4, P0: (R4 + R3 + P0,)),
    "LEA.HI.SX32 R0, R2, R3, 0x1b": ("R0", lambda R2, R3: ((s(R2) >> 5) + R3,)),
    "LEA.HI.X.SX32 R0, R2, R3, 0x1, P0": ("R0", lambda R2, R3, P0: ((s(R2) >> 31) + R3 + P0,)),
    **{
        f"SHF.{'L' if left else 'R'}.{kind}{'.HI' if high else ''} R0, R2, R3, R4": (
            "R0",
            lambda R2, R3, R4, left=left, kind=kind, high=high: (
                shifted(R2, R3, R4, left, kind, high),
            ),
        )
        for left, kind, high in [
            (True, "U32", False),
            (True, "U32", True),
            (True, "U64", True),
            (False, "U32", False),
            (False, "U32", True),
            (False, "S32", True),
            (False, "U64", False),
            (False, "S64", False),
        ]
    },
    "SHF.L.U32 R0, R2, 0x4, RZ": ("R0", lambda R2: (R2 << 4,)),
    "SHF.R.S32.HI R0, RZ, 0x1f, R2": ("R0", lambda R2: (s(R2) >> 31,)),
    "SHF.L.W.U32.HI R0, R2, R3, R4": ("R0", lambda R2, R3, R4: (pair(R2, R4) << (R3 & 31) >> 32,)),
    "SHF.R.W.U32 R0, R2, R3, R4": ("R0", lambda R2, R3, R4: (pair(R2, R4) >> (R3 & 31),)),
    "SGXT R0, R2, 0x8": ("R0", lambda R2: (s(R2, 8),)),
    "SGXT.U32 R0, R2, 0x11": ("R0", lambda R2: (R2 & 0x1FFFF,)),
    "SGXT R0, R2, R3": ("R0", lambda R2, R3: (s(R2, min(R3, 32)) if R3 else 0,)),
    "SGXT.W.U32 R0, R2, R3": ("R0", lambda R2, R3: (R2 & (1 << (R3 & 31)) - 1,)),
    "BMSK R0, R2, R3": ("R0", lambda R2, R3: (((1 << min(R3, 32)) - 1) << min(R2, 32),)),
    "BMSK.W R0, R2, R3": ("R0", lambda R2, R3: (((1 << (R3 & 31)) - 1) << (R2 & 31),)),
    "LOP3.LUT R0, R2, R3, R4, 0xf8, !PT": ("R0", lambda R2, R3, R4: (R2 | R3 & R4,)),
    "LOP3.LUT R0, R2, R3, RZ, 0xfc, !PT": ("R0", lambda R2, R3: (R2 | R3,)),
    "LOP3.LUT R0, R2, R3, R4, 0xfe, !PT": ("R0", lambda R2, R3, R4: (R2 | R3 | R4,)),
    "LOP3.LUT R0, R2, R3, R4, 0x96, !PT": ("R0", lambda R2, R3, R4: (R2 ^ R3 ^ R4,)),
    "LOP3.LUT R0, R2, R3, R4, 0xca, !PT": ("R0", lambda R2, R3, R4: (R2 & R3 | ~R2 & R4,)),
    "LOP3.LUT R0, RZ, R2, RZ, 0x33, !PT": ("R0", lambda R2: (~R2,)),
    "LOP3.LUT P1, R0, R2, 0x18, RZ, 0xc0, !PT": ("P1 R0", lambda R2: (R2 & 0x18 != 0, R2 & 0x18)),
    "ULOP3.LUT UR0, UR2, 0x7, URZ, 0xc0, !UPT": ("UR0", lambda UR2: (UR2 & 7,)),
    "SEL R0, R2, R3, P0": ("R0", lambda R2, R3, P0: (R2 if P0 else R3,)),
    "SEL R0, R2, R3, !P0": ("R0", lambda R2, R3, P0: (R3 if P0 else R2,)),
    "SEL.64 R0, R2, R4, P0": ("R0 R1", lambda R2, R3, R4, R5, P0: (R2, R3) if P0 else (R4, R5)),
    "IMNMX R0, R2, R3, PT": ("R0", lambda R2, R3: (min(s(R2), s(R3)),)),
    "IMNMX.U32 R0, R2, R3, !PT": ("R0", lambda R2, R3: (max(R2, R3),)),
    "IMNMX R0, R2, R3, P0": ("R0", lambda R2, R3, P0: ((min if P0 else max)(s(R2), s(R3)),)),
    "VIMNMX R0, PT, PT, R2, R3, !PT": ("R0", lambda R2, R3: (max(s(R2), s(R3)),)),
    "VIMNMX3.U32 R0, R2, R3, R4, PT": ("R0", lambda R2, R3, R4: (min(R2, R3, R4),)),
    "UIMNMX.S64 UPT, UPT, UR0, UR2, UR4, UPT, !UPT": (
        "UR0 UR1",
        lambda UR2, UR3, UR4, UR5: halves(min(s(pair(UR2, UR3), 64), s(pair(UR4, UR5), 64))),
    ),
    "VIADDMNMX R0, R2, R3, R4, !PT": ("R0", lambda R2, R3, R4: (max(s(R2 + R3), s(R4)),)),
    "VIADDMNMX.U32 R0, R2, R3, R4, PT": ("R0", lambda R2, R3, R4: (min((R2 + R3) % M, R4),)),
    "VABSDIFF R0, R2, R3, R4": ("R0", lambda R2, R3, R4: (abs(s(R2) - s(R3)) + R4,)),
    "VABSDIFF.U32 R0, R2, R3, R4": ("R0", lambda R2, R3, R4: (abs(R2 - R3) + R4,)),
    "IABS R0, R2": ("R0", lambda R2: (abs(s(R2)),)),
    "PRMT R0, R2, 0x7531, R3": (
        "R0",
        lambda R2, R3: (sum((pair(R2, R3) >> 8 * c & 255) << 8 * n for n, c in enumerate((1, 3, 5, 7))),),
    ),
    "PRMT R0, R2, 0x8880, RZ": ("R0", lambda R2: (R2 & 255 | (0xFFFFFF00 if R2 & 128 else 0),)),
    "POPC R0, R2": ("R0", lambda R2: (R2.bit_count(),)),
    "FLO.U32 R0, R2": ("R0", lambda R2: (R2.bit_length() - 1,)),
    "FLO R0, R2": ("R0", lambda R2: ((R2 if s(R2) >= 0 else M - 1 - R2).bit_length() - 1,)),
    "FLO.U32.SH R0, R2": ("R0", lambda R2: (32 - R2.bit_length() if R2 else -1,)),
    "BREV R0, R2": ("R0", lambda R2: (int(f"{R2:032b}"[::-1], 2),)),
    "ISETP.GE.AND P1, PT, R2, R3, PT": ("P1", lambda R2, R3: (s(R2) >= s(R3),)),
    "ISETP.LT.U32.AND P1, P2, R2, R3, P0": (
        "P1 P2",
        lambda R2, R3, P0: (R2 < R3 and P0, R2 >= R3 and P0),
    ),
    "ISETP.GT.OR P1, P2, R2, R3, !P0": (
        "P1 P2",
        lambda R2, R3, P0: (s(R2) > s(R3) or not P0, s(R2) <= s(R3) or not P0),
    ),
    "ISETP.NE.XOR P1, PT, R2, R3, P0": ("P1", lambda R2, R3, P0: ((R2 != R3) != P0,)),
    **{
        f"ISETP.{name}{kind}.AND.EX P1, PT, R2, R3, PT, P0": (
            "P1",
            lambda R2, R3, P0, name=name, kind=kind: (extended(name, kind, R2, R3, P0),),
        )
        for name in ("LT", "LE", "GT", "GE", "EQ", "NE")
        for kind in ("", ".U32")
    },
    "ISETP.GE.S64.AND P1, PT, R2, R4, PT": (
        "P1",
        lambda R2, R3, R4, R5: (s(pair(R2, R3), 64) >= s(pair(R4, R5), 64),),
    ),
    "ISETP.LT.U64.AND P1, PT, R2, -0x3, PT": ("P1", lambda R2, R3: (pair(R2, R3) < M64 - 3,)),
    **{
        f"PLOP3.LUT P3, PT, P0, P1, P2, {table:#x}, 0x0": (
            "P3",
            lambda P0, P1, P2, table=table: (bit(P0, table, P1, P2),),
        )
        for table in (0x80, 0x40, 0xE0, 0xF8, 0x1B, 0xFE, 0x02)
    },
    "PLOP3.LUT P3, PT, PT, PT, UP0, 0x40, 0x4": ("P3", lambda UP0: (not UP0,)),
    "P2R R0, PR, RZ, 0x5": ("R0", lambda P0, P2: (P0 | P2 << 2,)),
    "P2R.B1 R0, PR, R2, 0x3": ("R0", lambda R2, P0, P1: (R2 & ~0x300 | P0 << 8 | P1 << 9,)),
    "R2P PR, R2, 0x5": ("P0 P2", lambda R2: (R2 & 1, R2 >> 2 & 1)),
    "R2P PR, R2.B2, 0x12": ("P1 P4", lambda R2: (R2 >> 17 & 1, R2 >> 20 & 1)),
}  # fmt: skip


def extended(name, kind, a, b, low):
    a, b = (s(a), s(b)) if not kind else (a, b)
    if name in ("EQ", "NE"):
        return (a == b and low) if name == "EQ" else (a != b or low)
    strict = a < b if name[0] == "L" else a > b
    return strict or (a == b and low)


def register(name):
    bank, number = re.fullmatch(r"(UR|R|UP|P)(\d+)", name).groups()
    return Register(bank, int(number))


def instruction(text, writes="", guard=None):
    """An instruction as the parser makes it, with the registers that it is to write."""
    name, _, rest = text.partition(" ")
    opcode, *modifiers = name.split(".")
    operands = tuple(parse_operand(o) for o in split_operands(rest))
    written = frozenset(register(w) for w in writes.split())
    predicate = parse_operand(guard) if guard else None
    none = frozenset()
    return Instruction(0, 0, predicate, opcode, tuple(modifiers), operands, written, none, none, None, text)


class State:
    """The machine as rules see it."""

    def __init__(self, values, active=None):
        self.values, self.active, self.assumed = values, active, []

    def here(self, reason):
        return Cause(0, reason)

    def assume(self, text):
        self.assumed.append(text)

    def read(self, register):
        return self.values[str(register)]

    def constant_word(self, bank, offset):
        return self.values[f"c[{bank:#x}][{offset:#x}]"]


def run(text, writes, values, active=None, guard=None):
    """Return the values by the names of the registers that they are written to."""
    effect = understand(instruction(text, writes, guard))
    found = effect.compute(State(values, active))
    return {str(r): v for r, v in zip(effect.writes, found, strict=True) if r.number is not None}


def inputs(text):
    function = FORMS[text][1]
    return function.__code__.co_varnames[: function.__code__.co_argcount - len(function.__defaults__ or ())]


def source_of(text):
    return np.random.default_rng(zlib.crc32(text.encode()))


def numbers(random, shape=SHAPE):
    """Numbers of 32 bits: none and all bits, small ones, shift counts, ones beside powers of two, any."""
    anything = random.integers(0, M, shape, dtype=np.uint64)
    powers = np.uint64(1) << random.integers(0, 33, shape).astype(np.uint64)
    near = powers + random.integers(0, 5, shape).astype(np.uint64) + np.uint64(M - 2)
    small = random.integers(0, 70, shape).astype(np.uint64)
    zero = np.zeros(shape, np.uint64)
    choices = [anything, near, small, anything & near, zero, zero, ~zero, ~zero]
    chosen = np.choose(random.integers(0, len(choices), shape), choices)
    return (chosen & np.uint64(M - 1)).astype(np.uint32)


def drawn(text, random):
    """A known value for each register that a form reads."""
    return {
        n: Flag(random.integers(0, 2, SHAPE).astype(bool)) if "P" in n else Word(numbers(random))
        for n in inputs(text)
    }


def plain(value):
    bits = np.broadcast_to(value.bits, SHAPE)
    return bits.astype(np.uint32)


@pytest.mark.parametrize("text", FORMS)
def test_against_plain_integers(text):
    writes, function = FORMS[text]
    values = drawn(text, source_of(text))
    found = run(text, writes, values)
    assert set(found) == set(writes.split())
    for at in np.ndindex(SHAPE):
        given = {n: int(plain(v)[at]) for n, v in values.items()}
        expected = dict(zip(writes.split(), function(**given), strict=True))
        for name, value in expected.items():
            mask = 1 if "P" in name else M - 1
            assert int(plain(found[name])[at]) == int(value) & mask, (name, given)
    assert all(v.unknown is None or not v.unknown.any() for v in found.values())


@pytest.mark.parametrize("text", FORMS)
def test_what_is_known_holds_however_the_unknown_bits_turn_out(text):
    writes = FORMS[text][0]
    random = source_of(text)
    values, marks = drawn(text, random), {}
    for name, value in values.items():
        if random.random() < 0.3 and len(values) > 1:
            continue
        if "P" in name:
            marks[name] = random.random(SHAPE) < 0.4
        else:
            dense = random.integers(0, M, SHAPE, dtype=np.uint64).astype(np.uint32)
            dense &= random.integers(0, M, SHAPE, dtype=np.uint64).astype(np.uint32)
            marks[name] = np.where(random.random(SHAPE) < 0.5, dense, np.uint32(0))
        value.unknown, value.cause = marks[name], Cause(0, "drawn")
    found = run(text, writes, values)
    for _ in range(6):
        completed = {}
        for name, value in values.items():
            mark = marks.get(name)
            if mark is None:
                completed[name] = value
            elif "P" in name:
                completed[name] = Flag(np.where(mark, random.random(SHAPE) < 0.5, value.bits))
            else:
                noise = random.integers(0, M, SHAPE, dtype=np.uint64).astype(np.uint32)
                completed[name] = Word(np.where(mark != 0, value.bits ^ (noise & mark), value.bits))
        for name, value in run(text, writes, completed).items():
            before = found[name]
            differs = plain(before) ^ plain(value)
            if before.unknown is not None:
                unknown = np.broadcast_to(before.unknown, SHAPE)
                differs = np.where(unknown, 0, differs) if "P" in name else differs & ~unknown
            assert not differs.any(), name
    if marks and any(v.unknown is not None and v.unknown.any() for v in found.values()):
        assert all(v.cause for v in found.values() if v.unknown is not None and v.unknown.any())


SAME = (0, ALL_BITS)
LIMITS = [SAME, SAME, (ALL_BITS, ALL_BITS), (0x3FFFFF80, 0x7F), (0x7FFFFF80, 0x7F), (0xF0, 0x0F), (1, 1)]
"""Bits that the parts of a word may have: any, but the same everywhere; any; an address's; few, so that nothing
carries; ones that carry."""


def in_parts(random, limits, place):
    """Draw a word as one array and as the parts that it is kept in; `place` keeps the bits of several apart."""
    whole, lanes = (np.uint32(int(limit)) for limit in limits)
    shift = np.uint32(8 * place % 32 if limits == (0xF0, 0x0F) else place if limits == (1, 1) else 0)
    form = 3 if limits == SAME else random.integers(4)
    if form == 0:
        part = (numbers(random, (6, 1, 1)) & whole) << shift
        lane_part = (numbers(random, (1, 1, 32)) & lanes) << shift
        return Word(part + lane_part), Word(part, lane_part)
    shape, limit = [((6, 1, 1), whole), ((1, 1, 32), lanes), ((1, 1, 1), whole | lanes)][form - 1]
    value = Word((numbers(random, shape) & limit) << shift)
    return value, value


@pytest.mark.parametrize("text", FORMS)
def test_words_in_parts(text):
    """A sum over programs and lanes gives the same in two parts as in one array, and what plain integers give."""
    (writes, function), random = FORMS[text], source_of(text)
    for limits in LIMITS * 6:
        together, apart = {}, {}
        for place, name in enumerate(inputs(text)):
            if "P" in name:
                shape = [(6, 1, 1), (1, 1, 32), SHAPE, (1, 1, 1)][random.integers(4)]
                together[name] = apart[name] = Flag(random.integers(0, 2, shape).astype(bool))
            else:
                together[name], apart[name] = in_parts(random, limits, place)
        one, two = run(text, writes, together), run(text, writes, apart)
        for name in one:
            assert (plain(one[name]) == plain(two[name])).all(), name
        for at in [(0, 0, 0), (5, 0, 31), (3, 0, 17)]:
            given = {n: int(plain(v)[at]) for n, v in together.items()}
            for name, value in zip(writes.split(), function(**given), strict=True):
                assert int(plain(two[name])[at]) == int(value) & (1 if "P" in name else M - 1), (name, given)


REFUSED = [
    ("IADD3.FOO R0, R2, R3, R4", "R0", "modifier FOO"),
    ("IADD3 R0, R2, R3", "R0", "fewer operands"),
    ("IADD3 R0, R2, R3, R4, P0, P1", "R0", "carries"),
    ("IADD3 R0, R2.H0_H0, R3, R4", "R0", "suffix H0_H0"),
    ("IADD3 R0, |R2|, R3, R4", "R0", "form"),
    ("IADD3 R0, R2, R3, R4", "R0 R1", "disagree"),
    ("IADD3 R0, P1, R2, R3, R4", "R0", "disagree"),
    ("LDG.E R0, [R2.64]", "R0", "no rule"),
    ("FADD R0, R2, R3", "R0", "no rule"),
    ("MUFU.EX2 R0, R2", "R0", "reciprocal"),
    ("IMAD.WIDE R0, P1, R2, R3, R4", "R0 R1 P1", "signed"),
    ("LEA R0, P1, R2, -R3, 0x2", "R0 P1", "subtraction"),
    ("PLOP3.LUT P3, P4, P0, P1, P2, 0x80, 0x8", "P3 P4", "second result"),
    ("HFMA2 R0, R2, RZ, 1, 2", "R0", "half-precision"),
    ("HFMA2 R0, -RZ, RZ, +QNAN, 0", "R0", "half-precision"),
    ("IADD.64 R0, R2, 0x80000000", "R0 R1", "extended to 64 bits"),
    ("SGXT R0, R2, c[0x1c][0x168]", "R0", "constant bank"),
    ("F2I.U32 R0, R2", "R0", "truncation"),
    ("LOP3.PAND.LUT P1, R0, R2, 0x18, RZ, 0xc0, P2", "P1 R0", "PAND"),
    ("MOV R0, R2, 0x3", "R0", "partial"),
    ("R2UR P1, UR0, R2", "P1 UR0", "predicate"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "writes", "reason"), REFUSED)
def test_what_is_not_understood_is_refused(text, writes, reason):
    with pytest.raises(NotUnderstood, match=reason):
        understand(instruction(text, writes))


# Between lanes.


LANES = np.arange(32)
LESS = Flag((LANES < 9)[None, None, :])
ODD = (LANES % 2 == 1)[None, None, :]
VALUES = Word((LANES * 37 % 101).astype(np.uint32)[None, None, :])


def ballot(lanes):
    return sum(1 << int(lane) for lane in np.flatnonzero(lanes))


@pytest.mark.parametrize("active", [None, ODD], ids=["whole warp", "odd lanes"])
@pytest.mark.parametrize("guard", [None, "!P3"])
def test_votes(active, guard):
    """PTX: vote over the lanes that execute it, which are those where its guard holds."""
    values = {"P0": LESS, "P3": Flag((LANES % 3 == 0)[None, None, :])}
    executing = np.ones(32, bool)
    if active is not None:
        executing &= active[0, 0]
    if guard:
        executing &= LANES % 3 != 0
    chosen = executing & (LANES < 9)
    (found,) = run("VOTE.ANY R0, PT, P0", "R0", values, active, guard).values()
    assert found.bits.flat[0] == ballot(chosen)
    for mode, expected in (("ANY", chosen.any()), ("ALL", (~executing | (LANES < 9)).all())):
        (found,) = run(f"VOTE.{mode} P1, P0", "P1", values, active, guard).values()
        assert bool(found.bits.flat[0]) == expected
    (chosen,) = run("ELECT P1, URZ, PT", "P1", values, active, guard).values()
    assert np.flatnonzero(np.broadcast_to(chosen.bits, (1, 1, 32))).tolist() == [np.flatnonzero(executing)[0]]


def shuffled(mode, lane, step, clamp):
    """PTX ISA, shfl: the source lane."""
    segment, bound = clamp >> 8 & 31, clamp & 31
    most, least = lane & segment | bound & ~segment & 31, lane & segment
    if mode == "UP":
        source, inside = lane - step, lane - step >= most
    elif mode == "DOWN":
        source, inside = lane + step, lane + step <= most
    elif mode == "BFLY":
        source, inside = lane ^ step, lane ^ step <= most
    else:
        source = least | step & ~segment & 31
        inside = source <= most
    return source if inside else lane


@pytest.mark.parametrize("mode", ["UP", "DOWN", "BFLY", "IDX"])
@pytest.mark.parametrize("clamp", [0x1F, 0x0, 0x181F, 0x1C03, 0x1E1F])
def test_shuffles(mode, clamp):
    for step in (0, 1, 2, 5, 16, 31):
        text = f"SHFL.{mode} PT, R0, R2, {step:#x}, {clamp:#x}"
        (found,) = run(text, "R0", {"R2": VALUES}).values()
        bits = np.broadcast_to(found.bits, (1, 1, 32))[0, 0]
        assert bits.tolist() == [
            int(VALUES.bits[0, 0, shuffled(mode, lane, step, clamp)]) for lane in range(32)
        ]


def test_a_shuffle_from_a_lane_that_does_not_take_part_is_unknown():
    (found,) = run("SHFL.BFLY PT, R0, R2, 0x1, 0x1f", "R0", {"R2": VALUES}, ODD).values()
    assert (found.unknown[ODD] == ALL_BITS).all()
    (found,) = run("SHFL.BFLY PT, R0, R2, 0x2, 0x1f", "R0", {"R2": VALUES}, ODD).values()
    assert found.unknown is None or not found.unknown[ODD].any()
    partly = Word(VALUES.part, None, np.where(LANES == 3, np.uint32(6), np.uint32(0))[None, None, :])
    (found,) = run("SHFL.BFLY PT, R0, R2, 0x1, 0x1f", "R0", {"R2": partly}).values()
    assert found.unknown[0, 0].tolist() == [6 if lane == 2 else 0 for lane in range(32)]


@pytest.mark.parametrize(
    ("name", "function"),
    [("SUM", sum), ("MIN", min), ("MAX", max), ("OR", lambda v: np.bitwise_or.reduce(list(v)))],
)
def test_reductions_over_a_warp(name, function):
    for active in (None, ODD):
        taking = range(32) if active is None else range(1, 32, 2)
        (found,) = run(f"REDUX.{name} UR0, R2", "UR0", {"R2": VALUES}, active).values()
        assert int(found.bits.flat[0]) == function([int(VALUES.bits[0, 0, lane]) for lane in taking])
        assert found.unknown is None or not found.unknown.any()


def test_a_uniform_value_is_that_of_the_active_lanes():
    same = Word(np.where(ODD, np.uint32(7), np.uint32(8)))
    (found,) = run("R2UR UR0, R2", "UR0", {"R2": same}, ODD).values()
    assert found.bits.tolist() == [[[7]]]
    assert found.unknown is None
    (found,) = run("R2UR UR0, R2", "UR0", {"R2": same}).values()
    assert found.unknown.any()
    assert "disagree" in found.cause.reason


# Integer division starts from these.


@pytest.mark.parametrize("name", ["U32", "S32"])
def test_conversions_to_and_from_float(name):
    bits = numbers(np.random.default_rng(1), (200, 1, 32))
    number = bits.astype(np.float64) if name == "U32" else bits.view(np.int32).astype(np.float64)
    (found,) = run(f"I2F.{name}.RP R0, R2", "R0", {"R2": Word(bits)}).values()
    up = found.bits.view(np.float32)
    assert (up.astype(np.float64) >= number).all()
    assert (np.nextafter(up, np.float32(-np.inf)).astype(np.float64) < number).all()
    (found,) = run(f"I2FP.F32.{name} R0, R2", "R0", {"R2": Word(bits)}).values()
    assert (found.bits.view(np.float32) == number.astype(np.float32)).all()
    (back,) = run(f"F2I.{name}.TRUNC.NTZ R0, R2", "R0", {"R2": found}).values()
    limits = (0, M - 1) if name == "U32" else (-(1 << 31), (1 << 31) - 1)
    for a, b in zip(found.bits.flat[:500], back.bits.flat[:500], strict=True):
        value = int(np.uint32(a).view(np.float32))
        assert int(b) == min(max(value, limits[0]), limits[1]) % M


def test_64_bits_to_float_and_back():
    random = np.random.default_rng(2)
    low, high = numbers(random), numbers(random)
    (found,) = run("I2F.U64.RP R0, R2", "R0", {"R2": Word(low), "R3": Word(high)}).values()
    back = run("F2I.U64.TRUNC R0, R2", "R0 R1", {"R2": found})
    for at in np.ndindex(SHAPE):
        value, up = pair(int(low[at]), int(high[at])), float(found.bits[at].view(np.float32))
        assert int(up) >= value > float(np.nextafter(np.float32(up), np.float32(-1))) or value == up == 0
        assert pair(int(back["R0"].bits[at]), int(back["R1"].bits[at])) == min(int(up), M64 - 1)


@pytest.mark.parametrize(
    ("number", "known"),
    [(0.0, True), (1.0, True), (7.0, True), (2.0**31, True), (0.1, False), (1.5, False), (-3.0, False)],
)
def test_a_reciprocal_is_known_where_only_division_of_integers_asks_for_it(number, known):
    """Hardware's reciprocal is off by a bit: division mends that, the launch's own arithmetic would not."""
    bits = np.full((1, 1, 1), np.float32(number).view(np.uint32))
    (found,) = run("MUFU.RCP R0, R2", "R0", {"R2": Word(bits)}).values()
    assert (found.unknown is None or not found.unknown.any()) == known


def test_a_nan_made_a_whole_number():
    bits = np.full((1, 1, 1), np.uint32(0x7FC00000))
    (found,) = run("F2I.U32.TRUNC.NTZ R0, R2", "R0", {"R2": Word(bits)}).values()
    assert found.bits.flat[0] == 0
    assert found.unknown is None
    (found,) = run("F2I.U32.TRUNC R0, R2", "R0", {"R2": Word(bits)}).values()
    assert found.unknown.all()


@pytest.mark.parametrize(
    ("name", "shift", "mask", "extend"),
    [("U8", 8, 0xFF, 0), ("S8", 24, 0xFF, 8), ("U16", 16, 0xFFFF, 0), ("S16", 0, 0xFFFF, 16)],
)
def test_narrow_constants(name, shift, mask, extend):
    word = 0x8F7E91A2
    values = {"c[0x0][0x160]": Word(np.full((1, 1, 1), word, np.uint32))}
    text = f"LDC.{name} R0, c[0x0][{0x160 + shift // 8:#x}]"
    (found,) = run(text, "R0", values).values()
    expected = word >> shift & mask
    assert int(found.bits.flat[0]) == (s(expected, extend) % M if extend else expected)


COVERED = {t.split()[0].split(".")[0] for t in FORMS} | {
    "VOTE", "ELECT", "SHFL", "REDUX", "R2UR", "I2F", "I2FP", "F2I", "MUFU", "LDC",
}  # fmt: skip
SAME_AS = {
    **{f"U{name}": name for name in ("BMSK", "BREV", "FLO", "IMAD", "IADD3", "ISETP", "LEA", "PLOP3", "POPC")},
    **{f"U{name}": name for name in ("PRMT", "SEL", "SGXT", "SHF", "VIMNMX", "I2F", "I2FP", "F2I", "MUFU")},
    "UP2UR": "P2R", "UR2UP": "R2P", "ULDC": "LDC", "LDCU": "LDC", "VOTEU": "VOTE", "CREDUX": "REDUX",
}  # fmt: skip
ELSEWHERE = {
    "NOP": "does nothing",
    "S2R": "reads what the launch fixes; every counted kernel runs it",
    "S2UR": "as S2R",
    "CS2R": "as S2R",
    "SYNCS": "a wait that is assumed to succeed",
    "USETMAXREG": "a request that is assumed to succeed",
    "UTCATOMSWS": "a request that is assumed to succeed",
}


def test_every_rule_is_tested():
    for opcode, rule in RULES.items():
        if opcode in COVERED or opcode in ELSEWHERE:
            continue
        twin = SAME_AS.get(opcode)
        assert twin is not None, f"{opcode} has no test"
        assert RULES[twin] is rule
        assert twin in COVERED
