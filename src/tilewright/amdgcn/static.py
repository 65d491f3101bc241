"""AMDGCN assembly -> StaticCounts: instructions by kind, by line of source and in the body of each loop.

The assembly is LLVM's: `.loc` directives carry the line and, in their comments, the chain of calls that were
inlined; a loop is what lies between a label and the last branch back to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

KINDS = (
    "matrix",
    "vector",
    "scalar",
    "shared memory",
    "lane exchange",
    "global",
    "to shared",
    "scratch",
    "barriers",
    "waits",
)
"""What an instruction does, in the order in which tables show it.

`matrix`: MFMA and WMMA; `lane exchange`: through the LDS hardware, without its memory; `to shared`: loads from
global memory that go straight to shared memory; `scratch`: what was spilled.
"""
_MNEMONIC = re.compile(r"\s+((?:s|v|ds|buffer|tbuffer|global|flat|scratch|tensor)_[a-z0-9_]+)")
_LABEL = re.compile(r"([.\w$]+):")
_BRANCH = re.compile(r"\s+s_c?branch\w*\s+([.\w$]+)")
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\b[^;]*(?:;\s*(.*))?$")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_FRAME = re.compile(r"([^\s\[\]@]+):(\d+):\d+")


@dataclass(frozen=True)
class StaticLine:
    """Instructions that come from a line of the kernel's file, inlined library code with the line that calls it."""

    line: int
    instructions: int
    by_kind: Mapping[str, int]


@dataclass(frozen=True)
class StaticLoop:
    """Instructions of a loop's body, those of loops within it among them.

    `lines` are the first and the last line that they come from, None where not known; `depth` is how many loops
    it lies in.
    """

    label: str
    lines: tuple[int, int] | None
    depth: int
    instructions: int
    by_kind: Mapping[str, int]


@dataclass(frozen=True)
class StaticCounts:
    """Instructions that stand in a kernel's machine code: not how often they run."""

    instructions: int
    by_kind: Mapping[str, int]
    by_line: tuple[StaticLine, ...]
    loops: tuple[StaticLoop, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {"origin": "static", **asdict(self)}


@dataclass(frozen=True)
class _Instruction:
    kind: str
    line: int | None


def static_counts(amdgcn: str, own: str) -> StaticCounts:
    """Count the instructions of AMDGCN assembly. `own` is the kernel's source file."""
    found: list[_Instruction] = []
    labels: dict[str, int] = {}
    back: dict[str, int] = {}
    files: dict[str, str] = {}
    line: int | None = None
    for text in amdgcn.splitlines():
        if text.lstrip().startswith(".amdhsa_kernel"):
            break
        if file := _FILE.match(text):
            files[file[1]] = file[3]
        elif loc := _LOC.match(text):
            line = _own_line(loc, files, own)
        elif label := _LABEL.match(text):
            labels[label[1]] = len(found)
        elif mnemonic := _MNEMONIC.match(text):
            found.append(_Instruction(_kind(mnemonic[1], text), line))
            branch = _BRANCH.match(text)
            if branch and branch[1] in labels:
                back[branch[1]] = len(found)
    return StaticCounts(len(found), _by_kind(found), _lines(found), _loops(found, labels, back))


def _own_line(loc: re.Match[str], files: Mapping[str, str], own: str) -> int | None:
    """The innermost line of the kernel's file in the chain of a `.loc`; line 0 stands for no line."""
    name = own.rpartition("/")[2]
    frames = _FRAME.findall(loc[3] or "") or [(files.get(loc[1], ""), loc[2])]
    return next((int(n) for file, n in frames if file.rpartition("/")[2] == name and int(n)), None)


def _kind(mnemonic: str, text: str) -> str:
    code, _, comment = text.partition(";")
    if "Folded Spill" in comment or "Folded Reload" in comment or mnemonic.startswith("scratch_"):
        return "scratch"
    if mnemonic.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")):
        return "matrix"
    if mnemonic.startswith(("ds_bpermute", "ds_permute", "ds_swizzle")):
        return "lane exchange"
    if mnemonic.startswith("ds_"):
        return "shared memory"
    if mnemonic.startswith(("global_", "buffer_", "tbuffer_", "flat_", "tensor_")):
        if not any(word in mnemonic for word in ("load", "store", "atomic")):
            return "waits"  # of the caches: invalidate, write back
        return "to shared" if "_lds" in mnemonic or re.search(r"\blds\b", code) else "global"
    if mnemonic.startswith("s_barrier"):
        # Where a barrier is a signal and a wait, the wait stands for it.
        return "barriers" if "signal" not in mnemonic else "waits"
    if mnemonic.startswith(("s_wait", "s_nop", "s_sleep", "s_delay")):
        return "waits"
    return "vector" if mnemonic.startswith("v_") else "scalar"


def _by_kind(found: list[_Instruction]) -> dict[str, int]:
    numbers = Counter(i.kind for i in found)
    return {kind: numbers[kind] for kind in KINDS if numbers[kind]}


def _lines(found: list[_Instruction]) -> tuple[StaticLine, ...]:
    at: dict[int, list[_Instruction]] = {}
    for instruction in found:
        if instruction.line is not None:
            at.setdefault(instruction.line, []).append(instruction)
    return tuple(StaticLine(line, len(at[line]), _by_kind(at[line])) for line in sorted(at))


def _loops(
    found: list[_Instruction], labels: Mapping[str, int], back: Mapping[str, int]
) -> tuple[StaticLoop, ...]:
    spans = sorted((labels[label], -end, label) for label, end in back.items())
    loops = []
    for first, negative, label in spans:
        body = found[first:-negative]
        depth = sum(a <= first and -b >= -negative and other != label for a, b, other in spans)
        lines = [i.line for i in body if i.line is not None]
        span = (min(lines), max(lines)) if lines else None
        loops.append(StaticLoop(label, span, depth, len(body), _by_kind(body)))
    return tuple(loops)
