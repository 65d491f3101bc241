"""Where in the user's code something happened: the innermost frame that is not a library's that capture runs under."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from pathlib import Path
from types import FrameType, TracebackType

from tilewright.launch import short_path

_OWN = str(Path(__file__).resolve().parent)
_STDLIB = sysconfig.get_paths()["stdlib"]
_FRAMEWORKS = ("torch", "triton", "runpy", "pluggy", "_pytest")


def call_site(frame: FrameType | None = None) -> str:
    """Return `file:line` of the innermost frame outside torch, Triton and Python's library; `?` where there is none."""
    found = _user_frame(frame)
    return f"{short_path(found.f_code.co_filename)}:{found.f_lineno}" if found else "?"


def call_site_of(trace: TracebackType | None) -> str:
    """Return `file:line` of the innermost frame of a traceback that is the user's; `?` where there is none."""
    found = "?"
    while trace is not None:
        if _is_users(trace.tb_frame.f_code.co_filename):
            found = f"{short_path(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def quoted_call_site() -> tuple[str, str]:
    """Return the place and the source line there."""
    found = _user_frame(None)
    if found is None:
        return "?", ""
    return call_site(found), linecache.getline(found.f_code.co_filename, found.f_lineno).strip()


def _user_frame(frame: FrameType | None) -> FrameType | None:
    frame = frame or sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_users(file: str) -> bool:
    if file.startswith(("<", _OWN)) or "importlib" in file:
        return False
    parts = Path(file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        start = max(i for i, p in enumerate(parts) if p in ("site-packages", "dist-packages"))
        return parts[start + 1] not in _FRAMEWORKS
    return not file.startswith(_STDLIB)
