"""Operands of machine instructions, as nvdisasm prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tilewright.errors import TilewrightError


class SassError(TilewrightError):
    """Text that is not what nvdisasm prints, or is printed in a form that is not known here."""


@dataclass(frozen=True, order=True)
class Register:
    """One 32-bit register or one predicate: bank R, UR (uniform), P or UP, and number; None is RZ, PT."""

    bank: str
    number: int | None

    def __str__(self) -> str:
        if self.number is None:
            return self.bank + ("T" if self.bank.endswith("P") else "Z")
        return f"{self.bank}{self.number}"

    @property
    def is_predicate(self) -> bool:
        """Whether it holds one bit a lane."""
        return self.bank in ("P", "UP")

    def next(self, count: int = 1) -> Register:
        """Return the register `count` further on (RZ stays RZ)."""
        return self if self.number is None else Register(self.bank, self.number + count)


@dataclass(frozen=True)
class RegisterOperand:
    """A register as an operand: `-R4`, `~R4`, `|R4|`, `!P0`, `R4.64`, `R4.H0_H0`, `R4.X8`."""

    register: Register
    negative: bool = False
    inverted: bool = False
    absolute: bool = False
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Immediate:
    """A whole number in the instruction."""

    value: int


@dataclass(frozen=True)
class FloatImmediate:
    """A floating-point number in the instruction, as printed."""

    text: str


@dataclass(frozen=True)
class Constant:
    """A word of a constant bank: `c[0x0][0x160]`, `c[0x0][R4+0x160]`."""

    bank: int
    index: RegisterOperand | None
    offset: int
    negative: bool = False
    inverted: bool = False
    absolute: bool = False
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Memory:
    """An address: the sum of `parts` (registers with their suffixes) and `offset`, perhaps under a descriptor.

    kind: `""` for `[...]`, else what stands before it: `desc`, `gdesc`, `tmem`, `idesc`, `cx`.
    """

    kind: str
    descriptor: RegisterOperand | None
    parts: tuple[RegisterOperand, ...]
    offset: int


@dataclass(frozen=True)
class Special:
    """A special register, a name, or text in a form not known here: `SR_TID.X`, `B0`, `gsb0`."""

    name: str


@dataclass(frozen=True)
class Label:
    """A place in the code: `` `(.L_x_1) ``; half is `lo` or `hi` for 32 bits of its address."""

    name: str
    half: str = ""


Operand = RegisterOperand | Immediate | FloatImmediate | Constant | Memory | Special | Label

_REGISTER = re.compile(r"(UR|R|UP|P)(Z|T|\d+)((?:\.[A-Za-z0-9_]+)*)")
_INTEGER = re.compile(r"-?0x[0-9a-f]+")
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+|INF|QNAN|SNAN|NAN)", re.IGNORECASE)
_LABEL = re.compile(r"`\((.+)\)")
_HALF = re.compile(r"32@(lo|hi)\((.+)\)")
_MEMORY = re.compile(r"(desc|gdesc|tmem|idesc|cx|)(?:\[([^\]]*)\])?\[([^\]]*)\]((?:\.\w+)*)")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[([^\]]*)\]((?:\.\w+)*)")


@lru_cache(maxsize=8192)
def parse_operand(text: str) -> Operand:
    """Parse one operand; one of a form that is not known becomes a Special, which no rule understands."""
    plain = text
    negative = inverted = absolute = False
    while True:
        if plain.startswith("-") and not _INTEGER.fullmatch(plain) and not _FLOAT.fullmatch(plain):
            negative, plain = not negative, plain[1:]
        elif plain[:1] in ("~", "!"):
            inverted, plain = not inverted, plain[1:]
        elif plain.startswith("|") and "|" in plain[1:]:
            absolute = True
            inner, _, rest = plain[1:].partition("|")
            plain = inner + rest
        else:
            break
    if match := _REGISTER.fullmatch(plain):
        number = int(match[2]) if match[2].isdigit() else None
        suffixes = tuple(s for s in match[3].split(".")[1:] if s != "reuse")
        return RegisterOperand(Register(match[1], number), negative, inverted, absolute, suffixes)
    if _INTEGER.fullmatch(plain):
        return Immediate(int(plain, 16))
    if match := _CONSTANT.fullmatch(plain):
        address = _address(match[2])
        if address is None or len(address[0]) > 1:
            return Special(text)
        parts, offset = address
        suffixes = tuple(match[3].split(".")[1:])
        return Constant(
            int(match[1], 16), parts[0] if parts else None, offset, negative, inverted, absolute, suffixes
        )
    if match := _MEMORY.fullmatch(plain):
        address = _address(match[3])
        descriptor = parse_operand(match[2]) if match[2] else None
        if address is None or not isinstance(descriptor, RegisterOperand | None):
            return Special(text)
        return Memory(match[1], descriptor, *address)
    if _FLOAT.fullmatch(plain):
        return FloatImmediate(plain)
    if match := _HALF.fullmatch(plain):
        return Label(match[2], match[1])
    if match := _LABEL.fullmatch(plain):
        return Label(match[1])
    return Special(text)


def _address(text: str) -> tuple[tuple[RegisterOperand, ...], int] | None:
    parts: list[RegisterOperand] = []
    offset = 0
    for piece in re.findall(r"-?[^+-]+", text.replace(" ", "")):
        value = parse_operand(piece)
        if isinstance(value, Immediate):
            offset += value.value
        elif isinstance(value, RegisterOperand):
            parts.append(value)
        else:
            return None
    return tuple(parts), offset


def split_operands(text: str) -> list[str]:
    """Split at the commas that stand outside brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        elif char == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    if last := text[start:].strip():
        found.append(last)
    return found
