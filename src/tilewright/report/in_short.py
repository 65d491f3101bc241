"""The sentences that sum a profile up, the most telling first."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.model.counted import mean_per_program
from tilewright.report import words

TELLING_EXCESS = 1.25
"""The longest program over the mean, from which a sentence says so."""


def in_short(p: Profile) -> Iterator[str]:
    """Yield the sentences that sum a profile up, the most telling first."""
    if p.failure is not None and p.does_not_fit is None:
        yield f"It does not compile: {p.failure.message}"
        if p.failure.place:
            yield f"At {p.failure.place}"
        return
    if p.does_not_fit is not None:
        yield words.does_not_fit(p)
        return
    assert p.layout is not None
    assert p.occupancy is not None
    yield from _operations(p)
    if p.compiled and p.compiled.spilled_registers:
        yield words.spills(p)
    if p.layout.dots and not p.layout.trips and p.layout.work_factor == 1:
        loop = ", and nothing but the pipelined operands goes through shared memory in the loop"
        yield f"No work is repeated{loop if p.layout.loops else ''}."
    yield from _executed(p)
    yield words.binds(p)
    if p.waves is not None and p.waves.waves < 1:
        yield f"The grid fills {p.waves.waves:.0%} of the GPU: {words.waves_words(p)}."


def _operations(p: Profile) -> Iterator[str]:
    """Tensor operations executed against needed, where they differ."""
    factor = p.needed_factor
    if factor is None or factor < 1.005:
        return
    assert p.counters is not None
    assert p.needed is not None
    executed, needed = p.counters.total_tensor_ops or 0, p.needed.operations or 0
    text = (
        f"{figures.count(executed)} tensor operations are executed, {figures.count(needed)} needed: "
        f"{words.times(factor)}"
    )
    repeated = p.layout.work_factor if p.layout else None
    if repeated and repeated > 1 and factor > 1.05 * repeated:
        text += (
            f" in all, {words.times(repeated)} because work is repeated and {words.times(factor / repeated)} because "
            "more is computed than the algorithm needs"
        )
    yield f"{text}."


def _executed(p: Profile) -> Iterator[str]:
    """Where most instructions are, what memory accesses waste, how programs differ."""
    c = p.counters
    if c is None or p.static is not None:
        return
    if c.instructions is None:
        yield "What it executes is not known; the reason is below."
        return
    if p.lines and c.instructions:
        top = max(p.lines, key=lambda x: x.instructions)
        text = words.source_line(top.place.file, top.place.line)
        yield (
            f"{figures.share(top.instructions, c.instructions)} of the {figures.count(c.instructions)} warp "
            f"instructions are at line {top.place.line}{f': {figures.code(text)}' if text else ''}"
        )
    mean = mean_per_program(c)
    if c.spread and mean and c.spread.most >= TELLING_EXCESS * mean:
        yield (
            f"Programs differ: the longest executes {c.spread.most / mean:.2g}x the instructions of an average one."
        )
