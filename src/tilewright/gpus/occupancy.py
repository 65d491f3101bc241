"""How many programs of a kernel fit on one SM, which resource stops the next one, and how the grid fills
the GPU.

The arithmetic is that of NVIDIA's occupancy calculator (``cuda_occupancy.h``) and, with AMD's sizes, that
of LLVM's AMDGPU back end. It assumes the largest shared-memory carve-out; see docs/gpus.md for what else it
assumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.gpus.gpu import Gpu, GpuError

SHARED = "shared memory"
REGISTERS = "registers"
WARPS = "warps"
BLOCKS = "blocks"
TENSOR_MEMORY = "tensor memory"


@dataclass(frozen=True)
class Occupancy:
    """Programs resident on one SM.

    ``by_resource`` maps each resource to the programs that it alone would allow, None where it sets no
    limit. ``limiter`` names every resource that allows no more than ``programs_per_sm``. ``reason`` is None
    unless a single program does not fit.
    """

    programs_per_sm: int
    limiter: tuple[str, ...]
    by_resource: Mapping[str, int | None] = field(hash=False)
    warps_resident: int
    fraction: float  # of the warps that the SM can hold
    registers_per_program: int  # 32-bit registers, as allocated
    shared_bytes_per_program: int  # as allocated, the driver's part included
    reason: str | None = None


@dataclass(frozen=True)
class Waves:
    """How a grid fills the GPU if all programs take equally long."""

    programs: int
    slots: int  # programs resident on the whole GPU at once
    waves: float  # programs / slots
    last_wave_busy: float  # share of the slots that the last wave uses; 1.0 if it is full


def occupancy(
    gpu: Gpu,
    *,
    registers: int,
    shared_bytes: int,
    warps: int,
    tensor_memory_columns: int = 0,
    shared_bytes_per_sm: int | None = None,
) -> Occupancy:
    """Programs per SM for a kernel with ``registers`` per thread, ``shared_bytes`` and ``warps`` per
    program.

    ``shared_bytes`` is what the program asks for, static and dynamic; the driver's reservation is added
    here. ``tensor_memory_columns`` counts because a program that finds none free waits for them: it is
    resident, but does no work. ``shared_bytes_per_sm`` replaces the largest carve-out where the one in force
    is known (a profiler reports it). Raises GpuError for negative numbers and for fewer than one warp.
    """
    _check(registers=registers, shared_bytes=shared_bytes, tensor_memory_columns=tensor_memory_columns)
    _check_positive(warps=warps)
    limits = gpu.limits
    registers_per_warp = _round_up(registers * gpu.target.warp_size, limits.register_unit_per_warp)
    shared = _round_up(shared_bytes + limits.reserved_shared_bytes_per_block, limits.shared_unit_bytes)
    reason = _reason(gpu, registers, registers_per_warp, shared_bytes, warps)
    if reason is None and tensor_memory_columns > (limits.tensor_memory_columns_per_sm or 0):
        reason = (
            f"{tensor_memory_columns} columns of tensor memory per block, and an SM of {gpu.name} has "
            f"{limits.tensor_memory_columns_per_sm or 'none'}"
        )
    capacity = limits.shared_bytes_per_sm if shared_bytes_per_sm is None else shared_bytes_per_sm
    by_resource: dict[str, int | None] = {
        SHARED: _by_shared(gpu, shared, capacity),
        REGISTERS: _by_registers(gpu, registers, registers_per_warp, warps),
        WARPS: _by_warps(gpu, warps),
        BLOCKS: limits.max_blocks_per_sm,
    }
    if tensor_memory_columns:
        by_resource[TENSOR_MEMORY] = (limits.tensor_memory_columns_per_sm or 0) // tensor_memory_columns
    programs = min(limit for limit in by_resource.values() if limit is not None)
    return Occupancy(
        programs_per_sm=programs,
        limiter=tuple(name for name, limit in by_resource.items() if limit == programs),
        by_resource=by_resource,
        warps_resident=programs * warps,
        fraction=programs * warps / limits.max_warps_per_sm,
        registers_per_program=registers_per_warp * warps,
        shared_bytes_per_program=shared,
        reason=reason or (_carveout_reason(shared, capacity) if programs == 0 else None),
    )


def max_registers_per_thread(gpu: Gpu, warps: int) -> int:
    """Most registers a thread may use if one program of ``warps`` warps is to fit: 128 for 16 warps on
    NVIDIA.

    Registers belong to subpartitions, and a program's warps are dealt out to them evenly; so the fullest
    one decides. For warps in multiples of the subpartitions this is registers per SM / threads, rounded
    down to the unit. Raises GpuError if no program may have that many warps.
    """
    _check_positive(warps=warps)
    limits = gpu.limits
    if warps * gpu.target.warp_size > limits.max_threads_per_block:
        raise GpuError(_too_many_threads(gpu, warps))
    in_fullest = -(-warps // gpu.compute.subpartitions_per_sm)
    per_warp = limits.registers_per_sm // gpu.compute.subpartitions_per_sm // in_fullest
    whole_units = per_warp // limits.register_unit_per_warp * limits.register_unit_per_warp
    return min(limits.max_registers_per_thread, whole_units // gpu.target.warp_size)


def waves(gpu: Gpu, programs: int, programs_per_sm: int) -> Waves:
    """Waves of a grid of ``programs``, ``programs_per_sm`` resident on each SM. Raises GpuError below one."""
    _check_positive(programs=programs, programs_per_sm=programs_per_sm)
    slots = gpu.compute.sms * programs_per_sm
    in_last = programs % slots or slots
    return Waves(programs=programs, slots=slots, waves=programs / slots, last_wave_busy=in_last / slots)


def _by_shared(gpu: Gpu, allocated: int, capacity: int) -> int | None:
    limits = gpu.limits
    if allocated == 0:
        return None
    if allocated > limits.max_shared_bytes_per_block + limits.reserved_shared_bytes_per_block:
        return 0
    return capacity // allocated


def _by_registers(gpu: Gpu, registers: int, registers_per_warp: int, warps: int) -> int | None:
    if registers == 0:
        return None
    if registers > gpu.limits.max_registers_per_thread:
        return 0
    # A warp's registers lie in one subpartition: what is left over in each is lost.
    per_subpartition = gpu.limits.registers_per_sm // gpu.compute.subpartitions_per_sm
    resident_warps = per_subpartition // registers_per_warp * gpu.compute.subpartitions_per_sm
    return resident_warps // warps


def _by_warps(gpu: Gpu, warps: int) -> int:
    if warps * gpu.target.warp_size > gpu.limits.max_threads_per_block:
        return 0
    return gpu.limits.max_warps_per_sm // warps


def _reason(gpu: Gpu, registers: int, registers_per_warp: int, shared_bytes: int, warps: int) -> str | None:
    """Why not even one program fits, most basic reason first; None if it does at the largest carve-out."""
    limits = gpu.limits
    if warps * gpu.target.warp_size > limits.max_threads_per_block:
        return _too_many_threads(gpu, warps)
    if registers > limits.max_registers_per_thread:
        return f"{registers} registers per thread, and a thread may have {limits.max_registers_per_thread}"
    if _by_registers(gpu, registers, registers_per_warp, warps) == 0:
        most = max_registers_per_thread(gpu, warps)
        return (
            f"{registers} registers per thread in {warps} warps take {registers_per_warp * warps:,} "
            f"registers per block, and {gpu.name} has room for {most} per thread at this many warps"
        )
    if shared_bytes > limits.max_shared_bytes_per_block:
        return (
            f"{shared_bytes:,} B of shared memory per block, and {gpu.name} allows "
            f"{limits.max_shared_bytes_per_block:,} B"
        )
    return None


def _carveout_reason(shared: int, capacity: int) -> str:
    return f"{shared:,} B of shared memory per block, as allocated, and the carve-out holds {capacity:,} B"


def _too_many_threads(gpu: Gpu, warps: int) -> str:
    threads = warps * gpu.target.warp_size
    most = gpu.limits.max_threads_per_block
    return f"{warps} warps are {threads:,} threads per block, and {gpu.name} allows {most:,}"


def _round_up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


def _check(**amounts: int) -> None:
    for name, amount in amounts.items():
        if amount < 0:
            raise GpuError(f"{name} must not be negative, got {amount}")


def _check_positive(**amounts: int) -> None:
    for name, amount in amounts.items():
        if amount < 1:
            raise GpuError(f"{name} must be at least 1, got {amount}")
