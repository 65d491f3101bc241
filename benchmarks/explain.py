"""Wall time of the main command, from its start to its end: cold cache, warm cache, and --help.

    python benchmarks/explain.py [--runs 9]

Each figure is the median of several whole processes; cold runs start with an empty cache folder. Nothing here
is asserted: a machine under load is slower.
"""

from __future__ import annotations

import argparse
import importlib.metadata
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    triton = importlib.metadata.version("triton")
    print(
        f"Triton {triton}, Python {platform.python_version()}, {os.cpu_count()} cores, median of {runs} runs"
    )
    jobs = [
        ("tilewright --help", ["--help"], False, 0.3),
        ("explain v1, cached", ["explain", f"{CASE}:v1"], False, 0.25),
        ("explain v1, cold cache", ["explain", f"{CASE}:v1"], True, 1.0),
        ("explain v0, cold cache", ["explain", f"{CASE}:v0"], True, 1.0),
    ]
    cached = None
    for name, words, cold, wanted in jobs:
        taken = median(words, runs, cold)
        cached = cached or (taken if "cached" in name else None)
        ratio = f"   {taken / cached:.1f} x cached" if cached and cold else ""
        print(f"  {name:<24} {taken:6.3f} s   (wanted: under {wanted:g} s){ratio}")


if __name__ == "__main__":
    main()
