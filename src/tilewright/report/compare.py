"""Several profiles at once: side by side (figures as rows), or one configuration a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import figures
from tilewright.launch import LAUNCH_OPTIONS
from tilewright.model import Profile
from tilewright.report import words
from tilewright.report.findings import bound_words, capital
from tilewright.report.in_short import in_short
from tilewright.report.page import Page
from tilewright.rules import find

COLUMNS = 4
"""Profiles that fit beside each other in 100 columns."""


def print_side_by_side(page: Page, profiles: Sequence[Profile]) -> None:
    """Print profiles in columns, at most four beside each other."""
    differing = _differing(profiles)
    for start in range(0, len(profiles), COLUMNS):
        if start:
            page.line()
        _side_by_side(page, profiles[start : start + COLUMNS], differing)


def _differing(profiles: Sequence[Profile]) -> list[str]:
    """Parameters of the cases whose values differ, but for tiles and launch options: those have a row anyway."""
    shown = {*LAUNCH_OPTIONS, *(name for p in profiles for name in _tiles(p))}
    names = dict.fromkeys(name for p in profiles for name in p.launch.parameters if name not in shown)
    return [name for name in names if len({_setting(p, name) for p in profiles}) > 1]


def names(profiles: Sequence[Profile]) -> list[str]:
    """Return a name for each profile, with what it sets otherwise than the others: `v6 on H200: causal=True`."""
    return [_name(p, _differing(profiles)) for p in profiles]


def _name(p: Profile, differing: Sequence[str]) -> str:
    settings = ", ".join(f"{name}={_setting(p, name)}" for name in differing)
    return f"{_case_name(p)} on {p.gpu.name}{': ' if settings else ''}{settings}"


def _side_by_side(page: Page, profiles: Sequence[Profile], differing: Sequence[str]) -> None:
    for p in profiles:
        page.paragraph(_name(p, differing), mark="")
        for sentence in in_short(p):
            page.paragraph(sentence)
        for number, finding in enumerate(find(p), 1):
            page.title(f"  {number}  {capital(finding.title)}", bound_words(finding))
        page.line()
    page.table(_rows(profiles, differing), head=("", *map(_column_title, profiles)))


def side_by_side_rows(profiles: Sequence[Profile]) -> list[tuple[str, ...]]:
    """Return the table's rows: a name, and a cell for each profile; those that say nothing are left out."""
    return _rows(profiles, _differing(profiles))


def _rows(profiles: Sequence[Profile], differing: Sequence[str]) -> list[tuple[str, ...]]:
    rows = [(name, *(_setting(p, name) for p in profiles)) for name in differing]
    rows += [(name, *(_cell(p, read) for p in profiles)) for name, read in _ROWS]
    return [row for row in rows if any(cell not in ("", "-") for cell in row[1:])]


def _cell(p: Profile, read: Callable[[Profile], str]) -> str:
    try:
        return read(p)
    except (AssertionError, AttributeError, TypeError):  # the profile holds no such figure
        return "-"


def _column_title(p: Profile) -> str:
    return f"{_case_name(p)}\n{p.gpu.name}"


def _trips(p: Profile) -> str:
    assert p.layout is not None
    moved = [f"{t.name} {words.size(t.bytes)}" for t in p.layout.trips]
    return "\n".join(moved) if moved else "none"


def _repeats(p: Profile) -> str:
    assert p.layout is not None
    repeated = [
        f"{words.times(d.repeat_factor)} on the {words.ordinal(i)} dot"
        for i, d in enumerate(p.layout.dots)
        if d.repeat_factor is not None and d.repeat_factor > 1
    ]
    unknown = [d for d in p.layout.dots if d.repeat_factor is None]
    if unknown:
        return "unknown"
    return "\n".join(repeated) if repeated else ("none" if p.layout.dots else "")


def _tiles(p: Profile) -> dict[str, object]:
    return {k: v for k, v in p.launch.constexprs.items() if "TILE" in k or "BLOCK" in k}


def _config(p: Profile) -> str:
    c = p.compiled
    stages = c.num_stages if c else p.launch.num_stages or "default"
    tiles = [str(v) for v in _tiles(p).values()]
    return " x ".join(tiles) + (", " if tiles else "") + f"{p.launch.num_warps} warps, {stages} stages"


