"""The catalog's figures reproduce the published peaks, agree with each other, and name their sources."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.gpus import GpuError, catalog, load, loading, names, naming

GPUS = catalog()
GEFORCE = ["rtx-3090", "rtx-4070-super", "rtx-4090", "rtx-5090"]
FULL_RATE = ["a100-40", "a100-80", "b200", "h100-pcie", "h100-sxm", "h200", "l4", "l40s"]

by_slug = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.slug)


def test_names():
    assert names() == sorted([*GEFORCE, *FULL_RATE, "mi250x", "mi300x", "mi355x", "rx-7900-xtx"])
    assert [gpu.slug for gpu in GPUS] == names()


@by_slug
def test_rates_reproduce_the_published_peaks(gpu):
    assert {"fp32"} < set(gpu.published_tflops)
    for kind, published in gpu.published_tflops.items():
        # 1 %: vendors round, NVIDIA's L4 and B200 figures most.
        assert gpu.peak_tflops(kind) == pytest.approx(published, rel=0.01), kind


@by_slug
def test_every_figure_has_a_source_and_every_absent_one_a_reason(gpu):
    data = gpu.to_dict()
    for table in (*loading._TABLES, *loading._KEYED_TABLES):
        for figure, value in data[table].items():
            key = f"{table}.{figure}"
            if value is None:
                # Absent where it is the boost clock; absent where there is no such memory.
                optional = key in ("clocks.tensor_ghz", "limits.tensor_memory_columns_per_sm")
                assert optional or gpu.unknown.get(key), key
            else:
                assert len(gpu.sources[key]) > 10, key
    assert set(gpu.unknown).isdisjoint(gpu.sources)


@by_slug
def test_tensor_memory_is_an_sm_100_thing(gpu):
    # NVIDIA PTX ISA: tcgen05 exists on sm_100 and its relatives, not on sm_120.
    assert (gpu.limits.tensor_memory_columns_per_sm == 512) == (gpu.arch == "sm_100")


@by_slug
def test_narrower_types_are_never_slower(gpu):
    ops = gpu.tensor_ops_per_clock_per_sm
    chain = ["tf32_fp32acc", "bf16_fp32acc", "fp8_fp32acc", "fp4_fp32acc"]
    rates = [ops[kind] for kind in chain if kind in ops]
    assert rates == sorted(rates)
    assert ops["bf16_fp32acc"] == ops["fp16_fp32acc"]


@pytest.mark.parametrize("slug", GEFORCE)
def test_geforce_halves_the_rate_for_fp32_accumulation(slug):
    ops = load(slug).tensor_ops_per_clock_per_sm
    assert (ops["fp16_fp32acc"], ops["bf16_fp32acc"], ops["tf32_fp32acc"]) == (512, 512, 256)
    assert ops["fp16_fp16acc"] == 2 * ops["fp16_fp32acc"]
    if "fp8_fp16acc" in ops:
        assert ops["fp8_fp16acc"] == 2 * ops["fp8_fp32acc"]


@pytest.mark.parametrize("slug", FULL_RATE)
def test_data_centre_gpus_do_not(slug):
    ops = load(slug).tensor_ops_per_clock_per_sm
    assert ops["fp16_fp16acc"] == ops["fp16_fp32acc"]
    assert ops.get("fp8_fp16acc", ops.get("fp8_fp32acc")) == ops.get("fp8_fp32acc")


def test_figures_of_the_flagships_gpu():
    """Figures of the published study of the flagship on an RTX 4070 SUPER."""
    gpu = load("rtx-4070-super")
    assert (gpu.compute.sms, gpu.limits.max_warps_per_sm, gpu.limits.max_blocks_per_sm) == (56, 48, 24)
    assert gpu.memory.l2_bytes == 50331648
    assert gpu.memory.l2_gbps == pytest.approx(3100, rel=0.01)
    assert gpu.peak_tflops("bf16_fp32acc", clock_ghz=2.52) == pytest.approx(72.2, rel=0.001)


def test_hopper_gives_mma_sync_two_thirds_of_its_rate():
    """Nsight Compute on an H200 states 2,730.67 for HMMA and 4,096 for HGMMA."""
    gpu = load("h200")
    for kind, rate in gpu.tensor_sync_ops_per_clock_per_sm.items():
        assert rate == pytest.approx(gpu.tensor_ops_per_clock_per_sm[kind] * 2 / 3, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("RTX 4070 SUPER", "rtx-4070-super"),
        ("4070-super", "rtx-4070-super"),
        ("NVIDIA GeForce RTX 4070 SUPER", "rtx-4070-super"),
        ("rtx_3090", "rtx-3090"),
        ("h100", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("A100", "a100-80"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA L4", "l4"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Radeon RX 7900 XTX", "rx-7900-xtx"),
        ("sm_80", "a100-80"),
        ("sm_86", "rtx-3090"),
        ("sm_89", "rtx-4070-super"),
        ("cuda:sm_89", "rtx-4070-super"),
        ("sm_90a", "h200"),
        ("sm_100", "b200"),
        ("sm_120", "rtx-5090"),
        ("gfx90a", "mi250x"),
        ("gfx942", "mi300x"),
        ("gfx950", "mi355x"),
        ("gfx1100", "rx-7900-xtx"),
    ],
)
def test_names_that_people_use(name, slug):
    assert load(name).slug == slug


def test_names_lead_to_files_and_no_alias_means_two():
    assert sorted(naming.ALIASES) == names()
    every = [*naming.ALIASES, *(alias for group in naming.ALIASES.values() for alias in group)]
    assert len(every) == len(set(every))
    assert all(naming.normalise(alias) == alias for alias in every)
    for arch, slug in naming.REPRESENTATIVES.items():
        assert load(slug).arch == arch.removesuffix("a") or load(slug).arch == arch
    assert {gpu.arch for gpu in GPUS} <= set(naming.REPRESENTATIVES)
    assert load("h100").aliases == naming.ALIASES["h100-sxm"]


def test_unknown_name_gets_the_closest_ones():
    with pytest.raises(GpuError, match=r"unknown GPU 'rtx-4080'; did you mean .*'rtx-4090'"):
        load("rtx-4080")


def test_one_name_reads_one_file(monkeypatch):
    read = []
    original = Path.read_text

    def recording(self, *args, **kwargs):
        read.append(self.name)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", recording)
    load("sm_89")
    assert read == ["rtx-4070-super.toml"]


def test_the_room_imports_nothing_heavy():
    code = (
        "import sys; from tilewright.gpus import load; import tilewright.gpus.occupancy; load('h200');"
        "print([m for m in ('triton', 'torch', 'numpy', 'rich', 'typer') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@by_slug
def test_a_gpu_is_hashable_picklable_and_json(gpu):
    assert pickle.loads(pickle.dumps(gpu)) == gpu
    assert hash(gpu) == hash(load(gpu.slug))
    data = json.loads(json.dumps(gpu.to_dict()))
    assert data["schema"] == "tilewright.gpu/1"
    assert data["compute"]["sms"] == gpu.compute.sms


@by_slug
def test_peak_of_a_type_that_is_not_there_is_none(gpu):
    assert gpu.peak_tflops("no_such_type") is None
