"""CUDA requests answered by the CPU, so that tests written for a GPU machine run as they are.

Every torch call passes through one function mode, which turns `device="cuda"` into the CPU. What goes
around it (queries, streams, events, generators) is replaced by name. Tensors stay honest about `.device`;
`.is_cuda` answers True, because launchers assert it.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tilewright.interpret.tuning import INTERPRETED_CAPABILITY

CPU = torch.device("cpu")
_mode: CudaOnCpu | None = None


def install() -> None:
    """Answer CUDA requests from now on, in this thread and process. Called once, by `enable`."""
    global _mode
    for name, answer in _ANSWERS.items():
        setattr(torch.cuda, name, answer)
    torch.Generator = CpuGenerator
    original_set_default_device = torch.set_default_device
    torch.set_default_device = lambda device: original_set_default_device(on_cpu(device))
    _mode = CudaOnCpu()
    _mode.__enter__()


def on_cpu(device: Any) -> Any:
    """The CPU if `device` names a CUDA device, else `device` itself."""
    if isinstance(device, bool) or device is None:
        return device
    if isinstance(device, int):  # torch takes a bare index for a CUDA device
        return CPU
    if isinstance(device, str) and device.split(":")[0] == "cuda":
        return CPU
    if isinstance(device, torch.device) and device.type == "cuda":
        return CPU
    return device


class CudaOnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Sends every torch call that names a CUDA device to the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func == torch.Tensor.is_cuda.__get__:
            return True
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.Tensor.record_stream:
            return None
        if func is torch.Tensor.to:
            args = (args[0], *map(on_cpu, args[1:]))
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        kwargs.pop("pin_memory", None)
        return func(*args, **kwargs)


class CpuGenerator(torch.Generator):  # type: ignore[misc, name-defined, unused-ignore]
    """A generator that may be asked for on CUDA."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, device=on_cpu(device))


class Event:
    """A point in time on the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recorded_s = 0.0

    def record(self, stream: Any = None) -> None:
        self._recorded_s = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds until `end`: the interpreter's time, not a kernel's."""
        return (end._recorded_s - self._recorded_s) * 1e3

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True


class Stream(contextlib.nullcontext[None]):
    """A stream on which everything has already happened."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True


class DeviceProperties:
    """The few properties that tests and launchers read, as an interpreted device has them."""

    name = "Triton interpreter on the CPU"
    major, minor = INTERPRETED_CAPABILITY
    multi_processor_count = 1
    warp_size = 32
    total_memory = 1 << 34
    max_threads_per_multi_processor = 1536
    shared_memory_per_block = 48 << 10
    shared_memory_per_block_optin = 99 << 10
    shared_memory_per_multiprocessor = 100 << 10
    regs_per_multiprocessor = 65536


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # "CUDA" tensors are drawn from the CPU's generator


class _NoDevice(contextlib.nullcontext[None]):
    """Stands for `torch.cuda.device(i)` and `torch.cuda.stream(s)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


_ANSWERS: dict[str, Any] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "is_bf16_supported": lambda *args, **kwargs: True,
    "device_count": lambda: 1,
    "current_device": _zero,
    "get_device_name": lambda device=None: DeviceProperties.name,
    "get_device_capability": lambda device=None: INTERPRETED_CAPABILITY,
    "get_device_properties": lambda device=None: DeviceProperties(),
    "init": _nothing,
    "set_device": _nothing,
    "synchronize": _nothing,
    "empty_cache": _nothing,
    "ipc_collect": _nothing,
    "manual_seed": _seed,
    "manual_seed_all": _seed,
    "get_rng_state": lambda device=None: torch.get_rng_state(),
    "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    "reset_peak_memory_stats": _nothing,
    "max_memory_allocated": _zero,
    "memory_allocated": _zero,
    "max_memory_reserved": _zero,
    "memory_reserved": _zero,
    "device": _NoDevice,
    "stream": _NoDevice,
    "Stream": Stream,
    "Event": Event,
    "current_stream": lambda device=None: Stream(),
    "default_stream": lambda device=None: Stream(),
}
