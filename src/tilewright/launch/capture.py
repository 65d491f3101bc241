"""`Capture`: every Triton launch of one run of a program, as it was caught, and the file that holds it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.files import write_whole
from tilewright.launch.dtypes import DType, dtype
from tilewright.launch.kernel import KernelSource, Parameter
from tilewright.launch.launch import Arg, Descriptor, KernelIr, Launch, Tensor

SCHEMA = "tilewright.capture/1"
SUFFIX = ".capture.json"


class CaptureError(TilewrightError):
    """A capture cannot be made, read or used as asked; the message says what to do."""


@dataclass(frozen=True)
class Tuning:
    """Which configuration of an autotuner a launch belongs to: `trial` while it is timed, else the one that went on."""

    config: str
    trial: bool


@dataclass(frozen=True)
class Captured:
    """One launch with what is known of it beside: where it was called, how often alike, of which tuning.

    `problem` says why it could not have run: it does not fit the GPU, or does not compile.
    """

    launch: Launch
    call_sites: tuple[str, ...]
    count: int = 1
    tuning: Tuning | None = None
    problem: str | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.launch.kernel.name

    @property
    def is_trial(self) -> bool:
        """Whether an autotuner only tried this one."""
        return self.tuning is not None and self.tuning.trial

    def as_launch(self, label: str) -> Launch:
        """Return the launch with its label as the case's name, and in words where it came from."""
        sites = ", ".join(self.call_sites[:3]) + (" and others" if len(self.call_sites) > 3 else "")
        how = f"{self.count:,} times" if self.count > 1 else "once"
        config = ""
        if self.tuning is not None:
            config = f"; autotune {'tried' if self.is_trial else 'chose'} {self.tuning.config}"
        return replace(self.launch, case=label, origin=f"launched at {sites}, {how}{config}")


