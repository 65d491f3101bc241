"""Pictures of a profile as SVG text: warps over a dot's tile, shared memory, the roofline, waves.

Colours are CSS variables with a fallback, so that a page can have a dark side and a file alone still has colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from tilewright.model import Profile
from tilewright.ttgir import Dot

HUES = (212, 28, 145, 275, 350, 60, 180, 315)
INK, QUIET, PAPER = "var(--ink, #1b1f24)", "var(--quiet, #6e7781)", "var(--paper, #ffffff)"


def _svg(width: float, height: float, title: str, body: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{escape(title, quote=True)}" font-family="system-ui, sans-serif" font-size="12">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = INK, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, fill: str, tip: str = "", more: str = "") -> str:
    inner = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{max(height, 0.5):.2f}" fill="{fill}" {more}>'
        f"{inner}</rect>"
    )


def owners(dot: Dot) -> list[list[list[int]]]:
    """Return, for each block of one instruction's size (down, across), the warps that compute it.

    More than one: they compute the same. Empty where the layout does not say.
    """
    if not dot.warps_per_cta or not dot.instr_shape or len(dot.instr_shape) < 2:
        return []
    down, across = dot.warps_per_cta[-2:]
    rows = max(1, math.ceil(dot.shape[0] / dot.instr_shape[0]))
    columns = max(1, math.ceil(dot.shape[1] / dot.instr_shape[1]))

    def of(blocks: int, warps: int, at: int) -> list[int]:
        return [at % warps] if blocks >= warps else [w for w in range(warps) if w % blocks == at]

    return [
        [[a * across + b for a in of(rows, down, i) for b in of(columns, across, j)] for j in range(columns)]
        for i in range(rows)
    ]


def warps_over_tile(dot: Dot) -> str:
    """Draw which warp computes which part of a dot's result; empty where that is not known."""
    blocks = owners(dot)
    if not blocks:
        return ""
    height = min(220.0, max(48.0, 3.0 * dot.shape[0]))
    width = min(420.0, max(96.0, height * dot.shape[1] / dot.shape[0]))
    row, column = height / len(blocks), width / len(blocks[0])
    body = [_text(0, 12, f"{dot.name}: {dot.shape[0]} x {dot.shape[1]}")]
    named: set[tuple[int, ...]] = set()
    for i, line in enumerate(blocks):
        for j, warps in enumerate(line):
            fill = f"hsl({HUES[warps[0] % len(HUES)]} 65% 60%)"
            who = f"warp{'s' if len(warps) > 1 else ''} {', '.join(map(str, warps))}"
            body.append(
                _box(j * column, 20 + i * row, column, row, fill, who, f'stroke="{PAPER}" stroke-width="0.5"')
            )
            if tuple(warps) not in named and row >= 11 and column * 1.0 >= 7 * len(who) * 0.2:
                named.add(tuple(warps))
                label = "+".join(map(str, warps))
                body.append(
                    _text(j * column + column / 2, 24 + i * row + row / 2, label, "middle", "#10151b", 11)
                )
    said = (
        "numbers are warps; two in one block compute the same"
        if any(len(w) > 1 for x in blocks for w in x)
        else "numbers are warps"
    )
    body.append(_text(0, 36 + height, said, fill=QUIET, size=11))
    return _svg(
        max(width, 300) + 2,
        height + 44,
        f"Warps over the {dot.shape[0]}x{dot.shape[1]} tile of {dot.name}",
        body,
    )


def shared_memory(p: Profile) -> str:
    """Draw the SM's shared memory: every resident program, the first with its buffers."""
    if p.compiled is None or p.layout is None or p.occupancy is None:
        return ""
    limit, reserved = p.gpu.limits.shared_bytes_per_sm, p.gpu.limits.reserved_shared_bytes_per_block
    each = p.compiled.shared_bytes + reserved
    width, scale = 640.0, 640.0 / limit
    body = [
        _text(0, 12, f"{limit:,} B of shared memory an SM; {each:,} B a program with {reserved:,} B reserved")
    ]
    for n in range(min(p.occupancy.programs_per_sm, 64)):
        x = n * each * scale
        body.append(_box(x, 22, each * scale, 34, "var(--bar, #c9d7ea)", f"program {n}", f'stroke="{PAPER}"'))
        for k, b in enumerate(b for b in p.layout.buffers if b.shares_with is None):
            fill = f"hsl({HUES[k % len(HUES)]} 65% {60 if n == 0 else 75}%)"
            body.append(
                _box(
                    x + b.offset * scale,
                    22,
                    (b.bytes or 0) * scale,
                    34,
                    fill,
                    f"{b.name}: {b.what}, {b.bytes or 0:,} B",
                )
            )
    body.append(f'<rect x="0.5" y="22" width="{width - 1}" height="34" fill="none" stroke="{QUIET}"/>')
    x = 0.0
    for k, b in enumerate(b for b in p.layout.buffers if b.shares_with is None):
        text = f"{b.name} {b.bytes or 0:,} B"
        body.append(_box(x, 66, 10, 10, f"hsl({HUES[k % len(HUES)]} 65% 60%)"))
        body.append(_text(x + 14, 75, text, size=11))
        x += 24 + 6.6 * len(text)
    programs = p.occupancy.programs_per_sm
    return _svg(
        max(width, x), 84, f"Shared memory: {programs} program{'s' if programs != 1 else ''} on an SM", body
    )


