"""Integer arithmetic of every step that costs more than it has to: divisions, and 64-bit offsets of lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.rules.middle import is_constant, line_of, module_of
from tilewright.rules.work import TELLING, at_most, lines_at, rows_of, work
from tilewright.sass import InstructionCount

THRESHOLD = 0.05
DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")
WIDE = ("arith.addi", "arith.subi", "arith.muli", "arith.cmpi")
INTEGER = ("IMAD", "IADD3", "IADD", "LEA", "SHF", "LOP3", "ISETP", "VIADD", "IABS", "SEL", "MOV", "I2F", "F2I", "MUFU")
"""Opcodes that divisions and offsets are made of; other instructions at their lines belong to other things."""


def find_divisions(p: Profile) -> Iterator[Finding]:
    """Find divisions by a value that is not known to the compiler, in a loop."""
    module = module_of(p)
    if module is None:
        return
    divisions = [op for op in module.named(*DIVISIONS) if op.in_loop and not is_constant(module, op.operands[1])]
    lines = sorted({line for op in divisions if (line := line_of(p, op)) is not None})
    yield from _found(
        p,
        lines,
        "division-in-loop",
        "an integer is divided by a runtime value on every step",
        "division and remainder",
        "count rows and columns up instead of dividing, divide once before the loop, or make the divisor a constexpr "
        "(a power of two is a shift)",
    )


def find_wide(p: Profile) -> Iterator[Finding]:
    """Find 64-bit arithmetic on tensors in a loop."""
    module = module_of(p)
    if module is None:
        return
    wide = [
        op
        for op in module.named(*WIDE)
        if op.in_loop and any(t.kind == "tensor" and t.element == "i64" for t in op.operand_types)
    ]
    lines = sorted({line for op in wide if (line := line_of(p, op)) is not None})
    yield from _found(
        p,
        lines,
        "int64-in-loop",
        "offsets of lanes are computed in 64 bits on every step",
        "64-bit arithmetic",
        "add the part that needs 64 bits (the program's, the head's) to the pointer as a scalar before the loop, and "
        "keep the offsets inside a tile in 32 bits (block pointers always compute in 64: use pointers or descriptors)",
    )


def _found(p: Profile, lines: Sequence[int], rule: str, title: str, what: str, change: str) -> Iterator[Finding]:
    total = p.counters.instructions if p.counters else None
    steps = p.launch.programs * p.launch.num_warps
    rows: list[InstructionCount] = [
        row
        for row in rows_of(lines_at(p, lines))
        if row.executed > 1.5 * steps and row.opcode.removeprefix("U").startswith(INTEGER)
    ]
    spent = sum(row.executed for row in rows)
    if not total or spent < THRESHOLD * total:
        return
    bound = at_most(p, work(rows))
    if bound < TELLING:
        # Block pointers have 64-bit offsets too: not worth a word where other units are busier.
        return
    evidence = []
    for line in lines_at(p, lines):
        here = sum(row.executed for row in line.rows if row in rows)
        if here:
            text = f"{figures.count(here)} instructions ({here / total:.1%}) of integer work beside its {what}"
            evidence.append(Evidence(text, "counted", line.place.line))
    yield Finding(
        rule,
        title,
        tuple(evidence),
        change,
        bound,
        "without the integer instructions of these lines, of which some are left in practice",
    )


RULES = (
    Rule(
        "division-in-loop",
        "A division by a runtime value on every step",
        "GPUs have no instruction for integer division: one by a value that the compiler does not know takes some "
        "16 instructions in 32 bits, and a function of about 70 in 64 bits.",
        f"`//` or `%` by a value that is no constant, in a loop, whose lines' integer instructions are "
        f"{THRESHOLD:.0%} of all or more and busy enough to matter",
        "divisions from the TTGIR; their instructions from the machine code",
        "for step in range(steps): at = i // width * stride + i % width",
        "row, column advanced by what one step adds; or width: tl.constexpr",
        find_divisions,
    ),
    Rule(
        "int64-in-loop",
        "Offsets of lanes in 64 bits on every step",
        "An addition in 64 bits takes two instructions and a multiplication about four. Big tensors need 64-bit "
        "addresses, but rarely 64-bit offsets inside one tile.",
        f"int64 additions, multiplications or comparisons of tensors in a loop, whose lines' integer instructions are "
        f"{THRESHOLD:.0%} of all or more and busy enough to matter",
        "types from the TTGIR; instructions from the machine code",
        "lanes = tl.arange(0, BLOCK).to(tl.int64); in the loop: x_ptr + (start + lanes) * stride",
        "x_ptr += row.to(tl.int64) * stride before the loop; in it offsets in int32",
        find_wide,
    ),
)
