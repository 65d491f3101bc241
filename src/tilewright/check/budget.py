"""One budget: a figure, a comparison, and a number, what is needed, or the baseline."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

from tilewright.check.figures import FIGURES
from tilewright.errors import TilewrightError, did_you_mean

COMPARISONS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
NAMES = ("baseline", "needed")
_NUMBER = r"\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?"
_BUDGET = re.compile(
    rf"\s*(?P<figure>[a-z_]\w*)\s*(?P<compared><=|>=|==|=|<|>)\s*"
    rf"(?:(?P<factor>{_NUMBER})\s*\*\s*(?P<named>[a-z]+)|(?P<name>[a-z]+)|(?P<number>{_NUMBER}))\s*"
)


class BudgetError(TilewrightError):
    """A budget, or a file of budgets, that cannot be read; the message says what is expected."""


@dataclass(frozen=True)
class Budget:
    """`instructions <= 1.02 * baseline`: `times` is 1.02, `of` is `baseline`; of a plain number `of` is None."""

    text: str
    figure: str
    compared: str
    times: float
    of: str | None

    def limit(self, reference: float | None) -> float | None:
        """Return the number that the figure is compared with; None where what it refers to is not known."""
        if self.of is None:
            return self.times
        return None if reference is None else self.times * reference

    def holds(self, value: float, limit: float) -> bool:
        """Whether a value keeps the budget."""
        return bool(COMPARISONS[self.compared](value, limit))


def parse_budget(text: str) -> Budget:
    """Read a budget; raise BudgetError that says what is wrong with it."""
    match = _BUDGET.fullmatch(text)
    if match is None:
        raise BudgetError(
            f"budget {text!r}: expected FIGURE <= NUMBER, or FIGURE <= 1.02 * baseline (also needed; >=, ==, <, >)"
        )
    figure, name = match["figure"], match["named"] or match["name"]
    if figure not in FIGURES:
        raise BudgetError(
            f"budget {text!r}: no figure {figure!r}{did_you_mean(figure, FIGURES)}; there are: {', '.join(FIGURES)}"
        )
    if name is not None and name not in NAMES:
        raise BudgetError(
            f"budget {text!r}: no {name!r}{did_you_mean(name, NAMES)}: expected a number, baseline or needed"
        )
    if name == "needed" and FIGURES[figure].needed is None:
        able = ", ".join(f.name for f in FIGURES.values() if f.needed)
        raise BudgetError(
            f"budget {text!r}: nothing says how much {figure} is needed; that is known of {able}"
        )
    number = match["factor"] or match["number"] or "1"
    compared = "==" if match["compared"] == "=" else match["compared"]
    return Budget(" ".join(text.split()), figure, compared, float(number.replace("_", "")), name)
