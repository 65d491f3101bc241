"""What a profile says in plain words: sentences used by the terminal, alone and side by side."""

from __future__ import annotations

import linecache
from collections.abc import Sequence

from tilewright.model import Profile
from tilewright.ttgir import Dot, Trip

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def times(factor: float) -> str:
    """`2x`, `1.5x`, `1.33x`."""
    return f"{factor:.3g}x"


def plural(count: int, word: str) -> str:
    """`1 program`, `8 programs`, `8,192 programs`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def ordinal(index: int) -> str:
    """`first`, `second`, ...; numbers after the eighth."""
    return ORDINALS[index] if index < len(ORDINALS) else f"number {index + 1}"


def listed(items: Sequence[object]) -> str:
    """`1`, `1 and 2`, `1, 2 and 3`."""
    texts = [str(item) for item in items]
    return " and ".join(", ".join(texts).rsplit(", ", 1)) if len(texts) > 1 else "".join(texts)


def source_line(file: str | None, line: int | None) -> str:
    """Return the text of a source line, stripped, or an empty string."""
    return linecache.getline(file, line).strip() if file and line else ""


def warps(dot: Dot) -> str:
    """`[1, 4]`, or the unit where warps do not share out the work."""
    return f"[{', '.join(map(str, dot.warps_per_cta))}]" if dot.warps_per_cta else "share one unit"


def instruction(dot: Dot) -> str:
    """`mma 16x8`."""
    if dot.unit == "fma":
        return "fma (no tensor cores)"
    return f"{dot.unit} {'x'.join(map(str, dot.instr_shape))}" if dot.instr_shape else dot.unit


def how_warps_lie(dot: Dot) -> str:
    """Say how the warps lie over a dot's result and which of them repeat work."""
    if dot.unit == "tcgen05":
        return "one tensor-core instruction works for the whole program; warps do not share it out"
    if dot.warps_per_cta is None or dot.distinct_warps is None:
        return "how the warps lie is not known for this layout"
    down, across = dot.warps_per_cta[-2:]
    if down * across == 1:
        text = "one warp does it all"
    elif across == 1:
        text = f"{down} warps stacked along rows, each owns whole rows"
    elif down == 1:
        text = f"{across} warps side by side along columns: every row is split across them"
    else:
        text = f"{down} warps along rows x {across} along columns: every row is split across {across} warps"
    return f"{text}; {repeated(dot)}" if (dot.repeat_factor or 1) > 1 else text


def repeated(dot: Dot) -> str:
    """Say why a dot executes more than it needs."""
    assert dot.warps_per_cta is not None
    assert dot.distinct_warps is not None
    assert dot.repeat_factor is not None
    all_warps, distinct = (
        dot.warps_per_cta[-2] * dot.warps_per_cta[-1],
        dot.distinct_warps[0] * dot.distinct_warps[1],
    )
    if distinct < all_warps:
        who = (
            f"only {distinct} of {all_warps} warps have work of their own, the rest wrap around and repeat it"
        )
        return f"work repeated {times(dot.repeat_factor)}: {who}"
    return f"{times(dot.repeat_factor)} the multiplies needed: the tile does not fill the instruction"


def trip_words(trip: Trip) -> str:
    """Say what one trip through shared memory moves."""
    tile = f"{'x'.join(map(str, trip.shape))} {trip.element}".strip()
    if trip.kind == "store and load":
        return f"{trip.name}: {tile} stored by the warps that made it, loaded by those that multiply it"
    if trip.kind == "reduction":
        return f"{trip.name} of {tile}: partial results of warps that share rows meet in shared memory"
    if trip.kind == "staging of a load":
        return f"{trip.name}: {tile} loaded to registers, then put into shared memory (not pipelined)"
    return f"{trip.name}: {tile} exchanged between warps ({trip.kind})"


def size(count: int | None) -> str:
    """`512 B`, or `? B` where the size is unknown."""
    return "? B" if count is None else f"{count:,} B"


def padding(p: Profile) -> str:
    """Say what the space beyond the buffers is: what a larger buffer over them needs, or alignment."""
    assert p.compiled is not None
    assert p.layout is not None
    total = p.compiled.shared_bytes
    larger = [b.name for b in p.layout.buffers if b.shares_with and b.offset + (b.bytes or 0) == total]
    return f"the rest of {larger[0]}, which lies over these" if larger else "alignment"


def does_not_fit(p: Profile) -> str:
    """Say what is required and what the limit is."""
    fit = p.does_not_fit
    assert fit is not None
    if fit.required is not None and fit.limit is not None:
        return f"It does not fit: {fit.resource} {fit.required:,} required, limit {fit.limit:,}."
    return f"It does not fit: {fit.message}."


def binds(p: Profile) -> str:
    """Say how many programs share an SM and what stops the next."""
    assert p.occupancy is not None
    count = p.occupancy.programs_per_sm
    share = "1 program has an SM to itself" if count == 1 else f"{count:,} programs share an SM"
    return f"{share}; {bind(p.occupancy.limiter)}."


def bind(limiter: Sequence[str]) -> str:
    """`shared memory binds`, `registers and warps bind`."""
    many = len(limiter) > 1 or limiter[0] != "shared memory"
    return f"{' and '.join(limiter)} bind{'' if many else 's'}"


def spills(p: Profile) -> str:
    """Say how many registers are spilled."""
    assert p.compiled is not None
    if not p.compiled.spilled_registers:
        return "no spills"
    spilled, stack = p.compiled.spilled_registers, p.compiled.stack_bytes
    return f"{spilled:,} registers spilled to local memory ({stack:,} B of stack)."


def waves_words(p: Profile) -> str:
    """`8,192 programs in 448 slots: 18.3 waves, last one 29 % busy`."""
    if p.waves is None:
        return "the grid is empty" if not p.launch.programs else "no program fits"
    w = p.waves
    wave = f"{w.waves:.2f} waves" if w.waves < 10 else f"{w.waves:.1f} waves"
    return (
        f"{plural(w.programs, 'program')} in {w.slots:,} slots: {wave}, the last {w.last_wave_busy:.0%} busy"
    )
