"""One row of attention, tile by tile: running maximum, denominator and output, normalised once or at every tile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.byhand.trace import Array, Recorder, Trace
from tilewright.byhand.values import Parameter, Values, Walkthrough, same_length


def tiles(logits: Array, v: Array, tile: int) -> Iterator[tuple[float, float, Array]]:
    """Yield maximum, denominator and unnormalised output after each tile (FlashAttention 2)."""
    m, d, o = -np.inf, 0.0, np.zeros(v.shape[1])
    for start in range(0, len(logits), tile):
        s = logits[start : start + tile]
        new = max(m, float(s.max()))
        rescale = float(np.exp(m - new))
        p = np.exp(s - new)
        d = d * rescale + float(p.sum())
        o = o * rescale + p @ v[start : start + tile]
        m = new
        yield m, d, o


def tiles_normalised(logits: Array, v: Array, tile: int) -> Iterator[tuple[float, float, Array]]:
    """Yield the same with the output normalised at every tile (FlashAttention 1)."""
    m, d, o = -np.inf, 0.0, np.zeros(v.shape[1])
    for start in range(0, len(logits), tile):
        s = logits[start : start + tile]
        new = max(m, float(s.max()))
        p = np.exp(s - new)
        grown = d * float(np.exp(m - new)) + float(p.sum())
        o = (o * d * float(np.exp(m - new)) + p @ v[start : start + tile]) / grown
        m, d = new, grown
        yield m, d, o


def work(values: Values) -> Trace:
    """Work the example through."""
    logits, v, tile = values.array("logits"), values.array("V"), values.whole("tile")
    same_length("V", v, f"logits ({len(logits)} keys)", len(logits))
    log = Recorder()
    state: tuple[float, float, Array] = (-np.inf, 0.0, np.zeros(v.shape[1]))
    for n, after in enumerate(tiles(logits, v, tile)):
        part = slice(n * tile, (n + 1) * tile)
        log.step(
            f"tile {n + 1}",
            "m' = max(m, max(s));  p = exp(s - m');  d' = d exp(m - m') + sum(p);  o' = o exp(m - m') + p V",
            {"s": logits[part], "V": v[part], "m": state[0], "d": state[1], "o": state[2]},
            {
                "m'": after[0],
                "rescale exp(m - m')": float(np.exp(state[0] - after[0])),
                "p": np.exp(logits[part] - after[0]),
                "d'": after[1],
                "o'": after[2],
            },
            "Scores of one tile are made, used and forgotten; only m, d and o stay.",
        )
        state = after
    m, d, o = state
    output = o / d
    log.step(
        "at the end",
        "output = o / d",
        {"o": o, "d": d},
        {"output": output},
        "One division for each output value.",
    )
    normalised = np.stack([s[2] for s in tiles_normalised(logits, v, tile)])
    log.step(
        "normalised at every tile instead",
        "o' = (o d exp(m - m') + p V) / d'",
        {"logits": logits, "tile": tile},
        {
            "o after each tile": normalised,
            "largest difference at the end": float(np.abs(normalised[-1] - output).max()),
        },
        "FlashAttention 1 divides at every tile and is right at every moment; FlashAttention 2 "
        "divides once. Same result.",
    )
    whole = np.exp(logits - logits.max())
    whole = whole / whole.sum() @ v
    n, dim, size = values.whole("N"), values.whole("D"), values.whole("bytes")
    matrix, kept = n * n * size, (2 + dim) * 4
    log.step(
        "what a full matrix of scores would cost",
        "N N bytes, written and read twice (S, then P)",
        {"N": n, "D": dim, "bytes a number": size},
        {
            "scores of one head, bytes": matrix,
            "Q, K, V and O of one head, bytes": 4 * n * dim * size,
            "scores over Q, K, V, O": matrix / (4 * n * dim * size),
            "kept on chip for a row (m, d, o in fp32), bytes": kept,
        },
        "The matrix grows with N squared, what has to be read and written with N.",
    )
    results = {
        "m": m,
        "d": d,
        "o": o,
        "output": output,
        "output without tiles": whole,
        "bytes of scores": matrix,
    }
    lessons = (
        "Nothing of size N by N is ever stored.",
        "A tile that does not raise the maximum has a rescale of 1: nothing that was summed changes.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


WALKTHROUGH = Walkthrough(
    "flash-attention",
    "FlashAttention, one row",
    "attention of one query over tiles of keys: m, d and o after each",
    (
        Parameter("logits", "vector", [1, 2, 3, 6, 2, 1], "scores of the query with every key"),
        Parameter("V", "matrix", [[n, n] for n in range(1, 7)], "a value row for every key"),
        Parameter("tile", "whole", 3, "keys of a tile", least=1),
        Parameter("N", "whole", 4096, "tokens, for the cost of a full matrix", least=1),
        Parameter("D", "whole", 64, "head dimension, for that cost", least=1),
        Parameter("bytes", "whole", 2, "bytes a number, for that cost", least=1),
    ),
    work,
    slider="tile",
    most=lambda v: len(v.array("logits")),
)
