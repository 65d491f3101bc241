"""Global memory accesses that touch more than their bytes fill, and more bytes than needed."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import COUNTS, unit
from tilewright.sass import SECTOR_BYTES, Access

THRESHOLD = 1.25
PART = 0.1
KINDS = ("global loads", "global stores", "global to shared copies", "global atomics", "global reductions")


def find(p: Profile) -> Iterator[Finding]:
    """Find lines whose requests touch more sectors than their bytes fill."""
    traffic = p.counters.traffic if p.counters else None
    if traffic is None:
        return
    every = sum(traffic.kinds[k].sectors for k in KINDS if k in traffic.kinds)
    for line in p.lines:
        rows = [r for r in line.rows if r.kind in KINDS and r.access is not None]
        found = sum((r.access for r in rows if r.access is not None), Access())
        if (
            found.sectors < PART * every
            or found.sectors < THRESHOLD * found.ideal_sectors
            or not found.sectors
        ):
            continue
        less = found.sectors - found.ideal_sectors
        yield Finding(
            "scattered-access",
            f"{rows[0].kind} touch {found.sectors / found.ideal_sectors:.3g}x the sectors that their bytes fill",
            (
                Evidence(
                    f"{found.sectors / max(found.requests, 1):.3g} sectors a request, "
                    f"{found.ideal_sectors / max(found.requests, 1):.3g} "
                    f"would do: {SECTOR_BYTES * less / 1e6:,.1f} MB more",
                    "counted",
                    line.place.line,
                ),
            ),
            "let neighbouring lanes access neighbouring addresses: the contiguous dimension last in the tile, or "
            "transpose "
            "in shared memory",
            every / (every - less) if _memory_binds(p) else None,
            "all of the sectors over those left"
            if _memory_binds(p)
            else "memory is not the busiest unit: its share is not known",
        )


def find_excess(p: Profile) -> Iterator[Finding]:
    """Find that far more bytes are fetched than needed in a kernel that memory limits."""
    l2 = unit(p, "l2")
    needed = p.needed.bytes if p.needed else None
    if l2 is None or not needed or not p.busy or p.busy[0] is not l2 or l2.amount < THRESHOLD * needed:
        return
    yield Finding(
        "bytes-above-needed",
        f"{l2.amount / needed:.3g}x the bytes needed come from L2, which is the busiest unit",
        (
            Evidence(
                f"{l2.amount / 1e9:,.2f} GB from L2 into the SMs, {needed / 1e9:,.3g} GB needed", "counted"
            ),
        ),
        "larger tiles: what a program loads is used for more results before it is dropped",
        l2.seconds / max(p.busy[1].seconds, l2.seconds * needed / l2.amount),
        "until the next unit is as busy",
    )


def _memory_binds(p: Profile) -> bool:
    top = p.busy[0] if p.busy else None
    l2 = unit(p, "l2")
    return top is None or top.key in ("l2", "dram") or (l2 is not None and l2.seconds > COUNTS * top.seconds)


RULES = (
    Rule(
        "scattered-access",
        "Accesses touch more sectors than their bytes fill",
        "Memory moves in sectors of 32 bytes. Where the lanes of a warp access addresses that lie apart, each "
        "takes a sector "
        "of its own and most of it is dropped.",
        f"{THRESHOLD}x the sectors that the bytes fill or more, at a line with {PART:.0%} of all sectors or more",
        "addresses of every access from the machine code",
        "tl.load(x + row[None, :] * stride + col[:, None]): the lanes run down a column",
        "tl.load(x + row[:, None] * stride + col[None, :]): the lanes run along a row",
        find,
    ),
    Rule(
        "bytes-above-needed",
        "More bytes are fetched than needed, and that is the limit",
        "Each program loads its operands again; small tiles load them often. It matters where L2 is the busiest "
        "unit.",
        f"{THRESHOLD}x the bytes needed or more, in a kernel whose busiest unit is L2",
        "sectors from the machine code; needed bytes from the case (`needed_bytes`); L2 bandwidth from the catalog",
        "16x16 tiles: K and V once for every 16 queries",
        "128x64 tiles: once for every 128",
        find_excess,
    ),
)
