"""Occupancy on NVIDIA against NVIDIA's own calculator and against figures measured on two GPUs."""

import importlib.util
import itertools
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.gpus import Gpu, GpuError, catalog, load
from tilewright.gpus.occupancy import max_registers_per_thread, occupancy, waves

HERE = Path(__file__).parent
MEASURED = json.loads((HERE / "data" / "measured.json").read_text())
INT_MAX = 2**31 - 1

# One GPU for each compute capability. The header in Triton 3.6's wheel (CUDA 12) knows 12.0 as a case of its
# own, so no capability has to stand in for another.
BY_CAPABILITY = {
    (8, 0): "a100-80",
    (8, 6): "rtx-3090",
    (8, 9): "rtx-4070-super",
    (9, 0): "h100-sxm",
    (10, 0): "b200",
    (12, 0): "rtx-5090",
}


@pytest.fixture(scope="module")
def calculator(tmp_path_factory) -> Path:
    """NVIDIA's cuda_occupancy.h, which Triton's wheel carries, made into a program."""
    spec = importlib.util.find_spec("triton")
    origin = spec.origin if spec else None
    assert origin, "Triton must be installed: its wheel carries cuda_occupancy.h"
    include = Path(origin).parent / "backends" / "nvidia" / "include"
    assert (include / "cuda_occupancy.h").exists(), f"no cuda_occupancy.h in {include}"
    compiler = next((c for c in map(shutil.which, ("c++", "g++", "clang++")) if c), None)
    assert compiler, "a C++ compiler (c++, g++ or clang++) is needed to build NVIDIA's calculator"
    program = tmp_path_factory.mktemp("calculator") / "cuda_occupancy"
    source = HERE / "cuda_occupancy.cpp"
    subprocess.run([compiler, "-w", f"-I{include}", str(source), "-o", str(program)], check=True, timeout=120)
    return program


def combinations() -> list[tuple[int, int, int]]:
    """(registers, shared bytes, warps): edges in full, then a fixed random sample; over 10,000."""
    registers = [0, 1, 8, 9, 31, 32, 33, 40, 56, 63, 64, 65, 80, 96, 127, 128, 129, 168, 169, 200, 254, 255]
    shared = [0, 1, 127, 128, 129, 1024, 10752, 24576, 49152, 49153, 65536, 73728, 99327, 101376, 101377]
    shared += [102400, 116736, 166912, 166913, 167936, 232448, 232449, 233472]
    edges = list(itertools.product(registers, shared, (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 31, 32, 33, 48)))
    generator = random.Random(0)
    sample = [
        (generator.randrange(256), generator.randrange(240_000), generator.randrange(1, 34))
        for _ in range(5000)
    ]
    return edges + sample


@pytest.mark.parametrize("capability", BY_CAPABILITY)
def test_agrees_with_nvidias_calculator(calculator, capability):
    gpu = load(BY_CAPABILITY[capability])
    cases = combinations()
    assert len(cases) >= 10_000
    device = (
        *capability,
        gpu.limits.registers_per_sm,
        gpu.limits.shared_bytes_per_sm,
        gpu.limits.max_shared_bytes_per_block,
        gpu.limits.max_threads_per_sm,
    )
    lines = "".join(" ".join(map(str, (*device, *case))) + "\n" for case in cases)
    done = subprocess.run(
        [str(calculator)], input=lines, capture_output=True, text=True, check=True, timeout=120
    )
    answers = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases)
    for case, theirs in zip(cases, answers, strict=True):
        ours = occupancy(gpu, registers=case[0], shared_bytes=case[1], warps=case[2])
        limits = [
            INT_MAX if ours.by_resource[name] is None else ours.by_resource[name]
            for name in ("registers", "shared memory", "warps", "blocks")
        ]
        assert (*limits, ours.programs_per_sm) == theirs, (capability, case)


def test_every_nvidia_gpu_has_the_limits_of_the_one_that_was_compared():
    by_arch = {load(slug).arch: load(slug).limits for slug in BY_CAPABILITY.values()}
    for gpu in catalog():
        if gpu.vendor == "nvidia":
            assert gpu.limits == by_arch[gpu.arch], gpu.slug


