"""The child process that runs the user's program: `python -m tilewright.capturing.run SETTINGS WORDS...`.

SETTINGS is JSON: the GPU, the file for what is caught, what is assumed, whether a real GPU runs it. WORDS are the
program as one would give it to Python: `script.py ARGS`, `-m module ARGS`; or `pytest ARGS`. The exit code is the
program's; why it ended early is in the file.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tilewright.capturing.child import CANNOT
from tilewright.capturing.places import call_site_of
from tilewright.capturing.recorder import Recorder
from tilewright.capturing.session import stand_in, versions
from tilewright.capturing.values import CaptureSetupError, GpuValueError
from tilewright.gpus import load


def main() -> None:
    """Run the program and leave what it launched in the file."""
    settings, words = json.loads(sys.argv[1]), sys.argv[2:]
    sys.argv[:] = words
    with open(settings["file"], "w", encoding="utf-8") as file:
        recorder = Recorder(file)
        try:
            torch_version, triton_version = versions()
            recorder.begin(torch_version=torch_version, triton_version=triton_version, live=settings["live"])
            with _capturing(settings, recorder):
                code, stopped = run_program(words)
        except CaptureSetupError as e:
            recorder.end(f"cannot: {e}")
            os._exit(CANNOT)
        recorder.end(stopped)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads that the program left behind must not keep the process.
    os._exit(code)


def _capturing(settings: dict[str, object], recorder: Recorder) -> AbstractContextManager[None]:
    gpu = load(str(settings["gpu"]))
    if settings["live"]:
        from tilewright.capturing.live import watch

        return watch(recorder)
    assumed = settings["assumed"]
    assert isinstance(assumed, list)
    return stand_in(gpu, recorder, assumed)


def run_program(words: Sequence[str]) -> tuple[int, str | None]:
    """Run a program as Python would; return its exit code and, where it ended early, why."""
    try:
        _run(words)
    except SystemExit as e:
        if e.code in (None, 0):
            return 0, None
        return (e.code if isinstance(e.code, int) else 1), f"it exited with {e.code!r}"
    except GpuValueError as e:
        print(f"\n{e}", file=sys.stderr)
        return 1, str(e)
    except BaseException as e:
        _print_traceback(e)
        place = call_site_of(e.__traceback__)
        said = f"{type(e).__name__}: {e}".strip().splitlines()
        return 1, f"{place}: {said[0] if said else type(e).__name__}"
    return 0, None


def _run(words: Sequence[str]) -> None:
    # Python put the working folder first when it was given -m; a script has its own folder there instead.
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "pytest":
        import pytest

        sys.path[0] = os.getcwd()
        raise SystemExit(int(pytest.main(list(words[1:]))))
    else:
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def _print_traceback(error: BaseException) -> None:
    """Print a traceback as Python would have, without the frames that ran the program."""
    frames = error.__traceback__
    own = str(Path(__file__).resolve())
    while frames is not None and _runs_programs(frames.tb_frame.f_code.co_filename, own):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)


def _runs_programs(file: str, own: str) -> bool:
    return file == own or "runpy" in file


if __name__ == "__main__":
    main()
