"""Line tables of a cubin: which source line, and which PTX line, each machine instruction comes from.

A cubin carries two DWARF line programs (DWARF 2 to 4, section 6.2): `.debug_line` leads to source files,
`.nv_debug_line_sass` to lines of the PTX text. Reading them here costs milliseconds; asking nvdisasm for them
costs one more run of it for each (a test holds the two to the same answer).
"""

from __future__ import annotations

import posixpath
import struct
from dataclasses import dataclass, field

from tilewright.compile.cubin import sections, symbol_sections

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


@dataclass
class _Reader:
    data: bytes
    at: int = 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return int(value)

    def string(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode(errors="replace")
        self.at = end + 1
        return text

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value


@dataclass(frozen=True)
class LineTable:
    """Rows of (offset in the kernel in bytes, index into files or -1, line), by offset."""

    files: tuple[str, ...] = ()
    rows: tuple[tuple[int, int, int], ...] = ()


@dataclass
class _Header:
    files: list[str]
    minimum_bytes: int
    line_base: int
    line_range: int
    opcode_base: int
    operand_counts: list[int]
    end: int = 0


@dataclass
class _Row:
    address: int = 0
    file: int = 1
    line: int = 1
    wanted: bool = False
    rows: list[tuple[int, int, int]] = field(default_factory=list)

    def emit(self) -> None:
        if self.wanted:
            self.rows.append((self.address, self.file - 1, self.line))


def read_lines(cubin: bytes, kernel: str, section: str = ".debug_line") -> LineTable:
    """Return the line table of `kernel`; an empty one where the section is missing.

    Raises ValueError for a line program of a DWARF version that is not 2, 3 or 4.
    """
    found = sections(cubin).get(section)
    if found is None or not found.size:
        return LineTable()
    data = cubin[found.offset : found.offset + found.size]
    owners = _owners(cubin, section)
    reader, state = _Reader(data), _Row()
    files: list[str] = []
    while reader.at < len(data):
        header = _header(reader)
        files = files or header.files
        _run(reader, header, owners, f".text.{kernel}", state)
    return LineTable(tuple(files), tuple(sorted(state.rows, key=lambda row: row[0])))


def _owners(cubin: bytes, section: str) -> dict[int, str]:
    """Map the place of a relocated address in the section to the name of the code section it points into."""
    names = symbol_sections(cubin)
    owners: dict[int, str] = {}
    for prefix, entry in ((".rela", 24), (".rel", 16)):
        found = sections(cubin).get(prefix + section)
        if found is None:
            continue
        for at in range(found.offset, found.offset + found.size, entry):
            place, info = struct.unpack_from("<QQ", cubin, at)
            owners[place] = names.get(info >> 32, "")
    return owners


def _header(reader: _Reader) -> _Header:
    length = reader.take("I")
    end = reader.at + length
    version = reader.take("H")
    if version not in (2, 3, 4):
        raise ValueError(f"the cubin's line table is DWARF version {version}; expected 2, 3 or 4")
    program = reader.take("I")
    program += reader.at
    minimum = reader.take("B")
    if version >= 4:
        reader.take("B")
    reader.take("B")
    line_base, line_range, opcode_base = reader.take("b"), reader.take("B"), reader.take("B")
    counts = [0, *(reader.take("B") for _ in range(opcode_base - 1))]
    folders = [""]
    while reader.data[reader.at] and reader.at < program:
        folders.append(reader.string())
    reader.at += 1
    files = []
    while reader.at < program and reader.data[reader.at]:
        name, folder = reader.string(), reader.unsigned()
        reader.unsigned(), reader.unsigned()
        files.append(posixpath.join(folders[folder], name) if folder < len(folders) else name)
    reader.at = program
    return _Header(files, minimum, line_base, line_range, opcode_base, counts, end)


def _run(reader: _Reader, header: _Header, owners: dict[int, str], wanted: str, state: _Row) -> None:
    """Run one line program, appending the wanted kernel's rows to state.rows."""
    while reader.at < header.end:
        opcode = reader.take("B")
        if opcode >= header.opcode_base:
            adjusted = opcode - header.opcode_base
            state.address += adjusted // header.line_range * header.minimum_bytes
            state.line += header.line_base + adjusted % header.line_range
            state.emit()
        elif opcode == 0:
            length = reader.unsigned()
            end = reader.at + length
            kind = reader.take("B")
            if kind == _END_SEQUENCE:
                state.address, state.file, state.line, state.wanted = 0, 1, 1, False
            elif kind == _SET_ADDRESS:
                state.wanted = owners.get(reader.at, wanted) == wanted
                state.address = reader.take("Q")
            reader.at = end
        elif opcode == _COPY:
            state.emit()
        elif opcode == _ADVANCE_PC:
            state.address += reader.unsigned() * header.minimum_bytes
        elif opcode == _ADVANCE_LINE:
            state.line += reader.signed()
        elif opcode == _SET_FILE:
            state.file = reader.unsigned()
        elif opcode == _CONST_ADD_PC:
            state.address += (255 - header.opcode_base) // header.line_range * header.minimum_bytes
        elif opcode == _FIXED_ADVANCE_PC:
            state.address += reader.take("H")
        else:
            for _ in range(header.operand_counts[opcode]):
                reader.unsigned()
