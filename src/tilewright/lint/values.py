"""Values in kernels: ranges, masks, infinities, and floats that are compared."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import EXPONENTIALS, Kernel, SourceFile, argument, number, same

FAR_BELOW = -1e3
ROUNDED = frozenset((*EXPONENTIALS, "log", "log2", "sqrt", "rsqrt", "sigmoid", "softmax", "sin", "cos", "erf"))
"""Functions whose results are rounded, so that another way to the same value ends beside it."""


def find_arange(file: SourceFile) -> Iterator[Found]:
    """A range whose length is known and no power of two: by itself, or by what a launch passes."""
    for kernel in file.kernels:
        for call in kernel.named("arange"):
            start, end = (number(argument(call, n, name)) for n, name in ((0, "start"), (1, "end")))
            if start is not None and end is not None and not _power_of_two(end - start):
                yield Found(
                    call, f"tl.arange covers {end - start:g} values: only powers of two can be laid out"
                )
    for site in file.launches:
        launched = site.kernel
        if launched is None:
            continue
        whole = [c for c in launched.named("arange") if number(argument(c, 0, "start")) == 0]
        ranged = {last.id for c in whole if isinstance(last := argument(c, 1, "end"), ast.Name)}
        for keyword in site.node.keywords:
            value = number(keyword.value)
            if keyword.arg in ranged & launched.constexprs and value is not None and not _power_of_two(value):
                yield Found(
                    keyword.value, f"{keyword.arg} is the length of a tl.arange: {value:g} is no power of two"
                )


def _power_of_two(value: float) -> bool:
    return math.isfinite(value) and value > 0 and value == int(value) and int(value) & (int(value) - 1) == 0


def find_runtime_arange(file: SourceFile) -> Iterator[Found]:
    """A range that ends at a run-time parameter."""
    for kernel in file.kernels:
        if kernel.name in file.called_by_kernels:
            continue
        free = set(kernel.parameters) - kernel.constexprs - set(kernel.assigned)
        for call in kernel.named("arange"):
            for bound in (argument(call, 0, "start"), argument(call, 1, "end")):
                if isinstance(bound, ast.Name) and bound.id in free:
                    yield Found(bound, f"tl.arange has to be known when compiling: {bound.id}: tl.constexpr")


def _sentinels(kernel: Kernel) -> Iterator[tuple[ast.Call, float, ast.expr]]:
    """Every tl.where that puts a very low number in: the call, the number, the condition."""
    for call in kernel.named("where"):
        if len(call.args) == 3:
            for low in call.args[1:]:
                value = kernel.number(low)
                if value is not None and value <= FAR_BELOW:
                    yield call, value, call.args[0]


def _is_loaded(kernel: Kernel, condition: ast.expr | None) -> bool:
    """Whether a mask comes from memory, so that it may hide a whole row: loaded itself, or compared for equality.

    A position below a length that was loaded is no such mask.
    """
    node = kernel.resolve(condition)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        return _is_loaded(kernel, node.left) or _is_loaded(kernel, node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_loaded(kernel, node.operand)
    if isinstance(node, ast.Subscript):
        return _is_loaded(kernel, node.value)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        # Equal to a constant: a mask of numbers. Equal to each other: segments, in which a row sees itself.
        return number(node.comparators[0]) is not None and _is_loaded(kernel, node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        return _is_loaded(kernel, node.func.value)
    return kernel.tl(node) == "load"


def find_finite_sentinel(file: SourceFile) -> Iterator[Found]:
    """A finite number that hides scores, where they are exponentiated."""
    for kernel in file.kernels:
        exponents = _exponents(kernel)
        if not exponents:
            continue
        for call, value, condition in _sentinels(kernel):
            if not math.isfinite(value) or id(call) not in exponents:
                continue
            if not _is_guard(condition) and not _is_taken_back(kernel, condition):
                yield Found(
                    call,
                    f"a row that is hidden whole has {value:g} for a maximum and averages what it should not see: "
                    "-inf, and a guard for such rows",
                    "warning" if _is_loaded(kernel, condition) else "note",
                )


def _exponents(kernel: Kernel) -> set[int]:
    """The ids of every node that what is exponentiated may be made of, names followed to all that they are set to."""
    left: list[ast.AST] = [a for call in kernel.named(*EXPONENTIALS, "softmax") for a in call.args]
    found: set[int] = set()
    names: set[str] = set()
    while left:
        for part in ast.walk(left.pop()):
            found.add(id(part))
            if isinstance(part, ast.Name) and part.id not in names:
                names.add(part.id)
                left += kernel.assigned.get(part.id, ())
    return found


def _is_taken_back(kernel: Kernel, condition: ast.expr) -> bool:
    """Whether what is hidden gets 0 after the exponential all the same, or a maximum is compared with the sentinel."""
    for call in kernel.named("where"):
        values = call.args[1:]
        zero = any(number(a) == 0 for a in values)
        if zero and same(call.args[0], condition):
            if_kept = (p for a in values for p in kernel.parts(a))
            if any(kernel.tl(p) in EXPONENTIALS for p in if_kept):
                return True
    return any(
        isinstance(part, ast.expr) and (kernel.number(part) or 0.0) <= FAR_BELOW
        for node in kernel.nodes
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
    )


def _is_guard(condition: ast.expr) -> bool:
    """Whether a condition asks for infinity or NaN: `m == float("-inf")`, `x == x`."""
    for part in ast.walk(condition):
        if isinstance(part, ast.Compare):
            sides = (part.left, *part.comparators)
            if any(math.isinf(number(side) or 0.0) for side in sides) or same(sides[0], sides[-1]):
                return True
    return False


def find_infinity_less_infinity(file: SourceFile) -> Iterator[Found]:
    """exp(s - max(s)) over scores that are hidden with -inf, without a guard for rows that are hidden whole."""
    for kernel in file.kernels:
        hidden = {
            name: condition
            for name, values in kernel.assigned.items()
            for value in values
            for call, low, condition in _sentinels(kernel)
            if value is call and low == -math.inf
        }
        for call in kernel.named(*EXPONENTIALS):
            x = call.args[0] if call.args else None
            if not (isinstance(x, ast.BinOp) and isinstance(x.op, ast.Sub) and isinstance(x.left, ast.Name)):
                continue
            names = {p.id for p in ast.walk(x.right) if isinstance(p, ast.Name)}
            if x.left.id not in hidden or not names or any(_is_guarded(kernel, n) for n in names):
                continue
            # By position alone, a row is rarely hidden whole.
            if _is_loaded(kernel, hidden[x.left.id]):
                yield Found(
                    call,
                    f"in a row that is hidden whole {x.left.id} and its maximum are -inf, and their difference is NaN: "
                    "take 0 for the maximum there",
                )


def _is_guarded(kernel: Kernel, name: str) -> bool:
    """Whether a maximum is compared with -inf or passed through a tl.where or maximum with a finite number."""
    for value in kernel.assigned.get(name, ()):
        for part in ast.walk(value):
            called = kernel.tl(part)
            finite = [a for a in getattr(part, "args", ()) if math.isfinite(number(a) or 0.0) and number(a) is not None]
            if called == "where" or (called == "maximum" and finite):
                return True
    return any(
        isinstance(node, ast.Compare)
        and any(isinstance(p, ast.Name) and p.id == name for p in ast.walk(node))
        for node in kernel.nodes
    )


def find_float_equality(file: SourceFile) -> Iterator[Found]:
    """A loaded or computed value compared for equality with a fraction, or a rounded one with another value."""
    for kernel in file.kernels:
        for node in kernel.nodes:
            if not isinstance(node, ast.Compare) or len(node.ops) != 1:
                continue
            if not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                continue
            sides = (node.left, node.comparators[0])
            for one, other in (sides, sides[::-1]):
                # 0.25 and its like are held exactly: who compares with them may mean it.
                value = number(one)
                known = isinstance(other, ast.Name) and other.id in kernel.parameters
                if value is not None and math.isfinite(value) and 1024 * value % 1 and not known:
                    yield Found(
                        node, f"rounding decides whether a float is {value:g}: compare a difference, or bits"
                    )
                elif _is_rounded(kernel, one) and _is_of_something_else(kernel, one, other):
                    yield Found(
                        node,
                        f"{ast.unparse(one)} is rounded, and rounding decides whether it is {ast.unparse(other)}: "
                        "compare a difference",
                    )
                    break


def _is_rounded(kernel: Kernel, node: ast.expr) -> bool:
    """Whether a value comes out of a function or a division whose results are rounded."""
    whole = kernel.resolve(node)
    if isinstance(whole, ast.BinOp):
        return isinstance(whole.op, ast.Div) or _is_rounded(kernel, whole.left) or _is_rounded(kernel, whole.right)
    return kernel.tl(whole) in ROUNDED


def _is_of_something_else(kernel: Kernel, one: ast.expr, other: ast.expr) -> bool:
    """Whether two values have nothing in common: a value is equal to the maximum of its own row, exactly."""
    names = [{p.id for p in kernel.parts(side) if isinstance(p, ast.Name)} for side in (one, other)]
    shared = names[0] & names[1] & (set(kernel.assigned) - set(kernel.parameters))
    loads = any(kernel.tl(p) == "load" for p in kernel.parts(other))
    return not shared and loads


def find_exp_in_loop(file: SourceFile) -> Iterator[Found]:
    """tl.exp inside a loop."""
    for kernel in file.kernels:
        told: set[int] = set()
        for loop in kernel.loops:
            for node in ast.walk(loop):
                if isinstance(node, ast.Call) and kernel.tl(node) == "exp" and id(node) not in told:
                    told.add(id(node))
                    yield Found(
                        node, "tl.exp multiplies by log2(e) on every step: tl.exp2, with log2(e) in the scale"
                    )


def find_mask_on_every_tile(file: SourceFile) -> Iterator[Found]:
    """Scores that are hidden by position in the loop that makes them, in no branch."""
    for kernel in file.kernels:
        for loop in kernel.loops:
            if not any(kernel.tl(n) == "dot" for n in ast.walk(loop)):
                continue
            inner = [n for n in ast.walk(loop) if n is not loop and isinstance(n, (ast.For, ast.While, ast.If))]
            inside = {id(n) for part in inner for n in ast.walk(part)}
            here = {id(n) for n in ast.walk(loop)} - inside
            for call, _, condition in _sentinels(kernel):
                compared = any(isinstance(p, ast.Compare) for p in kernel.parts(condition))
                if id(call) in here and compared and not _is_of_loaded_tile(kernel, condition):
                    yield Found(
                        call, "only tiles at the diagonal and at the end need this: two loops, one without the mask"
                    )


def _is_of_loaded_tile(kernel: Kernel, condition: ast.expr) -> bool:
    """Whether a mask is made from a tile that was loaded, as of the blocks that were picked; a length is no tile."""
    expressions = [condition]
    for part in kernel.parts(condition):
        if isinstance(part, ast.Name) and kernel.value(part.id) is None:
            expressions += kernel.assigned.get(part.id, ())
    loads = [p for e in expressions for p in kernel.parts(e) if isinstance(p, ast.Call) and kernel.tl(p) == "load"]
    return any(
        isinstance(p, ast.Call) and kernel.tl(p) in ("arange", "make_block_ptr")
        for call in loads
        for p in kernel.parts(argument(call, 0, "pointer"))
    )


RULES = (
    LintRule(
        "arange-power-of-two",
        "error",
        "A range that is no power of two",
        "Tiles are laid out over the bits of a thread's number, so every size is a power of two. Take the "
        "next one and mask.",
        find_arange,
    ),
    LintRule(
        "arange-runtime",
        "error",
        "A range up to a run-time value",
        "The size of a tile is part of its type, so it has to be a constexpr.",
        find_runtime_arange,
    ),
    LintRule(
        "finite-sentinel",
        "note",
        "A finite number hides scores",
        "With -1e6 a row that is hidden whole gets a softmax all the same: every hidden key has the same "
        "share. A warning where the mask is loaded from memory, and may hide any row.",
        find_finite_sentinel,
    ),
    LintRule(
        "infinity-less-infinity",
        "warning",
        "-inf - -inf",
        "In a row that is hidden whole the maximum is -inf, and -inf less -inf is NaN. Looked for where the "
        "mask is loaded from memory, and may hide any row.",
        find_infinity_less_infinity,
    ),
    LintRule(
        "float-equality",
        "warning",
        "Floats compared for equality",
        "0.1 in fp16, in fp32 and in Python are three numbers, and what was computed is rarely one of them.",
        find_float_equality,
    ),
    LintRule(
        "exp-in-loop",
        "note",
        "tl.exp in a loop",
        "The hardware has exp2. tl.exp multiplies by log2(e) and mends small results, each step anew, where "
        "the scale of the scores can hold log2(e) once.",
        find_exp_in_loop,
    ),
    LintRule(
        "mask-on-every-tile",
        "note",
        "A mask of positions on every tile",
        "Of a causal mask only the tiles on the diagonal hide anything, of a ragged end only the last.",
        find_mask_on_every_tile,
    ),
)
