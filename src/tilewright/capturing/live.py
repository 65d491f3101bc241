"""Capture on a real GPU: the program runs as it is, and what it compiles and launches is recorded beside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.capturing.patches import Patches
from tilewright.capturing.recorder import Recorder
from tilewright.capturing.values import CaptureSetupError


@contextmanager
def watch(recorder: Recorder) -> Iterator[None]:
    """Record what is launched on the GPU of this machine, without changing what it computes."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    if not torch.cuda.is_available():
        raise CaptureSetupError("--live needs a GPU, and torch sees none: leave --live out to capture without one")
    from tilewright.capturing.catching import Catcher, follow_tuners

    catcher = Catcher(recorder, None)
    with Patches() as patches:
        real_compile = triton.compile

        def compile_and_keep(source: Any, target: GPUTarget | None = None, options: Any = None, **others: Any) -> Any:
            kernel = real_compile(source, target=target, options=options, **others)
            if not isinstance(source, str):
                where = target or triton.runtime.driver.active.get_current_target()
                catcher.unit(source, where, options, others.get("_env_vars"))
            return kernel

        for module in (triton, triton.compiler, triton.compiler.compiler):
            patches.set(module, "compile", compile_and_keep)
        driver = triton.runtime.driver.active
        real_launcher = driver.launcher_cls

        class RecordingLauncher:
            """Records, then launches."""

            def __init__(self, source: Any, metadata: Any) -> None:
                self._real = real_launcher(source, metadata)
                self._unit = catcher.units.get(metadata.hash)

            def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, *rest: Any) -> Any:
                if self._unit is not None:
                    catcher.catch(self._unit, (x, y, z), rest[4:])
                return self._real(x, y, z, stream, function, *rest)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._real, name)

        patches.set(driver, "launcher_cls", RecordingLauncher)
        _tag_trials(patches, catcher)
        follow_tuners(patches, catcher)
        yield


def _tag_trials(patches: Patches, catcher: Any) -> None:
    """Tell the launches with which an autotuner times its configurations from those that count."""
    from triton.runtime.autotuner import Autotuner

    real = Autotuner._bench

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        with catcher.trial(str(config)):
            return real(self, *args, config=config, **meta)

    patches.set(Autotuner, "_bench", bench)
