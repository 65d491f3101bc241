"""Loads a kernel's file inside the worker, and knows which files its content came from."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from tilewright.compile import standins


class KernelImportError(Exception):
    """The kernel's file does not load, or does not hold the kernel, or takes other arguments."""


class Loaded(NamedTuple):
    """A kernel's module, with the content of every file that it was made from."""

    module: ModuleType
    files: dict[str, str]
    notes: tuple[str, ...]


# By target too: a file may choose its configurations by the driver's target.
_loaded: dict[tuple[Path, GPUTarget], Loaded] = {}


def load_kernel(path: Path, name: str, target: GPUTarget) -> tuple[Any, Loaded]:
    """Import the kernel's file (as part of its package if it has one) and return its JITFunction."""
    loaded = _loaded.get((path, target))
    if loaded is None or loaded.files != _hashes(loaded.files):
        _forget_user_modules()
        before = _hashes([str(path)])
        module, notes = _import(path, target)
        files = {**_hashes(_dependencies(module, path)), **before}
        loaded = _loaded[path, target] = Loaded(module, files, notes)
    kernel = jit_function(getattr(loaded.module, name, None))
    if kernel is None:
        raise KernelImportError(f"{name} in {path} is not a Triton kernel (a function under @triton.jit)")
    return kernel, loaded


def jit_function(value: Any) -> Any:
    """Return the function that is compiled: @triton.autotune, @triton.heuristics and others may wrap it."""
    while value is not None and not isinstance(value, JITFunction):
        value = getattr(value, "fn", None)
    return value


def _hashes(files: Iterable[str]) -> dict[str, str]:
    return {f: hashlib.sha256(Path(f).read_bytes()).hexdigest() for f in files if Path(f).is_file()}


def _import(path: Path, target: GPUTarget) -> tuple[ModuleType, tuple[str, ...]]:
    """Import a file with torch and the driver stood in for; return the module and what was stood in, in words."""
    linecache.checkcache()
    root, package = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        package.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    triton.runtime.driver.set_active(standins.TargetDriver(target))
    stood_in = standins.stand_in_for_torch()
    try:
        if len(package) > 1:
            module = importlib.import_module(".".join(p for p in package if p != "__init__"))
        else:
            module = _load_file(path)
        used = stood_in and "torch" in sys.modules
    except ModuleNotFoundError as e:
        raise KernelImportError(
            f"{path} imports {e.name}, which is not installed here. Install it, or move the kernel into a file "
            "that does not import it"
        ) from e
    except Exception as e:
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == str(path)]
        place = f"{path}:{lines[-1]}" if lines else str(path)
        raise KernelImportError(f"{place} could not be loaded: {type(e).__name__}: {e}") from e
    finally:
        sys.path.remove(str(root))
        standins.withdraw()
    return module, ("torch is not installed: it was stood in for while the file loaded",) if used else ()


def _load_file(path: Path) -> ModuleType:
    name = f"_tilewright_kernel_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_OWN = Path(__file__).resolve().parents[1]
_LIBRARY = [Path(sysconfig.get_paths()[k]).resolve() for k in ("stdlib", "platstdlib", "purelib", "platlib")]


def _user_file(module: ModuleType) -> Path | None:
    """Return the file of a module that is neither installed, nor of the standard library, nor this package."""
    file = getattr(module, "__file__", None)
    if not file:
        return None
    path = Path(file).resolve()
    outside = not any(path.is_relative_to(d) for d in [*_LIBRARY, _OWN])
    return path if outside and "site-packages" not in path.parts else None


def _forget_user_modules() -> None:
    """Forget what earlier kernels imported: two folders may each have a `kernel.py` or a `utils.py`."""
    _loaded.clear()
    for name, module in list(sys.modules.items()):
        if name != "__main__" and isinstance(module, ModuleType) and _user_file(module) is not None:
            del sys.modules[name]


def _dependencies(kernel_module: ModuleType, kernel_file: Path) -> list[str]:
    """Files whose content decides the result: the kernel's, its package's, and every user module loaded."""
    files = {kernel_file.resolve()}
    top = kernel_module.__name__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name == "__main__":
            continue
        path = _user_file(module)
        file = getattr(module, "__file__", None)
        if path is None and file and name.partition(".")[0] == top:
            path = Path(file).resolve()
        if path is not None and path.suffix == ".py":
            files.add(path)
    return sorted(map(str, files))
