"""Lint over files and folders."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.lint import silence
from tilewright.lint.mistake import Found, LintRule, Mistake
from tilewright.lint.rules import RULES, UNUSED_IGNORE
from tilewright.lint.source import SourceFile

SKIPPED = frozenset(("__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "env"))
IMPORTS = re.compile(r"\b(?:triton|gluon)\b")
"""What a file has to hold to be read at all."""


@dataclass
class Result:
    """What was found in one file, or why it could not be read, and the line where that can be told."""

    path: str
    mistakes: list[Mistake] = field(default_factory=list)
    unreadable: str | None = None
    line: int | None = None
    kernels: int = 0


def python_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files among paths and below folders, sorted, each once; raise TilewrightError for a path not there.

    Hidden folders, environments and build folders are left out, unless they are named themselves.
    """
    seen: set[str] = set()
    for path in paths:
        if path.is_file():
            found = [path]
        elif path.is_dir():
            below = (p for p in path.rglob("*.py") if p.is_file())
            found = sorted(p for p in below if not _is_skipped(p.relative_to(path)))
        else:
            raise TilewrightError(f"{path} is not there: expected Python files or folders")
        for file in found:
            whole = os.path.abspath(file)
            if whole not in seen:
                seen.add(whole)
                yield file


def _is_skipped(relative: Path) -> bool:
    return any(part in SKIPPED or part.startswith(".") for part in relative.parts[:-1])


def read(path: Path) -> str:
    """Return a file's text in the encoding that it declares; raise OSError, SyntaxError or UnicodeDecodeError."""
    return _decoded(path.read_bytes())


def _decoded(data: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


def lint_file(path: Path, rules: Sequence[LintRule] = RULES) -> Result:
    """Look for mistakes in one file; what cannot be read is in the result, not raised."""
    if path.suffix == ".ipynb":
        return Result(str(path), unreadable="a notebook: expected Python source (jupyter nbconvert --to script)")
    try:
        data = path.read_bytes()
        if b"triton" not in data and b"gluon" not in data:
            return Result(str(path))
        text = _decoded(data)
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
        line = getattr(e, "lineno", None) or None
        reason = getattr(e, "msg", None) or str(e) or type(e).__name__
        return Result(path, unreadable=f"line {line}: {reason}" if line else reason, line=line)
    result = Result(path, kernels=len(file.kernels))
    looked_for: dict[str, LintRule] = {}
    found: dict[tuple[str, int, int], Mistake] = {}
    for rule in rules:
        try:
            for one in rule.find(file):
                mistake = _mistake(file, rule, one)
                found[mistake.rule, mistake.line, mistake.column] = mistake
            looked_for[rule.id] = rule
        except RecursionError:
            # Python's own limit on a sum of a thousand terms or the like; what the other rules find stands.
            result.unreadable = f"an expression is too deep for {rule.id}"
        except Exception as e:
            # A fault of the rule's: it is named, and costs neither other rules nor other files what they find.
            result.unreadable = f"the rule {rule.id} failed: {type(e).__name__}: {e}"
    ignores = silence.ignores(file)
    kept = []
    for mistake in found.values():
        # Every comment is asked, so that each that silences something is known to be of use.
        if not sum(one.silences(mistake) for one in ignores):
            kept.append(mistake)
    if UNUSED_IGNORE in looked_for:
        kept += _unused(file, ignores, looked_for)
    result.mistakes = sorted(kept, key=lambda m: (m.line, m.column, m.rule))
    return result


def _mistake(file: SourceFile, rule: LintRule, found: Found) -> Mistake:
    node = found.node
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end = getattr(node, "end_lineno", None) or line
    end_column = getattr(node, "end_col_offset", None) or column
    return Mistake(
        rule.id,
        found.level or rule.level,
        file.path,
        line,
        file.letters(line, column) + 1,
        end,
        max(file.letters(end, end_column), 1),
        found.message,
    )


def _unused(
    file: SourceFile, ignores: Sequence[silence.Ignore], looked_for: dict[str, LintRule]
) -> Iterator[Mistake]:
    for one, said in silence.unused(ignores, looked_for, [r.id for r in RULES]):
        level = looked_for[UNUSED_IGNORE].level
        yield Mistake(UNUSED_IGNORE, level, file.path, one.line, one.column, one.line, one.end_column, said)
