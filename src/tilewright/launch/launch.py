"""`Launch`: one kernel with its arguments, grid and options: all that compiling and counting need to know.

A launch holds no tensors, only what describes them, so it needs neither torch nor a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from tilewright.errors import LaunchError, did_you_mean
from tilewright.launch.dtypes import DType, dtype
from tilewright.launch.kernel import KernelSource

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Largest grid per axis. Source: CUDA programming guide, technical specifications per compute capability."""


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides, in elements, of a tensor of `shape`."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: element type, shape and strides in elements, and the alignment of its address.

    Strides default to contiguous (row-major), the alignment to 16 bytes: what torch's allocator gives. Where its first
    element's address is known beyond that, `offset_bytes` is its distance from a multiple of 512 bytes.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment_bytes: int = 16
    offset_bytes: int = 0

    @classmethod
    def of(
        cls,
        dtype_name: str,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        alignment_bytes: int = 16,
    ) -> Tensor:
        """Make a tensor argument; raise LaunchError for a negative size or strides of another rank."""
        shape = tuple(int(n) for n in shape)
        if any(n < 0 for n in shape):
            raise LaunchError(f"a tensor's sizes must be 0 or more, found {list(shape)}")
        strides = contiguous_strides(shape) if strides is None else tuple(int(n) for n in strides)
        if len(strides) != len(shape):
            raise LaunchError(
                f"a tensor of {len(shape)} dimensions needs {len(shape)} strides, found {list(strides)}"
            )
        if alignment_bytes < 1 or alignment_bytes & (alignment_bytes - 1):
            raise LaunchError(f"an alignment must be a power of two in bytes, found {alignment_bytes}")
        return cls(dtype(dtype_name), shape, strides, alignment_bytes)

    @property
    def storage_bytes(self) -> int:
        """Bytes from the first element to the end of the last."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True) if s > 0)
        return (last + 1) * self.dtype.bytes

    def __str__(self) -> str:
        text = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        if self.strides != contiguous_strides(self.shape):
            text += f"({','.join(map(str, self.strides))})"
        if self.offset_bytes:
            return f"{text}+{self.offset_bytes}B"
        return text if self.alignment_bytes == 16 else f"{text}@{self.alignment_bytes}"

    def at(self, address: int) -> Tensor:
        """Return the tensor with its first element at this address."""
        offset = address % 512
        # The alignment is what Triton looks at: whether 16 divides the address.
        return replace(self, alignment_bytes=min(16, offset & -offset) if offset else 16, offset_bytes=offset)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        said = {"offset_bytes": self.offset_bytes} if self.offset_bytes else {}
        return {
            "kind": "tensor",
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "alignment_bytes": self.alignment_bytes,
            **said,
        }


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor (TMA) argument: a tensor and the block that one load or store moves.

    For a Gluon kernel its layout in shared memory is Gluon's default, `NVMMASharedLayout.get_default_for`.
    """

    tensor: Tensor
    block_shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"descriptor of {self.tensor} in blocks of {'x'.join(map(str, self.block_shape))}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {**self.tensor.to_dict(), "kind": "descriptor", "block_shape": list(self.block_shape)}


Scalar: TypeAlias = "int | float | bool | str | None"
Arg: TypeAlias = "Tensor | Descriptor | DType | Scalar"


@dataclass(frozen=True)
class Needed:
    """What the algorithm needs at least: operations (a multiply-add counts two) and bytes from and to DRAM."""

    operations: int | None
    bytes: int | None


@dataclass(frozen=True)
class KernelIr:
    """A kernel as a program handed it to the compiler, already specialised: the module before the first pass.

    `language` is `triton` or `gluon`; `signature` maps each argument to its type, `constexprs` what is compiled in,
    both with the parts of a tuple as `name.0`, `name.1`; `options` are Triton's compile options; `compile_hash` is
    what Triton names the compiled kernel by. It is of one target: `backend` and `arch`.
    """

    text: str
    language: str
    backend: str
    arch: int | str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Scalar]
    divisible_by_16: tuple[str, ...]
    options: Mapping[str, Any]
    compile_hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, from which `from_dict` makes an equal one."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> KernelIr:
        """Make a KernelIr from its JSON form; raise KeyError or TypeError if it is another's."""
        return cls(**{**d, "divisible_by_16": tuple(d["divisible_by_16"])})


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel.

    `args` holds every parameter's value in the kernel's order, constexprs among them; `num_stages` None
    means the backend's default; `options` are further compile options by Triton's names; `parameters` are
    the values of the case that made this launch, `assumed` what was taken for granted, in words; `needed`
    is what the case says that the algorithm needs, None where it says nothing; `ir` is the kernel as a program gave
    it to the compiler, None where it is read from its file; `origin` says in words where a program launched it.
    """

    kernel: KernelSource
    args: Mapping[str, Arg]
    grid: tuple[int, int, int]
    num_warps: int = 4
    num_stages: int | None = None
    num_ctas: int = 1
    options: Mapping[str, Scalar] = field(default_factory=dict)
    case: str | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    needed: Needed | None = None
    ir: KernelIr | None = None
    origin: str | None = None

    @property
    def programs(self) -> int:
        """Programs (thread blocks) in the grid."""
        return math.prod(self.grid)

    @property
    def constexprs(self) -> dict[str, Scalar]:
        """The values of the parameters that are compile-time constants."""
        names = {p.name for p in self.kernel.parameters if p.is_constexpr}
        return {k: _plain(v) for k, v in self.args.items() if k in names}

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description (part of `tilewright.profile/1`)."""
        return {
            "case": self.case,
            "args": {
                k: v.to_dict() if isinstance(v, (Tensor, Descriptor)) else _plain(v)
                for k, v in self.args.items()
            },
            "constexprs": self.constexprs,
            "grid": list(self.grid),
            "programs": self.programs,
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "num_ctas": self.num_ctas,
            "options": dict(self.options),
            "parameters": dict(self.parameters),
            "assumed": list(self.assumed),
            "origin": self.origin,
        }


