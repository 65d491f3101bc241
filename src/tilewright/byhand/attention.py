"""Plain attention on small arrays, shared by the worked examples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilewright.byhand.trace import Array


def softmax(scores: Array) -> Array:
    """Return the softmax along the last axis; -inf counts for nothing, and a row of nothing else gives zeros."""
    m = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(m), m, 0.0))
    d = e.sum(axis=-1, keepdims=True)
    found: Array = np.divide(e, d, out=np.zeros_like(e), where=d > 0)
    return found


def scores_of(q: Array, k: Array, scaled: bool) -> Array:
    """Return q k^T, over the root of the head dimension where `scaled`."""
    found: Array = q @ k.T
    return found / math.sqrt(q.shape[-1]) if scaled else found


def causal(queries: int, keys: int) -> NDArray[np.bool_]:
    """Return which key each query sees when the last query is at the last key."""
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + keys - queries


def attend(q: Array, k: Array, v: Array, scaled: bool, mask: NDArray[np.bool_] | None = None) -> Array:
    """Return softmax(q k^T) v, with what the mask leaves out at -inf."""
    scores = scores_of(q, k, scaled)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    found: Array = softmax(scores) @ v
    return found
