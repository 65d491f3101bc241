"""The compiler's exceptions in the words of a Failure, with the place in the user's source."""

from __future__ import annotations

import linecache
import re
import sys
from types import ModuleType
from typing import Any

from tilewright.compile.loading import KernelImportError, jit_function
from tilewright.launch import short_path


def failure_of(error: Exception) -> dict[str, Any]:
    """Put an exception of the compile into the words of a Failure."""
    if isinstance(error, KernelImportError):
        return {"kind": "import", "message": str(error)}
    if type(error).__name__ == "OutOfResources":
        return {
            "kind": "out_of_resources",
            "message": str(error),
            "required": getattr(error, "required", None),
            "limit": getattr(error, "limit", None),
            "resource": getattr(error, "name", None),
        }
    located = _located_errors(error)
    message = str(error)
    if located:
        # Triton gives the cause as its repr: NameError('x is not defined').
        message = getattr(located[-1], "error_message", None) or message
        message = re.sub(r"""^(\w+)\((['"])(.*)\2\)$""", r"\1: \3", message, flags=re.DOTALL)
    message = f"{type(error).__name__}: {message.strip()}" if message.strip() else type(error).__name__
    return {"kind": "error", "message": message, "place": _place(located)}


def _located_errors(error: BaseException | None) -> list[Any]:
    """Return the errors that name a place in a kernel's source, from the kernel inwards to the helper at fault."""
    located = []
    while error is not None:
        if hasattr(getattr(error, "node", None), "lineno"):
            located.append(error)
        error = error.__cause__
    return located


def _place(located: list[Any]) -> str | None:
    """Return `file:line: source` of the innermost error outside Triton's own library, or None."""
    for error in reversed(located):
        function = _function_with_source(error.src)
        if function is not None:
            file = function.fn.__code__.co_filename
            # Triton counts from the `def`, which stands below the decorators.
            above = next(i for i, line in enumerate(function.raw_src) if line.lstrip().startswith("def "))
            line = function.starting_line_number + above + error.node.lineno - 1
            return f"{short_path(file)}:{line}: {linecache.getline(file, line).strip()}"
    return None


def _function_with_source(source: str | None) -> Any:
    """Return the user's JITFunction whose text is `source`."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "triton" and isinstance(module, ModuleType):
            for value in list(vars(module).values()):
                # Only Triton's own objects are looked into: others may do anything when asked for an attribute.
                ours = type(value).__module__.startswith("triton.")
                function = jit_function(value) if ours else None
                if function is not None and function.src == source:
                    return function
    return None
