"""Work done once an iteration that a larger tile would do less often."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import TELLING, at_most, in_loop, lines_at, work

THRESHOLD = 0.08


def find(p: Profile) -> Iterator[Finding]:
    """Find accumulators that are rescaled on every step: multiplies at the line of a dot in a loop."""
    total = p.counters.instructions if p.counters else None
    if not total:
        return
    assert p.layout is not None
    for number in dict.fromkeys(d.line for d in p.layout.dots if d.in_loop):
        rows = [r for line in lines_at(p, [number]) for r in line.rows if r.opcode in ("FMUL", "FMUL2")]
        spent = sum(row.executed for row in rows)
        # A product that is scaled afterwards is another matter: its line has no accumulator to keep.
        if spent < THRESHOLD * total or not in_loop(p, rows) or not _keeps(p, number):
            continue
        bound = at_most(p, {k: v / 2 for k, v in work(rows).items()})
        yield Finding(
            "rescale-every-step",
            "the accumulator is rescaled on every step",
            (
                Evidence(
                    f"{figures.count(spent)} multiplies ({spent / total:.1%} of all instructions) rescale it",
                    "counted",
                    number,
                ),
            ),
            "more keys a step: a tile twice as long rescales half as often (and has half the barriers and loop "
            "overhead)",
            bound if bound >= TELLING else None,
            "with half of these multiplies",
        )


def _keeps(p: Profile, line: int | None) -> bool:
    """Whether the dot of a line adds to an accumulator that its line scales: `tl.dot(.., acc=alpha * O)`."""
    import linecache

    text = linecache.getline(str(p.launch.kernel.path), line or 0)
    return "dot" in text and ("acc=" in text.replace(" ", "") or "+" in text) and "*" in text


RULES = (
    Rule(
        "rescale-every-step",
        "The accumulator is rescaled on every step",
        "Online softmax multiplies what it has summed so far by exp(m_old - m_new) on every step, whatever the "
        "step's "
        "length. With short key tiles this is a large part of the instructions.",
        f"multiplies at the line of a dot in a loop that are {THRESHOLD:.0%} of the instructions or more",
        "machine code: FMUL at the line of the dot",
        "K_TILE_SIZE=32: O = tl.dot(P, V, acc=alpha * O) for every 32 keys",
        "K_TILE_SIZE=128: for every 128",
        find,
    ),
)
