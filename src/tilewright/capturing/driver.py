"""Triton without its driver: kernels are translated and compiled for a GPU that is not there; launches are recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import triton
from triton.backends import Backend, backends
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler import compiler as triton_compiler
from triton.runtime.errors import OutOfResources

from tilewright.capturing.catching import Catcher, Unit, follow_tuners
from tilewright.capturing.cuda import capability
from tilewright.capturing.patches import Patches
from tilewright.capturing.places import call_site
from tilewright.capturing.values import GpuValueError
from tilewright.compile import Compiled, Failure
from tilewright.gpus import Gpu

NAN = float("nan")


class CaptureCompileError(RuntimeError):
    """A kernel of the program does not compile for the GPU; the message is the compiler's."""


class CapturedKernel:
    """What `triton.compile` gives back: asked for registers or code it waits for the compiler, launched it records."""

    def __init__(self, unit: Unit, catcher: Catcher, gpu: Gpu, options: Any, target: GPUTarget) -> None:
        self.src, self.hash, self.name = unit.source, unit.ir.compile_hash, unit.source.name
        self._unit, self._catcher, self._gpu = unit, catcher, gpu
        self._options, self._target = options, target
        self.module = self.function = 0
        self.packed_metadata: tuple[Any, ...] = ()

    @property
    def compiled(self) -> Compiled:
        """What the compiler made; raises what launching such a kernel raises where it made nothing that fits."""
        result = self._unit.result()
        error = launch_error(result, self._gpu)
        if error is not None:
            raise error
        assert isinstance(result, Compiled)
        return result

    @property
    def metadata(self) -> Any:
        return _Metadata(self)

    @property
    def asm(self) -> dict[str, Any]:
        texts = dict(self.compiled.asm)
        return {**texts, "cubin": b"", "hsaco": b""}

    @property
    def kernel(self) -> bytes:
        return b""

    @property
    def n_regs(self) -> int | None:
        return self.compiled.registers

    @property
    def n_spills(self) -> int | None:
        return self.compiled.spilled_registers

    @property
    def n_max_threads(self) -> int:
        return self._gpu.limits.max_threads_per_block

    def _init_handles(self) -> None:
        if not self._catcher.tuning_trial:
            self.compiled  # noqa: B018  raises where the kernel cannot be loaded

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """Return None: nobody listens to launches here."""

    def run(self, *args: Any) -> None:
        """Record a launch: (grid x, y, z, stream, function, metadata, launch metadata, two hooks, arguments)."""
        self._catcher.catch(self._unit, args[:3], args[9:])
        self._init_handles()

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, stream: Any = None) -> None:
            x, y, z = (*grid, 1, 1)[:3]
            self.run(x, y, z, stream, None, None, None, None, None, *args)

        return launch


class _Metadata(SimpleNamespace):
    """A kernel's metadata by name: the options at once, what only the compiler knows when it is asked for."""

    def __init__(self, kernel: CapturedKernel) -> None:
        super().__init__(**kernel._options.__dict__)
        self.target, self.hash, self.name = kernel._target, kernel.hash, kernel.name
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        if name == "shared":
            return self._kernel.compiled.shared_bytes
        if name == "tmem_size":
            return self._kernel.compiled.tensor_memory_columns
        if name in ("global_scratch_size", "profile_scratch_size"):
            return 0
        raise AttributeError(name)

    def _asdict(self) -> dict[str, Any]:
        own = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        return {**own, "shared": self.shared}


def _out_of(needed: int | None, limit: int | None, resource: str | None) -> Exception:
    error: Exception = OutOfResources(needed, limit, resource)
    return error


def launch_error(result: Compiled | Failure, gpu: Gpu) -> Exception | None:
    """Return the exception that launching this raises, or None where it runs."""
    limits = gpu.limits
    if isinstance(result, Failure):
        if result.kind == "out_of_resources":
            return _out_of(result.required, result.limit, result.resource)
        where = f"{result.place}: " if result.place else ""
        return CaptureCompileError(f"{where}{result.message}")
    if result.shared_bytes > limits.max_shared_bytes_per_block:
        return _out_of(result.shared_bytes, limits.max_shared_bytes_per_block, "shared memory")
    threads = result.num_warps * gpu.target.warp_size
    if threads > limits.max_threads_per_block:
        return _out_of(threads, limits.max_threads_per_block, "threads")
    columns = limits.tensor_memory_columns_per_sm
    if columns is not None and result.tensor_memory_columns > columns:
        return _out_of(result.tensor_memory_columns, columns, "tensor memory")
    return None


