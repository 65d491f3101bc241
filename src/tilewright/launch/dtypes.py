"""Element types by the names that people write: Triton's (`bf16`), numpy's and torch's (`bfloat16`)."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import LaunchError, did_you_mean


@dataclass(frozen=True)
class DType:
    """An element type: Triton's name, torch's name (Triton reads types off torch's names) and its width."""

    name: str
    torch_name: str
    bits: int

    @property
    def bytes(self) -> int:
        """Bytes that one element takes in memory; a bool takes one."""
        return max(1, self.bits // 8)


_ALL = [
    DType("i1", "bool", 1),
    DType("i8", "int8", 8),
    DType("i16", "int16", 16),
    DType("i32", "int32", 32),
    DType("i64", "int64", 64),
    DType("u8", "uint8", 8),
    DType("u16", "uint16", 16),
    DType("u32", "uint32", 32),
    DType("u64", "uint64", 64),
    DType("fp8e4nv", "float8_e4m3fn", 8),
    DType("fp8e4b8", "float8_e4m3fnuz", 8),
    DType("fp8e5", "float8_e5m2", 8),
    DType("fp8e5b16", "float8_e5m2fnuz", 8),
    DType("fp16", "float16", 16),
    DType("bf16", "bfloat16", 16),
    DType("fp32", "float32", 32),
    DType("fp64", "float64", 64),
]
_ALIASES = {
    "bool": "i1",
    "half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "f16": "fp16",
    "f32": "fp32",
    "f64": "fp64",
    "int": "i32",
    "long": "i64",
    "e4m3": "fp8e4nv",
    "e5m2": "fp8e5",
    "fp8": "fp8e4nv",
}
_BY_NAME = {t.name: t for t in _ALL} | {t.torch_name: t for t in _ALL}
DTYPE_NAMES = tuple(t.name for t in _ALL)


def dtype(name: str) -> DType:
    """Return the element type called `name`; raise LaunchError when there is none."""
    key = name.strip().lower().removeprefix("torch.").removeprefix("tl.")
    key = _ALIASES.get(key, key)
    found = _BY_NAME.get(key)
    if found is None:
        raise LaunchError(
            f"unknown element type {name!r}{did_you_mean(key, _BY_NAME)}; "
            f"expected one of: {', '.join(DTYPE_NAMES)}"
        )
    return found
