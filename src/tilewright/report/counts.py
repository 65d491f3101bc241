"""What a launch executes, as sections of the page: totals, instructions by line, memory traffic, pipes, unknowns."""

from __future__ import annotations

import linecache
from collections.abc import Sequence

from tilewright import figures
from tilewright.launch import functions_of, short_path
from tilewright.model import Profile, SourceLine
from tilewright.model.counted import mean_per_program
from tilewright.report import words
from tilewright.report.page import Page
from tilewright.sass import COPIES, LOADED, SECTOR_BYTES, Access, Counters, Unknown, same_file

SHOWN = 0.01
"""Share of the instructions (or of tensor operations, or bytes from L2) from which a line is on the page."""
MOST_LINES = 18
PIPES = {
    "fma": "multiply, add",
    "alu": "compare, select, convert",
    "lsu": "load, store, shuffle",
    "xu": "exp2, log2, 1/x",
    "tensor": "tensor cores",
    "uniform": "once a warp: addresses",
    "fp64": "fp64",
    "cbu": "control",
    "tma": "tensor copies",
    "other": "branch, barrier, wait",
}
LEAST_PIPE = 0.001
"""Share of the instructions below which a pipe is not on the page."""
MOST_OPCODES = 4


def print_executed(page: Page, p: Profile) -> None:
    """Print the totals, or why there are none."""
    c = p.counters
    if c is None:
        return
    page.heading("WHAT IT EXECUTES", "unknown" if c.instructions is None else "counted from the machine code")
    if c.instructions is None:
        for unknown in c.unknown:
            page.paragraph(unknown_words(unknown))
        return
    page.table([row for row in _totals(p, c) if row], right=[1])


def _totals(p: Profile, c: Counters) -> list[tuple[str, str, str]]:
    assert c.instructions is not None
    rows = [("warp instructions", figures.count(c.instructions), spread_words(c))]
    tensor = c.total_tensor_ops
    types = ", ".join(f"{t.inputs} into {t.accumulator}" for t in c.tensor_ops)
    if tensor is None:
        rows.append(("tensor operations", "unknown", ""))
    elif tensor:
        needed = f"{needed_words(p)}; " if p.needed_factor else ""
        rows.append(("tensor operations", figures.count(tensor), f"{needed}{types}"))
    if c.barriers:
        even = "" if c.spread and c.spread.least == c.spread.most else " on average"
        each = c.barriers / (c.programs * p.launch.num_warps)
        rows.append(("barriers", figures.count(c.barriers), f"{each:,.0f} for each warp{even}"))
    if c.traffic is not None:
        rows.append(_from_l2(p, c))
    if spilled := c.spill_loads + c.spill_stores:
        parts = f"{figures.count(c.spill_stores)} stores, {figures.count(c.spill_loads)} loads"
        rows.append(("of spilled registers", figures.count(spilled), parts))
    return rows


def _from_l2(p: Profile, c: Counters) -> tuple[str, str, str]:
    assert c.traffic is not None
    moved = c.traffic.l2_to_sm_bytes
    if moved is None:
        return "from L2 into the SMs", "unknown", "the reason is below"
    how = "exactly" if c.traffic.l2_exact else "at most: what hits in L1 is not fetched again"
    needed = p.needed.bytes if p.needed else None
    return (
        "from L2 into the SMs",
        figures.size(moved),
        f"{how}{f'; {figures.size(needed)} needed' if needed else ''}",
    )


def needed_words(p: Profile) -> str:
    """`137.4 G needed: 1.5x`."""
    assert p.needed is not None
    assert p.needed.operations is not None
    assert p.needed_factor is not None
    if abs(p.needed_factor - 1) < 0.005:
        return "as many as needed"
    return f"{figures.count(p.needed.operations)} needed: {words.times(p.needed_factor)}"


def spread_words(c: Counters) -> str:
    """Say how many instructions a program executes, and how programs differ."""
    mean = mean_per_program(c)
    if c.spread is None or mean is None:
        return "the grid is empty" if not c.programs else ""
    s = c.spread
    if s.least == s.most:
        return f"{s.most:,} in every program"
    return f"{s.least:,} to {s.most:,} a program, {mean:,.0f} on average"


def unknown_words(u: Unknown) -> str:
    """Say what is not known, why, where, and how to help."""
    where = f" (line {u.place.line} of {short_path(u.place.file)})" if u.place else ""
    everything = u.what in EVERYTHING
    text = f"{'' if everything else f'{u.what}: '}{u.reason}{where}."
    text = text[:1].upper() + text[1:]
    return f"{text} {_hint(u)}" if everything and u.place and LOADED in u.reason else text


