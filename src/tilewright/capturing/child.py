"""Run a program in a child process that captures it, and read back what it launched. Needs no torch in this one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.capturing.recorder import read_lines
from tilewright.capturing.values import Assumptions, CaptureSetupError
from tilewright.launch import Capture, CaptureError

CANNOT = 70
"""Exit code of the child where capture itself cannot work here; the message is in the file."""


def capture_program(words: Sequence[str], gpu: str, assume_item: Sequence[str] = (), live: bool = False) -> Capture:
    """Run a program and return what it launched, also where it ended early; what it prints goes to stderr.

    words: `script.py ARGS`, `-m module ARGS` or `pytest ARGS`; gpu: a name of `tilewright gpus` or a file. Raises
    CaptureError for a program that is not there, CaptureSetupError where capture cannot work here.
    """
    _check_program(words)
    Assumptions.read(list(assume_item))
    with tempfile.TemporaryDirectory(prefix="tilewright-capture-") as folder:
        file = Path(folder) / "caught.jsonl"
        settings = {"gpu": gpu, "file": str(file), "live": live, "assumed": list(assume_item)}
        command = [sys.executable, "-m", "tilewright.capturing.run", json.dumps(settings), *words]
        sys.stdout.flush()
        code = _run(command)
        found = read_lines(file, gpu, " ".join(words))
    if code == CANNOT and found.stopped:
        raise CaptureSetupError(found.stopped.removeprefix("cannot: "))
    return found


def _run(command: Sequence[str]) -> int:
    """Run the child; an interrupt reaches it too, so wait for it to end."""
    with subprocess.Popen(command, stdout=sys.stderr.fileno()) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue


def _check_program(words: Sequence[str]) -> None:
    if not words:
        raise CaptureError("which program? For example: tilewright capture train.py")
    if words[0] == "-m":
        if len(words) == 1:
            raise CaptureError("-m needs a module's name: tilewright capture -m package.module")
    elif words[0] != "pytest" and not Path(words[0]).is_file():
        raise CaptureError(f"no program {words[0]!r}: expected SCRIPT.py, -m MODULE or pytest, with its arguments")


