"""A progress bar on stderr, for what takes a while while a person is watching."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """A bar for a batch of `total`; nothing is shown for a few, or where stderr is no terminal.

    doing: `compiling` or `counting`, what the bar says.
    """

    def __init__(self, total: int, doing: str) -> None:
        self._doing = doing
        self._wanted = total > 2 and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._wanted:
            from rich import progress
            from rich.console import Console

            columns = (
                progress.TextColumn(self._doing),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
            )
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._doing)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
