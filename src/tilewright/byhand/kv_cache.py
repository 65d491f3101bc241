"""Generating with and without a cache of keys and values: the same outputs, other costs; and why two layers need it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.byhand.attention import attend, causal, scores_of, softmax
from tilewright.byhand.trace import Array, Recorder, Trace
from tilewright.byhand.values import BadValue, Parameter, Values, Walkthrough


@dataclass(frozen=True)
class Layer:
    """One layer's weights; tokens are rows, so q = x W_q."""

    w_q: Array
    w_k: Array
    w_v: Array
    scaled: bool

    def last(self, x: Array) -> Array:
        """Return the output at the last position, from all positions' inputs."""
        found: Array = attend(x[-1:] @ self.w_q, x @ self.w_k, x @ self.w_v, self.scaled)[0]
        return found

    def every(self, x: Array) -> Array:
        """Return the output at every position, each seeing itself and what came before."""
        mask = causal(len(x), len(x))
        return attend(x @ self.w_q, x @ self.w_k, x @ self.w_v, self.scaled, mask)

    def projection_cost(self, tokens: int) -> int:
        """Multiply-adds of keys and values of so many tokens."""
        return tokens * (self.w_k.size + self.w_v.size)

    def attention_cost(self, keys: int) -> int:
        """Multiply-adds of one query's projection, scores and output over so many keys."""
        return int(self.w_q.size) + keys * int(self.w_q.shape[1] + self.w_v.shape[1])


class Cache:
    """Keys and values of one layer, grown by one token at a time."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.keys = np.zeros((0, layer.w_k.shape[1]))
        self.values = np.zeros((0, layer.w_v.shape[1]))

    def step(self, x: Array) -> Array:
        """Take one token's input, keep its key and value, and return its output."""
        self.keys = np.vstack([self.keys, x @ self.layer.w_k])
        self.values = np.vstack([self.values, x @ self.layer.w_v])
        found: Array = attend(x[None] @ self.layer.w_q, self.keys, self.values, self.layer.scaled)[0]
        return found


def work(values: Values) -> Trace:
    """Work the example through."""
    x = values.array("x")
    layer = _layer(values, x.shape[1])
    tokens, size = len(x), values.whole("bytes")
    log = Recorder()
    cache, cached, costs = Cache(layer), [], []
    for t in range(1, tokens + 1):
        fresh = layer.last(x[:t])
        out = cache.step(x[t - 1])
        cached.append(out)
        without = layer.projection_cost(t) + layer.attention_cost(t)
        with_cache = layer.projection_cost(1) + layer.attention_cost(t)
        costs.append((without, with_cache))
        log.step(
            f"token {t}",
            "k, v = x W_k, x W_v;  q = x W_q;  o = softmax(q K^T) V",
            {"x": x[t - 1], "keys in the cache before": len(cache.keys) - 1},
            {
                "K": cache.keys,
                "V": cache.values,
                "scores": scores_of(x[t - 1 : t] @ layer.w_q, cache.keys, layer.scaled)[0],
                "output with the cache": out,
                "output without it": fresh,
                "multiply-adds with the cache": with_cache,
                "multiply-adds without": without,
            },
            "Without the cache, keys and values of all tokens so far are computed again; they come out the same.",
        )
    outputs = np.stack(cached)
    per_token = (layer.w_k.shape[1] + layer.w_v.shape[1]) * size
    log.step(
        "what the cache costs",
        "tokens (d_k + d_v) bytes, for each layer",
        {"tokens": tokens, "bytes a number": size},
        {"bytes a token": per_token, "bytes": per_token * tokens},
        "Memory grows with every token, and every new token reads all of it.",
    )
    last_scores = scores_of(x[-1:] @ layer.w_q, x @ layer.w_k, layer.scaled)
    two = _two_layers(log, layer, x)
    results = {
        "scores_last": last_scores[0], "weights_last": softmax(last_scores)[0], "output_last": outputs[-1],
        "outputs": outputs, "largest difference": float(np.abs(outputs - layer.every(x)).max()),
        "multiply-adds without": sum(a for a, _ in costs), "multiply-adds with": sum(b for _, b in costs),
        "cache bytes a token and layer": per_token, **two,
    }  # fmt: skip
    lessons = (
        "A key and a value depend on their own token alone, so they are computed once and kept.",
        "Without a cache, the multiply-adds of a token grow with what came before for every projection; with it, only "
        "those of its own attention do.",
        "In a stack of layers every layer keeps its own keys and values: what layer 2 caches is made from layer 1's "
        "output at every position.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


def _layer(values: Values, width: int) -> Layer:
    w_q, w_k, w_v = (values.array(name) for name in ("W_q", "W_k", "W_v"))
    for name, w in (("W_q", w_q), ("W_k", w_k), ("W_v", w_v)):
        if w.shape[0] != width:
            raise BadValue(
                f"{name} has {w.shape[0]} rows, a token of x has {width} values: x W needs as many"
            )
    if w_q.shape[1] != w_k.shape[1]:
        raise BadValue(
            f"W_q has {w_q.shape[1]} columns and W_k {w_k.shape[1]}: queries and keys must be of one length"
        )
    return Layer(w_q, w_k, w_v, bool(values["scaled"]))


def _two_layers(log: Recorder, layer: Layer, x: Array) -> dict[str, float | int | Array]:
    """The same layer twice: full, with a cache in each, and with the shortcut that one layer would allow."""
    if layer.w_v.shape[1] != x.shape[1]:
        raise BadValue(
            f"W_v has {layer.w_v.shape[1]} columns, a token of x {x.shape[1]} values: with two layers "
            "they must be as many"
        )
    full = layer.last(layer.every(x))
    first, second = Cache(layer), Cache(layer)
    for row in x:
        with_caches = second.step(first.step(row))
    shortcut = layer.last(layer.last(x)[None])
    n = len(x)
    every = layer.projection_cost(n) + sum(layer.attention_cost(t) for t in range(1, n + 1))
    last = layer.projection_cost(n) + layer.attention_cost(n)
    log.step(
        "two layers",
        "layer 2's K and V are made from layer 1's output at every position",
        {"layer 1's outputs": layer.every(x)},
        {
            "output, all recomputed": full,
            "output, a cache in each layer": with_caches,
            "output, if layer 1 gave its last position alone": shortcut,
            "multiply-adds, all recomputed": every + last,
            "multiply-adds, caches": 2 * (layer.projection_cost(1) + layer.attention_cost(n)),
        },
        "One layer alone can skip the outputs of earlier positions. Below another layer it cannot: "
        "layer 2 would see one "
        "key where there are as many as tokens.",
    )
    return {
        "two layers": full, "two layers with caches": with_caches, "two layers with the shortcut": shortcut,
    }  # fmt: skip


WALKTHROUGH = Walkthrough(
    "kv-cache",
    "The KV cache",
    "generation with and without a cache of keys and values, in one layer and in two",
    (
        Parameter("x", "matrix", [[1, 0], [0, 1], [1, 1]], "a row for every token"),
        Parameter("W_q", "matrix", [[1, 0], [0, 1]], "weights of the queries: q = x W_q"),
        Parameter("W_k", "matrix", [[1, 1], [0, 1]], "weights of the keys"),
        Parameter("W_v", "matrix", [[2, 0], [0, 2]], "weights of the values"),
        Parameter("scaled", "flag", False, "divide scores by the root of the head dimension"),
        Parameter("bytes", "whole", 2, "bytes a number in the cache", least=1),
    ),
    work,
)
