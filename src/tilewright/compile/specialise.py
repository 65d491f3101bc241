"""Arguments as Triton specialises on them, with stand-ins for tensors, inside the worker."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import triton.language as tl
from triton.runtime.jit import create_function_from_signature

from tilewright.compile.loading import KernelImportError


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


def _stand_in(arg: Any, gluon: bool) -> Any:
    if not isinstance(arg, dict):
        return arg
    if arg["kind"] == "dtype":
        letter, bits = arg["name"][0], arg["name"][1:]  # i32 is int32 here, u8 uint8; floats have one name
        return tl.dtype({"i": "int", "u": "uint"}[letter] + bits if letter in "iu" else arg["name"])
    tensor = _Tensor(arg)
    if arg["kind"] == "descriptor":
        return _descriptor(tensor, arg["block_shape"], gluon)
    return tensor


def _descriptor(tensor: _Tensor, block: list[int], gluon: bool) -> Any:
    """Gluon's descriptors state a layout in shared memory too: its default for the block, the largest swizzle."""
    whole = tensor, list(tensor.shape), list(tensor.stride()), block
    if not gluon:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(*whole)
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

    element = getattr(gl, str(tensor.dtype).removeprefix("torch."))
    return GluonDescriptor(*whole, gl.NVMMASharedLayout.get_default_for(block, element))


class _Refuse(importlib.abc.MetaPathFinder):
    """Finds that a module, if it is not loaded yet, is not there."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == self._module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def _without_loading(module: str) -> Iterator[None]:
    """Keep a module from being loaded: Triton would load torch, for a second, to know tensors by their class."""
    finder = _Refuse(module)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def specialise(function: Any, backend: Any, request: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Bind stand-in arguments with Triton's own binder: types, constexprs and divisibility are as in a launch."""
    _teach_hip_about_stand_ins()
    binder = create_function_from_signature(function.signature, function.params, backend)
    kwargs = {k: v for k, v in request["options"].items() if v is not None}
    args = {name: _stand_in(a, function.is_gluon()) for name, a in request["args"].items()}
    try:
        with _without_loading("torch"):
            bound, specialization, _ = binder(**{**kwargs, **args}, debug=False)
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


def make_source(function: Any, signature: Any, constexprs: Any, attrs: Any) -> Any:
    if getattr(function, "is_gluon", lambda: False)():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource(function, signature, constexprs, attrs)
    from triton.compiler import ASTSource

    return ASTSource(function, signature, constexprs, attrs)


def specialisation(
    function: Any, signature: Any, constexprs: Any, attrs: Any
) -> tuple[dict[str, str], dict[str, Any], list[str]]:
    """Return, by the kernel's names: the type of each argument, what is compiled in, what is divisible by 16.

    A part of an argument that is a tuple is called `name.0`, `name.1`, ...
    """
    types = {name: type_ for key, value in signature.items() for name, type_ in _parts(str(key), value)}
    compiled_in = {path_name(function, path): plain(value) for path, value in constexprs.items()}
    able = [path_name(function, p) for p, v in attrs.items() if any(a[0] == "tt.divisibility" for a in v)]
    return types, compiled_in, able


def _parts(name: str, type_: Any) -> Iterator[tuple[str, str]]:
    if isinstance(type_, (tuple, list)):
        for i, part in enumerate(type_):
            yield from _parts(f"{name}.{i}", part)
    else:
        yield name, str(type_)


def path_name(function: Any, path: tuple[int, ...]) -> str:
    """Return the name of an argument, or of a part of one that is a tuple."""
    return ".".join([function.arg_names[path[0]], *map(str, path[1:])])


def plain(value: Any) -> Any:
    """Return a value as JSON has it, or its text."""
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
