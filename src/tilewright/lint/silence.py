"""Comments that silence: `# tilewright: ignore[RULE, ...]`, what each covers, and which of them silence nothing."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.errors import did_you_mean
from tilewright.lint.mistake import Mistake
from tilewright.lint.source import SourceFile

_IGNORE = re.compile(r"#\s*tilewright:\s*ignore(?:\[([^\]]*)\])?")


@dataclass
class Ignore:
    """A comment: where it stands, the rules that it names (None: all), and the lines that it covers."""

    line: int
    column: int
    end_column: int
    rules: frozenset[str] | None
    covers: tuple[int, int]
    used: set[str] = field(default_factory=set)

    def silences(self, mistake: Mistake) -> bool:
        """Whether a mistake is silenced by this comment, which is thereby of use."""
        named = self.rules is None or mistake.rule in self.rules
        if named and self.covers[0] <= mistake.line <= self.covers[1]:
            self.used.add(mistake.rule)
            return True
        return False


def ignores(file: SourceFile) -> list[Ignore]:
    """Return every comment that silences.

    It covers its own line, or where it stands alone the next line of code; where a statement begins or ends on that
    line, the whole statement; where a function or one of its decorators begins there, the whole function.
    """
    if not any("tilewright:" in text for text in file.lines):
        return []
    spans = _spans(file.tree)
    found = []
    for token in _comments(file.text):
        match = _IGNORE.search(token.string)
        if match is None:
            continue
        line, column = token.start
        alone = not file.lines[line - 1][:column].strip()
        at = _next_code(file.lines, line) if alone else line
        names = None if match[1] is None else frozenset(n.strip() for n in match[1].split(",") if n.strip())
        found.append(Ignore(line, column + match.start() + 1, column + match.end(), names, spans.get(at, (at, at))))
    return found


def unused(
    found: Sequence[Ignore], looked_for: Mapping[str, object], known: Sequence[str]
) -> Iterator[tuple[Ignore, str]]:
    """Yield comments that silence nothing, and what to say of them; rules that were not looked for are left alone."""
    for one in found:
        if one.rules is None:
            # It may be there for a rule that was not looked for.
            if not one.used and len(looked_for) == len(known):
                yield one, "nothing is found here: the comment can go"
            continue
        for name in sorted(one.rules - set(known)):
            yield one, f"no rule {name!r}{did_you_mean(name, known)}"
        meant = one.rules & set(known)
        if meant and not one.used and meant <= looked_for.keys():
            yield one, f"no {' or '.join(sorted(meant))} is found here: the comment can go"


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield comments alone: texts may hold the same words. A text that cannot be told apart has none."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token
    except (tokenize.TokenError, SyntaxError):
        return


def _next_code(lines: Sequence[str], line: int) -> int:
    """Return the number of the next line that is neither empty nor a comment, or the line's own at the end."""
    for number in range(line + 1, len(lines) + 1):
        text = lines[number - 1].strip()
        if text and not text.startswith("#"):
            return number
    return line


def _spans(tree: ast.AST) -> dict[int, tuple[int, int]]:
    """Return the lines that a comment covers, by the line on which it stands."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        end = node.end_lineno or node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            starts = [d.lineno for d in node.decorator_list]
            for at in (node.lineno, *starts):
                found[at] = (min([node.lineno, *starts]), end)
        elif not hasattr(node, "body"):
            # Of statements that share a line with others, the first one.
            found.setdefault(node.lineno, (node.lineno, end))
            found.setdefault(end, (node.lineno, end))
    return found
