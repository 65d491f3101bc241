"""A launch described in words on the command line, for kernels that have no case file.

    --args 'x: bf16[4096,64], y: fp32[4096,64](128,1)@4, n: 4096, scale: 0.125, BLOCK: constexpr 128' --grid 32,8

A tensor is `type[sizes]`, then strides in parentheses and `@alignment in bytes` where they are not
contiguous and 16; a tensor descriptor is `descriptor type[sizes] block[sizes]`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from tilewright.errors import LaunchError
from tilewright.launch.case import LAUNCH_OPTIONS, Param, launch_options
from tilewright.launch.dtypes import DTYPE_NAMES, DType, dtype
from tilewright.launch.kernel import KernelSource
from tilewright.launch.launch import Arg, Descriptor, Launch, Scalar, Tensor, contiguous_strides, make_launch

_TENSOR = re.compile(
    r"^(?P<pointer>\*?)(?P<dtype>[A-Za-z_][\w.]*)\s*\[(?P<shape>[^\]]*)\]\s*(?:\((?P<strides>[^)]*)\))?\s*(?:@\s*(?P<align>\d+))?$"
)
_DESCRIPTOR = re.compile(r"^descriptor\s+(?P<tensor>.+?)\s+block\s*\[(?P<block>[^\]]*)\]$")
_TYPE_NAMES = {name for t in DTYPE_NAMES for name in (t, dtype(t).torch_name)}
_EXAMPLE = "'x: bf16[4096,64], n: 4096, BLOCK: constexpr 128'"


def parse_args(text: str) -> dict[str, Arg]:
    """Read `name: value, ...`; raise LaunchError naming the part that cannot be read."""
    args: dict[str, Arg] = {}
    for part in _split(text):
        name, sep, value = part.partition(":")
        name = name.strip()
        if not sep or not name.isidentifier():
            raise LaunchError(f"expected 'name: value', found {part.strip()!r}; for example {_EXAMPLE}")
        if name in args:
            raise LaunchError(f"argument {name} is given twice")
        args[name] = _value(name, value.strip())
    return args


def _split(text: str) -> list[str]:
    """Split at the commas that stand outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "[(":
            depth += 1
        elif c in "])":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p for p in [*parts, text[start:]] if p.strip()]


def _value(name: str, text: str) -> Arg:
    if match := _DESCRIPTOR.match(text):
        tensor = _value(name, match["tensor"])
        if not isinstance(tensor, Tensor):
            raise LaunchError(f"{name}: a descriptor needs a tensor, found {match['tensor']!r}")
        return Descriptor(tensor, _sizes(name, match["block"]))
    if match := _TENSOR.match(text):
        strides = _sizes(name, match["strides"]) if match["strides"] is not None else None
        try:
            return Tensor.of(match["dtype"], _sizes(name, match["shape"]), strides, int(match["align"] or 16))
        except LaunchError as e:
            raise LaunchError(f"{name}: {e}") from None
    bare = re.sub(r"^constexpr\s*[:=(]?\s*(.*?)\)?$", r"\1", text) if text.startswith("constexpr") else text
    type_name = bare.removeprefix("triton.language.").removeprefix("tl.")
    # `x: bf16` without a prefix is a tensor whose sizes were forgotten.
    if type_name in _TYPE_NAMES and type_name != text:
        return dtype(type_name)
    return _literal(name, bare)


def _sizes(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part.strip().replace("_", "")) for part in text.split(",") if part.strip())
    except ValueError:
        raise LaunchError(f"{name}: expected whole numbers separated by commas, found {text!r}") from None


def _literal(name: str, text: str) -> Scalar:
    named: dict[str, Scalar] = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = ...
    if not isinstance(value, (bool, int, float, str)):
        raise LaunchError(
            f"{name}: cannot read {text!r}: expected a tensor (bf16[4096,64]), a number, true, false, none, "
            "an element type (tl.float32) or a quoted string"
        )
    return value


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max}


def parse_grid(text: str, values: Mapping[str, Arg] | None = None) -> tuple[int, ...]:
    """Read `32,8`, or an expression in the arguments such as `cdiv(M, BLOCK) * 2, 8`; raise LaunchError."""
    if re.fullmatch(r"\d+(x\d+)+", text):
        text = text.replace("x", ",")
    try:
        if not text.strip() or text.strip().endswith(","):
            raise ValueError(text)
        parts = [ast.parse(part.strip(), mode="eval").body for part in _split(text)]
        return tuple(_evaluate(part, values or {}) for part in parts)
    except (SyntaxError, ValueError, ZeroDivisionError, KeyError, TypeError) as e:
        why = f" (no whole-number argument {e})" if isinstance(e, KeyError) else ""
        raise LaunchError(
            f"expected a grid such as 32,8, found {text!r}{why}; "
            "an expression in the arguments may have + - * // cdiv min max: 'cdiv(n, BLOCK), 8'"
        ) from None


def _evaluate(node: ast.expr, values: Mapping[str, Arg]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        value = values.get(node.id)
        if not isinstance(value, int):
            raise KeyError(node.id)
        return value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))
    if isinstance(node, ast.Call) and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _FUNCTIONS and len(node.args) == 2:
            return _FUNCTIONS[name](_evaluate(node.args[0], values), _evaluate(node.args[1], values))
    raise ValueError(ast.unparse(node))


def described_parameters(kernel: KernelSource, args: Mapping[str, Arg]) -> dict[str, Param]:
    """Return what `--set` may change: the scalars and constexprs given, and the launch options."""
    tiles = {p.name for p in kernel.parameters if p.is_constexpr}
    params = {
        name: Param(value, "constexpr" if name in tiles else "argument")
        for name, value in args.items()
        if not isinstance(value, (Tensor, Descriptor, DType))
    }
    return {**params, **launch_options()}


def describe_launch(
    kernel: KernelSource, args: Mapping[str, Arg], grid: str, values: Mapping[str, Scalar]
) -> Launch:
    """Return the launch of a described kernel, with what was assumed of its tensors in words.

    `grid` is as parse_grid reads it; `values` are those that were set, launch options among them.
    """
    own = {p.name for p in kernel.parameters}
    merged = {**args, **{k: v for k, v in values.items() if k in own or k not in LAUNCH_OPTIONS}}
    options = {k: values.get(k, p.default) for k, p in launch_options().items()}
    assumed = _assumed(args)
    varied = [k for k in values if k in own and k not in LAUNCH_OPTIONS]
    if varied and re.fullmatch(r"[\d,x ]+", grid):
        follow = "an expression would follow: --grid 'cdiv(n, BLOCK)'"
        assumed.append(f"grid {grid} whatever {', '.join(varied)} is; {follow}")
    return make_launch(
        kernel,
        merged,
        parse_grid(grid, merged),
        num_warps=_whole(options["num_warps"]) or 4,
        num_stages=_whole(options["num_stages"]),
        num_ctas=_whole(options["num_ctas"]) or 1,
        parameters=values,
        assumed=assumed,
    )


def _whole(value: Scalar) -> int | None:
    return value if isinstance(value, int) else None


def _assumed(args: Mapping[str, Arg]) -> list[str]:
    """Say what was taken for granted of tensors where nothing else was said: row-major, 16-byte addresses."""
    tensors = {k: v for k, v in args.items() if isinstance(v, Tensor)}
    contiguous = [k for k, v in tensors.items() if v.strides == contiguous_strides(v.shape)]
    aligned = [k for k, v in tensors.items() if v.alignment_bytes == 16]
    return [
        f"{what}: {', '.join(names)}"
        for what, names in (("contiguous", contiguous), ("address divisible by 16", aligned))
        if names
    ]
