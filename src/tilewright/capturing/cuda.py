"""`torch.cuda` as a GPU of the catalog would answer it: its properties, and streams on which nothing takes time."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from tilewright.capturing.patches import Patches
from tilewright.gpus import Gpu

NAN = float("nan")


def capability(gpu: Gpu) -> tuple[int, int]:
    """Return what torch calls the compute capability."""
    arch = gpu.target.arch
    if isinstance(arch, int):
        return arch // 10, arch % 10
    digits = arch.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2], 16)


class Event:
    """An event that took no time: its elapsed time is nan, since nothing was timed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.cuda_event = 0

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Any) -> float:
        """Return nan: there is no GPU to time."""
        return NAN


class Stream:
    """A stream on which everything has already happened."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device_type = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class Graph:
    """A CUDA graph: what is launched while it records is recorded once; a replay launches nothing new."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name in ("replay", "reset", "capture_begin", "capture_end", "instantiate", "enable_debug_mode"):
            return lambda *args, **kwargs: None
        if name == "pool":
            return lambda: (0, 0)
        raise AttributeError(name)


class _Nothing(contextlib.ContextDecorator):
    """A context, or a decorator, that changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        pass



class _Generator(torch.Generator):  # type: ignore[misc, name-defined, unused-ignore]
    """A generator that may be asked for on the GPU; what it would draw there nobody knows."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls)


def properties(gpu: Gpu) -> Any:
    """Return what `torch.cuda.get_device_properties` says of a GPU."""
    limits, (major, minor) = gpu.limits, capability(gpu)
    return SimpleNamespace(
        name=gpu.name,
        major=major,
        minor=minor,
        total_memory=gpu.memory.dram_bytes,
        multi_processor_count=gpu.compute.sms,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=limits.max_shared_bytes_per_block,
        shared_memory_per_multiprocessor=limits.shared_bytes_per_sm,
        regs_per_multiprocessor=limits.registers_per_sm,
        max_threads_per_multi_processor=limits.max_threads_per_sm,
        max_threads_per_block=limits.max_threads_per_block,
        warp_size=gpu.target.warp_size,
        L2_cache_size=gpu.memory.l2_bytes,
        gcnArchName=gpu.arch if gpu.vendor == "amd" else "",
        is_integrated=0,
        is_multi_gpu_board=0,
        uuid="00000000-0000-0000-0000-000000000000",
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        clock_rate=round(gpu.clocks.boost_ghz * 1e6),
    )


def install(patches: Patches, gpu: Gpu) -> None:
    """Answer `torch.cuda` for `gpu` until the patches are taken back."""
    for name, answer in _answers(gpu).items():
        patches.set(torch.cuda, name, answer)
    patches.set(torch.cuda, "default_generators", (torch.default_generator,))
    patches.set(torch, "Generator", _Generator)
    nvtx = _nvtx()
    patches.set(torch.cuda, "nvtx", nvtx)
    patches.callback(sys.modules.__setitem__, "torch.cuda.nvtx", sys.modules["torch.cuda.nvtx"])
    sys.modules["torch.cuda.nvtx"] = nvtx
    for name in ("_cuda_setDevice", "_cuda_synchronize", "_cuda_emptyCache"):
        patches.set(torch._C, name, _answering(None))
    for name in ("_cuda_getCurrentRawStream", "_cuda_getDevice", "_cuda_exchangeDevice", "_cuda_maybeExchangeDevice"):
        patches.set(torch._C, name, _answering(0))
    patches.set(torch._C, "_cuda_getDeviceCount", _answering(1))
    if gpu.vendor == "nvidia":
        patches.set(torch.version, "cuda", torch.version.cuda or "13.0")
    else:
        patches.set(torch.version, "hip", torch.version.hip or "7.0")


def _answering(value: Any) -> Any:
    """Return a function, another each time: torch.compile's tables tell torch's functions apart by identity."""
    return lambda *args, **kwargs: value


def _nvtx() -> ModuleType:
    module = ModuleType("torch.cuda.nvtx")
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(module, name, _answering(0))
    module.range = _Nothing  # type: ignore[attr-defined]
    return module


def _answers(gpu: Gpu) -> dict[str, Any]:
    known, version = properties(gpu), capability(gpu)
    stream = Stream()
    runtime = SimpleNamespace(cudaProfilerStart=_answering(0), cudaProfilerStop=_answering(0))
    free, total = known.total_memory, known.total_memory
    constant: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "_is_compiled": True,
        "is_bf16_supported": version >= (8, 0) or gpu.vendor == "amd",
        "is_tf32_supported": version >= (8, 0),
        "is_current_stream_capturing": False,
        "device_count": 1,
        "current_device": 0,
        "get_device_properties": known,
        "get_device_capability": version,
        "get_device_name": known.name,
        "get_arch_list": [gpu.arch],
        "mem_get_info": (free, total),
        "can_device_access_peer": False,
        "cudart": runtime,
        "graph_pool_handle": (0, 0),
        "current_stream": stream,
        "default_stream": stream,
        "memory_stats": {},
    }
    answers = {name: _answering(value) for name, value in constant.items()}
    nothing = (
        "init _lazy_init set_device synchronize empty_cache ipc_collect set_stream reset_peak_memory_stats "
        "reset_max_memory_allocated reset_accumulated_memory_stats set_per_process_memory_fraction"
    )
    amounts = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved _exchange_device "
    contexts = ("device", "device_of", "_DeviceGuard", "stream", "StreamContext")
    answers |= {name: _answering(None) for name in nothing.split()}
    answers |= {name: _answering(0) for name in (amounts + "_maybe_exchange_device").split()}
    answers |= {name: type(name, (_Nothing,), {}) for name in contexts}
    return answers | {
        "Event": Event,
        "Stream": Stream,
        "ExternalStream": Stream,
        "CUDAGraph": Graph,
        "graph": _Nothing,
        "make_graphed_callables": lambda callables, *args, **kwargs: callables,
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        "seed": torch.default_generator.seed,
        "initial_seed": torch.default_generator.initial_seed,
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda state, device="cuda": torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
    }
