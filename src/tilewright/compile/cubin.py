"""What a cubin states about its kernel, read from its ELF sections.

Attributes of `.nv.info` and `.nv.info.KERNEL`: EIATTR_REGCOUNT 0x2f and EIATTR_FRAME_SIZE 0x11 hold (symbol
index, value) pairs, as `cuobjdump --dump-resource-usage` prints them (REG, STACK; the tests compare with that
tool); EIATTR_PARAM_CBANK 0x0a holds where the parameters begin in constant bank 0 and their bytes,
EIATTR_KPARAM_INFO 0x17 one parameter's ordinal, offset and bytes, as `cuobjdump -elf` prints them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_REGISTER_COUNT = 0x2F
_FRAME_SIZE = 0x11
_PARAMETER_BANK = 0x0A
_PARAMETER_INFO = 0x17
_SIZED_VALUE = 4


@dataclass(frozen=True)
class Resources:
    """Registers per thread and bytes of local memory (stack) per thread."""

    registers: int
    stack_bytes: int


@dataclass(frozen=True)
class ParameterLayout:
    """Where a kernel's parameters lie in constant bank 0: the first byte, and (offset, bytes) of each from there."""

    base: int
    fields: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Section:
    """One section of the ELF file: where its bytes are, and its index."""

    index: int
    offset: int
    size: int


def read_resources(cubin: bytes, kernel: str) -> Resources:
    """Return the resources of `kernel`; raise ValueError if the cubin does not state them."""
    symbols = _symbol_names(cubin)
    values: dict[int, int] = {}
    for attribute, data in _attributes(cubin, ".nv.info"):
        if attribute in (_REGISTER_COUNT, _FRAME_SIZE) and len(data) == 8:
            symbol, value = struct.unpack("<II", data)
            if symbols.get(symbol) == kernel:
                values[attribute] = value
    if _REGISTER_COUNT not in values:
        raise ValueError(f"the cubin states no register count for {kernel}")
    return Resources(values[_REGISTER_COUNT], values.get(_FRAME_SIZE, 0))


def read_parameters(cubin: bytes, kernel: str) -> ParameterLayout:
    """Return where `kernel` finds its parameters; raise ValueError if the cubin does not state it."""
    base: int | None = None
    fields: dict[int, tuple[int, int]] = {}
    for attribute, data in _attributes(cubin, f".nv.info.{kernel}"):
        if attribute == _PARAMETER_BANK:
            _, base, _ = struct.unpack("<IHH", data)
        elif attribute == _PARAMETER_INFO:
            _, ordinal, offset, packed = struct.unpack("<IHHI", data)
            fields[ordinal] = (offset, packed >> 18)
    if base is None:
        raise ValueError(f"the cubin does not state where {kernel} finds its parameters")
    return ParameterLayout(base, tuple(fields[n] for n in sorted(fields)))


def constant_bank(cubin: bytes, kernel: str, bank: int) -> bytes:
    """Return the contents of a constant bank of `kernel`; empty where it has none.

    Addresses of code in it are relocated: each is its symbol's value plus what stands there.
    """
    found = sections(cubin).get(f".nv.constant{bank}.{kernel}")
    if found is None:
        return b""
    data = bytearray(cubin[found.offset : found.offset + found.size])
    for prefix, entry in ((".rela", 24), (".rel", 16)):
        relocations = sections(cubin).get(f"{prefix}.nv.constant{bank}.{kernel}")
        if relocations is None:
            continue
        for at in range(relocations.offset, relocations.offset + relocations.size, entry):
            place, info = struct.unpack_from("<QQ", cubin, at)
            (value,) = struct.unpack_from(
                "<Q", cubin, sections(cubin)[".symtab"].offset + 24 * (info >> 32) + 8
            )
            (here,) = struct.unpack_from("<I", data, place)
            addend = struct.unpack_from("<q", cubin, at + 16)[0] if entry == 24 else here
            struct.pack_into("<I", data, place, (value + addend) & 0xFFFFFFFF)
    return bytes(data)


def with_fewer_registers(cubin: bytes, most: int = 254) -> bytes:
    """Return a copy that states at most 254 registers: nvdisasm 12.9 gives no life ranges for a kernel with 255."""
    changed = bytearray(cubin)
    for attribute, at, length in _places(cubin, ".nv.info"):
        if attribute == _REGISTER_COUNT and length == 8:
            (count,) = struct.unpack_from("<I", cubin, at + 4)
            struct.pack_into("<I", changed, at + 4, min(count, most))
    return bytes(changed)


def as_new_format(cubin: bytes) -> bytes:
    """Return a copy of a cubin in the header of CUDA 13: its nvdisasm gives no life ranges under the older one.

    Only the header differs: ABI 0x41 version 8 in place of 0x33 version 7, and where its flags hold the
    architecture (bits 8 to 15 in place of 0 to 7), as the two ptxas of Triton 3.9 write them.
    """
    changed = bytearray(cubin)
    (flags,) = struct.unpack_from("<I", cubin, 0x30)
    changed[7:9] = b"\x41\x08"
    struct.pack_into("<I", changed, 0x14, 1)
    struct.pack_into("<I", changed, 0x30, 0x09000004 | (flags & 0xFF) << 8)
    return bytes(changed)


def _attributes(cubin: bytes, section: str) -> Iterator[tuple[int, bytes]]:
    """Yield (attribute, value) of an information section's sized values."""
    for attribute, at, length in _places(cubin, section):
        yield attribute, cubin[at : at + length]


def _places(cubin: bytes, section: str) -> Iterator[tuple[int, int, int]]:
    """Yield (attribute, where its value lies, its bytes) of an information section's sized values."""
    found = sections(cubin).get(section)
    if found is None:
        return
    at, end = found.offset, found.offset + found.size
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form == _SIZED_VALUE:
            yield attribute, at, length
            at += length


@lru_cache(maxsize=2)
def sections(elf: bytes) -> dict[str, Section]:
    """Map section names to where they lie; the layout is ELF64's. Raises ValueError if it is no ELF file."""
    if elf[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    raw = [struct.unpack_from("<IIQQQQ", elf, table + i * entry_bytes) for i in range(count)]
    names_at = raw[names_index][4]
    return {
        _string(elf, names_at + name): Section(index, offset, size)
        for index, (name, _, _, _, offset, size) in enumerate(raw)
    }


def symbol_sections(elf: bytes) -> dict[int, str]:
    """Map a symbol's index to the name of the section that it lies in."""
    found, names = sections(elf)[".symtab"], {s.index: name for name, s in sections(elf).items()}
    return {
        i: names.get(struct.unpack_from("<H", elf, found.offset + 24 * i + 6)[0], "")
        for i in range(found.size // 24)
    }


def _symbol_names(elf: bytes) -> dict[int, str]:
    found, names_at = sections(elf)[".symtab"], sections(elf)[".strtab"].offset
    return {
        i: _string(elf, names_at + struct.unpack_from("<I", elf, found.offset + 24 * i)[0])
        for i in range(found.size // 24)
    }


def _string(elf: bytes, at: int) -> str:
    return elf[at : elf.index(b"\0", at)].decode()
