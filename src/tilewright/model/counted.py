"""Counters by line of source, with what each line fetches from L2, and Counters as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.launch import short_path
from tilewright.sass import (
    READS_L2,
    SECTOR_BYTES,
    Counters,
    InstructionCount,
    Place,
    Unknown,
    place_of,
    same_file,
)


@dataclass(frozen=True)
class SourceLine:
    """What the instructions of one line of source do, over the grid, with library code inlined into it.

    `from_l2_bytes` is what its loads fetch (None: unknown for some of them). A function of the kernel's own file
    has lines of its own: `with_calls` are the line's instructions and those of such functions called from it.
    `rows` are the line's machine instructions.
    """

    place: Place
    instructions: int
    with_calls: int
    tensor_ops: int
    from_l2_bytes: int | None
    barriers: int
    rows: tuple[InstructionCount, ...]

    @property
    def library(self) -> dict[tuple[Place, ...], int]:
        """Instructions of library code by the chain of lines that led to it, from the innermost."""
        found: dict[tuple[Place, ...], int] = {}
        for row in self.rows:
            chain = row.calls[: row.calls.index(self.place)]
            if chain and row.executed:
                found[chain] = found.get(chain, 0) + row.executed
        return found


def source_lines(counters: Counters, own: str) -> tuple[SourceLine, ...]:
    """Return every line that executes something, in the order of the source. `own` is the kernel's file."""
    rows: dict[Place, list[InstructionCount]] = {}
    with_calls: dict[Place, int] = {}
    for row in counters.by_instruction:
        place = place_of(row.calls, own)
        if place is None or not row.executed:
            continue
        rows.setdefault(place, []).append(row)
        for caller in dict.fromkeys(row.calls[row.calls.index(place) :]):
            with_calls[caller] = with_calls.get(caller, 0) + row.executed
    lines = [_line(place, rows.get(place, []), with_calls[place]) for place in with_calls]
    return tuple(sorted(lines, key=lambda x: (not same_file(x.place.file, own), x.place.file, x.place.line)))


def _line(place: Place, rows: Sequence[InstructionCount], with_calls: int) -> SourceLine:
    loads = [row.access for row in rows if row.kind in READS_L2]
    known = [access.sectors for access in loads if access is not None]
    return SourceLine(
        place=place,
        instructions=sum(row.executed for row in rows),
        with_calls=with_calls,
        tensor_ops=sum(row.tensor_ops for row in rows),
        from_l2_bytes=SECTOR_BYTES * sum(known) if len(known) == len(loads) else None,
        barriers=sum(row.executed for row in rows if row.opcode == "BAR"),
        rows=tuple(rows),
    )


def counters_dict(c: Counters, lines: Sequence[SourceLine], instructions: bool) -> dict[str, Any]:
    """Return the JSON form of Counters, with `lines` made from them; instructions: each of them too."""
    t = c.traffic
    return {
        "origin": "counted",
        "programs": c.programs,
        "instructions": c.instructions,
        "tensor_ops": c.total_tensor_ops,
        "tensor_ops_by_type": [asdict(x) for x in c.tensor_ops],
        "barriers": None if c.instructions is None else c.barriers,
        "spill_loads": None if c.instructions is None else c.spill_loads,
        "spill_stores": None if c.instructions is None else c.spill_stores,
        "l2_to_sm_bytes": t.l2_to_sm_bytes if t else None,
        "l2_exact": t.l2_exact if t else None,
        "by_line": [_line_dict(x, c.instructions or 0) for x in lines],
        "by_opcode": [{"opcode": k, "instructions": n} for k, n in c.by_opcode.items()],
        "by_pipe": [{"pipe": k, "instructions": n} for k, n in c.by_pipe.items()],
        "by_warp": list(c.by_warp),
        "by_instruction": list(_instructions(c.by_instruction)) if instructions else None,
        "spread": _spread_dict(c),
        "traffic": [{"kind": kind, **asdict(a)} for kind, a in t.kinds.items()] if t else None,
        "assumptions": list(c.assumptions),
        "unknown": [_unknown_dict(u) for u in c.unknown],
        "seconds": c.seconds,
        "cached": c.cached,
    }


def mean_per_program(c: Counters) -> float | None:
    """Return instructions a program on average; None where unknown or where there are no programs."""
    return c.instructions / c.programs if c.instructions is not None and c.programs else None


def _line_dict(x: SourceLine, total: int) -> dict[str, Any]:
    return {
        "file": short_path(x.place.file),
        "line": x.place.line,
        "instructions": x.instructions,
        "instructions_with_calls": x.with_calls,
        "share": x.instructions / total if total else 0.0,
        "tensor_ops": x.tensor_ops,
        "l2_to_sm_bytes": x.from_l2_bytes,
        "barriers": x.barriers,
    }


def _spread_dict(c: Counters) -> dict[str, Any] | None:
    if c.spread is None:
        return None
    return {
        "least": c.spread.least,
        "most": c.spread.most,
        "mean": mean_per_program(c),
        "values": [list(pair) for pair in c.spread.values],
    }


def _unknown_dict(u: Unknown) -> dict[str, Any]:
    return {
        "what": u.what,
        "reason": u.reason,
        "file": short_path(u.place.file) if u.place else None,
        "line": u.place.line if u.place else None,
        "pc": u.pc,
        "instruction": u.instruction,
    }


def _instructions(rows: Iterable[InstructionCount]) -> Iterator[dict[str, Any]]:
    for r in rows:
        yield {
            "pc": r.pc,
            "text": r.text,
            "executed": r.executed,
            "pipe": r.pipe,
            "tensor_ops": r.tensor_ops,
            "calls": [{"file": short_path(p.file), "line": p.line} for p in r.calls],
            "ptx_line": r.ptx_line,
            "access": asdict(r.access) if r.access else None,
        }
