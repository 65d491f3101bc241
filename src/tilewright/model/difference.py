"""Two counted profiles -> Difference: what a change removed and added, by line of source and by opcode."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from tilewright.launch import short_path
from tilewright.model.counted import SourceLine
from tilewright.model.profile import Profile
from tilewright.sass import Place, same_file

COMPARISON_SCHEMA = "tilewright.comparison/1"


@dataclass(frozen=True)
class Change:
    """A figure before and after; None where it is not known."""

    name: str
    before: int | None
    after: int | None

    @property
    def by(self) -> int | None:
        """After minus before; None where either is not known."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class LineChange:
    """Warp instructions of a line before and after; the place is None where the line is not there.

    `by_opcode` are the opcodes whose numbers differ, the largest difference first.
    """

    before_place: Place | None
    after_place: Place | None
    before: int
    after: int
    by_opcode: tuple[Change, ...]

    @property
    def by(self) -> int:
        """Instructions more (or fewer, negative)."""
        return self.after - self.before


@dataclass(frozen=True)
class Difference:
    """What differs between two profiles with counters. Lines and opcodes that do not differ are left out."""

    before: Profile
    after: Profile
    figures: tuple[Change, ...]
    by_line: tuple[LineChange, ...]
    by_opcode: tuple[Change, ...]

    def to_dict(self, instructions: bool = False) -> dict[str, Any]:
        """Return the JSON form, schema `tilewright.comparison/1`."""
        return {
            "schema": COMPARISON_SCHEMA,
            "before": self.before.to_dict(instructions),
            "after": self.after.to_dict(instructions),
            "difference": {
                "figures": [_change_dict(c) for c in self.figures],
                "by_line": [
                    {
                        "before_place": _place_dict(x.before_place),
                        "after_place": _place_dict(x.after_place),
                        "before": x.before,
                        "after": x.after,
                        "by": x.by,
                        "by_opcode": [_change_dict(c) for c in x.by_opcode],
                    }
                    for x in self.by_line
                ],
                "by_opcode": [_change_dict(c) for c in self.by_opcode],
            },
        }


def difference(before: Profile, after: Profile) -> Difference:
    """Compare two profiles; what was not counted in one of them is not compared."""
    known = all(p.counters is not None and p.counters.instructions is not None for p in (before, after))
    return Difference(
        before,
        after,
        tuple(_figures(before, after)),
        tuple(_by_line(before, after)) if known else (),
        _changes(_opcodes(before), _opcodes(after)) if known else (),
    )


def _figures(before: Profile, after: Profile) -> Iterator[Change]:
    """Yield the totals, counted and compiled."""
    for name, old, new in zip(_NAMES, _totals(before), _totals(after), strict=True):
        if old is not None or new is not None:
            yield Change(name, old, new)


_NAMES = (
    "warp instructions",
    "tensor operations",
    "barriers",
    "bytes from L2 into the SMs",
    "instructions of spilled registers",
    "registers a thread",
    "shared memory, bytes",
    "programs per SM",
    "programs in the grid",
)


def _totals(p: Profile) -> tuple[int | None, ...]:
    c, traffic = p.counters, p.counters.traffic if p.counters else None
    known = c is not None and c.instructions is not None
    return (
        c.instructions if c else None,
        c.total_tensor_ops if c else None,
        c.barriers if c and known else None,
        traffic.l2_to_sm_bytes if traffic else None,
        c.spill_loads + c.spill_stores if c and known else None,
        p.compiled.registers if p.compiled else None,
        p.compiled.shared_bytes if p.compiled else None,
        p.occupancy.programs_per_sm if p.occupancy else None,
        p.launch.programs,
    )


def _opcodes(p: Profile) -> Mapping[str, int]:
    return p.counters.by_opcode if p.counters else {}


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Change, ...]:
    found = [Change(name, before.get(name, 0), after.get(name, 0)) for name in {**before, **after}]
    return tuple(sorted((c for c in found if c.by), key=lambda c: (-abs(c.by or 0), c.name)))


def _by_line(before: Profile, after: Profile) -> Iterator[LineChange]:
    """Pair the lines of two profiles and yield the pairs that differ, in the order of the source after."""
    old, new = _lines(before), _lines(after)
    for old_place, new_place in _pairs(before, after, old, new):
        was = _mix(old.get(old_place) if old_place else None)
        now = _mix(new.get(new_place) if new_place else None)
        changes = _changes(was, now)
        if changes:
            yield LineChange(old_place, new_place, sum(was.values()), sum(now.values()), changes)


def _lines(p: Profile) -> dict[Place, SourceLine]:
    return {x.place: x for x in p.lines}


def _mix(line: SourceLine | None) -> Mapping[str, int]:
    mix: Counter[str] = Counter()
    for row in line.rows if line is not None else ():
        mix[row.opcode] += row.executed
    return mix


def _pairs(
    before: Profile, after: Profile, old: Mapping[Place, SourceLine], new: Mapping[Place, SourceLine]
) -> Iterator[tuple[Place | None, Place | None]]:
    """Pair lines of the two kernels' files by their text, and lines of other files by their place."""
    one, other = str(before.launch.kernel.path), str(after.launch.kernel.path)
    old_at = {p.line: p for p in old if same_file(p.file, one)}
    new_at = {p.line: p for p in new if same_file(p.file, other)}
    for a, b in _aligned(linecache.getlines(one), linecache.getlines(other)):
        pair = old_at.get(a or 0), new_at.get(b or 0)
        if any(pair):
            yield pair
    away = {p: p for p in (*old, *new) if p not in old_at.values() and p not in new_at.values()}
    for place in away:
        yield (place if place in old else None), (place if place in new else None)


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Align two texts: yield pairs of line numbers; None where a line has no partner.

    Changed lines are paired in their order, so far as there are as many on either side.
    """
    strip = [[line.partition("  # ")[0].strip() for line in text] for text in (old, new)]
    for _, a, a_end, b, b_end in SequenceMatcher(None, strip[0], strip[1], autojunk=False).get_opcodes():
        for i in range(max(a_end - a, b_end - b)):
            yield (a + i + 1 if a + i < a_end else None), (b + i + 1 if b + i < b_end else None)


def _change_dict(c: Change) -> dict[str, Any]:
    return {**asdict(c), "by": c.by}


def _place_dict(p: Place | None) -> dict[str, Any] | None:
    return {"file": short_path(p.file), "line": p.line} if p else None
