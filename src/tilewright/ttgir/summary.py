"""What the middle end decided, in plain words: dots and their warps, shared-memory buffers, trips in loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.ttgir.ir import Module, Operation, Type, parse
from tilewright.ttgir.layouts import DotLayout, dot_layout

DOTS = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
_PASS_THROUGH = re.compile(
    r"arith\.(truncf|extf|trunci|ext[su]i|bitcast)|tt\.(fp_to_fp|bitcast|trans|reshape)"
    r"|ttg\.(convert_layout|memdesc_\w+|local_load|local_alloc)|ttng\.(fence\w*|tmem_load)"
)
_LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "amdg.buffer_load", "amdgpu.buffer_load")


@dataclass(frozen=True)
class Dot:
    """One matrix multiply: its result's and operands' shape, element types, warps, and how often it repeats."""

    name: str
    line: int | None
    file: str | None
    shape: tuple[int, int, int]
    input_type: str
    accumulator_type: str
    unit: str
    warps_per_cta: tuple[int, ...] | None
    instr_shape: tuple[int, ...] | None
    distinct_warps: tuple[int, int] | None
    repeat_factor: float | None
    in_loop: bool

    @property
    def warp_owns_rows(self) -> bool | None:
        """Whether every warp holds whole rows of the result, so that row reductions stay within a warp."""
        if self.unit == "tcgen05":
            return None
        return None if self.warps_per_cta is None else self.warps_per_cta[-1] == 1

    @property
    def operations(self) -> int:
        """Multiplies and adds that one execution needs."""
        m, n, k = self.shape
        return 2 * m * n * k


@dataclass(frozen=True)
class Buffer:
    """A stretch of shared memory. `role`: pipeline, buffer, operand, round trip, staging, scratch, barrier.

    `bytes` is None where the compiler's size could not be had; `copies` counts pipeline stages held;
    `shares_with` names the buffers whose space it reuses.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    element: str
    copies: int
    bytes: int | None
    offset: int
    line: int | None
    in_loop: bool
    shares_with: str | None = None

    @property
    def what(self) -> str:
        """`2 x 16x64 bf16` in words."""
        if not self.shape:
            return self.role
        tile = f"{'x'.join(map(str, self.shape))} {self.element}"
        return f"{self.copies} x {tile}" if self.copies > 1 else tile


@dataclass(frozen=True)
class Trip:
    """Data that goes through shared memory on every pass of a loop; `kind`: store and load, reduction, conversion."""

    name: str
    kind: str
    line: int | None
    bytes: int | None
    shape: tuple[int, ...]
    element: str


