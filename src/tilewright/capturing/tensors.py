"""Tensors on a GPU that is not there: they have shapes, strides and addresses, and no values.

CPU tensors stay what they are: every operation that touches no GPU tensor runs as always. The others go through
torch's FakeTensorMode. Two things of it are changed. To C++ such a tensor says that it is on `meta`, because the
autograd engine would look for a CUDA thread; to Python it says `cuda`. And an operation that would give a value is
answered by `values`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._pytree import tree_leaves, tree_map

from tilewright.capturing import values
from tilewright.capturing.guard import install_guard
from tilewright.capturing.known import forget, known, note, run_known, written
from tilewright.capturing.patches import Patches
from tilewright.capturing.places import call_site

GPU = torch.device("cuda", 0)
META = torch.device("meta")
aten = torch.ops.aten
_ADDRESS_BITS = (1 << 62) - 1


class GpuMode(FakeTensorMode):  # type: ignore[misc]
    """Runs what touches a GPU tensor on shapes alone, and the rest for real."""

    def __init__(self, notes: Any) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.notes = notes
        self._within = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._within:
            # What an operation is made of stays on shapes, its CPU parts too.
            return super().__torch_dispatch__(func, types, args, kwargs)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if not any(isinstance(x, FakeTensor) for x in tensors) and not _asks_for_gpu(args, kwargs):
            kwargs.pop("pin_memory", None)
            return func(*args, **kwargs)
        real = run_known(func, args, kwargs)
        if real is not NotImplemented and _is_copy_to_cpu(func, kwargs):
            return real
        changed = written(func, args, kwargs)
        if real is NotImplemented:
            for t in changed:
                if not isinstance(t, FakeTensor) and t.device.type == "cpu":
                    # It would keep what it held, and nobody would know.
                    what = f"a CPU tensor that `{_called(func)}` fills from a GPU tensor"
                    return t.fill_(values.scalar(t.dtype, what, self.notes))
                forget(t)
        answer = self._answer(func, args, real)
        if answer is NotImplemented:
            self._within = True
            try:
                answer = super().__torch_dispatch__(func, types, args, kwargs)
            finally:
                self._within = False
        if real is not NotImplemented and not changed:
            note(func, args, answer, real)
        return answer

    def dispatch(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        asked = kwargs.get("device")
        # C++ code that makes a tensor like a GPU one asks for where it believes that to be.
        if asked is not None and not self.in_kernel_invocation and torch.device(asked).type == "meta":
            kwargs["device"] = GPU
        try:
            return super().dispatch(func, types, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise values.refuse(_called(func), self.notes) from None

    def _answer(self, func: Any, args: tuple[Any, ...], real: Any) -> Any:
        """Return what is known or assumed of a value, or NotImplemented where none is asked for."""
        if func is aten._local_scalar_dense.default:
            if real is not NotImplemented:
                return real
            return values.scalar(args[0].dtype, "the value of a tensor", self.notes)
        if real is not NotImplemented and torch.Tag.data_dependent_output in func.tags:
            return real
        if real is not NotImplemented and torch.Tag.dynamic_output_shape in func.tags:
            with self:
                return tree_map(lambda t: torch.empty(t.shape, dtype=t.dtype, device=GPU), real)
        if func is aten.nonzero.default:
            t = args[0]
            found = values.rows(t.numel(), "which elements are not 0", self.notes)
            with self:
                return torch.empty((found, t.ndim), dtype=torch.int64, device=t.device)
        if func is aten.masked_select.default:
            t = args[0]
            found = values.rows(t.numel(), "how many elements a mask selects", self.notes)
            with self:
                return torch.empty((found,), dtype=t.dtype, device=t.device)
        return NotImplemented


def _called(func: Any) -> str:
    return str(getattr(func, "overloadpacket", func)).removeprefix("aten.")


def _is_copy_to_cpu(func: Any, kwargs: dict[str, Any]) -> bool:
    asked = kwargs.get("device")
    return func is aten._to_copy.default and asked is not None and torch.device(asked).type == "cpu"


def _asks_for_gpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    if device is None:
        device = next((a for a in args if isinstance(a, torch.device)), None)
    return device is not None and torch.device(device).type in ("cuda", "meta")


def _cpp_device(args: tuple[Any, ...]) -> Any:
    device = args[0].fake_device
    return META if args[0].fake_mode.in_kernel_invocation or device.type != "cpu" else device


def address_of(tensor: FakeTensor) -> int:
    """Return the address that a GPU tensor has: its storage's, a multiple of 512 as torch's allocator gives them."""
    if not tensor.numel():
        return 0
    start = (tensor.untyped_storage()._cdata << 9) & _ADDRESS_BITS
    return int(start + tensor.storage_offset() * tensor.element_size())


def _is_on(device_type: str) -> property:
    return property(lambda self: self.fake_device.type == device_type)


def install(patches: Patches, notes: Any) -> GpuMode:
    """Make tensors on `cuda` possible in this process and return the mode, not yet entered."""
    install_guard()
    own = FakeTensor.__dict__["__torch_dispatch__"]

    def torch_dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return _cpp_device(args)
        return own.__func__(cls, func, types, args, kwargs or {})

    handlers = fake_tensor._DISPATCH_META_HANDLERS
    before = handlers[torch.ops.prim.device.default]
    handlers[torch.ops.prim.device.default] = _cpp_device
    patches.callback(handlers.__setitem__, torch.ops.prim.device.default, before)
    patches.set(FakeTensor, "__torch_dispatch__", classmethod(torch_dispatch))
    patches.set(FakeTensorMode, "avoid_device_init", property(lambda self: True))
    for name, device_type in (("is_cuda", "cuda"), ("is_meta", "meta"), ("is_cpu", "cpu")):
        patches.set(FakeTensor, name, _is_on(device_type))
    patches.set(FakeTensor, "get_device", lambda self: 0 if self.fake_device.type == "cuda" else -1)
    patches.set(FakeTensor, "data_ptr", address_of)
    patches.set(FakeTensor, "is_pinned", lambda self, device=None: False)
    patches.set(FakeTensor, "record_stream", lambda self, stream: None)
    patches.set(FakeTensor, "__deepcopy__", _deep_copy)
    patches.set(FakeTensor, "__format__", lambda self, spec: format(self if self.dim() else self.item(), spec))
    for name, what in _WHOLE_VALUES.items():
        patches.set(FakeTensor, name, _refuser(getattr(torch.Tensor, name), what, notes))
    patches.set(torch.Tensor, "pin_memory", lambda self, device=None: self)
    _patch_comparisons(patches, notes)
    return GpuMode(notes)


_WHOLE_VALUES = {
    "numpy": "a tensor's values as a numpy array",
    "__array__": "a tensor's values as a numpy array",
    "tolist": "a tensor's values as a list",
    "__repr__": "a tensor's values as text",
    "__reduce_ex__": "a tensor's values to save them",
}


def _refuser(real: Any, what: str, notes: Any) -> Any:
    def refused(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = known(self)
        if value is None:
            number = values.scalar(self.dtype, what, notes)
            value = torch.full(self.shape, number, dtype=self.dtype, device="cpu")
        return real(value, *args, **kwargs)

    return refused


def _deep_copy(self: FakeTensor, memo: dict[int, Any]) -> Any:
    copy = self.detach().clone()
    if isinstance(self, torch.nn.Parameter):
        copy = torch.nn.Parameter(copy, self.requires_grad)
    else:
        copy.requires_grad_(self.requires_grad)
    memo[id(self)] = copy
    return copy


def _patch_comparisons(patches: Patches, notes: Any) -> None:
    """Comparisons of GPU tensors are reported as not made, never as passed; those of CPU tensors are made."""
    for owner, name, result in (
        (torch, "allclose", True),
        (torch.Tensor, "allclose", True),
        (torch, "equal", True),
        (torch.Tensor, "equal", True),
        (torch.testing, "assert_close", None),
    ):
        real = getattr(owner, name)

        def compared(*args: Any, _real: Any = real, _name: str = name, _result: Any = result, **kwargs: Any) -> Any:
            if all(known(x) is not None for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)):
                args, kwargs = tree_map(lambda x: known(x) if isinstance(x, torch.Tensor) else x, (args, kwargs))
                return _real(*args, **kwargs)
            notes.add("not checked", f"{_name} at {call_site()}")
            return _result

        patches.set(owner, name, compared)


def check() -> None:
    """Do what programs do with such tensors, once; raise where this torch does not play along."""
    x = torch.ones(4, 6, device="cuda", requires_grad=True)
    y = (x[1:, ::2] * 2).sum()
    y.backward()
    grad = x.grad
    if grad is None or grad.shape != x.shape or grad.device.type != "cuda" or not x.is_cuda:
        raise RuntimeError("backward gave no gradient on the GPU")
    layer = torch.nn.Linear(6, 2).to("cuda")
    if tree_map(lambda t: t.device.type, list(layer.parameters())) != ["cuda", "cuda"]:
        raise RuntimeError("a module did not move to the GPU")