def _allowed(p: Profile, resource: str) -> str:
    o = p.occupancy
    assert o is not None
    allowed = o.by_resource[resource]
    return "no limit" if allowed is None else f"{allowed:,}{'  binds' if resource in o.limiter else ''}"


def _warps_per_dot(p: Profile) -> str:
    assert p.layout is not None
    seen = list(dict.fromkeys(words.warps(d) for d in p.layout.dots))
    return ", ".join(seen)


def _counted(p: Profile, number: int | None) -> str:
    """A count, or that it is unknown where counting was tried."""
    if p.counters is None or p.static is not None:
        return ""
    return "unknown" if number is None else figures.count(number)


def _tensor(p: Profile) -> str:
    text = _counted(p, p.counters.total_tensor_ops if p.counters else None)
    if text in ("", "0"):
        return ""
    if p.needed_factor is None:
        return text
    as_needed = abs(p.needed_factor - 1) < 0.005
    return f"{text}\n{'as many as needed' if as_needed else f'{words.times(p.needed_factor)} the needed'}"


def _from_l2(p: Profile) -> str:
    traffic = p.counters.traffic if p.counters else None
    if traffic is None or traffic.l2_to_sm_bytes is None:
        return _counted(p, None)
    return f"{'' if traffic.l2_exact else 'at most '}{figures.size(traffic.l2_to_sm_bytes)}"


def _fits(p: Profile) -> str:
    if p.fits:
        return "yes"
    if p.does_not_fit is None:
        return "does not compile"
    return f"no: {p.does_not_fit.resource}"


_ROWS: list[tuple[str, Callable[[Profile], str]]] = [
    ("tiles, warps, stages", _config),
    ("fits", _fits),
    ("shared memory, bytes", lambda p: f"{p.compiled.shared_bytes:,}" if p.compiled else _required(p)),
    ("registers a thread", lambda p: f"{p.compiled.registers}" if p.compiled else ""),
    ("spilled registers", lambda p: f"{p.compiled.spilled_registers}" if p.compiled else ""),
    ("warps over the dots", _warps_per_dot),
    ("work repeated", _repeats),
    ("in the loop through shared", _trips),
    ("warp instructions", lambda p: _counted(p, p.counters.instructions if p.counters else None)),
    ("tensor operations", _tensor),
    (
        "barriers",
        lambda p: figures.count(p.counters.barriers) if p.counters and p.counters.instructions else "",
    ),
    ("from L2 into the SMs", _from_l2),
    ("programs by shared memory", lambda p: _allowed(p, "shared memory")),
    ("programs by registers", lambda p: _allowed(p, "registers")),
    ("programs by warps", lambda p: _allowed(p, "warps")),
    ("programs per SM", lambda p: f"{p.occupancy.programs_per_sm}" if p.occupancy else ""),
    ("occupancy", lambda p: f"{p.occupancy.fraction:.1%}" if p.occupancy else ""),
    ("programs in the grid", lambda p: f"{p.launch.programs:,}"),
    ("waves", lambda p: f"{p.waves.waves:.2f}" if p.waves else ""),
    ("last wave busy", lambda p: f"{p.waves.last_wave_busy:.0%}" if p.waves else ""),
]


def _required(p: Profile) -> str:
    fit = p.does_not_fit
    return f"{fit.required:,} required" if fit is not None and fit.required is not None else ""


