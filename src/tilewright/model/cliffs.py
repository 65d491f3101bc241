"""Occupancy cliffs: the smallest change of stages, shared memory or registers that changes programs per SM."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compile import Compiled
from tilewright.gpus import Gpu
from tilewright.gpus.occupancy import Occupancy, occupancy
from tilewright.ttgir import Layout


@dataclass(frozen=True)
class Cliff:
    """What would change occupancy: `change` in words, programs per SM after it, and what binds then.

    `shared_bytes` and `registers` are what the kernel would use then. Modelled: the compiler may decide
    otherwise, and a change of stages is taken to change the pipeline's buffers alone.
    """

    change: str
    programs_per_sm: int
    limiter: tuple[str, ...]
    shared_bytes: int
    registers: int


def occupancy_of(
    gpu: Gpu, compiled: Compiled, registers: int | None = None, shared_bytes: int | None = None
) -> Occupancy:
    """Occupancy of a compiled kernel, as it is or with other registers or shared memory.

    A compile that stopped at TTGIR knows no registers: zero leaves the other resources to decide.
    """
    return occupancy(
        gpu,
        registers=(compiled.registers or 0) if registers is None else registers,
        shared_bytes=compiled.shared_bytes if shared_bytes is None else shared_bytes,
        warps=compiled.num_warps,
        tensor_memory_columns=compiled.tensor_memory_columns,
    )


def find_cliffs(gpu: Gpu, compiled: Compiled, layout: Layout, now: Occupancy) -> tuple[Cliff, ...]:
    """Return the nearest cliffs, gains first: one stage fewer or more, fewer or more bytes and registers."""
    if compiled.registers is None:
        return ()
    if now.reason is not None:
        fewer = _stages(gpu, compiled, layout, -1)
        return (fewer,) if fewer is not None and fewer.programs_per_sm else ()
    candidates = [
        _stages(gpu, compiled, layout, -1),
        _stages(gpu, compiled, layout, +1),
        _registers(gpu, compiled, now, -1),
        _registers(gpu, compiled, now, +1),
    ]
    found = [c for c in candidates if c is not None and c.programs_per_sm != now.programs_per_sm]
    if not any(c.programs_per_sm > now.programs_per_sm for c in found):
        less = _less_shared(gpu, compiled, now)
        found += [less] if less is not None else []
    return tuple(sorted(found, key=lambda c: -c.programs_per_sm))


def _cliff(gpu: Gpu, compiled: Compiled, change: str, registers: int, shared_bytes: int) -> Cliff:
    then = occupancy_of(gpu, compiled, registers, shared_bytes)
    programs = then.programs_per_sm if then.reason is None else 0
    return Cliff(change, programs, then.limiter, shared_bytes, registers)


def _stages(gpu: Gpu, compiled: Compiled, layout: Layout, by: int) -> Cliff | None:
    copies = [b.copies for b in layout.buffers if b.role == "pipeline"]
    if not copies or min(copies) + by < 1:
        return None
    own = compiled.loop_stages
    if len(own) > 1:
        return None
    stages = (own[0] if own else compiled.num_stages) + by
    change = f"one stage {'fewer' if by < 0 else 'more'} ({stages}{', in tl.range' if own else ''})"
    shared_bytes = compiled.shared_bytes + by * layout.stage_bytes
    return _cliff(gpu, compiled, change, compiled.registers or 0, shared_bytes)


def _registers(gpu: Gpu, compiled: Compiled, now: Occupancy, by: int) -> Cliff | None:
    """Step through register counts until programs per SM change; none if another resource holds them first."""
    registers = compiled.registers or 0
    limit = gpu.limits.max_registers_per_thread
    for tried in range(registers + by, (16 if by < 0 else limit) + by, by):
        then = occupancy_of(gpu, compiled, tried)
        if then.programs_per_sm != now.programs_per_sm:
            count = abs(tried - registers)
            what = f"{count} register{'' if count == 1 else 's'} a thread"
            change = f"{what} {'fewer' if by < 0 else 'more'} ({tried})"
            return _cliff(gpu, compiled, change, tried, compiled.shared_bytes)
    return None


def _less_shared(gpu: Gpu, compiled: Compiled, now: Occupancy) -> Cliff | None:
    """The largest shared memory with which one more program fits, if shared memory is what binds."""
    if now.limiter != ("shared memory",):
        return None
    limits = gpu.limits
    share = limits.shared_bytes_per_sm // (now.programs_per_sm + 1)
    allowed = (
        share // limits.shared_unit_bytes * limits.shared_unit_bytes - limits.reserved_shared_bytes_per_block
    )
    if not 0 < allowed < compiled.shared_bytes:
        return None
    change = f"{compiled.shared_bytes - allowed:,} bytes of shared memory fewer ({allowed:,})"
    return _cliff(gpu, compiled, change, compiled.registers or 0, allowed)