@dataclass(frozen=True)
class Capture:
    """What one run of `command` launched on `gpu`, in order of first appearance.

    `live` is whether a real GPU ran it; `notes` maps what was skipped or assumed to how often, by kind; `stopped` says
    why the program ended early, None where it ran to its end.
    """

    gpu: str
    command: str
    triton_version: str
    torch_version: str
    launches: tuple[Captured, ...]
    live: bool = False
    notes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stopped: str | None = None

    def labelled(self) -> tuple[tuple[str, Captured], ...]:
        """Return every launch with the label that picks it: `kernel#2` is the second different one of this name.

        The configurations that an autotuner tried are `kernel#try1`, `kernel#try2`.
        """
        seen: dict[tuple[str, bool], int] = {}
        found = []
        for c in self.launches:
            key = (c.name, c.is_trial)
            seen[key] = seen.get(key, 0) + 1
            found.append((f"{c.name}#{'try' if c.is_trial else ''}{seen[key]}", c))
        return tuple(found)

    def picked(self, pattern: str | None = None, trials: bool = False) -> tuple[tuple[str, Captured], ...]:
        """Return the launches, with their labels, that `pattern` names: part of a kernel's name, or one label.

        Configurations that were only tried are left out unless `trials`. Raises CaptureError where none is left.
        """
        every = self.labelled()
        found = tuple((label, c) for label, c in every if label == pattern) or tuple(
            (label, c)
            for label, c in every
            if (trials or not c.is_trial) and (not pattern or pattern.lower() in c.name.lower())
        )
        if not found and pattern:
            names = ", ".join(dict.fromkeys(c.name for c in self.launches)) or "none"
            raise CaptureError(f"no captured kernel is named like {pattern!r}; {self.command} launched: {names}")
        return found

    def notes_in_words(self) -> list[str]:
        """Return what was assumed or skipped as lines, the most frequent of a kind first."""
        lines = []
        for kind, texts in self.notes.items():
            for text, count in sorted(texts.items(), key=lambda x: -x[1]):
                lines.append(f"{kind}: {text}" + (f" ({count:,} times)" if count > 1 else ""))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, in which each kernel's IR stands once, compressed."""
        irs: dict[str, dict[str, Any]] = {}
        launches = []
        for c in self.launches:
            ir = c.launch.ir
            if ir is not None and ir.compile_hash not in irs:
                irs[ir.compile_hash] = {**ir.to_dict(), "text": _pack(ir.text)}
            launches.append(captured_to_dict(c))
        return {
            "schema": SCHEMA,
            **{k: v for k, v in asdict(replace(self, launches=())).items() if k != "launches"},
            "launches": launches,
            "kernels": irs,
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Capture:
        """Make a Capture from its JSON form; raise KeyError, TypeError or ValueError if it is another's."""
        irs = {k: KernelIr.from_dict({**v, "text": _unpack(v["text"])}) for k, v in d["kernels"].items()}
        own = {k: v for k, v in d.items() if k not in ("schema", "launches", "kernels")}
        return cls(**{**own, "launches": tuple(captured_from_dict(x, irs) for x in d["launches"])})


def write_capture(file: Path, capture: Capture) -> None:
    """Write a capture file, whole or not at all."""
    try:
        write_whole(file.resolve(), json.dumps(capture.to_dict(), indent=1).encode() + b"\n")
    except OSError as e:
        raise CaptureError(f"cannot write {file}: {e.strerror or e}") from e


def read_capture(file: Path) -> Capture:
    """Read a capture file; raise CaptureError that says what is wrong with it."""
    try:
        d = json.loads(file.read_text(encoding="utf-8"))
    except OSError as e:
        raise CaptureError(f"cannot read {file}: {e.strerror or e}") from e
    except (ValueError, UnicodeDecodeError) as e:
        raise CaptureError(f"{file} is not a capture: not JSON ({e}). Make one with: tilewright capture SCRIPT") from e
    if not isinstance(d, dict) or d.get("schema") != SCHEMA:
        found = d.get("schema") if isinstance(d, dict) else type(d).__name__
        raise CaptureError(f"{file} is not a capture of this version: expected schema {SCHEMA}, found {found}")
    try:
        return Capture.from_dict(d)
    except (KeyError, TypeError, ValueError, zlib.error) as e:
        raise CaptureError(f"{file} is damaged ({type(e).__name__}: {e}); capture again") from e


def is_capture_file(path: Path | str) -> bool:
    """Whether a name is that of a capture file."""
    return str(path).endswith(SUFFIX)


def captured_to_dict(c: Captured) -> dict[str, Any]:
    """Return the JSON form of one launch; its IR is named by its hash."""
    launch = c.launch
    return {
        "kernel": {**asdict(launch.kernel), "path": str(launch.kernel.path), "parameters": _parameters(launch.kernel)},
        "args": {k: _arg_to_dict(v) for k, v in launch.args.items()},
        "grid": list(launch.grid),
        "num_warps": launch.num_warps,
        "num_stages": launch.num_stages,
        "num_ctas": launch.num_ctas,
        "ir": launch.ir.compile_hash if launch.ir else None,
        "call_sites": list(c.call_sites),
        "count": c.count,
        "tuning": asdict(c.tuning) if c.tuning else None,
        "problem": c.problem,
    }


def captured_from_dict(d: Mapping[str, Any], irs: Mapping[str, KernelIr]) -> Captured:
    """Make a launch from its JSON form; raise KeyError or TypeError if it is another's."""
    k = d["kernel"]
    parameters = tuple(Parameter(**p) for p in k["parameters"])
    kernel = KernelSource(Path(k["path"]), k["name"], k["line"], parameters, k["is_autotuned"])
    ir = irs[d["ir"]] if d["ir"] else None
    launch = Launch(
        kernel=kernel,
        args={name: _arg_from_dict(v) for name, v in d["args"].items()},
        grid=(d["grid"][0], d["grid"][1], d["grid"][2]),
        num_warps=d["num_warps"],
        num_stages=d["num_stages"],
        num_ctas=d["num_ctas"],
        ir=ir,
    )
    tuning = Tuning(**d["tuning"]) if d["tuning"] else None
    return Captured(launch, tuple(d["call_sites"]), d["count"], tuning, d["problem"])


def _parameters(kernel: KernelSource) -> list[dict[str, Any]]:
    return [{"name": p.name, "is_constexpr": p.is_constexpr} for p in kernel.parameters]


def _arg_to_dict(arg: Arg) -> Any:
    if isinstance(arg, (Tensor, Descriptor)):
        return arg.to_dict()
    return {"kind": "dtype", "dtype": arg.name} if isinstance(arg, DType) else _finite(arg)


def _finite(value: Any) -> Any:
    """JSON has no infinities and no nan: they are written by name."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"kind": "float", "value": str(value)}
    return value


def _arg_from_dict(d: Any) -> Arg:
    if not isinstance(d, dict):
        return d  # type: ignore[no-any-return]
    if d["kind"] == "dtype":
        return dtype(d["dtype"])
    if d["kind"] == "float":
        return float(d["value"])
    tensor = Tensor.of(d["dtype"], d["shape"], d["strides"], d["alignment_bytes"])
    tensor = replace(tensor, offset_bytes=d.get("offset_bytes", 0))
    return Descriptor(tensor, tuple(d["block_shape"])) if d["kind"] == "descriptor" else tensor


def _pack(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _unpack(packed: str) -> str:
    return zlib.decompress(base64.b64decode(packed)).decode()

