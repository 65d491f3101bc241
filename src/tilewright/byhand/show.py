"""A trace on the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilewright.byhand.trace import Array, Table, Trace, Value
from tilewright.byhand.values import Walkthrough
from tilewright.report.page import WIDTH, Page

_INDENT = 6
_MOST_ROWS = 40


def print_trace(page: Page, trace: Trace) -> None:
    """Print every step: what goes in, what comes out, and why."""
    page.title(trace.title, f"{len(trace.steps)} steps")
    page.heading("GIVEN")
    _print_values(page, trace.given, "  ")
    for number, step in enumerate(trace.steps, 1):
        page.heading(f"{number}  {step.name}")
        page.paragraph(step.formula, mark="      ")
        page.paragraph(step.why, mark="   -  ")
        _print_values(page, step.inputs, "  in  ")
        _print_values(page, step.outputs, " out  ")
    page.heading("RESULTS")
    _print_values(page, trace.results, "  ")
    page.heading("TO KEEP")
    for lesson in trace.lessons:
        page.paragraph(lesson, mark="  - ")


def print_list(page: Page, walkthroughs: Sequence[Walkthrough]) -> None:
    """Print the names of the worked examples."""
    page.heading("WALKTHROUGHS")
    page.table([(w.name, w.about) for w in walkthroughs])
    page.line()
    page.line("  One of them: tilewright walkthrough NAME    its values: tilewright walkthrough NAME --values")


def print_parameters(page: Page, walkthrough: Walkthrough) -> None:
    """Print the values that a worked example takes, with those of the published one."""
    page.title(walkthrough.title, "values, for --set NAME=VALUE or a file")
    page.line()
    for p in walkthrough.parameters:
        kind = f"one of {', '.join(p.choices)}" if p.choices else p.kind
        page.title(f"  {p.name}", kind)
        page.paragraph(p.doc, mark="      ")
        text = p.default if isinstance(p.default, str) else json.dumps(p.default)
        page.paragraph(f"published: {p.name}={text}", mark="      ")


def _print_values(page: Page, values: Mapping[str, Value], mark: str) -> None:
    for name, value in values.items():
        if isinstance(value, Table):
            page.line(f"{mark}{name}:")
            rows = [(row, *map(number, figures)) for row, figures in value.rows.items()]
            page.table(rows, head=("", *value.columns), right=range(1, len(value.columns) + 1))
            continue
        lines = list(_lines(value))
        first = f"{mark}{name} = {lines[0]}"
        if len(lines) == 1 and len(first) <= WIDTH:
            page.line(first)
        elif len(lines) == 1:
            page.paragraph(f"{name} = {lines[0]}", mark=mark)
        else:
            page.line(f"{mark}{name} =")
            for line in lines:
                page.paragraph(line, mark=" " * (len(mark) + 4))


def _lines(value: Array | float | str) -> Iterator[str]:
    """Yield one line for a number or a vector, one for each row of a matrix, columns under each other."""
    if not isinstance(value, np.ndarray):
        if isinstance(value, bool):
            yield str(value).lower()
        else:
            yield value if isinstance(value, str) else number(value)
    elif value.ndim == 1:
        yield "[" + " ".join(number(v) for v in value) + "]"
    elif value.ndim == 2:
        # Without brackets one row would look like a vector.
        yield from _rows(value) if len(value) > 1 else [f"[[{' '.join(number(v) for v in value[0])}]]"]
    else:
        for n, part in enumerate(value):
            rows = list(_rows(part))
            yield from (f"[{n}] {row}" if not i else f"    {row}" for i, row in enumerate(rows))


def _rows(matrix: Array) -> Iterator[str]:
    cells = [[number(v) for v in row] for row in matrix[:_MOST_ROWS]]
    width = max((len(c) for row in cells for c in row), default=0)
    for row in cells:
        yield " ".join(c.rjust(width) for c in row)
    if len(matrix) > _MOST_ROWS:
        yield f"({len(matrix) - _MOST_ROWS} more rows; all: --json)"


def number(value: float) -> str:
    """Return a number as one reads it: whole ones whole, others to seven digits."""
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    if np.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 10000 else f"{int(value)}"
    return f"{value:.7g}"