class _Utils:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return what Triton's driver says of a device."""
        gpu = self._gpu
        clock_khz = round(gpu.clocks.boost_ghz * 1e6)
        return {
            "max_shared_mem": gpu.limits.max_shared_bytes_per_block,
            "max_num_regs": gpu.limits.registers_per_sm,
            "multiprocessor_count": gpu.compute.sms,
            "warpSize": gpu.target.warp_size,
            "sm_clock_rate": clock_khz,
            "mem_clock_rate": clock_khz,
            "mem_bus_width": round(gpu.memory.dram_gbps * 8e6 / (2 * clock_khz)),
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: 0


def stand_in_driver(gpu: Gpu, notes: Any) -> type[DriverBase]:
    """Return a driver class for Triton that stands for one `gpu`."""

    class StandInDriver(DriverBase):  # type: ignore[misc]
        def __init__(self) -> None:
            self.utils = _Utils(gpu)
            self.launcher_cls = None
            self.get_device_capability = lambda device=0: capability(gpu)
            self.get_current_stream = lambda device=0: 0
            self.get_current_device = lambda: 0
            self.set_current_device = lambda device: None

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> GPUTarget:
            return GPUTarget(gpu.target.backend, gpu.target.arch, gpu.target.warp_size)

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", 0)

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def get_benchmarker(self) -> Any:
            return timing_nothing(notes)

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(256 << 20, dtype=torch.int8, device="cuda")

        def clear_cache(self, cache: Any) -> None:
            pass

        def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
            return None

        def assemble_tensormap_to_arg(self, tensormaps: Any, args: Any) -> Any:
            return args

    return StandInDriver


def timing_nothing(notes: Any) -> Callable[..., Any]:
    """Return a stand-in for `do_bench`: it calls once and returns nan, since there is nothing to time."""

    def run_once(
        fn: Callable[[], Any], *args: Any, quantiles: Any = None, return_mode: str = "mean", **kwargs: Any
    ) -> Any:
        notes.add("not timed", f"do_bench at {call_site()}")
        fn()
        if quantiles is not None:
            return [NAN] * len(quantiles) if len(quantiles) > 1 else NAN
        return [NAN] if return_mode == "all" else NAN

    return run_once


def install(patches: Patches, catcher: Catcher, gpu: Gpu) -> None:
    """Let Triton believe that `gpu` is there, until the patches are taken back."""
    driver_class = stand_in_driver(gpu, catcher.notes)
    absent = type("AbsentDriver", (driver_class,), {"is_active": classmethod(lambda cls: False)})
    ours = {"cuda": "nvidia", "hip": "amd"}[gpu.target.backend]
    for name, backend in list(backends.items()):
        patches.callback(backends.__setitem__, name, backend)
        backends[name] = Backend(backend.compiler, driver_class if name == ours else absent)
    driver = driver_class()
    patches.set(triton.runtime.driver, "_active", driver)
    patches.set(triton.runtime.driver, "_default", driver)

    def compile_for_gpu(source: Any, target: Any = None, options: Any = None, _env_vars: Any = None) -> Any:
        target = target or driver.get_current_target()
        unit, parsed = catcher.unit(source, target, options, _env_vars)
        return CapturedKernel(unit, catcher, gpu, parsed, target)

    for module in (triton, triton.compiler, triton_compiler):
        patches.set(module, "compile", compile_for_gpu)
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton"):
        if hasattr(triton.testing, name):
            patches.set(triton.testing, name, timing_nothing(catcher.notes))
    _patch_autotuner(patches, catcher, gpu)


class _Timing(list[float]):
    """A configuration's time where nothing is timed: all that fit are alike, the others take for ever.

    Whether it fits is asked when two are compared: by then the compiler has worked on all of them at once.
    """

    def __init__(self, units: list[Unit], gpu: Gpu) -> None:
        super().__init__([1.0, 1.0, 1.0])
        self._units, self._gpu = units, gpu

    def seconds(self) -> float:
        """Return 1 where every kernel of the configuration could run, else infinity."""
        fits = all(launch_error(u.result(), self._gpu) is None for u in self._units)
        return 1.0 if fits else float("inf")

    def __lt__(self, other: Any) -> bool:
        return self.seconds() < _seconds(other)

    def __gt__(self, other: Any) -> bool:
        return self.seconds() > _seconds(other)


def _seconds(timing: Any) -> float:
    return timing.seconds() if isinstance(timing, _Timing) else float(timing[0])


def _patch_autotuner(patches: Patches, catcher: Catcher, gpu: Gpu) -> None:
    """Launch every configuration once as a trial; the first that fits goes on, as if it had been the fastest."""
    from triton.runtime.autotuner import Autotuner

    real = Autotuner._bench

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        before, own = self.__dict__.get("do_bench"), copy.copy(self.__dict__)
        with catcher.trial(str(config)) as units:
            self.__dict__["do_bench"] = lambda call, **kwargs: (call(), _Timing(units, gpu))[1]
            try:
                timing = real(self, *args, config=config, **meta)
            except GpuValueError:
                raise
            finally:
                if "do_bench" in own:
                    self.__dict__["do_bench"] = before
                else:
                    self.__dict__.pop("do_bench", None)
        if not isinstance(timing, _Timing):
            name = self.base_fn.__name__
            catcher.notes.add("configuration refused", f"{name} {config}: the compiler refused it before compiling")
        catcher.notes.add("autotune", f"{self.base_fn.__name__}: the first configuration that fits goes on, untimed")
        return timing

    patches.set(Autotuner, "_bench", bench)
    follow_tuners(patches, catcher)
    patches.set(Autotuner, "check_disk_cache", lambda self, key, configs, bench_fn: bench_fn() and False)
