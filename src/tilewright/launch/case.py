"""`Case`: the small Python file in which a user says what to launch, and the reading of such files.

A case file defines `CASES`, a dict from variant to Case, or one `CASE`. It is named `path/to/case.py:variant`.
It needs no torch: types, shapes, strides and constexprs are enough. What torch is needed for (inputs, a
reference) stands in functions that are only called where there is a GPU.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.errors import CaseError, TilewrightError, did_you_mean
from tilewright.launch.kernel import find_kernel, short_path
from tilewright.launch.launch import Arg, Launch, Needed, Scalar, make_launch


@dataclass(frozen=True)
class Param:
    """A parameter of a case: its default, and what values are allowed.

    The type of the default is the type of the parameter (None: any whole number, or nothing).
    """

    default: Scalar
    doc: str = ""
    choices: tuple[Scalar, ...] = ()
    power_of_two: bool = False
    smallest: int | None = None

    def read(self, name: str, text: str) -> Scalar:
        """Read a value given as text, and check it; raise CaseError that says what was expected."""
        kind = int if self.default is None else type(self.default)
        value: Scalar
        try:
            if kind is bool:
                value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                    text.strip().lower()
                ]
            elif kind is int:
                value = int(text.replace("_", ""))
            elif kind is float:
                value = float(text)
            else:
                value = text.strip()
        except (KeyError, ValueError):
            expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
            raise CaseError(f"{name} must be {expected}, found {text!r}") from None
        return self.check(name, value)

    def check(self, name: str, value: Scalar) -> Scalar:
        """Return `value` if it is allowed, else raise CaseError."""
        if self.choices and value not in self.choices:
            listed = ", ".join(map(str, self.choices))
            raise CaseError(f"{name} must be one of {listed}; found {value}")
        if isinstance(value, int) and not isinstance(value, bool):
            if self.power_of_two and (value < 1 or value & (value - 1)):
                least = max(1, self.smallest or 1)
                examples = f"{least}, {2 * least}, {4 * least}, ..."
                raise CaseError(f"{name} must be a power of two ({examples}), found {value}")
            if self.smallest is not None and value < self.smallest:
                raise CaseError(f"{name} must be {self.smallest} or more, found {value}")
        return value


def launch_options(num_warps: int = 4, num_stages: int | None = None, num_ctas: int = 1) -> dict[str, Param]:
    """Return the options of every launch as parameters, with these defaults."""
    return {
        "num_warps": Param(num_warps, "warps per program", power_of_two=True),
        "num_stages": Param(num_stages, "pipeline stages", smallest=0),
        "num_ctas": Param(num_ctas, "programs per cluster", power_of_two=True),
    }


LAUNCH_OPTIONS = tuple(launch_options())


class Values:
    """The parameters of a case as attributes: `p.N`, `p.num_warps`."""

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Scalar] = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"the case has no parameter {name!r}; it has: {', '.join(values)}")

    def to_dict(self) -> dict[str, Scalar]:
        """Return the values by name."""
        return dict(self._values)


@dataclass(frozen=True)
class Case:
    """What to launch, and with torch also how to run and check it.

    kernel: `file.py:kernel` (relative to the case file) or `module:kernel`.
    args: from the parameters to every argument of the kernel (tensors as `Tensor.of(...)`).
    grid: from the parameters to the grid, one to three axes.
    params: the case's parameters; num_warps, num_stages and num_ctas are always parameters.
    check: from the parameters to a complaint in words, or None; for what single parameters cannot say.
    inputs, run, reference: for use with torch: make inputs, launch on them, and the plain answer.
    needed_operations, needed_bytes: what the algorithm needs at least, from the parameters.
    """

    kernel: str
    args: Callable[[Any], Mapping[str, Arg]]
    grid: Callable[[Any], Sequence[int]]
    params: Mapping[str, Param] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int | None = None
    num_ctas: int = 1
    options: Mapping[str, Scalar] = field(default_factory=dict)
    doc: str = ""
    check: Callable[[Any], str | None] | None = None
    inputs: Callable[..., Any] | None = None
    run: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    needed_operations: Callable[[Any], float | None] | None = None
    needed_bytes: Callable[[Any], float | None] | None = None

    def parameters(self) -> dict[str, Param]:
        """Return the case's parameters with the launch options among them."""
        own = {k: p if isinstance(p, Param) else Param(p) for k, p in self.params.items()}
        return {**own, **launch_options(self.num_warps, self.num_stages, self.num_ctas)}


