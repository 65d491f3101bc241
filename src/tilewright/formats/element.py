"""Element formats: which bits stand for which number, and which number is nearest to another.

The layouts follow the OCP specifications "8-bit Floating Point (OFP8)" and "Microscaling Formats (MX)" 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.errors import TilewrightError, did_you_mean

Codes = NDArray[np.uint8]
Numbers = NDArray[np.float64]
ROUNDINGS = ("nearest-even", "up", "down", "toward-zero", "away-from-zero")


class FormatError(TilewrightError):
    """A format, rounding or value that is not there or cannot be held; the message says what is expected."""


@dataclass(frozen=True)
class ElementFormat:
    """A format of at most 8 bits: sign, exponent, mantissa; or a whole number (`exponent_bits` 0).

    `special` says what the largest exponent holds: `none` (numbers), `fn` (NaN in the last code of each sign alone),
    `ieee` (infinity, then NaN), `e8m0` (unsigned powers of two; the last code is NaN).
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    special: str = "none"
    doc: str = ""

    @property
    def signed(self) -> bool:
        """Whether there is a sign bit."""
        return self.special != "e8m0"

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return int(self.signed) + self.exponent_bits + self.mantissa_bits

    @property
    def whole(self) -> bool:
        """Whether it is a whole number in two's complement."""
        return self.exponent_bits == 0

    @cached_property
    def values(self) -> Numbers:
        """The number of every code, in the order of the codes; NaN and infinity among them."""
        codes = np.arange(2**self.bits)
        if self.whole:
            return np.where(codes < 2 ** (self.bits - 1), codes, codes - 2**self.bits).astype(np.float64)
        exponent = (codes >> self.mantissa_bits) & (2**self.exponent_bits - 1)
        mantissa = (codes & (2**self.mantissa_bits - 1)) / 2**self.mantissa_bits
        if self.special == "e8m0":
            powers: Numbers = np.ldexp(1.0, exponent - self.bias)
            powers[-1] = np.nan
            return powers
        normal = exponent > 0
        found = np.ldexp(mantissa + normal, np.maximum(exponent, 1) - self.bias)
        last = exponent == 2**self.exponent_bits - 1
        if self.special == "ieee":
            found = np.where(last, np.where(mantissa > 0, np.nan, np.inf), found)
        elif self.special == "fn":
            ones = mantissa == 1 - 0.5**self.mantissa_bits
            found = np.where(last & ones, np.nan, found)
        signed: Numbers = np.where(codes >> (self.bits - 1), -found, found)
        return signed

    @cached_property
    def magnitudes(self) -> Numbers:
        """The finite numbers of 0 or more, from the least; their place is their code."""
        half = self.values[: 2 ** (self.bits - 1)] if self.signed else self.values
        found: Numbers = half[np.isfinite(half)]
        return found

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float(self.magnitudes[-1])

    @property
    def largest_exponent(self) -> int:
        """The power of two of the largest finite number: 2 for E2M1 (6 = 1.5 * 2^2)."""
        return int(np.frexp(self.largest)[1]) - 1

    @property
    def least(self) -> float:
        """The smallest number above 0."""
        return float(self.magnitudes[self.magnitudes > 0][0])

    @property
    def distinct(self) -> int:
        """How many different finite numbers there are; -0 is 0."""
        return int(np.unique(self.values[np.isfinite(self.values)]).size)

    def decode(self, codes: ArrayLike) -> Numbers:
        """Return the numbers of codes; raise FormatError for a code of more bits than the format has."""
        found = np.asarray(codes)
        if found.size and (int(found.min()) < 0 or int(found.max()) >= 2**self.bits):
            raise FormatError(
                f"{self.name} has codes from 0 to {2**self.bits - 1}, found {found.min()} to {found.max()}"
            )
        return self.values[found.astype(np.intp)]

    def encode(self, numbers: ArrayLike, rounding: str = "nearest-even", saturate: bool = True) -> Codes:
        """Return the code of each number, rounded.

        `nearest-even` takes the even code of two that are equally near (E8M0: the larger). What is too large becomes
        the largest finite number, or, without `saturate`, what the format has for it: infinity or NaN (those without
        either saturate always). NaN stays NaN, and raises FormatError where the format has none; so do negative
        numbers and 0 in E8M0.
        """
        given = np.asarray(numbers, dtype=np.float64)
        self._check(given, rounding)
        nan = np.isnan(given)
        magnitude = np.where(nan, 0.0, np.abs(given))
        negative = np.signbit(given)
        code = self._round(magnitude, negative, rounding)
        if not saturate and self.special in ("fn", "ieee", "e8m0"):
            code = np.where(self._overflows(magnitude, negative, rounding), len(self.magnitudes), code)
        if self.whole:
            lowest = 2 ** (self.bits - 1)
            # Two's complement reaches one further below 0.
            down = negative & (magnitude >= lowest - 0.5) & (rounding == "nearest-even")
            code = np.where(down, lowest, np.where(negative, (2**self.bits - code) % 2**self.bits, code))
        elif self.signed:
            code = code + np.where(negative, 2 ** (self.bits - 1), 0)
        if nan.any():
            code = np.where(
                nan, 2 ** (self.bits - self.signed) - 1 + np.where(negative & self.signed, 128, 0), code
            )
        return code.astype(np.uint8)

    def round(self, numbers: ArrayLike, rounding: str = "nearest-even", saturate: bool = True) -> Numbers:
        """Return each number as the format holds it."""
        return self.decode(self.encode(numbers, rounding, saturate))

    def fields(self, code: int) -> tuple[str, str, str]:
        """Return a code's bits: sign, exponent, mantissa, each empty where the format has none."""
        bits = f"{int(code):0{self.bits}b}"
        sign, rest = (bits[0], bits[1:]) if self.signed else ("", bits)
        return sign, rest[: self.exponent_bits], rest[self.exponent_bits :]

    def _check(self, given: Numbers, rounding: str) -> None:
        if rounding not in ROUNDINGS:
            near = did_you_mean(rounding, ROUNDINGS)
            raise FormatError(f"no rounding {rounding!r}{near}; there are: {', '.join(ROUNDINGS)}")
        if np.isnan(given).any() and self.special == "none":
            raise FormatError(f"{self.name} has no NaN: found NaN at {_where(np.isnan(given))}")
        if self.special == "e8m0" and (bad := ~np.isnan(given) & (given <= 0)).any():
            raise FormatError(
                f"{self.name} holds numbers above 0 only: found {given[bad].flat[0]} at {_where(bad)}"
            )

    def _round(self, magnitude: Numbers, negative: NDArray[np.bool_], rounding: str) -> NDArray[np.int64]:
        grid = self.magnitudes
        lower = np.clip(np.searchsorted(grid, magnitude, side="right") - 1, 0, len(grid) - 1)
        upper = np.minimum(lower + 1, len(grid) - 1)
        if rounding == "nearest-even":
            # A middle of two neighbours needs few bits, so it is exact.
            middle = grid[lower] / 2 + grid[upper] / 2
            # Powers of two alone have no even one: half way goes up, as in ml_dtypes and torch.
            odd = (lower % 2 == 1) | (self.special == "e8m0")
            up = (magnitude > middle) | ((magnitude == middle) & odd)
        else:
            away = {"up": ~negative, "down": negative, "toward-zero": False, "away-from-zero": True}[rounding]
            up = np.asarray(away) & (magnitude > grid[lower])
        return np.where(up, upper, lower)

    def _overflows(self, magnitude: Numbers, negative: NDArray[np.bool_], rounding: str) -> NDArray[np.bool_]:
        """Whether a number rounds past the largest: half a step above it, to the even code beyond."""
        step = self.magnitudes[-1] - self.magnitudes[-2]
        if rounding == "nearest-even":
            half = self.largest + step / 2
            beyond: NDArray[np.bool_] = (magnitude > half) | ((magnitude == half) & (len(self.magnitudes) % 2 == 0))
            return beyond
        away = {"up": ~negative, "down": negative, "toward-zero": False, "away-from-zero": True}[rounding]
        past: NDArray[np.bool_] = (np.asarray(away) & (magnitude > self.largest)) | np.isinf(magnitude)
        return past


