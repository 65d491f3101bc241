"""One self-contained HTML page of profiles: findings first, then the source beside machine code, PTX and TTGIR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from tilewright import figures
from tilewright.launch import functions_of
from tilewright.model import Profile
from tilewright.report import listing, pictures
from tilewright.report.compare import side_by_side_rows
from tilewright.report.findings import bound_words, busy_rows, capital, healthy
from tilewright.report.in_short import in_short
from tilewright.rules import find
from tilewright.sass import place_of, same_file
from tilewright.ttgir import located

_ASSETS = resources.files("tilewright.report") / "assets"


def html_page(profiles: Sequence[Profile]) -> str:
    """Return the page: nothing in it is loaded from anywhere else."""
    style = (_ASSETS / "report.css").read_text(encoding="utf-8")
    script = (_ASSETS / "report.js").read_text(encoding="utf-8")
    names = [_name(p) for p in profiles]
    title = names[0] if len(names) == 1 else f"{len(names)} launches"
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Tilewright: {escape(title)}</title><style>{style}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>{_legend(profiles)}</header>",
    ]
    if len(profiles) > 1:
        links = "".join(f'<li><a href="#p{n}">{escape(name)}</a></li>' for n, name in enumerate(names))
        parts.append(f'<nav aria-label="Launches"><ul>{links}</ul></nav>')
    parts.append("<main>")
    if len(profiles) > 1:
        parts.append(_comparison(profiles, names))
    for number, p in enumerate(profiles):
        parts += _profile(p, f"p{number}", names[number])
    parts.append(
        "<footer>Made by tilewright report. Counted: from the machine code. Modelled: a formula. Nothing is measured.</footer>"
    )
    parts.append(f"</main><script>{script}</script></body></html>\n")
    return "\n".join(parts)


def _name(p: Profile) -> str:
    case = p.launch.case or p.launch.kernel.name
    return f"{case.rpartition('/')[2]} on {p.gpu.name}"


def _legend(profiles: Sequence[Profile]) -> str:
    versions = sorted({p.compiled.triton_version for p in profiles if p.compiled})
    return f'<p class="quiet">compiled by Triton {escape(", ".join(versions) or "?")}; nothing was run</p>'


def _comparison(profiles: Sequence[Profile], names: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{escape(n)}</th>' for n in ("", *names))
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(c)}</td>" for c in cells)
        + "</tr>"
        for first, *cells in side_by_side_rows(profiles)
    )
    return f'<h2>Side by side</h2><div class="scroll"><table class="compare"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _profile(p: Profile, key: str, name: str) -> Iterator[str]:
    yield f'<section aria-labelledby="{key}"><h2 id="{key}">{escape(name)}</h2>'
    chosen = "  ".join(f"{k}={v}" for k, v in p.launch.parameters.items() if v is not None)
    yield f'<p class="quiet code">{escape(p.launch.kernel.name)} {escape(p.launch.kernel.place)}</p>'
    yield f'<p class="quiet code">{escape(chosen)}</p>'
    yield from _findings(p, key)
    yield from (f"<p>{escape(sentence)}</p>" for sentence in in_short(p))
    if p.busy:
        yield "<h3>What keeps the GPU busy, at least (modelled)</h3>"
        yield '<div class="scroll"><table class="busy"><tbody>'
        for unit, time, share, amount in busy_rows(p):
            meter = f'<span class="meter" aria-hidden="true"><i style="width:{share:.0%}"></i></span>'
            yield f'<tr><td>{escape(unit)}</td><td class="number">{time}</td><td class="number">{share:.0%}</td><td>{meter}</td><td>{escape(amount)}</td></tr>'
        yield "</tbody></table></div>"
    yield from _source(p, key)
    drawn = [
        (title, svg) for picture, title in pictures.PICTURES.items() for svg in pictures.draw(p, picture)
    ]
    if drawn:
        yield '<h3>Pictures</h3><div class="pictures">'
        yield from (f'<div class="scroll">{svg}</div>' for _, svg in drawn)
        yield "</div>"
    yield from _unknown(p)
    yield "</section>"


def _findings(p: Profile, key: str) -> Iterator[str]:
    if not p.fits:
        return
    found = find(p)
    yield "<h3>What is wrong</h3>"
    if not found:
        yield f"<p>{escape(healthy(p))}</p>"
        return
    yield '<p class="quiet">The effect of each alone, at most; modelled.</p><ol class="findings">'
    for finding in found:
        yield f'<li><span class="bound">{escape(bound_words(finding))}</span>'
        yield f"<strong>{escape(capital(finding.title))}</strong><ul>"
        for evidence in finding.evidence:
            where = ""
            if evidence.line is not None:
                where = f'<a href="#{key}-l{evidence.line}" data-line="{evidence.line}" data-panes="{key}-panes">line {evidence.line}</a> '
            yield f'<li>{where}{escape(evidence.text)} <span class="quiet">({evidence.origin})</span></li>'
        yield f"</ul><p>Try: {escape(finding.change)}.</p>"
        yield f'<p class="quiet">Bound: {escape(finding.bound_because)}.</p></li>'
    yield "</ol>"


def _source(p: Profile, key: str) -> Iterator[str]:
    """The kernel's functions beside what was made of them; a click on a line marks it everywhere."""
    if p.compiled is None:
        return
    panes = [("sass", "Machine code", _sass(p)), ("ptx", "PTX", _ptx(p)), ("ttgir", "TTGIR", _ttgir(p))]
    panes = [(name, title, rows) for name, title, rows in panes if rows]
    yield f'<h3>Source, and what was made of it</h3><p class="quiet">Choose a line to see what it became.</p><div class="panes" id="{key}-panes">'
    yield f'<div><div class="pane" tabindex="0" role="region" aria-label="Source">{_source_table(p, key)}</div></div>'
    yield '<div><div role="tablist" aria-label="Made of it">'
    for n, (name, title, _) in enumerate(panes):
        yield (
            f'<button role="tab" id="{key}-t-{name}" aria-controls="{key}-{name}" aria-selected="{str(n == 0).lower()}" '
            f'tabindex="{0 if n == 0 else -1}">{title}</button>'
        )
    yield "</div>"
    for n, (name, _, rows) in enumerate(panes):
        hidden = "" if n == 0 else " hidden"
        yield f'<div class="pane" id="{key}-{name}" role="tabpanel" aria-labelledby="{key}-t-{name}" tabindex="0"{hidden}><table>{rows}</table></div>'
    yield "</div></div>"


