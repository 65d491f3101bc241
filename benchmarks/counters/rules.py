"""Kernels that isolate one rule of the hardware each: `rules.py:NAME`. `PAIRS` lists each with the settings to be read.

How a warp whose lanes have parted issues instructions, and what one access of shared memory costs.
"""

from __future__ import annotations

from typing import Any

from tilewright import Case, Param, Tensor

T = Tensor.of


def _lanes(name: str, dtype: str = "int32", **extra: Param) -> Case:
    """A kernel whose lanes part: 264 programs of four warps, the last of them cut off by n."""

    def args(p: Any) -> dict[str, Any]:
        own = {k: getattr(p, k) for k in extra}
        return {"y_ptr": T(dtype, (1 << 18,)), "n": p.n, **own, "BLOCK": p.BLOCK}

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

PAIRS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in CASES),
    ("divisions", {"every": 1}),
    ("divisions", {"every": 64}),
    ("wide_divisions", {"every": 3}),
    ("sines_of_some", {"every": 1}),
]
