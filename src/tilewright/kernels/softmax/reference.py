"""Softmax in plain PyTorch: all at once, and in one pass over tiles with a running maximum."""

from __future__ import annotations

import torch


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return the softmax along a dimension, computed in fp32 (fp64 stays) and given in x's type.

    -inf counts for nothing; a row of nothing else gives zeros, where torch gives NaN.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if not wide.numel():
        return torch.zeros_like(x)
    m = wide.amax(dim, keepdim=True)
    e = torch.exp(wide - torch.where(torch.isneginf(m), 0.0, m))
    d = e.sum(dim, keepdim=True)
    return torch.where(d > 0, e / torch.where(d > 0, d, 1.0), 0.0).to(x.dtype)


def running_maximum_and_sum(x: torch.Tensor, tile: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return maximum and sum of exp(x - maximum) along the last dimension, read once in tiles; fp32 at least.

    Raise ValueError for a tile below 1.
    """
    if tile < 1:
        raise ValueError(f"tile must be 1 or more, found {tile}")
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    m = wide.new_full(wide.shape[:-1], float("-inf"))
    d = torch.zeros_like(m)
    for start in range(0, wide.shape[-1], tile):
        part = wide[..., start : start + tile]
        new = torch.maximum(m, part.amax(-1))
        # Where all was -inf so far there is nothing to rescale, and -inf - -inf would be NaN.
        base = torch.where(torch.isneginf(new), 0.0, new)
        d = d * torch.exp(m - base) + torch.exp(part - base[..., None]).sum(-1)
        m = new
    return m, d
