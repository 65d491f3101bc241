"""Warps that share rows: reductions and operands that go through shared memory in the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import TELLING, at_most, lines_at, rows_of, work
from tilewright.sass import InstructionCount
from tilewright.ttgir import Trip

EXCHANGE = ("SHFL", "STS", "LDS", "BAR", "LDSM", "STSM", "MOVM")
_CHANGE = "let each warp own whole rows: a tile of 16 rows a warp at least (with num_warps=4, 64 rows), or num_warps=1"


def find_reductions(p: Profile) -> Iterator[Finding]:
    """Find row reductions whose partial results meet in shared memory on every pass of a loop."""
    assert p.layout is not None
    trips = [t for t in p.layout.trips if t.kind == "reduction"]
    if not trips:
        return
    every: list[InstructionCount] = []
    evidence = []
    for trip in trips:
        rows = rows_of(lines_at(p, [trip.line]))
        spent = [row for row in rows if row.pipe == "lsu" or row.opcode in EXCHANGE]
        every += spent
        evidence.append(Evidence(_spent(trip, spent), "counted" if spent else "compiled", trip.line))
    owned = next((d for d in p.layout.dots if d.warp_owns_rows is False), None)
    if owned is not None:
        evidence.append(
            Evidence(
                f"warps lie {list(owned.warps_per_cta or ())} over {owned.name}: rows are split across them",
                "compiled",
                owned.line,
            )
        )
    bound = at_most(p, work(every))
    yield Finding(
        "rows-split-across-warps",
        f"rows are split across warps: {len(trips)} reduction{'s' if len(trips) > 1 else ''} a step through "
        "shared memory",
        tuple(evidence),
        _CHANGE,
        bound if bound >= TELLING else None,
        "without the shuffles, shared-memory accesses and barriers at these lines",
    )


def find_round_trips(p: Profile) -> Iterator[Finding]:
    """Find operands that are stored to and loaded from shared memory on every pass of a loop."""
    assert p.layout is not None
    for trip in p.layout.trips:
        if trip.kind != "store and load":
            continue
        rows = [r for r in rows_of(lines_at(p, [trip.line])) if r.pipe == "lsu" or r.opcode in EXCHANGE]
        bound = at_most(p, work(rows))
        yield Finding(
            "round-trip",
            f"{trip.name} makes a trip through shared memory on every step",
            (Evidence(_spent(trip, rows), "counted" if rows else "compiled", trip.line),),
            f"{_CHANGE}; then {trip.name} stays in registers from one dot to the next",
            bound if bound >= TELLING else None,
            "without the loads, stores and barriers at this line",
        )


def _spent(trip: Trip, rows: Sequence[InstructionCount]) -> str:
    size = f"{trip.bytes:,} B a step" if trip.bytes else "each step"
    if not rows:
        return f"{trip.name}: {size}"
    lsu = sum(row.executed for row in rows if row.pipe == "lsu")
    barriers = sum(row.executed for row in rows if row.opcode == "BAR")
    text = f"{trip.name}: {size}, {figures.count(lsu)} load/store-pipe instructions"
    return f"{text}, {figures.count(barriers)} barriers" if barriers else text


RULES = (
    Rule(
        "rows-split-across-warps",
        "Row reductions go through shared memory",
        "Where the warps lie side by side over a tile, each holds a piece of every row. A maximum or sum over a "
        "row is "
        "then made of partial results that meet in shared memory: stores, a barrier, loads, on every step of the "
        "loop.",
        "any reduction in a loop that the compiler gives scratch space",
        "scratch buffers and layouts in Triton's IR; instructions of those lines from the machine code",
        "Q_TILE_SIZE=16, num_warps=4: warps [1, 4], tl.max(S, axis=1) takes scratch",
        "Q_TILE_SIZE=64, num_warps=4: warps [4, 1], the same tl.max is shuffles within four lanes",
        find_reductions,
    ),
    Rule(
        "round-trip",
        "The result of one dot goes through shared memory to the next",
        "The second dot wants whole rows of the first one's result as its operand. Where a warp does not hold "
        "them, "
        "the tile is stored to shared memory and loaded again, with a barrier before and after.",
        "any tile that is stored and loaded in a loop, beside the pipeline's own buffers",
        "local_alloc and local_load in Triton's IR; instructions of the line from the machine code",
        "Q_TILE_SIZE=16, num_warps=4: P (16x16 bf16, 512 B) is stored and loaded on every step",
        "Q_TILE_SIZE=64, num_warps=4: P is converted in registers",
        find_round_trips,
    ),
)
