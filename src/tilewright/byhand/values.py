"""The values that a worked example is run with: declared, given on the command line or in a file, and checked."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.byhand.trace import Array, Trace, Value, plain
from tilewright.errors import TilewrightError, did_you_mean

_RANKS = {"vector": 1, "matrix": 2, "tensor": 3}
MOST_VALUES = 4096
"""A worked example is for reading: more values than these are refused."""


class BadValue(TilewrightError):
    """A value is of the wrong size or kind; the message says which."""


@dataclass(frozen=True)
class Parameter:
    """One value of a worked example: its kind, what the published example has, and what it is.

    `vector`, `matrix`, `tensor`: numbers of rank 1, 2, 3; `matrices`: a list of matrices that may differ in size;
    `table`: a list of whole numbers; `whole`, `number`: one; `flag`: true or false; `choice`: one of `choices`.
    """

    name: str
    kind: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    least: float | None = None


@dataclass(frozen=True)
class Values:
    """Checked values by name: tensors as float64 arrays."""

    of: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.of[name]

    def array(self, name: str) -> Array:
        """Return a tensor."""
        found: Array = self.of[name]
        return found

    def whole(self, name: str) -> int:
        """Return a whole number."""
        return int(self.of[name])

    def shown(self) -> dict[str, Value]:
        """Return the values as a trace holds them; tables as text."""
        return {
            k: json.dumps([plain(x) for x in v]) if isinstance(v, list) else v for k, v in self.of.items()
        }


@dataclass(frozen=True)
class Walkthrough:
    """One worked example. `slider` names the whole number that a page lets one slide, up to what `most` returns."""

    name: str
    title: str
    about: str
    parameters: tuple[Parameter, ...]
    work: Callable[[Values], Trace]
    slider: str | None = None
    most: Callable[[Values], int] | None = None

    def values(self, given: Mapping[str, Any]) -> Values:
        """Check what was given and put the published example's values in for the rest; raise BadValue."""
        known = {p.name: p for p in self.parameters}
        for name in given:
            if name not in known:
                raise BadValue(
                    f"{self.name} has no value {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}"
                )
        return Values({p.name: check(p, given.get(p.name, p.default)) for p in self.parameters})

    def run(self, given: Mapping[str, Any] | None = None) -> Trace:
        """Work the example through; raise BadValue where values do not go together."""
        return self.work(self.values(given or {}))


def check(parameter: Parameter, given: Any) -> Any:
    """Return a value in the form that its parameter wants; raise BadValue that says which value is wrong."""
    p = parameter
    given = given.tolist() if isinstance(given, np.ndarray) else given
    if p.kind in _RANKS:
        return _tensor(p.name, _RANKS[p.kind], given)
    if p.kind == "matrices":
        if not isinstance(given, list) or not given:
            raise BadValue(f"{p.name} must be a list of one matrix or more, found {given!r}")
        return [_tensor(f"{p.name}[{n}]", 2, one) for n, one in enumerate(given)]
    if p.kind == "table":
        if not isinstance(given, list) or any(
            isinstance(n, bool) or n != n // 1 for n in _wholes(p.name, given)
        ):
            raise BadValue(f"{p.name} must be a list of whole numbers, found {given!r}")
        return [int(n) for n in given]
    if p.kind == "flag":
        if isinstance(given, bool):
            return given
        if str(given).lower() in ("true", "false"):
            return str(given).lower() == "true"
        raise BadValue(f"{p.name} must be true or false, found {given!r}")
    if p.kind == "choice":
        if given not in p.choices:
            raise BadValue(f"{p.name} must be one of {', '.join(p.choices)}, found {given!r}")
        return given
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise BadValue(f"{p.name} must be a number, found {given!r}")
    if p.kind == "whole" and given != int(given):
        raise BadValue(f"{p.name} must be a whole number, found {given!r}")
    if not np.isfinite(given):
        raise BadValue(f"{p.name} must be finite, found {given}")
    if p.least is not None and given < p.least:
        raise BadValue(f"{p.name} must be {p.least:g} or more, found {given:g}")
    return int(given) if p.kind == "whole" else float(given)


