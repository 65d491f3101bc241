"""Loads in a loop whose mask hides nothing, or next to nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.middle import line_of, made_from, module_of
from tilewright.rules.work import TELLING, at_most, in_loop, lines_at, rows_of, work
from tilewright.sass import COPIES, lane_bytes

HIDDEN = 0.05
THRESHOLD = 0.03
LOADS = ("tt.load", "ttg.async_copy_global_to_local")
COMPARES = ("ISETP", "PLOP3", "UISETP", "UPLOP3")
"""What a mask of positions is made of in machine code."""
_LANES = 32


def find(p: Profile) -> Iterator[Finding]:
    """Find masked loads in a loop of which at most a twentieth of the lanes are ever masked."""
    module = module_of(p)
    total = p.counters.instructions if p.counters else None
    if module is None or not total:
        return
    for load in module.named(*LOADS):
        mask = _mask(load.text, load.operands, load.name)
        line = line_of(p, load)
        if not load.in_loop or mask is None or line is None:
            continue
        rows = [
            r
            for r in rows_of(lines_at(p, [line]))
            if r.kind in ("global loads", COPIES) and r.text.startswith("@") and in_loop(p, [r])
        ]
        wanted = sum(r.executed * _LANES * lane_bytes(_modifiers(r.text)) for r in rows)
        if not rows or any(r.access is None or r.access.unknown for r in rows):
            continue
        hidden = 1 - sum(r.access.bytes for r in rows if r.access) / wanted
        lines = {line, *(line_of(p, op) for op in made_from(module, mask) if op.in_loop)}
        compares = [r for r in rows_of(lines_at(p, lines)) if r.opcode in COMPARES and in_loop(p, [r])]
        spent = sum(r.executed for r in compares)
        if hidden > HIDDEN or spent < THRESHOLD * total:
            continue
        bound = at_most(p, work(compares))
        share = "nothing in this launch" if hidden <= 0 else f"{hidden:.1%} of the lanes in this launch"
        yield Finding(
            "masked-load",
            "a load is masked on every step, and the mask hides next to nothing",
            (
                Evidence(f"the mask hides {share}", "counted", line),
                Evidence(f"{figures.count(spent)} comparisons ({spent / total:.1%}) make it", "counted", line),
            ),
            "a constexpr that says that sizes divide evenly (@triton.heuristics), or two loops: whole tiles without a "
            "mask, and the last one with it",
            bound if bound >= TELLING else None,
            "without the comparisons at the mask's lines",
        )


def _mask(text: str, operands: tuple[str, ...], name: str) -> str | None:
    """Return the value that masks a load: its second operand, or what an asynchronous copy names so."""
    if name == "tt.load":
        return operands[1] if len(operands) > 1 else None
    match = re.search(r" mask (%[\w$.-]+)", text)
    return match[1] if match else None


def _modifiers(text: str) -> list[str]:
    """Return the modifiers of an instruction's opcode: of `@!P0 LDG.E.128 R4, ...` they are E and 128."""
    words = text.split()
    return words[1 if words[0].startswith("@") else 0].split(".")[1:]


RULES = (
    Rule(
        "masked-load",
        "A mask on every load of a loop that hides next to nothing",
        "A mask costs a comparison for every few elements on every step, although only the last tile can reach past "
        "the end, and none does where sizes divide evenly.",
        f"a masked load in a loop, at most {HIDDEN:.0%} of its lanes masked, whose comparisons are {THRESHOLD:.0%} of "
        "the instructions or more",
        "masks from the TTGIR; lanes and comparisons from the machine code",
        "for start in range(0, n, BLOCK): x = tl.load(p + start, mask=start + lanes < n, other=0.0)",
        "if EVEN: x = tl.load(p + start), with EVEN = n % BLOCK == 0 as a constexpr",
        find,
    ),
)
