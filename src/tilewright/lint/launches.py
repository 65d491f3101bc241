"""How kernels are launched: grids, program ids, addresses, and what Python decides."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import Kernel, SourceFile, argument, number

MOST_ON_AXIS = 65_535
"""Programs on axis 1 and on axis 2 of a grid (CUDA C++ Programming Guide, technical specifications)."""
_SIZE = ("shape", "size", "numel")


def find_grid_axis(file: SourceFile) -> Iterator[Found]:
    """Axis 1 or 2 of a grid that is a product or a count of tiles, or a literal that is too large."""
    for site in file.launches:
        for axis, size in enumerate(site.grid or ()):
            literal = number(size)
            if axis and literal is not None and literal > MOST_ON_AXIS:
                yield Found(
                    size,
                    f"axis {axis} of a grid holds {MOST_ON_AXIS:,} programs, found {literal:,.0f}",
                    "error",
                )
            elif (
                axis
                and isinstance(size, ast.BinOp)
                and isinstance(size.op, ast.Mult)
                and not _has_numbers_alone(size)
            ):
                yield Found(
                    size,
                    f"axis {axis} of a grid holds {MOST_ON_AXIS:,} programs, which {ast.unparse(size)} can exceed: "
                    "axis 0 holds 2^31 - 1",
                )


def _has_numbers_alone(node: ast.expr) -> bool:
    return not any(isinstance(p, (ast.Name, ast.Attribute, ast.Call)) for p in ast.walk(node))


def find_swapped_ids(file: SourceFile) -> Iterator[Found]:
    """A program id that is multiplied by the tile of another axis of the grid."""
    for site in file.launches:
        kernel = site.kernel
        if kernel is None or site.grid is None or len(site.grid) < 2:
            continue
        tiles = [_tile_of(size) for size in site.grid]
        for node in kernel.nodes:
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for one, other in ((node.left, node.right), (node.right, node.left)):
                axis = kernel.is_program_id(one)
                if axis is None or not isinstance(other, ast.Name) or axis >= len(tiles):
                    continue
                elsewhere = [n for n, tile in enumerate(tiles) if tile == other.id]
                if len(elsewhere) == 1 and elsewhere[0] != axis and tiles[axis] is not None:
                    yield Found(
                        node,
                        f"program_id({axis}) times {other.id}, but the launch at line "
                        f"{site.node.lineno} has the tiles of "
                        f"{other.id} on axis {elsewhere[0]}",
                    )


def _tile_of(size: ast.expr) -> str | None:
    """The block size by name in cdiv(n, BLOCK) or cdiv(n, META["BLOCK"]); None for other expressions."""
    if not isinstance(size, ast.Call) or len(size.args) != 2 or not ast.unparse(size.func).endswith("cdiv"):
        return None
    by = size.args[1]
    if isinstance(by, ast.Subscript) and isinstance(by.slice, ast.Constant):
        return str(by.slice.value)
    return by.id if isinstance(by, ast.Name) else None


def find_missing_axis(file: SourceFile) -> Iterator[Found]:
    """A program id of an axis that the grid has not."""
    for site in file.launches:
        if site.kernel is None or site.grid is None or any(isinstance(s, ast.Starred) for s in site.grid):
            continue
        # One kernel may be launched over grids of different axes, and look at a constexpr first.
        branches = [n for n in site.kernel.nodes if isinstance(n, (ast.If, ast.IfExp))]
        chosen = {id(n) for branch in branches for n in ast.walk(branch)}
        for call in site.kernel.named("program_id"):
            axis = number(argument(call, 0, "axis"))
            if axis is not None and axis >= len(site.grid) and id(call) not in chosen:
                many = "axis" if len(site.grid) == 1 else "axes"
                yield Found(
                    call,
                    f"program_id({axis:g}) is always 0: the grid at line {site.node.lineno} has "
                    f"{len(site.grid)} {many}",
                )


def find_int32_address(file: SourceFile) -> Iterator[Found]:
    """A pointer moved by a program id times a stride, both of 32 bits."""
    for kernel in file.kernels:
        told: set[int] = set()
        places = kernel.named("load", "store", "atomic_add")
        pointers = {kernel.pointer(argument(c, 0, "pointer")) for c in places} - {None}
        for node in kernel.nodes:
            left: ast.expr
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                left, right = node.target, node.value
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                left, right = node.left, node.right
            else:
                continue
            pointer = kernel.pointer(left)
            if pointer not in pointers and not _is_pointer_name(pointer):
                continue
            for product in _terms(right):
                if id(product) not in told and _is_narrow_product(kernel, product):
                    told.add(id(product))
                    yield Found(
                        product,
                        f"{ast.unparse(product)} overflows 32 bits on a large tensor: program_id(...).to(tl.int64)",
                    )


def _is_pointer_name(name: str | None) -> bool:
    return name is not None and ("ptr" in name.lower() or (len(name) <= 2 and name.isupper()))


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_narrow_product(kernel: Kernel, node: ast.expr) -> bool:
    """Whether an expression is `pid * stride` with a program id as it comes and a run-time stride."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    for one, other in ((node.left, node.right), (node.right, node.left)):
        free = set(kernel.parameters) - kernel.constexprs - set(kernel.assigned)
        # A program id that was cast has another name for its last call.
        if kernel.tl(kernel.resolve(one)) == "program_id" and isinstance(other, ast.Name) and other.id in free:
            return True
    return False


