"""`tilewright capture`: run a program with no GPU, list every Triton launch in it, and keep them in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import DEFAULT_GPU, AssumeItem, Pick

EXAMPLE = (
    "Examples: tilewright capture --gpu h200 train.py --steps 2  |  tilewright capture pytest tests/test_ops.py  |  "
    "tilewright explain train.capture.json"
)
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Options after the program are the program's."""


def capture(
    program: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM...", help="SCRIPT.py, -m MODULE or pytest, with its own arguments."),
    ],
    gpu: Annotated[str, typer.Option("--gpu", "-g", help="The GPU that stands in.")] = DEFAULT_GPU,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file. [default: PROGRAM.capture.json, here]")
    ] = None,
    pick: Pick = None,
    assume_item: AssumeItem = None,
    live: Annotated[
        bool, typer.Option("--live", help="Run on this machine's GPU, and record what it launches.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the list as JSON (see: tilewright schema captured).")
    ] = False,
) -> None:
    """Run a program without its GPU and catch every Triton launch in it. What it prints goes to stderr.

    The file is for explain, report, plot and check. Exit code 1 where the program ended early: what it launched until
    then is kept.
    """
    from tilewright.capturing import capture_program
    from tilewright.gpus import load
    from tilewright.launch import SUFFIX, CaptureError, write_capture
    from tilewright.report import Page
    from tilewright.report.captured import captured_dict, print_capture

    file = output or Path(f"{_stem(program)}{SUFFIX}")
    if not file.name.endswith(SUFFIX):
        raise CaptureError(f"a capture's file ends in {SUFFIX}, so that other commands know it: found {file}")
    if not file.resolve().parent.is_dir():
        raise CaptureError(f"cannot write {file}: there is no folder {file.parent}")
    found = capture_program(program, gpu, assume_item or (), live)
    write_capture(file, found)
    picked = found.picked(pick)
    if as_json:
        json.dump(captured_dict(found, picked, str(file)), sys.stdout, indent=2)
        print()
    else:
        print_capture(Page(sys.stdout), found, picked, load(found.gpu).name)
        print(f"\n  {file}: read it with tilewright explain {file}")
    if found.stopped:
        raise typer.Exit(1)


def _stem(program: list[str]) -> str:
    """Return what to name a program's capture after: the script, the module, or the first test."""
    words = [word for word in program if not word.startswith("-")]
    first = words[1] if words[0] == "pytest" and len(words) > 1 else words[0] if words else "program"
    return Path(first.partition("::")[0]).name.removesuffix(".py") or "program"
