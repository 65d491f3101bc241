"""A source file as lint sees it: its kernels with their parameters and assignments, and the places that launch them."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

EXPONENTIALS = ("exp", "exp2")
LANGUAGES = ("triton.language.math.", "triton.language.", "triton.experimental.gluon.language.")
HANDED_ON: Mapping[str, str] = {
    "triton": "triton",
    "tl": "triton.language",
    "gluon": "triton.experimental.gluon",
    "gl": "triton.experimental.gluon.language",
}
"""Names under which packages hand Triton on from a module of their own that does without it where it is absent."""
FOLDED: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: lambda a, b: a * 2.0**b,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class Kernel:
    """A function under @triton.jit or @gluon.jit, with its @triton.autotune where it has one."""

    node: ast.FunctionDef
    constexprs: frozenset[str]
    parameters: tuple[str, ...]
    autotune: ast.Call | None
    heuristics: tuple[ast.Call, ...]
    file: SourceFile = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.name

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the body."""
        return tuple(node for statement in self.node.body for node in ast.walk(statement))

    @cached_property
    def assigned(self) -> Mapping[str, tuple[ast.expr, ...]]:
        """What each name is set to, in order; what a loop or a tuple sets is an unknown, `ast.Name('?')`."""
        found: dict[str, list[ast.expr]] = {}
        unknown = ast.Name("?", ast.Load())
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node.value)
                    else:
                        for name in _names(target):
                            found.setdefault(name, []).append(unknown)
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.value is not None
            ):
                found.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                grown = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
                found.setdefault(node.target.id, []).append(ast.copy_location(grown, node))
            elif isinstance(node, ast.For):
                for name in _names(node.target):
                    found.setdefault(name, []).append(unknown)
        return {name: tuple(values) for name, values in found.items()}

    @cached_property
    def loops(self) -> tuple[ast.For | ast.While, ...]:
        """Its loops, those around others first; `tl.static_range` is unrolled and none."""
        found = [n for n in self.nodes if isinstance(n, (ast.For, ast.While))]
        return tuple(n for n in found if not (isinstance(n, ast.For) and self.tl(n.iter) == "static_range"))

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        """Every call of triton.language's, with its name."""
        named = ((self.tl(node), node) for node in self.nodes if isinstance(node, ast.Call))
        return tuple((name, node) for name, node in named if name)

    def named(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of these functions of triton.language."""
        return (node for name, node in self.calls if name in names)

    def tl(self, node: ast.AST | None) -> str:
        """Return which function of triton.language a call calls, or an empty string."""
        return self.file.tl(node)

    def value(self, name: str) -> ast.expr | None:
        """Return what a name is set to, if that happens once and it is no parameter."""
        values = self.assigned.get(name, ())
        return values[0] if len(values) == 1 and name not in self.parameters else None

    def resolve(self, node: ast.expr | None) -> ast.expr | None:
        """Follow a name to what it is set to, where that is one thing; other expressions stay as they are."""
        for _ in range(8):
            if not isinstance(node, ast.Name) or (value := self.value(node.id)) is None:
                break
            node = value
        return node

    def number(self, node: ast.expr | None) -> float | None:
        """Return the number that an expression is, names of the kernel and of the module followed."""
        node = self.resolve(node)
        if isinstance(node, ast.Name) and node.id not in self.parameters and node.id not in self.assigned:
            return self.file.constants.get(node.id)
        return number(node)

    def is_program_id(self, node: ast.expr | None) -> int | None:
        """Return the axis where an expression is `tl.program_id(axis)`, or cast from it; else None."""
        node = self.resolve(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            return self.is_program_id(node.func.value)
        if isinstance(node, ast.Call) and self.tl(node) == "program_id":
            axis = argument(node, 0, "axis")
            if isinstance(axis, ast.Constant) and isinstance(axis.value, int):
                return axis.value
        return None

    def parts(self, node: ast.expr | None) -> Iterator[ast.AST]:
        """Yield every node that an expression is made of, names followed to what they are set to once."""
        seen: set[str] = set()
        left: list[ast.AST] = [node] if node is not None else []
        while left:
            for part in ast.walk(left.pop()):
                yield part
                if isinstance(part, ast.Name) and part.id not in seen:
                    seen.add(part.id)
                    value = self.value(part.id)
                    if value is not None:
                        left.append(value)

    def is_size(self, name: str) -> bool:
        """Whether a constexpr is the size of something: it is the length of a range or of a tile."""
        sized = [a for call in self.named("arange") for a in call.args]
        sized += [a for call in self.named("zeros", "full") for a in call.args[:1]]
        sized += [a for call in self.named("make_block_ptr") if (a := argument(call, 4, "block_shape")) is not None]
        return any(isinstance(p, ast.Name) and p.id == name for given in sized for p in ast.walk(given))

    def pointer(self, node: ast.expr | None) -> str | None:
        """Return the parameter that a pointer expression is made from: the leftmost of sums, through names."""
        seen: set[str] = set()
        while node is not None:
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
                node = node.left
            elif isinstance(node, ast.Name):
                if node.id in self.parameters:
                    return node.id
                values = self.assigned.get(node.id, ())
                if node.id in seen or not values:
                    return None
                seen.add(node.id)
                node = values[0]
            elif isinstance(node, ast.Call) and self.tl(node) == "make_block_ptr":
                node = argument(node, 0, "base")
            else:
                return None
        return None


@dataclass(frozen=True)
class LaunchSite:
    """`kernel[grid](...)` in host code: the kernel if it is of this file, the grid's axes if they can be seen."""

    node: ast.Call
    name: str
    kernel: Kernel | None
    function: ast.FunctionDef | None
    tests: tuple[ast.expr, ...]
    """The conditions of the `if`s around it, inside its function."""

    @cached_property
    def grid(self) -> tuple[ast.expr, ...] | None:
        """The axes of the grid: of a tuple, or of what a lambda returns, through a name that is set once."""
        assert isinstance(self.node.func, ast.Subscript)
        node = self.resolve(self.node.func.slice)
        if isinstance(node, ast.Lambda):
            node = node.body
        return tuple(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else None

    def resolve(self, node: ast.expr) -> ast.expr:
        """Follow a name to what its function sets it to, where that happens once; others stay as they are."""
        if not isinstance(node, ast.Name) or self.function is None:
            return node
        if any(a.arg == node.id for a in _arguments(self.function)):
            return node
        values = [
            n.value
            for n in ast.walk(self.function)
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)
        ]
        set_otherwise = any(_sets_otherwise(n, node.id) for n in ast.walk(self.function))
        return values[0] if len(values) == 1 and not set_otherwise else node


class SourceFile:
    """One parsed file. Raises SyntaxError where it is not Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        # Python's lines: str.splitlines also breaks at form feeds and the like.
        self.text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
        self.lines = self.text.split("\n")
        with warnings.catch_warnings():
            # Of the linted file's own escapes and comparisons; newer Pythons print them.
            warnings.simplefilter("ignore")
            self.tree = ast.parse(self.text)
        self._modules: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        for node in ast.walk(self.tree):
            self._read_import(node)

    def letters(self, line: int, offset: int) -> int:
        """Return how many letters the first `offset` bytes of a line are: ast counts UTF-8."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    def _read_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "triton":
                    self._modules[name.asname or name.name.split(".")[0]] = (
                        name.name if name.asname else "triton"
                    )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "triton":
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                self._modules[name.asname or name.name] = whole
                self._functions[name.asname or name.name] = whole
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                if name.name in HANDED_ON:
                    self._modules.setdefault(name.asname or name.name, HANDED_ON[name.name])

    def whole_name(self, node: ast.AST | None) -> str:
        """Return an expression's dotted name with imports followed: `tl.load` is `triton.language.load`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        first = self._modules.get(node.id) or self._functions.get(node.id) or node.id
        return ".".join([first, *reversed(parts)])

    def tl(self, node: ast.AST | None) -> str:
        """Return which function of triton.language a call calls, or an empty string."""
        if not isinstance(node, ast.Call):
            return ""
        name = self.whole_name(node.func)
        for module in LANGUAGES:
            if name.startswith(module) and "." not in name.removeprefix(module):
                return name.removeprefix(module)
        return ""

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every function that Triton compiles."""
        found = []
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            names = [
                (self.whole_name(d.func if isinstance(d, ast.Call) else d), d) for d in node.decorator_list
            ]
            if not any(name in ("triton.jit", "triton.experimental.gluon.jit") for name, _ in names):
                continue
            calls = {name.rpartition(".")[2]: d for name, d in names if isinstance(d, ast.Call)}
            autotune = calls.get("autotune")
            found.append(
                Kernel(
                    node,
                    frozenset(a.arg for a in _arguments(node) if _is_constexpr(a.annotation)),
                    tuple(a.arg for a in _arguments(node)),
                    autotune,
                    tuple(d for name, d in names if isinstance(d, ast.Call) and name.endswith(".heuristics")),
                    self,
                )
            )
        return tuple(found)

    @cached_property
    def kernel_of(self) -> Mapping[str, Kernel]:
        """Kernels by name; of two with one name neither."""
        names = [k.name for k in self.kernels]
        return {k.name: k for k in self.kernels if names.count(k.name) == 1}

    @cached_property
    def constants(self) -> Mapping[str, float]:
        """Numbers under a name of the module that is set once, also as tl.constexpr(...)."""
        found: dict[str, list[float | None]] = {}
        for node in self.tree.body:
            target: ast.expr
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                target, value = node.target, node.value
            else:
                continue
            if self.tl(value) == "constexpr" and isinstance(value, ast.Call) and value.args:
                value = value.args[0]
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(number(value))
        return {name: values[0] for name, values in found.items() if len(values) == 1 and values[0] is not None}

    @cached_property
    def called_by_kernels(self) -> frozenset[str]:
        """Names that kernels call: their arguments may be constexprs of the caller."""
        return frozenset(
            node.func.id
            for kernel in self.kernels
            for node in kernel.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        )

    @cached_property
    def launches(self) -> tuple[LaunchSite, ...]:
        """Every `name[grid](...)` of a kernel of this file."""
        return tuple(self._launches(self.tree, None, ()))

    def _launches(
        self, node: ast.AST, function: ast.FunctionDef | None, tests: tuple[ast.expr, ...]
    ) -> Iterator[LaunchSite]:
        if isinstance(node, ast.FunctionDef):
            if any(k.node is node for k in self.kernels):
                return
            function, tests = node, ()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            name = node.func.value
            if isinstance(name, ast.Name) and name.id in self.kernel_of:
                yield LaunchSite(node, name.id, self.kernel_of[name.id], function, tests)
        for child in ast.iter_child_nodes(node):
            inside = (*tests, node.test) if isinstance(node, ast.If) and child is not node.test else tests
            yield from self._launches(child, function, inside)


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """Return an argument by its place or name; None where it is not given or hidden in a star."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if place < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: place + 1]):
        return call.args[place]
    return None


def number(node: ast.AST | None) -> float | None:
    """Return the number of a literal, also with a sign, as float("inf") or as 1 << 17; None for other expressions."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = number(node.operand)
        return None if value is None else -value if isinstance(node.op, ast.USub) else value
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    ):
        try:
            return float(node.value)
        except OverflowError:
            return None
    if isinstance(node, ast.BinOp) and type(node.op) in FOLDED:
        left = number(node.left)
        right = None if left is None else number(node.right)
        try:
            value = None if left is None or right is None else FOLDED[type(node.op)](left, right)
        except (ArithmeticError, ValueError):
            return None
        return value if isinstance(value, float) else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "float"
        and node.args
    ):
        text = node.args[0]
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            try:
                return float(text.value)
            except ValueError:
                return None
    return None


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two expressions are written alike."""
    return ast.dump(one) == ast.dump(other)


def _sets_otherwise(node: ast.AST, name: str) -> bool:
    """Whether a name is set by a `def` or a loop, grown by `+=`, or set with others."""
    if isinstance(node, ast.FunctionDef):
        return node.name == name
    if isinstance(node, (ast.AugAssign, ast.For)):
        return name in _names(node.target)
    if isinstance(node, ast.Assign):
        return any(not isinstance(t, ast.Name) and name in _names(t) for t in node.targets)
    return False


def _names(node: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _is_constexpr(annotation: ast.expr | None) -> bool:
    """Whether an annotation is `tl.constexpr`, by whatever name, or a text of it."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2] == "constexpr"
    return isinstance(annotation, (ast.Attribute, ast.Name)) and ast.unparse(annotation).endswith("constexpr")
