"""One profile in full, in the terminal: words first, then the figures that prove them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.launch import Descriptor, Tensor
from tilewright.model import Profile
from tilewright.report import counts, words
from tilewright.report.findings import print_busy, print_findings
from tilewright.report.in_short import in_short
from tilewright.report.listing import print_listing
from tilewright.report.page import Page
from tilewright.report.static import print_static, print_static_lines


def print_listings(page: Page, p: Profile, names: Sequence[str]) -> None:
    """Print some of LISTINGS alone, under the title."""
    _title(page, p)
    if p.compiled is None or p.does_not_fit is not None:
        page.heading("IN SHORT")
        for sentence in in_short(p):
            page.paragraph(sentence)
        return
    if p.static is not None:
        if "lines" in names:
            print_static_lines(page, p, p.static)
        for name in names:
            if name != "lines":
                page.heading(name.upper())
                page.paragraph(
                    f"{name.upper()} with executed counts is for NVIDIA's GPUs; --lines is for AMD's too"
                )
        return
    if p.counters is not None and p.counters.instructions is None:
        counts.print_executed(page, p)
        return
    for name in names:
        print_listing(page, p, name)
    counts.print_limits_of_count(page, p)


def print_profile(page: Page, p: Profile) -> None:
    """Print everything that a profile holds."""
    _title(page, p)
    page.heading("IN SHORT")
    for sentence in in_short(p):
        page.paragraph(sentence)
    print_findings(page, p)
    if p.compiled is not None:
        counts.print_executed(page, p)
        print_busy(page, p)
        counts.print_source(page, p)
        print_static(page, p)
        _what_was_compiled(page, p)
        _warps(page, p)
        _trips(page, p)
        _shared(page, p)
        counts.print_traffic(page, p)
        counts.print_pipes(page, p)
        _limits(page, p)
        _grid(page, p)
        _registers(page, p)
        counts.print_limits_of_count(page, p)
        if p.compiled.notes:
            page.heading("NOTES")
        for note in p.compiled.notes:
            page.paragraph(note)


def _title(page: Page, p: Profile) -> None:
    left = f"{p.launch.kernel.name}  {p.launch.kernel.place}"
    page.title(left, f"{p.gpu.name}  {p.gpu.arch}  {words.plural(p.gpu.compute.sms, 'SM')}")
    if p.launch.case:
        chosen = "  ".join(f"{k}={_value(v)}" for k, v in p.launch.parameters.items() if v is not None)
        page.paragraph(f"{p.launch.case}  {chosen}", mark="")
    if p.launch.origin:
        page.paragraph(p.launch.origin, mark="")
    if p.compiled is not None:
        c = p.compiled
        how = "from the cache; compiling took" if c.cached else "in"
        stop = "" if c.depth == "binary" else ", middle end only"
        page.paragraph(
            f"compiled by Triton {c.triton_version} {how} {c.seconds:.2f} s{stop}{_counted(p)}; nothing measured",
            mark="",
        )


def _counted(p: Profile) -> str:
    if p.counters is None or not p.counters.seconds:
        return ""
    seconds = f"{p.counters.seconds:.2f} s"
    return f", counting {seconds}" if p.counters.cached else f", counted in {seconds}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _what_was_compiled(page: Page, p: Profile) -> None:
    c = p.compiled
    assert c is not None
    page.heading("WHAT WAS COMPILED")
    types: dict[str, list[str]] = {}
    for name, type_ in c.signature.items():
        if type_ != "constexpr":
            types.setdefault(type_, []).append(name)
    declared = {q.name for q in p.launch.kernel.parameters if q.is_constexpr}
    folded = [k for k in c.constexprs if k.split(".")[0] not in declared]
    divisible = set(c.divisible_by_16)
    able = [k for k, t in c.signature.items() if t.startswith(("*", "i", "u")) and t not in ("i1", "u1")]
    odd = [k for k in able if k not in divisible]
    warp_text = f"{words.plural(c.num_warps, 'warp')}, {words.plural(c.num_stages, 'stage')}"
    otherwise = [str(n) for n in c.loop_stages if n != c.num_stages]
    if otherwise:
        warp_text += f" (in a loop that says so itself: {', '.join(otherwise)})"
    rows = [
        ("tensors", "; ".join(_tensors(p))),
        ("types", "; ".join(f"{t}: {', '.join(names)}" for t, names in types.items())),
        ("constexprs", ", ".join(f"{k}={c.constexprs[k]}" for k in c.constexprs if k not in folded)),
        ("specialised", _specialised(c.constexprs, folded, able, odd)),
        ("options", warp_text + (f", {c.num_ctas} programs a cluster" if c.num_ctas > 1 else "")),
        ("assumed", "; ".join(p.launch.assumed)),
    ]
    page.table([row for row in rows if row[1]])


def _tensors(p: Profile) -> Iterator[str]:
    same: dict[str, list[str]] = {}
    for name, arg in p.launch.args.items():
        if isinstance(arg, (Tensor, Descriptor)):
            same.setdefault(str(arg), []).append(name)
    return (f"{', '.join(names)}: {text}" for text, names in same.items())


def _specialised(constexprs: Mapping[str, object], folded: list[str], able: list[str], odd: list[str]) -> str:
    parts = []
    for words_, names in (
        ("equal to 1 and compiled in", [k for k in folded if constexprs[k] is not None]),
        ("None and compiled in", [k for k in folded if constexprs[k] is None]),
    ):
        if names:
            parts.append(f"{words_}: {', '.join(names)}")
    if able and not odd:
        parts.append("every pointer and integer is divisible by 16")
    elif odd:
        parts.append(f"every pointer and integer but {', '.join(odd)} is divisible by 16")
    return "; ".join(parts)


def _warps(page: Page, p: Profile) -> None:
    assert p.layout is not None
    if not p.layout.dots:
        return
    main = f"{times_needed(p)}"
    page.heading("WARPS OVER EACH DOT", main)
    for index, dot in enumerate(p.layout.dots):
        m, n, k = dot.shape
        where = "in the loop" if dot.in_loop else "outside loops"
        shape = f"{m}x{n} over {k}, {dot.input_type} into {dot.accumulator_type}"
        page.line(
            f"  {words.ordinal(index)} dot, line {dot.line}, {where}    {words.source_line(dot.file, dot.line)[:56]}"
        )
        page.line(f"      {dot.name}: {shape}    {words.instruction(dot)}    warps {words.warps(dot)}")
        page.paragraph(words.how_warps_lie(dot), mark="      ")


def times_needed(p: Profile) -> str:
    """`1.5x the multiplies needed`, or that it is unknown."""
    assert p.layout is not None
    factor = p.layout.work_factor
    if factor is None:
        return "how often work repeats: unknown"
    return "every multiply once" if factor == 1 else f"{words.times(factor)} the multiplies needed"


def _trips(page: Page, p: Profile) -> None:
    assert p.layout is not None
    if not p.layout.loops:
        return
    if not p.layout.trips:
        pipelined = any(b.role == "pipeline" for b in p.layout.buffers)
        page.heading(
            "THROUGH SHARED MEMORY ON EVERY STEP", "nothing but the pipeline" if pipelined else "nothing"
        )
        return
    page.heading("THROUGH SHARED MEMORY ON EVERY STEP")
    rows = [(f"line {t.line}", words.trip_words(t), words.size(t.bytes)) for t in p.layout.trips]
    page.table(rows, right=[2])


def _shared(page: Page, p: Profile) -> None:
    assert p.compiled is not None
    assert p.layout is not None
    page.heading("SHARED MEMORY", f"{p.compiled.shared_bytes:,} B a program (compiled)")
    rows = [
        (
            b.name,
            b.what,
            "" if b.role == b.what else b.role,
            f"line {b.line}",
            f"{b.offset:,}",
            words.size(b.bytes),
        )
        for b in p.layout.buffers
        if b.shares_with is None
    ]
    if p.padding_bytes:
        rows.append(("", words.padding(p), "", "", "", words.size(p.padding_bytes)))
    if rows:
        page.table(rows, head=("", "", "", "", "offset", ""), right=[4, 5])
    reused = [b for b in p.layout.buffers if b.shares_with is not None]
    if reused:
        listed = ", ".join(
            f"{b.name} line {b.line} ({words.size(b.bytes)}, over {b.shares_with})" for b in reused
        )
        page.paragraph(f"in space that is free by then: {listed}")


def _limits(page: Page, p: Profile) -> None:
    assert p.compiled is not None
    o = p.occupancy
    assert o is not None
    limits, c = p.gpu.limits, p.compiled
    if c.registers is None:
        return
    page.heading("WHAT LIMITS AN SM", f"{words.plural(o.programs_per_sm, 'program')}")
    uses = {
        "shared memory": (
            f"{c.shared_bytes:,} + {limits.reserved_shared_bytes_per_block:,} B",
            f"{limits.shared_bytes_per_sm:,} B",
        ),
        "registers": (f"{o.registers_per_program:,}", f"{limits.registers_per_sm:,}"),
        "warps": (f"{c.num_warps:,}", f"{limits.max_warps_per_sm:,}"),
        "blocks": ("1", f"{limits.max_blocks_per_sm:,}"),
        "tensor memory": (
            f"{c.tensor_memory_columns} columns",
            f"{limits.tensor_memory_columns_per_sm or 0} columns",
        ),
    }
    rows = [
        (
            resource,
            *uses.get(resource, ("", "")),
            "no limit" if allowed is None else f"{allowed:,}",
            "binds" if resource in o.limiter else "",
        )
        for resource, allowed in o.by_resource.items()
    ]
    page.table(rows, head=("", "a program", "an SM has", "programs", ""), right=[1, 2, 3])
    page.line(
        f"  {words.plural(o.programs_per_sm, 'program')} x {words.plural(c.num_warps, 'warp')} = {o.warps_resident} "
        f"of {limits.max_warps_per_sm} warps ({o.fraction:.1%} occupancy)"
    )
    for cliff in p.cliffs:
        bound = f"then {words.bind(cliff.limiter)}"
        after = f"{words.plural(cliff.programs_per_sm, 'program')} instead of {o.programs_per_sm}"
        after = after if cliff.programs_per_sm else "does not fit"
        page.paragraph(f"{cliff.change}: {after} ({bound}; modelled)")


def _grid(page: Page, p: Profile) -> None:
    grid = " x ".join(f"{n:,}" for n in p.launch.grid)
    page.heading("GRID", grid)
    page.paragraph(words.waves_words(p))


def _registers(page: Page, p: Profile) -> None:
    c = p.compiled
    assert c is not None
    if c.registers is None:
        return
    page.heading("REGISTERS", f"{c.registers} a thread (compiled)")
    cap = (
        f"at most {p.register_cap} with {words.plural(c.num_warps, 'warp')}"
        if p.register_cap
        else "too many threads"
    )
    page.line(f"  {cap}; {words.spills(p).rstrip('.')}")
