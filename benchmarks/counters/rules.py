"""Kernels that isolate one rule of the hardware each: `rules.py:NAME`. `PAIRS` lists each with the settings to be read.

How a warp whose lanes have parted issues instructions, and what one access of shared memory costs.
"""

from __future__ import annotations

from typing import Any

from tilewright import Case, Param, Tensor
from tilewright.launch import Descriptor
from tilewright.launch.dtypes import dtype

T = Tensor.of


def _lanes(name: str, element: str = "int32", **extra: Param) -> Case:
    """A kernel whose lanes part: 264 programs of four warps, the last of them cut off by n."""

    def args(p: Any) -> dict[str, Any]:
        own = {k: getattr(p, k) for k in extra}
        return {"y_ptr": T(element, (1 << 18,)), "n": p.n, **own, "BLOCK": p.BLOCK}

    return Case(
        kernel=f"kernels/lanes.py:{name}",
        params={"n": Param(264 * 128 - 50), "BLOCK": Param(128), **extra},
        args=args,
        grid=lambda p: (-(-p.n // p.BLOCK),),
        doc=name,
    )


EVERY = {"every": Param(4, "lanes at multiples of it go the other way")}
CASES: dict[str, Case] = {
    **{
        name: _lanes(name)
        for name in (
            "nested_loops",
            "loop_left_early",
            "switch",
            "jump_table",
            "exits",
            "exits_in_branch",
            "warp_sync",
            "votes",
            "active_lanes",
            "crossed_arms",
            "warp_loops",
        )
    },
    "divisions": _lanes("divisions", "fp32", **EVERY),
    "roots": _lanes("roots", "fp32", **EVERY),
    "wide_divisions": _lanes("wide_divisions", "fp64", **EVERY),
    "sines_of_some": _lanes("sines_of_some", "fp32", **EVERY),
    "some_atomics": _lanes("some_atomics", **EVERY),
}


def _shared(name: str, tile: tuple[int, int], constants: dict[str, Any], element: str = "fp32") -> Case:
    """A kernel on one tile a program, from x to y."""
    params = {
        "ROWS": Param(tile[0]),
        "COLS": Param(tile[1]),
        "dtype": Param(element),
        "programs": Param(132),
        **{k: Param(v) for k, v in constants.items()},
    }

    def args(p: Any) -> dict[str, Any]:
        x = T(p.dtype, (p.programs * p.ROWS, p.COLS))
        own = {k: getattr(p, k) for k in constants}
        return {"x_ptr": x, "y_ptr": x, "ROWS": p.ROWS, "COLS": p.COLS, **own}

    return Case(
        kernel=f"kernels/shared.py:{name}", params=params, args=args, grid=lambda p: (p.programs,), doc=name
    )


def _repeated(p: Any) -> dict[str, Any]:
    block = 4 * p.WIDTH * 2 ** (5 - p.SAME.bit_count())
    x = T(p.dtype, (132 * block,))
    return {"x_ptr": x, "y_ptr": x, "BLOCK": block, "WIDTH": p.WIDTH, "SAME": p.SAME}


def _copies(p: Any) -> dict[str, Any]:
    x = T(p.dtype, (132 * p.BLOCK,))
    return {
        "x_ptr": x,
        "y_ptr": x,
        "n": p.n,
        "BLOCK": p.BLOCK,
        "WIDTH": p.WIDTH,
        "CACHE": p.CACHE,
        "MASKED": p.MASKED,
    }


def _copies_of_a_tile(p: Any) -> dict[str, Any]:
    x = T(p.dtype, (132 * p.ROWS, p.stride))
    names = ("stride", "ROWS", "COLS", "WIDTH", "VEC", "PHASES")
    return {"x_ptr": x, "y_ptr": x, **{k: getattr(p, k) for k in names}}


def _warpgroup_product(p: Any) -> dict[str, Any]:
    acc = dtype("int32" if p.dtype == "int8" else "fp32")
    return {
        "a_ptr": T(p.dtype, (64, p.K)),
        "b_ptr": T(p.dtype, (p.N, p.K)),
        "y_ptr": T(acc.name, (132 * 64, p.N)),
        "steps": p.steps,
        "N": p.N,
        "K": p.K,
        "FROM_REGISTERS": p.FROM_REGISTERS,
        "ACC": acc,
    }


CASES |= {
    "round_trip": _shared(
        "round_trip",
        (64, 64),
        {"WRITE": 1, "READ": 1, "TURNED": False, "VEC": 1, "PER_PHASE": 1, "PHASES": 1},
    ),
    "repeated_loads": Case(
        kernel="kernels/shared.py:repeated_loads",
        params={"WIDTH": Param(4), "SAME": Param(0), "dtype": Param("fp32")},
        args=_repeated,
        grid=lambda p: (132,),
        doc="loads of one place by several lanes",
    ),
    "copies": Case(
        kernel="kernels/shared.py:copies",
        params={
            "n": Param(132 * 1024 - 777),
            "BLOCK": Param(1024),
            "WIDTH": Param(1),
            "CACHE": Param("", choices=("", ".ca", ".cg")),
            "MASKED": Param(False),
            "dtype": Param("fp32"),
        },
        args=_copies,
        grid=lambda p: (132,),
        doc="copies",
    ),
    "copies_of_a_tile": Case(
        kernel="kernels/shared.py:copies_of_a_tile",
        params={
            "stride": Param(256),
            "ROWS": Param(64),
            "COLS": Param(64),
            "WIDTH": Param(8),
            "VEC": Param(8),
            "PHASES": Param(8),
            "dtype": Param("fp16"),
        },
        args=_copies_of_a_tile,
        grid=lambda p: (132,),
        doc="copies of a tile",
    ),
    "operand_loads": _shared(
        "operand_loads",
        (64, 64),
        {"OPERAND": 0, "TURNED": False, "K_WIDTH": 2, "VEC": 8, "PHASES": 8},
        "fp16",
    ),
    "accumulator_stores": _shared("accumulator_stores", (64, 64), {"TURNED": False}, "fp16"),
    "mma_in_registers": Case(
        kernel="kernels/shared.py:mma_in_registers",
        params={"steps": Param(7), "COLS": Param(32), "K": Param(32)},
        args=lambda p: {
            "x_ptr": T("fp16", (8192,)),
            "y_ptr": T("fp32", (132 * 64, p.COLS)),
            "steps": p.steps,
            "COLS": p.COLS,
            "K": p.K,
        },
        grid=lambda p: (132,),
        doc="mma in registers",
    ),
    "warpgroup_product": Case(
        kernel="kernels/shared.py:warpgroup_product",
        params={
            "N": Param(64),
            "K": Param(64),
            "steps": Param(50),
            "FROM_REGISTERS": Param(False),
            "dtype": Param("fp16"),
        },
        args=_warpgroup_product,
        grid=lambda p: (132,),
        doc="warp-group mma",
    ),
    "sums": Case(
        kernel="kernels/shared.py:sums",
        params={"ROWS": Param(64), "COLS": Param(32), "THREADS": Param(32)},
        args=lambda p: {
            "x_ptr": T("fp32", (132 * p.ROWS, p.COLS)),
            "y_ptr": T("fp32", (132 * p.ROWS,)),
            "ROWS": p.ROWS,
            "COLS": p.COLS,
            "THREADS": p.THREADS,
        },
        grid=lambda p: (132,),
        doc="sums of rows",
    ),
    "tensor_copies": Case(
        kernel="kernels/shared.py:tensor_copies",
        params={
            "ROWS": Param(64),
            "COLS": Param(64),
            "READ": Param(False),
            "dtype": Param("fp16"),
        },
        args=lambda p: {
            "source": Descriptor(T(p.dtype, (11 * p.ROWS - 3, 12 * p.COLS)), (p.ROWS, p.COLS)),
            "target": Descriptor(T(p.dtype, (11 * p.ROWS - 3, 12 * p.COLS)), (p.ROWS, p.COLS)),
            "ROWS": p.ROWS,
            "COLS": p.COLS,
            "READ": p.READ,
        },
        grid=lambda p: (11, 12),
        doc="tensor copies",
    ),
}

PAIRS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in CASES),
    ("divisions", {"every": 1}),
    ("divisions", {"every": 64}),
    ("wide_divisions", {"every": 3}),
    ("sines_of_some", {"every": 1}),
    # Stores of 32, 64 and 128 bits, then loads of as many, all without conflicts.
    ("round_trip", {"WRITE": 2, "READ": 2}),
    ("round_trip", {"WRITE": 4, "READ": 4}),
    ("round_trip", {"WRITE": 4, "READ": 1}),
    # Read by columns: without a swizzle every lane in one bank; with one, fewer.
    ("round_trip", {"TURNED": True}),
    ("round_trip", {"TURNED": True, "PHASES": 2}),
    ("round_trip", {"TURNED": True, "PHASES": 8}),
    ("round_trip", {"TURNED": True, "VEC": 4, "PHASES": 8, "WRITE": 4}),
    ("round_trip", {"TURNED": True, "READ": 2, "PHASES": 8}),
    ("round_trip", {"TURNED": True, "COLS": 32}),
    ("round_trip", {"TURNED": True, "COLS": 32, "PHASES": 32}),
    # Narrow elements: several lanes in one word.
    ("round_trip", {"dtype": "fp16"}),
    ("round_trip", {"dtype": "fp16", "TURNED": True}),
    ("round_trip", {"dtype": "fp16", "TURNED": True, "WRITE": 8, "VEC": 8, "PHASES": 8}),
    ("round_trip", {"dtype": "int8"}),
    ("round_trip", {"dtype": "int8", "TURNED": True, "WRITE": 4}),
    # Elements of 64 bits.
    ("round_trip", {"dtype": "fp64"}),
    ("round_trip", {"dtype": "fp64", "TURNED": True, "COLS": 32}),
    ("round_trip", {"dtype": "fp64", "WRITE": 2, "READ": 2}),
    # Which lanes read the same place: where that saves a wavefront.
    *(("repeated_loads", {"WIDTH": 4, "SAME": s}) for s in (1, 2, 3, 4, 6, 8, 12, 16, 24, 30, 31)),
    *(("repeated_loads", {"WIDTH": 2, "SAME": s}) for s in (1, 2, 3, 4, 8, 16, 28, 31)),
    *(("repeated_loads", {"WIDTH": 1, "SAME": s}) for s in (1, 31)),
    ("copies", {"WIDTH": 2}),
    ("copies", {"WIDTH": 4}),
    ("copies", {"WIDTH": 4, "CACHE": ".ca"}),
    ("copies", {"MASKED": True}),
    ("copies", {"MASKED": True, "WIDTH": 4}),
    ("copies", {"MASKED": True, "WIDTH": 4, "n": 100_000}),
    ("copies_of_a_tile", {"COLS": 32}),
    ("copies_of_a_tile", {"COLS": 32, "VEC": 1, "PHASES": 1}),
    ("copies_of_a_tile", {"COLS": 16, "stride": 48, "VEC": 1, "PHASES": 1}),
    ("copies_of_a_tile", {"WIDTH": 4, "VEC": 4, "PHASES": 4}),
    ("copies_of_a_tile", {"WIDTH": 2, "VEC": 2, "PHASES": 8}),
    ("operand_loads", {"OPERAND": 1}),
    ("operand_loads", {"OPERAND": 0, "TURNED": True}),
    ("operand_loads", {"OPERAND": 1, "TURNED": True}),
    ("operand_loads", {"VEC": 1, "PHASES": 1}),
    ("operand_loads", {"OPERAND": 1, "ROWS": 16, "COLS": 8, "VEC": 1, "PHASES": 1}),
    ("operand_loads", {"ROWS": 64, "COLS": 16, "VEC": 8, "PHASES": 2}),
    ("accumulator_stores", {"COLS": 128}),
    ("accumulator_stores", {"TURNED": True}),
    ("accumulator_stores", {"COLS": 32}),
    *(
        ("warpgroup_product", {"N": n, "FROM_REGISTERS": registers})
        for registers in (False, True)
        for n in (8, 16, 32, 128, 256)
    ),
    ("warpgroup_product", {"FROM_REGISTERS": True}),
    ("warpgroup_product", {"K": 16}),
    ("warpgroup_product", {"K": 32}),
    ("warpgroup_product", {"steps": 100}),
    ("warpgroup_product", {"dtype": "bf16", "N": 128}),
    ("warpgroup_product", {"dtype": "fp8e4nv", "N": 128}),
    ("warpgroup_product", {"dtype": "fp8e4nv", "N": 128, "FROM_REGISTERS": True}),
    ("warpgroup_product", {"dtype": "fp8e5", "N": 64}),
    ("warpgroup_product", {"dtype": "int8", "N": 128}),
    ("warpgroup_product", {"dtype": "int8", "N": 64, "FROM_REGISTERS": True}),
    ("warpgroup_product", {"dtype": "fp32", "N": 128}),
    ("warpgroup_product", {"dtype": "fp32", "N": 64, "FROM_REGISTERS": True}),
    ("sums", {"THREADS": 8}),
    ("sums", {"THREADS": 2}),
]
