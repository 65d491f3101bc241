"""Padding: what a mask hides is 0 or undefined, and takes part in maxima, sums and softmaxes all the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import EXPONENTIALS, Kernel, SourceFile, argument, number

NEAR_ZERO = ("sum", "dot")
REDUCTIONS = ("sum", "max", "min", "reduce")


def _masked_loads(kernel: Kernel) -> Iterator[tuple[str, ast.Call, float | None, bool]]:
    """Names set once to a masked load: the name, the call, `other` where it is a number, and whether it is given."""
    for name, values in kernel.assigned.items():
        if len(values) != 1:
            continue
        node = values[0]
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            node = node.func.value
        mask = argument(node, 1, "mask") if isinstance(node, ast.Call) and kernel.tl(node) == "load" else None
        if isinstance(node, ast.Call) and mask is not None and not isinstance(mask, ast.Constant):
            other = argument(node, 2, "other")
            yield name, node, number(other), other is not None


def find_padded_maximum(file: SourceFile) -> Iterator[Found]:
    """A maximum or minimum over values of which the masked ones are 0 or undefined."""
    for kernel in file.kernels:
        loads = {name: (other, given) for name, _, other, given in _masked_loads(kernel)}
        for name, call, x in _extremes(kernel):
            if isinstance(x, ast.Name) and x.id in loads and _unguarded(kernel, x.id):
                other, given = loads[x.id]
                if given and (other != 0 or _is_of_bits(kernel, x.id)):
                    continue
                # Of absolute values and of counts 0 is the least; of scores it is not.
                level = None if any(kernel.named(*EXPONENTIALS, "softmax")) else "note"
                least, sign = ("-inf", "negative") if "max" in name else ("inf", "positive")
                what = "0" if given else "undefined"
                then = f"other=float('{least}')"
                if given and level == "note":
                    then = f"right only where no value is {sign}"
                yield Found(call, f"masked values of {x.id} are {what} and take part: {then}", level)


def _is_of_bits(kernel: Kernel, name: str) -> bool:
    """Whether a name is set to what is cast to one bit: its maximum is `any`, of which 0 is the neutral element."""
    value = kernel.value(name)
    return isinstance(value, ast.Call) and any(ast.unparse(a).endswith("int1") for a in value.args)


def _extremes(kernel: Kernel) -> Iterator[tuple[str, ast.Call, ast.expr | None]]:
    """Every maximum and minimum over an axis: the name, the call, and of what; as a function or as a method."""
    names = ("max", "min", "argmax", "argmin")
    for call in kernel.named(*names):
        yield kernel.tl(call), call, argument(call, 0, "input")
    for node in kernel.nodes:
        method = node.func if isinstance(node, ast.Call) and not kernel.tl(node) else None
        if isinstance(node, ast.Call) and isinstance(method, ast.Attribute) and method.attr in names:
            yield method.attr, node, method.value


def _unguarded(kernel: Kernel, name: str) -> bool:
    """Whether a name is in no tl.where, which might put something else in for what is masked."""
    return not any(
        isinstance(part, ast.Name) and part.id == name
        for call in kernel.named("where")
        for part in ast.walk(call)
    )


def find_padded_softmax(file: SourceFile) -> Iterator[Found]:
    """Scores made of zero-padded rows that are exponentiated with no mask in the whole kernel."""
    for kernel in file.kernels:
        if any(kernel.named("where")):
            continue
        zeros = {name for name, _, other, given in _masked_loads(kernel) if not given or other == 0}
        for name, values in kernel.assigned.items():
            if len(values) != 1 or not _sums_of_exponentials(kernel, name):
                continue
            dots = [p for p in ast.walk(values[0]) if isinstance(p, ast.Call) and kernel.tl(p) == "dot"]
            for dot in dots:
                second = argument(dot, 1, "other")
                used = (
                    {p.id for p in ast.walk(second) if isinstance(p, ast.Name)}
                    if second is not None
                    else set()
                )
                if used & zeros:
                    key = min(used & zeros)
                    yield Found(
                        dot,
                        f"masked rows of {key} are 0, so their scores are 0, and exp(0 - m) is not 0: mask {name}",
                    )


def _sums_of_exponentials(kernel: Kernel, name: str) -> bool:
    """Whether exp(name - ...) is taken, and something summed."""
    return any(kernel.named("sum")) and any(
        isinstance(part, ast.Name) and part.id == name
        for call in kernel.named(*EXPONENTIALS)
        for part in ast.walk(call)
    )


def find_undefined_padding(file: SourceFile) -> Iterator[Found]:
    """A masked load without `other` that goes straight into a sum or a dot."""
    for kernel in file.kernels:
        loads = {name: call for name, call, _, given in _masked_loads(kernel) if not given}
        told: set[str] = set()
        for call in kernel.named(*NEAR_ZERO):
            for x in call.args[: 2 if kernel.tl(call) == "dot" else 1]:
                if (
                    isinstance(x, ast.Name)
                    and x.id in loads
                    and x.id not in told
                    and _unguarded(kernel, x.id)
                ):
                    told.add(x.id)
                    yield Found(
                        loads[x.id], f"masked values of {x.id} are undefined, and it is summed: other=0.0"
                    )


def find_padded_sum(file: SourceFile) -> Iterator[Found]:
    """A sum over what a zero-padded load was made into, where that is not 0 any more: exp(0) is 1, (0 - mean)^2 too.

    Of one dimension only: of two, the mask may hide rows that are not stored.
    """
    for kernel in file.kernels:
        zeros = {name for name, _, other, _ in _masked_loads(kernel) if other == 0}
        if not zeros:
            continue
        known: dict[str, bool | None] = dict.fromkeys(zeros, False)
        for call in kernel.named("sum"):
            given = argument(call, 0, "input")
            if given is None or _has_dimensions(kernel, given) or not _at_padding(kernel, given, known):
                continue
            names = {p.id for p in kernel.parts(given) if isinstance(p, ast.Name)} & zeros
            if names:
                x = min(names)
                yield Found(
                    call,
                    f"masked values of {x} are 0, but {_text(given)} made from them is not: tl.where(mask, ..., 0.0)",
                )


def _has_dimensions(kernel: Kernel, node: ast.expr | None) -> bool:
    """Whether an expression is broadcast, as the positions of tiles of two dimensions are."""
    return any(
        isinstance(p, ast.Subscript) or (isinstance(p, ast.Call) and kernel.tl(p) in ("expand_dims", "make_block_ptr"))
        for p in kernel.parts(node)
    )


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 30 else "what is"


def _at_padding(kernel: Kernel, node: ast.expr | None, known: dict[str, bool | None]) -> bool | None:
    """Whether an expression is other than 0 at padding: True, False where it is 0, None where that is not known.

    `known` holds this for names; those that are looked up are added, so that each is followed once.
    """
    if isinstance(node, ast.Name):
        if node.id not in known:
            known[node.id] = None
            known[node.id] = _at_padding(kernel, kernel.value(node.id), known)
        return known[node.id]
    if (value := number(node)) is not None:
        return value != 0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _at_padding(kernel, node.operand, known)
    if isinstance(node, ast.BinOp):
        return _combined(
            node.op, _at_padding(kernel, node.left, known), _at_padding(kernel, node.right, known)
        )
    if isinstance(node, ast.Call):
        name = kernel.tl(node)
        if name in REDUCTIONS:
            # A mean, a maximum: that it is 0 is chance.
            return True
        if name in (*EXPONENTIALS, "sigmoid", "cos"):
            return None if _at_padding(kernel, argument(node, 0, "x"), known) is None else True
        if name in ("abs", "sqrt"):
            return _at_padding(kernel, argument(node, 0, "x"), known)
        if not name and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            return _at_padding(kernel, node.func.value, known)
    return None


def _combined(op: ast.operator, left: bool | None, right: bool | None) -> bool | None:
    if isinstance(op, ast.Mult):
        return False if left is False or right is False else True if left and right else None
    if isinstance(op, ast.Div):
        # By a count: tl.sum(x) / n.
        return left
    if isinstance(op, ast.FloorDiv):
        # (0 + 15) // 16 is 0 again.
        return None if left else left
    if isinstance(op, (ast.Add, ast.Sub)):
        # Of two that are not 0 the difference may be.
        return None if left is None or right is None or (left and right) else left or right
    return None


RULES = (
    LintRule(
        "padded-maximum",
        "warning",
        "A maximum or minimum over padding",
        "A masked load gives `other` where the mask hides. 0 is larger than every negative number; without "
        "`other` the value is undefined. A test on a multiple of the tile cannot see it.",
        find_padded_maximum,
    ),
    LintRule(
        "padded-softmax",
        "warning",
        "Zero-padded keys enter the softmax",
        "A key of zeros has the score 0, not -inf, and takes its share of every row. A test on a multiple of "
        "the tile cannot see it.",
        find_padded_softmax,
    ),
    LintRule(
        "undefined-padding",
        "note",
        "A masked load without `other` is summed",
        "What a mask hides is undefined unless `other` says what it is.",
        find_undefined_padding,
    ),
    LintRule(
        "padded-sum",
        "warning",
        "A sum over padding that is no longer 0",
        "A masked load gives 0 where the mask hides, and a sum of zeros is right. After exp, or after the mean was "
        "taken off, they are zeros no more and are summed with the rest: the variance of a row that is no multiple "
        "of the tile is too large.",
        find_padded_sum,
    ),
)
