"""Block pointers: `tl.make_block_ptr`, `tl.advance`, and loads and stores through them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import Kernel, SourceFile, argument, number, same

FIELDS = {"shape": 1, "strides": 2, "offsets": 3, "block_shape": 4, "order": 5}
SUMS = ("dot", "sum", "max", "min", "cumsum", "dot_scaled")


def _made(file: SourceFile) -> Iterator[tuple[Kernel, ast.Call]]:
    for kernel in file.kernels:
        for call in kernel.named("make_block_ptr"):
            yield kernel, call


def _elements(kernel: Kernel, call: ast.Call, name: str) -> Sequence[ast.expr] | None:
    """The elements of one of a block pointer's tuples, where they are written out."""
    given = kernel.resolve(argument(call, FIELDS[name], name))
    return given.elts if isinstance(given, (ast.Tuple, ast.List)) else None


def _block_pointer(kernel: Kernel, node: ast.expr | None) -> ast.Call | None:
    """The make_block_ptr that a name was first set to."""
    if isinstance(node, ast.Name):
        values = kernel.assigned.get(node.id, ())
        node = values[0] if values else None
    return node if isinstance(node, ast.Call) and kernel.tl(node) == "make_block_ptr" else None


def find_offset_twice(file: SourceFile) -> Iterator[Found]:
    """The same product of a program id in the base and in the offsets."""
    for kernel, call in _made(file):
        base, offsets = argument(call, 0, "base"), _elements(kernel, call, "offsets")
        if base is None or offsets is None:
            continue
        products = [p for p in kernel.parts(base) if isinstance(p, ast.BinOp) and isinstance(p.op, ast.Mult)]
        own = [p for p in products if any(kernel.is_program_id(x) is not None for x in (p.left, p.right))]
        for offset in offsets:
            whole = kernel.resolve(offset)
            if whole is not None and any(same(whole, p) for p in own):
                yield Found(
                    offset, f"{ast.unparse(whole)} is in the base already: the tile is skipped to twice"
                )


def find_tile_index(file: SourceFile) -> Iterator[Found]:
    """An offset that is a program id, not multiplied by the tile."""
    for kernel, call in _made(file):
        offsets, block = _elements(kernel, call, "offsets"), _elements(kernel, call, "block_shape")
        for n, offset in enumerate(offsets or ()):
            wide = block is None or n >= len(block) or number(block[n]) != 1
            if wide and isinstance(offset, (ast.Name, ast.Call)) and kernel.is_program_id(offset) is not None:
                by = ast.unparse(block[n]) if block and n < len(block) else "the tile's size"
                yield Found(offset, f"offsets count elements, not tiles: {ast.unparse(offset)} * {by}")


def find_tile_shape(file: SourceFile) -> Iterator[Found]:
    """A shape that is the tile's, although the pointer is moved or begins elsewhere than at 0."""
    for kernel, call in _made(file):
        shape, block = _elements(kernel, call, "shape"), _elements(kernel, call, "block_shape")
        offsets = _elements(kernel, call, "offsets")
        if shape is None or block is None or offsets is None or len(shape) != len(block):
            continue
        if all(same(a, b) for a, b in zip(shape, block, strict=True)) and any(
            number(o) != 0 for o in offsets
        ):
            yield Found(
                call, "shape is the whole tensor's, not the tile's: every tile but the first is out of bounds"
            )


def find_runtime_block(file: SourceFile) -> Iterator[Found]:
    """A run-time parameter in block_shape."""
    for kernel, call in _made(file):
        if kernel.name in file.called_by_kernels:
            continue
        for element in _elements(kernel, call, "block_shape") or ():
            for name in (n.id for n in ast.walk(element) if isinstance(n, ast.Name)):
                if name in kernel.parameters and name not in kernel.constexprs:
                    yield Found(element, f"block_shape has to be known when compiling: {name}: tl.constexpr")


def find_not_a_tuple(file: SourceFile) -> Iterator[Found]:
    """A number in parentheses where a tuple of one is meant."""
    for kernel, call in _made(file):
        for name, place in FIELDS.items():
            given = argument(call, place, name)
            plain = isinstance(given, (ast.Constant, ast.BinOp)) or (
                isinstance(given, ast.Name) and given.id in kernel.parameters
            )
            if given is not None and plain:
                yield Found(given, f"{name} must be a tuple: ({ast.unparse(given)},), with a comma")


def find_ranks(file: SourceFile) -> Iterator[Found]:
    """Tuples of different lengths."""
    for kernel, call in _made(file):
        lengths = {
            name: len(found) for name in FIELDS if (found := _elements(kernel, call, name)) is not None
        }
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            yield Found(call, f"a block pointer's tuples must be of one length: {said}")


def find_assumed_stride(file: SourceFile) -> Iterator[Found]:
    """A row's stride that is the size of a dimension."""
    for kernel, call in _made(file):
        shape, strides = _elements(kernel, call, "shape"), _elements(kernel, call, "strides")
        for stride in strides or ():
            if isinstance(stride, ast.Name) and any(same(stride, s) for s in shape or ()):
                yield Found(
                    stride,
                    f"{stride.id} as a stride takes the tensor for contiguous: pass its stride instead",
                )


