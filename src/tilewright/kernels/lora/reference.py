"""A linear layer with a low-rank adapter, in plain PyTorch."""

from __future__ import annotations

import torch
from torch.nn.functional import linear


def lora_linear(
    x: torch.Tensor, weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, scale: float = 1.0
) -> torch.Tensor:
    """Return x W^T + scale (x A^T) B^T, without B A ever being made; gradients reach A and B, and W if it asks.

    x: (..., in); weight: (out, in); a: (rank, in); b: (out, rank). Raises ValueError for shapes that do not fit.
    """
    _check(weight, a, b)
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(f"x has {x.shape[-1]} values in its last dimension, the weight takes {weight.shape[1]}")
    return linear(x, weight) + scale * linear(linear(x, a), b)


def merged(weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """Return W + scale B A, in the weight's type."""
    _check(weight, a, b)
    return (weight + scale * (b @ a)).to(weight.dtype)


def _check(weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    if b.shape != (weight.shape[0], a.shape[0]) or a.shape[1] != weight.shape[1]:
        raise ValueError(
            f"expected weight (out, in), a (rank, in), b (out, rank), found "
            f"{list(weight.shape)}, {list(a.shape)}, {list(b.shape)}"
        )
