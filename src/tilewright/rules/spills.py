"""Registers spilled in a loop."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import TELLING, at_most, work


def find(p: Profile) -> Iterator[Finding]:
    """Find spilled registers that are stored or loaded more than once by each warp; once is harmless."""
    counters = p.counters
    if counters is None or not counters.instructions or not (counters.spill_loads or counters.spill_stores):
        return
    warps = p.launch.programs * p.launch.num_warps
    rows = [r for r in counters.by_instruction if r.opcode in ("LDL", "STL") and r.executed > 1.5 * warps]
    if not rows:
        return
    spent = sum(r.executed for r in rows)
    by_line: dict[int, int] = {}
    for line in p.lines:
        here = sum(r.executed for r in line.rows if r.opcode in ("LDL", "STL") and r.executed > 1.5 * warps)
        if here:
            by_line[line.place.line] = here
    bound = at_most(p, work(rows))
    worst = sorted(by_line.items(), key=lambda x: -x[1])[:3]
    yield Finding(
        "spills-in-loop",
        "registers are spilled in a loop",
        (
            Evidence(
                f"{figures.count(spent)} loads and stores of spilled registers "
                f"({spent / counters.instructions:.1%} "
                "of all "
                "instructions)",
                "counted",
            ),
            *(Evidence(f"{figures.count(n)} at this line", "counted", line) for line, n in worst),
        ),
        "a smaller tile, or more warps to share its registers; fewer values kept over the loop",
        bound if bound >= TELLING else None,
        "without these loads and stores; waiting for them is not counted",
    )


RULES = (
    Rule(
        "spills-in-loop",
        "Registers are spilled in a loop",
        "What does not fit into registers is stored to local memory and loaded back. Outside of loops that is a "
        "few "
        "instructions once; in a loop it takes the load/store pipe on every step.",
        "spilled registers that a warp stores or loads more than once",
        "executed LDL and STL from the machine code, by line",
        "Q_TILE_SIZE=128, D=128, num_warps=4",
        "num_warps=8",
        find,
    ),
)
