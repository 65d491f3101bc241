"""nvdisasm's text with register life ranges (`nvdisasm -c -plr -lrm narrow`) -> instructions.

The life ranges say, instruction by instruction, which registers are written and read, in nvdisasm's own reading
of the encoding. So no table of operand widths is needed here, and the emulator's own idea of what an instruction
writes is checked against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.sass.operands import (
    Label,
    Memory,
    Operand,
    Register,
    RegisterOperand,
    SassError,
    parse_operand,
    split_operands,
)

_INSTRUCTION = re.compile(
    r"\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P(?:T|\d+))\s+)?([A-Z][A-Za-z0-9_.]*)\s*(.*?)\s*;\s*(?://\s*\|(.*))?$"
)
_SCHEDULING = re.compile(r"(?:^|\s+)[&?][A-Za-z].*$")
_LABEL_LINE = re.compile(r"(\.L_x_\d+|\.?[A-Za-z_$][\w.$]*):")
_SECTION = re.compile(r"\s*\.section\s+(\S+?),")
_RULER = re.compile(r"//\s*\|((?:\s+#\s[0-9 ]+\|)+)\s*$")
_NAMED = re.compile(r"(?<![A-Za-z0-9_])(UR|R|UP|P)(\d+)(?![A-Za-z0-9_])")
_BANKS = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
_WRITES, _READS = "^x", "vx"


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    `pc` is its offset in the kernel in bytes; `guard` the predicate that it runs under, if any; `opcode` the name
    before the first dot, `modifiers` the rest; `writes` and `reads` the registers as nvdisasm states them, the
    guard among the reads; `unseen` those that it names and nvdisasm does not state (its life ranges stop at UR62
    on sm_100): they count as read, and only a rule knows whether they are written; `target` the index of the
    instruction that its label names, if it has one.
    """

    index: int
    pc: int
    guard: RegisterOperand | None
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    writes: frozenset[Register]
    reads: frozenset[Register]
    unseen: frozenset[Register]
    target: int | None
    text: str

    @property
    def name(self) -> str:
        """Opcode and modifiers, as printed: `IMAD.WIDE.U32`."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def never_runs(self) -> bool:
        """Whether its guard is constantly false: it is issued and does nothing."""
        return self.guard is not None and self.guard.register.number is None and self.guard.inverted

    @property
    def conditional(self) -> bool:
        """Whether it runs under a predicate that is not constantly true."""
        return self.guard is not None and (self.guard.register.number is not None or self.guard.inverted)


@dataclass(frozen=True)
class Code:
    """A kernel's instructions in order, and the index of each label."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


@dataclass(frozen=True)
class _Raw:
    pc: int
    guard: str | None
    name: str
    operands: str
    ranges: str


def parse(text: str, kernel: str | None = None) -> Code:
    """Parse nvdisasm's text; with `kernel` only the section `.text.KERNEL`.

    Raises SassError where the text has no instructions, no life ranges, or an operand that is not known.
    """
    raw, labels, rulers = _scan(text, kernel)
    if not raw:
        raise SassError(
            f"no instructions found in the section .text.{kernel}: expected nvdisasm's text"
            if kernel
            else "no instructions found: expected nvdisasm's text"
        )
    if not rulers:
        raise SassError("no register life ranges found: expected the text of `nvdisasm -c -plr -lrm narrow`")
    return Code(tuple(_instruction(i, r, labels, rulers) for i, r in enumerate(raw)), labels)


def _scan(text: str, kernel: str | None) -> tuple[list[_Raw], dict[str, int], list[tuple[str, int, int]]]:
    raw: list[_Raw] = []
    labels: dict[str, int] = {}
    banks: list[str] = []
    rulers: list[tuple[str, int, int]] = []
    wanted = kernel is None
    for line in text.splitlines():
        if line.lstrip().startswith("/*"):
            if wanted and (match := _INSTRUCTION.match(line)):
                operands = _SCHEDULING.sub("", match[4])
                raw.append(_Raw(int(match[1], 16), match[2], match[3], operands, match[5] or ""))
        elif match := _SECTION.match(line):
            wanted = kernel is None or match[1] == f".text.{kernel}"
        elif wanted and (match := _LABEL_LINE.match(line)):
            labels.setdefault(match[1], len(raw))
        elif wanted and "GPR" in line and "//" in line:
            banks = [word for word in re.findall(r"[A-Z]+", line.split("//")[-1]) if word in _BANKS]
        elif wanted and banks and (match := _RULER.search(line)):
            rulers = list(_rulers(match[1], banks))
    return raw, labels, rulers


def _rulers(text: str, banks: list[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (bank, column of its register 0, column behind its last) in the text behind `// |`."""
    start = 0
    for bank, block in zip(banks, text.split("|"), strict=False):
        first = block.index("#") + 2
        yield _BANKS[bank], start + first, start + len(block)
        start += len(block) + 1


def _instruction(
    index: int, raw: _Raw, labels: dict[str, int], rulers: list[tuple[str, int, int]]
) -> Instruction:
    opcode, *modifiers = raw.name.split(".")
    operands = tuple(parse_operand(o) for o in split_operands(raw.operands))
    guard = parse_operand(raw.guard[1:]) if raw.guard else None
    assert guard is None or isinstance(guard, RegisterOperand)
    writes, reads = set(), set()
    for bank, start, end in rulers:
        for column, mark in enumerate(raw.ranges[start:end]):
            if mark in _WRITES:
                writes.add(Register(bank, column))
            if mark in _READS:
                reads.add(Register(bank, column))
    memory_at = next((n for n, o in enumerate(operands) if isinstance(o, Memory)), len(operands))
    # A predicate behind an address decides what is accessed; nvdisasm states it as written too.
    writes -= {
        o.register for o in operands[memory_at:] if isinstance(o, RegisterOperand) and o.register.is_predicate
    }
    named = {Register(bank, int(n)) for bank, n in _NAMED.findall(raw.operands)}
    unseen = named - writes - reads
    names = [o.name for o in operands if isinstance(o, Label) and not o.half]
    target = labels.get(names[0]) if names else None
    text = f"{raw.guard} " if raw.guard else ""
    text += f"{raw.name} {raw.operands}".strip()
    return Instruction(
        index,
        raw.pc,
        guard,
        opcode,
        tuple(modifiers),
        operands,
        frozenset(writes),
        frozenset(reads | unseen),
        frozenset(unseen),
        target,
        text,
    )
