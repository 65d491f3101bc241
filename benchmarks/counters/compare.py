"""Puts counted beside read counters, pair by pair and instruction by instruction. Needs no GPU.

    python benchmarks/counters/compare.py results/h200_counters_read.json.gz

Compiles every pair for the GPU that was read and counts it. Executed instructions and tensor operations have to be
equal, and the machine code the one that was read, which needs the version of Triton that the readings were made with;
exit code 1 where they are not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.compile import Compiled, Compiler  # noqa: E402
from tilewright.gpus import load  # noqa: E402
from tilewright.launch import load_case  # noqa: E402
from tilewright.sass import Counters  # noqa: E402
from tilewright.sass.count import count  # noqa: E402
from tilewright.sass.text import parse  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

from read import code_hash, reference  # noqa: E402

READ_INSTRUCTIONS = "sm__inst_executed.sum"
READ_L2 = "l1tex__m_xbar2l1tex_read_bytes.sum"
READ_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


def plain(text: str) -> str:
    """An instruction as both tools print it."""
    return " ".join(text.replace(".reuse", "").replace(" ", " ").split())


def tensor_ops(metrics: Mapping[str, Any]) -> int:
    """Tensor operations of all types that were read."""
    return sum(
        int(value)
        for name, value in metrics.items()
        if name.startswith("sm__ops_path_tensor_src_")
        and not name.endswith(("sparsity_on.sum", "sparsity_off.sum"))
    )


def tried_again(found: Counters, index: int, read: int) -> bool:
    """Whether an instruction belongs to a wait that the hardware tried again; a count takes it to succeed at once.

    Its loop is a few instructions long, or lies apart, where nothing is executed if it succeeds.
    """
    ours = found.by_instruction[index]
    near = found.by_instruction[max(index - 3, 0) : index + 4]
    waits = ours.executed == 0 or any("TRYWAIT" in i.text or "TRY_ALLOC" in i.text for i in near)
    return bool(found.assumptions) and waits and read > ours.executed


def by_instruction(found: Counters, row: Mapping[str, Any], columns: list[str]) -> dict[str, list[Any]]:
    """Return what differs, by figure: (instruction, counted, read)."""
    differs: dict[str, list[Any]] = {}
    for index, (ours, read) in enumerate(zip(found.by_instruction, row["instructions"], strict=False)):
        figures = dict(zip(columns, read, strict=True))
        access = ours.access
        pairs = {"executed": ours.executed}
        if access is not None:
            pairs |= {"sectors": access.sectors, "wavefronts": access.wavefronts}
        for name, value in pairs.items():
            if name == "sectors" and figures["local_sectors"]:
                continue
            if name == "executed" and ours.opcode == "BRX":
                continue  # the page counts it once, the counter once for each place that lanes go to
            if name == "executed" and tried_again(found, index, figures[name]):
                differs["waits that the page's pass tried again, not counted"] = []
            elif figures[name] != value and (name == "executed" or figures[name] or ours.executed):
                differs.setdefault(name, []).append((ours.text, value, figures[name]))
    return differs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readings", type=Path)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--pair", type=int, nargs="*", help="numbers of pairs; all without it")
    parser.add_argument("--details", action="store_true", help="list the instructions that differ")
    options = parser.parse_args()
    with gzip.open(options.readings, "rt") as file:
        readings = json.load(file)
    rows = [
        r for r in readings["rows"] if "failed" not in r and (not options.pair or r["pair"] in options.pair)
    ]
    launches = [load_case(reference(row["case"])).launch(row["settings"]) for row in rows]
    with Compiler() as compiler:
        results = compiler.compile([(launch, load(options.gpu).target) for launch in launches])
    head = f"{'pair':48} {'counted':>11} {'read':>11}  {'tensor ops':>10}  {'L2 bytes, read':>14} {'':5} {'shared':>6}"
    print(head)
    wrong = 0
    for row, launch, result in zip(rows, launches, results, strict=True):
        if not isinstance(result, Compiled):
            print(f"{name_of(row):48} {'unknown':>11} {'':11}  not compiled: {result.message[:60]}")
            continue
        wrong += other_code(row, result)
        wrong += show(row, count(result, launch), readings["columns"], options.details)
    print(f"{len(rows)} pairs, {wrong} not as read")
    sys.exit(1 if wrong else 0)


def name_of(row: Mapping[str, Any]) -> str:
    """A pair in 48 columns."""
    case = row["case"].removeprefix("benchmarks/counters/")
    return f"{row['pair']:2} {case} {' '.join(f'{k}={v}' for k, v in row['settings'].items())}"[:48]


def other_code(row: Mapping[str, Any], result: Compiled) -> bool:
    """Say so where the compiled code is not the one that was read; whether it is not."""
    ours = code_hash([i.text for i in parse(result.asm["sass"]).instructions])
    if ours == code_hash([line[0] for line in row["instructions"]]):
        return False
    print(f"{name_of(row):48} other machine code than was read")
    return True


def show(row: Mapping[str, Any], found: Counters, columns: list[str], details: bool) -> bool:
    """Print one pair; return whether something differs that has to be equal."""
    metrics = row["metrics"]
    name = name_of(row)
    read, operations = int(metrics[READ_INSTRUCTIONS]), tensor_ops(metrics)
    if found.instructions is None:
        print(f"{name:48} {'unknown':>11} {read:11,}  {found.unknown[0].reason[:60]}")
        return False
    differs = by_instruction(found, row, columns)
    more = read - found.instructions
    if found.assumptions and 0 < more < 0.001 * read:
        differs["waits that the counter's pass tried again, not counted"] = []
        more = 0
    same = more == 0 and found.total_tensor_ops == operations and "executed" not in differs
    traffic = found.traffic
    from_l2 = traffic.l2_to_sm_bytes if traffic else None
    l2 = f"{from_l2 / max(int(metrics[READ_L2]), 1):8.4f}" if from_l2 is not None else "unknown"
    mark = ("exact" if traffic.l2_exact else "most") if traffic else ""
    shared = sum(a.wavefronts for a in traffic.kinds.values()) if traffic else 0
    ratio = f"{shared / metrics[READ_SHARED]:6.3f}" if metrics[READ_SHARED] else f"{shared:6}"
    tensor = "equal" if found.total_tensor_ops == operations else f"{found.total_tensor_ops} {operations}"
    print(f"{name:48} {found.instructions:11,} {read:11,}  {tensor:>10}  {l2:>14} {mark:5} {ratio}")
    for figure, items in differs.items():
        print(f"      {figure}: {len(items)} instructions differ" if items else f"      {figure}")
        for text, ours, theirs in items[: 12 if details else 2]:
            print(f"        {text[:70]:70} {ours:10} {theirs:10}")
    return not same


if __name__ == "__main__":
    main()