def find_shape_branch(file: SourceFile) -> Iterator[Found]:
    """A launch in a Python branch on a size that is more than a test for nothing."""
    told: set[int] = set()
    for site in file.launches:
        sizes = _sizes(site.function) if site.tests else frozenset()
        for test in site.tests:
            if id(test) not in told and any(_compares_size(part, sizes) for part in ast.walk(test)):
                told.add(id(test))
                yield Found(
                    test, f"{site.name} is launched by a branch on a shape: a captured graph keeps what it saw"
                )


def _compares_size(node: ast.AST, sizes: frozenset[str]) -> bool:
    if not isinstance(node, ast.Compare) or any(number(c) == 0 for c in node.comparators):
        return False
    # Of what rank a tensor is does not change from call to call as its sizes do.
    ranks = [c for c in ast.walk(node) if isinstance(c, ast.Call) and ast.unparse(c.func) == "len"]
    ranked = {id(p) for call in ranks for p in ast.walk(call)}
    return any(
        (isinstance(p, ast.Attribute) and p.attr in _SIZE) or (isinstance(p, ast.Name) and p.id in sizes)
        for p in ast.walk(node)
        if id(p) not in ranked
    )


def _sizes(function: ast.FunctionDef | None) -> frozenset[str]:
    """Names that are set to a shape: `n = x.shape[0]`, `m, n = x.shape`, `n = x.numel()`."""
    found: set[str] = set()
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = node.value
            while isinstance(value, (ast.Subscript, ast.Call)):
                value = value.value if isinstance(value, ast.Subscript) else value.func
            if isinstance(value, ast.Attribute) and value.attr in _SIZE:
                target = node.targets[0]
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {n.id for n in names if isinstance(n, ast.Name)}
    return frozenset(found)


def find_one_config_for_all(file: SourceFile) -> Iterator[Found]:
    """Literal block sizes beside a head dimension that comes from the argument."""
    for site in file.launches:
        kernel = site.kernel
        if kernel is None or kernel.autotune is not None or not any(kernel.named("dot")):
            continue
        literal = {
            k.arg for k in site.node.keywords if k.arg in kernel.constexprs and number(k.value) is not None
        }
        tiles = {n for n in literal if n and any(w in n.upper() for w in ("BLOCK", "TILE"))}
        free = [
            k.arg
            for k in site.node.keywords
            if k.arg in kernel.constexprs
            and isinstance(k.value, (ast.Name, ast.Attribute, ast.Subscript))
            and number(site.resolve(k.value)) is None
            and kernel.is_size(k.arg)
            and not any(w in k.arg.upper() for w in ("BLOCK", "TILE"))
        ]
        if len(tiles) >= 2 and free:
            yield Found(
                site.node,
                f"{', '.join(sorted(tiles))} are fixed while {free[0]} is whatever comes: with a "
                "larger one, or fp32, the "
                f"tiles may not fit in shared memory (tilewright explain --configs says)",
            )


RULES = (
    LintRule(
        "grid-axis-limit",
        "note",
        "A grid axis of more than 65,535 programs",
        "CUDA's grids hold 2^31 - 1 programs on axis 0, and 65,535 on axes 1 and 2: more is an invalid "
        "argument at the launch. An error where the number is written out.",
        find_grid_axis,
    ),
    LintRule(
        "program-id-swapped",
        "error",
        "Program ids swapped against the grid",
        "Axis 0 of the grid is program_id(0). Where the two sides disagree, tiles are left out and others are "
        "computed twice (a square tensor with square tiles cannot see it).",
        find_swapped_ids,
    ),
    LintRule(
        "program-id-without-axis",
        "warning",
        "A program id that the grid has no axis for",
        "It is 0 in every program, so all of them compute the first tile of that axis.",
        find_missing_axis,
    ),
    LintRule(
        "int32-address",
        "note",
        "Address arithmetic in 32 bits",
        "A program id and a stride are 32-bit numbers, and so is their product: past 2^31 elements it wraps, "
        "and the kernel reads and writes elsewhere.",
        find_int32_address,
    ),
    LintRule(
        "shape-branch",
        "note",
        "A launch that depends on a shape in Python",
        "A CUDA graph or a compiled program keeps the branch that was taken when it was made.",
        find_shape_branch,
    ),
    LintRule(
        "one-config-for-all",
        "note",
        "Fixed tiles for every head dimension and type",
        "Shared memory grows with the head dimension and the type: what was tuned for bf16 and 64 may fail in "
        "fp32 and 128 with OutOfResources.",
        find_one_config_for_all,
    ),
)
