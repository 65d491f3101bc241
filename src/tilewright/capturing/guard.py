"""A CUDA device guard for a build of torch that has none.

torch's C++ code brackets much of what it does with tensors (indexing among it) by a guard that makes their device the
current one. A CPU build has no guard for CUDA and refuses. Asked for with no device present, torch puts its own no-op
guard in; for that, the registry must hold something that answers 0 to `deviceCount`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

CUDA = 1
"""c10::DeviceType::CUDA. Source: torch/headeronly/core/DeviceType.h."""
DEVICE_TYPES = 22
METHODS = 64  # more than DeviceGuardImplInterface has
_kept: list[Any] = []  # the registry points into these


def install_guard() -> None:
    """Give torch a CUDA guard that does nothing, once per process; raise OSError or ValueError where it cannot be."""
    import torch

    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * DEVICE_TYPES).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    if not registry[CUDA]:
        zero = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(lambda self: 0)
        address = ctypes.cast(zero, ctypes.c_void_p).value
        table = (ctypes.c_void_p * METHODS)(*[address] * METHODS)
        instance = ctypes.c_void_p(ctypes.addressof(table))
        _kept.extend((zero, table, instance))
        registry[CUDA] = ctypes.addressof(instance)
    torch._C._ensureCUDADeviceGuardSet()