def _tensor(name: str, rank: int, given: Any) -> Array:
    numbers = _numbers(name, given)
    shape = _shape(name, numbers)
    if len(shape) != rank:
        hint = f"; as one row: [{given!r}]" if (len(shape), rank) == (1, 2) else ""
        many = "s" if rank > 1 else ""
        raise BadValue(f"{name} must have {rank} dimension{many}, found {len(shape)}: {given!r}{hint}")
    array = np.array(numbers, dtype=np.float64).reshape(shape)
    if array.size == 0:
        raise BadValue(f"{name} is empty: expected at least one value")
    if array.size > MOST_VALUES:
        raise BadValue(f"{name} has {array.size:,} values: a worked example takes {MOST_VALUES:,} at most")
    if not np.isfinite(array).all():
        at = np.argwhere(~np.isfinite(array))[0]
        where = "".join(f"[{i}]" for i in at)
        raise BadValue(f"{name}{where} is {array[tuple(at)]}: expected a finite number")
    return array


def _wholes(name: str, given: list[Any]) -> list[float]:
    numbers = _numbers(name, given)
    return [math.nan if isinstance(n, list) or not math.isfinite(n) else n for n in numbers]


def _numbers(name: str, given: Any) -> Any:
    """Turn `nan`, `inf` and `-inf`, which JSON has no number for, into numbers; refuse what is no number."""
    if isinstance(given, (list, tuple)):
        return [_numbers(f"{name}[{i}]", v) for i, v in enumerate(given)]
    if isinstance(given, str) and given.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(given)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise BadValue(f"{name} must be a number, found {given!r}")
    return float(given)


def _shape(name: str, numbers: Any) -> tuple[int, ...]:
    if not isinstance(numbers, list):
        return ()
    inner = [_shape(f"{name}[{i}]", v) for i, v in enumerate(numbers)]
    for i, shape in enumerate(inner):
        if shape != inner[0]:
            raise BadValue(
                f"{name} is ragged: {name}[0] has shape {list(inner[0])}, {name}[{i}] has shape {list(shape)}"
            )
    return (len(numbers), *(inner[0] if inner else ()))


def read_settings(walkthrough: Walkthrough, texts: Sequence[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` texts: JSON, or numbers with commas (`x=1,2,3`); raise BadValue."""
    found: dict[str, Any] = {}
    kinds = {p.name: p.kind for p in walkthrough.parameters}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            raise BadValue(f"expected --set NAME=VALUE, found {text!r}")
        if name in found:
            raise BadValue(f"--set gives {name} twice")
        found[name] = _read(name, value.strip(), kinds.get(name, "vector"))
    return found


def _read(name: str, text: str, kind: str) -> Any:
    if kind in ("choice", "flag"):
        return text
    listed = kind in (*_RANKS, "table", "matrices")
    if listed and not text.startswith("["):
        return [_read(name, part.strip(), "number") for part in text.split(",")]
    if text.lower().lstrip("+-") in ("nan", "inf"):
        return float(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise BadValue(
            f"{name}={text}: expected numbers such as 1,2,3 or [[1, 0], [0, 1]] (in a shell, in quotes)"
        ) from None


def read_file(path: Path) -> dict[str, Any]:
    """Read values from a TOML or JSON file; raise BadValue where it is neither or holds no table."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise BadValue(f"{path} cannot be read: {e}") from None
    try:
        found = json.loads(text) if path.suffix == ".json" else _toml(text)
    except ValueError as e:
        raise BadValue(f"{path} is not {'JSON' if path.suffix == '.json' else 'TOML'}: {e}") from None
    if not isinstance(found, dict):
        raise BadValue(f"{path} must hold names and values, found a {type(found).__name__}")
    return found


def _toml(text: str) -> Any:
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(text)


def same_length(name: str, array: Array, other: str, wanted: int, axis: int = 0) -> None:
    """Raise BadValue unless a tensor has so many rows (or columns) as another value asks for."""
    if array.shape[axis] != wanted:
        what = ("rows", "columns")[axis] if array.ndim > 1 else "values"
        raise BadValue(f"{name} has {array.shape[axis]} {what}, {other} needs {wanted}: {plain(array)}")
