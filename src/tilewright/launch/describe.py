"""A launch described in words on the command line, for kernels that have no case file.

    --args 'x: bf16[4096,64], y: fp32[4096,64](128,1)@4, n: 4096, scale: 0.125, BLOCK: constexpr 128' --grid 32,8

A tensor is `type[sizes]`, then strides in parentheses and `@alignment in bytes` where they are not
contiguous and 16; a tensor descriptor is `descriptor type[sizes] block[sizes]`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from tilewright.errors import LaunchError
from tilewright.launch.case import LAUNCH_OPTIONS, Param
from tilewright.launch.kernel import KernelSource
from tilewright.launch.launch import Arg, Descriptor, Launch, Scalar, Tensor, contiguous_strides, make_launch

_TENSOR = re.compile(
    r"^(?P<pointer>\*?)(?P<dtype>[A-Za-z_][\w.]*)\s*\[(?P<shape>[^\]]*)\]\s*(?:\((?P<strides>[^)]*)\))?\s*(?:@\s*(?P<align>\d+))?$"
)
_DESCRIPTOR = re.compile(r"^descriptor\s+(?P<tensor>.+?)\s+block\s*\[(?P<block>[^\]]*)\]$")
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
    text = re.sub(r"^constexpr\s*[:=(]?\s*(.*?)\)?$", r"\1", text) if text.startswith("constexpr") else text
    return _literal(name, text)


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
            f"{name}: cannot read {text!r}: expected a tensor (bf16[4096,64]), a number, true, false, none "
            "or a quoted string"
        )
    return value


def parse_grid(text: str) -> tuple[int, ...]:
    """Read `32,8` (or `32x8`); raise LaunchError."""
    try:
        return tuple(int(part) for part in re.split(r"[,x]", text))
    except ValueError:
        raise LaunchError(f"expected a grid such as 32,8, found {text!r}") from None


def described_parameters(kernel: KernelSource, args: Mapping[str, Arg]) -> dict[str, Param]:
    """Return what `--set` may change: the scalars and constexprs given, and the launch options."""
    tiles = {p.name for p in kernel.parameters if p.is_constexpr}
    params = {
        name: Param(value, "constexpr" if name in tiles else "argument")
        for name, value in args.items()
        if not isinstance(value, (Tensor, Descriptor))
    }
    options = {
        "num_warps": Param(4, "warps per program", power_of_two=True),
        "num_stages": Param(None, "pipeline stages", smallest=0),
        "num_ctas": Param(1, "programs per cluster", power_of_two=True),
    }
    return {**params, **options}


def describe_launch(
    kernel: KernelSource, args: Mapping[str, Arg], grid: Sequence[int], values: Mapping[str, Scalar]
) -> Launch:
    """Return the launch of a described kernel, with what was assumed of its tensors in words."""
    merged = {**args, **{k: v for k, v in values.items() if k not in LAUNCH_OPTIONS}}
    options = {k: values.get(k, p.default) for k, p in described_parameters(kernel, {}).items()}
    return make_launch(
        kernel,
        merged,
        grid,
        num_warps=_whole(options["num_warps"]) or 4,
        num_stages=_whole(options["num_stages"]),
        num_ctas=_whole(options["num_ctas"]) or 1,
        parameters=values,
        assumed=_assumed(args),
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