@dataclass(frozen=True)
class Layout:
    """The summary of one kernel's TTGIR."""

    dots: tuple[Dot, ...]
    buffers: tuple[Buffer, ...]
    trips: tuple[Trip, ...]
    loops: int

    @property
    def main_dot(self) -> Dot | None:
        """The first dot of the innermost work: in a loop if there is one."""
        return next((d for d in self.dots if d.in_loop), self.dots[0] if self.dots else None)

    @property
    def repeat_factor(self) -> float | None:
        """The largest repeat of any dot; None without dots or where one is unknown."""
        factors = [d.repeat_factor for d in self.dots]
        known = [f for f in factors if f is not None]
        return max(known) if known and len(known) == len(factors) else None

    @property
    def work_factor(self) -> float | None:
        """Executed over needed multiplies, over all dots as often as each stands in the code."""
        main = [d for d in self.dots if d.in_loop] or list(self.dots)
        if not main or any(d.repeat_factor is None for d in main):
            return None
        executed = sum(d.operations * (d.repeat_factor or 0) for d in main)
        return executed / sum(d.operations for d in main)

    @property
    def warp_owns_rows(self) -> bool | None:
        """Whether in every dot each warp owns whole rows."""
        owned = [d.warp_owns_rows for d in self.dots]
        if not owned or any(o is None for o in owned):
            return None
        return all(owned)

    @property
    def stage_bytes(self) -> int:
        """Shared memory that one more pipeline stage takes."""
        # A second loop's buffers lie where the first one's lay: they grow together, not on top of each other.
        own = [b for b in self.buffers if b.role == "pipeline" and b.shares_with is None]
        return sum((b.bytes or 0) // b.copies for b in own)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form (`layout` of `tilewright.profile/1`)."""
        main = self.main_dot
        return {
            "warps_per_cta": list(main.warps_per_cta) if main and main.warps_per_cta else None,
            "instr_shape": list(main.instr_shape) if main and main.instr_shape else None,
            "warp_owns_rows": self.warp_owns_rows,
            "repeat_factor": self.repeat_factor,
            "work_factor": self.work_factor,
            "dots": [{**asdict(d), "warp_owns_rows": d.warp_owns_rows} for d in self.dots],
            "trips": [asdict(t) for t in self.trips],
            "loops": self.loops,
        }


def summarise(ttgir: str, buffer_bytes: Mapping[str, int]) -> Layout:
    """Read a Layout from TTGIR with shared-memory offsets; `buffer_bytes` maps result names to sizes."""
    module = parse(ttgir)
    found = list(_buffers(module, buffer_bytes))
    return Layout(
        dots=_unrolled_once(list(_dots(module))),
        buffers=_place([buffer for _, buffer in found]),
        trips=tuple(_trips(found)),
        loops=sum(1 for _ in module.named("scf.for", "scf.while")),
    )


# --- dots -----------------------------------------------------------


def _dots(module: Module) -> Iterator[Dot]:
    for op in module.named(*DOTS):
        tensors = [t for t in op.operand_types if len(t.shape) >= 2]
        if len(tensors) < 2:
            continue
        a, b = tensors[0], tensors[1]
        result = (
            tensors[2] if op.name.startswith("ttng.tc_gen5") and len(tensors) > 2 else op.result_types[-1]
        )
        layout = dot_layout(result.layout) or DotLayout("unknown", None, None)
        rows, columns = result.shape[-2:]
        frame = op.location.user_frame
        yield Dot(
            name=op.location.name or "dot",
            line=frame.line if frame else None,
            file=frame.file if frame else None,
            shape=(rows, columns, a.shape[-1]),
            input_type=_input_type(op, a, b),
            accumulator_type=result.element,
            unit=layout.unit,
            warps_per_cta=layout.warps_per_cta,
            instr_shape=layout.instr_shape,
            distinct_warps=layout.distinct_warps(rows, columns),
            repeat_factor=1.0 if layout.unit == "tcgen05" else layout.executed_over_needed(rows, columns),
            in_loop=op.in_loop,
        )


_PRECISIONS = {"0": "tf32", "1": "tf32x3", "2": "ieee", "3": "bf16x3", "4": "bf16x6"}
"""Triton's InputPrecision, which some operations print as a number."""


def _input_type(op: Operation, a: Type, b: Type) -> str:
    """`bf16`, `f8E4M3FN x bf16`, or `f32 as tf32` where that is how the tensor cores take it."""
    types = a.element if a.element == b.element else f"{a.element} x {b.element}"
    if types != "f32":
        return types
    # sm_100's unit has no other way to take f32, and the operation does not say.
    written = re.search(r"inputPrecision = (\w+)", op.text)
    precision = written[1] if written else "tf32" if op.name.startswith("ttng.tc_gen5") else "ieee"
    precision = _PRECISIONS.get(precision, precision)
    return types if precision == "ieee" else f"f32 as {precision}"


def _unrolled_once(dots: list[Dot]) -> tuple[Dot, ...]:
    """Keep one of the dots that peeling and unrolling repeat: in a loop where one of them is."""
    kept: dict[tuple[Any, ...], Dot] = {}
    for dot in sorted(dots, key=lambda d: not d.in_loop):
        kept.setdefault((dot.line, dot.file, dot.shape, dot.warps_per_cta), dot)
    order = {id(d): i for i, d in enumerate(dots)}
    return tuple(sorted(kept.values(), key=lambda d: (d.line or 0, order[id(d)])))


# --- shared memory --------------------------------------------------


def _buffers(module: Module, sizes: Mapping[str, int]) -> Iterator[tuple[Operation, Buffer]]:
    """Yield every operation that takes shared memory, with what it takes."""
    for op in module.operations:
        if op.shared_offset is None:
            continue
        type_ = op.result_types[-1] if op.result_types else None
        frame = op.location.user_frame
        copies, shape = 1, type_.shape if type_ else ()
        if op.name == "ttg.local_alloc" and _is_indexed(module, op) and len(shape) > 1:
            copies, shape = shape[0], shape[1:]
        role = _role(module, op, type_)
        yield (
            op,
            Buffer(
                name=_name(module, op, role),
                role=role,
                shape=shape,
                element=type_.element if type_ else "",
                copies=copies,
                bytes=sizes.get(op.results[0]) if op.results else None,
                offset=op.shared_offset,
                line=frame.line if frame else None,
                in_loop=op.in_loop,
            ),
        )


def _is_indexed(module: Module, op: Operation) -> bool:
    return any(u.name == "ttg.memdesc_index" for u in module.users.get(op.results[0], []))


def _role(module: Module, op: Operation, type_: Type | None) -> str:
    if op.name != "ttg.local_alloc":
        return "scratch"
    if type_ is not None and type_.element == "i64":
        return "barrier"
    if not op.operands:
        return "pipeline" if _is_indexed(module, op) else "buffer"
    source = _origin(module, op.operands[0])
    if source is not None and source.name in _LOADS:
        return "staging" if op.in_loop else "operand"
    return "round trip" if op.in_loop else "operand"


def _origin(module: Module, value: str) -> Operation | None:
    """Follow a value back through casts and layout changes to the operation that made it."""
    op = module.defined_by.get(value.split("#")[0])
    for _ in range(32):
        if op is None or not _PASS_THROUGH.match(op.name) or not op.operands:
            return op
        before = module.defined_by.get(op.operands[0].split("#")[0])
        if before is None:
            return op
        op = before
    return op


def _name(module: Module, op: Operation, role: str) -> str:
    """The variable's name in the source: of the value that is stored, not of the statement that stores it."""
    if role == "barrier":
        return "mbarriers"
    if op.name not in ("ttg.local_alloc", "ttg.convert_layout"):
        return _what(op)
    dot, side = _consumer(module, op.results[0])
    name = _stored_name(module, op, (dot or op).location.name) or op.location.name
    if op.name == "ttg.convert_layout":
        return f"conversion of {name}" if name else "layout conversion"
    # A load written inside the call of a dot bears the dot's name: say which operand it is.
    if dot is not None and dot.location.name == name:
        return f"{side} operand of {name}"
    return name or _what(op)


def _stored_name(module: Module, op: Operation, statement: str | None) -> str | None:
    """The nearest variable on the way back from what `op` stores that is not the one its `statement` assigns."""
    name, at = None, op
    for _ in range(32):
        before = module.defined_by.get(at.operands[0].split("#")[0]) if at.operands else None
        if before is None:
            return name
        name = before.location.name or name
        if before.location.name not in (None, statement) or not _PASS_THROUGH.match(before.name):
            return name
        at = before
    return name


_VIEWS = re.compile(r"ttg\.(memdesc_\w+|local_load)|ttng\.fence\w*")


def _consumer(module: Module, buffer: str) -> tuple[Operation | None, str]:
    """Return the dot that a buffer feeds, and whether as its left or right operand; (None, "") where none."""
    values, seen = [buffer], {buffer}
    while values:
        value = values.pop(0)
        for user in module.users.get(value, []):
            if user.name in DOTS:
                at = [o.split("#")[0] for o in user.operands].index(value)
                if at < 2:
                    return user, ("left", "right")[at]
            elif _VIEWS.match(user.name) and user.results and user.results[0] not in seen:
                seen.add(user.results[0])
                values.append(user.results[0])
    return None, ""


def _what(op: Operation) -> str:
    if op.name == "tt.reduce":
        return f"tl.{_reduction(op)}"
    return {"tt.scan": "tl.associative_scan", "ttg.convert_layout": "layout conversion"}.get(op.name, op.name)


def _reduction(op: Operation) -> str:
    body = " ".join(op.region)
    if re.search(r"arith\.max|\bmaxnum", body):
        return "max"
    if re.search(r"arith\.min|\bminnum", body):
        return "min"
    return "sum" if re.search(r"arith\.add", body) else "reduce"


def _place(buffers: list[Buffer]) -> tuple[Buffer, ...]:
    """Order by offset and say whose space each smaller one reuses (buffers that do not live at once share)."""
    primary: list[Buffer] = []
    shared: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (b.role == "scratch", -(b.bytes or 0))):
        over = [p for p in primary if _overlap(p, buffer)]
        if over:
            names = " and ".join(dict.fromkeys(p.name for p in over))
            shared.append(Buffer(**{**vars(buffer), "shares_with": names}))
        else:
            primary.append(buffer)
    return tuple(sorted(primary, key=lambda b: b.offset)) + tuple(sorted(shared, key=lambda b: b.offset))


