"""SARIF 2.1.0: what is wrong in source files, in the form that code hosts show beside a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tilewright

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class SarifRule:
    """A rule: its id, one line of what it finds, why, and its level (error, warning, note)."""

    id: str
    title: str
    why: str
    level: str


@dataclass(frozen=True)
class SarifResult:
    """One finding: by which rule, how serious, in words, and where; columns from 1, the last one not included."""

    rule: str
    level: str
    message: str
    path: str
    line: int = 1
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


def sarif_log(rules: Sequence[SarifRule], results: Sequence[SarifResult], root: Path | None = None) -> dict[str, Any]:
    """Return a log as JSON-ready data. Paths below `root` (the current folder) are written relative to it."""
    root = (root or Path.cwd()).resolve()
    places = {rule.id: n for n, rule in enumerate(rules)}
    driver = {
        "name": "tilewright",
        "version": tilewright.__version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": rule.why},
                "defaultConfiguration": {"level": rule.level},
            }
            for rule in rules
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, places, root) for result in results],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(result: SarifResult, places: dict[str, int], root: Path) -> dict[str, Any]:
    region = {"startLine": result.line, "startColumn": result.column}
    region |= {"endLine": result.end_line, "endColumn": result.end_column}
    location = {
        "artifactLocation": {"uri": _uri(result.path, root)},
        "region": {name: value for name, value in region.items() if value is not None},
    }
    found: dict[str, Any] = {
        "ruleId": result.rule,
        "level": result.level,
        "message": {"text": result.message},
        "locations": [{"physicalLocation": location}],
    }
    if result.rule in places:
        found["ruleIndex"] = places[result.rule]
    return found


def _uri(path: str, root: Path) -> str:
    """A path as RFC 3986 writes it, spaces and the like in percents."""
    whole = Path(path).resolve()
    return quote(whole.relative_to(root).as_posix()) if whole.is_relative_to(root) else whole.as_uri()