def roofline(p: Profile) -> str:
    """Draw the roof of the tensor cores and the slopes of L2 and DRAM, with the launch's intensity on each."""
    tensor = next((b for b in p.busy if b.key == "tensor"), None)
    levels = [b for b in p.busy if b.key in ("l2", "dram")]
    if tensor is None or not levels:
        return ""
    operations = p.needed.operations if p.needed and p.needed.operations else tensor.amount
    roof = tensor.amount / tensor.seconds
    points = [(b, operations / b.amount, b.amount / b.seconds) for b in levels]
    lowest = math.floor(
        math.log10(min(min(i for _, i, _ in points), roof / max(s for *_, s in points))) - 0.5
    )
    highest = math.ceil(
        math.log10(max(max(i for _, i, _ in points), roof / min(s for *_, s in points))) + 0.3
    )
    top, bottom = math.log10(roof) + 0.3, math.log10(roof) - 2.2

    def x(intensity: float) -> float:
        return 60 + 560 * (math.log10(intensity) - lowest) / (highest - lowest)

    def y(rate: float) -> float:
        return 20 + 220 * (top - math.log10(rate)) / (top - bottom)

    body = [f'<rect x="60" y="20" width="560" height="220" fill="none" stroke="{QUIET}"/>']
    body.append(
        f'<line x1="60" x2="620" y1="{y(roof):.1f}" y2="{y(roof):.1f}" stroke="{INK}" stroke-width="2"/>'
    )
    body.append(_text(64, y(roof) - 6, f"tensor cores {roof / 1e12:.3g} TFLOP/s"))
    for k, (b, intensity, slope) in enumerate(points):
        hue = f"hsl({HUES[k]} 65% 50%)"
        start = max(10.0**lowest, 10**bottom / slope)
        body.append(
            f'<line x1="{x(start):.1f}" y1="{y(slope * start):.1f}" x2="{x(roof / slope):.1f}" y2="{y(roof):.1f}" stroke="{hue}" '
            'stroke-width="2"/>'
        )
        reached = min(roof, slope * intensity)
        tip = f"{b.unit}: {intensity:.3g} operations a byte, at most {reached / 1e12:.3g} TFLOP/s"
        body.append(
            f'<circle cx="{x(intensity):.1f}" cy="{y(reached):.1f}" r="6" fill="{hue}"><title>{escape(tip)}</title></circle>'
        )
        body.append(_text(64, 214 - 16 * k, tip, fill=hue, size=11))
    for e in range(int(lowest), int(highest) + 1):
        body.append(_text(x(10.0**e), 256, f"{10.0**e:g}", "middle", QUIET, 11))
    body.append(
        _text(
            340,
            274,
            "needed operations a byte (modelled: counted bytes, catalog's rates)",
            "middle",
            QUIET,
            11,
        )
    )
    return _svg(640, 280, "Roofline with one dot for each level of memory", body)


def waves(p: Profile) -> str:
    """Draw the waves of programs over the slots of the GPU, the last one in full."""
    w = p.waves
    if w is None or not w.slots:
        return ""
    whole, last = math.ceil(w.waves - 1e-9), w.last_wave_busy
    shown = min(whole, 24)
    step = 620 / max(shown, 1)
    body = [_text(0, 12, f"{w.programs:,} programs in {w.slots:,} slots: {w.waves:.3g} waves")]
    for n in range(shown):
        part = last if n == shown - 1 else 1.0
        body.append(_box(n * step, 22, step - 2, 60, "var(--bar, #c9d7ea)"))
        body.append(
            _box(
                n * step,
                22 + 60 * (1 - part),
                step - 2,
                60 * part,
                f"hsl({HUES[0]} 65% 60%)",
                f"wave {n + 1}: {part:.0%} busy",
            )
        )
    more = f"the first {shown - 1} of {whole - 1} and the last; " if whole > shown else ""
    body.append(_text(0, 98, f"{more}the last wave is {last:.0%} busy", fill=QUIET, size=11))
    return _svg(622, 104, "Waves of programs, and how busy each is", body)


PICTURES = {
    "warps": "warps over the tile of each dot",
    "shared": "shared memory of an SM",
    "roofline": "roofline",
    "waves": "waves",
}


def draw(p: Profile, name: str) -> Sequence[str]:
    """Return the pictures called `name`, one for each dot where it is `warps`; none where there is nothing to draw."""
    if name == "warps":
        dots = p.layout.dots if p.layout else ()
        found = [warps_over_tile(d) for d in dots]
    else:
        found = [{"shared": shared_memory, "roofline": roofline, "waves": waves}[name](p)]
    return [svg for svg in found if svg]
