"""Grids that do not fill the GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule

SHORT = 2e-6
TAIL = 1.1
MOST_WAVES = 8


def find_small(p: Profile) -> Iterator[Finding]:
    """Find fewer programs than the GPU has SMs."""
    if p.waves is None:
        return
    blocks, sms = p.waves.programs, p.gpu.compute.sms
    if not blocks or blocks >= sms:
        return
    yield Finding(
        "too-few-programs",
        f"{blocks:,} program{'s' if blocks > 1 else ''} for {sms} SMs",
        (Evidence(f"{sms - blocks} of {sms} SMs have nothing to do", "modelled"),),
        "smaller tiles, or split the loop over more programs (split-K, split-KV) and add up their results",
        sms / blocks,
        "all SMs busy, with the same work",
    )


def find_short(p: Profile) -> Iterator[Finding]:
    """Find so little work that starting the launch takes longer."""
    if not p.busy or p.busy[0].seconds >= SHORT:
        return
    top = p.busy[0]
    yield Finding(
        "short-launch",
        "so little work that starting the launch takes longer",
        (Evidence(f"{top.unit}: at least {figures.duration(top.seconds)}, and no unit is busy longer", "modelled"),),
        "more work in one launch: fuse it with the kernel before or after, batch calls, or replay a CUDA graph",
        None,
        "how long a launch takes to start depends on the host and is not modelled",
    )


def find_tail(p: Profile) -> Iterator[Finding]:
    """Find a last wave that is short of programs, where programs are alike."""
    w = p.waves
    spread = p.counters.spread if p.counters else None
    if (
        w is None
        or w.waves <= 1
        or w.waves > MOST_WAVES
        or spread is None
        or spread.most > 1.1 * spread.least
    ):
        return
    ratio = math.ceil(w.waves - 1e-9) / w.waves
    if ratio < TAIL:
        return
    yield Finding(
        "tail-wave",
        f"the last of {math.ceil(w.waves)} waves is {w.last_wave_busy:.0%} full",
        (Evidence(f"{w.programs:,} programs in {w.slots:,} slots: {w.waves:.2f} waves", "modelled"),),
        "tiles that make a number of programs just below a multiple of the slots, or persistent programs that "
        "share the "
        "work out evenly",
        ratio,
        "whole waves over the waves needed; programs that share an SM run faster when it empties, so less in "
        "practice",
    )


RULES = (
    Rule(
        "too-few-programs",
        "Fewer programs than SMs",
        "An SM without a program does nothing.",
        "fewer programs than SMs",
        "the grid of the launch; SMs from the catalog",
        "batch 1, 8 heads, one query tile: 8 programs for 132 SMs",
        "keys split over 16 programs a head",
        find_small,
    ),
    Rule(
        "short-launch",
        "Less work than it takes to start a launch",
        "A GPU takes a few microseconds from one launch to the next, the host often longer. A kernel that "
        "needs less is not what is waited for.",
        f"no unit is busy for {1e6 * SHORT:g} us",
        "the least time of every unit; the threshold is a round figure, not a measurement",
        "one kernel for each of 40 small vectors",
        "one kernel over all of them",
        find_short,
    ),
    Rule(
        "tail-wave",
        "A last wave that is nearly empty",
        "Programs start in waves of as many as fit on the GPU at once. If the last wave has few, the rest of the "
        "GPU waits.",
        f"whole waves over waves of {TAIL} or more, at most {MOST_WAVES} waves, programs that are alike",
        "programs of the launch; slots from the occupancy; instructions of every program from the machine code",
        "256 programs in 224 slots: 1.14 waves take as long as 2",
        "224 programs, or 448",
        find_tail,
    ),
)
