"""Budgets as a project writes them down: `[tool.tilewright.check]` of pyproject.toml, or a TOML file of its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.check.budget import Budget, BudgetError, parse_budget
from tilewright.errors import did_you_mean
from tilewright.rules import RULES

FILE = "tilewright-check.toml"
TOP = ("baseline", "gpus", "budgets", "kernels")
KERNEL = (
    "case",
    "name",
    "gpus",
    "set",
    "args",
    "grid",
    "assume",
    "budgets",
    "fits",
    "no_findings",
    "allow_unknown",
)


@dataclass(frozen=True)
class Entry:
    """One kernel's budgets: what is launched, for which GPUs, and what has to hold.

    `no_findings`: ids of rules that may find nothing; all of them where it is `("*",)`. `allow_unknown`: figures that
    may be unknown; all where it is `("*",)`.
    """

    case: str
    gpus: tuple[str, ...]
    settings: tuple[str, ...]
    args: str | None
    grid: str | None
    assume: tuple[str, ...]
    budgets: tuple[Budget, ...]
    fits: tuple[str, ...]
    no_findings: tuple[str, ...]
    allow_unknown: tuple[str, ...]
    given_name: str | None = None

    @property
    def name(self) -> str:
        """What a baseline calls it: the name given, or the case and what is set."""
        if self.given_name is not None:
            return self.given_name
        given = [*self.settings, *([f"grid={self.grid}", self.args] if self.args and self.grid else [])]
        return f"{self.case} {' '.join(given)}".strip()


@dataclass(frozen=True)
class Config:
    """A file of budgets: where it is, where its baseline is, and its entries."""

    path: Path
    baseline: Path
    entries: tuple[Entry, ...]


def find_config(folder: Path) -> Path:
    """Return the file of budgets of a folder or the nearest above it; raise BudgetError if there is none."""
    for place in (folder, *folder.parents):
        if (place / FILE).is_file():
            return place / FILE
        project = place / "pyproject.toml"
        if project.is_file() and "check" in _load(project).get("tool", {}).get("tilewright", {}):
            return project
    raise BudgetError(
        f"no budgets in {folder} or above: expected [tool.tilewright.check] in a pyproject.toml, or "
        f"{FILE} (see docs/check.md)"
    )


def read_config(path: Path) -> Config:
    """Read a file of budgets; raise BudgetError that names the place of what is wrong."""
    table = _load(path)
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("tilewright", {}).get("check", {})
        if not table:
            raise BudgetError(f"{path} has no [tool.tilewright.check]")
    where = str(path)
    _known(table, TOP, where)
    kernels = table.get("kernels", [])
    if not isinstance(kernels, list) or not kernels or not all(isinstance(k, dict) for k in kernels):
        raise BudgetError(f"{where}: expected [[kernels]] tables, each with a case; found {kernels!r}")
    gpus, budgets = _texts(table, "gpus", where), _budgets(table, where)
    entries = tuple(_entry(k, n, gpus, budgets, where) for n, k in enumerate(kernels, 1))
    names = [(e.name, gpu) for e in entries for gpu in e.gpus]
    for name, gpu in names:
        if names.count((name, gpu)) > 1:
            raise BudgetError(f"{where}: {name} on {gpu} is there twice")
    baseline = table.get("baseline", "tilewright-baseline.json")
    if not isinstance(baseline, str):
        raise BudgetError(f"{where}: baseline must be a file's name, found {baseline!r}")
    return Config(path, path.parent / baseline, entries)


def _entry(
    table: Mapping[str, Any], number: int, gpus: tuple[str, ...], budgets: tuple[Budget, ...], path: str
) -> Entry:
    where = f"{path}, kernel {number}"
    _known(table, KERNEL, where)
    case = table.get("case")
    if not isinstance(case, str):
        raise BudgetError(f"{where}: expected case = 'path/to/case.py:variant', found {case!r}")
    where = f"{path}, {case}"
    own = _texts(table, "gpus", where) or gpus
    if not own:
        raise BudgetError(f"{where}: expected gpus = ['h200', ...], here or for all")
    settings = table.get("set", {})
    if not isinstance(settings, dict):
        raise BudgetError(f"{where}: set must be a table such as {{ BLOCK = 128 }}, found {settings!r}")
    found = Entry(
        case,
        own,
        tuple(f"{name}={value}" for name, value in settings.items()),
        _text(table, "args", where),
        _text(table, "grid", where),
        _texts(table, "assume", where),
        (*budgets, *_budgets(table, where)),
        _texts(table, "fits", where),
        _names_or_all(table, "no_findings", where),
        _names_or_all(table, "allow_unknown", where),
        _text(table, "name", where),
    )
    for rule in found.no_findings:
        if rule != "*" and rule not in {r.id for r in RULES}:
            raise BudgetError(
                f"{where}: no rule {rule!r}{did_you_mean(rule, [r.id for r in RULES])}; see tilewright rules"
            )
    if not found.budgets and not found.fits and not found.no_findings:
        raise BudgetError(f"{where}: expected budgets, fits or no_findings: nothing is checked")
    return found


def _budgets(table: Mapping[str, Any], where: str) -> tuple[Budget, ...]:
    """Read budgets: a list of texts, or a table of figures and numbers."""
    given = table.get("budgets", [])
    if isinstance(given, dict):
        given = [f"{name} = {value}" for name, value in given.items()]
    if not isinstance(given, list) or not all(isinstance(g, str) for g in given):
        raise BudgetError(
            f"{where}: budgets must be a list of texts such as 'spilled_registers == 0', found {given!r}"
        )
    try:
        return tuple(parse_budget(text) for text in given)
    except BudgetError as e:
        raise BudgetError(f"{where}: {e}") from None


def _known(table: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in names:
            raise BudgetError(
                f"{where}: no {name!r}{did_you_mean(name, names)}; there are: {', '.join(names)}"
            )


def _text(table: Mapping[str, Any], name: str, where: str) -> str | None:
    given = table.get(name)
    if given is not None and not isinstance(given, str):
        raise BudgetError(f"{where}: {name} must be a text, found {given!r}")
    return given


def _texts(table: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    given = table.get(name, [])
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, list) or not all(isinstance(g, str) for g in given):
        raise BudgetError(f"{where}: {name} must be a list of texts, found {given!r}")
    return tuple(given)


def _names_or_all(table: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    given = table.get(name, False)
    if isinstance(given, bool):
        return ("*",) if given else ()
    return _texts(table, name, where)


def _load(path: Path) -> dict[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise BudgetError(f"{path} cannot be read: {e.strerror}") from None
    except ValueError as e:
        raise BudgetError(f"{path} is not TOML: {e}") from None
    return found


def settings_of(entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, str]]:
    """Yield every entry with each of its GPUs."""
    return ((entry, gpu) for entry in entries for gpu in entry.gpus)
