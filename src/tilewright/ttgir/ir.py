"""Reads TTGIR text into operations: results, operands, types, the loops around each, and its source place.

Only what the printer of Triton's middle end writes is understood: one operation a line, regions in braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

LOOPS = ("scf.for", "scf.while")


@dataclass(frozen=True)
class Frame:
    """A place in a source file."""

    file: str
    line: int


@dataclass(frozen=True)
class Location:
    """Where an operation comes from: the variable's name if known, and the frames, innermost first."""

    name: str | None = None
    frames: tuple[Frame, ...] = ()

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame outside Triton's own library (`tl.max` is inlined from there)."""
        outside = [
            f
            for f in self.frames
            if "/triton/language/" not in f.file and "/triton/experimental/" not in f.file
        ]
        return outside[0] if outside else (self.frames[-1] if self.frames else None)


@dataclass(frozen=True)
class Type:
    """A tensor or memdesc type: shape, element type, and its layout as written (aliases resolved)."""

    kind: str
    shape: tuple[int, ...]
    element: str
    layout: str

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} {self.element}"


@dataclass(frozen=True)
class Operation:
    """One operation. `loops` are the indices of the loops around it, outermost first."""

    index: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    location: Location
    loops: tuple[int, ...]
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    region: tuple[str, ...] = ()
    shared_offset: int | None = None

    @property
    def in_loop(self) -> bool:
        """Whether the operation stands inside a loop."""
        return bool(self.loops)


@dataclass
class Module:
    """All operations of a module in order, with each value's defining operation and uses."""

    attributes: Mapping[str, str]
    operations: list[Operation] = field(default_factory=list)
    defined_by: dict[str, Operation] = field(default_factory=dict)
    users: dict[str, list[Operation]] = field(default_factory=dict)

    def named(self, *names: str) -> Iterator[Operation]:
        """Yield the operations with one of these names."""
        return (op for op in self.operations if op.name in names)


_LOC_USE = re.compile(r" loc\((#loc\d*|unknown|\"[^\"]*\":\d+:\d+)\)\s*$")
_LOC_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_ALIAS = re.compile(r"^(#[\w]+) = (#tt.*|#gpu.*)$")
_RESULTS = re.compile(r"^(%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)*) = ")
_NAME = re.compile(r'^"?([a-z_][\w]*\.[\w.]+)"?')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_OFFSET = re.compile(r"allocation\.offset = (\d+) : i32")


def parse(text: str) -> Module:
    """Parse a module as printed. Lines that are not understood become operations without types."""
    lines = text.splitlines()
    aliases = _resolve_aliases({m[1]: m[2] for line in lines if (m := _ALIAS.match(line))})
    locations = _Locations({m[1]: m[2] for line in lines if (m := _LOC_DEFINITION.match(line))})
    header = next((line for line in lines if line.startswith("module")), "")
    module = Module(dict(re.findall(r'"?([\w.-]+)"? = ("[^"]*"|-?\d+|true|false)', header)))
    open_regions: list[_Region] = []
    for raw in lines:
        line = raw.strip()
        if not line or line.startswith(("#", "module", "//")):
            continue
        if line.startswith("}"):
            _close(module, open_regions, line, aliases, locations)
            continue
        if line.startswith("^"):
            continue
        for region in open_regions:
            if region.collects:
                region.body.append(line)
        if any(region.collects for region in open_regions):
            continue
        opens = line.endswith("{")
        operation = _operation(module, line, open_regions, aliases, locations)
        if opens:
            open_regions.append(_Region(operation, line.endswith("({"), line))
    _index(module)
    return module


def located(text: str) -> list[tuple[str, Location]]:
    """Return a module's lines as printed, without their `loc(...)`, and where each comes from."""
    lines = text.splitlines()
    locations = _Locations({m[1]: m[2] for line in lines if (m := _LOC_DEFINITION.match(line))})
    found = []
    for line in lines:
        if _LOC_DEFINITION.match(line):
            continue
        match = _LOC_USE.search(line)
        found.append((line[: match.start()] if match else line, locations.get(match[1]) if match else Location()))
    return found


@dataclass
class _Region:
    operation: Operation
    collects: bool
    head: str
    body: list[str] = field(default_factory=list)


def _close(
    module: Module, open_regions: list[_Region], line: str, aliases: Mapping[str, str], locations: _Locations
) -> None:
    if not open_regions:
        return
    if line.endswith("{") and not line.endswith("({"):  # } else {  and  } do {
        return
    region = open_regions.pop()
    if region.collects:
        whole = region.head[: -len("({")] + " " + line[2:].strip()
        old = region.operation
        new = _make(old.index, whole, old.loops, aliases, locations)
        module.operations[old.index] = Operation(**{**vars(new), "region": tuple(region.body)})


