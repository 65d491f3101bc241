"""`Counters`: what a launch executes, counted from its machine code; or *unknown*, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

TENSOR = "tensor operations"
"""What an Unknown is about where tensor operations could not be counted."""
LOADED = "it is loaded from memory"
"""The reason for a value that is data, and that can be given (`Given`)."""
SECTOR_BYTES = 32
COPIES = "global to shared copies"
GLOBAL_READS = ("global loads", COPIES, "tensor copies in")
READS_L2 = (*GLOBAL_READS, "spill loads")
"""Kinds of access that bring sectors from L2 (or L1) into an SM; spilled registers come from L1 where it has room."""


@dataclass(frozen=True)
class Place:
    """A line of a source file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


def same_file(one: str, other: str) -> bool:
    """Whether two paths name the same source: debug information may hold the file's name alone."""
    return one == other or (
        ("/" not in one or "/" not in other) and one.rpartition("/")[2] == other.rpartition("/")[2]
    )


def place_of(calls: Sequence[Place], own: str) -> Place | None:
    """Return the line that a chain of calls belongs to: the innermost of the kernel's own file, else the outermost."""
    return next((p for p in calls if same_file(p.file, own)), calls[-1] if calls else None)


def lane_bytes(modifiers: Sequence[str]) -> int:
    """Return the bytes that one lane of a memory access asks for, by its opcode's modifiers (`E`, `128`)."""
    for modifier in modifiers:
        if modifier in ("64", "128", "256"):
            return int(modifier) // 8
        if modifier in ("U16", "S16", "16", "F16", "BF16"):
            return 2
        if modifier in ("U8", "S8", "8"):
            return 1
        if modifier in ("F16x2", "F16X2"):
            return 4
    return 4


@dataclass(frozen=True)
class Given:
    """A value that the user supplies for what is loaded at a line: `k.py:41=128`."""

    file: str
    line: int
    value: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}={self.value}"


@dataclass(frozen=True)
class Unknown:
    """Something that could not be counted: what, why, and the place in the source and the code where it begins."""

    what: str
    reason: str
    place: Place | None
    pc: int | None
    instruction: str | None


@dataclass(frozen=True)
class TensorOps:
    """Tensor-core operations (a multiply-add counts two) of one kind of instruction, over the grid."""

    inputs: str
    accumulator: str
    operations: int


@dataclass(frozen=True)
class Access:
    """What one kind of memory access, or one instruction, does, over the grid.

    `instructions` are warp-level and include those with every lane predicated off; `requests` have at least one
    lane; `bytes` are what the lanes ask for. Global: `sectors` are distinct 32-byte sectors a request,
    `ideal_sectors` what as many bytes would take side by side, where lanes share none. Shared: `wavefronts` by
    address (the most distinct words that one bank has to deliver), `ideal_wavefronts` without bank conflicts.
    `unknown` of the instructions have addresses that are not known, and are in no other figure.
    """

    instructions: int = 0
    requests: int = 0
    bytes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    unknown: int = 0

    def __add__(self, other: Access) -> Access:
        mine, theirs = asdict(self), asdict(other)
        return Access(**{k: mine[k] + theirs[k] for k in mine})


@dataclass(frozen=True)
class InstructionCount:
    """One machine instruction: where it is and comes from, and how often warps execute it, over the grid.

    `kind` is its kind of memory access, as in `Traffic.kinds`; None where it accesses no memory. `calls` is the
    chain of source lines from the innermost, an inlined function's, to the kernel's own. `access` is None where it
    accesses no memory or that is unknown.
    """

    pc: int
    text: str
    opcode: str
    kind: str | None
    executed: int
    pipe: str
    tensor_ops: int
    calls: tuple[Place, ...]
    ptx_line: int | None
    access: Access | None = None


@dataclass(frozen=True)
class Traffic:
    """Memory traffic of the grid by kind of access (`global loads`, `shared stores`, `tensor memory copies`, ...).

    `l2_to_sm_bytes` is exact where nothing can hit L1 (`l2_exact`), else the most that can come.
    """

    kinds: Mapping[str, Access]
    l2_to_sm_bytes: int | None
    l2_exact: bool
    seconds: float


@dataclass(frozen=True)
class Spread:
    """How the instructions of a program differ over the grid: (instructions, programs) from least to most."""

    least: int
    most: int
    values: tuple[tuple[int, int], ...]
    """At most 16 of them; where there are more, each stands for a run of neighbours by its mean."""
    order: tuple[tuple[int, int], ...] = ()
    """Runs (instructions, programs) of equal programs in the order in which they are launched; empty if too many."""


@dataclass(frozen=True)
class Counters:
    """Counts of a launch over the grid. `instructions` None: unknown, and `unknown` says why.

    Figures are counted: exact under `assumptions`.
    """

    programs: int
    instructions: int | None
    tensor_ops: tuple[TensorOps, ...] = ()
    barriers: int = 0
    spill_loads: int = 0
    spill_stores: int = 0
    by_instruction: tuple[InstructionCount, ...] = ()
    by_opcode: Mapping[str, int] = field(default_factory=dict)
    by_pipe: Mapping[str, int] = field(default_factory=dict)
    by_warp: tuple[int, ...] = ()
    spread: Spread | None = None
    traffic: Traffic | None = None
    assumptions: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    seconds: float = 0.0
    cached: bool = field(default=False, compare=False)

    @property
    def total_tensor_ops(self) -> int | None:
        """Tensor operations of all types; None where those of some instruction are not known."""
        if self.instructions is None or any(u.what == TENSOR for u in self.unknown):
            return None
        return sum(t.operations for t in self.tensor_ops)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, from which `from_dict` makes an equal one."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Counters:
        """Make Counters from `to_dict`'s result; raise KeyError or TypeError if it is another's."""
        traffic = d["traffic"]
        spread = d["spread"]
        return cls(
            **{
                **d,
                "tensor_ops": tuple(TensorOps(**t) for t in d["tensor_ops"]),
                "by_instruction": tuple(_instruction(i) for i in d["by_instruction"]),
                "by_warp": tuple(d["by_warp"]),
                "spread": Spread(
                    **{**spread, "values": _pairs(spread["values"]), "order": _pairs(spread["order"])}
                )
                if spread
                else None,
                "traffic": Traffic(
                    **{**traffic, "kinds": {k: Access(**v) for k, v in traffic["kinds"].items()}}
                )
                if traffic
                else None,
                "assumptions": tuple(d["assumptions"]),
                "unknown": tuple(
                    Unknown(**{**u, "place": Place(**u["place"]) if u["place"] else None})
                    for u in d["unknown"]
                ),
            }
        )


def _pairs(values: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((a, b) for a, b in values)


def _instruction(d: Mapping[str, Any]) -> InstructionCount:
    return InstructionCount(
        **{
            **d,
            "calls": tuple(Place(**p) for p in d["calls"]),
            "access": Access(**d["access"]) if d["access"] else None,
        }
    )
