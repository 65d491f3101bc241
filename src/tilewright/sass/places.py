"""Where machine instructions come from: source lines, and the chain of calls that were inlined."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from tilewright.compile import Compiled
from tilewright.sass.counters import Place

_LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+) \d+(?:.*?inlined_at (\d+) (\d+) \d+)?.*?//\s*(.*)$")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_FRAME = re.compile(r"([^\s\[\]@]+):(\d+):\d+")


class Places:
    """Looks up, for an instruction's offset, its PTX line and the chain of source lines, innermost first."""

    def __init__(self, compiled: Compiled) -> None:
        code = compiled.machine_code
        assert code is not None
        self._source_at = [offset for offset, _, _ in code.lines]
        self._source = [
            Place(code.files[file], line) if 0 <= file < len(code.files) else None
            for _, file, line in code.lines
        ]
        self._ptx_at = [offset for offset, _ in code.ptx_lines]
        self._ptx = [line for _, line in code.ptx_lines]
        self._full = {name.rsplit("/", 1)[-1]: name for name in code.files}
        self._chains = _chains(compiled.asm.get("ptx", ""))

    def ptx_line(self, pc: int) -> int | None:
        """Return the line of the PTX text that an instruction comes from."""
        at = bisect_right(self._ptx_at, pc) - 1
        return self._ptx[at] if at >= 0 else None

    def calls(self, pc: int) -> tuple[Place, ...]:
        """Return the source lines of an instruction: its own, then that of the call it was inlined at, and so on."""
        at = bisect_right(self._source_at, pc) - 1
        own = self._source[at] if at >= 0 else None
        line = self.ptx_line(pc)
        chain = self._chains.get(line) if line is not None else None
        if chain and chain[0][1] > 0:
            return tuple(Place(self._full.get(file, file), number) for file, number in chain)
        return (own,) if own is not None and own.line > 0 else ()


def _chains(ptx: str) -> Mapping[int, list[tuple[str, int]]]:
    """Map a line of the PTX text to the chain of the `.loc` in force there.

    Up to Triton 3.7 the chain is in the `.loc`'s comment. Later `.loc` names the place it is inlined at, whose own
    chain is that of the last `.loc` of that place. Within inline assembly the `.loc` before it stays in force: those
    inside are of what follows.
    """
    lines = ptx.splitlines()
    files = {m[1]: m[2].rpartition("/")[2] for m in map(_FILE.match, lines) if m}
    found: dict[int, list[tuple[str, int]]] = {}
    of_place: dict[tuple[str, str], list[tuple[str, int]]] = {}
    current: list[tuple[str, int]] = []
    inline = False
    for number, line in enumerate(lines, 1):
        text = line.lstrip()
        if text.startswith("// begin inline asm"):
            inline = True
        elif text.startswith("// end inline asm"):
            inline = False
        elif text.startswith(".loc"):
            match = _LOC.match(line)
            if match is None:
                current = []
            elif not inline:
                current = [(file, int(n)) for file, n in _FRAME.findall(match[5])]
                if match[3]:
                    at = (match[3], match[4])
                    current += of_place.get(at) or [(files.get(at[0], ""), int(at[1]))]
                of_place[match[1], match[2]] = current
        elif current:
            found[number] = current
    return found
