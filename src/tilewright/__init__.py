"""Tilewright: see why a Triton kernel is slow, fix it, and prove it, with or without the GPU.

The names here are those that a case file needs, and `capture` with `assume`, which catch a program's launches;
everything else is imported from its room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.capturing import assume, capture
    from tilewright.launch import Case, Descriptor, Launch, Param, Tensor

__version__ = "0.1.0"

__all__ = ["Case", "Descriptor", "Launch", "Param", "Tensor", "__version__", "assume", "capture"]
_CAPTURING = ("assume", "capture")


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that a part of the package that needs no launch starts without it.
    if name in _CAPTURING:
        from tilewright import capturing

        return getattr(capturing, name)
    if name in __all__:
        from tilewright import launch

        return getattr(launch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
