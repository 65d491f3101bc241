"""Tensor work that the algorithm does not need: masked tiles."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule

THRESHOLD = 1.1


def find(p: Profile) -> Iterator[Finding]:
    """Find that more tiles are computed than needed, apart from what warps repeat."""
    assert p.layout is not None
    factor, repeated = p.needed_factor, p.layout.work_factor or 1.0
    if factor is None or factor / repeated < THRESHOLD:
        return
    assert p.counters is not None
    assert p.needed is not None
    extra = factor / repeated
    executed, needed = p.counters.total_tensor_ops or 0, p.needed.operations or 0
    lines = [x for x in p.lines if x.tensor_ops]
    apart = f" without what is repeated: {figures.count(executed / repeated)}" if repeated > 1.01 else ""
    yield Finding(
        "unneeded-tiles",
        f"{1 - 1 / extra:.0%} of the tiles computed are not needed",
        (
            Evidence(
                f"{figures.count(executed)} tensor operations executed{apart}, {figures.count(needed)} needed: "
                f"{extra:.3g}x",
                "counted",
                max(lines, key=lambda x: x.tensor_ops).place.line if lines else None,
            ),
        ),
        "end the loop where the last needed tile ends (for a causal mask at the diagonal), and do not visit the "
        "others",
        extra,
        f"every unit works {extra:.3g} times what it would on the needed tiles alone",
    )


RULES = (
    Rule(
        "unneeded-tiles",
        "Tiles are computed and thrown away",
        "A causal mask hides half of the scores. Masking them after the dot costs as much as using them; a loop "
        "that "
        "ends at the diagonal never computes them. Tiles that reach past the end of the data count here too.",
        f"executed tensor operations over needed, without repeats, of {THRESHOLD} or more; the case says what is "
        "needed",
        "executed operations from the machine code; needed operations from the case (`needed_operations`)",
        "for j in range(tl.cdiv(N_KEYS, K_TILE)): ... S = tl.where(k_pos <= q_pos, S, -inf)",
        "for j in range(tl.cdiv(q_start + Q_TILE, K_TILE)): ...",
        find,
    ),
)
