"""One capture: everything that stands in for a GPU is put in place, and taken back afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tilewright.capturing import values
from tilewright.capturing.patches import Patches
from tilewright.capturing.recorder import Recorder
from tilewright.capturing.values import CaptureSetupError
from tilewright.compile import Compiler
from tilewright.gpus import Gpu
from tilewright.launch import Capture

WORKING = "torch 2.13 and Triton 3.6 to 3.9"
"""The versions that the tests of capture run on."""


class Caught:
    """What a `with tilewright.capture(...)` block has caught: a sequence of captured launches, and the whole."""

    def __init__(self, gpu: Gpu, recorder: Recorder, command: str, live: bool) -> None:
        self._gpu, self._recorder, self._command, self._live = gpu, recorder, command, live

    @property
    def capture(self) -> Capture:
        """Everything as one Capture, which `tilewright.launch.write_capture` writes to a file."""
        torch_version, triton_version = versions()
        return Capture(
            gpu=self._gpu.slug,
            command=self._command,
            triton_version=triton_version,
            torch_version=torch_version,
            launches=self._recorder.launches,
            live=self._live,
            notes=self._recorder.notes,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self._recorder.launches)

    def __len__(self) -> int:
        return len(self._recorder.launches)

    def __getitem__(self, i: int) -> Any:
        return self._recorder.launches[i]


def versions() -> tuple[str, str]:
    """Return torch's version and Triton's; raise CaptureSetupError where one is missing."""
    from importlib import metadata

    found = []
    for name in ("torch", "triton"):
        try:
            found.append(metadata.version(name))
        except metadata.PackageNotFoundError:
            raise CaptureSetupError(
                f"capture runs the program, and {name} is not installed here. Works with {WORKING}: "
                f"pip install 'tilewright[capture]'"
            ) from None
    return found[0], found[1]


@contextmanager
def capture(gpu: str = "h200", assume_item: float | str | list[str] | None = None) -> Iterator[Caught]:
    """Within this block, run programs for `gpu` with no GPU, and catch every Triton launch.

    gpu: a name of `tilewright gpus`; assume_item: what is taken for values that only a GPU could tell (a number, or
    `FILE:LINE=VALUE`). Raises CaptureSetupError where torch or Triton do not play along.
    """
    from tilewright.gpus import load

    texts = [] if assume_item is None else assume_item if isinstance(assume_item, list) else [str(assume_item)]
    recorder = Recorder()
    caught = Caught(load(gpu), recorder, " ".join(sys.argv), live=False)
    with stand_in(load(gpu), recorder, texts):
        yield caught


@contextmanager
def stand_in(gpu: Gpu, recorder: Recorder, assumed: list[str], jobs: int | None = None) -> Iterator[None]:
    """Put everything in place that stands in for `gpu`, and record what is launched on it."""
    torch_version, triton_version = versions()
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") == "1":
        raise CaptureSetupError("TRITON_INTERPRET=1 runs kernels on the CPU: capture needs it unset")
    os.environ.pop("TRITON_INTERPRET", None)
    # Triton 3.9 warns that its default will change in 3.10; fusing is the default of every version here.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    with Patches() as patches:
        try:
            mode, catcher, why_not = _install(patches, gpu, recorder, assumed, jobs)
        except CaptureSetupError:
            raise
        except Exception as e:
            raise CaptureSetupError(
                f"torch {torch_version} with Triton {triton_version} does not let a GPU be stood in for "
                f"({type(e).__name__}: {e}). Known to work: {WORKING}"
            ) from e
        with mode:
            yield
        catcher.finish(why_not)


def _install(patches: Patches, gpu: Gpu, recorder: Recorder, assumed: list[str], jobs: int | None) -> Any:
    import torch
    import torch._dynamo
    import triton

    if torch.cuda.is_available():
        raise CaptureSetupError("there is a GPU here: capture it with --live")
    from tilewright.capturing import autocast, cuda, driver, inductor, tensors
    from tilewright.capturing.catching import Catcher

    compiler = patches.enter_context(Compiler(workers=jobs or os.cpu_count() or 1))
    # Two threads a worker: one waits for the compiler while the other reads the cache.
    threads = ThreadPoolExecutor(2 * (jobs or os.cpu_count() or 1))
    patches.callback(threads.shutdown, wait=False, cancel_futures=True)

    def compile_launch(launch: Any) -> Future[Any]:
        return threads.submit(lambda: compiler.compile([(launch, gpu.target)])[0])

    catcher = Catcher(recorder, compile_launch)
    before = values.current.by_place
    values.current.by_place = values.Assumptions.read(assumed).by_place
    patches.callback(setattr, values.current, "by_place", before)
    cuda.install(patches, gpu)
    mode = tensors.install(patches, recorder)
    autocast.install(patches)
    driver.install(patches, catcher, gpu)
    inductor.install(patches)
    patches.callback(_forget_kernels, triton)
    with mode:
        tensors.check()
    return mode, catcher, lambda result: driver.launch_error(result, gpu)


def _forget_kernels(triton: Any) -> None:
    """Kernels remember by device what was compiled for them: another capture may be for another GPU."""
    import gc

    for value in gc.get_objects():
        # Not isinstance: it asks lazily loaded modules for their class, which warns.
        if issubclass(type(value), triton.runtime.jit.JITFunction):
            value.device_caches.clear()
