"""Wall time of the main command, from its start to its end: cold cache, warm cache, and --help; time of counting.

    python benchmarks/explain.py [--runs 9]

Each figure is the median of several whole processes; cold runs start with an empty cache folder. Nothing here
is asserted: a machine under load is slower.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASE = str(ROOT / "cases/flash_attention/case.py")


def seconds(words: list[str], cache: str) -> float:
    """Run `tilewright WORDS` once and return its wall time."""
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache}
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tilewright.cli.main", *words], env=env, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - started


def median(words: list[str], runs: int, cold: bool) -> float:
    """Return the median wall time, with an empty cache for every run if `cold`."""
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        cache = f"{folder}/cache"
        if not cold:
            seconds(words, cache)
        for _ in range(runs):
            if cold:
                shutil.rmtree(cache, ignore_errors=True)
            taken.append(seconds(words, cache))
    return statistics.median(taken)


def counting(words: list[str]) -> float:
    """Return the seconds that counting takes of one cold run, memory traffic included."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright.cli.main", *words, "--json"],
            env={**os.environ, "TILEWRIGHT_CACHE_DIR": folder},
            check=True,
            capture_output=True,
        )
    taken: float = json.loads(done.stdout)["counters"]["seconds"]
    return taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    triton = importlib.metadata.version("triton")
    print(
        f"Triton {triton}, Python {platform.python_version()}, {os.cpu_count()} cores, median of {runs} runs"
    )
    versions = ("v0", "v1", "v2", "v3", "v4", "v5") if triton < "3.8" else ("v6",)
    jobs = [("tilewright --help", ["--help"], False, 0.3)]
    jobs += [(f"explain {v}, cached", ["explain", f"{CASE}:{v}"], False, 0.5) for v in versions]
    jobs += [(f"explain {v}, cold cache", ["explain", f"{CASE}:{v}"], True, 1.5) for v in versions]
    last = f"{CASE}:{versions[-1]}"
    jobs.append((f"explain {versions[-1]} --no-count, cold", ["explain", last, "--no-count"], True, 1.0))
    for name, words, cold, wanted in jobs:
        taken = median(words, runs, cold)
        print(f"  {name:<30} {taken:6.3f} s   (wanted: under {wanted:g} s){'' if taken < wanted else '   MISSED'}")
    for version in versions:
        taken = counting(["explain", f"{CASE}:{version}", "--set", "causal=true"])
        print(f"  {f'counting {version}, causal':<30} {taken:6.3f} s   (wanted: under 5 s)")


if __name__ == "__main__":
    main()
