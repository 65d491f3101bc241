"""What a program asks of a GPU tensor's values: refused with its file and line, or answered as the user assumes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.capturing.places import quoted_call_site
from tilewright.errors import TilewrightError

_EVERYWHERE = ""
_ASSUMED = re.compile(r"(?:(?P<place>[^=]+:\d+)=)?(?P<value>[^=]+)")


class GpuValueError(RuntimeError):
    """A value that only a GPU could give was asked for; the message says where, and how to go on."""


class CaptureSetupError(TilewrightError):
    """Capturing cannot work here; the message says what is missing or which versions work."""


@dataclass
class Assumptions:
    """Values that are taken for what only a GPU could tell: everywhere, or at a `file:line`."""

    by_place: dict[str, float] = field(default_factory=dict)
    nested: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, texts: Mapping[str, float] | list[str]) -> Assumptions:
        """Read `VALUE` and `FILE:LINE=VALUE`; raise TilewrightError for another form."""
        found: dict[str, float] = {}
        for text in texts:
            match = _ASSUMED.fullmatch(text.strip())
            try:
                value = float(match["value"]) if match else None
            except ValueError:
                value = None
            if match is None or value is None:
                raise TilewrightError(
                    f"expected --assume-item VALUE or FILE:LINE=VALUE with a number, found {text!r}"
                )
            found[match["place"] or _EVERYWHERE] = value
        return cls(found)

    def at(self, place: str) -> float | None:
        """Return the value assumed at `file:line`, or None."""
        if self.nested:
            return self.nested[-1]
        for known, value in self.by_place.items():
            if known != _EVERYWHERE and (place == known or place.endswith("/" + known)):
                return value
        return self.by_place.get(_EVERYWHERE)


current = Assumptions()


@contextmanager
def assume(item: float) -> Iterator[None]:
    """Within this block, take `item` for every value that only a GPU could tell. Without capture it does nothing."""
    current.nested.append(item)
    try:
        yield
    finally:
        current.nested.pop()


def refuse(what: str, notes: Any) -> GpuValueError:
    """Return the error for asking for a value, with the place in the user's code."""
    place, line = quoted_call_site()
    shown = f": `{line}`" if line else ""
    notes.add("stopped at a value", f"{place} {what}")
    return GpuValueError(
        f"{place}{shown} asks for {what}, and this value exists only on a GPU. To go on with a value that you state: "
        f"--assume-item {place}=VALUE, or `with tilewright.assume(VALUE):` around it"
    )


def scalar(dtype: Any, what: str, notes: Any) -> Any:
    """Return the value assumed here for one element of `dtype`, or raise GpuValueError."""
    import torch

    place, _ = quoted_call_site()
    value = current.at(place)
    if value is None:
        raise refuse(what, notes)
    notes.add("value assumed", f"{place} {what}: {value:g}")
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    if dtype.is_floating_point:
        return value
    if value != value or value in (float("inf"), float("-inf")):
        raise GpuValueError(f"{place}: {value} is assumed for {what}, which is a whole number")
    return int(value)


def rows(most: int, what: str, notes: Any) -> int:
    """Return how many elements are assumed to be found, at most `most`, or raise GpuValueError."""
    import torch

    return max(0, min(int(scalar(torch.int64, what, notes)), most))
