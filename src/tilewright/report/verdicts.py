"""What `tilewright check` found, on the terminal, as GitHub's annotations, and for SARIF."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from tilewright import figures
from tilewright.check import FIGURES, Broken, Verdict
from tilewright.report import words
from tilewright.report.page import Page
from tilewright.report.sarif import SarifResult, SarifRule


def print_verdicts(page: Page, verdicts: Sequence[Verdict]) -> None:
    """Print a line for each launch, and below a failed one every budget that it breaks."""
    page.title("CHECK", summary(verdicts))
    for v in verdicts:
        mark = f"  {'ok' if v.ok else 'FAILED':<6}  "
        page.paragraph(f"{v.name} on {v.gpu} ({words.plural(v.budgets, 'check')})", mark=mark)
        for broken in v.broken:
            page.paragraph(said(broken), mark="          ")
            for text, then, now in broken.grown:
                page.paragraph(f"{_change(then, now)}  {text}", mark="            ")
        for note in v.notes:
            page.paragraph(f"note: {note}", mark="          ")


def summary(verdicts: Sequence[Verdict]) -> str:
    """`2 launches, 1 failed`."""
    failed = sum(not v.ok for v in verdicts)
    launches = "1 launch" if len(verdicts) == 1 else f"{len(verdicts)} launches"
    return f"{launches}, {failed} failed" if failed else f"{launches}, all within their budgets"


def said(broken: Broken) -> str:
    """`instructions <= 1.02 * baseline: found 1,606.0 M, the limit is 174.1 M (baseline 170.7 M: +840.8%)`."""
    if broken.message or broken.found is None or broken.limit is None:
        return f"{broken.budget}: {broken.message}"
    text = f"{broken.budget}: found {_figure(broken.found)}, the limit is {_figure(broken.limit)}"
    if broken.reference is None:
        return text
    name = broken.budget.split()[-1]
    return f"{text} ({name} {_figure(broken.reference)}{_percent(broken.found, broken.reference)})"


def _figure(value: float) -> str:
    return figures.count(round(value)) if float(value).is_integer() or abs(value) >= 1e4 else f"{value:.4g}"


def _percent(found: float, baseline: float) -> str:
    return f": {(found / baseline - 1):+.1%}" if baseline else ""


def _change(then: int, now: int) -> str:
    return f"{figures.count(then)} -> {figures.count(now)}" if then else f"new: {figures.count(now)}"


def github_annotations(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a workflow command for every broken budget: GitHub shows it at the kernel's line.

    https://docs.github.com/actions/reference/workflow-commands: what has a meaning in them is written as %25 and so on.
    """
    for v in verdicts:
        for broken in v.broken:
            place = f"file={_property(os.path.relpath(v.path))},line={v.line},title={_property(f'{v.name} on {v.gpu}')}"
            yield f"::error {place}::{_message(said(broken))}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def sarif_of(verdicts: Sequence[Verdict]) -> tuple[list[SarifRule], list[SarifResult]]:
    """Return figures as rules and broken budgets as results, for a SARIF log."""
    rules = [
        SarifRule(
            f"budget-{f.name.replace('_', '-')}", f"A budget of {f.name}", f"{f.doc} ({f.origin})", "error"
        )
        for f in FIGURES.values()
    ]
    rules.append(
        SarifRule("budget-launch", "A launch that has to be possible", "it compiles and fits", "error")
    )
    results = [
        SarifResult(
            f"budget-{(b.figure or 'launch').replace('_', '-')}",
            "error",
            f"{v.name} on {v.gpu}: {said(b)}",
            v.path,
            v.line,
        )
        for v in verdicts
        for b in v.broken
    ]
    return rules, results


def print_updated(
    page: Page, verdicts: Sequence[Verdict], before: Sequence[dict[str, float]], path: str
) -> None:
    """Print which figures a new baseline changes."""
    page.title("BASELINE", path)
    for v, old in zip(verdicts, before, strict=True):
        page.line(f"  {v.name} on {v.gpu}")
        changed = [
            (
                name,
                _figure(old[name]) if name in old else "-",
                _figure(value),
                _percent(value, old.get(name, 0))[2:],
            )
            for name, value in v.figures.items()
            if old.get(name) != value
        ]
        if changed:
            page.table([(f"  {name}", was, now, part) for name, was, now, part in changed], right=[1, 2, 3])
        else:
            page.line("      unchanged")
