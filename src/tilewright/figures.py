"""Large figures as a person reads them: 1,606.0 M, 206.2 G, 8.61 GB, 12.5%, and bars."""

from __future__ import annotations

BAR = 8
"""Columns of a bar that stands for everything."""


def count(number: int | float) -> str:
    """`9,228`, `131,072`, `1,606.0 M`, `206.2 G`: exact below a million, then four digits or more."""
    if number < 1e6:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.1f} M" if number < 1e10 else f"{number / 1e9:,.1f} G"


def size(number: int | float) -> str:
    """`512 B`, `16.8 MB`, `8.61 GB`: decimal units, three digits."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # From where three digits would round up to it.
        if number >= 0.9995 * scale:
            value = number / scale
            return f"{value:,.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
    return f"{number:,.0f} B"


def share(part: float, whole: float) -> str:
    """`12.5%`; `<0.1%` for what is there and would round to nothing."""
    if not whole or not part:
        return "0.0%"
    value = part / whole
    return "<0.1%" if value < 0.0005 else f"{value:.1%}"


def bar(part: float, whole: float, columns: int = BAR) -> str:
    """A bar whose length is `part` of `whole`; something that is there shows."""
    if not whole or part <= 0:
        return ""
    return "#" * max(1, round(columns * part / whole)) if part / whole >= 0.005 else ""


def ratio(part: float, whole: float) -> float:
    """`part` over `whole`; 1 where there is nothing to compare with."""
    return part / whole if whole else 1.0


def signed(number: int) -> str:
    """`+1.0 M`, `-303.0 M`, `0`."""
    return f"{'+' if number > 0 else '-' if number < 0 else ''}{count(abs(number))}"


def code(text: str, columns: int = 60) -> str:
    """Shorten a line of source, its trailing comment first."""
    bare = text.partition("  # ")[0].rstrip()
    return bare if len(bare) <= columns else f"{bare[: columns - 3].rstrip()}..."


def duration(seconds: float) -> str:
    """`2.85 ms`, `0.12 us`: three digits."""
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-5 else f"{1e6 * seconds:.3g} us"
