"""`Catcher`: turns what a program compiles into units, and what it launches into records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.compiler.compiler import make_backend

from tilewright.capturing.kernels import by_name, kernel_ir, kernel_source, make_launch, tensors_of
from tilewright.capturing.patches import Patches
from tilewright.capturing.places import call_site
from tilewright.capturing.recorder import Recorder
from tilewright.compile import Compiled, Failure
from tilewright.launch import Captured, CaptureError, KernelIr, KernelSource, Launch, Tuning

Result = Compiled | Failure


@dataclass
class Unit:
    """One kernel as it was handed to the compiler: Triton's source, its IR, and the compile that is under way."""

    source: Any
    kernel: KernelSource
    ir: KernelIr
    pending: Future[Result] | None

    def result(self) -> Result:
        """Wait for the compiler."""
        assert self.pending is not None
        return self.pending.result()


class Catcher:
    """Catches kernels and launches. `compile_launch` starts a compile; None where a real GPU's driver compiles."""

    def __init__(self, recorder: Recorder, compile_launch: Callable[[Launch], Future[Result]] | None) -> None:
        self.notes = recorder
        self.units: dict[str, Unit] = {}
        self._compile = compile_launch
        self._trial: str | None = None
        self._of_trial: list[Unit] = []
        self._tuners: list[Any] = []

    @property
    def tuning_trial(self) -> bool:
        """Whether an autotuner is trying a configuration."""
        return self._trial is not None

    def unit(self, source: Any, target: Any, options: Any, env_vars: Any) -> tuple[Unit, Any]:
        """Return the unit of a source, new or known, and the backend's parsed options."""
        if isinstance(source, str):
            raise CaptureError(f"the program compiles the IR file {source}, which capture does not follow")
        backend = make_backend(target)
        parsed = backend.parse_options({**(options or {}), **source.parse_options()})
        ir = kernel_ir(source, target, parsed, env_vars or get_cache_invalidating_env_vars())
        unit = self.units.get(ir.compile_hash)
        if unit is None:
            kernel = kernel_source(source.fn)
            pending = self._compile(bare_launch(kernel, ir)) if self._compile else None
            unit = self.units[ir.compile_hash] = Unit(source, kernel, ir, pending)
        return unit, parsed

    def catch(self, unit: Unit, grid: Any, args: Any) -> None:
        """Record one launch; raise as Triton's launcher does for a tensor that is not on the GPU."""
        values = by_name(unit.source, args)
        for i, value in enumerate(values.values()):
            for t in tensors_of(value):
                base = t if hasattr(t, "device") else getattr(t, "base", t)
                device = getattr(base, "device", None)
                if device is not None and device.type == "cpu":
                    raise ValueError(f"Pointer argument (at {i}) cannot be accessed from Triton (cpu tensor?)")
        launch = make_launch(unit.kernel, unit.ir, values, grid)
        self.notes.launch(Captured(launch, (call_site(),), tuning=self._tuning(unit)))
        if self._trial is not None:
            self._of_trial.append(unit)
        self._forget(values)

    def _tuning(self, unit: Unit) -> Tuning | None:
        if self._trial is not None:
            return Tuning(self._trial, trial=True)
        if self._tuners and _innermost(self._tuners[-1]) is unit.source.fn:
            return Tuning(str(self._tuners[-1].best_config), trial=False)
        return None

    @contextmanager
    def tuned_by(self, tuner: Any) -> Iterator[None]:
        """Within this, launches of the tuner's kernel that are no trials are of the configuration that it chose."""
        self._tuners.append(tuner)
        try:
            yield
        finally:
            self._tuners.pop()

    def _forget(self, values: dict[str, Any]) -> None:
        """A kernel may write to any tensor that it is given."""
        from tilewright.capturing.known import forget

        for value in values.values():
            for t in tensors_of(value):
                forget(t)

    @contextmanager
    def trial(self, config: str) -> Iterator[list[Unit]]:
        """Within this, launches belong to a configuration that an autotuner tries; gives the units launched."""
        self._trial, self._of_trial = config, []
        try:
            yield self._of_trial
        finally:
            self._trial = None

    def finish(self, why_not: Callable[[Result], Exception | None]) -> None:
        """Wait for every compile, and record which of them could not have run."""
        for unit in self.units.values():
            if unit.pending is not None and (error := why_not(unit.result())) is not None:
                self.notes.problem(unit.ir.compile_hash, str(error))


def bare_launch(kernel: KernelSource, ir: KernelIr) -> Launch:
    """Return a launch that is only to be compiled: its arguments are in the IR."""
    return Launch(kernel, {}, (1, 1, 1), ir.options["num_warps"], ir=ir)


def _innermost(function: Any) -> Any:
    """Return the kernel that autotuners and heuristics are wrapped around."""
    while hasattr(function, "fn") and not hasattr(function, "device_caches"):
        function = function.fn
    return function


def follow_tuners(patches: Patches, catcher: Catcher) -> None:
    """Let launches know which configuration an autotuner chose."""
    from triton.runtime.autotuner import Autotuner

    real = Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with catcher.tuned_by(self):
            return real(self, *args, **kwargs)

    patches.set(Autotuner, "run", run)
