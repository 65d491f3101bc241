"""Block schemes on torch tensors, in plain PyTorch: the same numbers as `tilewright.formats`, on any device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tilewright.formats import FORMATS, ElementFormat, Scheme

_E4M3, _E8M0 = FORMATS["E4M3"], FORMATS["E8M0"]


@dataclass(frozen=True)
class Quantised:
    """Codes (uint8, one an element, in the tensor's shape), the scale of every block in fp64, and the scheme."""

    scheme: Scheme
    codes: torch.Tensor
    scales: torch.Tensor


def quantise(x: torch.Tensor, how: Scheme) -> Quantised:
    """Hold a tensor of any shape and stride in few bits; blocks run along its flattened values, the last may be short.

    Raises ValueError for NaN or infinity.
    """
    if not torch.isfinite(x).all():
        at = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise ValueError(f"value {at} is {x[tuple(at)].item()}: expected finite numbers")
    flat = x.to(torch.float64).flatten()
    length = how.block or max(flat.numel(), 1)
    blocks = max(math.ceil(flat.numel() / length), 1)
    padded = torch.nn.functional.pad(flat, (0, blocks * length - flat.numel())).view(blocks, length)
    scales = _scales(padded.abs().amax(1), how)
    scaled = torch.where(scales[:, None] > 0, padded / scales[:, None], 0.0)
    codes = _encode(scaled, how.element).flatten()[: flat.numel()].view(x.shape)
    return Quantised(how, codes, scales)


def dequantise(held: Quantised, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the numbers that a quantised tensor stands for."""
    values = torch.tensor(held.scheme.element.values, device=held.codes.device)[held.codes.long()]
    length = held.scheme.block or max(held.codes.numel(), 1)
    each = held.scales.repeat_interleave(length)[: held.codes.numel()].view(held.codes.shape)
    return (values * each).to(dtype)


def _scales(amax: torch.Tensor, how: Scheme) -> torch.Tensor:
    if how.scale == "none":
        return torch.ones_like(amax)
    if how.scale == "fp32":
        return torch.where(amax > 0, amax / how.element.largest, 1.0)
    if how.scale == "e8m0":
        mantissa, exponent = torch.frexp(amax)
        above = {"down": math.inf, "up": 0.5, "nearest-even": math.sqrt(0.5)}[how.scale_rounding]
        power = exponent - 1 + (mantissa > above).int() - how.element.largest_exponent
        least = torch.full_like(power, -_E8M0.bias)
        return torch.ldexp(torch.ones_like(amax), torch.where(amax > 0, power, least).clamp(-127, 127))
    largest = float(amax.max())
    total = min(_E4M3.largest * how.element.largest / largest, torch.finfo(torch.float32).max) if largest else 1.0
    grid = torch.tensor(_E4M3.magnitudes, device=amax.device)
    wanted = amax * total / how.element.largest
    return grid[_round(wanted, grid, how.scale_rounding)] / total


def _encode(x: torch.Tensor, one: ElementFormat) -> torch.Tensor:
    code = _round(x.abs(), torch.tensor(one.magnitudes, device=x.device), "nearest-even")
    if one.whole:
        least = 2 ** (one.bits - 1)
        complement = (2 * least - code) % (2 * least)
        code = torch.where(x <= 0.5 - least, least, torch.where(torch.signbit(x), complement, code))
    else:
        code = code + torch.signbit(x).long() * 2 ** (one.bits - 1)
    return code.to(torch.uint8)


def _round(magnitude: torch.Tensor, grid: torch.Tensor, rounding: str) -> torch.Tensor:
    """Return places in an ascending grid: the nearest, half way the even one; or the one below or above."""
    lower = (torch.searchsorted(grid, magnitude, right=True) - 1).clamp(0)
    upper = (lower + 1).clamp(max=len(grid) - 1)
    middle = grid[lower] / 2 + grid[upper] / 2
    if rounding == "nearest-even":
        take = (magnitude > middle) | ((magnitude == middle) & (lower % 2 == 1))
    else:
        take = (magnitude > grid[lower]) & (rounding == "up")
    return torch.where(take, upper, lower)
