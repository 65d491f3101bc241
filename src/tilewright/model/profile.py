"""`Profile`: one launch on one GPU: what the compiler made of it, what fits on an SM, and how the grid fills it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from tilewright.amdgcn import StaticCounts, static_counts
from tilewright.compile import Compiled, Failure, Result
from tilewright.gpus import Gpu
from tilewright.gpus.occupancy import Occupancy, Waves, max_registers_per_thread, waves
from tilewright.launch import Launch, Needed
from tilewright.model.cliffs import Cliff, find_cliffs, occupancy_of
from tilewright.model.counted import SourceLine, counters_dict, source_lines
from tilewright.model.limits import Busy, busy
from tilewright.sass import Counters
from tilewright.ttgir import Layout, summarise

SCHEMA = "tilewright.profile/1"


@dataclass(frozen=True)
class DoesNotFit:
    """Why not even one program can run: the resource, what is required, the limit (None where words say it)."""

    resource: str
    required: int | None
    limit: int | None
    message: str


@dataclass(frozen=True)
class Profile:
    """A launch on a GPU. Where compiling failed, `failure` says why and everything after it is None.

    `register_cap` is the most registers per thread with which one program of so many warps fits. `counters` is
    what the launch executes; None where it was not counted.
    """

    launch: Launch
    gpu: Gpu
    compiled: Compiled | None
    failure: Failure | None
    layout: Layout | None
    does_not_fit: DoesNotFit | None
    occupancy: Occupancy | None
    waves: Waves | None
    cliffs: tuple[Cliff, ...]
    register_cap: int | None
    counters: Counters | None = None

    @cached_property
    def lines(self) -> tuple[SourceLine, ...]:
        """What each line of source executes; empty where that was not counted or is not known."""
        return source_lines(self.counters, str(self.launch.kernel.path)) if self.counters else ()

    @cached_property
    def busy(self) -> tuple[Busy, ...]:
        """How long each unit is busy at least, longest first; empty where that is not known."""
        return busy(self.gpu, self.counters, self.needed) if self.counters else ()

    @cached_property
    def static(self) -> StaticCounts | None:
        """What stands in AMD's machine code; None where there is none."""
        text = self.compiled.asm.get("amdgcn") if self.compiled else None
        return static_counts(text, str(self.launch.kernel.path)) if text else None

    @property
    def needed(self) -> Needed | None:
        """What the case says that its algorithm needs; None where it says nothing."""
        return self.launch.needed

    @property
    def needed_factor(self) -> float | None:
        """Tensor operations executed over operations needed; None where either is unknown or zero."""
        executed = self.counters.total_tensor_ops if self.counters else None
        if not executed or self.needed is None or not self.needed.operations:
            return None
        return executed / self.needed.operations

    @property
    def fits(self) -> bool:
        """Whether the launch compiles and at least one program of it fits on an SM."""
        return self.compiled is not None and self.does_not_fit is None

    @property
    def padding_bytes(self) -> int | None:
        """Shared memory between and after the buffers that the compiler left for alignment."""
        if self.compiled is None or self.layout is None:
            return None
        sizes = [b.bytes for b in self.layout.buffers if b.shares_with is None]
        if any(s is None for s in sizes):
            return None
        return self.compiled.shared_bytes - sum(s or 0 for s in sizes)

    def to_dict(self, instructions: bool = False) -> dict[str, Any]:
        """Return the JSON form, schema `tilewright.profile/1`.

        instructions: with the counts of every machine instruction, which are most of what there is to say.
        """
        return {
            "schema": SCHEMA,
            "kernel": self.launch.kernel.to_dict(),
            "gpu": {
                "slug": self.gpu.slug,
                "name": self.gpu.name,
                "arch": self.gpu.arch,
                "sms": self.gpu.compute.sms,
            },
            "launch": self.launch.to_dict(),
            "fits": self.fits,
            "failure": self.failure.to_dict() if self.failure else None,
            "does_not_fit": asdict(self.does_not_fit) if self.does_not_fit else None,
            "compiled": _compiled_dict(self.compiled) if self.compiled else None,
            "layout": self.layout.to_dict() if self.layout else None,
            "shared": self._shared_dict(),
            "registers": {"cap": self.register_cap} if self.compiled else None,
            "occupancy": _occupancy_dict(self.occupancy, self.cliffs) if self.occupancy else None,
            "waves": asdict(self.waves) if self.waves else None,
            "needed": asdict(self.needed) if self.needed else None,
            "busy": [asdict(b) for b in self.busy],
            "counters": counters_dict(self.counters, self.lines, instructions) if self.counters else None,
            "static": self.static.to_dict() if self.static else None,
        }

    def _shared_dict(self) -> dict[str, Any] | None:
        if self.layout is None:
            return None
        return {
            "buffers": [{**asdict(b), "shape": list(b.shape)} for b in self.layout.buffers],
            "padding_bytes": self.padding_bytes,
            "stage_bytes": self.layout.stage_bytes,
        }


