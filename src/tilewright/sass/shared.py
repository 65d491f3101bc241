"""Shared memory where control depends on it: a warp-specialised kernel keeps there which partition a warp runs.

Only the words that the slice reads are kept (`tracked`), each with one value for all programs or one a program.
Bulk copies (TMA) into shared memory are taken not to touch those words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.sass.decode import State, address
from tilewright.sass.operands import Memory, Register, RegisterOperand
from tilewright.sass.text import Instruction
from tilewright.sass.values import ALL_BITS, Array, Flag, Value, Word, constant, first_write, merge_words

SHARED = Register("S", 0)
"""Stands for all of shared memory where the slice asks what a load depends on."""
MOST_TRACKED = 4096
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


class TooMuchShared(Exception):
    """Control depends on more of shared memory than is followed."""


@dataclass(frozen=True)
class Reference:
    """A load or store of shared memory: its address, bytes a lane, the registers moved, sign extension."""

    address: Memory
    bytes: int
    registers: tuple[Register, ...]
    signed: bool

    @classmethod
    def of(cls, instruction: Instruction) -> Reference | None:
        """Read an LDS or STS; None for a form that is not understood."""
        if not set(instruction.modifiers) <= set(_WIDTHS):
            return None
        width = next((_WIDTHS[m] for m in instruction.modifiers), 4)
        address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
        data = next((o for o in instruction.operands if isinstance(o, RegisterOperand)), None)
        if address is None or address.kind or data is None or data.suffixes or data.negative:
            return None
        if any(set(p.suffixes) - {"X4", "X8", "X16"} for p in address.parts):
            return None
        registers = tuple(data.register.next(i) for i in range(max(width // 4, 1)))
        return cls(address, width, registers, "S8" in instruction.modifiers or "S16" in instruction.modifiers)


class SharedMemory:
    """The tracked words of every program's shared memory."""

    def __init__(self, tracked: Sequence[int] = ()) -> None:
        self.tracked = frozenset(tracked)
        self.wanted: set[int] = set()
        self._order = np.array(sorted(self.tracked), np.int64)
        self._words: dict[int, Word] = {}

    def load(self, state: State, reference: Reference, active: Array | None) -> list[Value]:
        """Return the words that a load gives; unknown where nothing that is understood stored there."""
        addresses = self._addresses(state, reference, active)
        if addresses is None:
            cause = state.here("a load from a place in shared memory that is not known")
            return [Word(np.zeros((1, 1, 1), np.uint32), unknown=_every_bit(), cause=cause)] * len(
                reference.registers
            )
        found: list[Value] = []
        for number in range(len(reference.registers)):
            found.append(self._gather(state, addresses + 4 * number, reference, active))
        return found

    def _gather(self, state: State, addresses: Array, reference: Reference, active: Array | None) -> Word:
        result: Word | None = None
        places = addresses if active is None else np.where(active, addresses, -1)
        for place in np.unique(places):
            if place < 0:
                continue
            index = int(place) // 4
            self.wanted.add(index)
            if len(self.wanted) > MOST_TRACKED:
                raise TooMuchShared
            value = self._words.get(index)
            if value is None:
                cause = state.here("it is loaded from shared memory that nothing understood was stored to")
                value = Word(np.zeros((1, 1, 1), np.uint32), unknown=_every_bit(), cause=cause)
            value = _narrow(value, 8 * (int(place) % 4), reference)
            here = addresses == place
            cause = state.here("a lane that loads nothing")
            result = (
                first_write(value, here, None, cause)
                if result is None
                else merge_words(result, value, here, None, None)
            )
        assert result is not None
        if result.unknown is not None and active is None and not result.unknown.any():
            result.unknown = None
        return result

    def store(self, state: State, reference: Reference, active: Array | None, guard: Flag) -> None:
        """Store registers in the lanes that are active and whose guard holds."""
        if not self.tracked:
            return
        lanes = guard.bits if active is None else active & guard.bits
        if guard.unknown is not None:
            lanes = lanes | guard.unknown
        addresses = self._addresses(state, reference, lanes)
        if addresses is None:
            cause = state.here("something is stored to a place in shared memory that is not known")
            self._words = {k: Word(w.part, unknown=_every_bit(), cause=cause) for k, w in self._words.items()}
            return
        for number, register in enumerate(reference.registers):
            places = addresses + 4 * number
            hit: Array = np.asarray(np.isin(places // 4, self._order) & lanes)
            if not hit.any():
                continue
            value = constant(0) if register.number is None else state.read(register)
            assert isinstance(value, Word)
            for place in np.unique(np.broadcast_to(places, hit.shape)[hit]):
                self._put(state, int(place), (places == place) & hit, value, reference, guard)

    def _put(
        self, state: State, place: int, lanes: Array, value: Word, reference: Reference, guard: Flag
    ) -> None:
        """Store the value of the last lane that stores here, as one value a program."""
        bits, unknown = value.bits, value.unknown
        zero = np.uint32(0)
        shape = np.broadcast_shapes(lanes.shape, bits.shape, (1, 1, 1) if unknown is None else unknown.shape)
        flat: Array = np.broadcast_to(lanes, shape).reshape(shape[0], -1)
        chosen = flat.shape[1] - 1 - np.argmax(flat[:, ::-1], axis=1)[:, None]
        one = np.take_along_axis(np.broadcast_to(bits, shape).reshape(shape[0], -1), chosen, 1)[:, :, None]
        marks: Any = zero
        if unknown is not None:
            marks = np.take_along_axis(np.broadcast_to(unknown, shape).reshape(shape[0], -1), chosen, 1)[
                :, :, None
            ]
        if guard.unknown is not None:
            marks = np.full_like(one, ALL_BITS)
        stores = flat.any(1)[:, None, None]
        mask, shift = _field(place, reference)
        one, marks = (one << shift) & mask, np.where(True, marks << shift, zero) & mask
        index = place // 4
        old = self._words.get(index)
        cause = value.cause or guard.cause or state.here("it is stored from a value that is not known")
        if old is None:
            old = Word(
                np.zeros((1, 1, 1), np.uint32), unknown=_every_bit(), cause=state.here("nothing was stored")
            )
        before = zero if old.unknown is None else old.unknown
        bits = np.where(stores, (old.part & ~mask) | one, old.part).astype(np.uint32)
        marks = np.where(stores, (before & ~mask) | marks, before).astype(np.uint32)
        if bits.shape[0] > 1 and bool((bits == bits[:1]).all() and (marks == marks[:1]).all()):
            bits, marks = bits[:1], marks[:1]
        self._words[index] = Word(bits, None, marks if marks.any() else None, cause)

    def _addresses(self, state: State, reference: Reference, active: Array | None) -> Array | None:
        """Return byte addresses as int64; None where one of an active lane is not known."""
        total, _ = address(state, reference.address)
        if total.unknown is not None:
            unknown = (total.unknown != 0) if active is None else (total.unknown != 0) & active
            if unknown.any():
                return None
        return total.bits.astype(np.int64)


def _every_bit() -> Array:
    return np.full((1, 1, 1), ALL_BITS)


def _field(place: int, reference: Reference) -> tuple[Any, Any]:
    if reference.bytes >= 4:
        return ALL_BITS, np.uint32(0)
    shift = 8 * (place % 4)
    return np.uint32(((1 << 8 * reference.bytes) - 1) << shift), np.uint32(shift)


def _narrow(value: Word, shift: int, reference: Reference) -> Word:
    if reference.bytes >= 4:
        return value
    bits = 8 * reference.bytes

    def cut(word: Array) -> Array:
        low = (word >> np.uint32(shift)) & np.uint32((1 << bits) - 1)
        if reference.signed:
            return ((low << np.uint32(32 - bits)).view(np.int32) >> np.int32(32 - bits)).view(np.uint32)
        return low

    marks = None if value.unknown is None else cut(value.unknown)
    return Word(cut(value.bits), None, marks if marks is not None and marks.any() else None, value.cause)
