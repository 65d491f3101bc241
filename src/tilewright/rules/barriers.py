"""Barriers in a loop that are not the pipeline's own."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule

THRESHOLD = 3


def find(p: Profile) -> Iterator[Finding]:
    """Find more than a few barriers for each time that the tensor work of a step is done."""
    counters = p.counters
    if counters is None or not counters.instructions or p.layout is None or p.launch.num_warps == 1:
        return
    warps = p.launch.programs * p.launch.num_warps
    lines = sorted(((x.barriers, x.place.line) for x in p.lines if x.barriers > 1.5 * warps), reverse=True)
    loops = [r.executed for x in p.lines for r in x.rows if r.opcode == "BRA" and r.executed > 1.5 * warps]
    if not lines or not loops:
        return
    steps = max(loops)
    each = sum(n for n, _ in lines) / steps
    if each < THRESHOLD:
        return
    yield Finding(
        "barriers-per-step",
        f"every warp waits at {each:.1f} barriers a step",
        tuple(Evidence(f"{n / steps:.1f} a step at this line", "counted", line) for n, line in lines[:4]),
        "barriers come with data that passes between warps: let each warp own whole rows, or one warp do it all",
        None,
        "what a barrier costs depends on how long warps wait for each other, which is not counted",
    )


RULES = (
    Rule(
        "barriers-per-step",
        "Many barriers a step",
        "A pipelined loop needs one or two barriers a step for its buffers. Each reduction across warps and each "
        "tile that "
        "is handed over through shared memory adds its own.",
        f"{THRESHOLD} or more barriers for each step of the busiest loop",
        "executed BAR and branch instructions from the machine code",
        "16x16 tile, 4 warps: 9 a step",
        "64x32 tile, 4 warps: 2 a step",
        find,
    ),
)
