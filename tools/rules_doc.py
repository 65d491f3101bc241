"""Writes the list of rules in docs/rules.md from the rules themselves: python tools/rules_doc.py."""

from __future__ import annotations

from pathlib import Path

from tilewright.rules import RULES

PAGE = Path(__file__).parents[1] / "docs/rules.md"
MARK = "<!-- from here on: tools/rules_doc.py -->"


def listed() -> str:
    """Return the list as Markdown."""
    parts = []
    for rule in RULES:
        parts.append(
            f"### {rule.id}\n\n**{rule.title}.** {rule.why}\n\n"
            f"- Found: {rule.threshold}.\n- From: {rule.source}.\n- Before: `{rule.before}`\n- After: `{rule.after}`\n"
        )
    return "\n".join(parts)


def main() -> None:
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{listed()}", encoding="utf-8")


if __name__ == "__main__":
    main()
