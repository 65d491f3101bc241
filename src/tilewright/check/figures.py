"""The figures of a profile that a budget can name: what each is, how it is read, and what is needed of it at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.model import Profile
from tilewright.rules import find
from tilewright.sass import Access


@dataclass(frozen=True)
class Reading:
    """A figure's value, or None and why it is not known."""

    value: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Figure:
    """One figure: its unit, what it is, where it comes from, and whether less of it is better.

    `needed` reads what the case says that the algorithm needs of it; None where nothing says so.
    """

    name: str
    unit: str
    origin: str
    doc: str
    read: Callable[[Profile], Reading]
    less_is_better: bool = True
    needed: Callable[[Profile], float | None] | None = None


def _compiled(get: Callable[[Profile], float | None]) -> Callable[[Profile], Reading]:
    def read(p: Profile) -> Reading:
        value = get(p) if p.compiled else None
        return Reading(value) if value is not None else Reading(None, "it was not compiled to machine code")

    return read


def _counted(get: Callable[[Profile], float | None], what: str) -> Callable[[Profile], Reading]:
    """Read a count; where it is not known, say the reason of the first unknown that it depends on."""

    def read(p: Profile) -> Reading:
        c = p.counters
        if c is None:
            return Reading(None, "it was not counted")
        value = get(p) if c.instructions is not None or what == "anything" else None
        if value is not None:
            return Reading(value)
        for unknown in c.unknown:
            if c.instructions is None or unknown.what == what:
                place = f" ({unknown.place})" if unknown.place else ""
                return Reading(None, f"{unknown.reason}{place}")
        return Reading(None, "it is not known")

    return read


def _kinds(p: Profile, *names: str) -> Access | None:
    traffic = p.counters.traffic if p.counters else None
    if traffic is None:
        return None
    return sum((access for name, access in traffic.kinds.items() if name.startswith(names)), Access())


def _sectors(p: Profile) -> float | None:
    found = _kinds(p, "global")
    return None if found is None or found.unknown else found.sectors


def _conflicts(p: Profile) -> float | None:
    found = _kinds(p, "shared")
    return None if found is None or found.unknown else found.wavefronts - found.ideal_wavefronts


def _counters(p: Profile, name: str) -> float | None:
    value = getattr(p.counters, name) if p.counters else None
    return None if value is None else float(value)


def _l2(p: Profile) -> float | None:
    traffic = p.counters.traffic if p.counters else None
    return None if traffic is None else traffic.l2_to_sm_bytes


def _busy(p: Profile) -> Reading:
    if not p.busy:
        return Reading(None, "it was not counted")
    return Reading(1e6 * p.busy[0].seconds)


FIGURES: dict[str, Figure] = {
    f.name: f
    for f in (
        Figure("registers", "a thread", "compiled", "registers of a thread",
               _compiled(lambda p: p.compiled.registers if p.compiled else None)),
        Figure("spilled_registers", "a thread", "compiled", "registers that do not fit and live in local memory",
               _compiled(lambda p: p.compiled.spilled_registers if p.compiled else None)),
        Figure("shared_bytes", "B a program", "compiled", "shared memory of a program",
               _compiled(lambda p: p.compiled.shared_bytes if p.compiled else None)),
        Figure("programs_per_sm", "programs", "modelled", "programs that an SM holds at once",
               _compiled(lambda p: p.occupancy.programs_per_sm if p.occupancy else None), less_is_better=False),
        Figure("occupancy", "of the warps", "modelled", "resident warps over those that an SM can hold, from 0 to 1",
               _compiled(lambda p: p.occupancy.fraction if p.occupancy else None), less_is_better=False),
        Figure("waves", "waves", "modelled", "programs of the grid over those that the GPU holds at once",
               _compiled(lambda p: p.waves.waves if p.waves else None)),
        Figure("instructions", "warp instructions", "counted", "executed warp instructions of the launch",
               _counted(lambda p: _counters(p, "instructions"), "instructions")),
        Figure("tensor_ops", "operations", "counted", "tensor-core operations; a multiply-add counts two",
               _counted(lambda p: _counters(p, "total_tensor_ops"), "tensor operations"),
               needed=lambda p: p.needed.operations if p.needed else None),
        Figure("barriers", "warp instructions", "counted", "executed barriers",
               _counted(lambda p: _counters(p, "barriers"), "barriers")),
        Figure("spill_loads", "warp instructions", "counted", "executed loads of spilled registers",
               _counted(lambda p: _counters(p, "spill_loads"), "spill loads")),
        Figure("spill_stores", "warp instructions", "counted", "executed stores of spilled registers",
               _counted(lambda p: _counters(p, "spill_stores"), "spill stores")),
        Figure("l2_to_sm_bytes", "B", "counted", "bytes from L2 into the SMs; at most, where L1 may hold some",
               _counted(_l2, "bytes from L2"), needed=lambda p: p.needed.bytes if p.needed else None),
        Figure("global_sectors", "sectors", "counted", "32-byte sectors of global loads, stores, copies and atomics",
               _counted(_sectors, "sectors")),
        Figure("bank_conflicts", "passes", "counted", "passes of shared memory beyond those that the bytes need",
               _counted(_conflicts, "wavefronts")),
        Figure("least_us", "us", "modelled", "how long the busiest unit is busy at least", _busy),
        Figure("findings", "findings", "modelled", "what the rules find wrong (tilewright rules)",
               lambda p: Reading(len(find(p)))),
    )
}  # fmt: skip
"""Every figure by name."""


def figures_of(p: Profile) -> dict[str, float]:
    """Return the figures that are known."""
    readings = {name: figure.read(p).value for name, figure in FIGURES.items()}
    return {name: plain(value) for name, value in readings.items() if value is not None}


def plain(value: float) -> float:
    """Return a whole number as an int."""
    return int(value) if float(value).is_integer() else value
