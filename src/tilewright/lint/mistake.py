"""`Mistake`: what is wrong in a source file, where, and what to write instead; and the rules that find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast

    from tilewright.lint.source import SourceFile

_EXAMPLES = resources.files("tilewright.lint") / "examples"
LEVELS = ("error", "warning", "note")
"""An error cannot be right; a warning is wrong on some input; a note is advice and fails nothing."""


@dataclass(frozen=True)
class Mistake:
    """One place of one file: lines from 1, columns from 1, both of its first and last character."""

    rule: str
    level: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


@dataclass(frozen=True)
class Found:
    """What a rule hands over: the place, what is wrong there, and the level where it is another than the rule's."""

    node: ast.AST
    message: str
    level: str | None = None


@dataclass(frozen=True)
class LintRule:
    """What is looked for: an id, a level, what it means, why it matters; and an example, wrong and right."""

    id: str
    level: str
    title: str
    why: str
    find: Callable[[SourceFile], Iterator[Found]]

    @cached_property
    def example(self) -> tuple[str, str]:
        """A file in which the mistake is made, and the same without it."""
        text = (_EXAMPLES / f"{self.id}.txt").read_text(encoding="utf-8")
        wrong, _, right = text.removeprefix("# wrong\n").partition("# right\n")
        return wrong.rstrip() + "\n", right

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        said = {"id": self.id, "level": self.level, "title": self.title, "why": self.why}
        return {**said, "wrong": self.example[0], "right": self.example[1]}