@pytest.mark.parametrize("row", MEASURED["rtx_4070_super"]["rows"], ids=lambda row: str(row["config"]))
def test_published_programs_per_sm_on_an_rtx_4070_super(row):
    gpu = load("rtx-4070-super")
    warps = row["config"][2]
    if not row["fits"]:
        full = occupancy(gpu, registers=0, shared_bytes=row["shared_bytes"], warps=warps)
        assert full.programs_per_sm == 0
        assert full.limiter == ("shared memory",)
        assert "114,688 B of shared memory per block" in str(full.reason)
        return
    got = occupancy(gpu, registers=row["registers"], shared_bytes=row["shared_bytes"], warps=warps)
    assert got.by_resource["shared memory"] == row["programs_by_shared"]
    assert got.by_resource["registers"] == row["programs_by_registers"]
    assert got.reason is None


@pytest.mark.parametrize("row", MEASURED["h200"]["rows"])
def test_measured_occupancy_limits_and_waves_on_an_h200(row):
    gpu = load("h200")
    kernel = {"registers": row["registers"], "shared_bytes": row["shared_bytes"], "warps": row["warps"]}
    got = occupancy(gpu, **kernel)
    assert got.by_resource["registers"] == row["limit_registers"]
    # The profiler's limit is for the carve-out that the driver chose, which never cost a program here.
    assert got.by_resource["shared memory"] >= row["limit_shared"]
    assert got.programs_per_sm == min(row["limit_registers"], row["limit_shared"])
    if "carveout_bytes" in row:
        there = occupancy(gpu, **kernel, shared_bytes_per_sm=row["carveout_bytes"])
        assert there.by_resource["shared memory"] == row["limit_shared"]
    assert round(waves(gpu, row["programs"], got.programs_per_sm).waves, 2) == row["waves"]


def test_published_waves_of_a_short_sequence():
    gpu = load("rtx-4070-super")
    three = waves(gpu, 256, 4)
    assert (three.slots, round(three.waves, 2)) == (224, 1.14)
    assert three.last_wave_busy == pytest.approx(32 / 224)
    four = waves(gpu, 256, 3)
    assert (four.slots, round(four.waves, 2)) == (168, 1.52)
    assert waves(gpu, 448, 4).last_wave_busy == 1.0
    assert waves(gpu, 448, 4).waves == 2.0


@pytest.mark.parametrize(("warps", "most"), [(1, 255), (4, 255), (8, 255), (12, 168), (16, 128), (32, 64)])
def test_most_registers_per_thread(warps, most):
    assert max_registers_per_thread(load("rtx-4070-super"), warps) == most


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ({"registers": 32, "shared_bytes": 0, "warps": 33}, "33 warps are 1,056 threads per block"),
        (
            {"registers": 256, "shared_bytes": 0, "warps": 4},
            "256 registers per thread, and a thread may have 255",
        ),
        ({"registers": 129, "shared_bytes": 0, "warps": 16}, "has room for 128 per thread"),
        ({"registers": 32, "shared_bytes": 101377, "warps": 4}, "101,377 B of shared memory per block"),
    ],
)
def test_reason_when_not_one_program_fits(kernel, reason):
    got = occupancy(load("rtx-4090"), **kernel)
    assert got.programs_per_sm == got.warps_resident == got.fraction == 0
    assert reason in str(got.reason)


def test_reason_when_the_carveout_is_too_small():
    got = occupancy(load("h200"), registers=32, shared_bytes=65536, warps=4, shared_bytes_per_sm=65536)
    assert got.programs_per_sm == 0
    assert "the carve-out holds 65,536 B" in str(got.reason)


def test_ties_are_all_named():
    got = occupancy(load("rtx-4070-super"), registers=127, shared_bytes=24576, warps=4)
    assert got.programs_per_sm == 4
    assert got.limiter == ("shared memory", "registers")
    assert got.fraction == pytest.approx(1 / 3)
    assert got.registers_per_program == 128 * 32 * 4
    assert got.shared_bytes_per_program == 25600


@pytest.mark.parametrize(
    "kernel", [(-1, 0, 4), (32, -1, 4), (32, 0, 0)], ids=["registers", "shared_bytes", "warps"]
)
def test_impossible_numbers_are_refused(kernel):
    registers, shared_bytes, warps = kernel
    gpu: Gpu = load("l4")
    with pytest.raises(GpuError, match=r"must (not be negative|be at least 1), got (-1|0)"):
        occupancy(gpu, registers=registers, shared_bytes=shared_bytes, warps=warps)


def test_impossible_grids_are_refused():
    with pytest.raises(GpuError, match="programs must be at least 1, got 0"):
        waves(load("l4"), 0, 1)
    with pytest.raises(GpuError, match="programs_per_sm must be at least 1, got 0"):
        waves(load("l4"), 1, 0)
    with pytest.raises(GpuError, match="64 warps are 2,048 threads"):
        max_registers_per_thread(load("l4"), 64)
