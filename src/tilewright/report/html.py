"""One self-contained HTML page of profiles: findings first, then the source beside machine code, PTX and TTGIR."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import starmap

from tilewright import figures
from tilewright.launch import functions_of
from tilewright.model import Profile
from tilewright.report import listing, pictures
from tilewright.report.compare import names as names_of
from tilewright.report.compare import side_by_side_rows
from tilewright.report.counts import unknown_words
from tilewright.report.findings import bound_words, busy_rows, capital, healthy
from tilewright.report.in_short import in_short
from tilewright.report.markup import escape, tag
from tilewright.rules import Evidence, Finding, find
from tilewright.sass import Place, place_of, same_file
from tilewright.ttgir import located

_ASSETS = resources.files("tilewright.report") / "assets"
_ORIGINS = "Compiled: the compiler's. Counted: from the machine code. Modelled: a formula. Nothing here is measured."


def html_page(profiles: Sequence[Profile]) -> str:
    """Return the page. It loads nothing from anywhere else: styles, script and pictures are in it."""
    style = (_ASSETS / "report.css").read_text(encoding="utf-8")
    script = (_ASSETS / "report.js").read_text(encoding="utf-8")
    names = names_of(profiles)
    title = names[0] if len(names) == 1 else f"{len(names)} launches"
    several = len(profiles) > 1
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"{tag('title', f'Tilewright: {escape(title)}')}<style>{style}</style></head><body>",
        tag("header", tag("h1", escape(title)), _compiled_by(profiles)),
    ]
    if several:
        links = (tag("li", tag("a", escape(name), href=f"#p{n}")) for n, name in enumerate(names))
        parts.append(tag("nav", tag("ul", *links), aria_label="Launches"))
    parts.append("<main>")
    if several:
        parts.append(_side_by_side(profiles, names))
    for number, p in enumerate(profiles):
        key = f"p{number}"
        body = _profile(p, key)
        # One launch is named by the page's title already.
        heading = tag("h2", escape(names[number]), id=key, class_=None if several else "unseen")
        parts.append(tag("section", heading, "\n".join(body), aria_labelledby=key))
    parts.append(f"{tag('footer', _ORIGINS)}</main><script>{script}</script></body></html>\n")
    return "\n".join(parts)


def _compiled_by(profiles: Sequence[Profile]) -> str:
    versions = sorted({p.compiled.triton_version for p in profiles if p.compiled})
    by = f"compiled by Triton {', '.join(versions)}; " if versions else ""
    return _quiet(f"{by}nothing was run")


def _quiet(text: str, code: bool = False) -> str:
    return tag("p", escape(text), class_="quiet code" if code else "quiet")


def _scroll(*content: str) -> str:
    return tag("div", *content, class_="scroll")


def _number(content: str) -> str:
    return tag("td", content, class_="number")


def _meter(share: float) -> str:
    return tag("span", tag("i", style=f"width:{share:.0%}"), class_="meter", aria_hidden="true")


def _side_by_side(profiles: Sequence[Profile], names: Sequence[str]) -> str:
    head = tag("tr", *(tag("th", escape(n), scope="col") for n in ("", *names)))
    rows = (
        tag("tr", tag("th", escape(first), scope="row"), *(tag("td", escape(cell)) for cell in cells))
        for first, *cells in side_by_side_rows(profiles)
    )
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="compare")
    return tag("h2", "Side by side") + _scroll(table)


def _profile(p: Profile, key: str) -> Iterator[str]:
    yield _quiet(f"{p.launch.kernel.name} {p.launch.kernel.place}", code=True)
    yield _quiet("  ".join(f"{k}={v}" for k, v in p.launch.parameters.items() if v is not None), code=True)
    lines = dict(_kernel_lines(p)) if p.compiled else {}
    yield from _findings(p, key, lines)
    yield from (tag("p", escape(sentence)) for sentence in in_short(p))
    if p.busy:
        yield tag("h3", "What keeps the GPU busy, at least (modelled)")
        yield _scroll(tag("table", *starmap(_busy_row, busy_rows(p)), class_="busy"))
    yield from _source(p, key, lines)
    drawn = [svg for name in pictures.PICTURES for svg in pictures.draw(p, name)]
    if drawn:
        yield tag("h3", "Pictures")
        yield tag("div", *map(_scroll, drawn), class_="pictures")
    yield from _unknown(p)


def _busy_row(unit: str, time: str, share: float, amount: str) -> str:
    cells = tag("td", escape(unit)), _number(time), _number(f"{share:.0%}"), tag("td", _meter(share))
    return tag("tr", *cells, tag("td", escape(amount)))


def _findings(p: Profile, key: str, lines: Container[int]) -> Iterator[str]:
    if not p.fits:
        return
    found = find(p)
    yield tag("h3", "What is wrong")
    if found:
        yield _quiet("The effect of each alone, at most; modelled.")
        yield tag("ol", *(_finding(f, key, lines) for f in found), class_="findings")
    else:
        yield tag("p", escape(healthy(p)))


def _finding(finding: Finding, key: str, lines: Container[int]) -> str:
    bound = tag("span", escape(bound_words(finding)), class_="bound")
    return tag(
        "li",
        tag("h4", tag("span", escape(capital(finding.title))), bound),
        tag("ul", *(_evidence(e, key, lines) for e in finding.evidence)),
        tag("p", f"Try: {escape(finding.change)}."),
        _quiet(f"Bound: {finding.bound_because}."),
    )


def _evidence(evidence: Evidence, key: str, lines: Container[int]) -> str:
    line, link = evidence.line, ""
    if line in lines:
        link = tag("a", f"line {line}", href=f"#{key}-l{line}", data_line=line, data_panes=f"{key}-panes")
    elif line is not None:
        link = f"line {line}"
    origin = tag("span", f"({escape(evidence.origin)})", class_="quiet")
    return tag("li", f"{link} {escape(evidence.text)} {origin}".lstrip())


def _source(p: Profile, key: str, lines: Mapping[int, str]) -> Iterator[str]:
    """The kernel's functions beside what was made of them; a click on a line marks it everywhere."""
    if p.compiled is None:
        return
    titled = {"sass": ("Machine code", _sass), "ptx": ("PTX", _ptx), "ttgir": ("TTGIR", _ttgir)}
    panes = [
        (pane, title, packed)
        for pane, (title, rows) in titled.items()
        if (packed := _packed(f"{key}-{pane}", *rows(p)))
    ]
    yield tag("h3", "Source, and what was made of it")
    yield _quiet("Choose a line to see what it became, or a row to see where it comes from.")
    source = tag("div", _source_table(p, key, lines), class_="pane", tabindex="0", role="region", aria_label="Source")
    tabs = tag("div", *(_tab(key, pane, title, n == 0) for n, (pane, title, _) in enumerate(panes)), role="tablist")
    made = (_panel(key, pane, packed, n == 0) for n, (pane, _, packed) in enumerate(panes))
    hot = max(p.lines, key=lambda x: x.instructions, default=None)
    line = hot.place.line if hot is not None else None
    yield tag("div", tag("div", source), tag("div", tabs, *made), class_="panes", id=f"{key}-panes", data_hot=line)


