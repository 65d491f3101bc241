"""What a kernel's file may ask for while it loads, and a machine without torch or a GPU does not have.

Most kernels stand in a file that also holds their launcher: it imports torch, derives from its classes, asks
the active driver for its target. None of that matters to the kernel, so it is stood in for. What would need
a real value (a device's properties, a tensor's content) fails with a message instead of a guess.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

ROOTS = ("torch",)


class _AbsentType(type):
    """Classes stand in for anything: their attributes, calls and subclasses work and mean nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.__qualname__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        # A decorator without arguments gets the function it stands over, and must give it back.
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], _AbsentType):
            return args[0]
        return cls

    def __bool__(cls) -> bool:
        return False

    def __iter__(cls) -> Any:
        return iter(())

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *exc: object) -> None:
        return None

    def _has_no_value(cls, *args: Any) -> Any:
        raise RuntimeError(f"the value of {cls.__qualname__} is needed, and torch is not installed here")

    __int__ = __float__ = __index__ = __len__ = __lt__ = __gt__ = __le__ = __ge__ = _has_no_value
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = _has_no_value


def absent(name: str) -> Any:
    """Return a stand-in called `name`: a class, so that it can also be derived from and annotated with."""
    return _AbsentType(name, (), {"__init_subclass__": classmethod(lambda cls, **kwargs: None)})


class _AbsentModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module under the roots; comes last, so it only sees what is really absent."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in ROOTS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def stand_in_for_torch() -> bool:
    """Let `import torch` succeed where torch is not installed; return whether anything was done."""
    if importlib.util.find_spec("torch") is not None:
        return False
    sys.meta_path.append(_Finder())
    return True


def withdraw() -> None:
    """Take the stand-ins away again: Triton itself asks whether torch is there."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Finder)]
    for name in [n for n, m in sys.modules.items() if isinstance(m, _AbsentModule)]:
        del sys.modules[name]


class TargetDriver:
    """Stands in for Triton's active driver while a kernel's file loads: it knows the target and nothing more."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        """Return the target that is compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the only device's index."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return torch's device of this target, or its stand-in."""
        import torch

        return torch.device("cuda", 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"the file asks the GPU's driver for {name!r} while it is loaded, and there is no GPU here; "
            "ask for it where the kernel is launched instead"
        )
