"""Compares what `explain` says with what a real GPU says, launch by launch, and checks the kernels' values.

    python benchmarks/hardware_check.py --gpu h200 --out results/h200_explain.json

For every launch: registers, spilled registers and shared bytes as the driver loaded them, programs per SM from the
driver's own occupancy call, beside ours. Then every version of the flagship on random inputs against attention
computed in float64. Needs torch and the GPU that --gpu names. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import itertools
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

CASE = ROOT / "cases/flash_attention/case.py"
TILES = [(16, 16, 4, 3), (64, 32, 4, 3), (64, 32, 8, 3), (64, 128, 4, 2), (128, 64, 8, 3), (128, 128, 8, 3)]
VALUE_SHAPES = [(3, 100, 63, 32), (1, 1, 1, 16), (2, 63, 200, 128), (4, 256, 256, 64)]
VALUE_TILE = {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32, "NUM_WARPS": 4, "NUM_STAGES": 2}
"""One configuration for every version, the autotuned ones too: the values are asked for here, not the speed."""


def load(path: Path, folder: Path) -> Any:
    """Import a file with its folder on the path, as the versions are meant to be imported, and forget it after."""
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(f"loaded_{folder.name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("kernel", None)


def driver_occupancy(function: int, threads: int, shared_bytes: int) -> int:
    """Ask the CUDA driver how many blocks of a loaded kernel fit on an SM."""
    count = ctypes.c_int()
    code = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(count), ctypes.c_void_p(function), ctypes.c_int(threads), ctypes.c_size_t(shared_bytes)
    )
    if code:
        raise RuntimeError(f"cuOccupancyMaxActiveBlocksPerMultiprocessor failed with {code}")
    return count.value


def launch_for_real(launch: Any, kernels: dict[Path, Any]) -> Any:
    """Launch a Launch on the GPU with random tensors; return Triton's compiled kernel."""
    import torch

    from tilewright.launch import Tensor

    path = launch.kernel.path
    if path not in kernels:
        kernels[path] = load(path, path.parent)
    kernel = getattr(kernels[path], launch.kernel.name)
    while not hasattr(kernel, "create_binder"):
        kernel = kernel.fn
    args = {
        name: torch.randn(arg.shape, device="cuda").to(getattr(torch, arg.dtype.torch_name))
        if isinstance(arg, Tensor)
        else arg
        for name, arg in launch.args.items()
    }
    compiled = kernel[launch.grid](**args, num_warps=launch.num_warps, num_stages=launch.num_stages)
    torch.cuda.synchronize()
    return compiled


def compare_launches(gpu: Any) -> list[dict[str, Any]]:
    """Return one row per launch: ours and the driver's figures."""
    from tilewright.compile import Compiler
    from tilewright.launch import load_case
    from tilewright.model import make_profile

    versions = ("v0", "v4", "v6")
    launches = []
    for version, tile, causal in itertools.product(versions, TILES, (False, True)):
        dtype = "fp32" if tile == (64, 32, 4, 3) else "bf16"
        q, k, warps, stages = tile
        values = {"Q_TILE_SIZE": q, "K_TILE_SIZE": k, "num_warps": warps, "num_stages": stages}
        # N and N_KEYS ugly, so that masks and specialisation differ from the nice shapes.
        shape = {"N": 1000, "N_KEYS": 777} if causal else {"N": 1024}
        launches.append(
            load_case(f"{CASE}:{version}").launch({**values, **shape, "causal": causal, "dtype": dtype})
        )
    with Compiler(cache_folder=None) as compiler:
        results = compiler.compile([(launch, gpu.target) for launch in launches])
    rows, kernels = [], {}
    for launch, result in zip(launches, results, strict=True):
        profile = make_profile(launch, gpu, result)
        p = launch.parameters
        row: dict[str, Any] = {
            "launch": f"{launch.case.rpartition(':')[2]} {p['Q_TILE_SIZE']}x{p['K_TILE_SIZE']} w{p['num_warps']} "
            f"s{p['num_stages']} {p['dtype']}{' causal' if p['causal'] else ''}"
        }
        ours = [
            profile.compiled.registers,
            profile.compiled.spilled_registers,
            profile.compiled.shared_bytes,
            profile.occupancy.programs_per_sm,
        ] if profile.fits else "does not fit"  # fmt: skip
        try:
            real = launch_for_real(launch, kernels)
            threads = 32 * launch.num_warps
            shared = real.metadata.shared
            theirs: Any = [
                real.n_regs,
                real.n_spills,
                shared,
                driver_occupancy(real.function, threads, shared),
            ]
        except Exception as e:
            theirs = "does not fit" if type(e).__name__ == "OutOfResources" else f"{type(e).__name__}: {e}"
        rows.append({**row, "ours": ours, "driver": theirs, "same": ours == theirs})
    return rows


def compare_values() -> list[dict[str, Any]]:
    """Return one row per version, shape, type and mask: the largest errors against float64."""
    import torch

    rows = []
    for folder in sorted(p for p in CASE.parent.iterdir() if (p / "kernel.py").is_file()):
        attention = load(folder / "flashattention_autograd_function_triton.py", folder).FlashAttentionTriton
        for name, value in VALUE_TILE.items():
            setattr(attention, name, value)
        for (b, nq, nk, d), causal, dtype in itertools.product(
            VALUE_SHAPES, (False, True), ("bfloat16", "float32")
        ):
            torch.manual_seed(0)
            q, k, v = (torch.randn(b, n, d, device="cuda", dtype=getattr(torch, dtype)) for n in (nq, nk, nk))
            out = attention.apply(q, k, v, causal)
            scores = (q.double() @ k.double().mT) * d**-0.5
            if causal:
                keep = torch.arange(nk, device="cuda")[None, :] <= torch.arange(nq, device="cuda")[:, None]
                scores = scores.masked_fill(~keep, float("-inf"))
            error = (out.double() - scores.softmax(-1) @ v.double()).abs().max().item()
            limit = 2e-2 if dtype == "bfloat16" else 5e-3  # fp32 dots run as TF32
            rows.append({"version": folder.name, "shape": [b, nq, nk, d], "causal": causal, "dtype": dtype,
                         "max_error": error, "same": error < limit})  # fmt: skip
    return rows


def _report(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if not row["same"]:
            print("DIFFERS", json.dumps(row))
    print(f"{sum(row['same'] for row in rows)} of {len(rows)} as expected", flush=True)


def main() -> None:
    """Run both comparisons, print what differs, write the JSON."""
    import torch
    import triton

    from tilewright.gpus import load as load_gpu

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    about = {
        "command": "python benchmarks/hardware_check.py " + " ".join(sys.argv[1:]),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "columns": ["registers", "spilled registers", "shared bytes", "programs per SM"],
    }
    launches = compare_launches(load_gpu(options.gpu))
    _report(launches)
    write(options.out, about, launches=launches)
    values = compare_values()
    _report(values)
    write(options.out, about, launches=launches, values=values)
    sys.exit(0 if all(row["same"] for row in launches + values) else 1)


def write(file: Path, about: dict[str, Any], **tables: list[dict[str, Any]]) -> None:
    """Write the result as JSON, one row a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in about.items()]
    for name, rows in tables.items():
        listed = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        lines.append(f' "{name}": [\n{listed}\n ]')
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
