"""Programs of different length in an order that leaves the longest for the end."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule

THRESHOLD = 1.02
MOST = 1 << 16
"""Programs up to which the schedule is played through."""


def find(p: Profile) -> Iterator[Finding]:
    """Find that the grid would end earlier if its longest programs were started first."""
    spread = p.counters.spread if p.counters else None
    if spread is None or p.waves is None or not spread.order or spread.least == spread.most:
        return
    if p.launch.programs > MOST:
        return
    slots = p.waves.slots
    as_launched = makespan(spread.order, slots)
    longest_first = makespan(sorted(spread.order, reverse=True), slots)
    ratio = as_launched / longest_first
    if ratio < THRESHOLD:
        return
    total = sum(n * count for n, count in spread.order)
    mean = total / slots
    yield Finding(
        "longest-last",
        "long programs are started late",
        (
            Evidence(
                f"programs execute {spread.least:,} to {spread.most:,} instructions; in {slots:,} slots the last "
                "ends "
                f"{as_launched / mean - 1:.0%} after the average one",
                "modelled",
            ),
            Evidence(f"with the longest first it would be {longest_first / mean - 1:.0%}", "modelled"),
        ),
        "start the longest programs first: number them in the order of falling length (for a causal mask, the "
        "last query "
        "tile first: tile = tl.num_programs(0) - 1 - tl.program_id(0), with the batch in the faster axis)",
        ratio,
        "programs taken as long as their instructions are many, started in order as slots come free",
    )


def makespan(order: Iterable[tuple[int, int]], slots: int) -> int:
    """Return when the last program ends if each slot takes the next as soon as it is free."""
    ends = [0] * slots
    for length, count in order:
        for _ in range(count):
            heapq.heapreplace(ends, ends[0] + length)
    return max(ends)


RULES = (
    Rule(
        "longest-last",
        "Long programs are started late",
        "With a causal mask the last query tile does many times the work of the first. Programs start in the "
        "order of "
        "their numbers; where long ones come late, most of the GPU waits for a few.",
        f"played through with instructions as time, the longest first ends {THRESHOLD - 1:.0%} earlier or more",
        "instructions of every program from the machine code; slots from the occupancy",
        "query_tile = tl.program_id(0)   # short to long within every head",
        "query_tile = tl.num_programs(1) - 1 - tl.program_id(1)   # all long ones first",
        find,
    ),
)
