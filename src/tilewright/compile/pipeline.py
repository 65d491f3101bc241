"""From a request to a compiled kernel, inside the worker.

Stages are run one by one as `triton.compile` runs them (a test holds the two to the same code), so that each is
timed, a compile can stop after TTGIR, and shared-memory offsets can be read from the allocated TTGIR.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import triton
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
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
from tilewright.compile.specialise import make_source, specialise


def run(request: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Compile one request and return a Compiled as a dict, with `files` (path to hash) beside it."""
    target = GPUTarget(request["backend"], request["arch"], request["warp_size"])
    function, loaded = load_kernel(Path(request["file"]), request["name"], target)
    started = time.perf_counter()
    backend = make_backend(target)
    signature, constexprs, attrs, options = specialise(function, backend, request)
    source = make_source(function, signature, constexprs, attrs)
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    asm: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    clock = time.perf_counter()
    module = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    notes = list(loaded.notes)
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
    name = str(metadata.get("name", function.__name__))
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
        "kernel": function.__name__,
        "num_warps": allocated.total_warps if allocated else int(metadata["num_warps"]),
        "num_stages": options.num_stages,
        "num_ctas": options.num_ctas,
        "shared_bytes": shared,
        **resources,
        "tensor_memory_columns": int(metadata.get("tmem_size") or 0),
        "asm": texts,
        "signature": {k: str(v) for k, v in signature.items()},
        "constexprs": {_path_name(function, k): _jsonable(v) for k, v in constexprs.items()},
        "divisible_by_16": [
            _path_name(function, k) for k, v in attrs.items() if any(a[0] == "tt.divisibility" for a in v)
        ],
        "options": {k: _jsonable(v) for k, v in options.__dict__.items() if k not in ("extern_libs",)},
        "machine_code": machine_code,
        "buffer_bytes": allocated.buffer_bytes if allocated else {},
        "notes": notes,
        "triton_version": triton.__version__,
        "seconds": time.perf_counter() - started,
        "stage_seconds": seconds,
        "depth": request["depth"],
        "files": loaded.files,
    }


def _path_name(function: Any, path: tuple[int, ...]) -> str:
    return ".".join([function.arg_names[path[0]], *map(str, path[1:])])


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


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