def _where(found: NDArray[np.bool_]) -> str:
    return "[" + ", ".join(map(str, np.argwhere(np.atleast_1d(found))[0])) + "]"


FORMATS = {
    f.name: f
    for f in (
        ElementFormat("E2M1", 2, 1, 1, doc="4-bit float of MXFP4 and NVFP4"),
        ElementFormat("E3M0", 3, 0, 3, doc="4-bit float of powers of two"),
        ElementFormat("E1M2", 1, 2, 1, doc="4-bit float of even steps"),
        ElementFormat("INT4", 0, 3, 0, doc="4-bit whole number, two's complement"),
        ElementFormat("E2M3", 2, 3, 1, doc="6-bit float of MXFP6"),
        ElementFormat("E3M2", 3, 2, 3, doc="6-bit float of MXFP6"),
        ElementFormat("E4M3", 4, 3, 7, "fn", "8-bit float, no infinity (float8_e4m3fn)"),
        ElementFormat("E5M2", 5, 2, 15, "ieee", "8-bit float with infinity (float8_e5m2)"),
        ElementFormat("E8M0", 8, 0, 127, "e8m0", "8-bit power of two: scales of the MX formats"),
    )
}
"""The element formats by name."""


def element(name: str) -> ElementFormat:
    """Return the format of a name, in capitals or not; raise FormatError if there is none."""
    found = FORMATS.get(name.upper())
    if found is None:
        raise FormatError(
            f"no format {name!r}{did_you_mean(name.upper(), FORMATS)}; there are: {', '.join(FORMATS)}"
        )
    return found
