"""Pictures of a profile as SVG text: warps over a dot's tile, shared memory, the roofline, waves.

Colours are CSS variables with a fallback, so that a page can have a dark side and a file alone still has colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from colorsys import hls_to_rgb

from tilewright.model import Profile
from tilewright.report.markup import escape, tag
from tilewright.ttgir import Dot

HUES = (212, 28, 145, 275, 350, 60, 180, 315)
INK, QUIET, PAPER, BAR = "var(--ink, #1b1f24)", "var(--quiet, #6e7781)", "var(--paper, #ffffff)", "var(--bar, #c9d7ea)"
ON_HUE = "#10151b"
"""Ink that is read on every hue, on a dark page as well."""
MOST_DRAWN, MOST_WAVES = 64, 24


def _hue(number: int, light: bool = False) -> str:
    """One of a few colours as `#rrggbb`, which every reader of SVG knows."""
    rgb = hls_to_rgb(HUES[number % len(HUES)] / 360, 0.75 if light else 0.6, 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def _svg(width: float, height: float, title: str, body: Iterable[str]) -> str:
    return tag(
        "svg",
        tag("title", escape(title)),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=float(width),
        height=float(height),
        role="img",
        aria_label=title,
        font_family="system-ui, DejaVu Sans, sans-serif",
        font_size=12,
    )


def _text(x: float, y: float, text: str, anchor: str | None = None, fill: str = INK, size: int = 12) -> str:
    """Text at a point, 12 px in the ink's colour unless told."""
    font = None if size == 12 else size
    return tag("text", escape(text), x=float(x), y=float(y), text_anchor=anchor, fill=fill, font_size=font)


def _box(
    x: float, y: float, width: float, height: float, fill: str, tip: str = "", stroke: str | None = None
) -> str:
    """A rectangle, at least half a pixel wide and high so that it is seen; `tip` is shown under the pointer."""
    inner = (tag("title", escape(tip)),) if tip else ()
    width, height = max(width, 0.5), max(height, 0.5)
    at = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return tag("rect", *inner, **at, fill=fill, stroke=stroke, stroke_width=0.5 if stroke else None)


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str) -> str:
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=stroke, stroke_width=2)


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


def _digits(value: float) -> str:
    """Three digits, and whole where it is large: `2,034`, `49.5`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def warps_over_tile(dot: Dot) -> str:
    """Draw which warp computes which part of a dot's result; empty where that is not known."""
    blocks = owners(dot)
    if not blocks:
        return ""
    height = min(220.0, max(48.0, 3.0 * dot.shape[0]))
    width = min(420.0, max(96.0, height * dot.shape[1] / dot.shape[0]))
    row, column = height / len(blocks), width / len(blocks[0])
    body = [_text(0, 12, f"{dot.name}: {dot.shape[0]} x {dot.shape[1]}")]
    named: set[str] = set()
    for i, line in enumerate(blocks):
        for j, warps in enumerate(line):
            x, y, label = j * column, 20 + i * row, "+".join(map(str, warps))
            tip = f"warp{'s' if len(warps) > 1 else ''} {label}"
            body.append(_box(x, y, column, row, _hue(warps[0]), tip, PAPER))
            # Once for each group of warps, where there is room for the digits.
            if label not in named and row >= 11 and column >= 7 * len(label):
                named.add(label)
                body.append(_text(x + column / 2, y + row / 2 + 4, label, "middle", ON_HUE, 11))
    repeated = any(len(warps) > 1 for line in blocks for warps in line)
    said = "numbers are warps" + ("; those of one block compute the same" if repeated else "")
    body.append(_text(0, 36 + height, said, fill=QUIET, size=11))
    title = f"Warps over the {dot.shape[0]}x{dot.shape[1]} tile of {dot.name}"
    return _svg(max(width, 360) + 2, height + 44, title, body)


def shared_memory(p: Profile) -> str:
    """Draw the SM's shared memory: every resident program with its buffers, named below."""
    if p.compiled is None or p.layout is None or p.occupancy is None:
        return ""
    limit, reserved = p.gpu.limits.shared_bytes_per_sm, p.gpu.limits.reserved_shared_bytes_per_block
    each = p.compiled.shared_bytes + reserved
    width, programs = 640.0, p.occupancy.programs_per_sm
    scale = width / limit
    buffers = [b for b in p.layout.buffers if b.shares_with is None]
    body = [_text(0, 12, f"{limit:,} B of shared memory an SM; {each:,} B a program, {reserved:,} B of it reserved")]
    for n in range(min(programs, MOST_DRAWN)):
        start = n * each
        body.append(_box(start * scale, 22, each * scale, 34, BAR, f"program {n}", PAPER))
        for k, b in enumerate(buffers):
            size = b.bytes or 0
            tip = f"{b.name}: {b.what}, {size:,} B"
            body.append(_box((start + b.offset) * scale, 22, size * scale, 34, _hue(k, light=n > 0), tip))
    body.append(_box(0.5, 22, width - 1, 34, "none", stroke=QUIET))
    x = 0.0
    for k, b in enumerate(buffers):
        text = f"{b.name} {b.bytes or 0:,} B"
        body += [_box(x, 66, 10, 10, _hue(k)), _text(x + 14, 75, text, size=11)]
        x += 24 + 6.6 * len(text)
    title = f"Shared memory: {programs} program{'s' if programs != 1 else ''} on an SM"
    return _svg(max(width, x), 84, title, body)


