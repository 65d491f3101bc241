"""Launches in which a rule finds something, and the same mended: the pairs of pairs.py that are not the flagship's."""

from typing import Any

from tilewright import Case, Param, Tensor

KERNELS = "../../tests/rules/kernels.py"
MANY = 1 << 24


def _copied(p: Any) -> dict[str, Any]:
    x = Tensor.of("fp32", (MANY,))
    return {"x_ptr": x, "y_ptr": Tensor.of("fp32", (MANY,)), "BLOCK": p.BLOCK, "STEP": p.STEP}


def _product(p: Any) -> dict[str, Any]:
    a, b = Tensor.of(p.dtype, (p.m, p.K)), Tensor.of(p.dtype, (64, p.K))
    return {
        "a_ptr": a, "b_ptr": b, "c_ptr": Tensor.of("fp32", (p.tiles, p.m, 64)), "K": p.K, "M": p.m, "N": 64, "BK": 64,
        "PRECISION": p.precision,
    }  # fmt: skip


def _gathered(p: Any) -> dict[str, Any]:
    x = Tensor.of("fp32", (MANY,))
    return {
        "x_ptr": x, "y_ptr": Tensor.of("fp32", (MANY,)), "width": 1000, "stride": 1024, "STEPS": 64, "BLOCK": 256,
        "DIVIDE": p.divide,
    }  # fmt: skip


def _summed(p: Any) -> dict[str, Any]:
    return {
        "x_ptr": Tensor.of("int8", (p.rows * 8192 * 3,)), "y_ptr": Tensor.of("fp32", (p.rows,)), "n": 8192, "stride": 3,
        "BLOCK": 1024, "EVEN": p.even, "WIDE": p.wide,
    }  # fmt: skip


def _added(p: Any) -> dict[str, Any]:
    return {"x_ptr": Tensor.of("fp32", (MANY,)), "y_ptr": Tensor.of("fp32", (1,)), "BLOCK": 1024, "FIRST": p.first}


CASES = {
    "copy": Case(
        kernel=f"{KERNELS}:copy",
        params={"BLOCK": Param(1024), "STEP": Param(1), "programs": Param(2048)},
        args=_copied,
        grid=lambda p: (p.programs,),
    ),
    "multiply": Case(
        kernel=f"{KERNELS}:multiply",
        params={
            "K": Param(8192), "m": Param(64), "tiles": Param(528), "dtype": Param("fp16"), "precision": Param("tf32"),
        },
        args=_product,
        grid=lambda p: (p.tiles,),
    ),
    "gather": Case(
        kernel=f"{KERNELS}:gather", params={"divide": Param(True)}, args=_gathered, grid=lambda p: (MANY // 64 // 256,)
    ),
    "sum_rows": Case(
        kernel=f"{KERNELS}:sum_rows",
        params={"rows": Param(4096), "even": Param(True), "wide": Param(False)},
        args=_summed,
        grid=lambda p: (p.rows,),
    ),
    "sum_all": Case(
        kernel=f"{KERNELS}:sum_all", params={"first": Param(False)}, args=_added, grid=lambda p: (MANY // 1024,)
    ),
}  # fmt: skip
