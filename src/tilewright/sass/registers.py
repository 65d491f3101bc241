"""The register file: for each register one value, or several that hold for different programs.

Programs run together part ways: those that have left a loop write registers that the others still use for
something else. Merging the two would make an array over all lanes of all programs out of two small values, so
they are kept side by side, each under the mask that it was written with, until something reads across both.
"""

from __future__ import annotations

from tilewright.sass.operands import Register
from tilewright.sass.values import (
    Array,
    Cause,
    Flag,
    Value,
    Word,
    first_write,
    merge_flags,
    merge_words,
    over_same_lanes,
    unknown_flag,
)

_FEW_PIECES, _MOST_PIECES = 3, 8
_Piece = tuple[Array | None, Value]


class Registers:
    """Values by register, read and written under a mask over (programs, warps, lanes); None: all."""

    def __init__(self) -> None:
        self._pieces: dict[Register, list[_Piece]] = {}
        self._gone: Array | None = None

    def view(self, register: Register, mask: Array | None) -> Value | None:
        """Return a value that is right in the lanes of mask; None where nothing was ever written."""
        pieces = self._pieces.get(register)
        if pieces is None:
            return None
        if len(pieces) == 1 and pieces[0][0] is None:
            return pieces[0][1]
        for held, value in pieces:
            if held is None or held is mask:
                return value
            if mask is not None:
                shared = held & mask
                if not shared.any():
                    continue
                if bool((shared == mask).all()):
                    return value
            elif bool(held.all()):
                return value
            break
        else:
            return None
        whole = _merged(register, pieces)
        self._pieces[register] = [(None, whole)]
        return whole

    def store(self, register: Register, mask: Array | None, value: Value) -> None:
        """Write a value in the lanes of mask."""
        if mask is None:
            self._pieces[register] = [(None, value)]
            return
        old = self._pieces.get(register, [])
        if old and old[0][0] is mask:
            old[0] = (mask, value)
            return
        kept = [(held, v) for held, v in old if held is None or bool((held & ~mask).any())]
        pieces = [(mask, value), *kept]
        if len(pieces) > _FEW_PIECES:
            gone = self._gone
            if gone is not None:
                pieces = [(held, v) for held, v in pieces if held is None or bool((held & ~gone).any())]
            pieces = [pieces[0], *_joined(pieces[1:])]
        if len(pieces) > _MOST_PIECES or mask.shape[2] > 1:
            pieces = [(None, _merged(register, pieces))]
        self._pieces[register] = pieces

    def leave(self, lanes: Array) -> None:
        """Note lanes that have exited: nothing will read their registers."""
        self._gone = lanes if self._gone is None else self._gone | lanes


def _joined(pieces: list[_Piece]) -> list[_Piece]:
    """Join neighbours that stay small when they are joined: none varies over lanes otherwise than the other."""
    found: list[_Piece] = []
    for held, value in pieces:
        if found:
            above, newer = found[-1]
            assert above is not None
            joined: Value | None = None
            if isinstance(newer, Word) and isinstance(value, Word):
                if over_same_lanes(value, newer) is not None:
                    joined = merge_words(value, newer, above, None, None)
            elif (
                isinstance(newer, Flag)
                and isinstance(value, Flag)
                and newer.bits.shape[2] == value.bits.shape[2] == 1
            ):
                joined = merge_flags(value, newer, above, None, None)
            if joined is not None:
                found[-1] = (None if held is None else above | held, joined)
                continue
        found.append((held, value))
    return found


def _merged(register: Register, pieces: list[_Piece]) -> Value:
    """Return one value that is right everywhere; unknown where no piece holds."""
    *upper, (mask, value) = pieces
    if mask is not None:
        cause = Cause(0, f"{register} was not written for all lanes")
        if isinstance(value, Flag):
            value = merge_flags(unknown_flag(cause), value, mask, None, None)
        else:
            value = first_write(value, mask, None, cause)
    for held, new in reversed(upper):
        assert held is not None
        if isinstance(new, Flag):
            assert isinstance(value, Flag)
            value = merge_flags(value, new, held, None, None)
        else:
            assert isinstance(new, Word)
            assert isinstance(value, Word)
            value = merge_words(value, new, held, None, None)
    return value
