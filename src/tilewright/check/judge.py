"""Profile and budgets -> what holds and what does not, with the lines that grew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.check.baseline import Baseline, Recorded, lines_of
from tilewright.check.budget import Budget
from tilewright.check.config import Entry
from tilewright.check.figures import FIGURES
from tilewright.model import Profile
from tilewright.rules import find

MOST_GROWN = 3


@dataclass(frozen=True)
class Broken:
    """One budget that does not hold: what was asked, what was found, and in words why.

    `reference` is the baseline or what is needed, where the budget names one; None is not known. `grown` holds the
    lines that execute more than in the baseline: their text, then and now.
    """

    budget: str
    figure: str | None
    found: float | None
    limit: float | None
    reference: float | None
    message: str
    grown: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What came of one kernel on one GPU: budgets looked at, those broken, the place of the kernel, and remarks."""

    name: str
    gpu: str
    path: str
    line: int
    budgets: int
    broken: tuple[Broken, ...]
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.broken

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**asdict(self), "ok": self.ok, "broken": [asdict(b) for b in self.broken]}


def judge(
    entry: Entry,
    gpu: str,
    p: Profile,
    baseline: Baseline,
    fitting: Mapping[str, Profile],
    figures: Mapping[str, float],
) -> Verdict:
    """Judge a profile by an entry's budgets. `fitting` are profiles of the same launch on the GPUs it has to fit on."""
    recorded = baseline.recorded.get((entry.name, gpu))
    broken, notes = [], []
    checks = len(entry.budgets) + len(fitting) + bool(entry.no_findings)
    place = p.launch.kernel
    if p.compiled is None or not p.fits:
        broken.append(_not_compiled(p))
    else:
        for budget in entry.budgets:
            found = _judge(entry, budget, p, recorded)
            if isinstance(found, str):
                notes.append(found)
            elif found is not None:
                broken.append(found)
        broken += _findings(entry, p)
    broken += [_does_not_fit(name, other) for name, other in fitting.items() if not other.fits]
    if recorded is not None and p.compiled and recorded.triton != p.compiled.triton_version:
        notes.append(
            f"the baseline was compiled by Triton {recorded.triton}, this by {p.compiled.triton_version}: "
            "compilers differ, so record it anew when the Triton is changed (--update)"
        )
    return Verdict(entry.name, gpu, str(place.path), place.line, checks, tuple(broken), tuple(notes), figures)


def _not_compiled(p: Profile) -> Broken:
    why = (
        p.does_not_fit.message
        if p.does_not_fit
        else p.failure.message
        if p.failure
        else "it was not compiled"
    )
    return Broken("it compiles and fits", None, None, None, None, why)


def _does_not_fit(name: str, p: Profile) -> Broken:
    return Broken(f"fits {name}", None, None, None, None, _not_compiled(p).message)


def _findings(entry: Entry, p: Profile) -> list[Broken]:
    if not entry.no_findings:
        return []
    found = [f for f in find(p) if "*" in entry.no_findings or f.rule in entry.no_findings]
    return [
        Broken(f"no finding {f.rule}", "findings", None, None, None, f"{f.title}: {f.evidence[0].text}")
        for f in found
    ]


def _judge(entry: Entry, budget: Budget, p: Profile, recorded: Recorded | None) -> Broken | str | None:
    """Return what is broken, a remark where an unknown is allowed, or None."""
    figure = FIGURES[budget.figure]
    reading = figure.read(p)
    if reading.value is None:
        if "*" in entry.allow_unknown or budget.figure in entry.allow_unknown:
            return f"{budget.text}: not known, which is allowed: {reading.reason}"
        return Broken(
            budget.text, budget.figure, None, None, None,
            f"{budget.figure} is not known: {reading.reason} (allow_unknown = ['{budget.figure}'] lets it pass)",
        )  # fmt: skip
    past = recorded.figures.get(budget.figure) if recorded else None
    reference = (
        past
        if budget.of == "baseline"
        else figure.needed(p)
        if budget.of == "needed" and figure.needed
        else None
    )
    limit = budget.limit(reference)
    if limit is None:
        missing = (
            "the baseline has no such figure: record it with tilewright check --update"
            if budget.of == "baseline"
            else "the case does not say how much is needed (needed=)"
        )
        return Broken(budget.text, budget.figure, reading.value, None, None, missing)
    if budget.holds(reading.value, limit):
        return None
    grown = _grown(p, recorded) if recorded and budget.figure == "instructions" else ()
    return Broken(budget.text, budget.figure, reading.value, limit, reference, "", grown)


def _grown(p: Profile, recorded: Recorded) -> tuple[tuple[str, int, int], ...]:
    """The lines whose instructions grew the most since the baseline."""
    now = lines_of(p)
    more = {
        text: n - recorded.lines.get(text, 0) for text, n in now.items() if n > recorded.lines.get(text, 0)
    }
    most = sorted(more, key=lambda text: -more[text])[:MOST_GROWN]
    return tuple((text, recorded.lines.get(text, 0), now[text]) for text in most)
