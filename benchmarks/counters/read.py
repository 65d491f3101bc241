"""Reads the counters of every pair in case.py with Nsight Compute, on the GPU of this machine.

    python benchmarks/counters/read.py --out results/h200_counters_read.json.gz

Each kernel is launched once, profiled from start to end of its launch; clocks are not locked. Needs torch, a CUDA
GPU and `ncu` with permission to read counters. `compare.py` puts what was read beside what is counted, without a GPU.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "src"))

EXTRA = (
    "regex:^sm__inst_executed_pipe_",
    "regex:^sm__ops_path_tensor_",
    "regex:^smsp__sass_inst_executed_op_",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_atom.sum",
    "l1tex__m_xbar2l1tex_read_sectors_mem_lg_op_ld.sum",
    "sm__inst_executed.sum",
)
"""Beside ncu's full set, which holds the source page."""
COLUMNS = {
    "Instructions Executed": "executed",
    "Predicated-On Thread Instructions Executed": "threads",
    "L2 Theoretical Sectors Global": "sectors",
    "L2 Theoretical Sectors Local": "local_sectors",
    "L1 Wavefronts Shared": "wavefronts",
    "L1 Wavefronts Shared Ideal": "ideal_wavefronts",
    "L1 Tag Requests Global": "tag_requests",
}


def reference(case: str) -> str:
    """Return FILE.py:NAME of a pair's case: one of case.py, or another file of the repository."""
    return str(HERE.parents[1] / case) if ".py:" in case else f"{HERE / 'case.py'}:{case}"


def load_pairs() -> list[tuple[str, dict[str, Any]]]:
    """Return the pairs of case.py."""
    spec = importlib.util.spec_from_file_location("counters_case", HERE / "case.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.PAIRS)


def launch_all(done: Path, only: list[int]) -> None:
    """Launch every pair once, inside a profiler range, and write down which were launched, in order."""
    import torch

    kernels: dict[Path, Any] = {}
    with done.open("w") as file:
        for number, (case, settings) in enumerate(load_pairs()):
            if only and number not in only:
                continue
            row: dict[str, Any] = {"pair": number, "case": case, "settings": settings}
            try:
                row |= launch_one(case, settings, kernels)
            except Exception as e:  # a kernel that fails must not cost the others
                row["failed"] = f"{type(e).__name__}: {e}"[:500]
            file.write(json.dumps(row) + "\n")
            file.flush()
    torch.cuda.synchronize()


def launch_one(case: str, settings: dict[str, Any], kernels: dict[Path, Any]) -> dict[str, Any]:
    """Launch one pair under the profiler; return what the driver says of its kernel."""
    import torch

    from tilewright.launch import load_case

    launch = load_case(reference(case)).launch(settings)
    path = launch.kernel.path
    if path not in kernels:
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        kernels[path] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kernels[path])
    kernel = getattr(kernels[path], launch.kernel.name)
    while hasattr(kernel, "configs"):
        # What is tuned automatically is launched with the settings of the pair.
        kernel = kernel.fn
    args = {name: make_argument(arg, name) for name, arg in launch.args.items()}
    options = {"num_warps": launch.num_warps}
    if launch.num_stages is not None:
        options["num_stages"] = launch.num_stages
    kernel.warmup(*args.values(), grid=launch.grid, **options)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    compiled = kernel[launch.grid](*args.values(), **options)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return {"kernel": launch.kernel.name, "registers": compiled.n_regs, "spills": compiled.n_spills}


def make_argument(arg: Any, name: str) -> Any:
    """Make a tensor or descriptor with contents that no kernel minds: small positive numbers."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tilewright.launch import Descriptor, DType, Tensor

    if isinstance(arg, Descriptor):
        tensor = make_argument(arg.tensor, name)
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(arg.block_shape))
    if isinstance(arg, DType):
        import triton.language as tl

        return getattr(tl, arg.torch_name)
    if not isinstance(arg, Tensor):
        return arg
    if name == "starts_ptr":
        return torch.tensor([0, 100, 163, 163, 900], dtype=torch.int32, device="cuda")
    numbers = torch.arange(max(arg.storage_bytes // arg.dtype.bytes, 1), device="cuda") % 61
    return numbers.to(getattr(torch, arg.dtype.torch_name)).view(arg.shape)


def profile(out: Path, only: list[int]) -> None:
    """Drive ncu and write one row a pair."""
    with tempfile.TemporaryDirectory() as folder:
        done, report = Path(folder) / "done.jsonl", Path(folder) / "report"
        # Line information belongs to a compile: an old cache would bring another file's.
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{folder}/triton"}
        command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--set", "full"]
        command += ["--metrics", ",".join(EXTRA), "-f", "-o", str(report)]
        child = [sys.executable, __file__, "--launch", str(done), "--only", *map(str, only)]
        finished = subprocess.run([*command, *child], env=environment, capture_output=True, text=True)
        sys.stderr.write(finished.stdout[-3000:] + finished.stderr[-3000:])
        rows = [json.loads(line) for line in done.read_text().splitlines()]
        read = [row for row in rows if "failed" not in row]
        for row, metrics in zip(read, raw_page(f"{report}.ncu-rep"), strict=True):
            row["metrics"] = metrics
        for row, page in zip(read, source_pages(f"{report}.ncu-rep"), strict=True):
            row["instructions"] = page
    out.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(out, "wt") as file:
        json.dump(
            {
                "command": " ".join(command[:8]),
                "versions": versions(),
                "columns": ["instruction", *COLUMNS.values()],
                "rows": rows,
            },
            file,
        )
    print(f"{len(read)} of {len(rows)} pairs read")
    for row in rows:
        if "failed" in row:
            print(f"  failed: {row['case']} {row['settings']}: {row['failed']}")


def raw_page(report: str) -> list[dict[str, float | str]]:
    """Return every metric of every launch."""
    text = subprocess.run(
        ["ncu", "--import", report, "--page", "raw", "--csv", "--print-units", "base"],
        capture_output=True,
        text=True,
    ).stdout
    first, *rest = list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))
    del first  # the units
    return [{k: number(v) for k, v in row.items() if v and keep(k)} for row in rest]


def keep(name: str) -> bool:
    """Whether a metric is a count (its sum), not a rate."""
    return name.endswith(".sum") or name.startswith(("launch__", "inst_executed")) or name == "Kernel Name"


def source_pages(report: str) -> list[list[list[Any]]]:
    """Return, for each launch, [instruction, figures...] of every machine instruction, in order."""
    text = subprocess.run(
        ["ncu", "--import", report, "--page", "source", "--csv"], capture_output=True, text=True
    ).stdout
    pages = []
    for part in text.split('"Kernel Name",')[1:]:
        rows = csv.DictReader(io.StringIO(part.partition("\n")[2]))
        figures = [
            [row["Source"], *(number(row.get(c) or "0") for c in COLUMNS)]
            for row in rows
            if row.get("Source")
        ]
        pages.append(figures)
    return pages


def number(text: str) -> float | str:
    """Read a figure as ncu prints it."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return text
    return int(value) if value == int(value) else value


def versions() -> dict[str, str]:
    """Return what the readings were made with."""
    import torch
    import triton

    ncu = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-1]
    return {
        "gpu": torch.cuda.get_device_name(0),
        "ncu": ncu,
        "triton": triton.__version__,
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/counters_read.json.gz"))
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of pairs; all without it")
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch_all(options.launch, options.only)
    else:
        profile(options.out, options.only)


if __name__ == "__main__":
    main()
