"""`exp` where `exp2` would do."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.work import TELLING, at_most, in_loop, work

LOG2_E = "1.44269"
THRESHOLD = 0.03


def find(p: Profile) -> Iterator[Finding]:
    """Find multiplies by log2(e) and the range checks that come with them, in a loop."""
    total = p.counters.instructions if p.counters else None
    if not total:
        return
    lines = []
    for line in p.lines:
        hidden = [r for r in line.rows if r.opcode == "FMUL" and LOG2_E in r.text]
        if hidden and in_loop(p, hidden):
            lines.append(line)
    rows = [r for line in lines for r in line.rows if r.opcode in ("FMUL", "FSETP")]
    hidden_count = sum(r.executed for r in rows if r.opcode == "FMUL" and LOG2_E in r.text)
    checks = sum(r.executed for r in rows if r.opcode == "FSETP")
    rest = sum(r.executed for r in rows) - hidden_count - checks
    spent = hidden_count + checks + rest
    if spent < THRESHOLD * total:
        return
    bound = at_most(p, work(rows))
    share = sum(line.instructions for line in lines) / total
    yield Finding(
        "exp-not-exp2",
        "an exponential by tl.exp where tl.exp2 would do",
        (
            Evidence(
                f"{figures.count(hidden_count)} hidden multiplies by log2(e), {figures.count(checks)} range "
                "checks, "
                f"{figures.count(rest)} multiplies that mend small results",
                "counted",
                lines[0].place.line,
            ),
            *(
                Evidence(
                    f"{line.instructions / total:.1%} of all instructions are at this line",
                    "counted",
                    line.place.line,
                )
                for line in lines
            ),
        ),
        "fold log2(e) into the scale of the scores and use tl.exp2: exp2(S * (scale * 1.4426950408889634) - m), "
        "one "
        "multiply-add and one instruction of the special-function unit",
        bound if bound >= TELLING else None,
        f"without these {figures.count(spent)} instructions (the lines are {share:.1%} in all)",
    )


RULES = (
    Rule(
        "exp-not-exp2",
        "exp where exp2 would do",
        "The GPU's exponential is a base-2 one. tl.exp multiplies by log2(e) first and guards against results "
        "that are "
        "too small for it: a compare and two multiplies more for each score. Where scores are scaled anyway, the "
        "factor "
        "can be folded into the scale.",
        f"multiplies by log2(e), range checks and mends in a loop that are {THRESHOLD:.0%} of the instructions or "
        "more",
        "machine code: FMUL by 1.4427, FSETP and FMUL of the same lines",
        "P = tl.exp(S * scale - m)",
        "P = tl.exp2(S * (scale * LOG2_E) - m)",
        find,
    ),
)
