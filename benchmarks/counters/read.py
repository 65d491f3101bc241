"""Reads the counters of every pair in case.py, or in other files of cases, with Nsight Compute on this machine's GPU.

    python benchmarks/counters/read.py --out results/h200_counters_read.json.gz
    python benchmarks/counters/read.py --cases rules.py mixed.py --out results/h200_counters_rules.json.gz

First what every kernel computes is compared with references.py; then each is launched once, profiled from start to
end of its launch; clocks are not locked. Needs torch, a CUDA GPU and `ncu` with permission to read counters.
`compare.py` puts what was read beside what is counted, without a GPU.

The result is JSON: `versions`; `columns` of the instructions; `rows`, one a pair: `case` and `settings`, `launch` (all
that a launch is made of), `values` (null: as the reference), `metrics` by Nsight Compute's names, `instructions` in the
order of the code, `code` (a hash that `compare.py` finds again in what it compiles). A row that `failed` says why.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
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
_JUMP = re.compile(r"\b(BRA|BRX|BSSY|CALL|JMP|JMX|RET|WARPSYNC|BREAK)\b")
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


def load_file(path: Path) -> Any:
    """Import a Python file by its path."""
    name = f"counters_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def load_pairs(files: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the pairs of files of cases, each case by the name under which `reference` finds it."""
    return [
        (case if file == "case.py" or ".py:" in case else f"benchmarks/counters/{file}:{case}", settings)
        for file in files
        for case, settings in load_file(HERE / file).PAIRS
    ]


def launch_all(pairs: dict[int, tuple[str, dict[str, Any]]], out: Path, check: bool, seconds: float) -> None:
    """Launch pairs by their numbers, and write down a row for each, in order.

    check: compare what a kernel leaves with its reference; else launch it once inside a profiler range. Pairs whose
    turn comes after `seconds` are not launched.
    """
    import torch
    import triton

    # Descriptors that a kernel makes for itself lie in memory that the launch asks for.
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    started = time.monotonic()
    with out.open("w") as file:
        for number, (case, settings) in pairs.items():
            row: dict[str, Any] = {"pair": number, "case": case, "settings": settings}
            try:
                if time.monotonic() - started > seconds:
                    raise TimeoutError(f"not launched: {seconds:.0f} s were over")
                row |= launch_one(case, settings, check)
            except Exception as e:  # a kernel that fails must not cost the others
                row["failed"] = f"{type(e).__name__}: {e}"[:500]
            file.write(json.dumps(row) + "\n")
            file.flush()
            if "failed" in row and is_broken():
                break


def is_broken() -> bool:
    """Whether an error has left the GPU unusable for this process."""
    import torch

    try:
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError):
        return True
    return False


def launch_one(case: str, settings: dict[str, Any], check: bool) -> dict[str, Any]:
    """Launch one pair; return what describes the launch, and what was found of its values or its kernel."""
    import torch

    from tilewright.launch import load_case

    launch = load_case(reference(case)).launch(settings)
    if str(launch.kernel.path.parent) not in sys.path:
        sys.path.insert(0, str(launch.kernel.path.parent))
    kernel = getattr(load_file(launch.kernel.path), launch.kernel.name)
    while hasattr(kernel, "configs"):
        # What is tuned automatically is launched with the settings of the pair.
        kernel = kernel.fn
    gluon = getattr(kernel, "is_gluon", lambda: False)()
    tensors: dict[str, Any] = {}
    args = {name: make_argument(arg, name, gluon, tensors) for name, arg in launch.args.items()}
    options = {"num_warps": launch.num_warps, **launch.options}
    if launch.num_stages is not None:
        options["num_stages"] = launch.num_stages
    if launch.num_ctas > 1:
        options["num_ctas"] = launch.num_ctas
    if check:
        return {"values": check_values(launch, kernel, args, tensors, options)}
    kernel.warmup(*args.values(), grid=launch.grid, **options)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    compiled = kernel[launch.grid](*args.values(), **options)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return {
        "kernel": launch.kernel.name,
        "launch": {k: v for k, v in launch.to_dict().items() if k not in ("case", "assumed")},
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
        "shared_bytes": compiled.metadata.shared,
    }


