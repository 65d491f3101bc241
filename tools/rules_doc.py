"""Writes the lists of rules in docs/rules.md and docs/lint.md from the rules themselves: python tools/rules_doc.py."""

from __future__ import annotations

from pathlib import Path

from tilewright import lint, rules

DOCS = Path(__file__).parents[1] / "docs"
MARK = "<!-- from here on: tools/rules_doc.py -->"


def rules_of_profiles() -> str:
    """Return the list of docs/rules.md as Markdown."""
    return "\n".join(
        f"### {rule.id}\n\n**{rule.title}.** {rule.why}\n\n"
        f"- Found: {rule.threshold}.\n- From: {rule.source}.\n- Before: `{rule.before}`\n- After: `{rule.after}`\n"
        for rule in rules.RULES
    )


def rules_of_lint() -> str:
    """Return the list of docs/lint.md as Markdown."""
    parts = []
    for rule in lint.RULES:
        wrong, right = (text.rstrip() for text in rule.example)
        parts.append(
            f"### {rule.id} ({rule.level})\n\n**{rule.title}.** {rule.why}\n\n"
            f"Wrong:\n\n```python\n{wrong}\n```\n\nRight:\n\n```python\n{right}\n```\n"
        )
    return "\n".join(parts)


def main() -> None:
    """Rewrite both lists."""
    for name, text in (("rules.md", rules_of_profiles()), ("lint.md", rules_of_lint())):
        page = DOCS / name
        head = page.read_text(encoding="utf-8").partition(MARK)[0]
        page.write_text(f"{head}{MARK}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
