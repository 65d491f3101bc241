"""Reads GPUs from TOML files and refuses what it cannot believe: every figure needs a unit, a sign and a
source.

A catalog file is complete; a user's file may be complete too, or name a ``base`` and give only what
differs. The format is described in docs/gpus.md.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from tilewright.gpus import naming
from tilewright.gpus.gpu import Clocks, Compute, Gpu, GpuError, Limits, Memory, Target

CATALOG = Path(__file__).parent / "catalog"

_IDENTITY = ("name", "vendor", "chip", "arch")
_TABLES: dict[str, type[Any]] = {
    "target": Target,
    "compute": Compute,
    "limits": Limits,
    "memory": Memory,
    "clocks": Clocks,
}
TENSOR_KINDS = (
    "fp16_fp32acc",
    "fp16_fp16acc",
    "bf16_fp32acc",
    "tf32_fp32acc",
    "fp32_fp32acc",
    "fp8_fp32acc",
    "fp8_fp16acc",
    "int8_int32acc",
    "fp4_fp32acc",
    "fp64",
)
_KEYED_TABLES: dict[str, tuple[str, ...]] = {
    "tensor_ops_per_clock_per_sm": TENSOR_KINDS,
    "tensor_sync_ops_per_clock_per_sm": TENSOR_KINDS,
    "published_tflops": (*TENSOR_KINDS, "fp32", "fp64_vector"),
}
_TOP_LEVEL = (*_IDENTITY, "base", "notes", *_TABLES, *_KEYED_TABLES, "sources", "unknown")
_MAY_BE_ZERO = {"limits.reserved_shared_bytes_per_block"}
_EXPECTED = {"float": "a number", "int": "a whole number", "int | str": "a whole number or text"}
_BACKENDS = {"nvidia": "cuda", "amd": "hip"}


@dataclass
class _Draft:
    """A file's figures and their sources, by full key such as ``"memory.l2_bytes"``."""

    figures: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    identity: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def load(name_or_path: str) -> Gpu:
    """The GPU that a slug, an alias, an architecture or a path ending in ``.toml`` means.

    An architecture such as ``"sm_89"`` gives the GPU that stands for it (docs/gpus.md lists which).
    Raises GpuError: unknown GPU, unreadable file, or a file that breaks the format.
    """
    path = _find(str(name_or_path))
    return _finish(path, _draft(path, chain=()))


def names() -> list[str]:
    """The slugs of the catalog, sorted."""
    return sorted(path.stem for path in CATALOG.glob("*.toml"))


def catalog() -> list[Gpu]:
    """Every GPU of the catalog, in the order of ``names``."""
    return [load(name) for name in names()]


def _find(name: str, beside: Path | None = None) -> Path:
    """The file that a name means. A relative path in ``base`` is looked up beside the file that says it."""
    if name.lower().endswith(".toml"):
        return (beside.parent / name) if beside else Path(name)
    slug = naming.slug_of(name)
    if slug is None:
        aliases = (alias for group in naming.ALIASES.values() for alias in group)
        known = [*naming.ALIASES, *naming.REPRESENTATIVES, *aliases]
        raise GpuError(
            f"unknown GPU {name!r}{_closest(naming.normalise(name), known)} "
            "(`tilewright gpus` lists them all; a path must end in .toml)"
        )
    return CATALOG / f"{slug}.toml"


def _draft(path: Path, chain: tuple[Path, ...]) -> _Draft:
    """Figures of a file, over those of its base."""
    if path.resolve() in chain:
        raise GpuError(f"{path}: base leads back to the file itself")
    content = _parse(path)
    for key in content:
        if key not in _TOP_LEVEL:
            raise GpuError(f"{path}: unknown key {key!r}{_closest(key, _TOP_LEVEL)}")
    draft = _Draft()
    if "base" in content:
        base = _find(_text(path, "base", content["base"]), beside=path)
        draft = _draft(base, (*chain, path.resolve()))
        # A peak that was published for the base says nothing about what this file describes.
        draft.figures = {k: v for k, v in draft.figures.items() if not k.startswith("published_tflops.")}
    own = _own_figures(path, content)
    draft.figures.update(own)
    draft.sources.update(_sources(path, _table(path, content, "sources"), own))
    draft.unknown.update(_unknown(path, _table(path, content, "unknown")))
    draft.unknown = {key: why for key, why in draft.unknown.items() if key not in draft.figures}
    draft.identity.update({key: _text(path, key, content[key]) for key in _IDENTITY if key in content})
    draft.notes.extend(_strings(path, content, "notes"))
    return draft


