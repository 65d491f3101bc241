"""Occupancy on AMD against LLVM's AMDGPU back end, and what must hold on every GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.gpus import catalog, load
from tilewright.gpus.occupancy import max_registers_per_thread, occupancy

GPUS = {gpu.slug: gpu for gpu in catalog()}
AMD = [slug for slug, gpu in GPUS.items() if gpu.vendor == "amd"]
ALL = st.sampled_from(sorted(GPUS))

# LLVM's published table of the most vector registers for each number of waves per SIMD, gfx90a and gfx940
# (review D138443 of the LLVM project; AMD's "Register pressure in AMD CDNA2 GPUs" has the same).
CDNA_WAVES = {8: 64, 7: 72, 6: 80, 5: 96, 4: 128, 3: 168, 2: 256, 1: 512}


def llvm_says(arch: str, kernels: list[tuple[int, int, int]]) -> list[int]:
    child = Path(__file__).parent / "llvm_occupancy.py"
    request = json.dumps({"arch": arch, "kernels": kernels})
    done = subprocess.run(
        [sys.executable, str(child)], input=request, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(kernels)
    return answers


def waves_per_simd(slug: str, registers: int) -> int:
    got = occupancy(GPUS[slug], registers=registers, shared_bytes=0, warps=1)
    return got.programs_per_sm // GPUS[slug].compute.subpartitions_per_sm


@pytest.mark.parametrize("slug", ["mi250x", "mi300x", "mi355x"])
def test_published_waves_per_simd(slug):
    for count, most in CDNA_WAVES.items():
        assert waves_per_simd(slug, most) == count
        if most < 512:
            assert waves_per_simd(slug, most + 1) == count - 1


@pytest.mark.parametrize("slug", AMD)
def test_waves_by_registers_agree_with_llvm(slug):
    gpu = GPUS[slug]
    registers = range(1, gpu.limits.max_registers_per_thread + 1)
    theirs = llvm_says(gpu.arch, [(n, 0, gpu.target.warp_size) for n in registers])
    assert [waves_per_simd(slug, n) for n in registers] == theirs


@pytest.mark.parametrize("slug", AMD)
def test_waves_by_shared_memory_agree_with_llvm(slug):
    gpu = GPUS[slug]
    # This LLVM does not round shared memory up to the hardware's unit, so only whole units can be compared.
    step = gpu.limits.shared_unit_bytes
    sizes = range(step, gpu.limits.max_shared_bytes_per_block + 1, step)
    kernels = [(8, size, 1 << log) for size in sizes for log in range(6, 11)]
    for (_, size, threads), theirs in zip(kernels, llvm_says(gpu.arch, kernels), strict=True):
        got = occupancy(gpu, registers=8, shared_bytes=size, warps=threads // gpu.target.warp_size)
        # LLVM states waves per SIMD, rounded up when a few waves are spread over more SIMDs.
        ours = -(-got.warps_resident // gpu.compute.subpartitions_per_sm)
        assert ours == theirs, (size, threads)


def test_no_shared_memory_is_no_limit_on_amd():
    got = occupancy(load("mi300x"), registers=64, shared_bytes=0, warps=4)
    assert got.by_resource["shared memory"] is None
    assert got.programs_per_sm == 8


def test_one_work_group_may_have_half_of_a_work_group_processors_shared_memory():
    gpu = load("gfx1100")
    assert occupancy(gpu, registers=96, shared_bytes=65536, warps=8).programs_per_sm == 2
    assert occupancy(gpu, registers=96, shared_bytes=65537, warps=8).programs_per_sm == 0


kernels = st.fixed_dictionaries(
    {"registers": st.integers(0, 520), "shared_bytes": st.integers(0, 260_000), "warps": st.integers(1, 40)}
)


@given(ALL, kernels, st.sampled_from(["registers", "shared_bytes"]), st.integers(0, 50_000))
def test_asking_for_more_never_fits_more(slug, kernel, what, more):
    asked = {**kernel, what: kernel[what] + more}
    assert occupancy(GPUS[slug], **asked).programs_per_sm <= occupancy(GPUS[slug], **kernel).programs_per_sm


@given(ALL, kernels)
def test_what_is_resident_fits_and_one_more_would_not(slug, kernel):
    gpu = GPUS[slug]
    limits = gpu.limits
    got = occupancy(gpu, **kernel)
    n = got.programs_per_sm
    assert n * got.registers_per_program <= limits.registers_per_sm
    assert n * got.shared_bytes_per_program <= limits.shared_bytes_per_sm
    assert got.warps_resident == n * kernel["warps"] <= limits.max_warps_per_sm
    assert 0 <= got.fraction <= 1
    assert got.limiter
    assert all(got.by_resource[name] == n for name in got.limiter)
    assert (got.reason is None) == (n > 0)


@given(ALL, st.integers(1, 32))
def test_most_registers_fit_and_one_more_do_not(slug, warps):
    gpu = GPUS[slug]
    if warps * gpu.target.warp_size > gpu.limits.max_threads_per_block:
        return
    most = max_registers_per_thread(gpu, warps)
    assert occupancy(gpu, registers=most, shared_bytes=0, warps=warps).by_resource["registers"] >= 1
    assert occupancy(gpu, registers=most + 1, shared_bytes=0, warps=warps).by_resource["registers"] == 0
