"""The flagship's values: its one test file against every version, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from triton._C.libtriton import ir

ROOT = Path(__file__).parents[2]
FLAGSHIP = ROOT / "cases" / "flash_attention"
TEST_FILE = FLAGSHIP / "test_flashattention_triton.py"
HAS_BLOCK_POINTERS = hasattr(ir.builder, "create_make_block_ptr")

pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")


def interpret(*arguments, path=(), **variables):
    """Run `python *arguments` in a fresh process, with `path` and src importable."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | variables
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, [*path, ROOT / "src"]))
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)


def run_tests(*arguments, **keywords):
    """Run pytest with the interpreter plugin in a fresh process."""
    plugins = ("-p", "tilewright.interpret", "-p", "no:cacheprovider")
    return interpret("-m", "pytest", *plugins, *arguments, **keywords)


def versions():
    for folder in sorted(FLAGSHIP.glob("v[0-9]_*")):
        early = not folder.name.startswith("v6")
        if early and not HAS_BLOCK_POINTERS:
            reason = pytest.mark.skip(reason="block pointers: needs Triton 3.6 or 3.7")
            yield pytest.param(folder, id=f"{folder.name} (needs Triton 3.6 or 3.7)", marks=reason)
        else:
            yield pytest.param(folder, id=folder.name)


VERSIONS = list(versions())
AUTOTUNED = [version for version in VERSIONS if version.values[0].name[:2] in ("v2", "v5", "v6")]


@pytest.mark.parametrize("version", VERSIONS)
def test_version(version):
    result = run_tests(TEST_FILE, path=[version])
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_causal_mask_is_aligned_top_left(version):
    result = interpret(FLAGSHIP / "check_nonsquare_causal.py", path=[version])
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("version", AUTOTUNED)
def test_every_config_runs(version):
    """Not only the first: a GPU's autotuner may choose any of them."""
    arguments = (TEST_FILE, "-k", "ragged or dtypes")
    result = run_tests(*arguments, path=[version], TILEWRIGHT_INTERPRET_AUTOTUNE="all")
    assert result.returncode == 0, result.stdout + result.stderr


def test_two_versions_in_one_process_are_refused():
    script = """
import sys, tilewright.interpret
tilewright.interpret.enable()
sys.path.insert(0, sys.argv[1])
import kernel
sys.path.insert(0, sys.argv[2])
import flashattention_autograd_function_triton
"""
    result = interpret("-c", script, FLAGSHIP / "v6_longest_first", FLAGSHIP / "v5_final")
    assert result.returncode != 0
    assert "belongs to another version" in result.stderr


def test_row_sum():
    result = run_tests(ROOT / "cases" / "row_sum" / "test_row_sum.py")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("original", "broken"),
    [
        ("acc=alpha * O", "acc=O"),
        ("l = alpha * l + tl.sum", "l = l + tl.sum"),
        ("k_pos[None, :] <= q_pos", "k_pos[None, :] < q_pos"),
        ("keep = k_pos[None, :] < N_KEYS", "keep = k_pos[None, :] < N_KEYS + 1"),
        ("(m + tl.log2(l)) * LN_2", "m + tl.log2(l)"),
        ("mask=q_pos < N_QUERIES)\n    # m", "mask=q_pos < N_QUERIES - 1)\n    # m"),
        ("tl.minimum((q_start // K_TILE_SIZE) * K_TILE_SIZE, all_whole)", "all_whole"),
        ("batch_index * stride_vb", "batch_index * stride_kb * 0"),
    ],
    ids=["rescale-O", "rescale-l", "diagonal", "ragged-keys", "natural-log", "last-row", "interior", "batch"],
)
def test_broken_kernels_are_caught(tmp_path, original, broken):
    """The flagship's test file must fail for each of these mistakes."""
    for file in (FLAGSHIP / "v6_longest_first").glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "kernel.py").read_text()
    assert text.count(original) == 1
    (tmp_path / "kernel.py").write_text(text.replace(original, broken))
    result = run_tests("-x", TEST_FILE, path=[tmp_path, FLAGSHIP])
    assert result.returncode == 1, result.stdout + result.stderr
    assert "AssertionError" in result.stdout
