"""What a change removed and added, in the terminal: totals, lines of source, opcodes."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import figures
from tilewright.model import Change, Difference, LineChange, Profile
from tilewright.report import counts, words
from tilewright.report.page import Page
from tilewright.sass import Place, same_file

MOST_OPCODES = 12
TELLING = 0.001
"""Difference, as a share of the instructions before, from which a line or an opcode is shown."""


def print_difference(page: Page, d: Difference) -> None:
    """Print a comparison of two profiles."""
    page.title(f"{_name(d.before)} -> {_name(d.after)}", d.after.gpu.name)
    settings = [_settings(p) for p in (d.before, d.after)]
    for mark, p, own, other in (
        ("before  ", d.before, settings[0], settings[1]),
        ("after   ", d.after, settings[1], settings[0]),
    ):
        differing = [f"{k}={v}" for k, v in own.items() if other.get(k) != v]
        page.paragraph("  ".join([p.launch.case or p.launch.kernel.place, *differing]), mark=mark)
    both = [f"{k}={v}" for k, v in settings[0].items() if settings[1].get(k) == v]
    if both:
        page.paragraph("  ".join(both), mark="both    ")
    page.heading("IN SHORT")
    for sentence in _in_short(d):
        page.paragraph(sentence)
    _totals(page, d)
    _lines(page, d)
    _opcodes(page, d)
    for p in (d.before, d.after):
        if p.counters is not None and (p.counters.unknown or p.counters.assumptions):
            page.line()
            page.line(f"Of {_name(p)}:")
            if p.counters.instructions is None:
                counts.print_executed(page, p)
            counts.print_limits_of_count(page, p)


def _name(p: Profile) -> str:
    case = p.launch.case or p.launch.kernel.name
    return case.rpartition(":")[2] or case


def _settings(p: Profile) -> dict[str, str]:
    shown = {k: v for k, v in p.launch.parameters.items() if v is not None}
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in shown.items()}


def _in_short(d: Difference) -> list[str]:
    for p in (d.before, d.after):
        if p.counters is None or p.counters.instructions is None:
            return [f"What {_name(p)} executes is not known: {_why(p)}."]
    total = d.figures[0]
    assert total.before is not None
    assert total.after is not None
    gone = [c for c in d.by_opcode if (c.by or 0) < -TELLING * total.before][:4]
    come = [c for c in d.by_opcode if (c.by or 0) > TELLING * total.before][:4]
    change = f"{figures.count(total.before)} before, {figures.count(total.after)} after"
    first = f"{_relative(total)} warp instructions: {change}."
    if total.by == 0:
        first = f"As many warp instructions as before: {figures.count(total.before)}."
    texts = [first]
    for word, changes in (("Fewer", gone), ("More", come)):
        if changes:
            texts.append(f"{word}: {', '.join(f'{c.name} {figures.signed(c.by or 0)}' for c in changes)}.")
    return texts


def _why(p: Profile) -> str:
    if p.compiled is None:
        return "it does not compile" if p.does_not_fit is None else words.does_not_fit(p).rstrip(".")
    if p.counters is None:
        return (
            f"counts are of NVIDIA's machine code that fits, and {p.gpu.name} runs another or it does not fit"
        )
    return p.counters.unknown[0].reason if p.counters.unknown else "no reason was given"


def _relative(c: Change) -> str:
    assert c.before is not None
    assert c.by is not None
    word = "fewer" if c.by < 0 else "more"
    return (
        f"{figures.share(abs(c.by), c.before)} {word}" if c.before else f"{figures.count(abs(c.by))} {word}"
    )


def _totals(page: Page, d: Difference) -> None:
    page.heading("WHAT CHANGED")
    rows = [(c.name, *_figures(c), _percent(c)) for c in d.figures]
    page.table(rows, head=("", "before", "after", "", ""), right=(1, 2, 3, 4))


def _figures(c: Change) -> tuple[str, str, str]:
    """Before, after and the difference, in the unit of the figure."""
    written = figures.size if c.name.startswith("bytes ") else figures.count
    before, after = ("unknown" if n is None else written(n) for n in (c.before, c.after))
    by = f"{'+' if c.by > 0 else '-'}{written(abs(c.by))}" if c.by else ""
    return before, after, by


def _percent(c: Change) -> str:
    if not c.by or not c.before:
        return ""
    if c.by >= 9 * c.before:
        return words.times((c.after or 0) / c.before)
    return f"{'+' if c.by > 0 else '-'}{figures.share(abs(c.by), c.before)}"


def _lines(page: Page, d: Difference) -> None:
    total = (d.figures[0].before or 0) if d.figures else 0
    shown = [x for x in d.by_line if max(abs(c.by or 0) for c in x.by_opcode) >= TELLING * total]
    if not shown:
        return
    page.heading("BY LINE", "warp instructions")
    rows: list[Sequence[str]] = []
    for x in shown:
        before, after = _line(x.before_place, d.before), _line(x.after_place, d.after)
        rows.append((before, after, figures.signed(x.by), _text(x)))
        telling = [c for c in x.by_opcode[:5] if abs(c.by or 0) >= TELLING * total]
        mix = ", ".join(f"{c.name} {figures.signed(c.by or 0)}" for c in telling)
        rows.append(("", "", "", f"    {mix}"))
    page.table(rows, head=("before", "after", "", ""), right=(0, 1, 2), cut=True)


def _line(place: Place | None, p: Profile) -> str:
    if place is None:
        return "-"
    return str(place.line) if same_file(place.file, str(p.launch.kernel.path)) else str(place)


def _text(x: LineChange) -> str:
    place = x.after_place or x.before_place
    assert place is not None
    text = counts.raw_line(place.file, place.line).strip()
    if x.before_place and x.after_place:
        was = counts.raw_line(x.before_place.file, x.before_place.line).strip()
        return text if was == text else f"{text}    was: {was}"
    return f"{text}    ({'new' if x.before_place is None else 'gone'})"


def _opcodes(page: Page, d: Difference) -> None:
    total = (d.figures[0].before or 0) if d.figures else 0
    shown = [c for c in d.by_opcode if abs(c.by or 0) >= TELLING * total][:MOST_OPCODES]
    if not shown:
        return
    page.heading("BY OPCODE", "warp instructions")
    rows = [(c.name, *_figures(c), _percent(c)) for c in shown]
    page.table(rows, head=("", "before", "after", "", ""), right=(1, 2, 3, 4))
    rest = len(d.by_opcode) - len(shown)
    if rest:
        page.line(f"  {words.plural(rest, 'more opcode')} that differ less (--json has all)")
