"""Spilled registers: loads and stores at fixed places of the stack, kept as registers of a bank of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.sass.decode import Effect, State
from tilewright.sass.operands import Memory, Register, RegisterOperand
from tilewright.sass.text import Code, Instruction
from tilewright.sass.values import ZERO_WORD, Value

_STACK_POINTER = Register("R", 1)
_WORDS = {"64": 2, "128": 4}


@dataclass(frozen=True)
class Frame:
    """The stack of a kernel: its slots, one register of bank L per 4 bytes, and whether they can be told apart."""

    slots: frozenset[Register]
    fixed: bool

    @classmethod
    def of(cls, code: Code) -> Frame:
        """Read the frame off the code; it is fixed where the stack pointer is set up once, at the start."""
        settings = [i for i in code.instructions if _STACK_POINTER in i.writes]
        fixed = len(settings) <= 2 and all(not i.conditional for i in settings)
        accesses = [i for i in code.instructions if i.opcode in ("LDL", "STL")]
        slots: set[Register] = set()
        for instruction in accesses:
            found = _slots(instruction)
            if found is None:
                fixed = False
            else:
                slots |= set(found)
        return cls(frozenset(slots), fixed)


def _slots(instruction: Instruction) -> tuple[Register, ...] | None:
    """Return the slots that a load or store covers; None where its address is not a fixed place."""
    address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
    if address is None or address.kind or [p.register for p in address.parts] != [_STACK_POINTER]:
        return None
    if address.parts[0].suffixes or address.offset % 4:
        return None
    count = next((n for m, n in _WORDS.items() if m in instruction.modifiers), 1)
    return tuple(Register("L", address.offset // 4 + i) for i in range(count))


def local_effect(
    instruction: Instruction, frame: Frame
) -> tuple[Effect | None, str, frozenset[Register], frozenset[Register]] | None:
    """Return (effect, reason, writes, reads) of a load or store of local memory; None for another instruction."""
    if instruction.opcode not in ("LDL", "STL"):
        return None
    load = instruction.opcode == "LDL"
    slots = _slots(instruction)
    plain = set(instruction.modifiers) <= {"64", "128", "LU"}
    if slots is None or not plain or not frame.fixed:
        reason = f"{instruction.name}: its place on the stack is not understood"
        return None, reason, instruction.writes if load else frame.slots, instruction.reads
    other = instruction.operands[0 if load else 1]
    if not isinstance(other, RegisterOperand):
        return None, f"{instruction.name}: its operand is not understood", frame.slots, instruction.reads
    registers = tuple(other.register.next(i) for i in range(len(slots)))
    into, source = (registers, slots) if load else (slots, registers)

    def compute(state: State) -> Sequence[Value]:
        return [ZERO_WORD if r.number is None else state.read(r) for r in source]

    reads = frozenset(instruction.reads | set(slots)) if load else instruction.reads
    return Effect(into, compute), "", frozenset(r for r in into if r.number is not None), reads
