"""The emulator: runs a slice of a kernel for many programs at once and counts how often each block is issued.

A *group* is a set of lanes that run together, given by a mask over (programs, warps, lanes). Groups at the same
block run as one where they are of different warps; lanes of one warp that have parted are issued apart until the
convergence barrier (BSSY ... BSYNC) or WARPSYNC that brings them together, as the hardware does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.sass import integer, logic
from tilewright.sass.decode import Compute, FlagReader, predicate_reader
from tilewright.sass.flow import Flow, branch_conditions
from tilewright.sass.operands import Immediate, Register, RegisterOperand, Special
from tilewright.sass.registers import Registers
from tilewright.sass.shared import Reference, SharedMemory
from tilewright.sass.text import Instruction
from tilewright.sass.values import (
    ALL_BITS,
    TRUE,
    TRUE_FLAG,
    Array,
    Cause,
    Flag,
    Value,
    Word,
    constant,
    first_write,
    merge_flags,
    merge_words,
    unknown_flag,
    unknown_word,
)

_INDEXED = re.compile(r"(?:@!?U?P\w+ )?[A-Z.]+ (U?R)(\d+)\s*(-?0x[0-9a-f]+)?(?: |$)")
_NEVER = "{} was not written for all lanes"

MOST_STEPS = 4_000_000
"""Block visits after which a run is given up: minutes of work."""


class CannotCount(Exception):
    """Control depends on something that is not known: where (instruction) and why."""

    def __init__(self, instruction: Instruction, reason: str, cause: Cause | None = None) -> None:
        super().__init__(reason)
        self.instruction = instruction
        self.reason = reason
        self.cause = cause


@dataclass(frozen=True)
class Shape:
    """Threads of a program and programs of the grid: what special registers read."""

    warps: int
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class Batch:
    """The programs that are run together: their coordinates in the grid, and how many programs each stands for."""

    coordinates: tuple[Array, Array, Array]
    weight: int

    @property
    def size(self) -> int:
        """Programs run."""
        return len(self.coordinates[0])


@dataclass
class Step:
    """One instruction of the slice, ready to run."""

    instruction: Instruction
    guard: FlagReader | None
    compute: Compute | None
    writes: tuple[Register, ...]
    reason: str
    shared: Reference | None = None


class Observer:
    """What wants to see each access as it happens; the base class sees nothing."""

    def wants(self, instruction: Instruction) -> bool:
        """Whether `access` shall be called when this instruction is issued."""
        return False

    def forget(self) -> None:
        """Called when the run starts over: what was seen so far does not count."""

    def access(self, machine: Machine, instruction: Instruction, mask: Array | None, guard: Flag) -> None:
        """Called when it is issued: mask are the active lanes (None: all), guard its predicate."""


@dataclass
class Visits:
    """How often a block was issued: in full by all warps of all programs, and beside that by (program, warp)."""

    full: int = 0
    by_warp: Array | None = None

    def add(self, mask: Array | None, times: int = 1) -> None:
        """Count a visit by the warps that have an active lane."""
        if mask is None:
            self.full += times
        else:
            warps = mask.any(2) * np.int64(times)
            self.by_warp = warps if self.by_warp is None else self.by_warp + warps

    def total(self, programs: int, warps: int) -> Array:
        """Return the visits per (program, warp)."""
        found = np.full((programs, warps), self.full, np.int64)
        return found if self.by_warp is None else found + self.by_warp


@dataclass
class _Convergence:
    """One convergence barrier: which lanes wait for which (a 32-bit set a lane), and who waits, at which block."""

    sets: Array
    waiting: Array | None = None
    block: int = -1


@dataclass
class _ProgramBarrier:
    """A barrier of a program: warps arrived since it last opened, by program, and who waits, by block."""

    arrived: Array | None = None
    waiting: dict[int, Array] = field(default_factory=dict)


@dataclass
class Outcome:
    """What a run gives, per (program, warp): visits of each block, and how often a branch was executed `again`.

    again: by instruction; a branch to an address is executed once for each of the places that a warp's lanes go to.
    """

    visits: list[Array]
    again: Mapping[int, Array] = field(default_factory=dict)
    assumptions: tuple[str, ...] = field(default=())


class Machine:
    """Runs the instructions of a slice. Give it the flow, which instructions to run, the launch's constants."""

    def __init__(
        self,
        flow: Flow,
        kept: frozenset[int],
        constants: Mapping[int, int],
        shape: Shape,
        batch: Batch,
        observer: Observer | None = None,
        given: Mapping[int, int] | None = None,
        tables: Mapping[int, bytes] | None = None,
        tracked: Sequence[int] = (),
    ) -> None:
        self.flow = flow
        self.batch = batch
        self.shape = shape
        self.active: Array | None = None
        self._constants = {offset: constant(value) for offset, value in constants.items()}
        self._observer = observer or Observer()
        self._given = given or {}
        self._tables = tables or {}
        self.memory = SharedMemory(tracked)
        self._program_barriers: dict[int, _ProgramBarrier] = {}
        self._registers = Registers()
        self._assumptions: dict[str, None] = {}
        self._again: dict[int, Visits] = {}
        self._now = flow.code.instructions[0]
        self._exited: Array | None = None
        self._barriers: dict[str, _Convergence] = {}
        self._pending: dict[int, list[Array | None]] = {}
        self._plans = [self._plan(block.start, block.end, kept) for block in flow.blocks]
        self._specials = self._special_registers()

    # What rules ask of the machine.

    def here(self, reason: str) -> Cause:
        """Return a cause at the instruction that runs now."""
        return Cause(self._now.index, reason)

    def assume(self, text: str) -> None:
        """Note an assumption that the counts rest on."""
        self._assumptions[text] = None

    def read(self, register: Register) -> Value:
        """Return the value of a register; unknown where nothing in the slice has written it."""
        value = self._registers.view(register, self.active)
        if value is not None:
            return value
        cause = self.here(f"{register} is read before anything that is understood writes it")
        return unknown_flag(cause) if register.is_predicate else unknown_word(cause)

    def constant_word(self, bank: int, offset: int) -> Word:
        """Return a word of a constant bank; unknown where the launch does not fix it."""
        if bank == 0 and (found := self._constants.get(offset)) is not None:
            return found
        table = self._tables.get(bank, b"")
        if 0 <= offset <= len(table) - 4:
            return constant(int.from_bytes(table[offset : offset + 4], "little"))
        return unknown_word(self.here(f"the constant c[{bank:#x}][{offset:#x}] is not known"))

    def constant_at(self, bank: int, index: Word, offset: int) -> Word:
        """Return a word of a constant bank at a place that is computed."""
        known = TRUE if index.unknown is None else index.unknown == 0
        lanes = known if self.active is None else known & self.active
        found = unknown_word(index.cause or self.here("a constant is read at a place that is not known"))
        for place in np.unique(np.where(lanes, index.bits.astype(np.int64), -1)):
            if place >= 0:
                word = self.constant_word(bank, (int(place) + offset) & 0xFFFFFFFF)
                found = merge_words(found, word, lanes & (index.bits == np.uint32(place)), None, None)
        return found

    def load_shared(self, reference: object) -> Sequence[Value]:
        """Return what a load of shared memory gives."""
        assert isinstance(reference, Reference)
        return self.memory.load(self, reference, self.active)

    def special(self, name: str) -> Word:
        """Return a special register; unknown for those that only hardware fixes."""
        found = self._specials.get(name)
        return found if found is not None else unknown_word(self.here(f"{name} is known only on hardware"))

    def _special_registers(self) -> dict[str, Word]:
        lanes = np.arange(32, dtype=np.uint32)[None, None, :]
        warps = np.arange(self.shape.warps, dtype=np.uint32)[None, :, None]
        x, y, z = (c.astype(np.uint32)[:, None, None] for c in self.batch.coordinates)
        threads = (warps * np.uint32(32) + lanes).astype(np.uint32)
        found = {"SR_TID.X": Word(threads), "SR_LANEID": Word(lanes), "SR_CTAID.X": Word(x)}
        found |= {"SR_CTAID.Y": Word(y), "SR_CTAID.Z": Word(z), "SRZ": constant(0)}
        found |= {"SR_TID.Y": constant(0), "SR_TID.Z": constant(0)}
        for axis, size in zip("XYZ", self.shape.grid, strict=True):
            found[f"SR_NCTAID.{axis}"] = constant(size)
        # A program is one block of its own cluster, which is where shared memory's window starts.
        found |= {name: constant(0) for name in ("SR_CgaCtaId", "SR_SWINHI", "SR_CTA_CTAID.X")}
        return found

    # Running.

    def _plan(self, start: int, end: int, kept: frozenset[int]) -> list[Step]:
        steps = []
        for index in range(start, end):
            understood = self.flow.understood[index]
            instruction = understood.instruction
            inline = instruction.opcode in ("BSSY", "BREAK", "BMOV")
            if not (index in kept or inline or self._observer.wants(instruction)):
                continue
            if instruction.never_runs and not self._observer.wants(instruction):
                continue
            guard = (
                predicate_reader(instruction.guard) if instruction.conditional and instruction.guard else None
            )
            runs = index in kept
            effect = understood.effect if runs else None
            writes = (effect.writes if effect else tuple(sorted(understood.writes))) if runs else ()
            steps.append(
                Step(
                    instruction,
                    guard,
                    effect.compute if effect else None,
                    writes,
                    understood.reason,
                    understood.shared if runs else None,
                )
            )
        return steps

    def run(self) -> Outcome:
        """Run to the end; raise CannotCount where control depends on something unknown."""
        blocks = self.flow.blocks
        visits = [Visits() for _ in blocks]
        self._pending = {0: [None]}
        steps = 0
        while self._pending:
            number = min(self._pending)
            groups = self._pending[number]
            mask = groups.pop()
            if not groups:
                del self._pending[number]
            steps += 1
            if steps > MOST_STEPS:
                raise CannotCount(
                    self.flow.first(number), f"more than {MOST_STEPS:,} steps: counting was given up"
                )
            visits[number].add(mask)
            self.active = mask
            for step in self._plans[number]:
                self._step(step, mask)
            self._leave(number, mask)
        if any(b.waiting is not None for b in self._barriers.values()):
            raise CannotCount(self._now, "lanes wait at a convergence barrier that the others never reach")
        if any(b.waiting for b in self._program_barriers.values()):
            raise CannotCount(self._now, "warps wait at a barrier that the others never reach")
        size = self.batch.size
        return Outcome(
            [v.total(size, self.shape.warps) for v in visits],
            {index: v.total(size, self.shape.warps) for index, v in self._again.items()},
            tuple(self._assumptions),
        )

    def _step(self, step: Step, mask: Array | None) -> None:
        instruction = self._now = step.instruction
        guard = TRUE_FLAG if step.guard is None else step.guard(self)
        if self._observer.wants(instruction):
            self._observer.access(self, instruction, mask, guard)
        if instruction.opcode in ("BSSY", "BREAK", "BMOV"):
            self._converge(instruction, mask, guard)
            return
        if instruction.opcode == "STS":
            if step.shared is not None:
                self.memory.store(self, step.shared, mask, guard)
            elif step.writes:
                raise CannotCount(instruction, step.reason)
            return
        if not step.writes:
            return
        given = self._given.get(instruction.index)
        if given is not None:
            values = self._given_values(step, given)
        elif step.compute is None:
            cause = Cause(instruction.index, step.reason)
            values = [unknown_flag(cause) if r.is_predicate else unknown_word(cause) for r in step.writes]
        else:
            values = list(step.compute(self))
        for register, value in zip(step.writes, values, strict=True):
            if register.number is not None:
                self._write(register, value, mask, guard)

    def _given_values(self, step: Step, value: int) -> list[Value]:
        words = [r for r in step.writes if not r.is_predicate]
        return [
            Flag(TRUE if value else ~TRUE)
            if r.is_predicate
            else constant(value >> (32 * words.index(r)) & 0xFFFFFFFF)
            for r in step.writes
        ]

    def _write(self, register: Register, value: Value, mask: Array | None, guard: Flag) -> None:
        if register.bank in ("UR", "UP"):
            if mask is not None and mask.shape[2] > 1:
                mask = mask.any(2, keepdims=True)
            value = self._one_a_warp(value)
        if guard is not TRUE_FLAG and not (guard.unknown is None and bool(guard.bits.all())):
            value = self._merge(register, self._registers.view(register, mask), value, guard)
            if register.bank in ("UR", "UP"):
                value = self._one_a_warp(value)
        self._registers.store(register, mask, value)

    def _merge(self, register: Register, old: Value | None, value: Value, guard: Flag) -> Value:
        """Return value in the lanes where guard holds, what the register held in the others."""
        if isinstance(value, Flag):
            before = unknown_flag(self.here(_NEVER.format(register))) if old is None else old
            assert isinstance(before, Flag)
            return merge_flags(before, value, guard.bits, guard.unknown, guard.cause)
        if old is None:
            return first_write(value, guard.bits, guard.unknown, self.here(_NEVER.format(register)))
        assert isinstance(old, Word)
        return merge_words(old, value, guard.bits, guard.unknown, guard.cause)

    def _one_a_warp(self, value: Value) -> Value:
        """Return a value to be put in a uniform register, which holds one a warp."""
        bits, unknown = value.bits, value.unknown
        if bits.shape[2] == 1 and (unknown is None or unknown.shape[2] == 1):
            return value
        if isinstance(value, Word):
            return integer.uniform(self, value)
        first = Word(np.where(bits, ALL_BITS, np.uint32(0)))
        if unknown is not None:
            first.unknown = np.where(unknown, ALL_BITS, np.uint32(0))
            first.cause = value.cause
        one = integer.uniform(self, first)
        return Flag(one.bits != 0, None if one.unknown is None else one.unknown != 0, one.cause)

    # Control flow.

    def _leave(self, number: int, mask: Array | None) -> None:
        block = self.flow.blocks[number]
        last = self._now = self.flow.code.instructions[block.end - 1]
        following = self.flow.block_at.get(block.end)
        opcode = last.opcode
        if opcode in ("BRA", "JMP", "CALL"):
            self._branch(last, mask, following)
        elif opcode in ("EXIT", "KILL"):
            self._exit(last, mask, following)
        elif opcode == "BSYNC":
            self._sync(last, mask, following)
        elif opcode == "WARPSYNC":
            self._warp_sync(last, mask, following)
        elif opcode in ("RET", "BRX", "BRXU", "JMX", "JMXU"):
            self._indexed(last, mask)
        elif opcode == "BAR" and self.flow.shared:
            self._program_barrier(last, mask, following)
        elif opcode == "BPT":
            raise CannotCount(last, "a trap is reached")
        else:
            self._go(following, mask)

    def _go(self, number: int | None, mask: Array | None) -> None:
        if number is None:
            raise CannotCount(self._now, "control runs past the last instruction")
        groups = self._pending.setdefault(number, [])
        for at, other in enumerate(groups):
            joined = _join(other, mask)
            if joined is not None:
                groups[at] = joined
                return
        groups.append(mask)

    def _condition(self, last: Instruction, mask: Array | None) -> Flag:
        guards = [last.guard] if last.conditional and last.guard is not None else []
        found: Flag = TRUE_FLAG
        for operand in (*guards, *branch_conditions(last)):
            value = predicate_reader(operand)(self)
            bits = found.bits & value.bits
            parts = [f for f in (found, value) if f.unknown is not None]
            unknown, cause = None, None
            if parts:
                maybe = (found.bits if found.unknown is None else found.bits | found.unknown) & (
                    value.bits if value.unknown is None else value.bits | value.unknown
                )
                sure = (found.bits if found.unknown is None else found.bits & ~found.unknown) & (
                    value.bits if value.unknown is None else value.bits & ~value.unknown
                )
                unknown, cause, bits = maybe ^ sure, parts[0].cause, sure
            found = Flag(bits, unknown, cause)
        return self._avoid_trap(last, found) if found.is_open(mask) else found

    def _avoid_trap(self, last: Instruction, found: Flag) -> Flag:
        """A branch around a trap is taken to avoid it; any other branch on something unknown ends the count."""
        instructions = self.flow.code.instructions
        taken = last.target is not None and _traps(instructions, last.target)
        passed = _traps(instructions, last.index + 1)
        if last.opcode in ("BRA", "CALL") and taken != passed:
            self.assume("no trap or failed assertion is reached")
            return TRUE_FLAG if passed else Flag(~TRUE)
        raise CannotCount(last, "control depends on a value that is not known", found.cause)

    def _branch(self, last: Instruction, mask: Array | None, following: int | None) -> None:
        extra = set(last.modifiers) - {"U", "NOINC", "REL"}
        if last.target is None:
            raise CannotCount(last, "the target of a branch is not known")
        target = self.flow.block_at[last.target]
        if extra == {"DIV"}:
            if mask is not None and mask.shape[2] > 1:
                raise CannotCount(last, "a branch on diverged lanes (BRA.DIV) is not understood")
            self._go(following, mask)
            return
        if extra:
            raise CannotCount(last, f"{last.name} is not understood")
        taken = self._condition(last, mask)
        if taken is TRUE_FLAG and last.target == last.index:
            raise CannotCount(last, "an endless loop is reached")
        self._split(taken.bits, mask, target, following)

    def _split(self, taken: Array, mask: Array | None, target: int, following: int | None) -> None:
        chosen = taken if mask is None else mask & taken
        passed = ~taken if mask is None else mask & ~taken
        if not passed.any():
            self._go(target, mask)
        elif not chosen.any():
            self._go(following, mask)
        else:
            self._go(target, _trim(chosen))
            self._go(following, _trim(passed))

    def _exit(self, last: Instruction, mask: Array | None, following: int | None) -> None:
        leaves = self._condition(last, mask).bits
        gone = leaves if mask is None else mask & leaves
        if last.conditional:
            stay = ~leaves if mask is None else mask & ~leaves
            if stay.any():
                self._go(following, mask if not gone.any() else _trim(stay))
        self._registers.leave(gone)
        if gone.any() and self._barriers and (gone.shape[2] > 1 or self._exited is not None):
            self._exited = gone if self._exited is None else self._exited | gone
            self._release_all()

    def _indexed(self, last: Instruction, mask: Array | None) -> None:
        """Branch to an address in a register: RET, or BRX relative to the next instruction.

        The hardware's counters have a BRX once for each place that a warp's lanes go to (read on an H200).
        """
        match = _INDEXED.match(last.text)
        if last.conditional or match is None:
            raise CannotCount(last, f"{last.name} in this form is not understood")
        value = self.read(Register(match[1], int(match[2])))
        assert isinstance(value, Word)
        active = TRUE if mask is None else mask
        if value.unknown is not None and bool(((value.unknown != 0) & active).any()):
            raise CannotCount(last, "a branch goes to a place that is not known", value.cause)
        base = 0 if last.opcode == "RET" else last.pc + 16 + int(match[3] or "0", 16)
        bits = value.bits
        places = np.unique(np.where(active, bits.astype(np.int64), -1))
        again = self._again.setdefault(last.index, Visits())
        again.add(active, -1)
        for place in places[places >= 0]:
            at = (int(place) + base) & 0xFFFFFFFF
            target = self.flow.block_of_pc.get(at)
            if target is None:
                raise CannotCount(last, f"a branch goes to {at:#x}, where no block begins")
            chosen = (bits == np.uint32(place)) & active
            again.add(chosen)
            self._go(target, mask if bool(chosen.all()) else _trim(chosen))
        if last.opcode == "RET" and again.by_warp is not None and again.by_warp.any():
            raise CannotCount(last, "lanes of a warp that return to several places are not understood")

    # Barriers of a program's warps: stepped through only where shared memory decides where control goes.

    def _program_barrier(self, last: Instruction, mask: Array | None, following: int | None) -> None:
        if following is None:
            raise CannotCount(last, "control runs past the last instruction")
        here: Array = TRUE if mask is None else mask
        if last.conditional:
            guard = self._condition(last, mask)
            passed = here & ~guard.bits
            if passed.any():
                self._go(following, _trim(passed))
            here = _trim(here & guard.bits)
            if not here.any():
                return
        if here.shape[2] > 1:
            raise CannotCount(last, "a barrier that some lanes of a warp reach is not understood")
        waits = "SYNC" in last.modifiers
        if not waits and "ARV" not in last.modifiers:
            raise CannotCount(last, f"{last.name} is not understood where shared memory decides control")
        name, count = self._barrier_operands(last)
        here = np.broadcast_to(here, (here.shape[0], self.shape.warps, 1))
        for number in np.unique(name):
            mine = here & (name == number)
            if not mine.any():
                continue
            if not waits:
                self._go(following, mine)
            self._arrive(int(number), mine, count, following if waits else None)

    def _barrier_operands(self, last: Instruction) -> tuple[Array, Array]:
        """Return the number of the barrier and of the warps that it waits for, for each warp."""
        found: list[Array] = []
        for operand in last.operands:
            if isinstance(operand, Immediate):
                found.append(np.full((1, 1, 1), operand.value, np.int64))
            elif isinstance(operand, RegisterOperand) and not operand.register.is_predicate:
                value = self.read(operand.register)
                assert isinstance(value, Word)
                one = integer.uniform(self, value)
                if one.unknown is not None and one.unknown.any():
                    raise CannotCount(last, "which barrier this is is not known", one.cause)
                found.append(one.bits.astype(np.int64))
            else:
                raise CannotCount(last, f"{last.text} is not understood")
        every = np.full((1, 1, 1), 32 * self.shape.warps, np.int64)
        return found[0] & 0xF, (found[1] if len(found) > 1 else every) // 32

    def _arrive(self, number: int, mine: Array, count: Array, following: int | None) -> None:
        barrier = self._program_barriers.setdefault(number, _ProgramBarrier())
        arrived = mine.sum(1, keepdims=True)
        barrier.arrived = arrived if barrier.arrived is None else barrier.arrived + arrived
        if following is not None:
            old = barrier.waiting.get(following)
            barrier.waiting[following] = mine if old is None else old | mine
        expected = np.where(mine, count, 0).max(1, keepdims=True)
        full = (barrier.arrived >= expected) & (expected > 0)
        if not full.any():
            return
        barrier.arrived = np.where(full, barrier.arrived - expected, barrier.arrived)
        for block, waiting in list(barrier.waiting.items()):
            freed, left = waiting & full, waiting & ~full
            if left.any():
                barrier.waiting[block] = left
            else:
                del barrier.waiting[block]
            if freed.any():
                self._go(
                    block, None if bool(freed.all()) and freed.shape[0] in (1, self.batch.size) else freed
                )

    # Convergence barriers.

    def _converge(self, instruction: Instruction, mask: Array | None, guard: Flag) -> None:
        if instruction.opcode == "BMOV":
            raise CannotCount(instruction, "moves of convergence barriers are not understood")
        if guard.is_open(mask):
            raise CannotCount(
                instruction, "a convergence barrier depends on a value that is not known", guard.cause
            )
        lanes = mask if guard is TRUE_FLAG else (guard.bits if mask is None else mask & guard.bits)
        name = _barrier_name(instruction)
        if instruction.opcode == "BSSY":
            mine = (
                np.full((1, 1, 1), ALL_BITS) if lanes is None or lanes.shape[2] == 1 else logic.ballot(lanes)
            )
            old = self._barriers.get(name)
            if old is None:
                self._barriers[name] = _Convergence(mine)
            else:
                old.sets = mine if lanes is None else np.where(lanes, mine, old.sets)
            return
        for condition in branch_conditions(instruction):
            value = predicate_reader(condition)(self)
            if value.is_open(lanes):
                raise CannotCount(instruction, "a convergence barrier depends on a value that is not known")
            lanes = value.bits if lanes is None else lanes & value.bits
        if lanes is None or lanes.shape[2] == 1:
            return
        barrier = self._barriers.get(name)
        if barrier is None:
            raise CannotCount(instruction, "a convergence barrier is left that was never set")
        barrier.sets = barrier.sets & ~logic.ballot(lanes)
        self._release(barrier)

    def _sync(self, last: Instruction, mask: Array | None, following: int | None) -> None:
        if last.conditional:
            raise CannotCount(last, "a convergence barrier under a predicate is not understood")
        name = _barrier_name(last)
        if mask is None or mask.shape[2] == 1:
            self._go(following, mask)
            return
        barrier = self._barriers.get(name)
        if barrier is None or following is None:
            raise CannotCount(last, "a convergence barrier is reached that was never set")
        self._wait(barrier, mask, following)

    def _warp_sync(self, last: Instruction, mask: Array | None, following: int | None) -> None:
        if last.conditional or "COLLECTIVE" in last.modifiers or following is None:
            raise CannotCount(last, f"{last.name} is not understood")
        if mask is None or mask.shape[2] == 1:
            self._go(following, mask)
            return
        wanted = ALL_BITS
        if "ALL" not in last.modifiers:
            operand = last.operands[0]
            if not isinstance(operand, Immediate):
                raise CannotCount(last, "a WARPSYNC of lanes in a register is not understood")
            wanted = np.uint32(operand.value & 0xFFFFFFFF)
        barrier = self._barriers.setdefault(
            f"warpsync {last.pc:#x}", _Convergence(np.full((1, 1, 1), wanted))
        )
        self._wait(barrier, mask, following)

    def _wait(self, barrier: _Convergence, mask: Array, following: int) -> None:
        if barrier.waiting is not None and barrier.block != following:
            raise CannotCount(self._now, "lanes wait for one another at two places")
        barrier.waiting = mask if barrier.waiting is None else barrier.waiting | mask
        barrier.block = following
        self._release(barrier)

    def _release_all(self) -> None:
        for barrier in self._barriers.values():
            self._release(barrier)

    def _release(self, barrier: _Convergence) -> None:
        if barrier.waiting is None:
            return
        here = logic.ballot(barrier.waiting)
        if self._exited is not None:
            here = here | logic.ballot(np.broadcast_to(self._exited, (*self._exited.shape[:2], 32)))
        ready = barrier.waiting & ((barrier.sets & ~here) == 0)
        if not ready.any():
            return
        sets = np.broadcast_to(barrier.sets, ready.shape)
        most = np.where(ready, sets, np.uint32(0)).max(2)
        least = np.where(ready, sets, ALL_BITS).min(2)
        if ((most != least) & ready.any(2)).any():
            raise CannotCount(self._now, "two sets of lanes meet at one convergence barrier")
        left = barrier.waiting & ~ready
        barrier.waiting = left if left.any() else None
        self._go(barrier.block, _trim(ready))


def _join(a: Array | None, b: Array | None) -> Array | None:
    """Return the union of two groups; None where a warp has lanes in both, which then stay apart."""
    if a is None or b is None:
        return None
    if a.shape[2] > 1 and b.shape[2] > 1 and (a.any(2) & b.any(2)).any():
        return None
    return a | b


def _trim(mask: Array) -> Array:
    """Drop the lane axis of a mask that holds for whole warps."""
    if mask.shape[2] > 1 and bool((mask == mask[:, :, :1]).all()):
        return mask[:, :, :1]
    return mask


def _traps(instructions: Sequence[Instruction], start: int) -> bool:
    """Whether straight on from here a trap or a failed assertion is reached."""
    for instruction in instructions[start : start + 64]:
        if instruction.opcode == "BPT" or "__assertfail" in instruction.text:
            return True
        if instruction.opcode == "CALL" and instruction.target is not None:
            return instructions[instruction.target].opcode == "BPT"
        if instruction.opcode in ("BRA", "EXIT", "RET"):
            return False
    return False


def _barrier_name(instruction: Instruction) -> str:
    for operand in instruction.operands:
        if isinstance(operand, Special) and operand.name.startswith("B"):
            return operand.name
    raise CannotCount(instruction, "a convergence barrier without a name")