def _tab(key: str, pane: str, title: str, first: bool) -> str:
    return tag(
        "button",
        title,
        type="button",
        role="tab",
        id=f"{key}-t-{pane}",
        aria_controls=f"{key}-{pane}",
        aria_selected="true" if first else "false",
        tabindex="0" if first else "-1",
    )


def _panel(key: str, pane: str, packed: str, first: bool) -> str:
    panel = tag(
        "div",
        tag("noscript", "Shown by the page's script, which this browser does not run."),
        class_="pane",
        id=f"{key}-{pane}",
        role="tabpanel",
        aria_labelledby=f"{key}-t-{pane}",
        tabindex="0",
        hidden=not first,
    )
    return panel + packed


def _source_table(p: Profile, key: str, lines: Mapping[int, str]) -> str:
    total = p.counters.instructions if p.counters and p.counters.instructions else 0
    by_line = {x.place.line: x for x in p.lines if same_file(x.place.file, str(p.launch.kernel.path))}
    most = max((x.instructions for x in by_line.values()), default=0)
    head = ("line", "executed", "share", "tensor", "from L2", "source")
    rows = [tag("tr", *(tag("th", title, scope="col") for title in head))]
    for number, text in lines.items():
        x = by_line.get(number)
        cells, part = ["", "", "", ""], None
        if x is not None and x.instructions:
            from_l2 = "unknown" if x.from_l2_bytes is None else figures.size(x.from_l2_bytes) if x.from_l2_bytes else ""
            cells = [
                figures.count(x.instructions),
                figures.share(x.instructions, total),
                figures.count(x.tensor_ops) if x.tensor_ops else "",
                from_l2,
            ]
            # The style draws it as a bar below the line's figures.
            part = f"--part:{x.instructions / most:.1%}"
        row = (tag("td", cell) for cell in (str(number), *cells, escape(text)))
        rows.append(tag("tr", *row, style=part, id=f"{key}-l{number}", data_l=number))
    return tag("table", *rows)


