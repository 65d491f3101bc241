"""Compiled x Launch -> Counters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tilewright.compile import Compiled
from tilewright.launch import Launch
from tilewright.sass.constants import NoConstants, constants
from tilewright.sass.counters import (
    GLOBAL_READS,
    SECTOR_BYTES,
    TENSOR,
    Access,
    Counters,
    Given,
    InstructionCount,
    Spread,
    TensorOps,
    Traffic,
    Unknown,
    place_of,
)
from tilewright.sass.flow import LOADS, Flow, control_seed
from tilewright.sass.machine import Batch, CannotCount, Machine, Observer, Outcome, Shape
from tilewright.sass.operands import SassError, Special
from tilewright.sass.operations import pipe, tensor_kind
from tilewright.sass.places import Places
from tilewright.sass.shared import TooMuchShared
from tilewright.sass.text import Code, Instruction, parse
from tilewright.sass.traffic import (
    KINDS,
    UNSIZED,
    TensorObserver,
    TrafficObserver,
    broken_sectors,
    memory_seed,
    says_all,
    through_l1,
    whole_access,
)
from tilewright.sass.values import Array, Cause

MOST_LANES_AT_ONCE = 1 << 22
"""Lanes that one batch of programs may have: bounds the memory that counting takes."""
MOST_ORDERED = 1 << 22
MOST_RUNS = 1 << 16
"""Programs and runs of equal ones that are put into the order of their launch."""
MOST_PROGRAMS = 1 << 24
"""Programs that are followed one by one: bounds the time and the memory that counting takes."""


def count(compiled: Compiled, launch: Launch, given: Sequence[Given] = (), traffic: bool = True) -> Counters:
    """Count what a launch executes, from its compiled form alone.

    given: values taken for what is loaded at a line; traffic: count memory accesses too (slower).
    What cannot be known is in the result's `unknown`, never guessed.
    """
    started = time.perf_counter()
    if "sass" not in compiled.asm or compiled.machine_code is None:
        reason = "there is no NVIDIA machine code: executed counts need it"
        return Counters(launch.programs, None, unknown=(Unknown("everything", reason, None, None, None),))
    if compiled.num_ctas > 1:
        # A block's place in its cluster would have to be run through, and what it reads from its neighbours.
        reason = f"programs of {compiled.num_ctas} blocks (clusters) are not counted yet"
        return Counters(launch.programs, None, unknown=(Unknown("everything", reason, None, None, None),))
    try:
        counter = _Counter(compiled, launch, given)
    except (SassError, NoConstants) as why:
        return Counters(launch.programs, None, unknown=(Unknown("everything", str(why), None, None, None),))
    return counter.counters(traffic, started)


class _Counter:
    def __init__(self, compiled: Compiled, launch: Launch, given: Sequence[Given]) -> None:
        assert compiled.machine_code is not None
        self._launch = launch
        self._code: Code = parse(compiled.asm["sass"], compiled.machine_code.name)
        self._flow = Flow(self._code)
        self._constants = constants(launch, compiled)
        self._places = Places(compiled)
        self._shape = Shape(compiled.num_warps, launch.grid)
        self._tables = {2: bytes.fromhex(compiled.machine_code.table)}
        self._tracked: frozenset[int] = frozenset()
        self._given, self._notes = self._find_given(given)

    def _find_given(self, given: Sequence[Given]) -> tuple[Mapping[int, int], list[str]]:
        found: dict[int, int] = {}
        notes = []
        for g in given:
            at = [
                i.index
                for i in self._code.instructions
                if i.opcode in LOADS
                and any(
                    p.line == g.line and Path(p.file).name == Path(g.file).name
                    for p in self._places.calls(i.pc)
                )
            ]
            if not at:
                raise SassError(f"--assume {g}: nothing is loaded at that line in the compiled kernel")
            found |= dict.fromkeys(at, g.value)
            notes.append(f"what is loaded at {g.file}:{g.line} is {g.value} (given)")
        return found, notes

    def _run(self, kept: frozenset[int], batch: Batch, observer: Observer | None = None) -> Outcome:
        """Run one batch; where control depends on shared memory, again until every word that is read is followed."""
        tracked: frozenset[int] = self._tracked
        while True:
            machine = Machine(
                self._flow,
                kept,
                self._constants,
                self._shape,
                batch,
                observer,
                given=self._given,
                tables=self._tables,
                tracked=tuple(tracked),
            )
            try:
                outcome = machine.run()
                if machine.memory.wanted <= tracked:
                    self._tracked = tracked
                    return outcome
            except CannotCount:
                if machine.memory.wanted <= tracked:
                    raise
            tracked |= machine.memory.wanted
            if observer is not None:
                observer.forget()

    def counters(self, traffic: bool, started: float) -> Counters:
        kept = self._flow.slice(control_seed)
        if self._loads_shared(kept):
            self._flow = Flow(self._code, shared=True)
            kept = self._flow.slice(control_seed)
        programs = self._launch.programs
        try:
            batch = self._batches(kept, whole=True)[0]
            shapes = TensorObserver()
            outcome = self._run(kept, batch, shapes)
        except TooMuchShared:
            first = self._code.instructions[0]
            why = CannotCount(first, "control depends on more of shared memory than is followed")
            return self._not_counted(why, started)
        except CannotCount as why:
            return self._not_counted(why, started)
        executed = np.zeros(len(self._code.instructions), np.int64)
        per_program = np.zeros(batch.size, np.int64)
        per_warp = np.zeros(self._shape.warps, np.int64)
        for block, visits in zip(self._flow.blocks, outcome.visits, strict=True):
            length = block.end - block.start
            executed[block.start : block.end] = visits.sum() * batch.weight
            per_program += visits.sum(1) * length
            per_warp += visits.sum(0) * length * batch.weight
        for index, again in outcome.again.items():
            executed[index] += again.sum() * batch.weight
            per_program += again.sum(1)
            per_warp += again.sum(0) * batch.weight
        unknown: list[Unknown] = []
        accesses: dict[int, Access] = {}
        found: Traffic | None = None
        if traffic and programs:
            found, accesses, unknown = self._traffic(executed)
        rows = self._rows(executed, accesses, shapes.operations, unknown)
        by_opcode: Counter[str] = Counter()
        by_pipe: Counter[str] = Counter()
        for row in rows:
            by_opcode[row.opcode] += row.executed
            by_pipe[row.pipe] += row.executed
        total = int(executed.sum())
        return Counters(
            programs=programs,
            instructions=total,
            tensor_ops=self._tensor_ops(rows),
            barriers=by_opcode.get("BAR", 0),
            spill_loads=by_opcode.get("LDL", 0),
            spill_stores=by_opcode.get("STL", 0),
            by_instruction=rows,
            by_opcode={k: v for k, v in by_opcode.most_common() if v},
            by_pipe={k: v for k, v in by_pipe.most_common() if v},
            by_warp=tuple(int(n) for n in per_warp),
            spread=self._spread(per_program, batch),
            traffic=found,
            assumptions=(*outcome.assumptions, *self._notes),
            unknown=tuple(unknown),
            seconds=time.perf_counter() - started,
        )

    def _not_counted(self, why: CannotCount, started: float) -> Counters:
        return Counters(
            self._launch.programs,
            None,
            unknown=(self._unknown("instructions", why),),
            assumptions=tuple(self._notes),
            seconds=time.perf_counter() - started,
        )

    def _batches(self, kept: frozenset[int], whole: bool = False) -> list[Batch]:
        """Cut the grid into batches; an axis that the slice never reads is run once, for all its programs."""
        read = {
            operand.name
            for index in kept
            for operand in self._code.instructions[index].operands
            if isinstance(operand, Special)
        }
        sizes = [
            size if f"SR_CTAID.{axis}" in read else min(size, 1)
            for axis, size in zip("XYZ", self._launch.grid, strict=True)
        ]
        number = int(np.prod(sizes, dtype=np.int64))
        if number > MOST_PROGRAMS:
            reason = f"{number:,} programs that may differ are more than can be followed ({MOST_PROGRAMS:,})"
            raise CannotCount(self._code.instructions[0], reason)
        weight = self._launch.programs // number if number else 0
        most = number if whole else max(MOST_LANES_AT_ONCE // (32 * self._shape.warps), 1)
        batches = []
        for start in range(0, max(number, 1), max(most, 1)):
            index = np.arange(start, min(start + most, number), dtype=np.int64)
            x, rest = index % max(sizes[0], 1), index // max(sizes[0], 1)
            y, z = rest % max(sizes[1], 1), rest // max(sizes[1], 1)
            batches.append(Batch((x, y, z), weight))
        return batches

    def _traffic(self, executed: Array) -> tuple[Traffic | None, dict[int, Access], list[Unknown]]:
        started = time.perf_counter()
        converged = not any(i.opcode == "BSSY" for i in self._code.instructions)
        observer = TrafficObserver(converged)
        try:
            self._look_at_memory(observer)
        except CannotCount as why:
            return None, {}, [self._unknown("memory traffic", why)]
        unknown: list[Unknown] = []
        accesses: dict[int, Access] = {}
        kinds: dict[str, Access] = {}
        blind: set[str] = set()
        reasons: dict[tuple[str, str, Cause | None], list[Instruction]] = {}
        for index, seen in sorted(observer.seen.items()):
            instruction = self._code.instructions[index]
            kind = KINDS[instruction.opcode]
            if seen.unknown is not None:
                reasons.setdefault((kind, seen.unknown, seen.cause), []).append(instruction)
                blind.add(kind)
                times = seen.access().instructions
                kinds[kind] = kinds.get(kind, Access()) + Access(instructions=times, unknown=times)
                continue
            if instruction.opcode not in UNSIZED:
                accesses[index] = seen.access()
            kinds[kind] = kinds.get(kind, Access()) + seen.access()
        for instruction in self._code.instructions:
            times = int(executed[instruction.index])
            if times and says_all(instruction, converged):
                kind, access = KINDS[instruction.opcode], whole_access(instruction, times)
                accesses[instruction.index] = access
                kinds[kind] = kinds.get(kind, Access()) + access
        for (kind, reason, cause), found in reasons.items():
            one = self._unknown(self._which(kind, found), CannotCount(found[0], reason, cause))
            if not any((u.what, u.reason, u.place) == (one.what, one.reason, one.place) for u in unknown):
                unknown.append(one)
        blind |= {k for k in kinds if k in ("bulk copies", "generic loads")}
        blind |= self._copied_in(kinds, observer, unknown)
        from_l2 = self._from_l2(kinds, blind, executed)
        cached = any(through_l1(self._code.instructions[i]) and a.requests for i, a in accesses.items())
        cached = cached and not observer.cached.proven()
        exact = from_l2 is not None and not cached and not self._spill_sectors(executed)
        seconds = time.perf_counter() - started
        return Traffic(kinds, from_l2, exact, seconds), accesses, unknown

    def _which(self, kind: str, found: Sequence[Instruction]) -> str:
        """`global loads at lines 79 and 80`."""
        own = str(self._launch.kernel.path)
        places = (place_of(self._places.calls(i.pc), own) for i in found)
        lines = [str(n) for n in sorted({place.line for place in places if place is not None})]
        if not lines:
            return kind
        *some, last = lines
        return f"{kind} at line{'s' if some else ''} {', '.join(some)}{' and ' if some else ''}{last}"

    def _copied_in(
        self, kinds: dict[str, Access], observer: TrafficObserver, unknown: list[Unknown]
    ) -> set[str]:
        """Put in what tensor copies bring in all; return their kind if what they fetch from L2 is not known."""
        kind = "tensor copies in"
        if kind not in kinds:
            return set()
        if observer.expected_bytes is None:
            return {kind}
        moved = observer.expected_bytes
        part = broken_sectors(self._launch)
        if part is None:
            self._notes.append("tiles of tensor copies begin at whole sectors of their rows")
            sectors = moved // SECTOR_BYTES
            kinds[kind] = replace(kinds[kind], bytes=moved, sectors=sectors, ideal_sectors=sectors)
            return set()
        kinds[kind] = replace(kinds[kind], bytes=moved)
        first = next(i for i in self._code.instructions if KINDS.get(i.opcode) == kind)
        unknown.append(self._unknown("bytes from L2", CannotCount(first, part)))
        return {kind}

    def _from_l2(self, kinds: Mapping[str, Access], blind: set[str], executed: Array) -> int | None:
        """Return the bytes that loads bring from L2, as if none hit in L1."""
        if any(k in blind for k in (*GLOBAL_READS, "bulk copies", "generic loads")):
            return None
        sectors = sum(kinds[k].sectors for k in GLOBAL_READS if k in kinds)
        return SECTOR_BYTES * (sectors + self._spill_sectors(executed))

    def _spill_sectors(self, executed: Array) -> int:
        """Spilled registers come back from L1 or, where shared memory leaves little of it, from L2."""
        return sum(
            whole_access(i, int(executed[i.index])).sectors
            for i in self._code.instructions
            if i.opcode == "LDL"
        )

    def _look_at_memory(self, observer: TrafficObserver) -> None:
        plain = self._flow
        kept = plain.slice(memory_seed)
        if self._loads_shared(kept) and not plain.shared:
            self._flow = Flow(self._code, shared=True)
        try:
            self._run_all(observer)
        except TooMuchShared:
            # Addresses that come out of shared memory stay unknown; the others do not depend on it.
            self._flow = plain
            observer.forget()
            self._run_all(observer)

    def _run_all(self, observer: TrafficObserver) -> None:
        kept = self._flow.slice(memory_seed)
        for batch in self._batches(kept):
            self._run(kept, batch, observer)

    def _loads_shared(self, kept: frozenset[int]) -> bool:
        return any(self._code.instructions[index].opcode == "LDS" for index in kept)

    def _rows(
        self,
        executed: Array,
        accesses: Mapping[int, Access],
        shapes: Mapping[int, int | None],
        unknown: list[Unknown],
    ) -> tuple[InstructionCount, ...]:
        rows = []
        for instruction in self._code.instructions:
            number = int(executed[instruction.index])
            operations = 0
            try:
                kind = tensor_kind(instruction)
            except ValueError as why:
                kind = None
                if number:
                    unknown.append(self._unknown(TENSOR, CannotCount(instruction, str(why))))
            if kind is not None and number:
                found = shapes.get(instruction.index)
                if kind.operations is not None:
                    operations = number * kind.operations
                elif found is not None:
                    operations = found
                else:
                    reason = "the shape is in a descriptor that is not known"
                    unknown.append(self._unknown(TENSOR, CannotCount(instruction, reason)))
            rows.append(
                InstructionCount(
                    pc=instruction.pc,
                    text=instruction.text,
                    opcode=instruction.opcode,
                    kind=KINDS.get(instruction.opcode),
                    executed=number,
                    pipe=pipe(instruction),
                    tensor_ops=operations,
                    calls=self._places.calls(instruction.pc),
                    ptx_line=self._places.ptx_line(instruction.pc),
                    access=accesses.get(instruction.index),
                )
            )
        return tuple(rows)

    def _spread(self, per_program: Array, batch: Batch) -> Spread | None:
        """How programs differ, and in which order they come: X runs fastest, then Y, then Z."""
        grid = self._launch.grid
        order: tuple[tuple[int, int], ...] = ()
        if 0 < self._launch.programs <= MOST_ORDERED:
            # An axis that control never looks at was run once.
            sizes = [int(axis.max()) + 1 for axis in batch.coordinates]
            every = np.broadcast_to(per_program.reshape(sizes[::-1]), grid[::-1]).ravel()
            starts = np.flatnonzero(np.concatenate([[True], every[1:] != every[:-1]]))
            if len(starts) <= MOST_RUNS:
                runs = np.diff(np.append(starts, len(every)))
                order = tuple((int(every[at]), int(n)) for at, n in zip(starts, runs, strict=True))
        return _spread(per_program, batch.weight, order)

    def _tensor_ops(self, rows: Sequence[InstructionCount]) -> tuple[TensorOps, ...]:
        totals: Counter[tuple[str, str]] = Counter()
        for instruction, row in zip(self._code.instructions, rows, strict=True):
            if row.tensor_ops and (kind := tensor_kind(instruction)) is not None:
                totals[kind.inputs, kind.accumulator] += row.tensor_ops
        return tuple(TensorOps(*types, n) for types, n in totals.most_common())

    def _unknown(self, what: str, why: CannotCount) -> Unknown:
        instruction = why.instruction
        reason = why.reason
        if why.cause is not None:
            instruction = self._code.instructions[why.cause.index]
            reason = f"{reason}: {why.cause.reason}"
        calls = self._places.calls(instruction.pc)
        place = place_of(calls, str(self._launch.kernel.path))
        return Unknown(what, reason, place, instruction.pc, instruction.text)


def _spread(per_program: Array, weight: int, order: tuple[tuple[int, int], ...]) -> Spread | None:
    if not len(per_program):
        return None
    values, inverse = np.unique(per_program, return_inverse=True)
    programs = np.bincount(inverse) * weight
    least, most = int(values[0]), int(values[-1])
    if len(values) > 16:
        runs = np.array_split(np.arange(len(values)), 16)
        pairs = [
            (int(np.average(values[r], weights=programs[r])), int(programs[r].sum())) for r in runs if len(r)
        ]
    else:
        pairs = [(int(v), int(n)) for v, n in zip(values, programs, strict=True)]
    return Spread(least, most, tuple(pairs), order)