def check_values(
    launch: Any, kernel: Any, args: dict[str, Any], tensors: dict[str, Any], options: dict[str, Any]
) -> str | None:
    """Launch, and return what differs from the reference, in words; None where nothing does."""
    import torch

    plain = {name: tensors.get(name, value) for name, value in args.items()}
    before = {name: v.clone() if torch.is_tensor(v) else v for name, v in plain.items()}
    kernel[launch.grid](*args.values(), **options)
    torch.cuda.synchronize()
    sys.path.insert(0, str(HERE))
    from references import complaint

    found: str | None = complaint(launch.kernel.name, before, plain, launch.programs)
    return found


def make_argument(arg: Any, name: str, gluon: bool, tensors: dict[str, Any]) -> Any:
    """Make a tensor or descriptor with contents that no kernel minds; keep the tensor by the argument's name.

    Whole numbers from 0 to 60, other numbers from 0 to 60/64, scales near 1.
    """
    import torch

    from tilewright.launch import Descriptor, DType, Tensor

    if isinstance(arg, Descriptor):
        tensor = make_argument(arg.tensor, name, gluon, tensors)
        return make_descriptor(tensor, list(arg.block_shape), gluon)
    if isinstance(arg, DType):
        import triton.language as tl

        return getattr(tl, arg.torch_name)
    if not isinstance(arg, Tensor):
        return arg
    if name == "starts_ptr":
        tensors[name] = torch.tensor([0, 100, 163, 163, 900], dtype=torch.int32, device="cuda")
        return tensors[name]
    numbers = torch.arange(max(arg.storage_bytes // arg.dtype.bytes, 1), device="cuda") % 61
    if "scale_ptr" in name:
        numbers = 124 + numbers % 5
    dtype = getattr(torch, arg.dtype.torch_name)
    numbers = numbers / 64 if dtype.is_floating_point else numbers
    tensors[name] = numbers.to(dtype).view(arg.shape)
    return tensors[name]


def make_descriptor(tensor: Any, block: list[int], gluon: bool) -> Any:
    """Make a tensor descriptor; Gluon's states the layout in shared memory too."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    if not gluon:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(tensor, shape, strides, block)
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

    element = getattr(gl, str(tensor.dtype).removeprefix("torch."))
    layout = gl.NVMMASharedLayout.get_default_for(block, element)
    return GluonDescriptor(tensor, shape, strides, block, layout)


def check_all(
    numbers: list[int], files: list[str], folder: Path, environment: dict[str, str]
) -> dict[int, dict[str, Any]]:
    """Compile pairs and check their values, in several processes; return the rows by number.

    A kernel that breaks its process (an address that is not allowed) loses that process's others: they are tried again.
    """
    checked: dict[int, dict[str, Any]] = {}
    for turn in range(3):
        left = [n for n in numbers if n not in checked]
        count = max(1, min(12, (os.cpu_count() or 2) - 2, len(left)))
        parts = [(folder / f"check{turn}_{i}.jsonl", left[i::count]) for i in range(count) if left]
        children = [
            subprocess.Popen(worker("check", rows, files, part), env=environment) for rows, part in parts
        ]
        for child in children:
            child.wait()
        checked |= {row["pair"]: row for rows, _ in parts for row in read_rows(rows)}
    return checked


def worker(job: str, rows: Path, files: list[str], numbers: list[int], seconds: float = 3600) -> list[str]:
    """Return the command of this script that launches pairs and writes their rows."""
    command = [sys.executable, __file__, "--worker", job, "--rows", str(rows), "--seconds", str(seconds)]
    return [*command, "--cases", *files, "--only", *map(str, numbers)]


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows that a worker wrote; none where it did not come that far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def profile(
    files: list[str], only: list[int], sections: list[str], seconds: float, kept: Path | None
) -> tuple[str, list[dict[str, Any]]]:
    """Check values and drive ncu; return ncu's command and a row for each pair."""
    numbers = only or list(range(len(load_pairs(files))))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Line information belongs to a compile: an old cache would bring another file's.
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{folder}/triton"}
        checked = check_all(numbers, files, folder, environment)
        print(f"{len(checked)} pairs checked, {time.monotonic() - started:.0f} s", flush=True)
        report = (kept or folder) / "report"
        command = ["ncu", "--profile-from-start", "off", "--clock-control", "none"]
        command += [word for section in sections for word in ("--section", section)] or ["--set", "full"]
        command += ["--metrics", ",".join(EXTRA), "-f", "-o", str(report)]
        # A kernel that cannot be compiled or that broke its process is not launched again.
        sound = [n for n in numbers if "failed" not in checked.get(n, {"failed": ""})]
        child = worker("launch", folder / "rows.jsonl", files, sound, seconds)
        finished = subprocess.run([*command, *child], env=environment, capture_output=True, text=True)
        sys.stderr.write(finished.stdout[-3000:] + finished.stderr[-3000:])
        print(f"profiled, {time.monotonic() - started:.0f} s", flush=True)
        launched = {row["pair"]: {**checked[row["pair"]], **row} for row in read_rows(folder / "rows.jsonl")}
        read = [row for row in launched.values() if "failed" not in row]
        if read:
            fill_in(read, raw_page(f"{report}.ncu-rep"), source_pages(f"{report}.ncu-rep"))
    print(f"{len(read)} of {len(numbers)} pairs launched, {time.monotonic() - started:.0f} s", flush=True)
    lost = {"failed": "its process ended before it"}
    rows = [launched.get(n) or checked.get(n) or {"pair": n, **lost} for n in numbers]
    return " ".join(command[: command.index("--metrics")]), rows


def write(out: Path, command: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows with what they were made with, and print what is not as it should be."""
    out.parent.mkdir(parents=True, exist_ok=True)
    columns = ["instruction", *COLUMNS.values()]
    with gzip.open(out, "wt") as file:
        json.dump({"command": command, "versions": versions(), "columns": columns, "rows": rows}, file)
    for row in rows:
        if row.get("failed") or row.get("values"):
            name = f"{row['pair']} {row.get('case')} {row.get('settings')}"
            print(f"  {name}: {row.get('failed') or row['values']}")


def fill_in(rows: list[dict[str, Any]], metrics: list[dict[str, Any]], pages: list[list[list[Any]]]) -> None:
    """Put the metrics and the instructions into the rows of the launches, both in the order of the launches."""
    if not len(rows) == len(metrics) == len(pages):
        print(f"  {len(rows)} launches, {len(metrics)} of them with metrics, {len(pages)} with a source page")
    for row, figures, page in zip(rows, metrics, pages, strict=False):
        if row["kernel"] not in figures["Kernel Name"]:
            row["failed"] = f"the report has {figures['Kernel Name']} in its place"
            continue
        row |= {"metrics": figures, "instructions": page, "code": code_hash([line[0] for line in page])}


def code_hash(instructions: list[str]) -> str:
    """Return a hash of machine code: the same for ncu's text and nvdisasm's, which order operands differently.

    Where a jump goes, marks of reuse and padding are left out.
    """
    lines = []
    for text in instructions:
        words = text.replace(".reuse", "").split(";")[0].split("(*")[0].replace(",", " ").split()
        if _JUMP.search(text):
            words = [re.sub(r"^(`\(.*|-?0x[0-9a-f]+)$", "there", word) for word in words]
        lines.append(" ".join(sorted(words)))
    while lines and lines[-1] == "NOP":
        lines.pop()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


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
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "ncu": ncu,
        "triton": triton.__version__,
        "ptxas": triton.knobs.nvidia.ptxas.version,
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/counters_read.json.gz"))
    parser.add_argument(
        "--cases", nargs="+", default=["case.py"], help="files beside this one; case.py without it"
    )
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of pairs; all without it")
    parser.add_argument("--sections", nargs="+", default=[], help="ncu's sections; its full set without it")
    parser.add_argument("--keep", type=Path, help="folder for ncu's own report")
    parser.add_argument("--seconds", type=float, default=3600, help="launch no pair under ncu after these")
    parser.add_argument("--worker", choices=("check", "launch"), help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        pairs = load_pairs(options.cases)
        launch_all(
            {n: pairs[n] for n in options.only}, options.rows, options.worker == "check", options.seconds
        )
    else:
        found = profile(options.cases, options.only, options.sections, options.seconds, options.keep)
        write(options.out, *found)


if __name__ == "__main__":
    main()