def _kernel_lines(p: Profile) -> Iterator[tuple[int, str]]:
    """The lines of the kernel and of those functions of its file that execute something."""
    path = p.launch.kernel.path
    try:
        text = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    used = {x.place.line for x in p.lines} | {p.launch.kernel.line}
    for first, last in sorted(functions_of(path)):
        if any(first <= line <= last for line in used):
            for number in range(first, min(last, len(text)) + 1):
                yield number, text[number - 1]


def _packed(pane: str, titles: Sequence[str], rows: Iterable[tuple[int | None, Sequence[str], str]]) -> str:
    """A pane's rows for the script to unpack: the source's line, figures, then code. Empty without rows.

    They are thousands and much alike: as elements ten kernels would make a page of 6 MB that opens slowly.
    """
    body = [(line, *cells, code) for line, cells, code in rows]
    if not body:
        return ""
    text = json.dumps([titles, *body], separators=(",", ":"), ensure_ascii=False)
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return tag("script", packed, type="text/plain", data_rows=pane)


_Rows = tuple[tuple[str, ...], Iterable[tuple[int | None, Sequence[str], str]]]
"""The titles of a pane's columns, and its rows."""


def _sass(p: Profile) -> _Rows:
    own = str(p.launch.kernel.path)
    found = []
    for row in p.counters.by_instruction if p.counters else ():
        line = _own_line(row.calls, own)
        found.append((line, (figures.count(row.executed), str(line or ""), listing.access_words(row.access)), row.text))
    return ("executed", "line", "a request", "machine code"), found


def _own_line(calls: Sequence[Place], own: str) -> int | None:
    place = place_of(calls, own)
    return place.line if place is not None and same_file(place.file, own) else None


def _ptx(p: Profile) -> _Rows:
    own = str(p.launch.kernel.path)
    executed: dict[int, int] = {}
    origin: dict[int, int | None] = {}
    for row in p.counters.by_instruction if p.counters else ():
        if row.ptx_line is not None:
            executed[row.ptx_line] = executed.get(row.ptx_line, 0) + row.executed
            origin[row.ptx_line] = _own_line(row.calls, own) or origin.get(row.ptx_line)
    text = p.compiled.asm.get("ptx", "") if p.compiled else ""
    return ("executed", "PTX"), (
        (origin.get(number), [figures.count(executed[number]) if executed.get(number) else ""], line)
        for number, line in listing.code_lines(text.splitlines())
        if not line.lstrip().startswith((".loc", ".file", "//"))
    )


def _ttgir(p: Profile) -> _Rows:
    own = str(p.launch.kernel.path)
    found = []
    for text, location in located(p.compiled.asm.get("ttgir", "") if p.compiled else ""):
        frame = location.user_frame
        line = frame.line if frame is not None and same_file(frame.file, own) else None
        if text.strip():
            found.append((line, [str(line or "")], text))
    return ("line", "TTGIR"), found


def _unknown(p: Profile) -> Iterator[str]:
    c = p.counters
    if c is None or not (c.unknown or c.assumptions):
        return
    yield tag("h3", "What the counts rest on")
    items = [f"assumed: {text}" for text in c.assumptions] + [f"not known: {unknown_words(u)}" for u in c.unknown]
    yield tag("ul", *(tag("li", escape(item)) for item in items))