def _source_table(p: Profile, key: str) -> str:
    total = p.counters.instructions if p.counters and p.counters.instructions else 0
    by_line = {x.place.line: x for x in p.lines if same_file(x.place.file, str(p.launch.kernel.path))}
    most = max((x.instructions for x in by_line.values()), default=0)
    head = "".join(f'<th scope="col" class="number">{t}</th>' for t in ("line", "executed", "share"))
    rows = [
        f'<tr>{head}<th></th><th class="number">tensor</th><th class="number">from L2</th><th>source</th></tr>'
    ]
    for number, text in _kernel_lines(p):
        x = by_line.get(number)
        cells = ["", "", "", "", ""]
        if x is not None and x.instructions:
            cells = [
                figures.count(x.instructions),
                figures.share(x.instructions, total),
                f'<span class="meter" style="width:60px" aria-hidden="true"><i style="width:{x.instructions / max(most, 1):.0%}"></i></span>',
                figures.count(x.tensor_ops) if x.tensor_ops else "",
                "unknown"
                if x.from_l2_bytes is None
                else figures.size(x.from_l2_bytes)
                if x.from_l2_bytes
                else "",
            ]
        numbers = f'<td class="number">{cells[0]}</td><td class="number">{cells[1]}</td><td>{cells[2]}</td><td class="number">{cells[3]}</td><td class="number">{cells[4]}</td>'
        rows.append(
            f'<tr id="{key}-l{number}" data-l="{number}" tabindex="0"><td class="number">{number}</td>{numbers}<td class="code">{escape(text)}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


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


def _row(line: int | None, *cells: str) -> str:
    mark = f' data-l="{line}" tabindex="0"' if line is not None else ""
    *numbers, code = cells
    return f"<tr{mark}>{''.join(f'<td class=number>{c}</td>' for c in numbers)}<td class=code>{escape(code)}</td></tr>"


def _sass(p: Profile) -> str:
    c, own = p.counters, str(p.launch.kernel.path)
    if c is None or not c.by_instruction:
        return ""
    rows = [
        "<tr><th class=number>executed</th><th class=number>line</th><th class=number>a request</th><th>machine code</th></tr>"
    ]
    for row in c.by_instruction:
        place = place_of(row.calls, own)
        line = place.line if place is not None and same_file(place.file, own) else None
        rows.append(
            _row(
                line, figures.count(row.executed), str(line or ""), listing.access_words(row.access), row.text
            )
        )
    return "".join(rows)


def _ptx(p: Profile) -> str:
    assert p.compiled is not None
    if "ptx" not in p.compiled.asm:
        return ""
    own = str(p.launch.kernel.path)
    executed: dict[int, int] = {}
    origin: dict[int, int] = {}
    for row in p.counters.by_instruction if p.counters else ():
        if row.ptx_line is not None:
            executed[row.ptx_line] = executed.get(row.ptx_line, 0) + row.executed
            place = place_of(row.calls, own)
            if place is not None and same_file(place.file, own):
                origin[row.ptx_line] = place.line
    rows = ["<tr><th class=number>executed</th><th>PTX</th></tr>"]
    for number, text in listing.code_lines(p.compiled.asm["ptx"].splitlines()):
        if not text.lstrip().startswith((".loc", "//")):
            rows.append(
                _row(origin.get(number), figures.count(n) if (n := executed.get(number, 0)) else "", text)
            )
    return "".join(rows)


def _ttgir(p: Profile) -> str:
    assert p.compiled is not None
    own = str(p.launch.kernel.path)
    rows = ["<tr><th class=number>line</th><th>TTGIR</th></tr>"]
    for text, location in located(p.compiled.asm.get("ttgir", "")):
        frame = location.user_frame
        line = frame.line if frame is not None and same_file(frame.file, own) else None
        if text.strip():
            rows.append(_row(line, str(line or ""), text))
    return "".join(rows) if len(rows) > 1 else ""


def _unknown(p: Profile) -> Iterator[str]:
    c = p.counters
    if c is None or not (c.unknown or c.assumptions):
        return
    from tilewright.report.counts import unknown_words

    yield "<h3>What the counts rest on</h3><ul>"
    yield from (f"<li>assumed: {escape(text)}</li>" for text in c.assumptions)
    yield from (f"<li>not known: {escape(unknown_words(u))}</li>" for u in c.unknown)
    yield "</ul>"
