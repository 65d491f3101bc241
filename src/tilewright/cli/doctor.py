"""`tilewright doctor`: what is installed, what will not work, and how to mend it."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, dataclass, replace
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Literal

import typer


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found, whether that is good, and what to do if not."""

    name: str
    status: Literal["ok", "missing", "bad"]
    found: str
    advice: str = ""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what is installed, which Triton, tools and GPUs there are, what will not work and how to mend it.

    Exits with 1 if something that the core needs is bad or missing.
    """
    checks = [
        _platform(),
        _python(),
        _triton(),
        *_tools(),
        _package("numpy", "", core=True),
        _compile(),
    ]
    optional = [
        _package(
            "torch", "needed for capture, kernels and measuring; explain does without: pip install torch"
        ),
        _package("ml_dtypes", "needed by tilewright.interpret for bf16: pip install ml_dtypes"),
        _gpu(),
        _cache(),
    ]
    checks, optional = _good_without_advice(checks), _good_without_advice(optional)
    failed = any(c.status != "ok" for c in checks)
    if as_json:
        print(
            json.dumps(
                {
                    "schema": "tilewright.doctor/1",
                    "ok": not failed,
                    "checks": [asdict(c) for c in checks + optional],
                }
            )
        )
    else:
        for check in checks + optional:
            needed = check in checks
            mark = {"ok": "ok", "missing": "MISSING" if needed else "absent", "bad": "BAD"}[check.status]
            print(f"{check.name:<16}{mark:<9}{check.found}")
            if check.advice:
                print(f"{'':<25}{check.advice}")
        print("\nexplain works here" if not failed else "\nexplain does not work here: see above")
    if failed:
        raise typer.Exit(1)


def _good_without_advice(checks: list[Check]) -> list[Check]:
    return [replace(c, advice="") if c.status == "ok" else c for c in checks]


def _platform() -> Check:
    found = f"{platform.system()} {platform.machine()}"
    if platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64"):
        return Check("platform", "ok", found)
    return Check(
        "platform", "bad", found, "Triton's wheels are for Linux x86-64 and arm64: use WSL or the Dockerfile"
    )


def _python() -> Check:
    found = f"{platform.python_version()} at {sys.executable}"
    return Check(
        "python", "ok" if sys.version_info >= (3, 10) else "bad", found, "Python 3.10 or newer is needed"
    )


def _triton() -> Check:
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return Check("triton", "missing", "not installed", "pip install 'triton>=3.6,<3.10'")
    numbers = tuple(int(n) for n in version.split(".")[:2])
    if not (3, 6) <= numbers < (3, 10):
        return Check(
            "triton", "bad", version, "versions 3.6 to 3.9 are supported: pip install 'triton>=3.6,<3.10'"
        )
    pointers = "" if numbers < (3, 8) else " (no block pointers: the flagship's v0 to v5 need 3.6 or 3.7)"
    return Check("triton", "ok", version + pointers)


def _tools() -> list[Check]:
    spec = util.find_spec("triton")
    root = Path(spec.origin).parent if spec and spec.origin else None
    checks = []
    for tool in ("ptxas", "nvdisasm"):
        file = root / "backends" / "nvidia" / "bin" / tool if root else None
        good = file is not None and os.access(file, os.X_OK)
        advice = "it ships in Triton's wheel: reinstall triton from PyPI"
        checks.append(
            Check(tool, "ok" if good else "missing", str(file) if good else "not in Triton's wheel", advice)
        )
    return checks


def _package(name: str, advice: str, core: bool = False) -> Check:
    try:
        return Check(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check(name, "missing", "not installed", advice or f"pip install {name}")


_PROBE = """
import triton
import triton.language as tl

@triton.jit
def probe(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)
"""


def _compile() -> Check:
    """Compile a tiny kernel for sm_80 in a worker: the whole path that explain takes."""
    import tempfile

    from tilewright.compile import Compiled, compile_launch
    from tilewright.gpus import load
    from tilewright.launch import Tensor, find_kernel, make_launch

    if util.find_spec("triton") is None:
        return Check("compile", "missing", "not tried", "install triton first")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "probe.py"
        file.write_text(_PROBE)
        launch = make_launch(
            find_kernel(f"{file}:probe"), {"x_ptr": Tensor.of("fp32", (128,)), "BLOCK": 128}, (1,)
        )
        result = compile_launch(launch, load("a100-80").target, cache_folder=None, limit_seconds=60)
    if isinstance(result, Compiled):
        return Check("compile", "ok", f"a test kernel for sm_80 in {result.seconds:.2f} s")
    return Check(
        "compile", "bad", result.message, "run with TILEWRIGHT_DEBUG=1 to see the compiler's own output"
    )


def _cache() -> Check:
    from tilewright.compile import cache_dir

    folder = cache_dir()
    existing = next((p for p in [folder, *folder.parents] if p.exists()), None)
    good = existing is not None and existing.is_dir() and os.access(existing, os.W_OK)
    advice = "cannot be written, so every explain compiles afresh: set TILEWRIGHT_CACHE_DIR"
    return Check("cache", "ok" if good else "bad", str(folder), advice)


def _gpu() -> Check:
    """Look for a GPU's device files: enough to say whether there is one, without loading a driver."""
    nvidia = sorted(Path("/dev").glob("nvidia[0-9]*"))
    if nvidia:
        return Check("GPU", "ok", f"{len(nvidia)} NVIDIA")
    if Path("/dev/kfd").exists():
        return Check("GPU", "ok", "AMD (/dev/kfd)")
    return Check("GPU", "missing", "none", "explain does without; measuring needs one")