def make_profile(launch: Launch, gpu: Gpu, result: Result, counters: Counters | None = None) -> Profile:
    """Work out a Profile from a compile's result, and from its counters where there are any."""
    if isinstance(result, Failure):
        fit = _failed_for_resources(result)
        return Profile(launch, gpu, None, result, None, fit, None, None, (), None)
    layout = summarise(result.asm["ttgir"], result.buffer_bytes)
    threads = result.num_warps * gpu.target.warp_size
    cap = None
    if threads <= gpu.limits.max_threads_per_block:
        cap = max_registers_per_thread(gpu, result.num_warps)
    found = occupancy_of(gpu, result)
    fit = _does_not_fit(gpu, result, found)
    blocks = launch.programs * result.num_ctas
    filled = waves(gpu, blocks, found.programs_per_sm) if fit is None and blocks else None
    return Profile(
        launch=launch,
        gpu=gpu,
        compiled=result,
        failure=None,
        layout=layout,
        does_not_fit=fit,
        occupancy=found,
        waves=filled,
        cliffs=find_cliffs(gpu, result, layout, found),
        register_cap=cap,
        counters=counters,
    )


def _failed_for_resources(failure: Failure) -> DoesNotFit | None:
    if failure.kind != "out_of_resources":
        return None
    return DoesNotFit(failure.resource or "resource", failure.required, failure.limit, failure.message)


def _does_not_fit(gpu: Gpu, compiled: Compiled, found: Occupancy) -> DoesNotFit | None:
    if found.programs_per_sm > 0 and found.reason is None:
        return None
    message = found.reason or "no program fits on an SM"
    threads = compiled.num_warps * gpu.target.warp_size
    if threads > gpu.limits.max_threads_per_block:
        return DoesNotFit("threads", threads, gpu.limits.max_threads_per_block, message)
    if compiled.shared_bytes > gpu.limits.max_shared_bytes_per_block:
        limit = gpu.limits.max_shared_bytes_per_block
        return DoesNotFit("shared memory", compiled.shared_bytes, limit, message)
    columns = gpu.limits.tensor_memory_columns_per_sm or 0
    if compiled.tensor_memory_columns > columns:
        return DoesNotFit("tensor memory", compiled.tensor_memory_columns, columns, message)
    return DoesNotFit(
        "registers", compiled.registers, max_registers_per_thread(gpu, compiled.num_warps), message
    )


def _compiled_dict(c: Compiled) -> dict[str, Any]:
    return {
        "registers": c.registers,
        "spilled_registers": c.spilled_registers,
        "shared_bytes": c.shared_bytes,
        "stack_bytes": c.stack_bytes,
        "tensor_memory_columns": c.tensor_memory_columns,
        "num_warps": c.num_warps,
        "num_stages": c.num_stages,
        "num_ctas": c.num_ctas,
        "signature": dict(c.signature),
        "constexprs": dict(c.constexprs),
        "divisible_by_16": list(c.divisible_by_16),
        "triton_version": c.triton_version,
        "seconds": c.seconds,
        "cached": c.cached,
        "depth": c.depth,
        "notes": list(c.notes),
    }


def _occupancy_dict(o: Occupancy, cliffs: tuple[Cliff, ...]) -> dict[str, Any]:
    return {
        "programs_per_sm": o.programs_per_sm,
        "limiter": list(o.limiter),
        "by_resource": dict(o.by_resource),
        "warps_resident": o.warps_resident,
        "fraction": o.fraction,
        "cliffs": [asdict(c) for c in cliffs],
    }
