"""Several users in one batch: projections at once, attention apart, padding or ragged offsets, and why batches pay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.byhand.attention import causal, scores_of, softmax
from tilewright.byhand.trace import Array, Recorder, Trace
from tilewright.byhand.values import BadValue, Parameter, Values, Walkthrough
from tilewright.gpus import load, names


def offsets(lengths: list[int]) -> Array:
    """Return where each user's rows begin in one long matrix, and where the last end (`cu_seqlens`)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.float64)


def block_mask(queries: list[int], keys: list[int]) -> NDArray[np.bool_]:
    """Return which key of all users each query of all users sees: its own user's, up to its own position."""
    mask = np.zeros((sum(queries), sum(keys)), dtype=bool)
    at_q = at_k = 0
    for q, k in zip(queries, keys, strict=True):
        mask[at_q : at_q + q, at_k : at_k + k] = causal(q, k)
        at_q, at_k = at_q + q, at_k + k
    return mask


def work(values: Values) -> Trace:
    """Work the example through."""
    users: list[Array] = values["x"]
    history: list[Array] = values["K_hist"]
    w_q, w_k = values.array("W_q"), values.array("W_k")
    _check(users, history, w_q, w_k)
    scaled = bool(values["scaled"])
    log = Recorder()
    together = np.vstack(users)
    new = [len(u) for u in users]
    q_all = together @ w_q
    log.step(
        "project all users' tokens at once",
        "Q = X W_q",
        {"X": together, "W_q": w_q},
        {"Q": q_all, "reads of W_q, one user after the other": len(users), "reads of W_q, at once": 1},
        "A projection does not care whose token a row is. The weights are read once for everybody.",
    )
    queries = np.split(q_all, np.cumsum(new)[:-1])
    keys = [np.vstack([h, u @ w_k]) for h, u in zip(history, users, strict=True)]
    lengths = [len(k) for k in keys]
    one, raw, weights = [], [], []
    for n, (q, k) in enumerate(zip(queries, keys, strict=True)):
        scores = scores_of(q, k, scaled)
        visible = causal(len(q), len(k))
        masked = np.where(visible, scores, -np.inf)
        # The first new token alone sees its history and itself.
        one.append(scores[0, : len(history[n]) + 1])
        raw.append(scores)
        weights.append(softmax(masked))
        log.step(
            f"user {n}: attention",
            "S = Q K^T;  P = softmax(S, with later tokens at -inf)",
            {"Q": q, "K (history, then the new tokens)": k},
            {"S": scores, "S, masked": masked, "P": weights[-1]},
            "Attention is each user's own: a token sees its user's history, itself, and no token after it.",
        )
    _padding(log, new, lengths)
    mask = block_mask(new, lengths)
    everything = scores_of(q_all, np.vstack(keys), scaled)
    log.step(
        "all users in one matrix",
        "the same with a mask that keeps users apart",
        {"all queries": q_all, "all keys": np.vstack(keys)},
        {
            "mask (1: seen)": mask.astype(np.float64),
            "P": softmax(np.where(mask, everything, -np.inf)),
            "scores that are computed": mask.size,
            "scores that are seen": int(mask.sum()),
        },
        "One matrix would be right with this mask, and most of it is thrown away: the blocks off the "
        "diagonal are of two "
        "different users.",
    )
    cu_q, cu_k = offsets(new), offsets(lengths)
    log.step(
        "ragged instead: offsets",
        "cu_seqlens = [0, n_0, n_0 + n_1, ...]",
        {"new tokens of each user": np.array(new, float), "keys of each user": np.array(lengths, float)},
        {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k},
        "Rows of all users stand one after the other without padding; a kernel finds its user's by two offsets.",
    )
    figures = _roofline(log, values, len(users))
    results = {
        "Q": q_all, "cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k, **figures,
        **{f"scores of the first token, user {n}": s for n, s in enumerate(one)},
        **{f"scores, user {n}": s for n, s in enumerate(raw)},
        **{f"weights, user {n}": w for n, w in enumerate(weights)},
    }  # fmt: skip
    lessons = (
        "Waste of operations: padding. Mended by ragged (varlen) attention with offsets.",
        "Waste of memory: a cache reserved for the longest answer. Mended by paging "
        "it.",
        "Waste of slots over time: waiting until the last user of a batch is done. Mended by "
        "continuous batching, which "
        "lets users come and go at every step.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


def _check(users: list[Array], history: list[Array], w_q: Array, w_k: Array) -> None:
    if len(users) != len(history):
        raise BadValue(f"x has {len(users)} users, K_hist {len(history)}: expected one history for each user")
    width = w_q.shape[0]
    if w_k.shape[0] != width:
        raise BadValue(f"W_k has {w_k.shape[0]} rows and W_q {width}: both take a token of x")
    if w_q.shape[1] != w_k.shape[1]:
        raise BadValue(
            f"W_q has {w_q.shape[1]} columns and W_k {w_k.shape[1]}: queries and keys must be of one length"
        )
    for n, (u, h) in enumerate(zip(users, history, strict=True)):
        if u.shape[1] != width:
            raise BadValue(f"x[{n}] has tokens of {u.shape[1]} values, W_q takes {width}")
        if h.shape[1] != w_k.shape[1]:
            raise BadValue(f"K_hist[{n}] has keys of {h.shape[1]} values, W_k makes {w_k.shape[1]}")


def _padding(log: Recorder, new: list[int], lengths: list[int]) -> None:
    padded = len(new) * max(new) * max(lengths)
    real = sum(q * k for q, k in zip(new, lengths, strict=True))
    log.step(
        "padding, if all have to be of one length",
        "users x longest queries x longest keys",
        {"new tokens of each user": np.array(new, float), "keys of each user": np.array(lengths, float)},
        {
            "scores with padding": padded,
            "scores that are somebody's": real,
            "share that is padding": 1 - real / padded,
            "padded keys need a mask": max(lengths) != min(lengths),
        },
        "A key of padding has score 0, not -inf: unless it is masked it takes a share of every softmax.",
    )


def _roofline(log: Recorder, values: Values, users: int) -> dict[str, float]:
    tflops, tbps, on_chip = _gpu(values)
    parameters, size = float(values["billion_parameters"]) * 1e9, values.whole("bytes")
    ridge = tflops / tbps
    seconds = parameters * size / (tbps * 1e12)
    found = {
        "ridge, FLOP per byte": ridge,
        "least ms per token": 1e3 * seconds,
        "most tokens per second of one user": 1 / seconds,
        "FLOP per byte of this batch": 2 * users / size,
        "users until the ridge": ridge * size / 2,
        "on-chip memory, MB": on_chip,
    }
    log.step(
        "why batches pay",
        "2 FLOP a weight and user, over its bytes; ridge = FLOP/s over bytes/s",
        {"TFLOP/s": tflops, "TB/s": tbps, "weights": parameters, "bytes a weight": size, "users": users},
        found,
        "A token reads every weight. One user leaves the tensor cores idle; each further user shares the read. "
        "On-chip memory holds a tile of the weights, never the model.",
    )
    return found


def _gpu(values: Values) -> tuple[float, float, float]:
    """Return tensor TFLOP/s (bf16), TB/s of memory, and MB of shared memory and L1: the values given, or a GPU's."""
    if values["gpu"] == "as given":
        on_chip = values.whole("sms") * values.whole("kb_per_sm") / 1024
        return float(values["tflops"]), float(values["memory_tbps"]), on_chip
    gpu = load(values["gpu"])
    peak = gpu.published_tflops.get("bf16_fp32acc") or gpu.peak_tflops("bf16_fp32acc")
    if peak is None:
        raise BadValue(f"gpu {values['gpu']}: its bf16 rate is not known; give tflops and memory_tbps instead")
    return peak, gpu.memory.dram_gbps / 1e3, gpu.compute.sms * gpu.memory.l1_plus_shared_bytes_per_sm / 2**20


WALKTHROUGH = Walkthrough(
    "batched-inference",
    "Batched inference",
    "two users in one batch: what is shared, what is not, padding and offsets, FLOP per byte",
    (
        Parameter(
            "x", "matrices", [[[1, 0], [1, 1]], [[0, 1], [2, 0]]], "new tokens of each user, a row each"
        ),
        Parameter(
            "K_hist",
            "matrices",
            [[[1, 0], [1, 1], [0, 1]], [[0, 1], [2, 0], [1, 1]]],
            "cached keys of each user",
        ),
        Parameter("W_q", "matrix", [[1, 1], [0, 1]], "weights of the queries: q = x W_q"),
        Parameter("W_k", "matrix", [[1, 0], [0, 1]], "weights of the keys"),
        Parameter("scaled", "flag", False, "divide scores by the root of the head dimension"),
        Parameter("gpu", "choice", "as given", "a GPU by name, or the numbers below", choices=("as given", *names())),
        Parameter("tflops", "number", 990.0, "tensor TFLOP/s of the GPU (H100, bf16)", least=0.001),
        Parameter("memory_tbps", "number", 3.35, "memory bandwidth of the GPU in TB/s", least=0.001),
        Parameter("sms", "whole", 132, "streaming multiprocessors of the GPU", least=1),
        Parameter("kb_per_sm", "whole", 256, "shared memory and L1 of each, in KB", least=1),
        Parameter("billion_parameters", "number", 8.0, "size of the model", least=0.001),
        Parameter("bytes", "whole", 2, "bytes a weight", least=1),
    ),
    work,
)
