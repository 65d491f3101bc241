"""What rules promise against what mending gives: python benchmarks/findings/pairs.py [--measure] [--out FILE]

Each pair is a launch in which a rule finds something, and the same work with that one thing mended. The rule's bound
says how much faster the second can be at most. Without --measure the bounds alone are printed, which needs no GPU. With
it both are timed here, in turn, and the ratio of the medians is put beside the bound: a bound holds if the ratio is no
larger, give or take what the clock does (3 %).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tilewright.cli.explain import compile_and_count
from tilewright.compile import Compiled, Compiler
from tilewright.gpus import load
from tilewright.launch import Launch, load_case
from tilewright.rules import find

HERE = Path(__file__).parent
FLAGSHIP = HERE.parents[1] / "cases" / "flash_attention" / "case.py"
OWN = HERE / "case.py"
NOISE = 1.03
ROUNDS = 30

SIXTEEN = {"Q_TILE_SIZE": 16, "K_TILE_SIZE": 16}
PAIRS: list[tuple[str, str, tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = [
    ("repeated-tensor-work", "1 warp for 16 rows instead of 4", ("v6", {**SIXTEEN, "num_warps": 4}),
     ("v6", {**SIXTEEN, "num_warps": 1})),
    ("unneeded-tiles", "causal: stop at the diagonal", ("v2", {"causal": True}), ("v3", {"causal": True})),
    ("rows-split-across-warps", "1 warp for 16 rows instead of 4",
     ("v6", {"Q_TILE_SIZE": 16, "K_TILE_SIZE": 32, "num_warps": 4}),
     ("v6", {"Q_TILE_SIZE": 16, "K_TILE_SIZE": 32, "num_warps": 1})),
    ("mask-on-every-tile", "causal: mask at the diagonal alone", ("v2", {"causal": True}), ("v3", {"causal": True})),
    ("exp-not-exp2", "exp2 with a folded scale", ("v3", {}), ("v4", {})),
    ("rescale-every-step", "128 keys a step instead of 32",
     ("v4", {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}), ("v4", {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 128, "num_stages": 2})),
    ("longest-last", "causal: long programs first", ("v5", {"causal": True}), ("v6", {"causal": True})),
    ("spills-in-loop", "8 warps instead of 4",
     ("v4", {"Q_TILE_SIZE": 128, "K_TILE_SIZE": 128, "D": 128, "num_stages": 2, "num_warps": 4}),
     ("v4", {"Q_TILE_SIZE": 128, "K_TILE_SIZE": 128, "D": 128, "num_stages": 2, "num_warps": 8})),
    ("scattered-access", "neighbouring lanes, neighbouring addresses", ("copy", {"STEP": 8}), ("copy", {"STEP": 1})),
    ("too-few-programs", "1,024 elements a program instead of 65,536",
     ("copy", {"BLOCK": 65536, "programs": 32}), ("copy", {"BLOCK": 1024, "programs": 2048})),
    ("division-in-loop", "no division", ("gather", {"divide": True}), ("gather", {"divide": False})),
    ("int64-in-loop", "offsets in 32 bits", ("sum_rows", {"wide": True}), ("sum_rows", {"wide": False})),
    ("masked-load", "no mask where sizes divide", ("sum_rows", {"even": False}), ("sum_rows", {"even": True})),
    ("atomics-on-few-places", "add up in the program first",
     ("sum_all", {"first": False}), ("sum_all", {"first": True})),
    ("dot-without-tensor-cores", "tf32 instead of ieee",
     ("multiply", {"dtype": "fp32", "precision": "ieee"}), ("multiply", {"dtype": "fp32", "precision": "tf32"})),
    ("no-warpgroup-dot", "64 rows a tile instead of 32",
     ("multiply", {"m": 32, "tiles": 1056}), ("multiply", {"m": 64})),
    ("tail-wave", "programs that fill the last wave",
     ("v5", {"N": 1024, "batch_heads": 17}), ("v5", {"N": 1024, "batch_heads": 16})),
]  # fmt: skip
"""The rule, what is changed, before, after."""
WORK = {"tail-wave": 17 / 16}
"""Work of the first over work of the second, where they are not the same."""


def launch_of(name: str, settings: dict[str, Any]) -> Launch:
    """Return one side of a pair."""
    return load_case(f"{OWN if not name.startswith('v') else FLAGSHIP}:{name}").launch(settings)


def predictions(gpu_name: str) -> list[dict[str, Any]]:
    """Return each pair's bound, or why there is none."""
    gpu = load(gpu_name)
    launches = [launch_of(*before) for _, _, before, _ in PAIRS]
    with Compiler() as compiler:
        profiles = compile_and_count(compiler, [(launch, gpu) for launch in launches], True, (), None)
    rows = []
    for (rule, change, before, after), p in zip(PAIRS, profiles, strict=True):
        assert isinstance(p.compiled, Compiled), p.failure
        found = next((f for f in find(p) if f.rule == rule), None)
        said = [e.text for e in found.evidence] if found else ["not found on this GPU"]
        row = {"rule": rule, "change": change, "before": before, "after": after, "bound": found and found.bound}
        rows.append({**row, "found": found is not None, "evidence": said})
    return rows


def measure(rows: list[dict[str, Any]]) -> None:
    """Time both sides of each pair in turn, with L2 flushed before each, and keep medians and their ratio."""
    import torch
    import triton

    sys.path.insert(0, str(HERE.parent / "counters"))
    from read import load_file, make_argument

    def runner(name: str, settings: dict[str, Any]) -> Any:
        launch = launch_of(name, settings)
        sys.path.insert(0, str(launch.kernel.path.parent))
        kernel = getattr(load_file(launch.kernel.path), launch.kernel.name)
        while hasattr(kernel, "configs"):
            kernel = kernel.fn
        args = {n: make_argument(a, n, False, {}) for n, a in launch.args.items()}
        options = {"num_warps": launch.num_warps, **launch.options}
        if launch.num_stages is not None:
            options["num_stages"] = launch.num_stages
        return lambda: kernel[launch.grid](*args.values(), **options)

    flush = torch.empty(256 * 2**20, dtype=torch.int8, device="cuda")
    for row in rows:
        sides = [runner(*row["before"]), runner(*row["after"])]
        triton.testing.do_bench(sides[0], warmup=200, rep=50)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for side, kept in zip(sides, times, strict=True):
                flush.zero_()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                side()
                end.record()
                torch.cuda.synchronize()
                kept.append(start.elapsed_time(end))
        before, after = (statistics.median(t) for t in times)
        row["before_ms"], row["after_ms"] = before, after
        row["ratio"] = before / after / WORK.get(row["rule"], 1.0)
        bound = row["bound"]
        row["holds"] = None if bound is None else row["ratio"] <= bound * NOISE
        said = f"{bound:6.2f}" if bound else "  none"
        print(f"{row['rule']:<26} bound {said}  measured {row['ratio']:6.2f}  holds {row['holds']}", flush=True)


def main() -> None:
    """Print a row for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--measure", action="store_true", help="time both sides on this machine's GPU")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    rows = predictions(words.gpu)
    if words.measure:
        measure(rows)
    else:
        for row in rows:
            bound = f"{row['bound']:.2f}" if row["bound"] else "none" if row["found"] else "not found"
            print(f"{row['rule']:<26} {bound:>10}  {row['change']}: {row['evidence'][0]}")
    if words.out:
        versions = {}
        if words.measure:
            import torch
            import triton

            versions = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
        data = {"command": " ".join(["python", *sys.argv]), "versions": versions, "rows": rows}
        words.out.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
