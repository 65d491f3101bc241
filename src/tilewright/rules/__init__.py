"""Rules on a profile: Profile -> Findings. Each rule in a file of its own."""

from __future__ import annotations

from tilewright.model import Profile
from tilewright.rules import (
    atomics,
    barriers,
    exponential,
    global_access,
    grid,
    imbalance,
    integers,
    masked_loads,
    masks,
    occupancy,
    pipes,
    repeated,
    rescale,
    rows_split,
    shared_access,
    slow_dot,
    spills,
    unneeded,
)
from tilewright.rules.finding import Evidence, Finding, Rule

RULES: tuple[Rule, ...] = tuple(
    rule
    for module in (
        repeated,
        unneeded,
        rows_split,
        masks,
        exponential,
        rescale,
        imbalance,
        pipes,
        slow_dot,
        barriers,
        spills,
        global_access,
        masked_loads,
        integers,
        atomics,
        shared_access,
        grid,
        occupancy,
    )
    for rule in module.RULES
)

__all__ = ["RULES", "Evidence", "Finding", "Rule", "find"]


def find(profile: Profile) -> tuple[Finding, ...]:
    """Return what the rules find, the largest bound first; those without a bound last, in the order of the rules."""
    if not profile.fits:
        return ()
    found = [finding for rule in RULES for finding in rule.find(profile)]
    return tuple(sorted(found, key=lambda f: -(f.bound or 0.0)))
