"""The values of GPU tensors that a program makes from numbers it states: lengths, offsets, block tables.

A GPU tensor that is copied from the CPU, or made by `zeros`, `full`, `arange`, has values that need no GPU. They are
kept on the CPU beside it, as far as whole numbers go, so that `.item()` and `nonzero` of them have answers. What a
kernel may have written is forgotten, and so is what any operation with an unknown input has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map

CPU = torch.device("cpu")
MOST_ELEMENTS = 1 << 16
aten = torch.ops.aten
_UNSET = ("empty", "new_empty", "_empty", "resize_")
_MOVES = {
    "_to_copy", "clone", "copy_", "lift_fresh", "detach", "fill_", "zero_", "zeros", "ones", "full", "arange",
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "scalar_tensor", "cat", "stack",
    "where", "index_select",
}  # fmt: skip
"""Operations that give floating-point values back unchanged: no GPU rounds them otherwise."""


@dataclass
class _Storage:
    """Whether the values of everything that lies in one storage are still known."""

    valid: bool = True


@dataclass(frozen=True)
class Known:
    """A GPU tensor's values: the same tensor on the CPU, and the storage that they share with its views."""

    real: Any
    storage: _Storage


def known(tensor: Any) -> Any:
    """Return a tensor's values as a CPU tensor, or None where only a GPU has them."""
    if not isinstance(tensor, FakeTensor):
        return tensor if tensor.device.type == "cpu" else None
    held: Known | None = tensor.__dict__.get("_known")
    return held.real if held is not None and held.storage.valid else None


def forget(tensor: Any) -> None:
    """A kernel may write here: nothing in this tensor's storage is known any more."""
    held: Known | None = getattr(tensor, "__dict__", {}).get("_known")
    if held is not None:
        held.storage.valid = False


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors that an operation writes in place."""
    found: list[Any] = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            found += [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
    return found


def run_known(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operation on the values, if all of them are known and few; return NotImplemented where that is not so."""
    name = func._schema.name.removeprefix("aten::")
    if torch.Tag.nondeterministic_seeded in func.tags or name.startswith(_UNSET):
        return NotImplemented
    sizes = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    if any(t.numel() > MOST_ELEMENTS or known(t) is None for t in sizes):
        return NotImplemented
    if not sizes and _elements(args) > MOST_ELEMENTS:
        return NotImplemented
    here = {k: CPU if k == "device" and v is not None else v for k, v in kwargs.items() if k != "pin_memory"}
    try:
        return func(*tree_map(_value, args), **tree_map(_value, here))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return NotImplemented


def note(func: Any, args: tuple[Any, ...], fake: Any, real: Any) -> None:
    """Attach the values that an operation gave to the tensors that it returned."""
    moves = func._schema.name.removeprefix("aten::") in _MOVES
    first = next((x for x in tree_leaves(args) if isinstance(x, FakeTensor)), None)
    for out, value in zip(tree_leaves(fake), tree_leaves(real), strict=False):
        if not isinstance(out, FakeTensor) or not isinstance(value, torch.Tensor):
            continue
        is_view = any(r.alias_info is not None for r in func._schema.returns)
        if (value.dtype.is_floating_point and not (moves or is_view)) or out.shape != value.shape:
            continue
        held: Known | None = first.__dict__.get("_known") if is_view and first is not None else None
        out.__dict__["_known"] = Known(value, held.storage if held else _Storage())


def _value(x: Any) -> Any:
    if isinstance(x, torch.device):
        return CPU
    return known(x) if isinstance(x, torch.Tensor) else x


def _elements(args: tuple[Any, ...]) -> int:
    """Bound the elements that a factory makes, from its first argument: a shape, or `arange`'s end."""
    count = 1
    for n in tree_leaves(args[:1]):
        count *= int(n) if isinstance(n, (int, float)) else 1
    return count