def _operation(
    module: Module, line: str, open_regions: list[_Region], aliases: Mapping[str, str], locations: _Locations
) -> Operation:
    loops = tuple(r.operation.index for r in open_regions if r.operation.name in LOOPS)
    operation = _make(len(module.operations), line, loops, aliases, locations)
    module.operations.append(operation)
    return operation


def _make(
    index: int, line: str, loops: tuple[int, ...], aliases: Mapping[str, str], locations: _Locations
) -> Operation:
    location_match = _LOC_USE.search(line)
    location = locations.get(location_match[1]) if location_match else Location()
    body = line[: location_match.start()] if location_match else line
    results_match = _RESULTS.match(body)
    results = tuple(r.split(":")[0] for r in results_match[1].split(", ")) if results_match else ()
    rest = body[results_match.end() :] if results_match else body
    name_match = _NAME.match(rest)
    name = name_match[1] if name_match else rest.split(" ")[0].split("(")[0]
    head, types = _split_types(rest)
    before, arrow, after = types.rpartition(" -> ")
    if not arrow:
        before, _, after = types.partition(" to ")  # casts
    operand_types = _types(before, aliases)
    # An operation that states one type has it for operands and result alike.
    result_types = _types(after, aliases) if after else operand_types[-1:]
    offset = _OFFSET.search(body)
    return Operation(
        index=index,
        name=name,
        results=results,
        operands=tuple(_VALUE.findall(head)),
        text=body,
        location=location,
        loops=loops,
        operand_types=operand_types,
        result_types=result_types,
        shared_offset=int(offset[1]) if offset else None,
    )


def _split_types(rest: str) -> tuple[str, str]:
    """Split an operation at the ` : ` that starts its types, skipping those inside braces."""
    depth = 0
    for i, c in enumerate(rest):
        if c in "{[(<":
            depth += 1
        elif c in "}])" or (c == ">" and rest[i - 1] != "-"):
            depth -= 1
        elif c == ":" and depth == 0 and rest[i - 1 : i + 2] == " : ":
            return rest[: i - 1], rest[i + 2 :]
    return rest, ""


_TENSOR_START = re.compile(r"(tensor|memdesc)?<(?=\d|f|i|b)")


def _types(text: str, aliases: Mapping[str, str]) -> tuple[Type, ...]:
    found, at = [], 0
    while (match := _TENSOR_START.search(text, at)) is not None:
        end, depth = match.end(), 1
        while end < len(text) and depth:
            depth += {"<": 1, ">": -1}.get(text[end], 0)
            end += 1
        inside = text[match.end() : end - 1]
        shape_and_element, _, layout = inside.partition(", ")
        *sizes, element = shape_and_element.split("x") if "ptr" not in shape_and_element else _pointer(inside)
        if all(s.isdigit() for s in sizes):
            kind = match[1] or "memdesc"
            found.append(Type(kind, tuple(map(int, sizes)), element, _expand(layout, aliases)))
        at = end
    return tuple(found)


def _pointer(inside: str) -> list[str]:
    match = re.match(r"((?:\d+x)*)(!tt\.ptr<.*?>)", inside)
    return [*match[1].rstrip("x").split("x"), match[2]] if match else [inside]


def _resolve_aliases(aliases: dict[str, str]) -> dict[str, str]:
    return {k: _expand(v, {n: t for n, t in aliases.items() if n != k}) for k, v in aliases.items()}


def _expand(layout: str, aliases: Mapping[str, str]) -> str:
    return re.sub(r"#\w+(?![\w.])", lambda m: aliases.get(m[0], m[0]), layout)


class _Locations:
    """Resolves `#locN`: file places, names, and chains of call sites."""

    def __init__(self, definitions: Mapping[str, str]) -> None:
        self._definitions = definitions
        self._known: dict[str, Location] = {}

    def get(self, reference: str) -> Location:
        if reference not in self._known:
            self._known[reference] = Location()  # a cycle would end here
            self._known[reference] = self._read(self._definitions.get(reference, reference))
        return self._known[reference]

    def _read(self, text: str) -> Location:
        if match := re.match(r'^"([^"]*)":(\d+):\d+', text):
            return Location(None, (Frame(match[1], int(match[2])),))
        if match := re.match(r'^"([^"]*)"\((.*)\)$', text):
            return Location(match[1], self.get(match[2]).frames)
        if match := re.match(r"^callsite\((.*) at (.*)\)$", text):
            callee, caller = self.get(match[1]), self.get(match[2])
            return Location(callee.name or caller.name, callee.frames + caller.frames)
        if match := re.match(r"^fused(?:<.*?>)?\[(.*)\]$", text):
            parts = [self.get(p.strip()) for p in match[1].split(",")]
            known = [p for p in parts if p.frames]
            return known[0] if known else Location()
        return Location()


def _index(module: Module) -> None:
    for op in module.operations:
        for result in op.results:
            module.defined_by[result] = op
    for op in module.operations:
        for operand in dict.fromkeys(o.split("#")[0] for o in op.operands):
            module.users.setdefault(operand, []).append(op)
