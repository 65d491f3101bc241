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
        self, rows: Sequence[Sequence[str]], head: Sequence[str] = (), right: Iterable[int] = ()
    ) -> None:
        """Write rows in columns, indented by two; `right` columns are flush right, the widest text one wraps.

        A cell may hold several lines.
        """
        if not rows:
            return
        flush = set(right)
        cells = [[cell.split("\n") for cell in row] for row in ([list(head), *rows] if head else rows)]
        widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(cells[0]))]
        excess = sum(widths) + len(GAP) * len(widths) - WIDTH
        if excess > 0:
            widest = max(range(len(widths)), key=lambda i: widths[i])
            widths[widest] = max(16, widths[widest] - excess)
            for row in cells:
                row[widest] = [part for line in row[widest] for part in _wrap(line, widths[widest]) or [""]]
        for row in cells:
            for at in range(max(map(len, row))):
                texts = [column[at] if at < len(column) else "" for column in row]
                aligned = [
                    t.rjust(w) if i in flush else t.ljust(w)
                    for i, (t, w) in enumerate(zip(texts, widths, strict=True))
                ]
                self.line(GAP + GAP.join(aligned))


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=True,
    )
