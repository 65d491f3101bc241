"""Bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import TELLING, at_most
from tilewright.sass import Access

THRESHOLD = 1.25
PART = 0.1
KINDS = ("shared loads", "shared stores", "shared matrix loads", "shared matrix stores", "shared atomics")


def find(p: Profile) -> Iterator[Finding]:
    """Find lines whose accesses of shared memory take more passes than without conflicts."""
    traffic = p.counters.traffic if p.counters else None
    if traffic is None:
        return
    every = sum(a.wavefronts for a in traffic.kinds.values())
    for line in p.lines:
        for kind in KINDS:
            rows = [r for r in line.rows if r.kind == kind and r.access is not None]
            found = sum((r.access for r in rows if r.access is not None), Access())
            less = found.wavefronts - found.ideal_wavefronts
            if (
                found.wavefronts < PART * every
                or found.wavefronts < THRESHOLD * found.ideal_wavefronts
                or not less
            ):
                continue
            bound = at_most(p, {"shared": less})
            yield Finding(
                "bank-conflicts",
                f"bank conflicts: {kind} take {found.wavefronts / max(found.ideal_wavefronts, 1):.3g}x the passes",
                (
                    Evidence(
                        f"{found.wavefronts / max(found.requests, 1):.3g} passes a request, "
                        f"{found.ideal_wavefronts / max(found.requests, 1):.3g} without conflicts; "
                        f"{less / every:.0%} of all passes",
                        "counted",
                        line.place.line,
                    ),
                ),
                "another layout in shared memory (swizzled or padded rows), or wider accesses; in Triton the "
                "order of the "
                "tile's dimensions and its element type decide it",
                bound if bound >= TELLING else None,
                "without the passes that conflicts add",
            )


RULES = (
    Rule(
        "bank-conflicts",
        "Lanes meet on a bank of shared memory",
        "Shared memory has 32 banks of 4 bytes. Lanes that access different words of one bank are served one "
        "after the "
        "other.",
        f"{THRESHOLD}x the passes or more, at a line with {PART:.0%} of all passes or more",
        "addresses of every access from the machine code",
        "a 32x32 fp32 tile stored by rows and loaded by columns, unpadded",
        "rows of 33 words, or a swizzle",
        find,
    ),
)
