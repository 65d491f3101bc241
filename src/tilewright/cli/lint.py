"""`tilewright lint`: mistakes in kernel source, found by reading it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.errors import TilewrightError
from tilewright.files import write_whole

if TYPE_CHECKING:
    from tilewright.lint import LintRule, Result

EXAMPLE = "Example: tilewright lint cases --ignore exp-in-loop"
FORMATS = ("text", "json", "sarif")


def lint(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH...", help="Python files or folders.")] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="RULE", help="Look for these rules alone; repeatable, or with commas."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULE", help="Leave rules out; repeatable, or with commas.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--no-notes", help="Leave out notes, which are advice.")] = False,
    form: Annotated[str, typer.Option("--format", help="text, json or sarif.")] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="As --format json (see: tilewright schema lint).")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the rules.")] = False,
    explain: Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule.")] = None,
) -> None:
    """Find mistakes in Triton kernels by reading their source; nothing is compiled or run.

    Exit code 1 when an error or a warning is found, 2 when a file cannot be read. A comment silences a line, or at a
    `def` the function: # tilewright: ignore[RULE]
    """
    from tilewright.lint import RULES, rule
    from tilewright.lint.files import lint_file, python_files

    form = "json" if as_json else form
    if form not in FORMATS:
        raise TilewrightError(f"--format must be one of {', '.join(FORMATS)}, found {form!r}")
    if explain is not None or listed:
        _print_rules([rule(explain)] if explain is not None else RULES, explain is not None, form)
        return
    if not paths:
        raise TilewrightError("expected files or folders: tilewright lint PATH...  (the rules: --list)")
    wanted = [rule(name) for name in _split(select)] if select else list(RULES)
    left_out = {rule(name).id for name in _split(ignore)}
    wanted = [r for r in wanted if r.id not in left_out]
    results = [lint_file(path, wanted) for path in python_files(paths)]
    if quiet:
        for result in results:
            result.mistakes = [m for m in result.mistakes if m.level != "note"]
    text = _text(wanted, results, form)
    if output is None:
        sys.stdout.write(text)
    else:
        write_whole(output, text.encode())
        print(f"{output}: {_summary(results)}")
    if any(r.unreadable for r in results):
        raise typer.Exit(2)
    if any(m.level != "note" for r in results for m in r.mistakes):
        raise typer.Exit(1)


def _split(words: Sequence[str] | None) -> list[str]:
    return [name.strip() for word in words or () for name in word.split(",") if name.strip()]


def _text(rules: Sequence[LintRule], results: Sequence[Result], form: str) -> str:
    import io

    from tilewright.report.mistakes import print_mistakes, sarif_of
    from tilewright.report.page import Page
    from tilewright.report.sarif import sarif_log

    if form == "sarif":
        return json.dumps(sarif_log(*sarif_of(rules, results)), indent=2) + "\n"
    if form == "json":
        return json.dumps(_data(results), indent=2) + "\n"
    written = io.StringIO()
    print_mistakes(Page(written), results)
    return written.getvalue()


def _summary(results: Sequence[Result]) -> str:
    from tilewright.report.mistakes import summary

    return summary(results)


def _data(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "schema": "tilewright.lint/1",
        "files": len(results),
        "kernels": sum(r.kernels for r in results),
        "mistakes": [m.to_dict() for r in results for m in r.mistakes],
        "unreadable": [{"path": r.path, "line": r.line, "reason": r.unreadable} for r in results if r.unreadable],
    }


def _print_rules(rules: Sequence[LintRule], whole: bool, form: str) -> None:
    from tilewright.report.mistakes import print_lint_rule, print_lint_rules
    from tilewright.report.page import Page

    page = Page(sys.stdout)
    if form == "json":
        json.dump({"schema": "tilewright.lint-rules/1", "rules": [r.to_dict() for r in rules]}, sys.stdout, indent=2)
        print()
    elif whole:
        print_lint_rule(page, rules[0])
    else:
        print_lint_rules(page, rules)
