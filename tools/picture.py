"""Draws a command's real output as an SVG: python tools/picture.py docs/explain.svg explain CASE ...

The README's picture is made by this and by nothing else; run it again after the output changes.
"""

from __future__ import annotations

import subprocess
import sys
from html import escape
from pathlib import Path

FONT_PX = 13
ROW_PX = 17
COLUMN_PX = 7.8
MARGIN_PX = 14
COLUMNS = 100


def draw(title: str, lines: list[str]) -> str:
    """Return an SVG of a terminal that shows `lines` under a `$ title` prompt."""
    shown = [f"$ {title}", "", *lines]
    width = round(COLUMNS * COLUMN_PX + 2 * MARGIN_PX)
    height = len(shown) * ROW_PX + 2 * MARGIN_PX
    texts = []
    for row, line in enumerate(shown):
        heading = line[:1].isupper() and line.split("  ")[0].isupper()
        colour = "#7ee787" if row == 0 else "#ffffff" if heading else "#c9d1d9"
        weight = ' font-weight="bold"' if heading else ""
        y = MARGIN_PX + (row + 0.8) * ROW_PX
        # textLength keeps the columns where they are, whichever monospaced font is at hand.
        if line.strip():
            length = len(line) * COLUMN_PX
            texts.append(
                f'<text x="{MARGIN_PX}" y="{y:.1f}" fill="{colour}"{weight} textLength="{length:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(line)}</text>'
            )
    body = "\n".join(texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="{FONT_PX}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Run the command and write the picture."""
    target, *words = sys.argv[1:]
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.cli.main", *words], capture_output=True, text=True, check=True
    )
    command = " ".join(["tilewright", *words])
    Path(target).write_text(draw(command, done.stdout.rstrip().splitlines()), encoding="utf-8")


if __name__ == "__main__":
    main()
