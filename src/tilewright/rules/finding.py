"""`Finding`: what is wrong with a launch, how that is known, what to change, and what it can be worth at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from tilewright.model import Profile


@dataclass(frozen=True)
class Evidence:
    """One figure or fact: in words, where it comes from (compiled, counted, modelled), and the line it is about."""

    text: str
    origin: str
    line: int | None = None


@dataclass(frozen=True)
class Finding:
    """A rule's verdict on a profile.

    `bound` is the most that mending it can make the launch faster (1.5: two thirds of the time), None where the
    figures do not carry one; `bound_because` says what it rests on. Never a promise: nothing here is measured.
    """

    rule: str
    title: str
    evidence: tuple[Evidence, ...]
    change: str
    bound: float | None
    bound_because: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**asdict(self), "evidence": [asdict(e) for e in self.evidence]}


@dataclass(frozen=True)
class Rule:
    """What to look for: an id, what it means in words, from which figure on, by which source, and an example."""

    id: str
    title: str
    why: str
    threshold: str
    source: str
    before: str
    after: str
    find: Callable[[Profile], Iterator[Finding]]

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "find"}
