"""Blocks, and the slice: the few instructions that decide where control goes (and what is accessed)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.sass.counters import LOADED
from tilewright.sass.decode import BLIND_FROM, Effect, NotUnderstood, State, understand
from tilewright.sass.local import Frame, local_effect
from tilewright.sass.operands import Memory, Register, RegisterOperand
from tilewright.sass.shared import SHARED, Reference
from tilewright.sass.text import Code, Instruction
from tilewright.sass.values import Value

ENDS_BLOCK = frozenset(
    {"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "CALL", "RET", "EXIT", "KILL", "BSYNC", "WARPSYNC", "BPT"}
)
CONTROL = ENDS_BLOCK | {"BREAK", "BSSY", "BMOV"}
LOADS = frozenset({"LDG", "LD", "LDS", "ATOMG", "ATOM", "UTMALDG"})
"""Opcodes that bring data, which is never looked at but can be given."""
_BRANCH_TARGETS = re.compile(r"\.L_x_\d+")


@dataclass(frozen=True)
class Block:
    """Instructions from `start` up to `end`, entered only at the first; `after`: where control may go then."""

    start: int
    end: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class Understood:
    """An instruction with what the emulator makes of it: its effect, or why it is not understood."""

    instruction: Instruction
    effect: Effect | None
    reason: str
    writes: frozenset[Register]
    reads: frozenset[Register]
    kills: bool
    shared: Reference | None = None


class Flow:
    """A kernel's control flow and the effects of its instructions."""

    def __init__(self, code: Code, shared: bool = False) -> None:
        self.code = code
        self.frame = Frame.of(code)
        self.shared = shared

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks in order of their instructions."""
        instructions = self.code.instructions
        starts = {0, *(index for index in self.code.labels.values() if index < len(instructions))}
        starts |= {
            i.index + 1 for i in instructions if i.opcode in ENDS_BLOCK and i.index + 1 < len(instructions)
        }
        if self.shared:
            starts |= {i.index + 1 for i in instructions if i.opcode == "BAR"}
        order = sorted(s for s in starts if s < len(instructions))
        ends = [*order[1:], len(instructions)]
        return tuple(
            Block(start, end, self._after(instructions[end - 1]))
            for start, end in zip(order, ends, strict=True)
        )

    def first(self, number: int) -> Instruction:
        """Return a block's first instruction."""
        return self.code.instructions[self.blocks[number].start]

    @cached_property
    def block_of_pc(self) -> dict[int, int]:
        """Map the offset of a block's first instruction in bytes to the block's number."""
        return {self.code.instructions[block.start].pc: number for number, block in enumerate(self.blocks)}

    @cached_property
    def block_at(self) -> dict[int, int]:
        """Map the index of a block's first instruction to the block's number."""
        return {block.start: number for number, block in enumerate(self.blocks)}

    def _after(self, last: Instruction) -> tuple[int, ...]:
        following = (last.index + 1,) if last.index + 1 < len(self.code.instructions) else ()
        if last.opcode in ("BRA", "JMP"):
            target = (last.target,) if last.target is not None else ()
            always = not last.conditional and not branch_conditions(last) and "DIV" not in last.modifiers
            return target if always else (*target, *following)
        if last.opcode == "CALL":
            # The callee comes back through RET; ptxas also calls only to jump further.
            return (*((last.target,) if last.target is not None else ()), *following)
        if last.opcode in ("BRX", "BRXU", "JMX", "JMXU"):
            return branch_targets(last, self.code) or following
        if last.opcode == "RET":
            sites = {i.index + 1 for i in self.code.instructions if i.opcode == "CALL"}
            return tuple(sorted(s for s in sites if s < len(self.code.instructions)))
        if last.opcode in ("EXIT", "KILL"):
            return following if last.conditional else ()
        return following

    @cached_property
    def understood(self) -> tuple[Understood, ...]:
        """Each instruction with its effect."""
        return tuple(self._understand(i) for i in self.code.instructions)

    def _understand(self, instruction: Instruction) -> Understood:
        if self.shared and instruction.opcode in ("LDS", "STS") and not instruction.never_runs:
            return _shared_access(instruction)
        local = local_effect(instruction, self.frame)
        if local is not None:
            return Understood(instruction, *local, not instruction.conditional)
        effect, reason, writes = None, "", instruction.writes
        if instruction.opcode in CONTROL:
            writes = frozenset()
        else:
            try:
                effect = understand(instruction)
                writes = frozenset(r for r in effect.writes if r.number is not None)
            except NotUnderstood as why:
                reason = LOADED if instruction.opcode in LOADS else str(why)
        reads = set(instruction.reads)
        if instruction.opcode in ("P2R", "UP2UR"):
            reads |= {Register("P" if instruction.opcode == "P2R" else "UP", n) for n in range(7)}
        perhaps = frozenset() if effect is not None else _perhaps_written(instruction)
        kills = not instruction.conditional
        if perhaps:
            writes, kills = writes | perhaps, False
        return Understood(instruction, effect, reason, writes, frozenset(reads), kills)

    def slice(self, seed: Callable[[Instruction], Iterable[Register]]) -> frozenset[int]:
        """Return the instructions that the seeds' registers depend on.

        seed gives, for an instruction, the registers that must be known when it runs. Backward liveness over
        the blocks: what writes a register that is live belongs to the slice, and makes its own sources live.
        """
        bits: dict[Register, int] = {}

        def mask(registers: Iterable[Register]) -> int:
            total = 0
            for r in registers:
                total |= 1 << bits.setdefault(r, len(bits))
            return total

        rows = [
            (mask(u.writes), mask(u.reads), u.kills, mask(seed(u.instruction)), bool(u.effect or u.shared))
            for u in self.understood
        ]
        # What one warp stores another may load, whatever the order of blocks.
        always = mask({SHARED}) if self.shared else 0
        live_in = [0] * len(self.blocks)
        kept: set[int] = set()
        changed = True
        while changed:
            changed = False
            for number in range(len(self.blocks) - 1, -1, -1):
                block = self.blocks[number]
                live = always
                for after in block.after:
                    live |= live_in[self.block_at[after]]
                for index in range(block.end - 1, block.start - 1, -1):
                    writes, reads, kills, wanted, known = rows[index]
                    if writes & live:
                        kept.add(index)
                        if kills:
                            live &= ~writes
                        live |= reads if known else mask(guard_registers(self.code.instructions[index]))
                    live |= wanted
                if live != live_in[number]:
                    live_in[number] = live
                    changed = True
        return frozenset(kept)


