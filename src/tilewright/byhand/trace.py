"""A worked example as data: steps with their formula, the values that go in and come out, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Figures by name: a row of them for each name, in the order of the columns."""

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]

    def at(self, row: str, column: str) -> float:
        """Return one figure."""
        return self.rows[row][self.columns.index(column)]


Value = Array | Table | float | int | str | bool
"""A tensor, a table, a number, or words."""


@dataclass(frozen=True)
class Step:
    """One step: what it is called, its formula, what goes in and comes out, and why it is done."""

    name: str
    formula: str
    inputs: Mapping[str, Value]
    outputs: Mapping[str, Value]
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "name": self.name,
            "formula": self.formula,
            "inputs": {k: plain(v) for k, v in self.inputs.items()},
            "outputs": {k: plain(v) for k, v in self.outputs.items()},
            "why": self.why,
        }


@dataclass(frozen=True)
class Trace:
    """All steps of one run, the values that it was run with, its results, and what is to be learnt from it."""

    walkthrough: str
    title: str
    given: Mapping[str, Value]
    steps: tuple[Step, ...]
    results: Mapping[str, Value]
    lessons: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, `tilewright.trace/1`."""
        return {
            "schema": "tilewright.trace/1",
            "walkthrough": self.walkthrough,
            "title": self.title,
            "given": {k: plain(v) for k, v in self.given.items()},
            "steps": [step.to_dict() for step in self.steps],
            "results": {k: plain(v) for k, v in self.results.items()},
            "lessons": list(self.lessons),
        }


class Recorder:
    """Collects steps as an algorithm goes."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step(
        self, name: str, formula: str, inputs: Mapping[str, Value], outputs: Mapping[str, Value], why: str
    ) -> None:
        """Keep one step; tensors are copied, so what is changed later stays as it was."""
        self.steps.append(Step(name, formula, _copied(inputs), _copied(outputs), why))


def _copied(values: Mapping[str, Value]) -> dict[str, Value]:
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}


def plain(value: Value) -> Any:
    """Return lists and Python numbers; what JSON has no number for becomes `nan`, `inf` or `-inf`."""
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, Table):
        return {"columns": list(value.columns), "rows": {k: [plain(v) for v in row] for k, row in value.rows.items()}}
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    return value
