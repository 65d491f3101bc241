"""From what a program hands to Triton's compiler to a kernel's IR, and from what it launches to a Launch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import get_cache_key, make_backend

from tilewright.compile.loading import jit_function
from tilewright.compile.specialise import plain, specialisation
from tilewright.errors import LaunchError
from tilewright.launch import (
    Arg,
    Descriptor,
    DType,
    KernelIr,
    KernelSource,
    Launch,
    Parameter,
    Tensor,
    dtype,
)


def kernel_ir(source: Any, target: GPUTarget, options: Any, env_vars: Any) -> KernelIr:
    """Return the IR that Triton's compiler starts from, with the name that Triton gives to the compiled kernel.

    source is Triton's ASTSource, options the backend's parsed ones. Raises what Triton raises for a kernel that it
    cannot translate.
    """
    backend = make_backend(target)
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    generators = backend.get_codegen_implementation(options)
    module = source.make_ir(target, options, generators, backend.get_module_map(), context)
    signature, constexprs, able = specialisation(source.fn, source.signature, source.constants, source.attrs)
    key = get_cache_key(source, backend, options, env_vars=env_vars)
    return KernelIr(
        text=str(module),
        language=source.language.name.lower(),
        backend=target.backend,
        arch=target.arch,
        signature=signature,
        constexprs=constexprs,
        divisible_by_16=tuple(able),
        options=_stated(options),
        compile_hash=hashlib.sha256(key.encode()).hexdigest(),
    )


def _stated(options: Any) -> dict[str, Any]:
    """Return the options as JSON has them, without those that the backend works out itself."""
    worked_out = ("extern_libs", "backend_name", "warp_size")
    stated = {k: v for k, v in options.__dict__.items() if k not in worked_out and _is_plain(v)}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in stated.items()}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))


def kernel_source(function: Any) -> KernelSource:
    """Return where a JITFunction stands and what it takes."""
    file = function.fn.__code__.co_filename
    above = next((i for i, line in enumerate(function.raw_src) if line.lstrip().startswith("def ")), 0)
    parameters = tuple(Parameter(p.name, bool(p.is_constexpr)) for p in function.params)
    return KernelSource(Path(file), function.fn.__name__, function.starting_line_number + above, parameters)


def make_launch(kernel: KernelSource, ir: KernelIr, values: Mapping[str, Any], grid: Sequence[Any]) -> Launch:
    """Return the Launch of a kernel with the values that a program gave, by parameter; raise LaunchError."""
    args: dict[str, Arg] = {}
    for name, value in values.items():
        args.update(_args(name, value))
    full = (*(int(n) for n in grid), 1, 1)[:3]
    options = ir.options
    return Launch(
        kernel=kernel,
        args=args,
        grid=(full[0], full[1], full[2]),
        num_warps=options["num_warps"],
        num_stages=options.get("num_stages"),
        num_ctas=options.get("num_ctas", 1),
        ir=ir,
    )


def by_name(source: Any, args: Sequence[Any]) -> dict[str, Any]:
    """Return a launcher's positional arguments by the kernel's parameters.

    Triton passes every parameter, or all of them in one tuple; others leave out what is compiled in.
    """
    names = list(source.fn.arg_names)
    if len(args) == 1 and isinstance(args[0], (tuple, list)) and len(names) != 1:
        args = args[0]
    if len(args) != len(names):
        passed = [n for n in names if source.signature.get(n) != "constexpr"]
        if len(passed) != len(args):
            raise LaunchError(f"{source.name} takes {len(passed)} arguments, found {len(args)}")
        compiled_in = {names[k[0]]: v for k, v in source.constants.items() if len(k) == 1}
        return {**compiled_in, **dict(zip(passed, args, strict=True))}
    return dict(zip(names, args, strict=True))


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors among an argument: itself, a descriptor's, a tuple's."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(part)
    elif _is_descriptor(value):
        yield value.base
    elif hasattr(value, "data_ptr"):
        yield value


def _is_descriptor(value: Any) -> bool:
    return hasattr(value, "base") and hasattr(value, "block_shape")


def _args(name: str, value: Any) -> Iterator[tuple[str, Arg]]:
    """Yield an argument's parts by name: a tuple's are `name.0`, `name.1`."""
    if isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            yield from _args(f"{name}.{i}", part)
    elif _is_descriptor(value):
        base = _tensor(value.base)
        whole = Tensor.of(base.dtype.name, list(value.shape), list(value.strides)).at(value.base.data_ptr())
        yield name, Descriptor(whole, tuple(int(n) for n in value.block_shape))
    elif hasattr(value, "data_ptr"):
        yield name, _tensor(value)
    else:
        yield name, _plain_arg(value)


def _tensor(value: Any) -> Tensor:
    like = value if hasattr(value, "stride") else getattr(value, "base", value)  # Triton's view as another type
    shape = [int(n) for n in getattr(like, "shape", (1,))]
    strides = [int(n) for n in like.stride()] if hasattr(like, "stride") else None
    return Tensor.of(str(value.dtype).rpartition(".")[2], shape, strides).at(int(value.data_ptr()))


def _plain_arg(value: Any) -> Arg:
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if hasattr(value, "__index__"):
        return int(value)
    if hasattr(value, "value") and type(value).__name__ == "constexpr":
        return _plain_arg(value.value)
    if type(value).__name__ == "dtype" and isinstance(getattr(value, "name", None), str):
        return _element_type(value.name)
    function = jit_function(value) if hasattr(value, "fn") else None
    if function is not None:
        return str(function.fn.__name__)
    return str(plain(value))


def _element_type(name: str) -> DType | str:
    try:
        return dtype(name)
    except LaunchError:
        return name