EVERYTHING = ("everything", "instructions")
"""What an Unknown is about where nothing could be counted."""


def _hint(u: Unknown) -> str:
    assert u.place is not None
    name = short_path(u.place.file).rpartition("/")[2]
    return f"If you know the value: --assume {name}:{u.place.line}=VALUE"


def print_source(page: Page, p: Profile) -> None:
    """Print the lines where the instructions go, in the order of the source."""
    c = p.counters
    if c is None or not c.instructions:
        return
    lines = [x for x in p.lines if x.instructions]
    shown = _worth_showing(lines, c)
    page.heading("WHERE THE INSTRUCTIONS GO", f"{figures.count(c.instructions)} warp instructions")
    line_table(page, shown, p)
    rest = [x for x in lines if x not in shown]
    if rest:
        left = sum(x.instructions for x in rest)
        page.line(
            f"  {words.plural(len(rest), 'more line')}: {figures.share(left, c.instructions)}  (all: --lines)"
        )
    placed = sum(x.instructions for x in lines)
    if placed < c.instructions:
        lost = figures.share(c.instructions - placed, c.instructions)
        page.line(f"  {lost} the compiler gives no line for")


def _worth_showing(lines: Sequence[SourceLine], c: Counters) -> list[SourceLine]:
    tensor = sum(x.tensor_ops for x in lines)
    fetched = sum(x.from_l2_bytes or 0 for x in lines)

    def weight(x: SourceLine) -> float:
        return max(
            figures.ratio(x.instructions, c.instructions or 0),
            x.tensor_ops / tensor if tensor else 0.0,
            (x.from_l2_bytes or 0) / fetched if fetched else 0.0,
        )

    heaviest = sorted((x for x in lines if weight(x) >= SHOWN), key=weight, reverse=True)[:MOST_LINES]
    return [x for x in lines if x in heaviest]


def line_table(page: Page, lines: Sequence[SourceLine], p: Profile) -> None:
    """Print lines of source with what they execute; columns that hold nothing are left out.

    Where they belong to several functions, each begins with its `def`.
    """
    assert p.counters is not None
    total, own = p.counters.instructions or 0, str(p.launch.kernel.path)
    most = max((x.instructions for x in lines), default=0)
    functions = functions_of(own)
    several = len({_function(functions, x.place.line) for x in lines if same_file(x.place.file, own)}) > 1
    rows: list[tuple[str, ...]] = []
    begun = None
    for x in lines:
        at_home = same_file(x.place.file, own)
        function = _function(functions, x.place.line) if at_home else None
        if several and function is not None and function != begun:
            rows.append((str(function), "", "", "", "", "", raw_line(own, function)))
            begun = function
        rows.append(
            (
                str(x.place.line) if at_home else str(x.place),
                figures.count(x.instructions),
                figures.share(x.instructions, total),
                figures.bar(x.instructions, most),
                figures.count(x.tensor_ops) if x.tensor_ops else "",
                "unknown"
                if x.from_l2_bytes is None
                else figures.size(x.from_l2_bytes)
                if x.from_l2_bytes
                else "",
                raw_line(x.place.file, x.place.line),
            )
        )
    texts = _dedented([row[-1] for row in rows])
    page.table(
        [(*row[:-1], text) for row, text in zip(rows, texts, strict=True)],
        head=("line", "instr.", "", "", "tensor", "from L2", ""),
        right=(0, 1, 2, 4, 5),
        cut=True,
        drop_empty=True,
    )


def raw_line(file: str, line: int) -> str:
    """Return a line of source with its indentation, without a trailing comment."""
    text = linecache.getline(file, line).rstrip()
    return text.partition("  # ")[0].rstrip() if not text.lstrip().startswith("#") else text


