"""Counted against read: Nsight Compute's counters of kernels on an NVIDIA H200 (results/, made by benchmarks/counters).

Nothing was fitted to these kernels. The compiled code has to be the one that was read, so they need Triton 3.6.
"""

import csv
import gzip
import io
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tilewright.compile import Compiled
from tilewright.gpus import load
from tilewright.launch import load_case
from tilewright.sass.count import count

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "counters"))
from read import code_hash  # noqa: E402

READINGS = [
    json.loads(gzip.decompress((ROOT / f"results/h200_counters_{name}.json.gz").read_bytes()))
    for name in ("read", "rules")
]
COLUMNS = READINGS[0]["columns"]
ROWS = [row for readings in READINGS for row in readings["rows"] if "failed" not in row]
PIPES = ("alu", "fma", "lsu", "xu", "fp64", "uniform", "tensor", "tma", "cbu")
UNKNOWN = {
    # Control depends on a floating-point value: of a division, a root, or an angle that is too large.
    **dict.fromkeys(["sines", "sines_of_some"], "control depends on a value that is not known: FSETP"),
    **dict.fromkeys(["divisions", "roots", "wide_divisions"], "depends on a value that is not known: F"),
    # On what is in memory.
    **dict.fromkeys(["atomics_of_all_kinds", "attention_varlen"], "depends on a value that is not known: it is loaded"),
    **dict.fromkeys(["warp_sync", "votes"], "a WARPSYNC of lanes in a register is not understood"),
}
"""Cases of which the counts are an honest unknown, and why; nothing else may be."""
CLUSTERS = "programs of 2 blocks (clusters) are not counted yet"
WAITED = {"product_device_descriptors": 312, "product_partitioned": 4}
"""Cases where the hardware tried waits again on the very pass that the counter was read on, and how often at most."""

BROKEN_ROWS = {
    "product_device_descriptors", "product_specialised", "product_loop_specialised", "product_partitioned"
}  # fmt: skip
"""Cases where tiles of tensor copies begin or end inside a sector: what they fetch is not known."""
COMPILED_OTHERWISE = {"product_scaled"}
"""Cases of which ptxas made other code on one of the machines that these tests ran on, by the same versions."""


def name_of(row) -> str:
    return row["case"].rpartition(":")[2]


def unknown_because(row) -> str | None:
    return CLUSTERS if "num_ctas" in row["settings"] else UNKNOWN.get(name_of(row))


def case_file(name: str) -> str:
    return f"{ROOT / name}" if ".py:" in name else f"{ROOT / 'benchmarks/counters/case.py'}:{name}"


def row_id(row) -> str:
    return f"{row['case'].rpartition('/')[2]}-" + ",".join(f"{k}={v}" for k, v in row["settings"].items())


@pytest.fixture(scope="session")
def counted(compiler):
    """Count a row's launch for the GPU that was read, once."""
    found = {}

    def counted(row):
        key = row_id(row)
        if key not in found:
            launch = load_case(case_file(row["case"])).launch(row["settings"])
            (result,) = compiler.compile([(launch, load("h200").target)])
            assert isinstance(result, Compiled), result
            found[key] = count(result, launch)
        return found[key]

    return counted


def same_code(row, found) -> bool:
    """Whether what was counted is the code that was read, where the reading holds its hash."""
    if "code" not in row or row["code"] == code_hash([i.text for i in found.by_instruction]):
        return True
    assert name_of(row) in COMPILED_OTHERWISE, "the compiler made other code than was read"
    return False


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_what_was_counted_is_what_was_read(row, counted, published_compiler):
    found, metrics = counted(row), row["metrics"]
    reason = unknown_because(row)
    if reason:
        assert found.instructions is None
        assert reason in found.unknown[0].reason
        assert reason == CLUSTERS or found.unknown[0].place.line
        return
    if not same_code(row, found):
        return
    operations = sum(
        value
        for name, value in metrics.items()
        if name.startswith("sm__ops_path_tensor_src_") and "sparsity" not in name
    )
    assert found.total_tensor_ops == operations
    pipes = {p: metrics.get(f"sm__inst_executed_pipe_{p}.sum", 0) - found.by_pipe.get(p, 0) for p in PIPES}
    more = metrics["sm__inst_executed.sum"] - found.instructions
    if found.assumptions and more:
        assert 0 < more <= WAITED[name_of(row)]
        # Read on another pass, with other waits.
        assert min(pipes.pop("cbu"), pipes.pop("alu")) >= 0
    assert not any(pipes.values()), pipes
    if name_of(row) not in WAITED:
        assert more == 0
    if name_of(row) in BROKEN_ROWS:
        assert found.traffic.l2_to_sm_bytes is None
        assert "bytes from L2" in {u.what for u in found.unknown}
        return
    from_l2 = metrics["l1tex__m_xbar2l1tex_read_bytes.sum"]
    atomics = 32 * metrics.get("l1tex__m_xbar2l1tex_read_sectors_mem_global_op_atom.sum", 0)
    if found.traffic.l2_exact:
        assert found.traffic.l2_to_sm_bytes == from_l2 - atomics
    else:
        assert found.traffic.l2_to_sm_bytes >= from_l2 - atomics


