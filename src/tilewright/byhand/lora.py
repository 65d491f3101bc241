"""Low-rank adaptation: two ways forward, the gradients of A and B, merging, what is saved, and two tasks."""

from __future__ import annotations

import numpy as np

from tilewright.byhand.trace import Array, Recorder, Trace, Value
from tilewright.byhand.values import BadValue, Parameter, Values, Walkthrough


def work(values: Values) -> Trace:
    """Work the example through."""
    w0, b, a, x, grad = (values.array(n) for n in ("W0", "B", "A", "x", "grad_h"))
    _check(w0, b, a, x, grad, "")
    scale = float(values["alpha"]) / a.shape[0] if values["alpha"] else 1.0
    log = Recorder()
    h0, ax = w0 @ x, a @ x
    dh = scale * (b @ ax)
    log.step("the frozen path", "h0 = W0 x", {"W0": w0, "x": x}, {"h0": h0}, "W0 is not trained.")
    log.step(
        "down",
        "A x",
        {"A": a, "x": x},
        {"A x": ax},
        f"To {a.shape[0]} value{'s' if a.shape[0] > 1 else ''}: the rank.",
    )
    log.step(
        "up, and add", "h = h0 + s B (A x)", {"B": b, "A x": ax, "s": scale}, {"s B A x": dh, "h": h0 + dh},
        "The other way round: B A is never made.",
    )  # fmt: skip
    delta = scale * (b @ a)
    merged = w0 + delta
    log.step(
        "merged",
        "W = W0 + s B A;  h = W x",
        {"W0": w0, "B": b, "A": a},
        {
            "s B A": delta,
            "W": merged,
            "h": merged @ x,
            "largest difference": float(np.abs(merged @ x - h0 - dh).max()),
        },
        "The same h from one matrix: no cost at inference.",
    )
    back = merged - delta
    log.step(
        "unmerged",
        "W0 = W - s B A",
        {"W": merged},
        {"W0": back, "largest difference": float(np.abs(back - w0).max())},
        "Back to the frozen weights, up to rounding.",
    )
    grad_b, grad_a = scale * np.outer(grad, ax), scale * np.outer(b.T @ grad, x)
    log.step(
        "gradients",
        "dL/dB = s g (A x)^T;  dL/dA = s (B^T g) x^T",
        {"g = dL/dh": grad, "A x": ax, "B^T g": b.T @ grad, "x": x},
        {"dL/dB": grad_b, "dL/dA": grad_a},
        "Neither needs a gradient of W0's size. With B = 0 at the start dL/dA is 0, and B moves first.",
    )
    results: dict[str, Value] = {
        "h0": h0, "Ax": ax, "dh": dh, "h": h0 + dh, "delta_W": delta, "W_merged": merged,
        "grad_B": grad_b, "grad_A": grad_a, "params_full": w0.size, "params_lora": b.size + a.size,
    }  # fmt: skip
    results |= _saved(log, values, w0, b, a)
    results |= _tasks(log, values, w0, delta, x)
    lessons = (
        "Trained: rank (in + out) numbers instead of in times out.",
        "Tasks are switched by swapping B and A: W0 is shared by all of them.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


def _check(w0: Array, b: Array, a: Array, x: Array, grad: Array, suffix: str) -> None:
    wanted = [
        (f"B{suffix} has {b.shape[0]} rows, W0 {w0.shape[0]}", b.shape[0] == w0.shape[0]),
        (f"A{suffix} has {a.shape[1]} columns, W0 {w0.shape[1]}", a.shape[1] == w0.shape[1]),
        (
            f"B{suffix} has {b.shape[1]} columns and A{suffix} {a.shape[0]} rows: both are the rank",
            b.shape[1] == a.shape[0],
        ),
        (f"x has {len(x)} values, W0 {w0.shape[1]} columns", len(x) == w0.shape[1]),
        (f"grad_h has {len(grad)} values, W0 {w0.shape[0]} rows", len(grad) == w0.shape[0]),
    ]
    for said, met in wanted:
        if not met:
            raise BadValue(f"{said}: expected as many")


def _saved(log: Recorder, values: Values, w0: Array, b: Array, a: Array) -> dict[str, Value]:
    width, rank, layers = values.whole("width"), values.whole("rank"), values.whole("layers")
    modules = {"q": 1, "q, v": 2, "q, k, v, o": 4}[values["modules"]]
    full, trained = float(values["billion_parameters"]) * 1e9, layers * modules * 2 * width * rank
    found: dict[str, Value] = {
        "weights, bytes in fp16": 2 * full,
        "trained": trained,
        "times fewer": full / trained,
        "adapter, bytes in fp16": 2 * trained,
        "optimiser states, bytes (Adam, fp32)": 8 * trained,
        "optimiser states without LoRA, bytes": 8 * full,
    }
    log.step(
        "what is saved",
        "layers x modules x rank (in + out)",
        {
            "here: full": w0.size, "here: B and A": b.size + a.size, "width": width, "rank": rank, "layers": layers,
            "modules": values["modules"],
        },
        found,
        "Adam keeps two fp32 numbers for each trained one, so the optimiser shrinks as the adapter does.",
    )  # fmt: skip
    return found


def _tasks(log: Recorder, values: Values, w0: Array, delta: Array, x: Array) -> dict[str, Value]:
    b, a = values.array("B_other"), values.array("A_other")
    _check(w0, b, a, x, w0[:, 0], "_other")
    other = b @ a
    switched = w0 + delta - delta + other
    log.step(
        "another task",
        "W = W - s B A + B' A'",
        {"B'": b, "A'": a},
        {"B' A'": other, "W": switched, "h": switched @ x, "h by two paths": w0 @ x + b @ (a @ x)},
        "One W0 in memory, small pairs beside it.",
    )
    return {"h of the other task": switched @ x}


WALKTHROUGH = Walkthrough(
    "lora",
    "LoRA",
    "low-rank adaptation: forward by both paths, gradients, merging, what is saved, two tasks",
    (
        Parameter("W0", "matrix", [[0.8, 0.1, 0.3], [0.2, 0.7, 0.5]], "frozen weights: h = W0 x"),
        Parameter("B", "matrix", [[0.4], [0.2]], "out x rank"),
        Parameter("A", "matrix", [[0.25, -0.5, 0.1]], "rank x in"),
        Parameter("x", "vector", [10, 20, 30], "the input"),
        Parameter("grad_h", "vector", [0.5, -0.2], "gradient of the loss by h"),
        Parameter("alpha", "number", 0.0, "scale s = alpha / rank; 0: no scale", least=0),
        Parameter("B_other", "matrix", [[0.1], [-0.3]], "another task's B"),
        Parameter("A_other", "matrix", [[0.2, 0.1, -0.1]], "another task's A"),
        Parameter("width", "whole", 12288, "of the model in the example of what is saved (GPT-3)", least=1),
        Parameter("rank", "whole", 4, "its rank", least=1),
        Parameter("layers", "whole", 96, "its layers", least=1),
        Parameter("modules", "choice", "q, v", "what is adapted in it", choices=("q", "q, v", "q, k, v, o")),
        Parameter("billion_parameters", "number", 175.0, "its size", least=0.001),
    ),
    work,
)