def _plain(value: Arg) -> Scalar:
    """Return a value as JSON has it: an element type by its name, no tensors."""
    if isinstance(value, (Tensor, Descriptor)):
        return None
    return value.name if isinstance(value, DType) else value


def as_arg(name: str, value: Any) -> Arg:
    """Return a value as an argument: what a case file may give for one, Triton's own types and constexprs too."""
    if isinstance(value, (Tensor, Descriptor, DType, bool, int, float, str)) or value is None:
        return value
    if type(value).__module__.startswith("triton.language"):
        if isinstance(getattr(value, "name", None), str):
            return dtype(value.name)
        if hasattr(value, "value"):
            return as_arg(name, value.value)
    raise LaunchError(
        f"{name} cannot be of type {type(value).__name__}: expected Tensor.of(...), Descriptor, a number, a bool, "
        "None, a string, or an element type such as triton.language.float32"
    )


def make_launch(
    kernel: KernelSource,
    args: Mapping[str, Arg],
    grid: Sequence[int],
    *,
    num_warps: int = 4,
    num_stages: int | None = None,
    num_ctas: int = 1,
    options: Mapping[str, Scalar] | None = None,
    case: str | None = None,
    parameters: Mapping[str, Scalar] | None = None,
    assumed: Sequence[str] = (),
    needed: Needed | None = None,
) -> Launch:
    """Check the arguments against the kernel's parameters and return the Launch, or raise LaunchError."""
    # As in Triton, a keyword that is both a parameter and an option is both.
    num_warps, num_stages, num_ctas = (
        _both(args, name, value)
        for name, value in (("num_warps", num_warps), ("num_stages", num_stages), ("num_ctas", num_ctas))
    )
    _check_option("num_warps", num_warps, power_of_two=True)
    _check_option("num_ctas", num_ctas, power_of_two=True)
    if num_stages is not None:
        _check_option("num_stages", num_stages, smallest=0)
    return Launch(
        kernel=kernel,
        args=_bind(kernel, args),
        grid=_check_grid(grid),
        num_warps=num_warps,
        num_stages=num_stages,
        num_ctas=num_ctas,
        options=dict(options or {}),
        case=case,
        parameters=dict(parameters or {}),
        assumed=tuple(assumed),
        needed=needed,
    )


def _both(args: Mapping[str, Arg], name: str, option: Any) -> Any:
    value = args.get(name, option)
    return option if value is None or isinstance(value, (Tensor, Descriptor)) else value


def _bind(kernel: KernelSource, args: Mapping[str, Arg]) -> dict[str, Arg]:
    known = [p.name for p in kernel.parameters]
    unknown = [name for name in args if name not in known]
    if unknown:
        raise LaunchError(
            f"{kernel.name} has no parameter {', '.join(map(repr, unknown))}{did_you_mean(unknown[0], known)}; "
            "its parameters are: "
            f"{kernel.signature()}"
        )
    bound: dict[str, Arg] = {}
    missing: list[str] = []
    for p in kernel.parameters:
        if p.name in args:
            value = as_arg(p.name, args[p.name])
            if p.is_constexpr and isinstance(value, (Tensor, Descriptor)):
                raise LaunchError(f"{kernel.name}: {p.name} is a constexpr and takes a value, found {value}")
            bound[p.name] = value
        elif not p.has_default:
            missing.append(p.name)
        elif p.default_is_known:
            bound[p.name] = p.default
    if missing:
        hint = "; of its @triton.autotune configs, give the values of one" if kernel.is_autotuned else ""
        raise LaunchError(
            f"{kernel.name} needs a value for {', '.join(missing)}{hint}; its parameters are: {kernel.signature()}"
        )
    return bound


def _check_grid(grid: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3:
        raise LaunchError(f"a grid has 1 to 3 axes, found {len(grid)}: {list(grid)}")
    full = (*grid, 1, 1)[:3]
    for axis, (size, limit) in enumerate(zip(full, MAX_GRID, strict=True)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise LaunchError(f"grid axis {axis} must be a whole number of 0 or more, found {size!r}")
        if size > limit:
            raise LaunchError(f"grid axis {axis} may be at most {limit:,}, found {size:,}")
    return full[0], full[1], full[2]


def _check_option(name: str, value: object, *, power_of_two: bool = False, smallest: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
        raise LaunchError(f"{name} must be a whole number of {smallest} or more, found {value!r}")
    if power_of_two and value & (value - 1):
        raise LaunchError(f"{name} must be a power of two, found {value}")
