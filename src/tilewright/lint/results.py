"""Results that nothing takes: of calls, of arithmetic, and of assignments that are never read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import Kernel, SourceFile

METHODS = frozenset(
    ("to", "advance", "cast", "trans", "permute", "reshape", "view", "expand_dims", "broadcast_to", "sum", "max", "min")
)
"""Methods that only return something."""
PURE = METHODS - {"to"} | frozenset(
    ("zeros", "zeros_like", "full", "arange", "where", "dot", "dot_scaled", "maximum", "minimum", "exp", "exp2", "log",
     "log2", "sqrt", "rsqrt", "abs", "sigmoid", "softmax", "broadcast", "cat", "join", "split", "cumsum", "cumprod",
     "sort", "flip", "ravel", "cdiv", "fma", "program_id", "num_programs", "make_block_ptr", "make_tensor_descriptor",
     "reduce", "associative_scan", "argmax", "argmin", "sin", "cos", "erf", "floor", "ceil", "clamp", "umulhi",
     "interleave", "histogram", "gather", "xor_sum", "swizzle2d", "rand", "randn", "randint", "div_rn", "sqrt_rn")
)  # fmt: skip
"""Functions that only return something; a load that is dropped may be there to warm a cache."""
CONVERTED = frozenset(("to", "cast", "advance", "trans", "permute", "reshape", "where", "dot", "dot_scaled", "clamp"))
"""Calls that are made for what they return. An index that is left over is no mistake."""
ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)


def find_dropped(file: SourceFile) -> Iterator[Found]:
    """A statement that is a call which only returns, or arithmetic."""
    for kernel in file.kernels:
        for node in kernel.nodes:
            if not isinstance(node, ast.Expr):
                continue
            value = node.value
            if isinstance(value, ARITHMETIC):
                yield Found(node, f"the result of {_short(value)} is dropped: nothing is changed in place")
            elif isinstance(value, ast.Call):
                name = kernel.tl(value)
                if name in PURE:
                    yield Found(node, f"the result of tl.{name} is dropped: nothing is changed in place")
                elif not name and isinstance(value.func, ast.Attribute) and value.func.attr in METHODS:
                    yield from _dropped_method(kernel, node, value.func)


def _dropped_method(kernel: Kernel, node: ast.Expr, method: ast.Attribute) -> Iterator[Found]:
    owner = method.value
    if isinstance(owner, ast.Name) and (owner.id in kernel.assigned or owner.id in kernel.parameters):
        called = f"{owner.id}.{method.attr}(...)"
        yield Found(node, f"{called} returns its result: {owner.id} = {called}")
    elif isinstance(owner, (ast.BinOp, ast.UnaryOp)) or (isinstance(owner, ast.Call) and method.attr == "to"):
        yield Found(node, f"the result of {_short(node.value)} is dropped: nothing is changed in place")


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."


def find_unused(file: SourceFile) -> Iterator[Found]:
    """A converted or computed tensor that is given a name which is never read."""
    for kernel in file.kernels:
        read = {n.id for n in kernel.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for node in kernel.nodes:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target, value = node.targets[0], node.value
            if not isinstance(target, ast.Name) or target.id in read or target.id.startswith("_"):
                continue
            if isinstance(value, ast.Call) and _called(kernel, value) in CONVERTED:
                yield Found(node, f"{target.id} is never read: what it was made from may be used in its place")


def _called(kernel: Kernel, call: ast.Call) -> str:
    """The function of triton.language, or the method of a tensor, that a call calls."""
    name = kernel.tl(call)
    if not name and isinstance(call.func, ast.Attribute):
        owner = call.func.value
        known = isinstance(owner, ast.Name) and (owner.id in kernel.assigned or owner.id in kernel.parameters)
        return call.func.attr if known or isinstance(owner, (ast.BinOp, ast.Call)) else ""
    return name


RULES = (
    LintRule(
        "dropped-result",
        "error",
        "The result of a call is dropped",
        "Nothing in Triton changes a tensor or a pointer in place: `x.to(tl.float16)` and `tl.advance(p, "
        "...)` return a new one. A dropped `.to` leaves an operand in its old type, which a test in that type "
        "cannot see.",
        find_dropped,
    ),
    LintRule(
        "unused-result",
        "note",
        "A result that is never read",
        "A converted tensor under a name that nothing reads: the one that was not converted goes on being used. "
        "The compiler leaves the unread one out, so nothing shows it.",
        find_unused,
    ),
)