@dataclass(frozen=True)
class CaseRef:
    """A case as it was found: file, variant, and the name to show."""

    path: Path
    variant: str
    case: Case

    @property
    def name(self) -> str:
        """The name by which the user can ask for it again."""
        return f"{short_path(self.path)}:{self.variant}" if self.variant else short_path(self.path)

    def launch(self, values: Mapping[str, Scalar]) -> Launch:
        """Return the launch for these parameter values (missing ones take their defaults)."""
        params = self.case.parameters()
        p = Values({k: values.get(k, q.default) for k, q in params.items()})
        try:
            if self.case.check and (complaint := self.case.check(p)):
                raise CaseError(complaint)
            args, grid = self.case.args(p), self.case.grid(p)
            needed = _needed(self.case, p)
            if not isinstance(grid, (tuple, list)):
                raise CaseError(
                    f"grid must give a tuple of one to three sizes, such as (32,), found {grid!r}"
                )
        except TilewrightError as e:
            raise type(e)(f"{self.name}: {e}") from None
        except Exception as e:
            raise CaseError(f"{self.name}: making the launch failed: {type(e).__name__}: {e}") from e
        return make_launch(
            find_kernel(self.case.kernel, self.path.parent),
            args,
            tuple(grid),
            num_warps=p.num_warps,
            num_stages=p.num_stages,
            num_ctas=p.num_ctas,
            options=self.case.options,
            case=self.name,
            parameters=p.to_dict(),
            needed=needed,
        )


def _needed(case: Case, p: Values) -> Needed | None:
    """Return what a case says that its algorithm needs; raise CaseError for what is no count."""
    if case.needed_operations is None and case.needed_bytes is None:
        return None
    found: list[int | None] = []
    for name, ask in (("needed_operations", case.needed_operations), ("needed_bytes", case.needed_bytes)):
        value = ask(p) if ask is not None else None
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            raise CaseError(f"{name} must give a number of 0 or more, or None, found {value!r}")
        found.append(None if value is None else round(value))
    return Needed(*found)


def load_case(reference: str) -> CaseRef:
    """Load `path/to/case.py:variant`; the variant may be left out where the file has only one."""
    file, sep, variant = reference.rpartition(":")
    if not sep:
        file, variant = reference, ""
    path = Path(file).expanduser()
    if not path.is_file():
        raise CaseError(f"no case file {file!r}: expected path/to/case.py:variant")
    cases = _cases_of(_import_file(path.resolve()), path)
    if not variant and len(cases) == 1:
        variant = next(iter(cases))
    if variant not in cases:
        wrong = f"no variant {variant!r}{did_you_mean(variant, cases)}" if variant else "which variant?"
        wrong += "" if wrong.endswith("?") else "."
        raise CaseError(f"{short_path(path)}: {wrong} It has: {', '.join(cases)}")
    return CaseRef(path.resolve(), variant, cases[variant])


def is_case_file(path: Path) -> bool:
    """Whether a Python file says that it defines cases (read, not run)."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.startswith(("CASES", "CASE ", "CASE=", "CASE:")) for line in text.splitlines())


def _cases_of(module: ModuleType, path: Path) -> dict[str, Case]:
    cases = getattr(module, "CASES", None)
    if cases is None and isinstance(getattr(module, "CASE", None), Case):
        cases = {"": module.CASE}
    if not isinstance(cases, Mapping) or not cases or not all(isinstance(c, Case) for c in cases.values()):
        raise CaseError(
            f"{short_path(path)} defines no cases: expected CASES = {{'variant': tilewright.Case(...)}} "
            "or CASE = tilewright.Case(...)"
        )
    return {str(k): c for k, c in cases.items()}


def _import_file(path: Path) -> ModuleType:
    name = f"_tilewright_case_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CaseError(f"{short_path(path)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except TilewrightError:
        raise
    except Exception as e:
        raise CaseError(f"{short_path(path)} could not be loaded: {type(e).__name__}: {e}") from e
    finally:
        sys.path.remove(str(path.parent))
    return module


def read_settings(params: Mapping[str, Param], settings: Sequence[str]) -> list[dict[str, Scalar]]:
    """Read `NAME=VALUE` and `NAME=V1,V2,...` into every combination of values, the first name slowest."""
    lists: dict[str, list[Scalar]] = {}
    for setting in settings:
        name, sep, text = setting.partition("=")
        name = name.strip()
        if not sep or not text.strip():
            raise CaseError(f"expected --set NAME=VALUE, found {setting!r}")
        param = params.get(name)
        if param is None:
            raise CaseError(
                f"no parameter {name!r}{did_you_mean(name, params)}; the parameters are: {', '.join(params)}"
            )
        if name in lists:
            raise CaseError(f"{name} is set twice; write --set {name}=V1,V2 to give it several values")
        lists[name] = [param.read(name, part) for part in text.split(",") if part.strip()]
    return list(_product(lists))


def _product(lists: Mapping[str, Sequence[Scalar]]) -> Iterator[dict[str, Scalar]]:
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values, strict=True))
