"""The weighted row sum, y[r] = sum over c of x[r, c] * w[c], with pointer arithmetic.

The smallest kernel that has everything: a program per tile of rows, a loop over tiles of columns, masks at
both ragged edges.
"""

import triton
import triton.language as tl


@triton.jit
def weighted_row_sum_kernel(
    x_ptr, w_ptr, y_ptr,
    stride_xr, stride_xc, stride_w,
    N_ROWS, N_COLS,
    ROWS_TILE_SIZE: tl.constexpr,
    COLS_TILE_SIZE: tl.constexpr,
):  # fmt: skip
    # Rows in 64 bits: row * stride_xr passes 2**31 elements long before a GPU's memory is full.
    rows = tl.program_id(0).to(tl.int64) * ROWS_TILE_SIZE + tl.arange(0, ROWS_TILE_SIZE)
    x_row_ptrs = x_ptr + rows[:, None] * stride_xr  # (ROWS_TILE_SIZE, 1)

    y = tl.zeros((ROWS_TILE_SIZE,), dtype=tl.float32)
    for first_col in range(0, N_COLS, COLS_TILE_SIZE):
        cols = tl.cast(first_col, tl.int64) + tl.arange(0, COLS_TILE_SIZE)
        # A masked element reads as 0, which adds nothing.
        x_mask = (rows[:, None] < N_ROWS) & (cols[None, :] < N_COLS)
        x = tl.load(x_row_ptrs + cols[None, :] * stride_xc, mask=x_mask, other=0.0)  # (ROWS_, COLS_TILE_SIZE)
        w = tl.load(w_ptr + cols * stride_w, mask=cols < N_COLS, other=0.0)  # (COLS_TILE_SIZE,)
        y += tl.sum(x.to(tl.float32) * w[None, :].to(tl.float32), axis=1)

    tl.store(y_ptr + rows, y.to(y_ptr.dtype.element_ty), mask=rows < N_ROWS)
