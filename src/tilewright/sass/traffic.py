"""Memory accesses, seen as the emulator issues them: sectors, bytes, bank conflicts by address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.launch import Descriptor, Launch
from tilewright.sass.counters import COPIES, SECTOR_BYTES, Access, lane_bytes
from tilewright.sass.decode import NotUnderstood, address, predicate_reader
from tilewright.sass.flow import control_seed, descriptor_registers
from tilewright.sass.logic import ballot
from tilewright.sass.machine import Machine, Observer
from tilewright.sass.operands import Memory, Register, RegisterOperand
from tilewright.sass.operations import utc_operations
from tilewright.sass.text import Instruction
from tilewright.sass.values import TRUE, Array, Cause, Flag, Word, constant

_GLOBAL = {
    "LDG": "global loads",
    "STG": "global stores",
    "LDGSTS": COPIES,
    "ATOMG": "global atomics",
    "ATOM": "global atomics",
    "RED": "global reductions",
    "REDG": "global reductions",
}
_SHARED = {
    "LDS": "shared loads",
    "STS": "shared stores",
    "ATOMS": "shared atomics",
    "LDSM": "shared matrix loads",
    "STSM": "shared matrix stores",
}
_MATRICES = ("LDSM", "STSM")
MATRIX_BYTES = 128
_LOCAL = {"LDL": "spill loads", "STL": "spill stores"}
UNSIZED = {
    "UTMALDG": "tensor copies in",
    "UTMASTG": "tensor copies out",
    "UTMAREDG": "tensor copies out",
    "UBLKCP": "bulk copies",
    "LD": "generic loads",
    "ST": "generic stores",
}
"""Accesses of which the instruction does not say how many bytes they are."""
_OPERANDS = dict.fromkeys(("HGMMA", "QGMMA", "IGMMA"), "tensor operand reads")
KINDS = {**_OPERANDS, **_GLOBAL, **_SHARED, **_LOCAL, **UNSIZED}
EXPECTS = ("ARRIVE", "TRANS64")
"""Modifiers of the SYNCS with which a thread tells an mbarrier how many bytes tensor copies will bring."""
MOST_READS_KEPT = 1 << 22


def memory_seed(instruction: Instruction) -> Iterable[Register]:
    """Registers that decide where control goes and what is accessed."""
    if instruction.opcode not in KINDS and not _expects(instruction):
        return control_seed(instruction)
    found: set[Register] = set()
    if instruction.guard is not None and instruction.guard.register.number is not None:
        found.add(instruction.guard.register)
    for operand in instruction.operands:
        if isinstance(operand, Memory) and instruction.opcode not in UNSIZED:
            for part in operand.parts:
                if part.register.number is not None:
                    found |= (
                        {part.register, part.register.next()} if "64" in part.suffixes else {part.register}
                    )
        elif (
            isinstance(operand, RegisterOperand)
            and operand.register.number is not None
            and (operand.register.is_predicate or _expects(instruction))
        ):
            found.add(operand.register)
    return found & (set(instruction.reads))


@dataclass
class Seen:
    """Totals of one instruction over the programs run, weighted; `unknown` says why its figures are not known."""

    totals: dict[str, int] = field(default_factory=dict)
    unknown: str | None = None
    cause: Cause | None = None

    def add(self, **figures: int) -> None:
        """Add figures to the totals."""
        for name, value in figures.items():
            self.totals[name] = self.totals.get(name, 0) + int(value)

    def access(self) -> Access:
        """Return the totals."""
        return Access(**self.totals)


class TrafficObserver(Observer):
    """Adds up what each memory instruction accesses."""

    def __init__(self, converged: bool = False) -> None:
        self._converged = converged
        self.seen: dict[int, Seen] = {}
        self.expected_bytes: int | None = 0
        self.cached = ReadOnce()
        self._shapes: dict[tuple[Any, ...], Array] = {}

    def forget(self) -> None:
        """Start over."""
        self.seen.clear()
        self.expected_bytes = 0
        self.cached = ReadOnce()

    def wants(self, instruction: Instruction) -> bool:
        """See every access to memory, but those of which being executed says all."""
        if says_all(instruction, self._converged):
            return False
        return instruction.opcode in KINDS or _expects(instruction)

    def access(self, machine: Machine, instruction: Instruction, mask: Array | None, guard: Flag) -> None:
        """Add one issue of an instruction."""
        if _expects(instruction):
            self._expect(machine, instruction, mask, guard)
            return
        seen = self.seen.setdefault(instruction.index, Seen())
        seen.add(instructions=_weigh(_warps(mask), machine))
        if instruction.never_runs:
            return
        if guard.is_open(mask):
            seen.unknown, seen.cause = "which lanes take part is not known", guard.cause
            return
        active = guard.bits if mask is None else mask & guard.bits
        try:
            self._look(machine, instruction, active, seen)
        except NotUnderstood as why:
            seen.unknown = str(why)
        except _NotKnown as why:
            seen.unknown, seen.cause = str(why), why.cause

    def _expect(self, machine: Machine, instruction: Instruction, mask: Array | None, guard: Flag) -> None:
        """Add the bytes that an mbarrier is told to wait for."""
        operand = instruction.operands[-1]
        assert isinstance(operand, RegisterOperand)
        value = constant(0) if operand.register.number is None else machine.read(operand.register)
        assert isinstance(value, Word)
        active = guard.bits if mask is None else mask & guard.bits
        blind = value.unknown is not None and bool(((value.unknown != 0) & active).any())
        if guard.is_open(mask) or blind:
            self.expected_bytes = None
        if self.expected_bytes is not None:
            lanes = np.broadcast_to(active, (*active.shape[:2], 32)) * value.bits.astype(np.int64)
            self.expected_bytes += _weigh(lanes.sum(2), machine)

    def _look(self, machine: Machine, instruction: Instruction, active: Array, seen: Seen) -> None:
        opcode = instruction.opcode
        addresses = [o for o in instruction.operands if isinstance(o, Memory)]
        lanes = Lanes(active)
        requests = _weigh(lanes.warps, machine)
        if opcode in (*_OPERANDS, *_LOCAL):
            whole = whole_access(instruction, requests)
            moved = whole.bytes
            if opcode in _LOCAL:
                moved = _weigh(lanes.number, machine) * lane_bytes(instruction.modifiers)
            seen.add(requests=requests, bytes=moved, sectors=whole.sectors, ideal_sectors=whole.ideal_sectors)
            seen.add(wavefronts=whole.wavefronts, ideal_wavefronts=whole.ideal_wavefronts)
            return
        if opcode in UNSIZED:
            seen.add(requests=requests)
            return
        width = lane_bytes(instruction.modifiers)
        if opcode == "LDGSTS":
            self._copied(machine, instruction, lanes, width, seen)
            for operand in instruction.operands[2:]:
                if isinstance(operand, RegisterOperand) and operand.register.is_predicate:
                    copies = predicate_reader(operand)(machine)
                    if copies.is_open(lanes.bits):
                        raise _NotKnown("which lanes copy is not known", copies.cause)
                    lanes = Lanes(lanes.bits & copies.bits)
            requests = _weigh(lanes.warps, machine)
            self._global(machine, instruction, addresses[1], lanes, width, seen)
        elif opcode in _GLOBAL:
            self._global(machine, instruction, addresses[-1], lanes, width, seen)
        else:
            self._shared(machine, instruction, addresses[-1], lanes, width, seen)
        if opcode in _MATRICES:
            seen.add(requests=requests, bytes=requests * matrices(instruction) * MATRIX_BYTES)
        else:
            seen.add(requests=requests, bytes=_weigh(lanes.number, machine) * width)

    def _global(
        self,
        machine: Machine,
        instruction: Instruction,
        operand: Memory,
        lanes: Lanes,
        width: int,
        seen: Seen,
    ) -> None:
        low, high = address(machine, operand)
        if through_l1(instruction):
            self.cached.look(low, high, lanes.bits, machine)
        if high is not None and not _same_in_lanes(high):
            joined = low.bits.astype(np.int64) + (high.bits.astype(np.int64) << 32)
            # Only the distance from the warp's first active lane counts here.
            active = np.broadcast_to(lanes.bits, np.broadcast_shapes(lanes.bits.shape, joined.shape))
            joined = np.broadcast_to(joined, active.shape)
            base = np.take_along_axis(joined, np.argmax(active, axis=2)[:, :, None], 2) & ~np.int64(127)
            apart = np.where(active, joined - base, 0)
            low = Word(((apart + (1 << 31)) & 0xFFFFFFFF).astype(np.uint32), None, low.unknown, low.cause)
            if bool((np.abs(apart) >= 1 << 31).any()):
                raise _NotKnown("a warp's addresses lie more than 2 GB apart")
        found = self._by_shape("sectors", low, lanes, width, machine.shape.warps, 31)
        # Where lanes share what they access, fewer sectors do than their bytes would fill.
        ideal = np.minimum((lanes.number * width + SECTOR_BYTES - 1) // SECTOR_BYTES, found)
        seen.add(
            sectors=_weigh(found, machine),
            ideal_sectors=_weigh(ideal, machine),
        )

    def _shared(
        self,
        machine: Machine,
        instruction: Instruction,
        operand: Memory,
        lanes: Lanes,
        width: int,
        seen: Seen,
    ) -> None:
        low, high = address(machine, operand)
        if high is not None:
            raise _NotKnown("a shared address of 64 bits is not understood")
        if instruction.opcode in _MATRICES:
            kind, size = f"matrix {matrices(instruction)}", 16
        else:
            kind, size = ("shared loads" if instruction.opcode == "LDS" else "shared"), width
        found = self._by_shape(kind, low, lanes, size, machine.shape.warps, 127)
        ideal = self._by_shape(f"{kind} ideal", low, lanes, size, machine.shape.warps, 0)
        seen.add(
            wavefronts=_weigh(found, machine),
            ideal_wavefronts=_weigh(ideal, machine),
        )

    def _copied(
        self, machine: Machine, instruction: Instruction, lanes: Lanes, width: int, seen: Seen
    ) -> None:
        """Add the shared side of a copy: it takes a wavefront for each 128-byte line that it comes from, too."""
        into, source = (address(machine, o)[0] for o in instruction.operands if isinstance(o, Memory))
        warps = machine.shape.warps
        written = self._by_shape("shared", into, lanes, width, warps, 127)
        lines = self._by_shape("lines", source, lanes, width, warps, 127)
        taken = written if through_l1(instruction) else np.maximum(written, lines)
        ideal = self._by_shape("shared ideal", into, lanes, width, warps, 0)
        seen.add(wavefronts=_weigh(taken, machine), ideal_wavefronts=_weigh(ideal, machine))

    def _by_shape(self, kind: str, low: Word, on: Lanes, width: int, warps: int, keep: int) -> Array:
        """Return a figure per (program, warp) that depends only on the lanes' distances and on low bits.

        `keep` masks the bits of the warp's base that matter. Warps of the same shape are worked out once.
        """
        if low.unknown is not None and bool(((low.unknown != 0) & on.bits).any()):
            raise _NotKnown("an address is not known", low.cause)
        base, lanes = (low.part, low.lane_part) if low.lane_part is not None else (low.part, None)
        if lanes is None:
            if base.shape[2] == 1:
                lanes = np.zeros((1, 1, 32), np.uint32)
            else:
                lanes = base
                base = np.zeros((1, 1, 1), np.uint32)
        if lanes.shape[2] == 1:
            lanes = np.broadcast_to(lanes, (*lanes.shape[:2], 32))
        if lanes.shape[0] > 1:
            # Lanes that differ by program: take each warp's first address out, so that equal shapes meet.
            first = lanes[:, :, :1] & ~np.uint32(127)
            lanes, base = lanes - first, base + first
            if bool((lanes == lanes[:1]).all()):
                lanes = lanes[:1]
        residues = base & np.uint32(keep)
        if residues.size > 1 and bool((residues == residues.flat[0]).all()):
            residues = residues[:1, :1]
        if on.bits.shape[2] == 1:
            # Whole warps are active or not: the shape is that of a full warp.
            name = (kind, width, int(residues.flat[0]), lanes.shape, lanes.tobytes())
            found = self._shapes.get(name) if residues.size == 1 else None
            if found is None:
                found = self._figures(kind, residues, lanes, Lanes(TRUE), width, warps)
                if residues.size == 1:
                    self._shapes[name] = found
            return found * on.warps
        return self._figures(kind, residues, lanes, on, width, warps)

    def _figures(self, kind: str, residues: Array, lanes: Array, on: Lanes, width: int, warps: int) -> Array:
        shape = (max(residues.shape[0], lanes.shape[0], on.ballots.shape[0]), warps)
        keys = np.broadcast_to(residues[:, :, 0], shape).astype(np.uint64)
        keys = keys | np.broadcast_to(on.ballots, shape).astype(np.uint64) << np.uint64(8)
        result = np.zeros(shape, np.int64)
        if lanes.shape[0] == 1:
            for warp in range(warps):
                pattern = lanes[0, warp if lanes.shape[1] > 1 else 0]
                self._fill(result, keys, warp, pattern, kind, width)
            return result
        return self._one_by_one(kind, lanes + residues, on.bits, width, shape)

    def _fill(self, result: Array, keys: Array, warp: int, pattern: Array, kind: str, width: int) -> None:
        column = keys[:, warp]
        choices = _distinct(column)
        for key in choices:
            name = (kind, width, int(key), pattern.tobytes())
            figure = self._shapes.get(name)
            if figure is None:
                residue, ballot = np.uint32(int(key) & 0xFF), int(key) >> 8
                on = (np.uint32(ballot) >> np.arange(32, dtype=np.uint32)) & np.uint32(1) != 0
                figure = _figure(kind, (pattern + residue)[None, :], on[None, :], width)[0]
                self._shapes[name] = figure
            if len(choices) == 1:
                result[:, warp] = figure
            else:
                result[column == key, warp] = figure

    def _one_by_one(
        self, kind: str, lanes: Array, active: Array, width: int, shape: tuple[int, int]
    ) -> Array:
        whole = np.broadcast_to(lanes, (*shape, 32)).reshape(-1, 32)
        on = np.broadcast_to(active, (*shape, 32)).reshape(-1, 32)
        return _figure(kind, whole, on, width).reshape(shape)


class Lanes:
    """The lanes that make an access: `bits` (programs, warps, 32 or 1), a `ballot` of each warp, those with any."""

    def __init__(self, bits: Array) -> None:
        self.bits = bits
        self.ballots: Array = ballot(bits)[:, :, 0]
        self.warps: Array = self.ballots != 0

    @property
    def number(self) -> Array:
        """Lanes of each warp (numpy before 2.0 has no count of bits)."""
        n = self.ballots
        n = n - ((n >> 1) & 0x55555555)
        n = (n & 0x33333333) + ((n >> 2) & 0x33333333)
        n = ((n + (n >> 4)) & 0x0F0F0F0F) * np.uint32(0x01010101)
        return (n >> 24).astype(np.int64)


class _NotKnown(Exception):
    def __init__(self, reason: str, cause: Cause | None = None) -> None:
        super().__init__(reason)
        self.cause = cause


def _expects(instruction: Instruction) -> bool:
    return instruction.opcode == "SYNCS" and instruction.modifiers == EXPECTS


def through_l1(instruction: Instruction) -> bool:
    """Whether a read goes through L1, where it may hit what was read before."""
    return instruction.opcode in ("LDG", "LDGSTS") and "BYPASS" not in instruction.modifiers


class ReadOnce:
    """Whether reads through L1 touch each sector once in the whole grid, so that none of them can hit.

    Kept up to a number of accesses; beyond it nothing is claimed.
    """

    def __init__(self) -> None:
        self._sectors: list[Array] = []
        self._room = MOST_READS_KEPT
        self._whole = True

    def look(self, low: Word, high: Word | None, active: Array, machine: Machine) -> None:
        """Add one issue of a load."""
        lanes = machine.batch.size * machine.shape.warps * 32
        if high is None or machine.batch.weight != 1 or lanes > self._room:
            self._whole = False
        if not self._whole or high is None:
            return
        self._room -= lanes
        joined = low.bits.astype(np.int64) + (high.bits.astype(np.int64) << 32)
        shape = (machine.batch.size, machine.shape.warps, 32)
        ids = np.where(np.broadcast_to(active, shape), np.broadcast_to(joined, shape) // SECTOR_BYTES, -1)
        ordered, new = _in_order(ids.reshape(-1, 32))
        self._sectors.append(ordered[new])

    def proven(self) -> bool:
        """Whether every sector was asked for once."""
        if not self._whole:
            return False
        every = np.concatenate(self._sectors) if self._sectors else np.zeros(0, np.int64)
        return len(_distinct(every)) == len(every)


class TensorObserver(Observer):
    """Adds up the operations of tensor instructions whose shape is in a descriptor (sm_100)."""

    def __init__(self) -> None:
        self.operations: dict[int, int | None] = {}

    def wants(self, instruction: Instruction) -> bool:
        """See every one of them."""
        return bool(descriptor_registers(instruction))

    def forget(self) -> None:
        """Start over."""
        self.operations.clear()

    def access(self, machine: Machine, instruction: Instruction, mask: Array | None, guard: Flag) -> None:
        """Add one issue, which works where any lane of the warp is active."""
        (register,) = descriptor_registers(instruction)
        value = machine.read(register)
        assert isinstance(value, Word)
        active = (guard.bits if mask is None else mask & guard.bits).any(2)
        found = self.operations.get(instruction.index, 0)
        if guard.is_open(mask) or value.unknown is not None or value.part.size != 1 or found is None:
            self.operations[instruction.index] = None
            return
        one = utc_operations(instruction.opcode, int(value.part.flat[0]))
        times = _weigh(active, machine)
        self.operations[instruction.index] = None if one is None else found + one * times


def says_all(instruction: Instruction, converged: bool) -> bool:
    """Whether an access needs no looking at: its address does not matter, and whole warps do it or none.

    converged: no lanes of a warp ever part in this kernel.
    """
    kinds = (*_LOCAL, *_OPERANDS) if converged else _OPERANDS
    return instruction.opcode in kinds and not instruction.conditional


def whole_access(instruction: Instruction, executed: int) -> Access:
    """Return what such an access does when warps execute it so often."""
    if instruction.opcode in _OPERANDS:
        wavefronts = executed * operand_lines(instruction) // 4
        return Access(
            executed, executed, 128 * wavefronts, wavefronts=wavefronts, ideal_wavefronts=wavefronts
        )
    # A thread's local memory is laid out so that 32 lanes' words lie side by side.
    width = lane_bytes(instruction.modifiers)
    sectors = executed * 4 * max(width // 4, 1)
    return Access(executed, executed, executed * 32 * width, sectors, sectors)


def broken_sectors(launch: Launch) -> str | None:
    """Return why tensor copies may fetch more than the bytes that are waited for, or None if they do not.

    Read on an H200: a row of a tile that begins or ends inside a sector fetches the whole of it.
    """
    descriptors = {name: a for name, a in launch.args.items() if isinstance(a, Descriptor)}
    if not descriptors:
        return "a descriptor is made on the GPU, and whether its tiles are made of whole sectors is not known"
    for name, a in descriptors.items():
        size = a.tensor.dtype.bytes
        spans = (a.tensor.shape[-1], a.block_shape[-1], *a.tensor.strides[:-1])
        if a.tensor.offset_bytes % SECTOR_BYTES or any(n * size % SECTOR_BYTES for n in spans):
            return f"rows of {name} do not begin or end where sectors of {SECTOR_BYTES} bytes do"
    return None


def operand_lines(instruction: Instruction) -> int:
    """Lines of 128 bytes that a warp group reads for one MMA: B whole, A where it is not in registers.

    Each takes a wavefront; the group's four warps share them. Nsight Compute's source page has the same (H200, for one
    warp: 64x32x16 of bf16 with A in shared memory 6, 64x64x16 with A in registers 4, 64x8x16 4.5 and 0.5).
    """
    shape = next(m for m in instruction.modifiers if m.count("x") == 2)
    rows, columns, depth = (int(n) for n in shape.split("x"))
    depth_bytes = depth * (
        4 if "TF32" in instruction.modifiers else 2 if instruction.opcode == "HGMMA" else 1
    )
    a_in_registers = isinstance(instruction.operands[1], RegisterOperand)
    return (columns + (0 if a_in_registers else rows)) * depth_bytes // 128


def matrices(instruction: Instruction) -> int:
    """Matrices of 8 rows of 16 bytes that a warp loads or stores at once."""
    return next((int(m) for m in reversed(instruction.modifiers) if m in ("1", "2", "4")), 1)


def _warps(mask: Array | None) -> Array:
    return np.ones((1, 1), bool) if mask is None else mask.any(2)


def _weigh(figures: Array, machine: Machine) -> int:
    """Sum figures per (program, warp) over the grid."""
    batch = machine.batch
    alike = (batch.size // figures.shape[0]) * (machine.shape.warps // figures.shape[1])
    total: int = int(figures.sum()) * alike * batch.weight
    return total


def _same_in_lanes(w: Word) -> bool:
    """Whether a word is seen at a glance to be the same in all lanes of a warp."""
    lanes = w.part if w.lane_part is None else w.lane_part
    if lanes.shape[2] == 1:
        return True
    return lanes.shape[0] == 1 and bool((lanes == lanes[:, :, :1]).all())


def _figure(kind: str, addresses: Array, on: Array, width: int) -> Array:
    """Work out a figure for rows of 32 lanes' addresses."""
    if kind in ("sectors", "lines"):
        return _spans(addresses.astype(np.int64), on, SECTOR_BYTES if kind == "sectors" else 128)
    if kind.startswith("matrix"):
        count = int(kind.split()[1])
        parts = [slice(8 * n, 8 * n + 8) for n in range(count)]
        every = np.ones_like(on[:, :8])
        if kind.endswith("ideal"):
            return np.full(len(on), count, np.int64) * on.any(1)
        total = sum((_wavefronts(addresses[:, p], every, 16) for p in parts), np.zeros(len(on), np.int64))
        return np.asarray(total) * on.any(1)
    lanes = 32 if width <= 4 else 128 // width
    parts = [slice(n, n + lanes) for n in range(0, 32, lanes)]
    if kind == "shared loads" and width >= 8:
        return _wide_loads(addresses, on, lanes)
    if kind.endswith("ideal"):
        return np.asarray(sum((on[:, p].any(1).astype(np.int64) for p in parts), np.zeros(len(on), np.int64)))
    return np.asarray(
        sum((_wavefronts(addresses[:, p], on[:, p], width) for p in parts), np.zeros(len(on), np.int64))
    )


