"""What rules ask of the TTGIR: the parsed module, constants, and what a pointer is made from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tilewright.model import Profile
from tilewright.sass import same_file
from tilewright.ttgir import Module, Operation, parse

_CARRIES = ("tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "tt.reshape", "tt.addptr")
"""Operations whose first operand is the same pointer, or the same number in another shape."""


def module_of(p: Profile) -> Module | None:
    """Return the launch's TTGIR; None where it was not compiled."""
    text = p.compiled.asm.get("ttgir") if p.compiled else None
    return _parsed(text) if text else None


@lru_cache(maxsize=4)
def _parsed(text: str) -> Module:
    return parse(text)


def line_of(p: Profile, operation: Operation) -> int | None:
    """Return the line of the kernel's own file that an operation comes from."""
    own = str(p.launch.kernel.path)
    return next((f.line for f in operation.location.frames if same_file(f.file, own)), None)


def origin(module: Module, value: str) -> str:
    """Follow a value back through what only reshapes or offsets it: to an argument's or an operation's result."""
    while (made := module.defined_by.get(value.split("#")[0])) is not None and made.name in _CARRIES:
        value = made.operands[0]
    return value


def is_constant(module: Module, value: str) -> bool:
    """Whether a value is known to the compiler."""
    made = module.defined_by.get(origin(module, value))
    return made is not None and made.name == "arith.constant"


def made_from(module: Module, value: str) -> Iterator[Operation]:
    """Yield the operations that a value is computed by, back to arguments and constants, each once."""
    seen, left = set(), [value.split("#")[0]]
    while left:
        made = module.defined_by.get(left.pop())
        if made is None or made.index in seen:
            continue
        seen.add(made.index)
        yield made
        left += [operand.split("#")[0] for operand in made.operands]
