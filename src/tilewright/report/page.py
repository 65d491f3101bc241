"""The terminal as the reports need it: 100 columns, plain when piped, NO_COLOR honoured, tables without lines.

Written out here rather than taken from a library because it is on the path of every command: what it does is
a few string operations, and loading a terminal library takes longer than explaining a cached kernel.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO

WIDTH = 100
GAP = "  "


class Page:
    """Writes text to `file`; headings are bold where a person watches in colour."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        watched = file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._bold, self._plain = ("\033[1m", "\033[0m") if watched else ("", "")

    def line(self, text: str = "") -> None:
        """Write one line as it is."""
        self._file.write(text.rstrip() + "\n")

    def heading(self, text: str, right: str = "") -> None:
        """Write an empty line and a heading, with a figure flush right."""
        self.line()
        self.line(f"{self._bold}{text}{self._plain}{right.rjust(WIDTH - len(text)) if right else ''}")

    def title(self, left: str, right: str) -> None:
        """Write the first line of a report; on two lines where it would be too wide."""
        if len(left) + len(right) + len(GAP) > WIDTH:
            self.line(f"{self._bold}{left}{self._plain}")
            self.line(right)
        else:
            self.line(f"{self._bold}{left}{self._plain}{right.rjust(WIDTH - len(left))}")

    def paragraph(self, text: str, mark: str = "  ") -> None:
        """Write text wrapped within the width, hanging under `mark`."""
        hang = " " * len(mark)
        for line in _wrap(text, WIDTH, mark, hang):
            self.line(line)

    def table(
        self,
        rows: Sequence[Sequence[str]],
        head: Sequence[str] = (),
        right: Iterable[int] = (),
        cut: bool = False,
        drop_empty: bool = False,
        columns: int = WIDTH,
    ) -> None:
        """Write rows in columns, indented by two; `right` columns are flush right.

        A cell may hold several lines. What is too wide for the page wraps, the widest columns first, and
        words are only broken where nothing else is left. With `cut`, the last column is cut short instead; with
        `drop_empty`, columns in which no row has anything are left out. `columns` is the page's width.
        """
        if not rows:
            return
        if drop_empty:
            kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
            rows, head = [[row[i] for i in kept] for row in rows], [head[i] for i in kept] if head else ()
            right = [at for at, i in enumerate(kept) if i in set(right)]
        flush = set(right)
        rows = _cut_last(rows, head, columns) if cut else rows
        cells = [[cell.split("\n") for cell in row] for row in ([list(head), *rows] if head else rows)]
        texts_of = [[line for row in cells for line in row[i]] for i in range(len(cells[0]))]
        natural = [max(map(len, lines)) for lines in texts_of]
        unbroken = [max(len(word) for line in lines for word in line.split() or [""]) for lines in texts_of]
        gap = GAP if sum(unbroken) + len(GAP) * len(texts_of) <= columns else " "
        widths = _narrowed(natural, unbroken, columns - len(gap) * len(texts_of))
        for row in cells:
            wrapped = [_fit(lines, width) for lines, width in zip(row, widths, strict=True)]
            for at in range(max(map(len, wrapped))):
                texts = [column[at] if at < len(column) else "" for column in wrapped]
                aligned = [
                    t.rjust(w) if i in flush else t.ljust(w)
                    for i, (t, w) in enumerate(zip(texts, widths, strict=True))
                ]
                self.line(gap + gap.join(aligned))


def _cut_last(rows: Sequence[Sequence[str]], head: Sequence[str], columns: int) -> list[list[str]]:
    """Cut the last cell of each row to what the others leave of the page."""
    others = zip(*(row[:-1] for row in ([head, *rows] if head else rows)), strict=True)
    room = columns - sum(max(map(len, column)) + len(GAP) for column in others) - len(GAP)
    return [[*row[:-1], shortened(row[-1], max(room, 8))] for row in rows]


def shortened(text: str, columns: int) -> str:
    """Cut text that is longer than `columns`, with three dots for the rest."""
    return text if len(text) <= columns else f"{text[: columns - 3].rstrip()}..."


def _narrowed(natural: Sequence[int], unbroken: Sequence[int], room: int) -> list[int]:
    """Take from the widest columns that can spare it until all fit in `room`."""
    widths = list(natural)
    while sum(widths) > room:
        spare = [i for i, w in enumerate(widths) if w > unbroken[i]] or range(len(widths))
        widest = max(spare, key=lambda i: widths[i])
        if widths[widest] == 1:
            break
        widths[widest] -= 1
    return widths


def _fit(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in (_wrap(line, width) if len(line) > width else [line])]


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=True,
    )
