"""Runs third-party packages under capture, compiles and counts every launch, and writes what came of it.

    python benchmarks/compatibility/run.py                    every package of packages.toml
    python benchmarks/compatibility/run.py liger-kernel --gpu h200
    python benchmarks/compatibility/run.py --document         only write docs/compatibility.md again

Packages are installed without their dependencies into .packages/ (git-ignored), from PyPI. Needs Triton and torch,
no GPU. Writes results/compatibility/PACKAGE.json and docs/compatibility.md. Exit code 1 where a program launched
nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

from document import write_document  # noqa: E402

from tilewright.compile import Compiled, Compiler  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.gpus import load  # noqa: E402
from tilewright.launch import Capture, Launch  # noqa: E402

PACKAGES = ROOT / ".packages"
RESULTS = ROOT / "results/compatibility"
GPUS = ("h200", "rtx-4090")


def packages() -> dict[str, dict[str, Any]]:
    """Return the packages by name, as the file lists them."""
    return tomllib.loads((HERE / "packages.toml").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", nargs="*", help="names in packages.toml (default: all)")
    parser.add_argument("--gpu", action="append", help=f"GPUs that stand in (default: {', '.join(GPUS)})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one compile may take")
    parser.add_argument("--document", action="store_true", help="only write the page from the results")
    options = parser.parse_args()
    every = packages()
    unknown = set(options.package) - set(every)
    if unknown:
        parser.error(f"not in packages.toml: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    empty = False
    if not options.document:
        for name in options.package or every:
            row = run_package(name, every[name], options.gpu or GPUS, options)
            RESULTS.mkdir(parents=True, exist_ok=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n")
            empty |= not all(g["variants"] for g in row["gpus"].values())
    write_document(ROOT / "docs/compatibility.md", RESULTS, list(every))
    sys.exit(1 if empty else 0)


def install(name: str, about: dict[str, Any]) -> Path:
    """Put a package into a folder of its own; return the folder."""
    folder = PACKAGES / name
    wanted = json.dumps([*about["install"], *about.get("needs", ())])
    mark = folder / ".installed"
    if not mark.exists() or mark.read_text() != wanted:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--upgrade",
            "--target",
            str(folder),
        ]
        subprocess.run([*command, *json.loads(wanted)], check=True)
        mark.write_text(wanted)
    return folder


def kernels_shipped(folder: Path) -> list[str]:
    """Return `file:name` of each jit function below a folder that no other jit function of it calls."""
    jitted: dict[str, str] = {}
    called: set[str] = set()
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(_is_jit(d) for d in node.decorator_list):
                jitted[f"{file.relative_to(folder)}:{node.name}"] = node.name
                names = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
                called |= {
                    f.id if isinstance(f, ast.Name) else f.attr
                    for f in names
                    if hasattr(f, "id") or hasattr(f, "attr")
                }
    return [place for place, name in jitted.items() if name not in called]


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target).rpartition(".")[2] == "jit" and "torch" not in ast.unparse(target)


def capture(programs: list[str], folder: Path, gpu: str) -> list[Capture]:
    """Run the programs with the package on the path."""
    from tilewright.capturing import capture_program

    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT / "src")])
    return [capture_program([str(HERE / "programs" / p)], gpu) for p in programs]


def run_package(name: str, about: dict[str, Any], gpus: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Capture, compile and count one package on each GPU; return what came of it."""
    folder = install(name, about)
    shipped = kernels_shipped(folder / about["module"])
    row: dict[str, Any] = {
        "package": name,
        "install": about["install"],
        "kernels_shipped": len(shipped),
        "gpus": {},
    }
    for gpu in gpus:
        started = time.time()
        found = capture(about["programs"], folder, gpu)
        caught = time.time()
        rows = count_all(found, gpu, options)
        row |= {"triton": found[0].triton_version, "torch": found[0].torch_version}
        row["gpus"][gpu] = {
            "kernels": sorted({_place(c.launch, folder) for x in found for c in x.launches}),
            "launches": sum(c.count for x in found for c in x.launches),
            "variants": rows,
            "notes": [note for x in found for note in x.notes_in_words()],
            "stopped": {p: x.stopped for p, x in zip(about["programs"], found, strict=True) if x.stopped},
        }
        exact = sum(v["exact"] for v in rows)
        print(
            f"{name} on {gpu}: {len(row['gpus'][gpu]['kernels'])} of {len(shipped)} kernels, {len(rows)} variants, "
            f"{exact} counted exactly; captured in {caught - started:.0f} s, "
            f"compiled and counted in {time.time() - caught:.0f} s"
        )
        for why, times in Counter(v["why"] for v in rows if v["why"]).most_common(8):
            print(f"    {times:4}  {why[:150]}")
        for program, why in row["gpus"][gpu]["stopped"].items():
            print(f"    {program} ended early: {why}")
    return row


def _place(launch: Launch, folder: Path) -> str:
    path = launch.kernel.path
    file = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
    return f"{file}:{launch.kernel.name}"


def count_all(captures: list[Capture], gpu: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Compile and count every different launch, the configurations that autotuners tried too."""
    labelled = [pair for x in captures for pair in x.labelled()]
    jobs = [c.launch for _, c in labelled]
    with Compiler(workers=options.jobs, limit_seconds=options.limit, cache_folder=None) as compiler:
        results = compiler.compile([(launch, load(gpu).target) for launch in jobs])
    with ProcessPoolExecutor(options.jobs) as pool:
        counted = list(pool.map(count_one, zip(results, jobs, strict=True), chunksize=4))
    return [
        {"label": label, "kernel": c.name, "hash": c.launch.ir.compile_hash if c.launch.ir else None, **found}
        for (label, c), found in zip(labelled, counted, strict=True)
    ]


def count_one(job: tuple[Any, Launch]) -> dict[str, Any]:
    """Count one launch; say why where a figure is not exact. In a process of its own."""
    from tilewright.sass.count import count

    result, launch = job
    if not isinstance(result, Compiled):
        return {
            "compiled": False,
            "exact": False,
            "traffic_exact": False,
            "why": f"{result.kind}: {result.message}",
        }
    try:
        found = count(result, launch)
    except TilewrightError as e:
        return {"compiled": True, "exact": False, "traffic_exact": False, "why": str(e)}
    traffic = found.traffic
    why = "; ".join(f"{u.what}: {u.reason}" for u in found.unknown)
    return {
        "compiled": True,
        "exact": found.instructions is not None,
        "traffic_exact": bool(traffic and traffic.l2_exact),
        "instructions": found.instructions,
        "why": why,
    }


if __name__ == "__main__":
    main()
