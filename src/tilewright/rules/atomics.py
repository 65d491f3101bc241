"""Atomic updates of so few places that they wait for each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright import figures
from tilewright.launch import Tensor
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.middle import line_of, module_of, origin
from tilewright.rules.work import lines_at, rows_of
from tilewright.sass import SECTOR_BYTES, Access

PART = 0.5
ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
KINDS = ("global atomics", "global reductions")


def find(p: Profile) -> Iterator[Finding]:
    """Find atomics whose updates of one sector, one after the other, take a good part of the launch."""
    module = module_of(p)
    if module is None or not p.busy:
        return
    clock = p.gpu.clocks.sustained_ghz or p.gpu.clocks.boost_ghz
    longest = p.busy[0]
    for op in module.named(*ATOMICS):
        line = line_of(p, op)
        tensor = p.launch.args.get(origin(module, op.operands[0]).lstrip("%"))
        rows = [r for r in rows_of(lines_at(p, [line])) if r.kind in KINDS and r.access]
        made = sum((r.access for r in rows if r.access), Access())
        if not isinstance(tensor, Tensor) or not made.sectors:
            continue
        elements = math.prod(tensor.shape)
        each = made.sectors / math.ceil(max(elements * tensor.dtype.bytes, 1) / SECTOR_BYTES)
        seconds = each / (clock * 1e9)
        if seconds < PART * longest.seconds:
            continue
        name = origin(module, op.operands[0]).lstrip("%")
        yield Finding(
            "atomics-on-few-places",
            "atomic updates of few places wait for each other",
            (
                Evidence(
                    f"{figures.count(made.requests)} requests of {tensor.dtype.bytes * elements:,} B of {name}",
                    "counted",
                    line,
                ),
                Evidence(
                    f"{figures.count(round(each))} one after the other on each sector: at least "
                    f"{figures.duration(seconds)}, and {longest.unit} is busy for {figures.duration(longest.seconds)}",
                    "modelled",
                    line,
                ),
            ),
            "add up in registers first (tl.sum) and make one update a program; or write each program's part and add "
            "the parts in a second kernel",
            seconds / longest.seconds if seconds > longest.seconds else None,
            "until the busiest unit limits"
            if seconds > longest.seconds
            else "the busiest unit may hide them: their share is not known",
        )


RULES = (
    Rule(
        "atomics-on-few-places",
        "Many atomic updates of few places",
        "Atomics are executed in L2, and those of one address one after the other, so that a sum over the whole grid "
        "in one place takes as many clocks as it has requests.",
        f"requests to one sector, at one a clock, take {PART:.0%} of the busiest unit's time or more; updates are "
        "taken as even over the tensor",
        "one update a clock of one address: NVIDIA's white paper of the Kepler GK110, and not faster since as far as "
        "is published; requests from the machine code; the tensor's size from the launch",
        "tl.atomic_add(total_ptr + zeros, x): one update for each element",
        "tl.atomic_add(total_ptr, tl.sum(x)): one for each program",
        find,
    ),
)