def _parse(path: Path) -> dict[str, Any]:
    # By name, so that type checkers need neither's types: Python 3.10 has no tomllib.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
        return content
    except OSError as error:
        raise GpuError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise GpuError(f"{path}: is not UTF-8 text: {error}") from error
    except toml.TOMLDecodeError as error:
        raise GpuError(f"{path}: is not valid TOML: {error}") from error


def _own_figures(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Every figure that this file gives, checked one by one, by full key."""
    figures: dict[str, Any] = {}
    for table, cls in _TABLES.items():
        by_name = {f.name: f for f in fields(cls)}
        for key, value in _table(path, content, table).items():
            if key not in by_name:
                raise GpuError(f"{path}: unknown key {key!r} in [{table}]{_closest(key, by_name)}")
            figures[f"{table}.{key}"] = _checked(path, f"{table}.{key}", value, str(by_name[key].type))
    for table, kinds in _KEYED_TABLES.items():
        kind_of_number = "int" if table == "tensor_ops_per_clock_per_sm" else "float"
        for key, value in _table(path, content, table).items():
            if key not in kinds:
                raise GpuError(f"{path}: unknown key {key!r} in [{table}]{_closest(key, kinds)}")
            figures[f"{table}.{key}"] = _checked(path, f"{table}.{key}", value, kind_of_number)
    return figures


def _checked(path: Path, key: str, value: Any, annotation: str) -> Any:
    """``value`` if it has the type that the dataclass says, is finite and positive."""
    wanted = annotation.replace(" | None", "")
    if wanted == "str" or (wanted == "int | str" and isinstance(value, str)):
        return _text(path, key, value)
    allowed = (int, float) if wanted == "float" else (int,)
    # bool is an int in Python, and `sms = true` is a mistake.
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise GpuError(f"{path}: {key} must be {_EXPECTED[wanted]}, got {value!r}")
    if not 0 <= value < float("inf") or (value == 0 and key not in _MAY_BE_ZERO):
        raise GpuError(f"{path}: {key} must be greater than zero, got {value!r}")
    return float(value) if wanted == "float" else value


def _sources(path: Path, given: Mapping[str, Any], figures: Iterable[str]) -> dict[str, str]:
    """A source for each figure: its own entry, else that of its table."""
    figures = list(figures)
    known = {*figures, *(key.split(".")[0] for key in figures)}
    for key, text in given.items():
        _text(path, f"sources.{key}", text)
        if key not in known:
            raise GpuError(f"{path}: [sources] has {key!r}, but no figure is called so{_closest(key, known)}")
    sources: dict[str, str] = {}
    for key in figures:
        source = given.get(key, given.get(key.split(".")[0]))
        if source is None:
            table = key.split(".")[0]
            raise GpuError(
                f'{path}: no source for {key}: add "{key}", or "{table}" for all of it, to [sources]'
            )
        sources[key] = source
    return sources


def _unknown(path: Path, given: Mapping[str, Any]) -> dict[str, str]:
    possible = [
        f"{table}.{f.name}" for table, cls in _TABLES.items() for f in fields(cls) if not _required(f)
    ]
    possible += [f"{table}.{kind}" for table, kinds in _KEYED_TABLES.items() for kind in kinds]
    for key in given:
        if key not in possible:
            raise GpuError(f"{path}: [unknown] has {key!r}, no optional figure{_closest(key, possible)}")
    return {key: _text(path, f"unknown.{key}", why) for key, why in given.items()}


def _finish(path: Path, draft: _Draft) -> Gpu:
    """The whole: nothing required is missing, and the figures agree with each other."""
    for key in _IDENTITY:
        if key not in draft.identity:
            raise GpuError(f"{path}: missing {key!r}; name, vendor, chip and arch say which GPU this is")
    tables = {table: cls(**_members(path, draft, table, cls)) for table, cls in _TABLES.items()}
    keyed = {table: _with_prefix(draft.figures, table) for table in _KEYED_TABLES}
    parts: dict[str, Any] = {**draft.identity, **tables, **keyed}
    gpu = Gpu(
        slug=path.stem,
        aliases=naming.ALIASES.get(path.stem, ()) if path.parent == CATALOG else (),
        **parts,
        sources={key: source for key, source in draft.sources.items() if key in draft.figures},
        unknown=draft.unknown,
        notes=tuple(draft.notes),
    )
    problem = _inconsistency(gpu)
    if problem:
        raise GpuError(f"{path}: {problem}")
    return gpu


def _members(path: Path, draft: _Draft, table: str, cls: type[Any]) -> dict[str, Any]:
    given = _with_prefix(draft.figures, table)
    for f in fields(cls):
        if _required(f) and f.name not in given:
            raise GpuError(f"{path}: missing figure {table}.{f.name}")
    return given


def _inconsistency(gpu: Gpu) -> str | None:
    """The first figures that cannot all be true; None if there are none."""
    if gpu.vendor not in _BACKENDS:
        return f"vendor must be one of {', '.join(_BACKENDS)}, got {gpu.vendor!r}"
    if gpu.target.backend != _BACKENDS[gpu.vendor]:
        wanted = _BACKENDS[gpu.vendor]
        return f"target.backend of vendor {gpu.vendor} must be {wanted!r}, got {gpu.target.backend!r}"
    if gpu.arch != _arch_of(gpu.target):
        return f"arch is {gpu.arch!r}, but target.arch says {_arch_of(gpu.target)!r}"
    if "bf16_fp32acc" not in gpu.tensor_ops_per_clock_per_sm:
        return "missing figure tensor_ops_per_clock_per_sm.bf16_fp32acc"
    if extra := set(gpu.tensor_sync_ops_per_clock_per_sm) - set(gpu.tensor_ops_per_clock_per_sm):
        return f"tensor_sync_ops_per_clock_per_sm has {min(extra)!r}, which tensor_ops_per_clock_per_sm lacks"
    limits, threads = gpu.limits, gpu.target.warp_size
    if limits.max_warps_per_sm * threads != limits.max_threads_per_sm:
        return (
            f"limits.max_warps_per_sm ({limits.max_warps_per_sm}) x target.warp_size ({threads}) "
            f"is not limits.max_threads_per_sm ({limits.max_threads_per_sm})"
        )
    if limits.register_unit_per_warp % threads:
        unit = limits.register_unit_per_warp
        return f"limits.register_unit_per_warp ({unit}) is not a multiple of target.warp_size ({threads})"
    return _excess(gpu)


def _excess(gpu: Gpu) -> str | None:
    """The first figure that exceeds one that bounds it; None if there is none."""
    limits, memory, clocks = gpu.limits, gpu.memory, gpu.clocks
    shared_block = limits.max_shared_bytes_per_block + limits.reserved_shared_bytes_per_block
    one_warp_each = limits.max_registers_per_thread * gpu.target.warp_size * gpu.compute.subpartitions_per_sm
    bounds: tuple[tuple[str, float, str, float], ...] = (
        (
            "limits.max_shared_bytes_per_block with the reserved part",
            shared_block,
            "limits.shared_bytes_per_sm",
            limits.shared_bytes_per_sm,
        ),
        (
            "limits.shared_bytes_per_sm",
            limits.shared_bytes_per_sm,
            "memory.l1_plus_shared_bytes_per_sm",
            memory.l1_plus_shared_bytes_per_sm,
        ),
        (
            "limits.max_threads_per_block",
            limits.max_threads_per_block,
            "limits.max_threads_per_sm",
            limits.max_threads_per_sm,
        ),
        (
            "limits.max_registers_per_thread in one warp per subpartition",
            one_warp_each,
            "limits.registers_per_sm",
            limits.registers_per_sm,
        ),
        ("clocks.tensor_ghz", clocks.tensor_ghz or 0, "clocks.boost_ghz", clocks.boost_ghz),
    )
    for name, amount, bound_name, bound in bounds:
        if amount > bound:
            return f"{name} ({amount}) exceeds {bound_name} ({bound})"
    return None


def _arch_of(target: Target) -> str:
    return f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)


def _required(f: Field[Any]) -> bool:
    return f.default is MISSING


def _with_prefix(figures: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {key.split(".", 1)[1]: value for key, value in figures.items() if key.startswith(f"{table}.")}


def _table(path: Path, content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise GpuError(f"{path}: {key!r} must be a table, [{key}], got {value!r}")
    return value


def _text(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise GpuError(f"{path}: {key} must be text, got {value!r}")
    return value


def _strings(path: Path, content: Mapping[str, Any], key: str) -> list[str]:
    value = content.get(key, [])
    if not isinstance(value, list):
        raise GpuError(f"{path}: {key} must be a list of texts, got {value!r}")
    return [_text(path, key, item) for item in value]


def _closest(key: str, known: Iterable[str]) -> str:
    """``"; did you mean ...?"`` or nothing."""
    import difflib  # only ever needed to word an error

    found = difflib.get_close_matches(key, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(match) for match in found)}?" if found else ""
