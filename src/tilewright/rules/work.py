"""What rules share: what lines of source ask of each unit, and the most that doing without it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.model import Profile, SourceLine
from tilewright.model.limits import Busy
from tilewright.sass import READS_L2, SECTOR_BYTES, InstructionCount

TELLING = 1.05
"""A bound below this is not worth a finding."""
COUNTS = 0.25
"""Units busy for less than this part of the busiest one's time do not decide a bound."""


def lines_at(p: Profile, numbers: Iterable[int | None]) -> list[SourceLine]:
    """Return the lines of the kernel's own file with these numbers that execute something."""
    wanted = {n for n in numbers if n is not None}
    return [x for x in p.lines if x.place.line in wanted]


def rows_of(lines: Iterable[SourceLine]) -> list[InstructionCount]:
    """Return the machine instructions of lines."""
    return [row for line in lines for row in line.rows]


def work(rows: Iterable[InstructionCount]) -> dict[str, float]:
    """Return what instructions ask of each unit, by the keys of `Busy`."""
    found: dict[str, float] = {}

    def add(unit: str, amount: float) -> None:
        found[unit] = found.get(unit, 0) + amount

    for row in rows:
        add("issue", row.executed)
        add("tensor", row.tensor_ops)
        add(row.pipe if row.pipe != "tensor" else "tensor instructions", row.executed)
        if row.access is not None:
            add("shared", row.access.wavefronts)
            add("l2", SECTOR_BYTES * row.access.sectors if row.kind in READS_L2 else 0)
    return found


def at_most(p: Profile, removed: Mapping[str, float]) -> float:
    """Return how much faster a launch can get at most when units have so much less to do.

    If time grows with the work of each unit and doubles when all of it doubles, then it shrinks by no more than the
    largest of the units' own ratios. Units that are hardly busy do not decide: not one that was so before, and of
    one that becomes so only the time down to there counts.
    """
    units = p.busy
    if not units:
        return 1.0
    longest = units[0].seconds
    left = {u.key: u.seconds * (1 - min(removed.get(u.key, 0.0) / u.amount, 1.0)) for u in units}
    least = max(COUNTS * max(left.values()), longest / 1000)
    deciding = [u for u in units if u.seconds >= COUNTS * longest and u.key != "dram"]
    return max([1.0, *(u.seconds / max(left[u.key], least) for u in deciding)])


def unit(p: Profile, key: str) -> Busy | None:
    """Return one unit's load."""
    return next((b for b in p.busy if b.key == key), None)


def in_loop(p: Profile, rows: Sequence[InstructionCount]) -> bool:
    """Whether instructions are executed more than once by a warp on average."""
    warps = p.launch.programs * p.launch.num_warps
    return bool(rows) and max(row.executed for row in rows) > 1.5 * warps
