"""What the kernel's own source says: loops, and where scores are masked. Read as text, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FAR_BELOW = -1e4
"""A constant below this, put in for a score, masks it."""


@dataclass(frozen=True)
class Mask:
    """A `tl.where` that puts a very low value in, inside a loop: its line, the lines that make its condition."""

    line: int
    condition_lines: tuple[int, ...]


@cache
def masks(path: Path) -> tuple[Mask, ...]:
    """Return the masks in the loops of a file; none where it cannot be read as Python."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    found = {}
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.For, ast.While)):
            for mask in _masks_in(loop):
                # The innermost loop is walked last.
                found[mask.line] = mask
    return tuple(found.values())


def _masks_in(loop: ast.For | ast.While) -> Iterator[Mask]:
    made: dict[str, set[int]] = {}
    for node in ast.walk(loop):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    made.setdefault(target.id, set()).add(node.lineno)
    for node in ast.walk(loop):
        if not isinstance(node, ast.Call) or _name(node.func) != "where" or len(node.args) != 3:
            continue
        if any(_is_far_below(x) for x in node.args[1:]):
            names = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
            lines = sorted({line for name in names for line in made.get(name, ())})
            yield Mask(node.lineno, tuple(lines))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_far_below(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        if isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float)):
            return -inner.value < FAR_BELOW
        return isinstance(inner, ast.Call) and _is_infinity(inner, "inf")
    return isinstance(node, ast.Call) and _is_infinity(node, "-inf")


def _is_infinity(call: ast.Call, text: str) -> bool:
    return (
        _name(call.func) == "float" and len(call.args) == 1 and getattr(call.args[0], "value", None) == text
    )
