"""Captures as the command line reads them: a file that holds one, or a program that is run to make one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.options import DEFAULT_GPU
from tilewright.errors import CaseError
from tilewright.launch import Capture, CaptureError, Launch, is_capture_file, is_case_file, read_capture

if TYPE_CHECKING:
    from tilewright.gpus import Gpu


@dataclass(frozen=True)
class Wanted:
    """Which launches of a program are wanted, and what it is told: `-k`, `--assume-item`, tried configurations."""

    pattern: str | None = None
    assume_item: Sequence[str] = ()
    trials: bool = False


@dataclass(frozen=True)
class FromProgram:
    """A launch that a program made: for one GPU, `count` times."""

    launch: Launch
    gpu: Gpu
    count: int


def is_program(reference: str) -> bool:
    """Whether a reference is a capture file or a program: `x.capture.json`, `train.py`, `-m pack.bench`, `pytest t.py`.

    A `.py` file alone is a program unless it is a case file; with `:NAME` it is a case or a kernel.
    """
    if is_capture_file(_split(reference)[0]):
        return True
    words = reference.split()
    if not words or (len(words) == 1 and words[0] in ("-m", "pytest")):
        return False
    return words[0] in ("-m", "pytest") or (words[0].endswith(".py") and _runs(Path(words[0]), len(words) > 1))


def _runs(file: Path, has_args: bool) -> bool:
    return has_args or (file.is_file() and not is_case_file(file))


def _split(reference: str) -> tuple[str, str | None]:
    """Return the file and the label of `x.capture.json:LABEL`."""
    file, colon, label = reference.partition(".capture.json:")
    return (f"{file}.capture.json", label) if colon else (reference, None)


def read_program(
    reference: str, gpus: Sequence[str], wanted: Wanted
) -> tuple[list[FromProgram], list[Capture]]:
    """Return the launches of a capture file, or of a program that is run for each GPU, and the captures.

    gpus: the names asked for; where none is, a file's own, or the default. Raises CaptureError where a file is of
    another target, or no launch is left.
    """
    from tilewright.gpus import load

    file, label = _split(reference)
    if is_capture_file(file):
        capture = read_capture(Path(file))
        pattern = label or wanted.pattern
        captures = [(capture, name) for name in gpus or [capture.gpu]]
    else:
        from tilewright.capturing import capture_program

        pattern = wanted.pattern
        words = shlex.split(reference)
        captures = [(capture_program(words, name, wanted.assume_item), name) for name in gpus or [DEFAULT_GPU]]
    found = []
    for capture, gpu_name in captures:
        if not capture.launches:
            raise CaptureError(_nothing(reference, capture))
        made, gpu = load(capture.gpu), load(gpu_name)
        for name, c in capture.picked(pattern, wanted.trials):
            launch = c.as_launch(f"{file}:{name}")
            if gpu.slug != made.slug:
                launch = replace(launch, assumed=(*launch.assumed, f"on {gpu.name} it is launched as on {made.name}"))
            found.append(FromProgram(launch, gpu, c.count))
    return found, [capture for capture, _ in captures]


def _nothing(reference: str, capture: Capture) -> str:
    """Say that a program launched nothing, and what to do about it."""
    if capture.stopped:
        return f"{reference} launched no Triton kernel before it ended: {capture.stopped}"
    from tilewright.launch import kernels_of

    names = kernels_of(reference)
    if not names:
        return f"{reference} ran and launched no Triton kernel"
    return (
        f"{reference} ran and launched no Triton kernel. To explain one of its own ({', '.join(names)}), describe its "
        f"arguments: tilewright explain {reference}:{names[0]} --args '...' --grid 32"
    )


def tell_of_captures(captures: Sequence[Capture]) -> None:
    """Say on stderr what was assumed or skipped, and what ended early."""
    for capture in captures:
        for line in capture.notes_in_words():
            print(f"tilewright: {line}", file=sys.stderr)
        if capture.stopped:
            print(f"tilewright: the program ended early: {capture.stopped}", file=sys.stderr)


def check_target(launch: Launch, gpu: Gpu) -> None:
    """Raise CaptureError where a captured kernel is of another target than the GPU."""
    ir = launch.ir
    if ir is not None and (ir.backend, str(ir.arch)) != (gpu.target.backend, str(gpu.target.arch)):
        raise CaptureError(
            f"{launch.case or launch.kernel.name} was captured for {ir.backend} {ir.arch}, and {gpu.name} is "
            f"{gpu.target.backend} {gpu.target.arch}: capture again with --gpu {gpu.slug}"
        )


def complain_of_settings(reference: str, settings: Sequence[str], args: str | None, grid: str | None) -> None:
    """A program sets its kernels' arguments itself."""
    given = [n for n, value in (("--set", settings), ("--args", args), ("--grid", grid)) if value]
    if given:
        raise CaseError(f"{reference} is a program, which gives its kernels their arguments: leave out {given[0]}")
