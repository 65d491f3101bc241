"""Long listings with executed counts beside each line: of the source, its machine code and its PTX."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence

from tilewright import figures
from tilewright.launch import functions_of
from tilewright.model import Profile, SourceLine
from tilewright.report import counts
from tilewright.report.page import Page
from tilewright.sass import Access, Counters, InstructionCount, Place, place_of, same_file

LISTINGS = ("lines", "source", "sass", "ptx")
CODE_COLUMNS = 140
"""Width of a listing of machine code or PTX: wider than a page, so that instructions are whole."""
_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_OFFSET = re.compile(r"\s*/\*([0-9a-f]+)\*/")


def print_listing(page: Page, p: Profile, name: str) -> None:
    """Print one of LISTINGS of a profile with counters."""
    c = p.counters
    assert c is not None
    {"lines": _lines, "source": _source, "sass": _sass, "ptx": _ptx}[name](page, p, c)


def _lines(page: Page, p: Profile, c: Counters) -> None:
    """Every line that executes something, with the library code inlined into it and by whom it is called."""
    own, total = str(p.launch.kernel.path), c.instructions or 0
    page.heading("LINES", f"{figures.count(total)} warp instructions")
    rows: list[tuple[str, ...]] = []
    for x in p.lines:
        rows.append(
            (
                _name(x.place, own),
                figures.count(x.instructions),
                figures.share(x.instructions, total),
                figures.share(x.with_calls, total) if x.with_calls > x.instructions else "",
                figures.count(x.tensor_ops) if x.tensor_ops else "",
                _fetched(x),
                figures.count(x.barriers) if x.barriers else "",
                counts.raw_line(x.place.file, x.place.line).strip(),
            )
        )
        for chain, number in sorted(x.library.items(), key=lambda item: -item[1]):
            where = " < ".join(_name(place, own) for place in chain)
            rows.append(
                ("", figures.count(number), figures.share(number, total), "", "", "", "", f"  in {where}")
            )
    head = ("line", "instr.", "", "with calls", "tensor", "from L2", "barriers", "")
    page.table(rows, head=head, right=range(7), cut=True, drop_empty=True)


def _fetched(x: SourceLine) -> str:
    if x.from_l2_bytes is None:
        return "unknown"
    return figures.size(x.from_l2_bytes) if x.from_l2_bytes else ""


def _name(place: Place, own: str) -> str:
    return str(place.line) if same_file(place.file, own) else str(place)


def _source(page: Page, p: Profile, c: Counters) -> None:
    """The functions of the kernel's file that execute something, in full."""
    own, total = str(p.launch.kernel.path), c.instructions or 0
    at = {x.place.line: x for x in p.lines if same_file(x.place.file, own)}
    page.heading("SOURCE", f"{figures.count(total)} warp instructions")
    most = max((x.instructions for x in at.values()), default=0)
    rows = []
    for first, last in functions_of(own):
        if not any(first <= line <= last for line in at):
            continue
        rows += [_source_row(own, line, at.get(line), total, most) for line in range(first, last + 1)]
    page.table(
        rows, head=("line", "instr.", "", "", "tensor", "from L2", ""), right=(0, 1, 2, 4, 5), cut=True
    )


def _source_row(own: str, line: int, x: SourceLine | None, total: int, most: int) -> tuple[str, ...]:
    text = linecache.getline(own, line).rstrip()
    if x is None or not x.instructions:
        return str(line), "", "", "", "", "", text
    return (
        str(line),
        figures.count(x.instructions),
        figures.share(x.instructions, total),
        figures.bar(x.instructions, most),
        figures.count(x.tensor_ops) if x.tensor_ops else "",
        _fetched(x),
        text,
    )


def _sass(page: Page, p: Profile, c: Counters) -> None:
    """The machine code in its order: executed counts, memory accesses, and the line each comes from."""
    assert p.compiled is not None
    own, total = str(p.launch.kernel.path), c.instructions or 0
    page.heading("MACHINE CODE", f"{figures.count(total)} warp instructions")
    labels = _labels(p.compiled.asm["sass"], p.launch.kernel.name)
    rows: list[tuple[str, ...]] = []
    for row in c.by_instruction:
        rows += [("", "", "", "", "", f"{label}:") for label in labels.get(row.pc, ())]
        rows.append(
            (
                f"{row.pc:04x}",
                figures.count(row.executed),
                figures.share(row.executed, total),
                _origin(row, own),
                access_words(row.access),
                f"  {row.text}",
            )
        )
    head = ("offset", "executed", "", "line", "a request", "")
    page.table(rows, head=head, right=(0, 1, 2), cut=True, columns=CODE_COLUMNS)


def _labels(sass: str, kernel: str) -> dict[int, list[str]]:
    """Map an instruction's offset to the labels that stand before it."""
    section = sass.partition(f".section\t.text.{kernel}")[2] or sass
    found: dict[int, list[str]] = {}
    waiting: list[str] = []
    for line in section.splitlines():
        if line.startswith("//-----"):
            break
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif waiting and (offset := _OFFSET.match(line)):
            found[int(offset[1], 16)] = waiting
            waiting = []
    return found


def access_words(a: Access | None) -> str:
    """`16/16 sectors`: what a request takes, and the ideal."""
    if a is None or not a.requests:
        return ""
    if a.sectors:
        return f"{a.sectors / a.requests:.3g}/{a.ideal_sectors / a.requests:.3g} sectors"
    if a.wavefronts:
        return f"{a.wavefronts / a.requests:.3g}/{a.ideal_wavefronts / a.requests:.3g} passes"
    return ""


def _origin(row: InstructionCount, own: str) -> str:
    place = place_of(row.calls, own)
    if place is None:
        return ""
    inner = "" if row.calls[0] == place else f" {row.calls[0]}"
    return f"{_name(place, own)}{inner}"


def _ptx(page: Page, p: Profile, c: Counters) -> None:
    """The PTX with what its machine code executes beside each line."""
    assert p.compiled is not None
    total = c.instructions or 0
    page.heading("PTX", f"{figures.count(total)} warp instructions of machine code")
    executed: dict[int, int] = {}
    for row in c.by_instruction:
        if row.ptx_line is not None:
            executed[row.ptx_line] = executed.get(row.ptx_line, 0) + row.executed
    rows = [
        (str(number), figures.count(n) if (n := executed.get(number, 0)) else "", _share(n, total), text)
        for number, text in code_lines(p.compiled.asm["ptx"].splitlines())
    ]
    page.table(rows, head=("line", "executed", "", ""), right=(0, 1, 2), cut=True, columns=CODE_COLUMNS)


def _share(part: int, total: int) -> str:
    return figures.share(part, total) if part else ""


def code_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Number the lines of a PTX file's functions; debug sections at its end are left out."""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(".section"):
            return
        yield number, line.expandtabs(4).rstrip()
