"""Registers and local memory of a kernel, read from a cubin's `.nv.info` sections.

Attribute numbers: EIATTR_REGCOUNT 0x2f and EIATTR_FRAME_SIZE 0x11 hold (symbol index, value) pairs, as
`cuobjdump --dump-resource-usage` prints them (REG, STACK); the tests compare with that tool.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_REGISTER_COUNT = 0x2F
_FRAME_SIZE = 0x11
_SIZED_VALUE = 4


@dataclass(frozen=True)
class Resources:
    """Registers per thread and bytes of local memory (stack) per thread."""

    registers: int
    stack_bytes: int


def read_resources(cubin: bytes, kernel: str) -> Resources:
    """Return the resources of `kernel`; raise ValueError if the cubin does not state them."""
    sections = _sections(cubin)
    symbols = _symbol_names(cubin, sections)
    values: dict[int, int] = {}
    start, size = sections[".nv.info"]
    at = start
    while at < start + size:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form != _SIZED_VALUE:
            continue
        if attribute in (_REGISTER_COUNT, _FRAME_SIZE) and length == 8:
            symbol, value = struct.unpack_from("<II", cubin, at)
            if symbols.get(symbol) == kernel:
                values[attribute] = value
        at += length
    if _REGISTER_COUNT not in values:
        raise ValueError(f"the cubin states no register count for {kernel}")
    return Resources(values[_REGISTER_COUNT], values.get(_FRAME_SIZE, 0))


def _sections(elf: bytes) -> dict[str, tuple[int, int]]:
    """Map section names to (offset, size); the layout is ELF64's."""
    if elf[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    raw = [struct.unpack_from("<IIQQQQ", elf, table + i * entry_bytes) for i in range(count)]
    names_at = raw[names_index][4]
    return {_string(elf, names_at + name): (offset, size) for name, _, _, _, offset, size in raw}


def _symbol_names(elf: bytes, sections: dict[str, tuple[int, int]]) -> dict[int, str]:
    start, size = sections[".symtab"]
    names_at, _ = sections[".strtab"]
    return {
        i: _string(elf, names_at + struct.unpack_from("<I", elf, start + 24 * i)[0])
        for i in range(size // 24)
    }


def _string(elf: bytes, at: int) -> str:
    return elf[at : elf.index(b"\0", at)].decode()