def find_advance_of_tiles(file: SourceFile) -> Iterator[Found]:
    """tl.advance by 1 where the tile is wider."""
    for kernel in file.kernels:
        for call in kernel.named("advance"):
            made = _block_pointer(kernel, argument(call, 0, "base"))
            steps = kernel.resolve(argument(call, 1, "offsets"))
            block = _elements(kernel, made, "block_shape") if made is not None else None
            if not isinstance(steps, (ast.Tuple, ast.List)) or block is None or len(block) != len(steps.elts):
                continue
            for step, size in zip(steps.elts, block, strict=True):
                if number(step) == 1 and number(size) != 1:
                    yield Found(step, f"advance counts elements, not tiles: {ast.unparse(size)} instead of 1")


def find_boolean_check(file: SourceFile) -> Iterator[Found]:
    """boundary_check given as booleans."""
    for kernel in file.kernels:
        for call in kernel.named("load", "store"):
            given = argument(call, 99, "boundary_check")
            if isinstance(given, (ast.Tuple, ast.List)) and any(
                isinstance(e, ast.Constant) and isinstance(e.value, bool) for e in given.elts
            ):
                checked = [
                    n for n, e in enumerate(given.elts) if isinstance(e, ast.Constant) and e.value is True
                ]
                tuple_of = ", ".join(map(str, checked)) + ("," if len(checked) == 1 else "")
                yield Found(given, f"boundary_check lists the dimensions to check: ({tuple_of})")


def find_no_check(file: SourceFile) -> Iterator[Found]:
    """A load or store through a block pointer that is nowhere checked; where it is elsewhere, tiles are told apart."""
    for kernel in file.kernels:
        calls = [(call, argument(call, 0, "pointer")) for call in kernel.named("load", "store")]
        checked = {
            place.id
            for call, place in calls
            if isinstance(place, ast.Name) and argument(call, 99, "boundary_check") is not None
        }
        for call, place in calls:
            if _block_pointer(kernel, place) is None or argument(call, 99, "boundary_check") is not None:
                continue
            if any(k.arg is None for k in call.keywords) or (isinstance(place, ast.Name) and place.id in checked):
                continue
            yield Found(call, "without boundary_check nothing is masked: right only where tiles divide the tensor")


def find_no_padding(file: SourceFile) -> Iterator[Found]:
    """A checked load that goes into a sum with undefined values or NaN beyond the end."""
    for kernel in file.kernels:
        for name, values in kernel.assigned.items():
            for value in values:
                if kernel.tl(value) != "load" or not isinstance(value, ast.Call):
                    continue
                if argument(value, 99, "boundary_check") is None:
                    continue
                padding = argument(value, 99, "padding_option")
                text = padding.value if isinstance(padding, ast.Constant) else "" if padding is None else None
                if text in ("", "nan") and _goes_into_sum(kernel, name):
                    what, level = ("NaN", "warning") if text == "nan" else ("undefined", "note")
                    said = f"beyond the end values are {what}, and they are summed: padding_option='zero'"
                    yield Found(value, said, level)


def _goes_into_sum(kernel: Kernel, name: str) -> bool:
    return any(
        isinstance(part, ast.Name) and part.id == name
        for call in kernel.named(*SUMS)
        for given in call.args
        for part in ast.walk(given)
    )


RULES = (
    LintRule(
        "block-ptr-offset-twice",
        "error",
        "A block pointer's base is already at the tile",
        "Base and offsets are added: a base that was moved to the tile is moved a second time.",
        find_offset_twice,
    ),
    LintRule(
        "block-ptr-tile-index",
        "error",
        "Offsets that count tiles",
        "Offsets are in elements. A program id is the number of a tile.",
        find_tile_index,
    ),
    LintRule(
        "block-ptr-tile-shape",
        "error",
        "The tile's size in place of the tensor's",
        "`shape` is what boundary checks compare with. With the tile's own, all but the first tile are beyond "
        "the end.",
        find_tile_shape,
    ),
    LintRule(
        "block-ptr-runtime-block",
        "error",
        "A run-time value in block_shape",
        "The compiler lays the tile out over threads, so its size has to be a constexpr.",
        find_runtime_block,
    ),
    LintRule(
        "block-ptr-not-a-tuple",
        "error",
        "(D) where (D,) is meant",
        "Parentheses alone make no tuple of one.",
        find_not_a_tuple,
    ),
    LintRule(
        "block-ptr-ranks",
        "error",
        "Tuples of different lengths",
        "Shape, strides, offsets, block shape and order each have one entry for each dimension.",
        find_ranks,
    ),
    LintRule(
        "block-ptr-assumed-stride",
        "note",
        "A size in place of a stride",
        "A view, a slice or a transposed tensor has other strides than its shape says.",
        find_assumed_stride,
    ),
    LintRule(
        "block-ptr-advance-tiles",
        "error",
        "Advancing by tiles",
        "`tl.advance` counts elements: by 1 it moves a tile by one row.",
        find_advance_of_tiles,
    ),
    LintRule(
        "block-ptr-boolean-check",
        "error",
        "boundary_check given as booleans",
        "It lists dimensions: (True, False) is read as dimensions 1 and 0.",
        find_boolean_check,
    ),
    LintRule(
        "block-ptr-no-check",
        "note",
        "No boundary check",
        "Block pointers mask nothing of themselves: a tile that reaches past the end reads and writes there.",
        find_no_check,
    ),
    LintRule(
        "block-ptr-padding",
        "warning",
        "Padding that is summed",
        "Beyond the end a checked load gives undefined values unless padding_option says zero, and a sum, a "
        "maximum or a dot takes them in.",
        find_no_padding,
    ),
)
