"""Softmax in three passes, in two passes with a running maximum, and what fp16 does to the form without one."""

from __future__ import annotations

import numpy as np

from tilewright.byhand.trace import Array, Recorder, Trace, Value
from tilewright.byhand.values import Parameter, Values, Walkthrough


def safe_softmax(x: Array) -> tuple[float, float, Array]:
    """Return maximum, denominator and softmax of a vector, in three passes."""
    m = float(x.max())
    d = float(np.exp(x - m).sum())
    return m, d, np.exp(x - m) / d


def online_pass(x: Array, tile: int) -> list[tuple[float, float]]:
    """Return running maximum and denominator after each tile of a vector, in one pass."""
    m, d, seen = -np.inf, 0.0, []
    for start in range(0, len(x), tile):
        part = x[start : start + tile]
        new = max(m, float(part.max()))
        d = d * float(np.exp(m - new)) + float(np.exp(part - new).sum())
        m = new
        seen.append((m, d))
    return seen


def naive_in_fp16(x: Array) -> Array:
    """Return exp(x) / sum(exp(x)) with every result rounded to fp16: past 65,504 it is infinity, and inf / inf NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x.astype(np.float64)).astype(np.float16)
        total = e.sum(dtype=np.float16)
        found: Array = (e / total).astype(np.float64)
        return found


def safe_in_fp16(x: Array) -> Array:
    """Return softmax with the maximum taken off first, every result rounded to fp16."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = x.astype(np.float16)
        e = np.exp((half - half.max()).astype(np.float64)).astype(np.float16)
        found: Array = (e / e.sum(dtype=np.float16)).astype(np.float64)
    return found


def work(values: Values) -> Trace:
    """Work the example through."""
    x, tile, wide = values.array("x"), values.whole("tile"), values.array("x_fp16")
    log = Recorder()
    m, d, y = safe_softmax(x)
    log.step("pass 1: the maximum", "m = max(x)", {"x": x}, {"m": m}, "So that no exponent is above 0.")
    log.step(
        "pass 2: the denominator",
        "d = sum(exp(x - m))",
        {"x": x, "m": m},
        {"exp(x - m)": np.exp(x - m), "d": d},
        "Needs the maximum of all of x, so x is read a second time.",
    )
    log.step(
        "pass 3: divide",
        "y = exp(x - m) / d",
        {"m": m, "d": d},
        {"y": y},
        "Needs the sum of all, so x is read a third time.",
    )
    before = (-np.inf, 0.0)
    seen = online_pass(x, tile)
    for n, (new, total) in enumerate(seen):
        part = x[n * tile : (n + 1) * tile]
        log.step(
            f"online, tile {n + 1}",
            "m' = max(m, max(tile));  d' = d exp(m - m') + sum(exp(tile - m'))",
            {"tile": part, "m": before[0], "d": before[1]},
            {"m'": new, "rescale exp(m - m')": float(np.exp(before[0] - new)), "d'": total},
            "Maximum and sum in one pass: when the maximum grows, the sum so far is scaled to the new one."
            if n
            else "The first tile: there is nothing to rescale, exp(-inf) is 0.",
        )
        before = (new, total)
    online_m, online_d = seen[-1]
    final = np.exp(x - online_m) / online_d
    log.step(
        "online, second pass",
        "y = exp(x - m) / d",
        {"m": online_m, "d": online_d},
        {"y": final, "largest difference to the three passes": float(np.abs(final - y).max())},
        "x is read twice instead of three times.",
    )
    one_by_one = online_pass(x, 1)[-1]
    log.step(
        "tiles of one value",
        "the same with tile = 1",
        {"x": x},
        {"m": one_by_one[0], "d": one_by_one[1]},
        "Any tile size gives the same m and d, so a GPU may take the one that suits it.",
    )
    with np.errstate(over="ignore"):
        exactly = np.exp(wide)
    log.step(
        "the naive form in fp16",
        "y = exp(x) / sum(exp(x))",
        {"x": wide},
        {"exp(x), exactly": exactly, "largest fp16": 65504, "y in fp16": naive_in_fp16(wide)},
        "exp of a number above 11.09 is more than fp16 holds: infinity, and infinity over infinity is NaN.",
    )
    log.step(
        "the safe form in fp16",
        "y = exp(x - m) / sum(exp(x - m))",
        {"x": wide, "m": float(wide.max())},
        {"y in fp16": safe_in_fp16(wide)},
        "With the maximum taken off, every exponential is at most 1.",
    )
    results: dict[str, Value] = {
        "m": online_m, "d": online_d, "y": final, "reads of x: three passes": 3, "reads of x: online": 2,
        "naive in fp16": naive_in_fp16(wide), "safe in fp16": safe_in_fp16(wide),
    }  # fmt: skip
    lessons = (
        "Softmax does not change when one number is taken off every x.",
        "The running sum is right at every moment for what was read so far: this is what FlashAttention builds on.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


WALKTHROUGH = Walkthrough(
    "online-softmax",
    "Online softmax",
    "softmax in three passes and in two, tile by tile, and in fp16",
    (
        Parameter("x", "vector", [1, 2, 3, 6, 2, 1], "the numbers"),
        Parameter("tile", "whole", 3, "numbers that are read at once", least=1),
        Parameter("x_fp16", "vector", [2, 4, 12], "the numbers that are tried in fp16"),
    ),
    work,
    slider="tile",
    most=lambda v: len(v.array("x")),
)