def _overlap(a: Buffer, b: Buffer) -> bool:
    a_end, b_end = a.offset + max(1, a.bytes or 1), b.offset + max(1, b.bytes or 1)
    return a.offset < b_end and b.offset < a_end


_TRIPS = {"tt.reduce": "reduction", "tt.scan": "scan", "ttg.convert_layout": "conversion"}


def _trips(found: list[tuple[Operation, Buffer]]) -> Iterator[Trip]:
    seen: set[tuple[Any, ...]] = set()
    for op, buffer in found:
        if not buffer.in_loop or buffer.role in ("pipeline", "buffer", "barrier") or not op.results:
            continue
        if op.name == "ttg.local_alloc":
            kind = "store and load" if buffer.role == "round trip" else "staging of a load"
        else:
            kind = _TRIPS.get(op.name, op.name)
        source = next(iter(op.operand_types or op.result_types[-1:]), None)
        trip = Trip(
            name=buffer.name,
            kind=kind,
            line=buffer.line,
            bytes=buffer.bytes,
            shape=source.shape if source else (),
            element=source.element if source else "",
        )
        # Unrolling and peeling repeat the same source operation.
        key = (trip.name, trip.kind, trip.line, trip.shape)
        if key not in seen:
            seen.add(key)
            yield trip
