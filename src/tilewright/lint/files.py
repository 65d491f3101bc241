"""Lint over files and folders, and the comments that silence it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.lint.mistake import Found, LintRule, Mistake
from tilewright.lint.rules import RULES, UNUSED_IGNORE
from tilewright.lint.source import SourceFile

SKIPPED = frozenset(("__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "env"))
_IGNORE = re.compile(r"#\s*tilewright:\s*ignore(?:\[([^\]]*)\])?")
IMPORTS = re.compile(r"\btriton\b")
"""What a file has to hold to be read at all."""


@dataclass
class Result:
    """What was found in one file, or why it could not be read."""

    path: str
    mistakes: list[Mistake] = field(default_factory=list)
    unreadable: str | None = None
    kernels: int = 0


@dataclass
class _Ignore:
    line: int
    rules: frozenset[str] | None
    covers: tuple[int, int]
    used: bool = False


def python_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files among paths and below folders, sorted; raise TilewrightError for a path that is not there.

    Hidden folders, environments and build folders are left out, unless they are named themselves.
    """
    for path in paths:
        if path.is_file():
            yield path
        elif path.is_dir():
            found = (p for p in path.rglob("*.py") if p.is_file())
            yield from sorted(p for p in found if not _is_skipped(p.relative_to(path)))
        else:
            raise TilewrightError(f"{path} is not there: expected Python files or folders")


def _is_skipped(relative: Path) -> bool:
    return any(part in SKIPPED or part.startswith(".") for part in relative.parts[:-1])


def read(path: Path) -> str:
    """Return a file's text in the encoding that it declares; raise OSError, SyntaxError or UnicodeDecodeError."""
    with tokenize.open(path) as file:
        return file.read()


def lint_file(path: Path, rules: Sequence[LintRule] = RULES) -> Result:
    """Look for mistakes in one file; what cannot be read is in the result, not raised."""
    try:
        text = read(path)
    except (OSError, UnicodeDecodeError, SyntaxError, LookupError) as e:
        return Result(str(path), unreadable=str(e))
    return lint_text(str(path), text, rules)


def lint_text(path: str, text: str, rules: Sequence[LintRule] = RULES) -> Result:
    """Look for mistakes in a source text."""
    if not IMPORTS.search(text):
        return Result(path)
    try:
        file = SourceFile(path, text)
    except (SyntaxError, ValueError, RecursionError) as e:
        line = getattr(e, "lineno", None)
        reason = getattr(e, "msg", None) or str(e) or type(e).__name__
        return Result(path, unreadable=f"line {line}: {reason}" if line else reason)
    ignores = _ignores(file)
    found = {}
    for rule in rules:
        for one in rule.find(file):
            mistake = _mistake(file, rule, one)
            found[mistake.rule, mistake.line, mistake.column] = mistake
    kept = [m for m in found.values() if not _is_ignored(m, ignores)]
    kept += _unused(file, ignores, {r.id for r in rules})
    return Result(path, sorted(kept, key=lambda m: (m.line, m.column, m.rule)), kernels=len(file.kernels))


def _mistake(file: SourceFile, rule: LintRule, found: Found) -> Mistake:
    node = found.node
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end, end_column = (
        getattr(node, "end_lineno", None) or line,
        getattr(node, "end_col_offset", None) or column,
    )
    return Mistake(
        rule.id,
        found.level or rule.level,
        file.path,
        line,
        column + 1,
        end,
        max(end_column, 1),
        found.message,
    )


def _ignores(file: SourceFile) -> list[_Ignore]:
    """Return every comment that silences: its own line, the next where it stands alone, or a function at its `def`."""
    text = "\n".join(file.lines)
    if not _IGNORE.search(text):
        return []
    functions = {n.lineno: n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef)}
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A text that speaks of such a comment is none.
        match = _IGNORE.search(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        number, text = token.start[0], token.line
        names = None if match[1] is None else frozenset(n.strip() for n in match[1].split(",") if n.strip())
        at = number + 1 if text.lstrip().startswith("#") else number
        node = functions.get(at)
        covers = (at, at)
        if node is not None:
            covers = (min([at, *(d.lineno for d in node.decorator_list)]), node.end_lineno or at)
        found.append(_Ignore(number, names, covers))
    return found


def _is_ignored(mistake: Mistake, ignores: Sequence[_Ignore]) -> bool:
    ignored = False
    for one in ignores:
        inside = one.covers[0] <= mistake.line <= one.covers[1]
        if inside and (one.rules is None or mistake.rule in one.rules):
            one.used = ignored = True
    return ignored


def _unused(file: SourceFile, ignores: Sequence[_Ignore], looked_for: set[str]) -> Iterator[Mistake]:
    """Comments that silence nothing; those about rules that were not looked for are left alone."""
    for one in ignores:
        if one.used or (one.rules is not None and not one.rules <= looked_for and one.rules & _KNOWN):
            continue
        column = file.lines[one.line - 1].index("#") + 1
        said = (
            "nothing is found here"
            if one.rules is None
            else f"no {' or '.join(sorted(one.rules))} is found here"
        )
        yield Mistake(
            UNUSED_IGNORE, "note", file.path, one.line, column, one.line, len(file.lines[one.line - 1]),
            f"{said}: the comment can go",
        )  # fmt: skip


_KNOWN = frozenset(r.id for r in RULES)
