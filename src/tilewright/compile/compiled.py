"""`Compiled`: what the compiler made of a launch for one target; `Failure`: why it made nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from tilewright.gpus import Target

FailureKind: TypeAlias = Literal["error", "out_of_resources", "crash", "killed", "timeout", "import"]


@dataclass(frozen=True)
class MachineCode:
    """What a cubin says beside its instructions.

    `parameters_at` is the first parameter's place in constant bank 0, `parameters` the (offset, bytes) of each
    from there; `lines` are rows of (offset of an instruction in bytes, index into files, line), `ptx_lines` of
    (offset, line of the PTX text): each holds up to the next; `table` is constant bank 2 in
    hexadecimal, where jump tables lie.
    """

    name: str
    parameters_at: int
    parameters: tuple[tuple[int, int], ...]
    files: tuple[str, ...]
    lines: tuple[tuple[int, int, int], ...]
    ptx_lines: tuple[tuple[int, int], ...]
    table: str = ""

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> MachineCode:
        """Make a MachineCode from its JSON form."""
        return cls(
            name=d["name"],
            parameters_at=d["parameters_at"],
            parameters=tuple((offset, size) for offset, size in d["parameters"]),
            files=tuple(d["files"]),
            lines=tuple((offset, file, line) for offset, file, line in d["lines"]),
            ptx_lines=tuple((offset, line) for offset, line in d["ptx_lines"]),
            table=d["table"],
        )


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel.

    `asm` maps a stage to its text: ttir, ttgir (with shared-memory offsets where the compiler gave them),
    llir, ptx and sass (with the registers that each instruction writes and reads), or amdgcn on AMD. Registers
    are per thread (on AMD: vector registers, accumulation registers included); `spilled_registers` are
    local-memory bytes / 4, as Triton counts them; `buffer_bytes` maps an operation of the TTGIR (its result's
    name) to the shared memory that it takes; `machine_code` is what the cubin says beside its instructions;
    `depth` is `ttgir` where only the middle end was run: then there are no registers.
    """

    target: Target
    kernel: str
    num_warps: int
    num_stages: int
    num_ctas: int
    shared_bytes: int
    registers: int | None
    spilled_registers: int | None
    stack_bytes: int | None
    tensor_memory_columns: int
    asm: Mapping[str, str]
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any]
    divisible_by_16: tuple[str, ...]
    options: Mapping[str, Any]
    buffer_bytes: Mapping[str, int]
    notes: tuple[str, ...]
    triton_version: str
    seconds: float
    stage_seconds: Mapping[str, float]
    machine_code: MachineCode | None = None
    depth: str = "binary"
    cached: bool = field(default=False, compare=False)

    @property
    def loop_stages(self) -> tuple[int, ...]:
        """Stages that loops state for themselves (`tl.range(..., num_stages=2)`), over num_stages."""
        found = re.findall(r"tt\.num_stages = (\d+) : i32", self.asm.get("ttir", ""))
        return tuple(sorted({int(n) for n in found}))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, from which `from_dict` makes an equal one."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Compiled:
        """Make a Compiled from `to_dict`'s result; raise KeyError or TypeError if it is another's."""
        return cls(
            **{
                **d,
                "target": Target(**d["target"]),
                "divisible_by_16": tuple(d["divisible_by_16"]),
                "notes": tuple(d["notes"]),
                "machine_code": MachineCode.from_dict(d["machine_code"]) if d.get("machine_code") else None,
            }
        )


@dataclass(frozen=True)
class Failure:
    """A compile that gave nothing: its kind, the message, and the source line if the compiler named one.

    `out_of_resources` also carries what was required and what the limit is.
    """

    kind: FailureKind
    message: str
    place: str | None = None
    required: int | None = None
    limit: int | None = None
    resource: str | None = None
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return asdict(self)


Result: TypeAlias = "Compiled | Failure"
