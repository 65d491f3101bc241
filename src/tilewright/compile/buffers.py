"""How much shared memory each operation of the TTGIR takes: a buffer, a reduction's or a conversion's scratch.

The compiler's allocation states where each one lies; how large it is, only newer Tritons state, and of
scratch only. Else the operation is put alone into a module of its own, the same pass is run on that, and the
module's total is the size: the compiler's figure, not a formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_ALLOCATED = re.compile(r"allocation\.offset = \d+ : i32")
_STATED = re.compile(r"allocation\.size = (\d+) : i32")
_DEFINED = re.compile(r"^\s*(%[\w$.-]+)(?::\d+)? = ")
_SHARED = re.compile(r"ttg\.shared = (\d+) : i32")
_TYPE_LIST = re.compile(r":\s*\(?(?P<types>.*?)\)?\s*->\s*(?P<result>.*?)(?:\s*loc\(.*\))?$")


def measure_buffers(allocated: str, run_passes: Callable[[str], str]) -> dict[str, int]:
    """Map result names of operations that take shared memory to bytes; those that cannot be isolated are left out.

    allocated: TTGIR with `allocation.offset` attributes; run_passes: allocates a module and returns its text.
    """
    lines = allocated.splitlines()
    header = [line for line in lines if line.startswith("#") and not line.startswith("#loc")]
    module = next(line for line in lines if line.startswith("module"))
    module = re.sub(r",? ttg\.shared = \d+ : i32", "", module)
    module = re.sub(r"\{, ", "{", module)
    module = re.sub(r" loc\(.*$", "", module)
    sizes: dict[str, int] = {}
    known: dict[str, int | None] = {}
    for start, line in enumerate(lines):
        match = _DEFINED.match(line)
        if match is None:
            continue
        operation = _operation(lines, start)
        if operation is None or not _ALLOCATED.search(operation):
            continue
        if stated := _STATED.search(operation):
            sizes[match[1]] = int(stated[1])
            continue
        body = _isolated(operation)
        if body is None:
            continue
        if body not in known:
            known[body] = _size("\n".join([*header, module, body, "}"]), run_passes)
        size = known[body]
        if size is not None:
            sizes[match[1]] = size
    return sizes


def _operation(lines: list[str], start: int) -> str | None:
    """Return an operation's text: one line, or for one with a region all lines to the brace that ends it."""
    line = lines[start]
    if not line.rstrip().endswith("({"):
        return line
    indent = len(line) - len(line.lstrip())
    for end in range(start + 1, len(lines)):
        if lines[end].startswith(" " * indent + "})"):
            return "\n".join(lines[start : end + 1])
    return None


def _isolated(operation: str) -> str | None:
    """Return a function that holds the operation alone, its operands as parameters, or None."""
    text = re.sub(r" ?\{allocation\.offset = \d+ : i32\}", "", operation)
    text = re.sub(r"allocation\.offset = \d+ : i32(, )?", "", text)
    text = re.sub(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "", text)
    first, last = text.splitlines()[0], text.splitlines()[-1]
    types = _TYPE_LIST.search(last)
    head = first.split(" = ", 1)[1].split(" : ")[0]
    operands = re.findall(r"%[\w$.#-]+", head)
    if types is None:
        return None
    operand_types = _split_types(types["types"])
    if len(operand_types) != len(operands):
        return None
    names = {old: f"%arg{i}" for i, old in enumerate(dict.fromkeys(operands))}
    by_name = dict(zip(operands, operand_types, strict=True))
    rest = text.split(" = ", 1)[1]
    for old, new in names.items():
        rest = re.sub(re.escape(old) + r"(?![\w$.#-])", new, rest)
    parameters = ", ".join(f"{new}: {by_name[old]}" for old, new in names.items())
    results = first.split(" = ")[0].strip()
    return f"tt.func public @probe({parameters}) {{\n{results} = {rest}\ntt.return\n}}"


def _split_types(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "<[({":
            depth += 1
        elif c in ">])}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in [*parts, text[start:].strip()] if p]


def _size(module: str, run_passes: Callable[[str], str]) -> int | None:
    try:
        match = _SHARED.search(run_passes(module))
    except Exception:
        return None
    return int(match[1]) if match else None
