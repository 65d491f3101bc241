"""From a request to a compiled kernel, inside the worker.

Stages are run one by one as `triton.compile` runs them (a test holds the two to the same code), so that each is
timed, a compile can stop after TTGIR, and shared-memory offsets can be read from the allocated TTGIR.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton._C import libtriton
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend

from tilewright.compile.allocate import Allocated, allocate
from tilewright.compile.cubin import (
    as_new_format,
    constant_bank,
    read_parameters,
    read_resources,
    with_fewer_registers,
)
from tilewright.compile.lines import LineTable, read_lines
from tilewright.compile.loading import load_kernel
from tilewright.compile.specialise import make_source, plain, specialisation, specialise


def run(request: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Compile one request and return a Compiled as a dict, with `files` (path to hash) beside it."""
    target = GPUTarget(request["backend"], request["arch"], request["warp_size"])
    backend = make_backend(target)
    front = (_given_ir if request.get("ir") else _kernel_of_file)(request, target, backend, scratch)
    started, options = time.perf_counter(), front.options
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    asm: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, front.language)
    clock = time.perf_counter()
    module = front.make_ir(context)
    notes = list(front.notes)
    allocated: Allocated | None = None
    for stage, compile_stage in stages.items():
        module = compile_stage(module, metadata)
        asm[stage] = module if isinstance(module, bytes) else str(module)
        seconds[stage], clock = time.perf_counter() - clock, time.perf_counter()
        if stage == "ttgir" and request["offsets"]:
            allocated = allocate(asm[stage], target, metadata, scratch, notes)
            seconds["allocate"], clock = time.perf_counter() - clock, time.perf_counter()
        if stage == request["depth"]:
            break
    name = str(metadata.get("name", front.name))
    resources = _resources(asm, name)
    texts = {k: v for k, v in asm.items() if isinstance(v, str)}
    machine_code = None
    if "cubin" in asm:
        texts["sass"] = _disassemble(asm["cubin"], scratch)
        machine_code = _machine_code(asm["cubin"], name, notes)
    seconds["disassemble"] = time.perf_counter() - clock
    if allocated is not None:
        texts["ttgir"] = allocated.ttgir
    # The pass that allocates here and the one in the compile must agree, or the offsets are another kernel's.
    shared = metadata.get("shared", allocated.shared_bytes if allocated else None)
    if shared is None:
        raise RuntimeError("shared memory could not be read: " + "; ".join(notes))
    if allocated is not None and allocated.shared_bytes != shared:
        notes.append(f"buffers add up to {allocated.shared_bytes} bytes where the compiler says {shared}")
    return {
        "target": {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size},
        "kernel": front.name,
        "num_warps": allocated.total_warps if allocated else int(metadata["num_warps"]),
        "num_stages": options.num_stages,
        "num_ctas": options.num_ctas,
        "shared_bytes": shared,
        **resources,
        "tensor_memory_columns": int(metadata.get("tmem_size") or 0),
        "asm": texts,
        "signature": dict(front.signature),
        "constexprs": dict(front.constexprs),
        "divisible_by_16": list(front.divisible_by_16),
        "options": {k: plain(v) for k, v in options.__dict__.items() if k not in ("extern_libs",)},
        "machine_code": machine_code,
        "buffer_bytes": allocated.buffer_bytes if allocated else {},
        "notes": notes,
        "triton_version": triton.__version__,
        "seconds": time.perf_counter() - started,
        "stage_seconds": seconds,
        "depth": request["depth"],
        "files": dict(front.files),
    }


class _Front(NamedTuple):
    """What the back end starts from: how to make the module, and what the kernel was specialised on."""

    name: str
    language: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any]
    divisible_by_16: list[str]
    options: Any
    make_ir: Callable[[Any], Any]
    files: Mapping[str, str]
    notes: tuple[str, ...]