def _wide_loads(addresses: Array, on: Array, lanes: int) -> Array:
    """Loads of 8 or 16 bytes a lane: `lanes` of them in turn, twice as many where each has its neighbour's address.

    The neighbour of lane i is i ^ 1 throughout, or i ^ 2 throughout: read on an H200 with every pattern of one bit.
    """
    width = 128 // lanes
    total = np.zeros(len(on), np.int64)
    for start in range(0, 32, 2 * lanes):
        span = slice(start, start + 2 * lanes)
        two, active = addresses[:, span], on[:, span]
        together = _wavefronts(two, active, width)
        apart = sum(_wavefronts(two[:, p], active[:, p], width) for p in (slice(lanes), slice(lanes, None)))
        alike = np.zeros(len(on), bool)
        for step in (1, 2):
            other = np.arange(2 * lanes) ^ step
            alike |= ((two == two[:, other]) | ~active | ~active[:, other]).all(1)
        total += np.where(alike, together, apart)
    return total


def _spans(addresses: Array, on: Array, size: int) -> Array:
    """Distinct spans of `size` bytes that the lanes touch; no access is wider than one, and all are aligned."""
    _, new = _in_order(np.where(on, addresses // size, -1))
    return new.sum(1)


def _in_order(ids: Array) -> tuple[Array, Array]:
    """Return each row sorted, and where in it a number stands for the first time; -1 counts as none."""
    ordered = np.sort(ids, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, new


def _distinct(numbers: Array) -> Array:
    """Return the different numbers, in order: several times faster than numpy's unique, which hashes."""
    if len(numbers) == 0 or bool((numbers == numbers[0]).all()):
        return numbers[:1]
    ordered = np.sort(numbers)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


def _wavefronts(addresses: Array, on: Array, width: int) -> Array:
    """The most distinct 4-byte words that one of the 32 banks has to deliver."""
    words = max(width // 4, 1)
    ids = (addresses.astype(np.int64)[:, :, None] // 4 + np.arange(words)).reshape(len(addresses), -1)
    ids = np.where(np.repeat(on, words, axis=1), ids, -1)
    ordered, new = _in_order(ids)
    rows = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
    counts = np.zeros((len(ids), 32), np.int64)
    np.add.at(counts, (rows[new], ordered[new] % 32), 1)
    return counts.max(1)