def _shared_access(instruction: Instruction) -> Understood:
    """A load reads all of shared memory, a store writes it; a form that is not understood makes it unknown."""
    reference = Reference.of(instruction)
    reason = "" if reference else f"{instruction.name}: its form is not understood"
    if instruction.opcode == "STS":
        return Understood(instruction, None, reason, frozenset({SHARED}), instruction.reads, False, reference)
    if reference is None:
        return Understood(instruction, None, reason, instruction.writes, instruction.reads, False)
    found = reference

    def compute(state: State) -> Sequence[Value]:
        return state.load_shared(found)

    reads = instruction.reads | {SHARED}
    kills = not instruction.conditional
    effect = Effect(reference.registers, compute)
    return Understood(instruction, effect, "", instruction.writes, reads, kills, reference)


def _perhaps_written(instruction: Instruction) -> frozenset[Register]:
    """Registers that an instruction without a rule may write and nvdisasm may not state: those at the bank's end."""
    into = [o.register if isinstance(o, RegisterOperand) else None for o in instruction.operands[:2]]
    if into and into[0] is not None and into[0].is_predicate:
        into.pop(0)
    first = into[0] if into else None
    start = BLIND_FROM.get(first.bank) if first is not None else None
    if first is None or first.number is None or start is None:
        return frozenset()
    # What nvdisasm states ends before its last register, or this instruction writes no further either.
    seen = max((r.number or 0 for r in instruction.writes if r.bank == first.bank), default=0)
    if first.number < start and seen < start - 1:
        return frozenset()
    return frozenset(Register(first.bank, n) for n in range(start, max(start, first.number) + 16))


def guard_registers(instruction: Instruction) -> tuple[Register, ...]:
    """Return the predicate that an instruction runs under, if it is one that can change."""
    guard = instruction.guard
    return (guard.register,) if guard is not None and guard.register.number is not None else ()


def branch_conditions(instruction: Instruction) -> list[RegisterOperand]:
    """Return the predicates among a branch's operands: it is taken where they and its guard hold."""
    return [o for o in instruction.operands if isinstance(o, RegisterOperand) and o.register.is_predicate]


def branch_targets(instruction: Instruction, code: Code) -> tuple[int, ...]:
    """Return the targets that nvdisasm lists behind an indexed branch."""
    return tuple(
        code.labels[name] for name in _BRANCH_TARGETS.findall(instruction.text) if name in code.labels
    )


def control_seed(instruction: Instruction) -> Iterable[Register]:
    """Registers that decide where control goes, and which warps wait for which."""
    if instruction.opcode in CONTROL or instruction.opcode == "BAR":
        return instruction.reads
    return (
        (*descriptor_registers(instruction), *guard_registers(instruction))
        if _has_descriptor(instruction)
        else ()
    )


def descriptor_registers(instruction: Instruction) -> tuple[Register, ...]:
    """Return the register that holds the shape of a tensor instruction (UTCHMMA and relatives), if there is one."""
    if not _has_descriptor(instruction):
        return ()
    found = [o for o in instruction.operands if isinstance(o, Memory) and o.kind == "idesc"]
    return tuple(p.register for o in found for p in o.parts)[:1]


def _has_descriptor(instruction: Instruction) -> bool:
    return instruction.opcode.startswith("UTC") and instruction.opcode.endswith("MMA")
