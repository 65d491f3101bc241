"""What lint found, on the terminal; and its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.lint import LEVELS, LintRule, Result
from tilewright.report import words
from tilewright.report.page import Page
from tilewright.report.sarif import SarifResult, SarifRule


def print_mistakes(page: Page, results: Sequence[Result]) -> None:
    """Print a line for each mistake, as compilers do, and a summary."""
    for result in results:
        if result.unreadable:
            page.line(f"{result.path}: cannot be read: {result.unreadable}")
        for m in result.mistakes:
            page.line(f"{m.path}:{m.line}:{m.column}: {m.level}: {m.message} [{m.rule}]")
    page.line(summary(results))


def summary(results: Sequence[Result]) -> str:
    """`2 errors, 1 warning, 3 notes in 40 files, 12 kernels`."""
    levels = Counter(m.level for r in results for m in r.mistakes)
    counted = [words.plural(levels[level], level) for level in LEVELS if levels[level]]
    unreadable = sum(r.unreadable is not None for r in results)
    kernels = sum(r.kernels for r in results)
    where = f"{words.plural(len(results), 'file')}, {words.plural(kernels, 'kernel')}"
    text = f"{', '.join(counted) or 'nothing found'} in {where}"
    return f"{text}; {words.plural(unreadable, 'file')} could not be read" if unreadable else text


def print_lint_rules(page: Page, rules: Sequence[LintRule]) -> None:
    """Print ids, levels and titles."""
    page.heading("RULES OF LINT", words.plural(len(rules), "rule"))
    page.table([(rule.id, rule.level, rule.title) for rule in rules])
    page.line()
    page.line("  Why, and an example: tilewright lint --explain ID")


def print_lint_rule(page: Page, rule: LintRule) -> None:
    """Print all that a rule says of itself."""
    page.title(rule.id, rule.level)
    page.paragraph(f"{rule.title}.", mark="")
    page.line()
    page.paragraph(rule.why, mark="")
    for title, text in zip(("WRONG", "RIGHT"), rule.example, strict=True):
        page.heading(title)
        for line in text.splitlines():
            page.line(f"    {line}")


def sarif_of(rules: Sequence[LintRule], results: Sequence[Result]) -> tuple[list[SarifRule], list[SarifResult]]:
    """Return lint's rules and findings for a SARIF log."""
    listed = [SarifRule(r.id, r.title, r.why, r.level) for r in rules]
    found = [
        SarifResult(m.rule, m.level, m.message, m.path, m.line, m.column, m.end_line, m.end_column + 1)
        for result in results
        for m in result.mistakes
    ]
    unreadable = [r for r in results if r.unreadable]
    if unreadable:
        listed.append(SarifRule("unreadable", "A file that could not be read", "Nothing is known of it.", "error"))
    found += [SarifResult("unreadable", "error", r.unreadable or "", r.path, r.line or 1) for r in unreadable]
    return listed, found