def roofline(p: Profile) -> str:
    """Draw the roof of the tensor cores and the slopes of L2 and DRAM, with the launch's intensity on each."""
    tensor = next((b for b in p.busy if b.key == "tensor"), None)
    levels = [b for b in p.busy if b.key in ("l2", "dram")]
    if tensor is None or not levels:
        return ""
    operations = p.needed.operations if p.needed and p.needed.operations else tensor.amount
    roof = tensor.amount / tensor.seconds
    points = [(b, operations / b.amount, b.amount / b.seconds) for b in levels]
    intensities = [i for _, i, _ in points] + [roof / slope for *_, slope in points]
    low, high = math.floor(math.log10(min(intensities)) - 0.5), math.ceil(math.log10(max(intensities)) + 0.3)
    top, bottom = math.log10(roof) + 0.3, math.log10(roof) - 2.2

    def x(intensity: float) -> float:
        return 60 + 560 * (math.log10(intensity) - low) / (high - low)

    def y(rate: float) -> float:
        return 20 + 220 * (top - math.log10(rate)) / (top - bottom)

    body = [_box(60, 20, 560, 220, "none", stroke=QUIET), _line(60, y(roof), 620, y(roof), INK)]
    body.append(_text(64, y(roof) - 6, f"tensor cores {_digits(roof / 1e12)} TFLOP/s"))
    for k, (b, intensity, slope) in enumerate(points):
        start = max(10.0**low, 10**bottom / slope)
        reached = min(roof, slope * intensity)
        tip = f"{b.unit}: {_digits(intensity)} operations a byte, at most {_digits(reached / 1e12)} TFLOP/s"
        dot = {"cx": x(intensity), "cy": y(max(reached, 10**bottom)), "r": 6}
        body += [
            _line(x(start), y(slope * start), x(roof / slope), y(roof), _hue(k)),
            tag("circle", tag("title", escape(tip)), fill=_hue(k), **dot),
            tag("circle", cx=256.0, cy=214.0 - 16 * k, r=4, fill=_hue(k)),
            _text(266, 218 - 16 * k, tip, size=11),
        ]
    body += [_text(x(10.0**e), 256, f"{10.0**e:g}", "middle", QUIET, 11) for e in range(low, high + 1)]
    for e in range(math.ceil(bottom - 12), math.floor(top - 12) + 1):
        rate = 10.0 ** (e + 12)
        body += [_line(56, y(rate), 60, y(rate), QUIET), _text(52, y(rate) + 4, f"{10.0**e:g}", "end", QUIET, 11)]
    body.append(_text(60, 14, "TFLOP/s", fill=QUIET, size=11))
    axis = "needed operations a byte (modelled: counted bytes, the catalog's rates)"
    body.append(_text(340, 274, axis, "middle", QUIET, 11))
    return _svg(640, 280, "Roofline with one dot for each level of memory", body)


def waves(p: Profile) -> str:
    """Draw the waves of programs over the slots of the GPU, each filled as far as it is busy."""
    w = p.waves
    if w is None or not w.slots:
        return ""
    whole = math.ceil(w.waves - 1e-9)
    shown = min(whole, MOST_WAVES)
    step = 620 / max(shown, 1)
    body = [_text(0, 12, f"{w.programs:,} programs in {w.slots:,} slots: {w.waves:.3g} waves")]
    for n in range(shown):
        last = n == shown - 1
        part = w.last_wave_busy if last else 1.0
        tip = f"{'the last wave' if last else f'wave {n + 1}'}: {part:.0%} busy"
        body.append(_box(n * step, 22, step - 2, 60, BAR))
        body.append(_box(n * step, 22 + 60 * (1 - part), step - 2, 60 * part, _hue(0), tip))
    left_out = f"the first {shown - 1} of {whole - 1}, and the last; " if whole > shown else ""
    body.append(_text(0, 98, f"{left_out}the last wave is {w.last_wave_busy:.0%} busy", fill=QUIET, size=11))
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
