"""What a program launched: each launch as it was caught, and, once explained, which of them matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright import figures
from tilewright.launch import Capture, Captured, KernelIr
from tilewright.model import Profile
from tilewright.report import words
from tilewright.report.findings import bound_words, capital
from tilewright.report.page import Page
from tilewright.rules import find

Picked = Sequence[tuple[str, Captured]]
"""Launches with their labels."""


def print_capture(page: Page, capture: Capture, picked: Picked, gpu_name: str) -> None:
    """Print every launch of `picked`, kernel by kernel, then what was assumed, skipped or cut short."""
    kernels = dict.fromkeys(c.launch.kernel.place for _, c in picked)
    times = sum(c.count for _, c in picked)
    page.title(
        f"{times:,} {'launch' if times == 1 else 'launches'} of {words.plural(len(kernels), 'kernel')}, "
        f"{len(picked):,} different",
        f"for {gpu_name}" if not capture.live else f"on {gpu_name}",
    )
    page.paragraph(f"{capture.command}  Triton {capture.triton_version}, torch {capture.torch_version}", mark="")
    for place in kernels:
        own = [(label, c) for label, c in picked if c.launch.kernel.place == place]
        page.heading(own[0][1].name, place)
        for label, c in own:
            _launch(page, c, label)
        _tuning(page, [c for c in capture.launches if c.launch.kernel.place == place])
    print_notes(page, capture)


def _launch(page: Page, c: Captured, label: str) -> None:
    launch = c.launch
    number = "#" + label.rpartition("#")[2]
    grid = ",".join(map(str, launch.grid)).removesuffix(",1").removesuffix(",1")
    stages = "" if launch.num_stages is None else f", {words.plural(launch.num_stages, 'stage')}"
    sites = ", ".join(c.call_sites[:3]) + (", ..." if len(c.call_sites) > 3 else "")
    how = f"x{c.count:,}  grid {grid}  {words.plural(launch.num_warps, 'warp')}{stages}  from {sites}"
    page.paragraph(how, mark=f"  {number:<5}")
    if launch.ir is not None:
        for text in _signature(launch.ir):
            page.paragraph(text, mark="       ")
    if c.tuning is not None:
        page.paragraph(f"autotune chose {c.tuning.config}", mark="       ")
    if c.problem:
        page.paragraph(f"could not run: {c.problem}", mark="       ")


def _signature(ir: KernelIr) -> Iterator[str]:
    types: dict[str, list[str]] = {}
    for name, type_ in ir.signature.items():
        if type_ != "constexpr":
            types.setdefault(type_, []).append(name)
    yield "; ".join(f"{t} {', '.join(names)}" for t, names in types.items())
    if ir.divisible_by_16:
        yield f"divisible by 16: {', '.join(ir.divisible_by_16)}"
    if ir.constexprs:
        yield "constexprs: " + ", ".join(f"{k}={v}" for k, v in ir.constexprs.items())


def _tuning(page: Page, launches: Sequence[Captured]) -> None:
    """Say which configurations an autotuner tried, and which of them cannot run."""
    tried: dict[str, str | None] = {}
    for c in launches:
        if c.tuning is not None and c.is_trial:
            tried[c.tuning.config] = tried.get(c.tuning.config) or c.problem
    if tried:
        bad = {config: why for config, why in tried.items() if why}
        text = f"autotune tried {words.plural(len(tried), 'configuration')}; {len(tried) - len(bad)} can run"
        page.paragraph(text, mark="  ")
        for config, why in bad.items():
            page.paragraph(f"not {config}: {why}", mark="       ")


def print_notes(page: Page, capture: Capture) -> None:
    """Print what was assumed or skipped, and why the program ended early."""
    lines = capture.notes_in_words()
    if lines:
        page.heading("NOTES")
        for line in lines:
            page.paragraph(line)
    if capture.stopped:
        page.heading("THE PROGRAM ENDED EARLY")
        page.paragraph(capture.stopped)


def captured_dict(capture: Capture, picked: Picked, file: str) -> dict[str, Any]:
    """Return the JSON form of the list, schema `tilewright.captured/1`."""
    return {
        "schema": "tilewright.captured/1",
        "file": file,
        "gpu": capture.gpu,
        "live": capture.live,
        "command": capture.command,
        "triton_version": capture.triton_version,
        "torch_version": capture.torch_version,
        "launches": [_dict(c, label) for label, c in picked],
        "notes": capture.notes_in_words(),
        "stopped": capture.stopped,
    }


def _dict(c: Captured, label: str) -> dict[str, Any]:
    ir = c.launch.ir
    return {
        "label": label,
        "kernel": c.launch.kernel.to_dict(),
        "launch": c.launch.to_dict(),
        "call_sites": list(c.call_sites),
        "count": c.count,
        "signature": dict(ir.signature) if ir else {},
        "constexprs": dict(ir.constexprs) if ir else {},
        "divisible_by_16": list(ir.divisible_by_16) if ir else [],
        "language": ir.language if ir else None,
        "compile_hash": ir.compile_hash if ir else None,
        "tuning": {"config": c.tuning.config, "trial": c.tuning.trial} if c.tuning else None,
        "problem": c.problem,
    }


def print_overview(page: Page, profiles: Sequence[Profile], counts: Sequence[int]) -> None:
    """Print one row per launch, those that keep the GPU busy longest first, and the findings that weigh most.

    counts: how often the program made each launch.
    """
    rows = sorted(zip(profiles, counts, strict=True), key=lambda row: -_seconds(*row))
    total = sum(_seconds(*row) for row in rows)
    page.title(
        f"{sum(counts):,} launches, {len(profiles):,} different", ", ".join({p.gpu.name for p in profiles})
    )
    page.heading("LAUNCHES", "busy at least (modelled), times the number of launches")
    page.table(
        [_overview_row(p, n, total) for p, n in rows],
        head=("launch", "from", "x", "grid", "instr.", "regs", "spills", "busy", "share", "limited by"),
        right=(2, 4, 5, 6, 7, 8),
    )
    _weightiest(page, rows, total)
    page.line()
    page.line(f"  One in full: tilewright explain '{rows[0][0].launch.case}'")


def _seconds(p: Profile, count: int) -> float:
    return p.busy[0].seconds * count if p.busy else 0.0


def _overview_row(p: Profile, count: int, total: float) -> tuple[str, ...]:
    label = (p.launch.case or p.launch.kernel.name).rpartition(":")[2]
    origin = (p.launch.origin or "").removeprefix("launched at ").split(",")[0].rpartition("/")[2]
    grid = ",".join(map(str, p.launch.grid)).removesuffix(",1").removesuffix(",1")
    start = (label, origin, f"{count:,}", grid)
    if p.compiled is None or not p.fits:
        why = words.does_not_fit(p) if p.does_not_fit else (p.failure.message if p.failure else "?")
        return (*start, "-", "-", "-", "-", "-", why)
    c = p.compiled
    regs, spills = ("-" if n is None else str(n) for n in (c.registers, c.spilled_registers))
    if p.counters is None or p.counters.instructions is None:
        unknown = p.counters.unknown[0].what if p.counters and p.counters.unknown else "not counted"
        return (*start, "?", regs, spills, "?", "?", f"unknown: {unknown}")
    busy = figures.duration(p.busy[0].seconds * count) if p.busy else "-"
    share = figures.share(round(1e12 * _seconds(p, count)), round(1e12 * total)) if total else "-"
    return (
        *start,
        figures.count(p.counters.instructions),
        regs,
        spills,
        busy,
        share,
        p.busy[0].unit.removeprefix("the ") if p.busy else "-",
    )


def _weightiest(page: Page, rows: Sequence[tuple[Profile, int]], total: float, most: int = 10) -> None:
    """Print the findings by what mending each can save of the whole program's time at least busy."""
    found: dict[tuple[str, str], tuple[float, Any, list[str]]] = {}
    for p, n in rows:
        for f in find(p) if p.fits else ():
            saved = _seconds(p, n) * (1 - 1 / f.bound) if f.bound else 0.0
            key = (f.rule, p.launch.kernel.place)
            before = found.get(key)
            label = (p.launch.case or p.launch.kernel.name).rpartition(":")[2]
            if before is None:
                found[key] = (saved, f, [label])
            else:
                best = f if (f.bound or 0) > (before[1].bound or 0) else before[1]
                found[key] = (before[0] + saved, best, [*before[2], label])
    if not found:
        page.heading("WHAT IS WRONG", "nothing that the rules know")
        return
    page.heading("WHAT IS WRONG", "effect on the one launch, at most (modelled)")
    ranked = sorted(found.values(), key=lambda x: (-x[0], -(x[1].bound or 0)))
    for number, (_, f, of) in enumerate(ranked[:most], 1):
        page.title(f"  {number:>2}  {of[0].partition('#')[0]}: {capital(f.title)}", bound_words(f))
        evidence = f.evidence[0] if f.evidence else None
        if evidence is not None:
            where = f"line {evidence.line}  " if evidence.line is not None else ""
            page.paragraph(f"{where}{evidence.text}", mark="      ")
        which = ", ".join("#" + x.rpartition("#")[2] for x in of[:8]) + (", ..." if len(of) > 8 else "")
        page.paragraph(f"In {which}. Try: {f.change}.", mark="      ")
    if len(ranked) > most:
        page.paragraph(f"and {len(ranked) - most} more, of less weight")
