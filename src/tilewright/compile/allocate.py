"""Shared memory as the compiler allocates it: its own passes run on a copy of the TTGIR, offsets read off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from tilewright.compile.buffers import measure_buffers


class Allocated:
    """The TTGIR after shared-memory allocation, with the total and each operation's scratch."""

    def __init__(self, ttgir: str, buffer_bytes: dict[str, int]) -> None:
        self.ttgir, self.buffer_bytes = ttgir, buffer_bytes
        self.shared_bytes = _module_attribute(ttgir, "ttg.shared", 0)
        warps = _module_attribute(ttgir, "ttg.num-warps", 4)
        self.total_warps = _module_attribute(ttgir, "ttg.total-num-warps", warps)


def _module_attribute(ttgir: str, name: str, default: int) -> int:
    match = re.search(rf'"?{re.escape(name)}"? = (\d+) : i32', ttgir)
    return int(match[1]) if match else default


def allocate(
    ttgir: str, target: GPUTarget, metadata: dict[str, Any], scratch: Path, notes: list[str]
) -> Allocated | None:
    """Run the compiler's own allocation passes on a copy of the TTGIR, loops kept, and read the offsets."""
    try:
        text = _run_passes(ttgir, target, metadata, scratch)
        # Alone in a module, an operation's result is unused: no pass may run that would drop it.
        alone = lambda t: _run_passes(t, target, metadata, scratch, prepare=False)  # noqa: E731
        return Allocated(text, measure_buffers(text, alone))
    except Exception as e:
        notes.append(f"shared-memory offsets unknown: {type(e).__name__}: {e}")
        return None


def _run_passes(
    ttgir: str, target: GPUTarget, metadata: dict[str, Any], scratch: Path, prepare: bool = True
) -> str:
    """Allocate shared memory in a module as the compile does (after the passes before it) and return its text."""
    passes, ir = libtriton.passes, libtriton.ir
    file = scratch / "allocate.ttgir"
    file.write_text(ttgir)
    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    module = ir.parse_mlir_module(str(file), context)
    module.context = context
    pm = ir.pass_manager(context)
    if target.backend == "cuda":
        from triton.backends.nvidia.compiler import get_ptx_version_from_options

        options = type("Options", (), metadata)
        ptx_version = get_ptx_version_from_options(options, target.arch)
        if prepare:
            passes.ttgpuir.add_combine_tensor_select_and_if(pm)
            _add_allocate_warp_groups(pm)
            passes.gluon.add_inliner(pm)
        libtriton.nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(pm, target.arch, ptx_version)
    else:
        if prepare:
            passes.gluon.add_inliner(pm)
        _add_allocate_amd(pm, metadata["arch"])
    pm.run(module, "allocate")
    return str(module)


def _add_allocate_amd(pm: Any, arch: str) -> None:
    try:
        libtriton.amd.passes.ttgpuir.add_allocate_shared_memory(pm, arch)
    except TypeError:  # before Triton 3.9 the pass does not ask for the target
        libtriton.amd.passes.ttgpuir.add_allocate_shared_memory(pm)


def _add_allocate_warp_groups(pm: Any) -> None:
    try:
        libtriton.passes.ttgpuir.add_allocate_warp_groups(pm)
    except TypeError:  # Triton 3.9 asks whether the concurrency sanitizer is on
        libtriton.passes.ttgpuir.add_allocate_warp_groups(pm, False)