def print_configs(page: Page, profiles: Sequence[Profile], varied: Sequence[str]) -> None:
    """Print one row per profile, in order, those that do not fit among them. `varied` names what differs."""
    several_cases = len({p.launch.case for p in profiles}) > 1
    several_gpus = len({p.gpu.slug for p in profiles}) > 1
    counted = any(p.counters is not None and p.static is None for p in profiles)
    # Counts take the room of what goes through shared memory.
    left_out = {TRIPS} if counted else {*_COUNT_COLUMNS}
    left_out |= set() if any(p.needed_factor for p in profiles) else {OVER_NEED}
    names = [n for n in (*_CONFIG_COLUMNS, *_COUNT_COLUMNS) if n not in left_out]
    columns = [
        *(["case"] if several_cases else []),
        *(["GPU"] if several_gpus else []),
        *map(_stacked, varied),
        *names,
    ]
    rows = []
    for p in profiles:
        where = [
            *([_case_name(p)] if several_cases else []),
            *([p.gpu.slug] if several_gpus else []),
            *(_setting(p, name) for name in varied),
        ]
        row = dict(zip(_CONFIG_COLUMNS, _config_row(p), strict=True))
        row |= dict(zip(_COUNT_COLUMNS, _count_row(p), strict=True))
        rows.append((*where, *(row[name] for name in names)))
    flush = range(len(columns) - len(names), len(columns))
    page.table(rows, head=columns, right=[i for i in flush if columns[i] not in ("binds", "warps")])
    fit = sum(p.fits for p in profiles)
    too_big = sum(p.does_not_fit is not None for p in profiles)
    failed = len(profiles) - fit - too_big
    page.paragraph(
        f"{words.plural(len(profiles), 'configuration')}: {fit} fit, {too_big} out of resources, {failed} failed",
    )
    reasons = {f"{p.failure.kind}: {p.failure.message}" for p in profiles if p.failure and not p.does_not_fit}
    kept = {a for p in profiles for a in p.launch.assumed if a.startswith("grid ")}
    for line in sorted(reasons) + sorted(kept):
        page.paragraph(line)


TRIPS = "trips B"
_CONFIG_COLUMNS = ("shared B", "regs", "spills", "warps", "repeat", TRIPS, "per SM", "binds", "waves", "last")
OVER_NEED = "over need"
_COUNT_COLUMNS = ("M instr.", OVER_NEED, "GB L2")
_SHORT = {"shared memory": "shared", "registers": "regs", "tensor memory": "tensor"}


def _case_name(p: Profile) -> str:
    case = p.launch.case or p.launch.kernel.name
    return case.rpartition(":")[2] or case


def _stacked(name: str) -> str:
    """A parameter's name on two lines where its values are narrower: `Q_TILE_` over `SIZE`."""
    head, sep, tail = name.rpartition("_")
    return f"{head}{sep}\n{tail}" if head else name


def _setting(p: Profile, name: str) -> str:
    value = p.launch.parameters.get(name)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _config_row(p: Profile) -> tuple[str, ...]:
    c, o, layout, w = p.compiled, p.occupancy, p.layout, p.waves
    if c is None or layout is None or o is None:
        why = words.does_not_fit(p) if p.does_not_fit else (p.failure.kind if p.failure else "?")
        return ("", "", "", "", "", "", "0", why, "", "")
    trips = [t.bytes for t in layout.trips]
    dot = layout.main_dot
    return (
        f"{c.shared_bytes:,}",
        "-" if c.registers is None else str(c.registers),
        "-" if c.spilled_registers is None else str(c.spilled_registers),
        "x".join(map(str, dot.warps_per_cta)) if dot and dot.warps_per_cta else "-",
        words.times(layout.work_factor) if layout.work_factor else "-",
        "?" if None in trips else f"{sum(t or 0 for t in trips):,}",
        f"{o.programs_per_sm if p.fits else 0}",
        "+".join(_SHORT.get(r, r) for r in o.limiter)
        if p.fits
        else f"no: {_SHORT.get(p.does_not_fit.resource, p.does_not_fit.resource)}"
        if p.does_not_fit
        else "",
        f"{w.waves:.2f}" if w else "-",
        f"{w.last_wave_busy:.0%}" if w else "-",
    )


def _count_row(p: Profile) -> tuple[str, str, str]:
    """Millions of warp instructions, tensor operations over needed, GB from L2; `?` where unknown."""
    c = p.counters
    if c is None or p.static is not None:
        return "", "", ""
    if c.instructions is None:
        return "?", "?", "?"
    moved = c.traffic.l2_to_sm_bytes if c.traffic else None
    return (
        _scaled(c.instructions, 1e6),
        words.times(p.needed_factor) if p.needed_factor else "-",
        "?" if moved is None else _scaled(moved, 1e9),
    )


def _scaled(number: int, unit: float) -> str:
    value = number / unit
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"
