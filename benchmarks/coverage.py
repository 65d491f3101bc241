"""Counts every configuration of the flagship's published sweep, and says which could not be counted and why.

    python benchmarks/coverage.py --version v4 --gpu rtx-4070-super --gpu h200 --out results/coverage.json.gz

565 configurations (query tile, key tile, warps, stages) with and without causal masking, N = 4096, D = 64, bf16:
about an hour of 16 cores for a GPU, so --every and --first take a part of them. What --out holds already is kept,
except where it is counted again. Needs Triton 3.6 or 3.7 and no GPU. Exit code 1 if a variant that compiled has no
exact count.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.compile import Compiled, Compiler  # noqa: E402
from tilewright.gpus import load  # noqa: E402
from tilewright.launch import Launch, load_case  # noqa: E402

CASE = ROOT / "cases/flash_attention/case.py"
TILES = (16, 32, 64, 128, 256)
WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4, 5)
KEY = ("version", "gpu", "Q_TILE_SIZE", "K_TILE_SIZE", "num_warps", "num_stages", "causal")


def configurations(head_dim: int = 64) -> list[dict[str, int]]:
    """The published space: those whose accumulators alone need at most 512 fp32 registers per thread."""
    return [
        {"Q_TILE_SIZE": q, "K_TILE_SIZE": k, "num_warps": w, "num_stages": s}
        for q, k, w, s in itertools.product(TILES, TILES, WARPS, STAGES)
        if q * head_dim / (32 * w) <= 512
    ]


def count_one(job: tuple[Compiled, Launch]) -> dict[str, Any]:
    """Count one launch, memory traffic too; in a process of its own."""
    from tilewright.sass.count import count

    found = count(*job)
    traffic = found.traffic
    return {
        "instructions": found.instructions,
        "tensor_ops": found.total_tensor_ops,
        "l2_to_sm_bytes": traffic.l2_to_sm_bytes if traffic else None,
        "l2_exact": traffic.l2_exact if traffic else None,
        "seconds": round(found.seconds, 3),
        "unknown": [f"{u.what}: {u.reason} at {u.instruction}" for u in found.unknown],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="append", help="version of the flagship (default: v4)")
    parser.add_argument("--gpu", action="append", help="name of a GPU (default: rtx-4070-super, h200)")
    parser.add_argument("--every", type=int, default=1, help="take every n-th configuration only")
    parser.add_argument("--first", type=int, default=0, help="where --every starts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one compile may take")
    parser.add_argument("--out", type=Path, help="where to write every row as JSON")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    missing = 0
    for version, name in itertools.product(
        options.version or ["v4"], options.gpu or ["rtx-4070-super", "h200"]
    ):
        found = cover(version, name, options)
        missing += report(version, name, found)
        rows += found
    if options.out:
        add_to(options.out, rows)
    sys.exit(1 if missing else 0)


def add_to(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows into a file of rows, in place of older ones of the same variants."""
    before = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else []
    every = {tuple(row[k] for k in KEY): row for row in [*before, *rows]}
    lines = ",\n".join(json.dumps(every[key]) for key in sorted(every))
    part = path.with_suffix(".part")
    part.write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))
    part.replace(path)


def cover(version: str, name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Compile and count one version for one GPU."""
    case, gpu = load_case(f"{CASE}:{version}"), load(name)
    settings = [
        {**config, "causal": causal}
        for config, causal in itertools.product(
            configurations()[options.first :: options.every], (False, True)
        )
    ]
    launches = [case.launch(s) for s in settings]
    started = time.time()
    with Compiler(workers=options.jobs, limit_seconds=options.limit, cache_folder=None) as compiler:
        results = compiler.compile([(launch, gpu.target) for launch in launches])
    compiled = time.time()
    jobs = [(r, launch) for r, launch in zip(results, launches, strict=True) if isinstance(r, Compiled)]
    with ProcessPoolExecutor(options.jobs) as pool:
        counted = iter(list(pool.map(count_one, jobs, chunksize=4)))
    print(
        f"{version} {name}: compiled in {compiled - started:.0f} s, counted in {time.time() - compiled:.0f} s"
    )
    return [
        {
            "version": version,
            "gpu": name,
            **s,
            **(next(counted) if isinstance(r, Compiled) else {"failure": r.kind, "message": r.message[:200]}),
        }
        for s, r in zip(settings, results, strict=True)
    ]


def report(version: str, name: str, rows: list[dict[str, Any]]) -> int:
    """Print what was counted; return the number of compiled variants without an exact count."""
    failed = Counter(row["failure"] for row in rows if "failure" in row)
    compiled = [row for row in rows if "failure" not in row]
    unknown = [row for row in compiled if row["instructions"] is None]
    partly = [row for row in compiled if row["instructions"] is not None and _missing(row)]
    slowest = max((row["seconds"] for row in compiled), default=0.0)
    print(f"  {len(rows)} variants, {len(compiled)} compiled, not compiled: {dict(failed)}")
    print(
        f"  instructions unknown: {len(unknown)}; something else unknown: {len(partly)}; slowest {slowest:.2f} s"
    )
    for reason, number in Counter(u for row in unknown + partly for u in row["unknown"][:1]).most_common(12):
        print(f"    {number:4d}  {reason}")
    return len(unknown) + len(partly)


def _missing(row: dict[str, Any]) -> bool:
    """Whether a figure that has to be exact is not; which lanes store a spilled register may depend on data."""
    return row["tensor_ops"] is None or row["l2_to_sm_bytes"] is None


if __name__ == "__main__":
    main()