def _dedented(texts: Sequence[str]) -> list[str]:
    """Take off the indentation that all share, and half of the rest: it shows what lies in which loop."""
    indents = [len(t) - len(t.lstrip()) for t in texts]
    least = min((i for i, t in zip(indents, texts, strict=True) if t.strip()), default=0)
    return [" " * ((i - least) // 2) + t.lstrip() for i, t in zip(indents, texts, strict=True)]


def _function(functions: Sequence[tuple[int, int]], line: int) -> int | None:
    """Return the line where the innermost function that holds `line` begins."""
    return max((first for first, last in functions if first <= line <= last), default=None)


def print_traffic(page: Page, p: Profile) -> None:
    """Print memory traffic by kind of access."""
    t = p.counters.traffic if p.counters else None
    if t is None or not t.kinds:
        return
    moved = (
        "bytes from L2 unknown" if t.l2_to_sm_bytes is None else f"{figures.size(t.l2_to_sm_bytes)} from L2"
    )
    page.heading(
        "MEMORY TRAFFIC", f"{moved}{', exactly' if t.l2_exact else ', at most' if t.l2_to_sm_bytes else ''}"
    )
    rows = [
        (kind, figures.count(a.instructions), figures.size(a.bytes) if a.bytes else "", *quality(a, kind))
        for kind, a in t.kinds.items()
        if a.instructions
    ]
    page.table(rows, head=("", "warp instr.", "bytes", "a request", "ideal", ""), right=[1, 2, 3, 4])


def quality(a: Access, kind: str) -> tuple[str, str, str]:
    """Sectors or passes a request, the ideal, and the excess in words."""
    unknown = f"of {figures.count(a.unknown)} the addresses are not known" if a.unknown else ""
    requests = max(a.requests, 1)
    if a.sectors:
        said = [_sectors_words(a), unknown]
        if a.wavefronts > 1.005 * a.ideal_wavefronts and a.ideal_wavefronts:
            said.append(conflicts(a, kind))
        return (
            _each(a.sectors / requests, "sector"),
            f"{a.ideal_sectors / requests:.3g}",
            "; ".join(filter(None, said)),
        )
    if a.wavefronts:
        per, ideal = a.wavefronts / requests, a.ideal_wavefronts / requests
        said = [conflicts(a, kind), unknown]
        return _each(per, "pass"), f"{ideal:.3g}", "; ".join(filter(None, said))
    if not a.requests and not unknown:
        return "", "", "no lane takes part"
    return "", "", unknown or ("" if a.bytes else "how much they bring is not known")


def _each(number: float, what: str) -> str:
    text = f"{number:.3g}"
    return f"{text} {what if text == '1' else {'sector': 'sectors', 'pass': 'passes'}[what]}"


def _sectors_words(a: Access) -> str:
    excess = figures.ratio(a.sectors, a.ideal_sectors)
    if excess >= 1.005:
        return f"{words.times(excess)} the sectors that the bytes fill"
    filled = a.bytes / (SECTOR_BYTES * a.sectors)
    if filled > 1.005:
        return "lanes share what they access"
    return "every sector is full" if filled > 0.995 else "as few as can be"


def conflicts(a: Access, kind: str) -> str:
    """Say whether lanes meet on a bank of shared memory."""
    excess = figures.ratio(a.wavefronts, a.ideal_wavefronts)
    if excess < 1.005:
        return "no bank conflicts"
    # A copy past L1 takes a pass for each 128-byte line that it comes from, too.
    why = "bank conflicts, or rows of less than 128 B" if kind == COPIES else "bank conflicts"
    return f"{words.times(excess)} the passes: {why}"


def print_pipes(page: Page, p: Profile) -> None:
    """Print instructions by the pipe that executes them, with the opcodes that are most of it."""
    c = p.counters
    if c is None or not c.instructions:
        return
    page.heading("INSTRUCTIONS BY PIPE")
    of_pipe: dict[str, dict[str, int]] = {}
    for row in c.by_instruction:
        if row.executed:
            opcodes = of_pipe.setdefault(row.pipe, {})
            opcodes[row.opcode] = opcodes.get(row.opcode, 0) + row.executed
    rows = []
    for pipe, number in c.by_pipe.items():
        if number < LEAST_PIPE * c.instructions:
            continue
        top = sorted(of_pipe.get(pipe, {}).items(), key=lambda item: -item[1])
        telling = [item for item in top[:MOST_OPCODES] if item[1] >= SHOWN * c.instructions] or top[:1]
        mix = ", ".join(f"{name} {figures.share(n, c.instructions)}" for name, n in telling)
        rows.append(
            (pipe, PIPES.get(pipe, ""), figures.count(number), figures.share(number, c.instructions), mix)
        )
    page.table(rows, right=[2, 3], cut=True)


def print_limits_of_count(page: Page, p: Profile) -> None:
    """Print what the count assumes, and what it could not know."""
    c = p.counters
    if c is None:
        return
    if c.assumptions:
        page.heading("THE COUNT ASSUMES THAT")
        for text in c.assumptions:
            page.paragraph(text)
    if c.unknown and c.instructions is not None:
        page.heading("NOT KNOWN")
        for unknown in c.unknown:
            page.paragraph(unknown_words(unknown))
