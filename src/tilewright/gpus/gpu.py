"""The noun ``Gpu``: a GPU's limits and peak rates, units in the names, a source for each figure.

An *SM* is what hands out registers and shared memory to a program: a streaming multiprocessor at NVIDIA, a
compute unit (CU) on AMD's CDNA, a work-group processor (WGP, two CUs) on AMD's RDNA. A *warp* is AMD's
wave, a *block* is a Triton program (AMD's work-group), *shared memory* is AMD's LDS. Rates count a
multiply-add as two operations and are dense (no sparsity).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.errors import TilewrightError

SCHEMA = "tilewright.gpu/1"


class GpuError(TilewrightError, ValueError):
    """A GPU that cannot be found, read, believed or computed with; the message says which and what to do."""


@dataclass(frozen=True)
class Target:
    """What Triton compiles for: ``GPUTarget(backend, arch, warp_size)``."""

    backend: str  # "cuda" or "hip"
    arch: int | str  # 89 at NVIDIA, "gfx942" at AMD
    warp_size: int  # threads


@dataclass(frozen=True)
class Compute:
    """How many units there are and what each starts per clock."""

    sms: int  # as a program on the device counts them
    subpartitions_per_sm: int  # each with its own registers and scheduler; SIMDs at AMD
    issue_slots_per_clock_per_sm: int  # vector instructions (one per warp) that an SM can start per clock
    fp32_ops_per_clock_per_sm: int  # vector units, FMA = 2
    ex2_per_clock_per_sm: int  # base-2 exponentials, results per clock
    fp64_ops_per_clock_per_sm: int | None = None  # vector units, FMA = 2
    load_store_lanes_per_clock_per_sm: int | None = None  # thread addresses per clock
    shared_bytes_per_clock_per_sm: int | None = None  # read or written in shared memory


@dataclass(frozen=True)
class Limits:
    """What an SM has to share out, in which units, and how much one program may take."""

    registers_per_sm: int  # 32-bit, one thread's worth each
    max_registers_per_thread: int
    register_unit_per_warp: int  # 32-bit registers; a warp's allocation is rounded up to this
    shared_bytes_per_sm: int  # at the largest carve-out
    max_shared_bytes_per_block: int  # with the opt-in that Triton makes
    reserved_shared_bytes_per_block: int  # taken by the driver on top of what the program asks for
    shared_unit_bytes: int  # a block's allocation is rounded up to this
    max_warps_per_sm: int
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    tensor_memory_columns_per_sm: int | None = None  # where tensor cores have a memory of their own (sm_100)


@dataclass(frozen=True)
class Memory:
    """Capacities in bytes, bandwidths in GB/s (10^9 bytes per second)."""

    l1_plus_shared_bytes_per_sm: int
    l2_bytes: int
    dram_bytes: int
    dram_gbps: float
    l2_gbps: float | None = None  # L2 to the SMs


@dataclass(frozen=True)
class Clocks:
    """``boost_ghz`` is the vendor's highest; ``tensor_ghz`` is set where its tensor peaks use a lower one."""

    boost_ghz: float
    tensor_ghz: float | None = None
    sustained_ghz: float | None = None  # measured under tensor load, see its source


@dataclass(frozen=True)
class Gpu:
    """One GPU as a program sees it. Hashable and picklable; ``to_dict`` gives JSON-ready data.

    ``tensor_ops_per_clock_per_sm`` is keyed by input and accumulator type, such as ``"bf16_fp32acc"``;
    ``"fp64"`` is fp64 throughout. A key that is absent means that the hardware has no such rate, or that
    ``unknown`` says why it is not given. ``tensor_sync_ops_per_clock_per_sm`` is the lower rate of
    warp-level ``mma.sync`` where the tensor cores reach their full rate only through warp-group
    instructions (Hopper). ``sources`` has one entry for each figure, keyed ``"table.figure"``; ``unknown``
    says of an absent figure why it is absent.
    """

    slug: str
    name: str
    aliases: tuple[str, ...]
    vendor: str  # "nvidia" or "amd"
    chip: str
    arch: str  # "sm_89", "gfx942"
    target: Target
    compute: Compute
    limits: Limits
    memory: Memory
    clocks: Clocks
    tensor_ops_per_clock_per_sm: Mapping[str, int] = field(hash=False)
    tensor_sync_ops_per_clock_per_sm: Mapping[str, float] = field(hash=False)
    published_tflops: Mapping[str, float] = field(hash=False)
    sources: Mapping[str, str] = field(hash=False)
    unknown: Mapping[str, str] = field(hash=False)
    notes: tuple[str, ...] = ()

    def clock_ghz(self, kind: str) -> float:
        """The clock of the vendor's peak: boost for fp32 and fp64, maybe a lower one for tensor types."""
        vector = kind.startswith("fp64") or kind == "fp32"
        return self.clocks.boost_ghz if vector else self.clocks.tensor_ghz or self.clocks.boost_ghz

    def ops_per_clock_per_sm(self, kind: str) -> int | None:
        """Rate of a tensor key, ``"fp32"`` or ``"fp64_vector"``; None where there is none."""
        if kind == "fp32":
            return self.compute.fp32_ops_per_clock_per_sm
        if kind == "fp64_vector":
            return self.compute.fp64_ops_per_clock_per_sm
        return self.tensor_ops_per_clock_per_sm.get(kind)

    def peak_tflops(self, kind: str, clock_ghz: float | None = None) -> float | None:
        """Peak in 10^12 operations/s: operations/clock/SM x SMs x clock (the vendor's by default)."""
        ops = self.ops_per_clock_per_sm(kind)
        if ops is None:
            return None
        return ops * self.compute.sms * (clock_ghz or self.clock_ghz(kind)) / 1000

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the version of its schema."""
        return {"schema": SCHEMA, **asdict(self)}
