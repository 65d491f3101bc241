"""More kinds of kernels whose counters are read: `mixed.py:NAME`. `PAIRS` lists each with the settings to be read.

Nothing was fitted to them. Those in `UNCOUNTED` are read although `explain` cannot compile or count them yet.
"""

from __future__ import annotations

from typing import Any

from tilewright import Case, Param, Tensor
from tilewright.launch import Descriptor

T = Tensor.of
I = T("int32", (1 << 18,))


def _up(a: int, b: int) -> int:
    return -(-a // b)


PRODUCT = {
    "M": Param(1000),
    "N": Param(776),
    "K": Param(520),
    "BM": Param(128),
    "BN": Param(64),
    "BK": Param(64),
}


def _tiles(p: Any) -> tuple[int, int]:
    return _up(p.M, p.BM), _up(p.N, p.BN)


def _pointers(p: Any) -> dict[str, Any]:
    return {
        "a_ptr": T("fp16", (p.M, p.K)),
        "b_ptr": T("fp16", (p.N, p.K)),
        "c_ptr": T("fp16", (p.M, p.N)),
        **{name: getattr(p, name) for name in PRODUCT},
    }


def _descriptors(p: Any) -> dict[str, Any]:
    return {
        "a": Descriptor(T("bf16", (p.M, p.K)), (p.BM, p.BK)),
        "b": Descriptor(T("bf16", (p.N, p.K)), (p.BN, p.BK)),
        "c": Descriptor(T("bf16", (p.M, p.N)), (p.BM, p.BN)),
        **{name: getattr(p, name) for name in PRODUCT},
    }


def _partitioned(p: Any) -> dict[str, Any]:
    return {
        "a": Descriptor(T("fp16", (p.M, p.K)), (p.BM, p.BK)),
        "b": Descriptor(T("fp16", (p.N, p.K)), (p.BN, p.BK)),
        "c": Descriptor(T("fp16", (p.M, p.N)), (p.BM, p.BN)),
        "N": p.N,
        "K": p.K,
        "STAGES": p.STAGES,
        "WARPS": p.num_warps,
    }


def _scaled(p: Any) -> dict[str, Any]:
    return {
        "a_ptr": T("fp8e4nv", (p.M, p.K)),
        "b_ptr": T("fp8e4nv", (p.N, p.K)),
        "c_ptr": T("fp32", (p.M, p.N)),
        "a_scale_ptr": T("uint8", (p.M, p.K // 32)),
        "b_scale_ptr": T("uint8", (p.N, p.K // 32)),
        "K": p.K,
        "stride_c": p.N,
        "BM": p.BM,
        "BN": p.BN,
        "BK": p.BK,
    }


def _attention(p: Any) -> dict[str, Any]:
    x, row = T(p.dtype, (p.heads, p.N, p.D)), T("fp32", (p.heads, p.N))
    return {
        **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "do_ptr"), x),
        "l_ptr": row,
        "d_ptr": row,
        "dq_ptr": x,
        "stride_head": p.N * p.D,
        "N": p.N,
        "scale": 0.125,
        "D": p.D,
        "BQ": p.BQ,
        "BK": p.BK,
        "CAUSAL": p.causal,
    }


def _flat(name: str, element: str, block: int = 1024, **extra: Param) -> Case:
    """A kernel on blocks of a vector."""

    def args(p: Any) -> dict[str, Any]:
        x = T(element, (1 << 18,))
        return {"x_ptr": x, "y_ptr": x, "n": p.n, **{k: getattr(p, k) for k in extra}, "BLOCK": p.BLOCK}

    return Case(
        kernel=f"kernels/mixed.py:{name}",
        params={"n": Param(100_003), "BLOCK": Param(block), **extra},
        args=args,
        grid=lambda p: (_up(p.n, p.BLOCK),),
        doc=name,
    )


def _product(name: str, args: Any, grid: Any, params: dict[str, Param] = PRODUCT, **options: Any) -> Case:
    file = "partitioned_product" if name == "product_partitioned" else "mixed"
    return Case(kernel=f"kernels/{file}.py:{name}", params=params, args=args, grid=grid, doc=name, **options)


CASES = {
    "product_device_descriptors": _product("product_device_descriptors", _pointers, _tiles),
    "product_specialised": _product(
        "product_specialised",
        _descriptors,
        lambda p: (p.programs,),
        {**PRODUCT, "programs": Param(40)},
        num_warps=8,
    ),
    "product_loop_specialised": _product("product_loop_specialised", _descriptors, _tiles, num_warps=8),
    "product_partitioned": _product(
        "product_partitioned",
        _partitioned,
        lambda p: (_up(p.M, p.BM) * _up(p.N, p.BN),),
        {**PRODUCT, "STAGES": Param(3)},
    ),
    "product_scaled": _product(
        "product_scaled",
        _scaled,
        _tiles,
        {**PRODUCT, "M": Param(512), "N": Param(384), "K": Param(512), "BN": Param(128), "BK": Param(128)},
    ),
    "attention_dq": Case(
        kernel="kernels/mixed.py:attention_dq",
        params={
            "heads": Param(8),
            "N": Param(1000),
            "D": Param(64),
            "BQ": Param(64),
            "BK": Param(32),
            "causal": Param(True),
            "dtype": Param("fp16"),
        },
        args=_attention,
        grid=lambda p: (_up(p.N, p.BQ), p.heads),
        doc="attention, dQ",
    ),
    "layer_norm_dx": Case(
        kernel="kernels/mixed.py:layer_norm_dx",
        params={"ROWS": Param(500), "COLS": Param(1000), "BLOCK": Param(1024), "dtype": Param("bf16")},
        args=lambda p: {
            "x_ptr": T(p.dtype, (p.ROWS, p.COLS)),
            "w_ptr": T("fp32", (p.COLS,)),
            "dy_ptr": T(p.dtype, (p.ROWS, p.COLS)),
            "dx_ptr": T(p.dtype, (p.ROWS, p.COLS)),
            "stride": p.COLS,
            "columns": p.COLS,
            "eps": 1e-5,
            "BLOCK": p.BLOCK,
        },
        grid=lambda p: (p.ROWS,),
        doc="layer normalisation, dX",
    ),
    "elementary": _flat("elementary", "fp32"),
    "doubles_more": _flat("doubles_more", "fp64"),
    "divide_lanes_wide": Case(
        kernel="kernels/mixed.py:divide_lanes_wide",
        params={"n": Param(50_003), "a": Param(12347), "BLOCK": Param(256)},
        args=lambda p: {"y_ptr": T("int64", (1 << 18,)), "n": p.n, "a": p.a, "BLOCK": p.BLOCK},
        grid=lambda p: (_up(p.n, p.BLOCK),),
        doc="64-bit division, lane by lane",
    ),
    "swap": _flat("swap", "int32", 256),
    "atomics_of_all_kinds": Case(
        kernel="kernels/mixed.py:atomics_of_all_kinds",
        params={"n": Param(50_003), "bins": Param(1000), "BLOCK": Param(512)},
        args=lambda p: {
            "x_ptr": I,
            "y_ptr": T("int32", (3 * p.bins,)),
            "h_ptr": T("fp16", (p.bins,)),
            "n": p.n,
            "bins": p.bins,
            "BLOCK": p.BLOCK,
        },
        grid=lambda p: (_up(p.n, p.BLOCK),),
        doc="atomics",
    ),
    "gather_lanes": Case(
        kernel="kernels/mixed.py:gather_lanes",
        params={"programs": Param(132), "BR": Param(16), "BC": Param(32)},
        args=lambda p: {
            **dict.fromkeys(("x_ptr", "y_ptr"), T("fp32", (p.programs * p.BR, p.BC))),
            "BR": p.BR,
            "BC": p.BC,
        },
        grid=lambda p: (p.programs,),
        doc="tl.gather",
    ),
    "convolution": Case(
        kernel="kernels/mixed.py:convolution",
        params={"height": Param(100), "width": Param(500), "TAPS": Param(5), "BLOCK": Param(128)},
        args=lambda p: {
            "x_ptr": T("fp32", (p.height, p.width)),
            "w_ptr": T("fp32", (p.TAPS, p.TAPS)),
            "y_ptr": T("fp32", (p.height, p.width)),
            "height": p.height,
            "width": p.width,
            "TAPS": p.TAPS,
            "BLOCK": p.BLOCK,
        },
        grid=lambda p: (p.height, _up(p.width, p.BLOCK)),
        doc="convolution",
    ),
    "scan_backwards": Case(
        kernel="kernels/mixed.py:scan_backwards",
        params={"programs": Param(66), "BR": Param(32), "BC": Param(64)},
        args=lambda p: {
            **dict.fromkeys(("x_ptr", "y_ptr"), T("fp32", (p.programs * p.BR, p.BC))),
            "stride": p.BC,
            "BR": p.BR,
            "BC": p.BC,
        },
        grid=lambda p: (p.programs,),
        doc="scans",
    ),
    "row_extremes": Case(
        kernel="kernels/mixed.py:row_extremes",
        params={"programs": Param(66), "columns": Param(777), "BR": Param(16), "BC": Param(128)},
        args=lambda p: {
            "x_ptr": T("fp32", (p.programs * p.BR, p.columns)),
            "y_ptr": T("fp32", (p.programs * p.BR,)),
            "where_ptr": T("int32", (p.programs * p.BR,)),
            "columns": p.columns,
            "BR": p.BR,
            "BC": p.BC,
        },
        grid=lambda p: (p.programs,),
        doc="maxima with their places",
    ),
}

PAIRS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in CASES),
    ("product_device_descriptors", {"BM": 64, "BN": 128, "num_stages": 4}),
    ("product_specialised", {"BN": 128, "num_warps": 8}),
    ("product_partitioned", {"BM": 64, "BN": 128, "STAGES": 4}),
    ("product_partitioned", {"num_warps": 8}),
    ("attention_dq", {"causal": False, "dtype": "bf16", "BQ": 128, "BK": 64, "num_warps": 8}),
    ("layer_norm_dx", {"num_warps": 8, "dtype": "fp32"}),
    ("swap", {"BLOCK": 128, "num_warps": 1}),
    ("gather_lanes", {"BC": 64, "num_warps": 2}),
    ("benchmarks/counters/case.py:product", {"num_ctas": 2, "dtype": "bf16", "BM": 128, "BN": 128, "BK": 64}),
    ("benchmarks/counters/case.py:product_descriptors", {"num_ctas": 2}),
    ("benchmarks/counters/case.py:attention_varlen", {}),
    ("benchmarks/counters/case.py:histogram", {"BLOCK": 256, "num_warps": 2}),
    ("benchmarks/counters/case.py:divide", {"a": 1_000_003, "n": 77_777, "num_warps": 1}),
]
