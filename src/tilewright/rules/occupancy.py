"""Stages or registers that cost a resident program."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule

ENOUGH_WARPS = 8
"""Resident warps from which matrix kernels are no longer helped by more (a published study: occupancy is a means)."""


def find(p: Profile) -> Iterator[Finding]:
    """Find that a small change lets another program onto an SM that has few warps."""
    o = p.occupancy
    if o is None or p.compiled is None or o.warps_resident >= ENOUGH_WARPS:
        return
    gains = [c for c in p.cliffs if c.programs_per_sm > o.programs_per_sm]
    if not gains:
        return
    yield Finding(
        "occupancy-cliff",
        f"{o.programs_per_sm} program{'s' if o.programs_per_sm > 1 else ''} a SM ({o.warps_resident} warps): "
        f"{' and '.join(o.limiter)} bind{'' if len(o.limiter) > 1 or o.limiter[0] != 'shared memory' else 's'}",
        tuple(Evidence(f"{c.change}: {c.programs_per_sm} programs", "modelled") for c in gains[:2]),
        f"try {gains[0].change}: few warps hide little latency; measure it, since the pipeline gets shorter or "
        "registers spill",
        None,
        "what more resident warps are worth is not known from the code",
    )


RULES = (
    Rule(
        "occupancy-cliff",
        "A small change lets another program onto the SM",
        "With few resident warps, latencies are not hidden. Sometimes one pipeline stage or a few registers "
        "stand between "
        "this occupancy and the next.",
        f"fewer than {ENOUGH_WARPS} warps resident, and one stage, or some registers or bytes less, allow another "
        "program",
        "registers and shared memory from the compiled kernel; limits of the GPU from the catalog",
        "num_stages=4: 1 program an SM",
        "num_stages=3: 2 programs an SM",
        find,
    ),
)
