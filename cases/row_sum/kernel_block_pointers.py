"""The weighted row sum of `kernel.py`, with block pointers: Triton keeps the offsets, shapes and strides.

A block pointer is made once, from the whole tensor's shape and strides, and moved by elements. What
`boundary_check` finds outside the shape is not read and comes back as `padding_option` says. Triton 3.9 no
longer has block pointers.
"""

import triton
import triton.language as tl
from triton._C.libtriton import ir

if not hasattr(ir.builder, "create_make_block_ptr"):
    raise ImportError(
        "this version shows block pointers, which Triton 3.8 and later no longer have "
        f"(found Triton {triton.__version__}): use Triton 3.6 or 3.7, or kernel.py"
    )


@triton.jit
def weighted_row_sum_kernel(
    x_ptr, w_ptr, y_ptr,
    stride_xr, stride_xc, stride_w,
    N_ROWS, N_COLS,
    ROWS_TILE_SIZE: tl.constexpr,
    COLS_TILE_SIZE: tl.constexpr,
):  # fmt: skip
    row_tile_index = tl.program_id(0)
    x_block_ptr = tl.make_block_ptr(
        x_ptr,
        shape=(N_ROWS, N_COLS),
        strides=(stride_xr, stride_xc),
        offsets=(row_tile_index * ROWS_TILE_SIZE, 0),
        block_shape=(ROWS_TILE_SIZE, COLS_TILE_SIZE),
        order=(1, 0),
    )
    w_block_ptr = tl.make_block_ptr(
        w_ptr,
        shape=(N_COLS,),
        strides=(stride_w,),
        offsets=(0,),
        block_shape=(COLS_TILE_SIZE,),
        order=(0,),
    )
    y_block_ptr = tl.make_block_ptr(
        y_ptr,
        shape=(N_ROWS,),
        strides=(1,),
        offsets=(row_tile_index * ROWS_TILE_SIZE,),
        block_shape=(ROWS_TILE_SIZE,),
        order=(0,),
    )

    y = tl.zeros((ROWS_TILE_SIZE,), dtype=tl.float32)
    for _ in range(tl.cdiv(N_COLS, COLS_TILE_SIZE)):
        x = tl.load(x_block_ptr, boundary_check=(0, 1), padding_option="zero")  # (ROWS_, COLS_TILE_SIZE)
        w = tl.load(w_block_ptr, boundary_check=(0,), padding_option="zero")  # (COLS_TILE_SIZE,)
        y += tl.sum(x.to(tl.float32) * w[None, :].to(tl.float32), axis=1)
        x_block_ptr = tl.advance(x_block_ptr, (0, COLS_TILE_SIZE))
        w_block_ptr = tl.advance(w_block_ptr, (COLS_TILE_SIZE,))

    tl.store(y_block_ptr, y.to(y_ptr.dtype.element_ty), boundary_check=(0,))