def _kernel_of_file(request: dict[str, Any], target: GPUTarget, backend: Any, scratch: Path) -> _Front:
    function, loaded = load_kernel(Path(request["file"]), request["name"], target)
    signature, constexprs, attrs, options = specialise(function, backend, request)
    source = make_source(function, signature, constexprs, attrs)

    def make_ir(context: Any) -> Any:
        generators = backend.get_codegen_implementation(options)
        return source.make_ir(target, options, generators, backend.get_module_map(), context)

    seen = specialisation(function, signature, constexprs, attrs)
    return _Front(function.__name__, source.language, *seen, options, make_ir, loaded.files, loaded.notes)


def _given_ir(request: dict[str, Any], target: GPUTarget, backend: Any, scratch: Path) -> _Front:
    """A kernel that a program handed to the compiler: the module as it was before the first pass."""
    given = request["ir"]
    options = backend.parse_options({k: _tupled(v) for k, v in given["options"].items()})
    language = next(x for x in Language if x.name.lower() == given["language"])

    def make_ir(context: Any) -> Any:
        file = scratch / "kernel.mlir"
        file.write_text(given["text"], encoding="utf-8")
        module = libtriton.ir.parse_mlir_module(str(file), context)
        module.context = context
        return module

    seen = given["signature"], given["constexprs"], given["divisible_by_16"]
    return _Front(request["name"], language, *seen, options, make_ir, {}, ())


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def _resources(asm: dict[str, Any], name: str) -> dict[str, Any]:
    if "cubin" in asm:
        found = read_resources(asm["cubin"], name)
        return {
            "registers": found.registers,
            "stack_bytes": found.stack_bytes,
            "spilled_registers": found.stack_bytes // 4,
        }
    if "amdgcn" in asm:
        text = asm["amdgcn"]
        return {
            "registers": _amd_metadata(text, "vgpr_count"),
            "stack_bytes": _amd_metadata(text, "private_segment_fixed_size"),
            "spilled_registers": _amd_metadata(text, "vgpr_spill_count"),
        }
    return {"registers": None, "stack_bytes": None, "spilled_registers": None}


def _amd_metadata(amdgcn: str, key: str) -> int:
    match = re.search(rf"\.{key}:\s*(\d+)", amdgcn)
    if match is None:
        raise RuntimeError(f"the AMD assembly states no .{key}")
    return int(match[1])


def _machine_code(cubin: bytes, name: str, notes: list[str]) -> dict[str, Any]:
    parameters = read_parameters(cubin, name)
    tables = {}
    for key, section in (("source", ".debug_line"), ("ptx", ".nv_debug_line_sass")):
        try:
            tables[key] = read_lines(cubin, name, section)
        except ValueError as error:
            notes.append(f"source lines unknown: {error}")
            tables[key] = LineTable()
    return {
        "name": name,
        "parameters_at": parameters.base,
        "parameters": parameters.fields,
        "files": tables["source"].files,
        "lines": tables["source"].rows,
        "table": constant_bank(cubin, name, 2).hex(),
        "ptx_lines": [(offset, line) for offset, _, line in tables["ptx"].rows],
    }


def _disassemble(cubin: bytes, scratch: Path) -> str:
    """Return nvdisasm's text with, behind each instruction, the registers that it writes and reads."""
    cubin = with_fewer_registers(cubin)
    done = _nvdisasm(cubin, scratch)
    if done.returncode != 0 and "Old Elf" in done.stderr:
        done = _nvdisasm(as_new_format(cubin), scratch)
    if done.returncode != 0:
        raise RuntimeError(f"nvdisasm failed: {done.stderr.strip()}")
    return done.stdout


def _nvdisasm(cubin: bytes, scratch: Path) -> subprocess.CompletedProcess[str]:
    file = scratch / "kernel.cubin"
    file.write_bytes(cubin)
    return subprocess.run(
        [triton.knobs.nvidia.nvdisasm.path, "-c", "-plr", "-lrm", "narrow", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
    )
