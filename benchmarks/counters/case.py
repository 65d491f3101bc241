"""Kernels whose counters were read on hardware beside the counted ones: `case.py:NAME`. Nothing was fitted to them.

`PAIRS` lists each with the settings that were read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import Case, Param, Tensor
from tilewright.launch import Descriptor
from tilewright.launch.dtypes import dtype

T = Tensor.of


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _case(
    kernel: str,
    params: dict[str, Param],
    args: Callable[[Any], dict[str, Any]],
    grid: Callable[[Any], tuple[int, ...]],
    **options: Any,
) -> Case:
    return Case(kernel=f"kernels/{kernel}", params=params, args=args, grid=grid, doc=kernel, **options)


def _rows(kernel: str, block: int, *extra: str, dtype: str = "fp16") -> Case:
    """A kernel on the rows of a matrix."""
    params = {"ROWS": Param(1000), "COLS": Param(block), "BLOCK": Param(block), "dtype": Param(dtype)}

    def args(p: Any) -> dict[str, Any]:
        x = T(p.dtype, (p.ROWS, p.COLS))
        found: dict[str, Any] = {"x_ptr": x}
        if "w" in extra:
            found |= {"w_ptr": T("fp32", (p.COLS,)), "b_ptr": T("fp32", (p.COLS,))}
        found |= {"y_ptr": x, "stride": p.COLS}
        if "columns" in extra:
            found["columns"] = p.COLS
        if "w" in extra:
            found["eps"] = 1e-5
        return {**found, "BLOCK": p.BLOCK}

    return _case(f"rows.py:{kernel}", params, args, lambda p: (p.ROWS,))


def _flat(kernel: str, args: Callable[[Any], dict[str, Any]], block: int = 1024, **extra: Param) -> Case:
    """A kernel on blocks of a vector."""
    params = {"n": Param(100_003), "BLOCK": Param(block), **extra}
    return _case(kernel, params, lambda p: {**args(p), "BLOCK": p.BLOCK}, lambda p: (_up(p.n, p.BLOCK),))


PRODUCT = {
    "M": Param(1000),
    "N": Param(777),
    "K": Param(500),
    "BM": Param(64),
    "BN": Param(64),
    "BK": Param(32),
    "dtype": Param("fp16"),
}


def _product_args(p: Any) -> dict[str, Any]:
    out = "int32" if p.dtype == "int8" else "fp32" if p.dtype == "fp32" else "fp16"
    return {
        "a_ptr": T(p.dtype, (p.M, p.K)),
        "b_ptr": T(p.dtype, (p.K, p.N)),
        "c_ptr": T(out, (p.M, p.N)),
        "M": p.M,
        "N": p.N,
        "K": p.K,
        "stride_am": p.K,
        "stride_ak": 1,
        "stride_bk": p.N,
        "stride_bn": 1,
        "stride_cm": p.N,
        "stride_cn": 1,
        "BM": p.BM,
        "BN": p.BN,
        "BK": p.BK,
    }


def _grouped_args(p: Any) -> dict[str, Any]:
    return {**_product_args(p), "GROUP": p.GROUP, "ACC": dtype("int32" if p.dtype == "int8" else "fp32")}


def _plain_product_args(p: Any) -> dict[str, Any]:
    full = {**_product_args(p)}
    names = (
        "a_ptr",
        "b_ptr",
        "c_ptr",
        "M",
        "N",
        "K",
        "stride_am",
        "stride_bk",
        "stride_cm",
        "BM",
        "BN",
        "BK",
    )
    return {name: full[name] for name in names}


def _split_args(p: Any) -> dict[str, Any]:
    return {**_plain_product_args(p), "c_ptr": T("fp32", (p.M, p.N)), "PARTS": p.PARTS}


def _descriptor_args(p: Any) -> dict[str, Any]:
    return {
        "a": Descriptor(T("bf16", (p.M, p.K)), (p.BM, p.BK)),
        "b": Descriptor(T("bf16", (p.N, p.K)), (p.BN, p.BK)),
        "c": Descriptor(T("bf16", (p.M, p.N)), (p.BM, p.BN)),
        "M": p.M,
        "N": p.N,
        "K": p.K,
        "BM": p.BM,
        "BN": p.BN,
        "BK": p.BK,
    }


def _backward_args(p: Any) -> dict[str, Any]:
    x, row = T(p.dtype, (p.heads, p.N, p.D)), T("fp32", (p.heads, p.N))
    names = ("q_ptr", "k_ptr", "v_ptr", "do_ptr")
    return {
        **dict.fromkeys(names, x),
        "l_ptr": row,
        "d_ptr": row,
        "dk_ptr": x,
        "dv_ptr": x,
        "stride_head": p.N * p.D,
        "N": p.N,
        "scale": 0.125,
        "D": p.D,
        "BQ": p.BQ,
        "BK": p.BK,
        "CAUSAL": p.causal,
    }


def _tiles(p: Any) -> tuple[int]:
    return (_up(p.M, p.BM) * _up(p.N, p.BN),)


DESCRIPTORS = {
    **PRODUCT,
    "M": Param(1024),
    "N": Param(768),
    "K": Param(512),
    "BM": Param(128),
    "BN": Param(128),
    "BK": Param(64),
}
X = T("fp32", (1 << 20,))
I = T("int32", (1 << 20,))

CASES = {
    "softmax": _rows("softmax_row", 1024, "columns"),
    "softmax_online": _rows("softmax_online", 256, "columns"),
    "layer_norm": _rows("layer_norm", 512, "columns", "w"),
    "running_sum": _rows("running_sum", 512, dtype="fp32"),
    "sort": _rows("sort_row", 256, dtype="int32"),
    "dropout": _flat(
        "rows.py:dropout",
        lambda p: {"x_ptr": X, "y_ptr": X, "n": p.n, "p": 0.3, "seed": p.seed},
        seed=Param(77),
    ),
    "sines": _flat("rows.py:sines", lambda p: {"y_ptr": X, "n": p.n, "step": p.step}, step=Param(0.001)),
    "doubles": _flat(
        "rows.py:doubles",
        lambda p: {"x_ptr": T("fp64", (1 << 20,)), "y_ptr": T("fp64", (1 << 20,)), "n": p.n},
    ),
    "product": _case(
        "products.py:product",
        {**PRODUCT, "GROUP": Param(4)},
        _grouped_args,
        _tiles,
    ),
    "product_split": _case(
        "products.py:product_split",
        {**PRODUCT, "M": Param(512), "N": Param(512), "K": Param(1024), "PARTS": Param(3)},
        _split_args,
        lambda p: (p.M // p.BM, p.N // p.BN, p.PARTS),
    ),
    "product_persistent": _case(
        "products.py:product_persistent",
        {**PRODUCT, "K": Param(512), "programs": Param(100)},
        _plain_product_args,
        lambda p: (p.programs,),
    ),
    "product_descriptors": _case("products.py:product_descriptors", DESCRIPTORS, _descriptor_args, _tiles),
    "product_descriptors_persistent": _case(
        "products.py:product_descriptors_persistent",
        {**DESCRIPTORS, "programs": Param(20)},
        _descriptor_args,
        lambda p: (p.programs,),
    ),
    "attention_dkdv": _case(
        "products.py:attention_dkdv",
        {
            "heads": Param(8),
            "N": Param(1000),
            "D": Param(64),
            "BQ": Param(32),
            "BK": Param(64),
            "causal": Param(True),
            "dtype": Param("bf16"),
        },
        _backward_args,
        lambda p: (_up(p.N, p.BK), p.heads),
    ),
    "attention_varlen": _case(
        "products.py:attention_varlen",
        {"D": Param(64), "BQ": Param(32), "BK": Param(32)},
        lambda p: {
            "q_ptr": T("fp16", (1024, 64)),
            "k_ptr": T("fp16", (1024, 64)),
            "o_ptr": T("fp32", (1024,)),
            "starts_ptr": T("int32", (5,)),
            "stride": 64,
            "D": p.D,
            "BQ": p.BQ,
            "BK": p.BK,
        },
        lambda p: (2, 4),
    ),
    "transpose": _case(
        "moves.py:transpose",
        {
            "rows": Param(1000),
            "columns": Param(777),
            "BR": Param(64),
            "BC": Param(64),
            "dtype": Param("fp32"),
        },
        lambda p: {
            "x_ptr": T(p.dtype, (p.rows, p.columns)),
            "y_ptr": T(p.dtype, (p.columns, p.rows)),
            "rows": p.rows,
            "columns": p.columns,
            "BR": p.BR,
            "BC": p.BC,
        },
        lambda p: (_up(p.rows, p.BR), _up(p.columns, p.BC)),
    ),
    "total": _flat("moves.py:total", lambda p: {"x_ptr": X, "y_ptr": T("fp32", (1,)), "n": p.n}),
    "scatter_max": _flat(
        "moves.py:scatter_max",
        lambda p: {"x_ptr": I, "y_ptr": T("int32", (1000,)), "n": p.n, "bins": p.bins},
        bins=Param(999),
    ),
    "histogram": _flat(
        "moves.py:histogram", lambda p: {"x_ptr": I, "y_ptr": T("int32", (64,)), "BINS": 64}, n=Param(1 << 16)
    ),
    "divide": _flat(
        "moves.py:divide", lambda p: {"y_ptr": I, "n": p.n, "a": p.a, "b": p.b}, a=Param(37), b=Param(11)
    ),
    "divide_wide": _flat(
        "moves.py:divide_wide", lambda p: {"y_ptr": I, "n": p.n, "a": p.a}, 128, a=Param(12347)
    ),
    "early_return": _flat(
        "moves.py:early_return", lambda p: {"x_ptr": X, "y_ptr": X, "last": p.last}, last=Param(60)
    ),
    "collatz": _flat("moves.py:collatz", lambda p: {"y_ptr": I, "n": p.n}, 128),
    "gather_rows": _case(
        "moves.py:gather_rows",
        {"rows": Param(1000), "columns": Param(60), "step": Param(7), "BR": Param(16), "BC": Param(64)},
        lambda p: {
            "x_ptr": T("fp32", (p.rows, p.columns)),
            "y_ptr": T("fp32", (p.rows, p.columns)),
            "rows": p.rows,
            "columns": p.columns,
            "step": p.step,
            "BR": p.BR,
            "BC": p.BC,
        },
        lambda p: (_up(p.rows, p.BR),),
    ),
    "partitions": _case(
        "partitions.py:sum_partitioned",
        {"programs": Param(200), "steps": Param(9), "BLOCK": Param(512), "SLOTS": Param(3)},
        lambda p: {"x_ptr": X, "y_ptr": X, "steps": p.steps, "BLOCK": p.BLOCK, "SLOTS": p.SLOTS},
        lambda p: (p.programs,),
    ),
    "lane_loops": _flat("moves.py:lane_loops", lambda p: {"y_ptr": I, "n": p.n}, 256, n=Param(10_000)),
    "lane_branches": _flat("moves.py:lane_branches", lambda p: {"y_ptr": I, "n": p.n}, 256, n=Param(10_000)),
}

PAIRS: list[tuple[str, dict[str, Any]]] = [
    ("softmax", {}),
    ("softmax", {"COLS": 1000, "num_warps": 8, "dtype": "bf16"}),
    ("softmax_online", {"COLS": 5000}),
    ("softmax_online", {"COLS": 1, "num_warps": 1}),
    ("layer_norm", {"COLS": 4096, "dtype": "bf16"}),
    ("layer_norm", {"COLS": 1111, "num_warps": 2}),
    ("running_sum", {}),
    ("sort", {"ROWS": 100}),
    ("dropout", {}),
    ("dropout", {"BLOCK": 256, "num_warps": 2}),
    ("sines", {}),
    ("sines", {"step": 100000.0}),
    ("doubles", {}),
    ("product", {}),
    ("product", {"dtype": "bf16", "BM": 128, "BN": 128, "BK": 64, "num_warps": 8}),
    ("product", {"dtype": "fp8e4nv", "BM": 64, "BN": 128, "BK": 64}),
    ("product", {"dtype": "int8", "BM": 64, "BN": 64, "BK": 64}),
    ("product", {"dtype": "fp32", "BM": 32, "BN": 32, "BK": 32, "num_warps": 2}),
    ("product", {"M": 63, "N": 100, "K": 1, "BM": 16, "BN": 16, "BK": 16, "num_warps": 1}),
    ("product_split", {}),
    ("product_persistent", {}),
    ("product_persistent", {"dtype": "bf16", "BM": 128, "BN": 64, "programs": 37, "num_stages": 4}),
    ("product_descriptors", {}),
    ("product_descriptors", {"BM": 64, "BN": 256, "num_warps": 8}),
    ("product_descriptors_persistent", {}),
    ("product_descriptors_persistent", {"BM": 64, "BN": 64, "programs": 12, "num_stages": 4}),
    ("attention_dkdv", {}),
    ("attention_dkdv", {"causal": False, "dtype": "fp16", "N": 512, "BQ": 64, "num_warps": 8}),
    ("transpose", {}),
    ("transpose", {"dtype": "fp16", "BR": 32, "BC": 128}),
    ("total", {}),
    ("total", {"n": 1_000_000, "BLOCK": 4096, "num_warps": 8}),
    ("scatter_max", {}),
    ("histogram", {}),
    ("divide", {}),
    ("divide", {"a": 4096, "b": 1, "BLOCK": 512}),
    ("divide_wide", {}),
    ("early_return", {}),
    ("collatz", {}),
    ("gather_rows", {}),
    ("gather_rows", {"step": 1, "columns": 64, "rows": 999}),
    ("lane_loops", {}),
    ("lane_branches", {}),
    ("partitions", {}),
    ("partitions", {"steps": 1, "SLOTS": 2, "BLOCK": 1024}),
    ("cases/flash_attention/case.py:v1", {"N": 1000, "N_KEYS": 777, "causal": True}),
    ("cases/flash_attention/case.py:v3", {"N": 777, "batch_heads": 3, "causal": True, "D": 128}),
    ("cases/flash_attention/case.py:v6", {"N": 1000, "causal": True, "Q_TILE_SIZE": 128, "num_warps": 8}),
    ("cases/row_sum/case.py:pointers", {"ROWS": 1000, "COLS": 777}),
]
