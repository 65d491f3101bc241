"""A mask that is evaluated on every tile, although most tiles need none."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.source import masks
from tilewright.rules.work import TELLING, at_most, lines_at, rows_of, work

THRESHOLD = 0.03
WORK = ("ISETP", "FSEL", "SEL", "LOP3", "PLOP3", "VIADD", "IADD3", "FSETP", "IMNMX", "VIMNMX")
"""What a mask is made of; other instructions at its lines belong to other things."""


def find(p: Profile) -> Iterator[Finding]:
    """Find a mask of scores in the loop that does the tensor work, executed for nearly all of its tiles."""
    total = p.counters.instructions if p.counters else None
    if not total:
        return
    for mask in masks(p.launch.kernel.path):
        lines = [mask.line, *mask.condition_lines]
        rows = [r for r in rows_of(lines_at(p, lines)) if r.opcode in WORK]
        spent = sum(row.executed for row in rows)
        if spent < THRESHOLD * total:
            continue
        bound = at_most(p, work(rows))
        yield Finding(
            "mask-on-every-tile",
            "a mask is evaluated on every tile",
            (
                Evidence(
                    f"{figures.count(spent)} instructions ({spent / total:.1%}) compare positions and select "
                    "scores",
                    "counted",
                    mask.line,
                ),
            ),
            "two loops: one over the tiles that every query sees whole, without the mask, and one over those "
            "that cross "
            "the diagonal or the end, with it (a constexpr that is False in the first does both)",
            bound if bound >= TELLING else None,
            "without the compares and selects at the mask's lines",
        )


RULES = (
    Rule(
        "mask-on-every-tile",
        "A mask is evaluated on every tile",
        "Only tiles on the diagonal of a causal mask, and the last tile of the keys, hold scores to be hidden. "
        "In a single "
        "loop every tile pays for the comparison of positions and for the select.",
        f"a `tl.where` that puts in a very low value, in a loop, whose compares and selects are {THRESHOLD:.0%} "
        "of the "
        "instructions or more",
        "the mask's lines from the kernel's source; their instructions from the machine code",
        "for j in ...: S = tl.where(k_pos <= q_pos, S, -1e6)",
        "the same loop twice, `if MASKED: S = tl.where(...)`, with MASKED=False up to the diagonal",
        find,
    ),
)
