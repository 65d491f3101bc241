"""What is wrong with a launch, the largest bound first, and what keeps the GPU busy; one rule explained."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import figures
from tilewright.model import Profile
from tilewright.model.limits import Busy
from tilewright.report import words
from tilewright.report.page import Page
from tilewright.rules import Finding, Rule, find


def print_findings(page: Page, p: Profile) -> None:
    """Print what the rules find, or that they find nothing and what the limit is."""
    if not p.fits:
        return
    found = find(p)
    if not found:
        page.heading("WHAT IS WRONG", "nothing that the rules know")
        page.paragraph(healthy(p))
        return
    page.heading("WHAT IS WRONG", "effect of each alone, at most (modelled)")
    tried: set[str] = set()
    for number, finding in enumerate(found, 1):
        page.title(f"  {number:>2}  {capital(finding.title)}", bound_words(finding))
        for evidence in finding.evidence:
            where = f"line {evidence.line}  " if evidence.line is not None else ""
            page.paragraph(f"{where}{evidence.text}", mark="      ")
        if finding.change not in tried:
            page.paragraph(f"Try: {finding.change}.", mark="      ")
            tried.add(finding.change)
    page.line(f"  More on one: tilewright rules show {found[0].rule}")


def bound_words(finding: Finding) -> str:
    """`at most 1.5x`, or `not predicted`."""
    return f"at most {words.times(finding.bound)}" if finding.bound else "not predicted"


def capital(text: str) -> str:
    """Return a title with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def healthy(p: Profile) -> str:
    """`Nothing to change; limited by the tensor cores, at least 1.9 ms: 72.3 TFLOP/s at most.`"""
    if not p.launch.programs:
        return "The grid is empty: nothing is executed."
    if not p.busy:
        return "Nothing to change, as far as the compiled kernel shows; it was not counted."
    top = p.busy[0]
    text = f"Nothing to change; limited by {top.unit}, busy for at least {figures.duration(top.seconds)}"
    operations = p.needed.operations if p.needed and p.needed.operations else 0
    operations = operations or (p.counters.total_tensor_ops if p.counters else 0) or 0
    if operations:
        text += f": {operations / top.seconds / 1e12:.3g} TFLOP/s at most"
    return f"{text} (modelled)."


def print_busy(page: Page, p: Profile) -> None:
    """Print how long each unit is busy at least."""
    if not p.busy:
        return
    clock = p.gpu.clocks.sustained_ghz or p.gpu.clocks.boost_ghz
    page.heading("WHAT KEEPS THE GPU BUSY", f"at least, at {clock} GHz (modelled)")
    rows = [
        (unit, time, f"{share:.0%}", "#" * max(1, round(figures.BAR * share)), amount)
        for unit, time, share, amount in busy_rows(p)
    ]
    page.table(rows, right=[1, 2])


def busy_rows(p: Profile) -> list[tuple[str, str, float, str]]:
    """Return unit, time, share of the longest time and amount of every unit that is busy for a hundredth of it."""
    longest = p.busy[0].seconds if p.busy else 1.0
    return [
        (b.unit, figures.duration(b.seconds), b.seconds / longest, _amount(b))
        for b in p.busy
        if b.seconds >= 0.01 * longest
    ]


def _amount(b: Busy) -> str:
    """`206.2 G operations`, `8.61 GB`, `67.6 MB needed`."""
    if b.what.startswith("bytes"):
        return f"{figures.size(int(b.amount))}{b.what.removeprefix('bytes')}"
    return f"{figures.count(int(b.amount))} {b.what}"


def print_rules(page: Page, rules: Sequence[Rule]) -> None:
    """Print the ids and titles of rules."""
    page.heading("RULES", words.plural(len(rules), "rule"))
    page.table([(rule.id, rule.title) for rule in rules])
    page.line()
    page.line("  What one looks for, why, and an example: tilewright rules show ID")


def print_rule(page: Page, rule: Rule) -> None:
    """Print all that a rule says of itself."""
    page.title(rule.id, "")
    page.paragraph(rule.title, mark="")
    page.heading("WHY")
    page.paragraph(rule.why)
    page.heading("FOUND WHERE")
    page.paragraph(rule.threshold)
    page.heading("FROM")
    page.paragraph(rule.source)
    page.heading("BEFORE")
    page.paragraph(rule.before)
    page.heading("AFTER")
    page.paragraph(rule.after)
