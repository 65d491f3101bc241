"""The published JSON Schemas of what commands print with `--json`."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

_FOLDER = resources.files("tilewright.report") / "schemas"


def schema_names() -> list[str]:
    """Return the names that `schema` knows."""
    return sorted(f.name.removesuffix(".json") for f in _FOLDER.iterdir() if f.name.endswith(".json"))


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema called `name`; raise KeyError if there is none."""
    if name not in schema_names():
        raise KeyError(name)
    loaded: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return loaded
