"""From a request to a compiled kernel, inside the worker: the only module that drives Triton.

Stages are run one by one as `triton.compile` runs them (a test holds the two to the same cubin), so that each
is timed, a compile can stop after TTGIR, and shared-memory offsets can be read from the allocated TTGIR.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import linecache
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import triton
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from tilewright.compile import standins
from tilewright.compile.buffers import measure_buffers
from tilewright.compile.cubin import read_resources
from tilewright.launch import short_path


class KernelImportError(Exception):
    """The kernel's file does not load, or does not hold the kernel."""


def run(request: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Compile one request and return a Compiled as a dict, with `files` (path to hash) beside it."""
    target = GPUTarget(request["backend"], request["arch"], request["warp_size"])
    function, loaded = _load_kernel(Path(request["file"]), request["name"], target)
    started = time.perf_counter()
    backend = make_backend(target)
    signature, constexprs, attrs, options = _specialise(function, backend, request)
    source = _source(function, signature, constexprs, attrs)
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
    allocated: _Allocated | None = None
    for stage, compile_stage in stages.items():
        module = compile_stage(module, metadata)
        asm[stage] = module if isinstance(module, bytes) else str(module)
        seconds[stage], clock = time.perf_counter() - clock, time.perf_counter()
        if stage == "ttgir":
            allocated = _allocate(asm[stage], target, metadata, scratch, notes)
            seconds["allocate"], clock = time.perf_counter() - clock, time.perf_counter()
            if request["depth"] == "ttgir":
                break
    resources = _resources(asm, str(metadata.get("name", function.__name__)), target, scratch)
    binary = {"sass": resources.pop("sass", None)} if target.backend == "cuda" else {}
    seconds["disassemble"] = time.perf_counter() - clock
    texts = {k: v for k, v in {**asm, **binary}.items() if isinstance(v, str)}
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
        "buffer_bytes": allocated.buffer_bytes if allocated else {},
        "notes": notes,
        "triton_version": triton.__version__,
        "seconds": time.perf_counter() - started,
        "stage_seconds": seconds,
        "depth": request["depth"],
        "files": loaded.files,
    }


def failure_of(error: Exception) -> dict[str, Any]:
    """Put an exception of the compile into the words of a Failure."""
    if isinstance(error, KernelImportError):
        return {"kind": "import", "message": str(error)}
    if type(error).__name__ == "OutOfResources":
        return {
            "kind": "out_of_resources",
            "message": str(error),
            "required": getattr(error, "required", None),
            "limit": getattr(error, "limit", None),
            "resource": getattr(error, "name", None),
        }
    located = _located_errors(error)
    message = str(error)
    if located:
        # Triton gives the cause as its repr: NameError('x is not defined').
        message = getattr(located[-1], "error_message", None) or message
        message = re.sub(r"""^(\w+)\((['"])(.*)\2\)$""", r"\1: \3", message, flags=re.DOTALL)
    message = f"{type(error).__name__}: {message.strip()}" if message.strip() else type(error).__name__
    return {"kind": "error", "message": message, "place": _place(located)}


def _located_errors(error: BaseException | None) -> list[Any]:
    """Return the errors that name a place in a kernel's source, from the kernel inwards to the helper at fault."""
    located = []
    while error is not None:
        if hasattr(getattr(error, "node", None), "lineno"):
            located.append(error)
        error = error.__cause__
    return located


def _place(located: list[Any]) -> str | None:
    """Return `file:line: source` of the innermost error outside Triton's own library, or None."""
    for error in reversed(located):
        function = _function_with_source(error.src)
        if function is not None:
            file = function.fn.__code__.co_filename
            # Triton counts from the `def`, which stands below the decorators.
            above = next(i for i, line in enumerate(function.raw_src) if line.lstrip().startswith("def "))
            line = function.starting_line_number + above + error.node.lineno - 1
            return f"{short_path(file)}:{line}: {linecache.getline(file, line).strip()}"
    return None


def _function_with_source(source: str | None) -> Any:
    """Return the user's JITFunction whose text is `source`."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "triton" and isinstance(module, ModuleType):
            for value in list(vars(module).values()):
                # Only Triton's own objects are looked into: others may do anything when asked for an attribute.
                ours = type(value).__module__.startswith("triton.")
                function = _jit_function(value) if ours else None
                if function is not None and function.src == source:
                    return function
    return None


# --- loading the kernel ---------------------------------------------


class _Loaded(NamedTuple):
    """A kernel's module, with the content of every file that it was made from."""

    module: ModuleType
    files: dict[str, str]
    notes: tuple[str, ...]


# By target too: a file may choose its configurations by the driver's target.
_loaded: dict[tuple[Path, GPUTarget], _Loaded] = {}


def _load_kernel(path: Path, name: str, target: GPUTarget) -> tuple[Any, _Loaded]:
    """Import the kernel's file (as part of its package if it has one) and return its JITFunction."""
    loaded = _loaded.get((path, target))
    if loaded is None or loaded.files != _hashes(loaded.files):
        _forget_user_modules()
        before = _hashes([str(path)])
        module, notes = _import(path, target)
        files = {**_hashes(_dependencies(module, path)), **before}
        loaded = _loaded[path, target] = _Loaded(module, files, notes)
    kernel = _jit_function(getattr(loaded.module, name, None))
    if kernel is None:
        raise KernelImportError(f"{name} in {path} is not a Triton kernel (a function under @triton.jit)")
    return kernel, loaded


def _jit_function(value: Any) -> Any:
    """Return the function that is compiled: @triton.autotune, @triton.heuristics and others may wrap it."""
    while value is not None and not isinstance(value, JITFunction):
        value = getattr(value, "fn", None)
    return value


def _hashes(files: Iterable[str]) -> dict[str, str]:
    return {f: hashlib.sha256(Path(f).read_bytes()).hexdigest() for f in files if Path(f).is_file()}


def _import(path: Path, target: GPUTarget) -> tuple[ModuleType, tuple[str, ...]]:
    """Import a file with torch and the driver stood in for; return the module and what was stood in, in words."""
    linecache.checkcache()
    root, package = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        package.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    triton.runtime.driver.set_active(standins.TargetDriver(target))
    stood_in = standins.stand_in_for_torch()
    try:
        if len(package) > 1:
            module = importlib.import_module(".".join(p for p in package if p != "__init__"))
        else:
            module = _load_file(path)
        used = stood_in and "torch" in sys.modules
    except ModuleNotFoundError as e:
        raise KernelImportError(
            f"{path} imports {e.name}, which is not installed here. Install it, or move the kernel into a file "
            "that does not import it"
        ) from e
    except Exception as e:
        raise KernelImportError(f"{path} could not be loaded: {type(e).__name__}: {e}") from e
    finally:
        sys.path.remove(str(root))
        standins.withdraw()
    return module, ("torch is not installed: it was stood in for while the file loaded",) if used else ()


def _load_file(path: Path) -> ModuleType:
    name = f"_tilewright_kernel_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_OWN = Path(__file__).resolve().parents[1]
_LIBRARY = [Path(sysconfig.get_paths()[k]).resolve() for k in ("stdlib", "platstdlib", "purelib", "platlib")]


def _user_file(module: ModuleType) -> Path | None:
    """Return the file of a module that is neither installed, nor of the standard library, nor this package."""
    file = getattr(module, "__file__", None)
    if not file:
        return None
    path = Path(file).resolve()
    outside = not any(path.is_relative_to(d) for d in [*_LIBRARY, _OWN])
    return path if outside and "site-packages" not in path.parts else None


def _forget_user_modules() -> None:
    """Forget what earlier kernels imported: two folders may each have a `kernel.py` or a `utils.py`."""
    _loaded.clear()
    for name, module in list(sys.modules.items()):
        if name != "__main__" and isinstance(module, ModuleType) and _user_file(module) is not None:
            del sys.modules[name]


def _dependencies(kernel_module: ModuleType, kernel_file: Path) -> list[str]:
    """Files whose content decides the result: the kernel's, its package's, and every user module loaded."""
    files = {kernel_file.resolve()}
    top = kernel_module.__name__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name == "__main__":
            continue
        path = _user_file(module)
        file = getattr(module, "__file__", None)
        if path is None and file and name.partition(".")[0] == top:
            path = Path(file).resolve()
        if path is not None and path.suffix == ".py":
            files.add(path)
    return sorted(map(str, files))


# --- arguments and specialisation -----------------------------------


class _DType:
    """Stands in for a torch.dtype: Triton reads its printed name, and `itemsize` for descriptors."""

    def __init__(self, torch_name: str, itemsize: int) -> None:
        self._name, self.itemsize = torch_name, itemsize
        self.is_floating_point = "float" in torch_name

    def __str__(self) -> str:
        return f"torch.{self._name}"


@cache
def _dtype(torch_name: str, itemsize: int) -> _DType:
    """Return the one stand-in for a type, never freed: Triton remembers types by the address of their object."""
    return _DType(torch_name, itemsize)


class _Tensor:
    """Stands in for a tensor where Triton specialises: it asks for the dtype, the address and the extent."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.dtype = _dtype(description["torch_dtype"], description["itemsize"])
        self.shape, self._strides = description["shape"], description["strides"]
        self._storage_bytes: int = description["storage_bytes"]
        # An address that is a multiple of the stated alignment and of nothing larger.
        self._address: int = (1 << 20) + (description["alignment_bytes"] % 16)

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        return self._storage_bytes

    def stride(self) -> Any:
        return self._strides


def _stand_in(arg: Any) -> Any:
    if not isinstance(arg, dict):
        return arg
    tensor = _Tensor(arg)
    if arg["kind"] == "descriptor":
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), arg["block_shape"])
    return tensor


def _specialise(function: Any, backend: Any, request: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Bind stand-in arguments with Triton's own binder: types, constexprs and divisibility are as in a launch."""
    _teach_hip_about_stand_ins()
    binder = create_function_from_signature(function.signature, function.params, backend)
    kwargs = {k: v for k, v in request["options"].items() if v is not None}
    args = {name: _stand_in(a) for name, a in request["args"].items()}
    try:
        bound, specialization, _ = binder(**args, debug=False, **kwargs)
    except TypeError as e:
        raise KernelImportError(f"the arguments do not fit {function.__name__}: {e}") from e
    options, signature, constexprs, attrs = function._pack_args(
        backend, {**kwargs, "debug": False}, bound, specialization, None
    )
    return signature, constexprs, attrs, options


def _teach_hip_about_stand_ins() -> None:
    """Triton 3.6 imports torch to ask how large an AMD tensor is; the stand-ins know it themselves."""
    from triton.backends.amd.compiler import HIPBackend

    HIPBackend.is_within_2gb = staticmethod(lambda arg: arg.ptr_range() <= 2**31 - 1)


def _source(function: Any, signature: Any, constexprs: Any, attrs: Any) -> Any:
    if getattr(function, "is_gluon", lambda: False)():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource(function, signature, constexprs, attrs)
    from triton.compiler import ASTSource

    return ASTSource(function, signature, constexprs, attrs)


def _path_name(function: Any, path: tuple[int, ...]) -> str:
    return ".".join([function.arg_names[path[0]], *map(str, path[1:])])


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


# --- what the compiler made -----------------------------------------


class _Allocated:
    """The TTGIR after shared-memory allocation, with the total and each operation's scratch."""

    def __init__(self, ttgir: str, buffer_bytes: dict[str, int]) -> None:
        self.ttgir, self.buffer_bytes = ttgir, buffer_bytes
        self.shared_bytes = _module_attribute(ttgir, "ttg.shared", 0)
        warps = _module_attribute(ttgir, "ttg.num-warps", 4)
        self.total_warps = _module_attribute(ttgir, "ttg.total-num-warps", warps)


def _module_attribute(ttgir: str, name: str, default: int) -> int:
    match = re.search(rf'"?{re.escape(name)}"? = (\d+) : i32', ttgir)
    return int(match[1]) if match else default


def _allocate(
    ttgir: str, target: GPUTarget, metadata: dict[str, Any], scratch: Path, notes: list[str]
) -> _Allocated | None:
    """Run the compiler's own allocation passes on a copy of the TTGIR, loops kept, and read the offsets."""
    try:
        text = _run_passes(ttgir, target, metadata, scratch)
        # Alone in a module, an operation's result is unused: no pass may run that would drop it.
        alone = lambda t: _run_passes(t, target, metadata, scratch, prepare=False)  # noqa: E731
        return _Allocated(text, measure_buffers(text, alone))
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


def _resources(asm: dict[str, Any], name: str, target: GPUTarget, scratch: Path) -> dict[str, Any]:
    if "cubin" in asm:
        found = read_resources(asm["cubin"], name)
        return {
            "registers": found.registers,
            "stack_bytes": found.stack_bytes,
            "spilled_registers": found.stack_bytes // 4,
            "sass": _disassemble(asm["cubin"], scratch),
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


def _disassemble(cubin: bytes, scratch: Path) -> str:
    file = scratch / "kernel.cubin"
    file.write_bytes(cubin)
    tool = triton.knobs.nvidia.nvdisasm.path
    done = subprocess.run(
        [tool, "-c", "-g", str(file)], capture_output=True, text=True, timeout=120, env=os.environ
    )
    if done.returncode != 0:
        raise RuntimeError(f"nvdisasm failed: {done.stderr.strip()}")
    return done.stdout
