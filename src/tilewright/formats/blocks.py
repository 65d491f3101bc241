"""Block schemes: numbers of few bits that share scales. Quantise, dequantise, and what was lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tilewright.errors import did_you_mean
from tilewright.formats.element import FORMATS, Codes, ElementFormat, FormatError, Numbers

SCALE_ROUNDINGS = ("down", "nearest-even", "up")
_E4M3, _E8M0 = FORMATS["E4M3"], FORMATS["E8M0"]
_TENSOR_SCALE_BITS = 32


@dataclass(frozen=True)
class Scheme:
    """How a tensor is held: its elements, how many share a scale, and what the scale is.

    `scale`: `none`; `fp32` (amax over the largest element, for each block or the tensor); `e8m0` (a power of two for
    each block: of amax, less the largest element's); `e4m3` (for each block, times one of fp32 for the tensor).
    `block` None: one scale for the whole tensor. `scale_rounding` is of the block's scale (e8m0, e4m3).
    """

    name: str
    element: ElementFormat
    block: int | None
    scale: str
    scale_rounding: str = "nearest-even"
    doc: str = ""

    def bits(self, values: int) -> int:
        """Return the bits that so many values take, scales among them."""
        blocks = math.ceil(values / self.block) if self.block else 1
        per_block = {"none": 0, "fp32": 32, "e8m0": _E8M0.bits, "e4m3": _E4M3.bits}[self.scale]
        tensor = _TENSOR_SCALE_BITS if self.scale == "e4m3" else 0
        return values * self.element.bits + blocks * per_block + tensor


@dataclass(frozen=True)
class Quantised:
    """A tensor in few bits beside what it was: codes, the scale of every block, and the numbers it stands for.

    `scales` multiply the elements' numbers. `scale_codes` are the stored ones (E8M0 or E4M3; None for fp32), and
    `tensor_scale` what amax was brought to (NVFP4: 448 * 6 / amax), None where there is none.
    """

    scheme: Scheme
    original: Numbers
    codes: Codes
    scales: Numbers
    scale_codes: Codes | None
    tensor_scale: float | None

    @property
    def values(self) -> Numbers:
        """The numbers that the codes stand for, in the tensor's shape."""
        return self.scheme.element.decode(self.codes) * self.scale_of_each

    @property
    def scale_of_each(self) -> Numbers:
        """The scale of every element."""
        length = self.scheme.block or max(self.original.size, 1)
        return np.repeat(self.scales, length)[: self.original.size].reshape(self.original.shape)

    @property
    def errors(self) -> Numbers:
        """What was lost: dequantised less original."""
        return self.values - self.original

    def measures(self, part: slice = slice(None)) -> dict[str, Any]:
        """Return what was lost over a part of the flattened tensor.

        Mean squared and largest error, signal to noise in dB (None where nothing was lost or there is no signal), and
        how many values became 0 that were not.
        """
        original, errors = self.original.ravel()[part], self.errors.ravel()[part]
        noise, signal = float(np.sum(errors**2)), float(np.sum(original**2))
        return {
            "mse": noise / max(original.size, 1),
            "max_abs": float(np.abs(errors).max(initial=0.0)),
            "sqnr_db": 10 * math.log10(signal / noise) if noise and signal else None,
            "zeroed": int(np.sum((self.values.ravel()[part] == 0) & (original != 0))),
        }


SCHEMES = {
    s.name: s
    for s in (
        Scheme("FP8_E4M3", FORMATS["E4M3"], None, "none", doc="8-bit floats as they are"),
        Scheme("FP8_E5M2", FORMATS["E5M2"], None, "none", doc="8-bit floats as they are, wider and coarser"),
        Scheme("FP4", FORMATS["E2M1"], None, "fp32", doc="4-bit floats, one scale for the tensor"),
        Scheme("MXFP4", FORMATS["E2M1"], 32, "e8m0", "down", "4-bit floats, a power of two for each 32"),
        Scheme(
            "NVFP4",
            FORMATS["E2M1"],
            16,
            "e4m3",
            "up",
            "4-bit floats, an E4M3 scale for each 16, and one for all",
        ),
    )
}
"""The block schemes by name, with the scale rounding that each is published with."""


def scheme(name: str) -> Scheme:
    """Return the scheme of a name; raise FormatError if there is none."""
    found = SCHEMES.get(name.upper())
    if found is None:
        raise FormatError(
            f"no scheme {name!r}{did_you_mean(name.upper(), SCHEMES)}; there are: {', '.join(SCHEMES)}"
        )
    return found


def quantise(tensor: ArrayLike, how: Scheme) -> Quantised:
    """Hold a tensor of any shape in few bits; blocks run along its flattened values, the last may be short.

    A block of zeros has the least scale and zeros for codes. Raise FormatError for NaN or infinity.
    """
    original = np.asarray(tensor, dtype=np.float64)
    if not np.isfinite(original).all():
        at = np.argwhere(~np.isfinite(original))[0]
        raise FormatError(f"value {[int(i) for i in at]} is {original[tuple(at)]}: expected finite numbers")
    if how.scale_rounding not in SCALE_ROUNDINGS:
        raise FormatError(
            f"a scale is rounded by one of {', '.join(SCALE_ROUNDINGS)}, found {how.scale_rounding!r}"
        )
    if how.block is not None and how.block < 1:
        raise FormatError(f"a block needs 1 value or more, found {how.block}")
    scales, scale_codes, tensor_scale = _scales(np.abs(original).ravel(), how)
    length = how.block or max(original.size, 1)
    each = np.repeat(scales, length)[: original.size].reshape(original.shape)
    # A scale of 0 is of zeros alone, or of numbers that are lost whole.
    scaled = np.divide(original, each, out=np.zeros_like(original), where=each > 0)
    return Quantised(how, original, how.element.encode(scaled), scales, scale_codes, tensor_scale)


def _scales(magnitudes: Numbers, how: Scheme) -> tuple[Numbers, Codes | None, float | None]:
    """Return the scale of every block, its code, and the tensor's scale."""
    length = how.block or max(magnitudes.size, 1)
    starts = np.arange(0, max(magnitudes.size, 1), length)
    amax = np.maximum.reduceat(magnitudes, starts) if magnitudes.size else np.zeros(1)
    if how.scale == "none":
        return np.ones(len(starts)), None, None
    if how.scale == "fp32":
        return np.where(amax > 0, amax / how.element.largest, 1.0), None, None
    if how.scale == "e8m0":
        return _powers_of_two(amax, how)
    largest = float(amax.max())
    wanted = _E4M3.largest * how.element.largest / largest if largest else 1.0
    # It is stored in fp32: of a tensor of next to nothing it stays finite.
    tensor_scale = min(wanted, float(np.finfo(np.float32).max))
    codes = _E4M3.encode(amax * tensor_scale / how.element.largest, _SCALE[how.scale_rounding])
    return _E4M3.decode(codes) / tensor_scale, codes, tensor_scale


_SCALE = {"down": "toward-zero", "nearest-even": "nearest-even", "up": "away-from-zero"}


def _powers_of_two(amax: Numbers, how: Scheme) -> tuple[Numbers, Codes, None]:
    """Return the powers of two of blocks: amax's, rounded, less the largest element's (OCP MX 1.0)."""
    mantissa, exponent = np.frexp(amax)  # amax = mantissa * 2^exponent, mantissa from 0.5
    above = {
        "down": np.zeros(amax.shape, bool),
        "up": mantissa > 0.5,
        "nearest-even": mantissa > math.sqrt(0.5),
    }
    power = exponent - 1 + above[how.scale_rounding] - how.element.largest_exponent
    codes = np.clip(np.where(amax > 0, power + _E8M0.bias, 0), 0, 254).astype(np.uint8)
    return _E8M0.decode(codes), codes, None
