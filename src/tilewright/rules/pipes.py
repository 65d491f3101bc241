"""A pipe that is busy longer than the tensor cores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import unit

THRESHOLD = 1.1
ABOVE = ("lsu", "shared", "issue", "fma", "alu", "xu")


def find(p: Profile) -> Iterator[Finding]:
    """Find a unit of the SM that is busy longer than the tensor cores in a kernel that uses them."""
    tensor = unit(p, "tensor")
    above = [b for b in p.busy if b.key in ABOVE and tensor and b.seconds > THRESHOLD * tensor.seconds]
    if tensor is None or not above:
        return
    top, rest = above[0], [b for b in p.busy if b.key not in {a.key for a in above}]
    pipe = top.key if top.key in ("fma", "alu", "xu", "lsu") else None
    lines = sorted(
        ((sum(r.executed for r in x.rows if pipe in (None, r.pipe)), x.place.line) for x in p.lines),
        reverse=True,
    )[:3]
    amount = max(top.amount, 1.0)
    next_longest = max((b.seconds for b in rest), default=tensor.seconds)
    yield Finding(
        "pipe-above-tensor",
        f"{top.unit} {'are' if top.unit.endswith('s') else 'is'} busy longer than the tensor cores",
        (
            Evidence(
                f"{top.unit}: at least {figures.duration(top.seconds)} for {figures.count(top.amount)} {top.what}; "
                f"tensor cores: {figures.duration(tensor.seconds)}",
                "modelled",
            ),
            *(
                Evidence(f"{figures.count(n)} of them at this line", "counted", line)
                for n, line in lines
                if pipe is not None and n > 0.05 * amount
            ),
        ),
        "take work off this pipe first: the lines that use it most are named",
        top.seconds / next_longest if top.seconds > next_longest else None,
        f"until the next unit is as busy ({figures.duration(next_longest)})",
    )


RULES = (
    Rule(
        "pipe-above-tensor",
        "Another pipe is busy longer than the tensor cores",
        "A kernel of matrix multiplies is as good as it gets when the tensor cores are its busiest unit. If "
        "loads and "
        "stores, or plain instructions, need longer, the tensor cores wait for them.",
        f"{THRESHOLD}x the tensor cores' time or more",
        "executed instructions by pipe from the machine code; rates of the GPU from the catalog",
        "16x16 tiles: reductions and operands through shared memory keep the load/store pipe busy",
        "64x32 tiles, each warp with rows of its own: the tensor cores bind",
        find,
    ),
)
