"""`KernelSource`: a kernel as its source file tells it, read without running the file or importing Triton."""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.errors import KernelError, did_you_mean

UNKNOWN = object()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel; `default` is UNKNOWN where the source does not state a plain value."""

    name: str
    is_constexpr: bool
    has_default: bool = False
    default: Any = None

    @property
    def default_is_known(self) -> bool:
        """Whether the default is a literal in the source."""
        return self.has_default and self.default is not UNKNOWN


@dataclass(frozen=True)
class KernelSource:
    """Where a kernel stands (`path`, `name`, `line`), what parameters it takes, and whether it is autotuned."""

    path: Path
    name: str
    line: int
    parameters: tuple[Parameter, ...]
    is_autotuned: bool = False

    def signature(self) -> str:
        """Return the parameters as one would write them, constexprs marked."""
        return ", ".join(f"{p.name}: constexpr" if p.is_constexpr else p.name for p in self.parameters)

    @property
    def place(self) -> str:
        """`file:line`, relative to the working directory where that is shorter."""
        return f"{short_path(self.path)}:{self.line}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description (part of `tilewright.profile/1`)."""
        return {"name": self.name, "file": short_path(self.path), "line": self.line}


def short_path(path: Path | str) -> str:
    """Return `path` relative to the working directory if it lies below it, else as it is."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def find_kernel(reference: str, base: Path | None = None) -> KernelSource:
    """Find `file.py:kernel` or `package.module:kernel`; raise KernelError when it is not there.

    A relative file is looked for from `base` (default: the working directory). Modules are located, never
    imported.
    """
    where, sep, name = reference.rpartition(":")
    if not sep or not name.isidentifier():
        raise KernelError(f"expected FILE.py:KERNEL or MODULE:KERNEL, found {reference!r}")
    if where.endswith(".py") or "/" in where:
        path = (base or Path.cwd()) / Path(where).expanduser()
    else:
        path = _module_file(where)
    return _read(path.resolve(), name)


def _module_file(dotted: str) -> Path:
    search: list[str] | None = [str(Path.cwd()), *sys.path]
    origin = None
    for part in dotted.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, search)
        if spec is None:
            raise KernelError(f"no module {dotted!r} here: {part!r} was not found. Is it installed?")
        origin, search = spec.origin, list(spec.submodule_search_locations or [])
    if not origin or not origin.endswith(".py"):
        raise KernelError(f"module {dotted!r} has no Python source file")
    return Path(origin)


def _read(path: Path, name: str) -> KernelSource:
    functions = _functions(path)
    node = functions.get(name)
    if node is None:
        kernels = [n for n, f in functions.items() if _looks_like_kernel(f)] or list(functions)
        listed = ", ".join(kernels) if kernels else "no functions at all"
        raise KernelError(
            f"{short_path(path)} has no kernel {name!r}{did_you_mean(name, kernels)}; it has: {listed}"
        )
    if not _looks_like_kernel(node):
        raise KernelError(
            f"{short_path(path)}:{node.lineno} {name} is a plain function: "
            "expected one that is decorated with @triton.jit or @gluon.jit"
        )
    autotuned = any("autotune" in ast.unparse(d) for d in node.decorator_list)
    return KernelSource(path, name, node.lineno, _parameters(node), autotuned)


@lru_cache(maxsize=64)
def _parse(path: Path, _mtime_ns: int) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as e:
        raise KernelError(f"{short_path(path)}:{e.lineno}: not valid Python: {e.msg}") from e
    except (OSError, UnicodeDecodeError) as e:
        raise KernelError(f"cannot read {short_path(path)}: {e}") from e


def functions_of(path: Path | str) -> list[tuple[int, int]]:
    """Return (first line, last line) of every function of a source file; nothing where it cannot be read."""
    path = Path(path)
    try:
        return [(f.lineno, f.end_lineno or f.lineno) for f in _functions(path).values()]
    except KernelError:
        return []


def kernels_of(path: Path | str) -> list[str]:
    """Return the names of a source file's kernels; nothing where it cannot be read."""
    try:
        return [name for name, f in _functions(Path(path)).items() if _looks_like_kernel(f)]
    except KernelError:
        return []


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    if not path.is_file():
        raise KernelError(f"no such file: {short_path(path)}")
    tree = _parse(path, path.stat().st_mtime_ns)
    # A kernel may be defined under `if` or `try` at the top level (say, one per Triton version).
    found: dict[str, ast.FunctionDef] = {}
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With)):
            todo.extend(ast.iter_child_nodes(node))
    return found


def _looks_like_kernel(node: ast.FunctionDef) -> bool:
    return bool(node.decorator_list)


def _parameters(node: ast.FunctionDef) -> tuple[Parameter, ...]:
    a = node.args
    names = [*a.posonlyargs, *a.args, *a.kwonlyargs]
    positional_defaults: list[ast.expr | None] = [None] * (len(a.posonlyargs) + len(a.args) - len(a.defaults))
    defaults = [*positional_defaults, *a.defaults, *a.kw_defaults]
    return tuple(
        Parameter(arg.arg, _is_constexpr(arg), default is not None, _literal(default))
        for arg, default in zip(names, defaults, strict=True)
    )


def _is_constexpr(arg: ast.arg) -> bool:
    return arg.annotation is not None and "constexpr" in ast.unparse(arg.annotation)


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return UNKNOWN
