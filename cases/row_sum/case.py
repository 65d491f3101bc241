"""The weighted row sum as cases: `case.py:pointers`, and `case.py:block_pointers` for Triton 3.6 and 3.7."""

from __future__ import annotations

from typing import Any

from tilewright import Case, Param, Tensor

PARAMS = {
    "ROWS": Param(4096, "rows of x", smallest=0),
    "COLS": Param(4096, "columns of x", smallest=0),
    "dtype": Param("fp32", choices=("fp32", "bf16", "fp16")),
    "ROWS_TILE_SIZE": Param(16, "rows per program", power_of_two=True),
    "COLS_TILE_SIZE": Param(128, "columns per step", power_of_two=True),
}


def args(p: Any) -> dict[str, Any]:
    x = Tensor.of(p.dtype, (p.ROWS, p.COLS))
    return {
        "x_ptr": x,
        "w_ptr": Tensor.of(p.dtype, (p.COLS,)),
        "y_ptr": Tensor.of(p.dtype, (p.ROWS,)),
        "stride_xr": x.strides[0],
        "stride_xc": x.strides[1],
        "stride_w": 1,
        "N_ROWS": p.ROWS,
        "N_COLS": p.COLS,
        "ROWS_TILE_SIZE": p.ROWS_TILE_SIZE,
        "COLS_TILE_SIZE": p.COLS_TILE_SIZE,
    }


def needed_bytes(p: Any) -> float:
    """x and w read once, y written once."""
    width = {"fp32": 4, "bf16": 2, "fp16": 2}[p.dtype]
    return width * (p.ROWS * p.COLS + p.COLS + p.ROWS)


def row_sum(file: str, kernel: str) -> Case:
    return Case(
        kernel=f"{file}:{kernel}",
        params=PARAMS,
        args=args,
        grid=lambda p: (-(-p.ROWS // p.ROWS_TILE_SIZE),),
        needed_operations=lambda p: 2 * p.ROWS * p.COLS,
        needed_bytes=needed_bytes,
        doc="y[r] = sum over c of x[r, c] * w[c]",
    )


CASES = {
    "pointers": row_sum("kernel.py", "weighted_row_sum_kernel"),
    "block_pointers": row_sum("kernel_block_pointers.py", "weighted_row_sum_kernel"),
}
