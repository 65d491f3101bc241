"""Autotuning and timing without a driver.

An autotuned kernel times its configs on the GPU and keeps the fastest. Here there is nothing to time: a
launch takes the first config that the kernel's own pruning leaves, and `do_bench` calls its function once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

INTERPRETED_CAPABILITY = (8, 9)
"""Reported to code that asks: Ada, which has bf16 and fp8 but no Hopper instructions."""


def install(*, every_config: bool) -> None:
    """Replace the autotuner's timing, the benchmark functions and the active driver; may be called again."""
    import triton
    import triton.testing
    from triton.runtime.autotuner import Autotuner

    original = getattr(Autotuner._bench, "original", Autotuner._bench)

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        """Give every config the same time, so that the autotuner keeps the first, whether or not it runs."""
        if every_config:
            self.do_bench = run_once
            original(self, *args, config=config, **meta)
        return [0.0, 0.0, 0.0]

    bench.original = original  # type: ignore[attr-defined]
    Autotuner._bench = bench
    triton.testing.do_bench = do_bench
    triton.testing.do_bench_cudagraph = do_bench
    triton.runtime.driver.set_active(InterpreterDriver())


def run_once(fn: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
    """The benchmark function of an autotuner that runs its configs without timing them."""
    fn()
    return [0.0] * len(quantiles)


def do_bench(
    fn: Callable[[], Any],
    warmup: int = 25,
    rep: int = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """Call `fn` once and return the interpreter's time in ms, in the form asked for: not a kernel's time."""
    start = time.perf_counter()
    fn()
    milliseconds = (time.perf_counter() - start) * 1e3
    if quantiles is not None:
        return [milliseconds] * len(quantiles) if len(quantiles) > 1 else milliseconds
    return [milliseconds] if return_mode == "all" else milliseconds


class InterpreterDriver:
    """What scripts ask of `triton.runtime.driver.active`, answered for the CPU."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        major, minor = INTERPRETED_CAPABILITY
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., float | list[float]]:
        return do_bench

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(0, dtype=torch.int8)

    def clear_cache(self, cache: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the interpreter has no GPU driver, so `driver.active.{name}` has no answer")
