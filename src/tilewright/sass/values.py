"""Values of registers over all programs, warps and lanes at once, known or not, bit by bit.

Arrays have three axes, (programs, warps, lanes), and any of them may be 1 where nothing varies along it: the
scalar work of a kernel stays small. A sum of a part that varies over programs and one that varies over lanes is
kept as those two parts (`Word.lane_part`), so an address stays small too; all arithmetic is exact, modulo 2**32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any

ZERO = np.zeros((1, 1, 1), np.uint32)
TRUE = np.ones((1, 1, 1), bool)
FALSE = np.zeros((1, 1, 1), bool)
ALL_BITS_INT = 0xFFFFFFFF
ALL_BITS = np.uint32(0xFFFFFFFF)
EVERY_BIT = np.full((1, 1, 1), ALL_BITS)


@dataclass(frozen=True)
class Cause:
    """Why something is not known: the instruction where it began and the reason in words."""

    index: int
    reason: str


class Word:
    """One 32-bit register: `part` + `lane_part` (None: 0); `unknown` marks the bits not known (None: none)."""

    __slots__ = ("cause", "lane_part", "part", "unknown")

    def __init__(
        self,
        part: Array,
        lane_part: Array | None = None,
        unknown: Array | None = None,
        cause: Cause | None = None,
    ) -> None:
        self.part = part
        self.lane_part = lane_part
        self.unknown = unknown
        self.cause = cause

    @property
    def bits(self) -> Array:
        """The value as one uint32 array."""
        return self.part if self.lane_part is None else self.part + self.lane_part


class Flag:
    """One predicate: a bool array, and the lanes not known (None: none)."""

    __slots__ = ("bits", "cause", "unknown")

    def __init__(self, bits: Array, unknown: Array | None = None, cause: Cause | None = None) -> None:
        self.bits = bits
        self.unknown = unknown
        self.cause = cause

    def is_open(self, mask: Array | None) -> bool:
        """Whether it is not known in one of the active lanes (None: all are)."""
        return self.unknown is not None and bool((self.unknown if mask is None else self.unknown & mask).any())


Value: TypeAlias = "Word | Flag"

ZERO_WORD = Word(ZERO)
TRUE_FLAG = Flag(TRUE)
FALSE_FLAG = Flag(FALSE)


def constant(value: int) -> Word:
    """Return a word that is the same everywhere."""
    return Word(np.full((1, 1, 1), value & 0xFFFFFFFF, np.uint32))


def unknown_word(cause: Cause) -> Word:
    """Return a word of which nothing is known."""
    return Word(ZERO, unknown=EVERY_BIT, cause=cause)


def unknown_flag(cause: Cause) -> Flag:
    """Return a predicate of which nothing is known."""
    return Flag(FALSE, TRUE, cause)


def lanes_unknown(*values: Value) -> tuple[Array | None, Cause | None]:
    """Return the lanes in which any bit of any value is unknown (None: none), and the first cause."""
    lanes: Array | None = None
    cause: Cause | None = None
    for value in values:
        if value.unknown is not None:
            mine = value.unknown != 0
            lanes = mine if lanes is None else lanes | mine
            cause = cause or value.cause
    return lanes, cause


def all_bits(lanes: Array | None) -> Array | None:
    """Turn unknown lanes into unknown bits."""
    return None if lanes is None else np.where(lanes, ALL_BITS, np.uint32(0))


def word(bits: Array, *sources: Value) -> Word:
    """Make a word computed lane by lane from sources: unknown wherever any of them is."""
    lanes, cause = lanes_unknown(*sources)
    return Word(bits, None, all_bits(lanes), cause)


def flag(bits: Array, *sources: Value) -> Flag:
    """Make a predicate computed lane by lane from sources: unknown wherever any of them is."""
    lanes, cause = lanes_unknown(*sources)
    return Flag(bits, lanes, cause)


def add(a: Word, b: Word) -> Word:
    """Return a + b modulo 2**32, in parts where that keeps it small."""
    part, lane_part = _sum_parts(a, b)
    if a.unknown is None and b.unknown is None:
        return Word(part, lane_part)
    lanes, cause = lanes_unknown(a, b)
    return Word(part, lane_part, all_bits(lanes), cause)


def _sum_parts(a: Word, b: Word) -> tuple[Array, Array | None]:
    if a.lane_part is None and b.lane_part is None:
        if _apart(a.part, b.part):
            return a.part, b.part
        if _apart(b.part, a.part):
            return b.part, a.part
        return a.part + b.part, None
    if b.lane_part is None:
        a, b = b, a
    if a.lane_part is not None:
        return a.part + b.part, a.lane_part + b.lane_part
    if a.part.shape[2] == 1:
        return a.part + b.part, b.lane_part
    if a.part.shape[0] == 1:
        return b.part, a.part + b.lane_part
    return a.part + b.bits, None


def _apart(over_programs: Array, over_lanes: Array) -> bool:
    return bool(
        over_programs.shape[0] > 1
        and over_programs.shape[2] == 1
        and over_lanes.shape[0] == 1
        and over_lanes.shape[2] > 1
    )


def largest(a: Word) -> int:
    """Return the largest value that any lane of any program can have."""
    high = int(a.part.max()) + (0 if a.lane_part is None else int(a.lane_part.max()))
    return min(high, ALL_BITS_INT)


def multiply(a: Word, b: Word) -> Word:
    """Return a * b modulo 2**32, in parts where one of them is the same everywhere."""
    if a.lane_part is not None and b.lane_part is None and b.part.size == 1:
        part, lane_part = a.part * b.part, a.lane_part * b.part
    elif b.lane_part is not None and a.lane_part is None and a.part.size == 1:
        part, lane_part = b.part * a.part, b.lane_part * a.part
    else:
        part, lane_part = a.bits * b.bits, None
    if a.unknown is None and b.unknown is None:
        return Word(part, lane_part)
    lanes, cause = lanes_unknown(a, b)
    return Word(part, lane_part, all_bits(lanes), cause)


def join_bits(words: Sequence[Word]) -> Word | None:
    """Return the OR of words in parts where no bit can be set in two of them, so that it is a sum; else None."""
    taken = 0
    for w in words:
        mine = ALL_BITS_INT if w.unknown is not None else _possible_bits(w)
        if taken & mine:
            return None
        taken |= mine
    # What varies over lanes is added up first, so that the sum stays in parts.
    first, *rest = sorted(words, key=lambda w: w.part.shape[0])
    for w in rest:
        first = add(first, w)
    return first


def _possible_bits(a: Word) -> int:
    """Bits that may be set in any lane of any program; all where the parts may carry into one another."""
    found = int(np.bitwise_or.reduce(a.part, axis=None))
    if a.lane_part is None:
        return found
    lanes = int(np.bitwise_or.reduce(a.lane_part, axis=None))
    return ALL_BITS_INT if found & lanes else found | lanes


def negate(a: Word) -> Word:
    """Return -a modulo 2**32."""
    zero = np.uint32(0)
    lanes = None if a.unknown is None else all_bits(a.unknown != 0)
    return Word(zero - a.part, None if a.lane_part is None else zero - a.lane_part, lanes, a.cause)


def invert(a: Word) -> Word:
    """Return ~a, which is -a - 1."""
    if a.lane_part is None:
        return Word(~a.part, None, a.unknown, a.cause)
    return Word(~a.part, np.uint32(0) - a.lane_part, a.unknown, a.cause)


def carries(words: list[Word], carry_in: Flag | None = None) -> tuple[Array, Array]:
    """Return (sum >= 2**32, sum >= 2**33) of the full sum of words as unsigned numbers.

    Decided from the least and the largest of each part where that is enough; otherwise lane by lane.
    """
    low = high = 0
    in_parts = False
    for w in words:
        least, most = int(w.part.min()), int(w.part.max())
        if w.lane_part is not None:
            least, most = least + int(w.lane_part.min()), most + int(w.lane_part.max())
            in_parts |= least >> 32 != most >> 32
        low, high = low + (least & 0xFFFFFFFF), high + (most & 0xFFFFFFFF)
    if carry_in is not None:
        high += 1
    if not in_parts and low >> 32 == high >> 32:
        count = low >> 32
        return (TRUE if count >= 1 else FALSE), (TRUE if count >= 2 else FALSE)
    total: Any = np.uint64(0)
    for w in words:
        total = total + w.bits.astype(np.uint64)
    if carry_in is not None:
        total = total + carry_in.bits
    over = total >> np.uint64(32)
    return over >= 1, over >= 2


def merge_words(old: Word, new: Word, mask: Array, guess: Array | None, cause: Cause | None) -> Word:
    """Return new where mask holds, old elsewhere; guess marks the lanes in which mask itself is not known."""
    apart = over_same_lanes(old, new) if mask.shape[2] == 1 else None
    if apart is not None:
        before, after, lane_part = apart
        part = before if before is after else np.where(mask, after, before)
    else:
        part, lane_part = np.where(mask, new.bits, old.bits), None
    if old.unknown is None and new.unknown is None and guess is None:
        return Word(part, lane_part)
    zero = np.uint32(0)
    unknown = np.where(
        mask, zero if new.unknown is None else new.unknown, zero if old.unknown is None else old.unknown
    )
    if guess is not None:
        either = old.bits ^ new.bits
        for w in (old, new):
            either = either if w.unknown is None else either | w.unknown
        unknown = np.where(guess, either, unknown)
    if not unknown.any():
        return Word(part, lane_part)
    return Word(part, lane_part, unknown, new.cause or old.cause or cause)


def over_same_lanes(old: Word, new: Word) -> tuple[Array, Array, Array | None] | None:
    """Return the parts of two words that share their lane part, and that; None where they do not share it."""
    (before, one), (after, two) = (_apart_from_lanes(w) for w in (old, new))
    if one is two or (one is not None and two is not None and np.array_equal(one, two)):
        return before, after, two
    return None


def _apart_from_lanes(w: Word) -> tuple[Array, Array | None]:
    if w.lane_part is None and w.part.shape[2] > 1 and w.part.shape[0] == 1:
        return ZERO, w.part
    return w.part, w.lane_part


def first_write(new: Word, mask: Array, guess: Array | None, cause: Cause) -> Word:
    """Return a word that is new where mask holds and unknown elsewhere: its register held nothing before."""
    held = mask if guess is None else mask & ~guess
    unknown = np.where(held, np.uint32(0) if new.unknown is None else new.unknown, ALL_BITS)
    return Word(new.part, new.lane_part, unknown, new.cause or cause)


def merge_flags(old: Flag, new: Flag, mask: Array, guess: Array | None, cause: Cause | None) -> Flag:
    """Return new where mask holds, old elsewhere; guess marks the lanes in which mask itself is not known."""
    bits = np.where(mask, new.bits, old.bits)
    if old.unknown is None and new.unknown is None and guess is None:
        return Flag(bits)
    unknown = np.where(
        mask,
        FALSE if new.unknown is None else new.unknown,
        FALSE if old.unknown is None else old.unknown,
    )
    if guess is not None:
        either = old.bits ^ new.bits
        for f in (old, new):
            either = either if f.unknown is None else either | f.unknown
        unknown = np.where(guess, either, unknown)
    if not unknown.any():
        return Flag(bits)
    return Flag(bits, unknown, new.cause or old.cause or cause)
