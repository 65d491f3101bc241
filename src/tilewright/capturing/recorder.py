"""What was caught, kept in memory and, line by line, in a file: a program that dies keeps what it launched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from tilewright.launch import Capture, Captured, KernelIr, captured_from_dict, captured_to_dict


class Recorder:
    """Collects launches, alike ones once with their number, and notes."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._found: dict[str, Captured] = {}
        self._irs: set[str] = set()
        self._notes: dict[str, dict[str, int]] = {}

    def add(self, kind: str, text: str) -> None:
        """Note what was skipped or assumed."""
        of_kind = self._notes.setdefault(kind, {})
        of_kind[text] = of_kind.get(text, 0) + 1
        self._write({"note": kind, "text": text})

    def launch(self, captured: Captured) -> None:
        """Record one launch."""
        ir = captured.launch.ir
        if ir is not None and ir.compile_hash not in self._irs:
            self._irs.add(ir.compile_hash)
            self._write({"kernel": ir.to_dict()})
        key = _key(captured)
        before = self._found.get(key)
        if before is None:
            self._found[key] = captured
            self._write({"launch": captured_to_dict(captured), "key": key})
            return
        sites = before.call_sites
        if not set(captured.call_sites) <= set(sites):
            sites = tuple(dict.fromkeys((*sites, *captured.call_sites)))
        self._found[key] = replace(before, count=before.count + 1, call_sites=sites)
        self._write({"again": key, "sites": list(captured.call_sites)})

    def problem(self, compile_hash: str, text: str) -> None:
        """Say why what was compiled to this hash could not run."""
        for key, c in self._found.items():
            if c.launch.ir is not None and c.launch.ir.compile_hash == compile_hash:
                self._found[key] = replace(c, problem=text)
        self._write({"problem": text, "hash": compile_hash})

    @property
    def launches(self) -> tuple[Captured, ...]:
        """What was caught, in order of first appearance."""
        return tuple(self._found.values())

    @property
    def notes(self) -> Mapping[str, Mapping[str, int]]:
        """What was skipped or assumed, by kind, with how often."""
        return {kind: dict(texts) for kind, texts in self._notes.items()}

    def begin(self, **about: Any) -> None:
        """Write what the capture is of."""
        self._write({"begin": about})

    def end(self, stopped: str | None) -> None:
        """Write that the program ended, and why where it ended early."""
        self._write({"end": stopped})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def _key(captured: Captured) -> str:
    d = captured_to_dict(captured)
    return json.dumps([d[k] for k in ("ir", "args", "grid", "tuning")] + [captured.name])


def read_lines(file: Path, gpu: str, command: str) -> Capture:
    """Put together what a program's run left in a file, also where it was cut off."""
    recorder, irs = Recorder(), dict[str, KernelIr]()
    about: dict[str, Any] = {}
    ended, stopped = False, None
    for line in _lines(file):
        if "kernel" in line:
            ir = KernelIr.from_dict(line["kernel"])
            irs[ir.compile_hash] = ir
        elif "launch" in line:
            recorder._found[line["key"]] = captured_from_dict(line["launch"], irs)
        elif "again" in line:
            recorder.launch(replace(recorder._found[line["again"]], call_sites=tuple(line["sites"])))
        elif "note" in line:
            recorder.add(line["note"], line["text"])
        elif "problem" in line:
            recorder.problem(line["hash"], line["problem"])
        elif "begin" in line:
            about = line["begin"]
        elif "end" in line:
            ended, stopped = True, line["end"]
    if not ended:
        stopped = "its process ended before the program did"
    return Capture(
        gpu=gpu,
        command=command,
        triton_version=about.get("triton_version", "unknown"),
        torch_version=about.get("torch_version", "unknown"),
        launches=recorder.launches,
        live=about.get("live", False),
        notes=recorder.notes,
        stopped=stopped,
    )


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if not file.is_file():
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:  # the last one, of a process that was killed
                return
