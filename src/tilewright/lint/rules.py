"""All rules of lint, in the order in which they are listed."""

from __future__ import annotations

from tilewright.errors import TilewrightError, did_you_mean
from tilewright.lint import block_pointers, launches, padding, results, tuning, values
from tilewright.lint.mistake import LintRule

UNUSED_IGNORE = "unused-ignore"
_SILENCE = LintRule(
    UNUSED_IGNORE,
    "note",
    "A comment that silences nothing",
    "What it was for is gone, or its rule is misspelt; left in place it hides the next mistake. Looked for when all "
    "the other rules have been.",
    # lint_text does it: only there is it known what the others found.
    lambda file: iter(()),
)
RULES: tuple[LintRule, ...] = (
    *results.RULES,
    *padding.RULES,
    *values.RULES,
    *block_pointers.RULES,
    *launches.RULES,
    *tuning.RULES,
    _SILENCE,
)
_BY_ID = {r.id: r for r in RULES}


def rule(name: str) -> LintRule:
    """Return the rule of an id; raise TilewrightError if there is none."""
    if name not in _BY_ID:
        raise TilewrightError(
            f"no rule {name!r}{did_you_mean(name, _BY_ID)}; `tilewright lint --list` lists them"
        )
    return _BY_ID[name]
