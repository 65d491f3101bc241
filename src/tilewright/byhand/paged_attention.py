"""Attention over a cache in blocks: addresses, scores block by block, the empty slot, and two samples of one prompt."""

from __future__ import annotations

import numpy as np

from tilewright.byhand.attention import scores_of, softmax
from tilewright.byhand.trace import Array, Recorder, Trace, Value
from tilewright.byhand.values import BadValue, Parameter, Values, Walkthrough
from tilewright.engine import BlockManager, OutOfBlocks


def work(values: Values) -> Trace:
    """Work the example through."""
    table, length, size = values["block_table"], values.whole("context_length"), values.whole("block_size")
    keys, held = values.array("K"), values.array("V")
    _check(values, table, keys, held)
    manager = BlockManager(values.whole("num_blocks"), size)
    for block in values["others"]:
        manager.adopt(f"another in {block}", [block], size)
    manager.adopt("A", table, length)
    log = Recorder()
    log.step(
        "where the tokens are",
        "block = table[token // block_size];  slot = token mod block_size",
        {"block table": np.array(table, float), "tokens": length, "block size": size},
        {
            "block, slot of each token": np.array([manager.slot("A", t) for t in range(length)], float),
            **_state(manager),
        },
        "The sequence is in order in its table; its blocks lie anywhere.",
    )
    results = _attention(log, values, table, keys, held, length, size)
    results |= _samples(log, manager)
    results |= _fragmentation(log, values, manager)
    lessons = (
        "Nothing is reserved: a sequence takes a block when the one before is full.",
        f"Of a sequence at most block_size - 1 slots are empty, here {size - 1}, whatever its length.",
        "Blocks that are shared are only read; who wants to write into one gets a copy.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


def _check(values: Values, table: list[int], keys: Array, held: Array) -> None:
    size, length, blocks = (values.whole(n) for n in ("block_size", "context_length", "num_blocks"))
    for name, listed in (("block_table", table), ("others", values["others"])):
        for n, block in enumerate(listed):
            if not isinstance(block, int) or not 0 <= block < blocks:
                raise BadValue(f"{name}[{n}] is {block}: there are blocks 0 to {blocks - 1}")
            if block in listed[:n]:
                raise BadValue(f"{name} has block {block} twice: a slot would hold two tokens")
    if both := sorted(set(table) & set(values["others"])):
        raise BadValue(
            f"block {both[0]} is in block_table and in others: it cannot be another sequence's too"
        )
    if len(table) != -(-length // size):
        raise BadValue(
            f"context_length {length} takes {-(-length // size)} blocks of {size}, block_table has {len(table)}"
        )
    for name, array in (("K", keys), ("V", held)):
        if array.shape[:2] != (len(table), size):
            raise BadValue(
                f"{name} must hold {len(table)} blocks of {size} slots in the table's order, found {list(array.shape)}"
            )
    if keys.shape[2] != len(values.array("q")):
        raise BadValue(f"q has {len(values.array('q'))} values, a key of K {keys.shape[2]}")


def _attention(
    log: Recorder, values: Values, table: list[int], keys: Array, held: Array, length: int, size: int
) -> dict[str, Value]:
    q, scaled = values.array("q"), bool(values["scaled"])
    m, d, o, every = -np.inf, 0.0, np.zeros(held.shape[2]), []
    for n, block in enumerate(table):
        s = scores_of(q[None], keys[n], scaled)[0]
        seen = n * size + np.arange(size) < length
        masked = np.where(seen, s, -np.inf)
        new = max(m, float(masked.max()))
        p = np.exp(masked - new)
        rescale = float(np.exp(m - new))
        after_d, after_o = d * rescale + float(p.sum()), o * rescale + p @ held[n]
        log.step(
            f"block {block} (table entry {n})",
            "s = q K_block^T;  slots past the length at -inf;  then m, d, o as in FlashAttention",
            {"q": q, "K": keys[n], "V": held[n], "m": m, "d": d, "o": o},
            {"scores": masked, "p": p, "m'": new, "d'": after_d, "o'": after_o},
            "The tile is a block: the running maximum and sum carry over, so blocks need not be side by side.",
        )
        m, d, o = new, after_d, after_o
        every.append(s)
    scores = np.concatenate(every)
    seen = np.arange(len(scores)) < length
    probabilities, unmasked = softmax(np.where(seen, scores, -np.inf)), softmax(scores)
    log.step(
        "at the end",
        "output = o / d",
        {"o": o, "d": d},
        {"output": o / d, "probabilities": probabilities},
        "As if all keys stood in one matrix.",
    )
    empty = float(unmasked[length:].sum())
    log.step(
        "if the empty slots were not masked",
        "their score is q times what lies in them, not -inf",
        {"scores": scores},
        {"share of the empty slots": empty, "output": unmasked @ held.reshape(-1, held.shape[2])},
        "A score of 0 is a score. What is left in a slot takes its share of every output."
        if length < len(scores)
        else "Here the last block is full: there is no empty slot.",
    )
    return {
        "scores": np.where(seen, scores, -np.inf), "probabilities": probabilities, "output": o / d,
        "share of unmasked empty slots": empty,
    }  # fmt: skip


def _samples(log: Recorder, manager: BlockManager) -> dict[str, Value]:
    """Fork the sequence and let both continue by a token, then end them."""
    before = _state(manager)
    manager.fork("A", "B")
    log.step(
        "a second sample shares the prompt",
        "fork: every block's reference count + 1",
        before,
        _state(manager),
        "Two answers to one prompt: not one key is copied.",
    )
    results: dict[str, Value] = {"references after fork": np.array(manager.references, float)}
    for name in ("A", "B"):
        before = _state(manager)
        try:
            copies = manager.append(name)
        except OutOfBlocks as e:
            log.step(
                f"{name} writes a token",
                "append",
                before,
                {"out of blocks": str(e)},
                "The caller has to wait.",
            )
            results[f"copies of {name}"] = "out of blocks"
            continue
        said = (
            "; ".join(f"block {c.source} to {c.target}, {c.slots} slot{'s' * (c.slots > 1)}" for c in copies)
            or "none"
        )
        results[f"copies of {name}"] = said
        results[f"table of {name}"] = np.array(manager.table(name), float)
        log.step(
            f"{name} writes a token",
            "append: a shared block that has room is copied first; a full one is followed by a fresh block",
            before,
            {"copied": said, **_state(manager)},
            "The block was shared: its filled slots are copied into the first free block."
            if copies
            else "Nobody else has the block that is written: in place, or into a fresh block.",
        )
    results["references after both"] = np.array(manager.references, float)
    before = _state(manager)
    freed = manager.free("A")
    log.step(
        "A ends",
        "free: every block's reference count - 1; those at 0 are free",
        before,
        {"freed": str(list(freed)), **_state(manager)},
        "Blocks that B shares stay.",
    )
    wanted = (len(manager.free_blocks) + 1) * manager.block_size
    try:
        manager.add("C", wanted)
    except OutOfBlocks as e:
        said = str(e)
        log.step(
            "a sequence that does not fit",
            "add",
            {"tokens": wanted, "free blocks": len(manager.free_blocks)},
            {"out of blocks": said, **_state(manager)},
            "Refused whole: no block is taken, and the caller may preempt or wait.",
        )
    results["references after A ends"] = np.array(manager.references, float)
    return results


def _fragmentation(log: Recorder, values: Values, manager: BlockManager) -> dict[str, Value]:
    reserved, size = values.whole("reserved"), values.whole("block_size")
    length = values.whole("context_length")
    paged = -(-length // size) * size
    log.step(
        "against one reserved stretch",
        "slots that hold nothing",
        {"tokens": length, "reserved for the longest answer": reserved, "block size": size},
        {
            "empty when reserved": reserved - length,
            "empty when paged": paged - length,
            "at most, paged": size - 1,
            "at most with blocks of 16": 15,
        },
        "What is reserved is lost to everybody else, and stretches of different lengths leave gaps between them.",
    )
    return {
        "empty slots": paged - length,
        "empty slots at most": size - 1,
        "wasted by the manager": manager.wasted_slots,
    }


def _state(manager: BlockManager) -> dict[str, Value]:
    found: dict[str, Value] = {
        f"table of {name}": str(list(manager.table(name)))
        for name in manager.sequences
        if "another" not in str(name)
    }
    return {**found, "references": str(list(manager.references)), "free": str(list(manager.free_blocks))}


WALKTHROUGH = Walkthrough(
    "paged-attention",
    "PagedAttention",
    "attention over a cache in blocks, on the engine's own block manager",
    (
        Parameter("q", "vector", [1, 2], "the query"),
        Parameter("K", "tensor", [[[1, 0], [0, 1]], [[1, 1], [2, 0]], [[0, 2], [0, 0]]],
                  "keys: for each block of the table its slots"),
        Parameter("V", "tensor", [[[1, 1], [2, 2]], [[3, 3], [4, 4]], [[5, 5], [0, 0]]], "values, as the keys"),
        Parameter("block_table", "table", [2, 0, 1], "the sequence's blocks, in the order of its tokens"),
        Parameter("context_length", "whole", 5, "tokens of the sequence", least=1),
        Parameter("block_size", "whole", 2, "token slots of a block", least=1),
        Parameter("num_blocks", "whole", 9, "blocks that there are", least=1),
        Parameter("others", "table", [3], "full blocks of other sequences"),
        Parameter("reserved", "whole", 2048, "slots that a contiguous cache would reserve", least=1),
        Parameter("scaled", "flag", False, "divide scores by the root of the head dimension"),
    ),
    work,
)  # fmt: skip
