"""The recorded figures of kernels: a JSON file that a project keeps, one figure a line so that changes read well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.check.budget import BudgetError
from tilewright.check.figures import figures_of, plain
from tilewright.files import write_whole
from tilewright.model import Profile

SCHEMA = "tilewright.baseline/1"
MOST_LINES = 40


@dataclass(frozen=True)
class Recorded:
    """One launch on one GPU: its figures, the Triton that compiled it, and what its heaviest lines execute.

    Lines are kept by their text, which stays when others are put before them.
    """

    triton: str
    figures: Mapping[str, float]
    lines: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"triton": self.triton, "figures": _sorted(self.figures), "lines": _sorted(self.lines)}


@dataclass(frozen=True)
class Baseline:
    """Every recorded launch by the entry's name and the GPU's."""

    recorded: Mapping[tuple[str, str], Recorded] = field(default_factory=dict)

    def with_profiles(self, profiles: Mapping[tuple[str, str], Profile]) -> Baseline:
        """Return a baseline in which these launches have these figures; others stay."""
        return Baseline({**self.recorded, **{key: record(p) for key, p in profiles.items()}})

    def write(self, path: Path) -> None:
        """Write the file whole: after a crash it is the old one or the new one."""
        kernels: dict[str, dict[str, Any]] = {}
        for (name, gpu), recorded in sorted(self.recorded.items()):
            kernels.setdefault(name, {})[gpu] = recorded.to_dict()
        text = json.dumps({"schema": SCHEMA, "kernels": kernels}, indent=1, ensure_ascii=False)
        write_whole(path, f"{text}\n".encode())


def record(p: Profile) -> Recorded:
    """Return what is kept of a profile."""
    lines = lines_of(p)
    heaviest = sorted(lines, key=lambda text: -lines[text])[:MOST_LINES]
    return Recorded(
        p.compiled.triton_version if p.compiled else "", figures_of(p), {t: lines[t] for t in heaviest}
    )


def lines_of(p: Profile) -> dict[str, int]:
    """Return what each line of the kernel's file executes, by its text."""
    try:
        text = p.launch.kernel.path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, int] = {}
    for line in p.lines:
        if 0 < line.place.line <= len(text) and line.instructions:
            words = " ".join(text[line.place.line - 1].split())
            found[words] = found.get(words, 0) + line.instructions
    return found


def read_baseline(path: Path) -> Baseline:
    """Read a baseline; an empty one where there is no file. Raise BudgetError where it is something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Baseline()
    except (OSError, ValueError) as e:
        raise BudgetError(f"{path} cannot be read as a baseline: {e}") from None
    try:
        if data["schema"] != SCHEMA:
            raise BudgetError(f"{path}: expected schema {SCHEMA}, found {data['schema']!r}")
        return Baseline(
            {
                (name, gpu): Recorded(d["triton"], dict(d["figures"]), dict(d["lines"]))
                for name, gpus in data["kernels"].items()
                for gpu, d in gpus.items()
            }
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise BudgetError(
            f"{path} is no baseline: {e!r}; record it anew: tilewright check --update"
        ) from None


def _sorted(values: Mapping[str, float]) -> dict[str, float]:
    return {name: plain(value) for name, value in sorted(values.items())}
