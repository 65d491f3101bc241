"""What stands in AMD's machine code, as a section of the page: by loop, and by line on request."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.amdgcn import KINDS, StaticCounts
from tilewright.model import Profile
from tilewright.report import counts
from tilewright.report.page import Page

_HEADS = {
    "lane exchange": "lane\nexchange",
    "shared memory": "shared\nmemory",
    "to shared": "to\nshared",
}


def print_static(page: Page, p: Profile) -> None:
    """Print how many instructions of each kind stand in the kernel and in each loop."""
    s = p.static
    if s is None:
        return
    page.heading("WHAT STANDS IN THE MACHINE CODE", "static: not how often it runs")
    rows = [(_loop_name(loop.lines, loop.depth), *_row(loop.instructions, loop.by_kind)) for loop in s.loops]
    _table(page, [*rows, ("the whole kernel", *_row(s.instructions, s.by_kind))])


def print_static_lines(page: Page, p: Profile, s: StaticCounts) -> None:
    """Print how many instructions of each kind come from each line."""
    page.heading("LINES", "static: not how often they run")
    own = str(p.launch.kernel.path)
    rows = [
        (str(x.line), *_row(x.instructions, x.by_kind), counts.raw_line(own, x.line).strip())
        for x in s.by_line
    ]
    head = ("line", "all", *(_HEADS.get(kind, kind) for kind in KINDS), "")
    page.table(rows, head=head, right=range(len(head) - 1), cut=True, drop_empty=True)


def _loop_name(lines: tuple[int, int] | None, depth: int) -> str:
    where = f" of lines {lines[0]} to {lines[1]}" if lines else ""
    return f"{'  ' * depth}loop{where}"


def _row(instructions: int, by_kind: Mapping[str, int]) -> tuple[str, ...]:
    return (f"{instructions:,}", *(f"{by_kind[kind]:,}" if kind in by_kind else "" for kind in KINDS))


def _table(page: Page, rows: list[tuple[str, ...]]) -> None:
    head = ("", "all", *(_HEADS.get(kind, kind) for kind in KINDS))
    page.table(rows, head=head, right=range(1, len(head)), drop_empty=True)