@pytest.mark.parametrize("row", [r for r in ROWS if not unknown_because(r)], ids=row_id)
def test_every_instruction_is_executed_as_often_as_read(row, counted, published_compiler):
    found = counted(row)
    if not same_code(row, found):
        return
    sectors = [0, 0]
    for index, (ours, figures) in enumerate(zip(found.by_instruction, row["instructions"], strict=False)):
        read = dict(zip(COLUMNS, figures, strict=True))
        near = found.by_instruction[max(index - 3, 0) : index + 4]
        waits = ours.executed == 0 or any("TRYWAIT" in i.text or "TRY_ALLOC" in i.text for i in near)
        if found.assumptions and waits:
            # The hardware may have tried a wait again on the pass of the page.
            assert ours.executed <= read["executed"], ours.text
        elif ours.opcode == "BRX":
            # The counter has it once for each place that lanes go to, as we count; the page once.
            assert ours.executed >= read["executed"], ours.text
        else:
            assert ours.executed == read["executed"], ours.text
        access = ours.access
        if access is not None and access.sectors and not read["local_sectors"]:
            # The page's sectors of single LDGSTS are off by up to 2 % where the bytes from L2 agree exactly.
            tolerance = 0.02 if "LDGSTS" in ours.text else 0
            assert access.sectors == pytest.approx(read["sectors"], rel=tolerance), ours.text
            sectors[0] += access.sectors
            sectors[1] += read["sectors"]
        if access is not None and access.wavefronts and read["wavefronts"] and "LDGSTS" not in ours.text:
            assert access.wavefronts == read["wavefronts"], ours.text
    assert sectors[0] == pytest.approx(sectors[1], rel=0.01)


def test_what_a_single_tensor_copy_brings_is_not_known(counted, published_compiler):
    """Mbarriers wait for the bytes of all together; no instruction says its share, and none is said to be 0."""
    (row,) = [r for r in ROWS if r["case"] == "product_descriptors" and not r["settings"]]
    found = counted(row)
    copies = [i for i in found.by_instruction if i.opcode == "UTMALDG"]
    assert copies
    assert {(i.kind, i.access) for i in copies} == {("tensor copies in", None)}
    assert (
        found.traffic.kinds["tensor copies in"].bytes == row["metrics"]["l1tex__m_xbar2l1tex_read_bytes.sum"]
    )


FLAGSHIP = defaultdict(list)
_PAGE = gzip.decompress((ROOT / "results/h200_flagship_instructions.csv.gz").read_bytes()).decode()
for _row in csv.DictReader(io.StringIO(_PAGE)):
    FLAGSHIP[_row["kernel"]].append(_row)


@pytest.mark.parametrize("name", FLAGSHIP)
def test_flagship_instruction_by_instruction(name, explain_counts, published_compiler):
    """Executed, global sectors and shared wavefronts of every instruction, as Nsight Compute's source page has them."""
    version, tile, warps, stages = name.split()
    q, k = tile.split("x")
    found = explain_counts(version, "h200", q=int(q), k=int(k), warps=int(warps[1:]), stages=int(stages[1:]))
    by_pc = {i.pc: i for i in found.by_instruction}
    checked = Counter()
    for row in FLAGSHIP[name]:
        ours = by_pc.get(int(row["offset"]))
        executed = int(row["Instructions Executed"])
        if ours is None:
            assert executed == 0  # padding behind the last instruction
            continue
        assert ours.executed == executed, ours.text
        access = ours.access
        for figure, column in (
            ("sectors", "L2 Theoretical Sectors Global"),
            ("wavefronts", "L1 Wavefronts Shared"),
            ("ideal_wavefronts", "L1 Wavefronts Shared Ideal"),
        ):
            read = int(row[column] or 0)
            if read:
                assert getattr(access, figure) == read, (ours.text, figure)
                checked[figure] += 1
    assert checked["sectors"] > 5
    assert checked["wavefronts"] > 10


H200 = """
v0 16 16 4 3 0 1580679168 50331648 344694784 206158430208 8606711808
v0 64 32 4 3 0 344854528 6291456 18186240 137438953472 2164260864
v0 64 32 8 3 0 619425792 20971520 31940608 206158430208 2164260864
v4 64 32 4 3 0 222121984 6291456 18358272 137438953472 2164260864
v4 64 128 4 2 0 127963136 3145728 8183808 137438953472 2164260864
v4 128 64 8 3 0 159977472 4194304 9445376 137438953472 1090519040
v4 128 128 8 3 0 127365120 3145728 6168576 137438953472 1090519040
v0 16 16 4 3 1 1648082944 50331648 344694784 206158430208 8606711808
v0 64 32 4 3 1 384651264 6291456 18186240 137438953472 2164260864
v0 64 32 8 3 1 697331712 20971520 31940608 206158430208 2164260864
v4 64 32 4 3 1 117625472 3194880 9584640 69793218560 1107296256
v4 64 128 4 2 1 73769984 1622016 4501504 70866960384 1124073472
v4 128 64 8 3 1 89299456 2162688 5128192 70866960384 570425344
v4 128 128 8 3 1 72847872 1622016 3502080 70866960384 570425344
"""
"""Version, tiles, warps, stages, causal; inst_executed, inst_executed of the tensor and the LSU pipe, tensor
operations, bytes from L2: Nsight Compute 2025.3.1 on one H200, N = 4096, D = 64, 32 heads, bf16."""


@pytest.mark.parametrize("line", H200.strip().splitlines())
def test_flagship_counters_on_an_h200(line, explain_counts, published_compiler):
    version, *figures = line.split()
    q, k, warps, stages, causal, instructions, tensor, lsu, operations, from_l2 = map(int, figures)
    found = explain_counts(version, "h200", q=q, k=k, warps=warps, stages=stages, causal=bool(causal))
    assert found.instructions == instructions
    assert found.by_pipe["tensor"] == tensor
    assert found.by_pipe["lsu"] == lsu
    assert found.total_tensor_ops == operations
    assert found.traffic.l2_to_sm_bytes == from_l2
    assert found.traffic.l2_exact
    assert not found.unknown
