"""The weighted row sum in plain PyTorch, and the launch that both kernels share."""

import torch
import triton
from torch import Tensor

ROWS_TILE_SIZE = 16
COLS_TILE_SIZE = 64


def weighted_row_sum(x: Tensor, w: Tensor) -> Tensor:
    """Return y[r] = sum over c of x[r, c] * w[c], summed in fp64: x is (rows, cols), w (cols,), y (rows,)."""
    return (x.double() * w.double()).sum(dim=1).to(x.dtype)


def launch(kernel, x: Tensor, w: Tensor) -> Tensor:
    """Run either `weighted_row_sum_kernel` on x (rows, cols), w (cols,), of any strides; return y (rows,)."""
    if x.ndim != 2 or w.shape != x.shape[1:]:
        raise ValueError(f"x must be (rows, cols) and w (cols,), found {tuple(x.shape)} and {tuple(w.shape)}")
    n_rows, n_cols = x.shape
    y = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    if n_rows > 0:
        kernel[(triton.cdiv(n_rows, ROWS_TILE_SIZE),)](
            x, w, y,
            *x.stride(), *w.stride(),
            n_rows, n_cols,
            ROWS_TILE_SIZE=ROWS_TILE_SIZE,
            COLS_TILE_SIZE=COLS_TILE_SIZE,
        )  # fmt: skip
    return y
