"""Tensor work that several warps do alike."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import TELLING, at_most, lines_at, rows_of, work


def find(p: Profile) -> Iterator[Finding]:
    """Find dots whose warps wrap around, or whose tile does not fill the instruction."""
    assert p.layout is not None
    for dot in p.layout.dots:
        factor = dot.repeat_factor
        if factor is None or factor <= 1 or dot.unit == "tcgen05":
            continue
        rows = rows_of(lines_at(p, [dot.line]))
        part = 1 - 1 / factor
        executed = sum(row.tensor_ops for row in rows)
        # The dot's own instructions are repeated with it; the rest of its line may not be.
        bound = at_most(p, {k: v * part for k, v in work([r for r in rows if r.tensor_ops]).items()})
        evidence = []
        if executed:
            evidence.append(
                Evidence(
                    f"{figures.count(executed)} tensor operations executed, {figures.count(executed / factor)} of "
                    "them needed",
                    "counted",
                    dot.line,
                )
            )
        evidence.append(Evidence(_warps(p, dot), "compiled", dot.line))
        rows_needed = 16 * p.compiled.num_warps if p.compiled else 0
        yield Finding(
            "repeated-tensor-work",
            f"tensor work of {dot.name} is done {factor:.3g} times",
            tuple(evidence),
            f"give every warp rows of its own: a tile of {rows_needed} rows for {rows_needed // 16} warps (16 "
            "rows a warp), "
            f"or fewer warps (num_warps={max(1, dot.shape[0] // 16)})",
            bound if bound >= TELLING else None,
            f"{part:.0%} of this dot's tensor work is repeated",
        )


def _warps(p: Profile, dot: object) -> str:
    warps, distinct = getattr(dot, "warps_per_cta", None), getattr(dot, "distinct_warps", None)
    tile = "x".join(map(str, getattr(dot, "shape", ())[:2]))
    if warps and distinct and distinct[0] * distinct[1] < warps[-2] * warps[-1]:
        return (
            f"warps lie {list(warps)} over the {tile} tile: {distinct[0] * distinct[1]} of {warps[-2] * warps[-1]} "
            "have work of their own, the others repeat it"
        )
    return f"the {tile} tile does not fill the instruction"


RULES = (
    Rule(
        "repeated-tensor-work",
        "Warps repeat each other's tensor work",
        "A tensor instruction makes 16 rows by 8 columns. Where a tile has fewer of those than there are warps, "
        "the "
        "layout wraps around: the warps left over compute what others compute, and all results are equal.",
        "any dot of which a part is computed more than once",
        "the layout of the dot in Triton's IR; executed operations from the machine code",
        "Q_TILE_SIZE=16, num_warps=4: S = tl.dot(q, tl.trans(k)) is 16x16, two warps have columns, two repeat them",
        "Q_TILE_SIZE=64, num_warps=4: 16 rows a warp",
        find,
    ),
)
