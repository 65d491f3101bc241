"""How long each unit of the GPU is busy at least with what a launch executes: the longest is the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.gpus import Gpu
from tilewright.launch import Needed
from tilewright.sass import Counters

WARP = 32
FMA_WARPS_PER_CLOCK = 4
ALU_WARPS_PER_CLOCK = 2
"""An SM's fma pipe takes 128 lanes a clock and its alu pipe 64 (NVIDIA CUDA C++ Programming Guide, throughput of native
arithmetic instructions, compute capability 8.6 to 12.0; half the fp32 rate on 8.0 is in the catalog)."""
_WARPGROUP = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA")


@dataclass(frozen=True)
class Busy:
    """One unit: what it has to do, in its own units, and how long that takes it at least at the GPU's clock."""

    unit: str
    amount: float
    what: str
    seconds: float
    key: str


def busy(gpu: Gpu, counters: Counters, needed: Needed | None) -> tuple[Busy, ...]:
    """Return the units by the time that they are busy at least, longest first. Empty where nothing was counted.

    A launch cannot be faster than the longest; how much slower it is, latencies and the shape of the grid decide.
    Modelled: amounts are counted, rates are the catalog's, the clock is the sustained one where it was measured.
    """
    if not counters.instructions or gpu.vendor != "nvidia":
        return ()
    clock = 1e9 * (gpu.clocks.sustained_ghz or gpu.clocks.boost_ghz) * gpu.compute.sms
    found = [
        *_tensor(gpu, counters, clock),
        *_pipes(gpu, counters, clock),
        *_memory(gpu, counters, needed, clock),
    ]
    return tuple(sorted(found, key=lambda b: -b.seconds))


def _tensor(gpu: Gpu, counters: Counters, clock: float) -> Iterator[Busy]:
    """Tensor cores: each type at its own rate; instructions of single warps at theirs where they have one."""
    if not counters.total_tensor_ops:
        return
    total = 0.0
    types: dict[bool, int] = {}
    for row in counters.by_instruction:
        if row.tensor_ops:
            types[row.opcode in _WARPGROUP] = types.get(row.opcode in _WARPGROUP, 0) + row.tensor_ops
    every = sum(types.values())
    for part in counters.tensor_ops:
        key = rate_key(part.inputs, part.accumulator)
        full = gpu.tensor_ops_per_clock_per_sm.get(key)
        if full is None:
            return
        single = gpu.tensor_sync_ops_per_clock_per_sm.get(key, full)
        whole = types.get(True, 0) / every
        total += part.operations * (whole / full + (1 - whole) / single)
    operations = sum(part.operations for part in counters.tensor_ops)
    yield Busy("the tensor cores", operations, "operations", total / clock, "tensor")


def rate_key(inputs: str, accumulator: str) -> str:
    """The catalog's name of a rate: `bf16_fp32acc`."""
    short = "fp8" if inputs.startswith("fp8") else inputs
    return f"{short}_{accumulator.replace('s32', 'int32')}acc"


def _pipes(gpu: Gpu, counters: Counters, clock: float) -> Iterator[Busy]:
    pipes: Mapping[str, int] = counters.by_pipe
    compute = gpu.compute
    slots = compute.issue_slots_per_clock_per_sm
    assert counters.instructions is not None
    yield Busy(
        "issue slots",
        counters.instructions,
        "warp instructions",
        counters.instructions / slots / clock,
        "issue",
    )
    rates = {
        "fma": min(FMA_WARPS_PER_CLOCK, compute.fp32_ops_per_clock_per_sm / 2 / WARP),
        "alu": ALU_WARPS_PER_CLOCK,
        "xu": (compute.ex2_per_clock_per_sm or 0) / WARP,
        "lsu": (compute.load_store_lanes_per_clock_per_sm or 0) / WARP,
    }
    names = {
        "fma": "the multiply-add pipe",
        "alu": "the compare and convert pipe",
        "xu": "special functions",
        "lsu": "the load/store pipe",
    }
    for pipe, rate in rates.items():
        amount = pipes.get(pipe, 0)
        if amount and rate:
            yield Busy(names[pipe], amount, "warp instructions", amount / rate / clock, pipe)


def _memory(gpu: Gpu, counters: Counters, needed: Needed | None, clock: float) -> Iterator[Busy]:
    traffic = counters.traffic
    if traffic is not None:
        passes = sum(a.wavefronts for a in traffic.kinds.values())
        if passes and gpu.compute.shared_bytes_per_clock_per_sm:
            per_clock = gpu.compute.shared_bytes_per_clock_per_sm / 128
            yield Busy("shared memory", passes, "passes", passes / per_clock / clock, "shared")
        if traffic.l2_to_sm_bytes and traffic.l2_exact and gpu.memory.l2_gbps:
            moved = traffic.l2_to_sm_bytes
            yield Busy("L2 to the SMs", moved, "bytes", moved / (1e9 * gpu.memory.l2_gbps), "l2")
    if needed is not None and needed.bytes:
        yield Busy("DRAM", needed.bytes, "bytes needed", needed.bytes / (1e9 * gpu.memory.dram_gbps), "dram")
