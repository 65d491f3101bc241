"""The wheel holds everything and works outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """A built wheel's content in a folder of its own."""
    built, folder = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_data_and_types_are_in_the_wheel(unpacked):
    package = unpacked / "tilewright"
    assert (package / "py.typed").is_file()
    data = ("gpus/catalog", "report/schemas", "report/assets", "byhand/assets", "lint/examples")
    for folder in data:
        in_checkout = {p.name for p in (ROOT / "src/tilewright" / folder).iterdir() if p.is_file()}
        assert {p.name for p in (package / folder).iterdir()} == in_checkout
    assert len(list((package / "gpus/catalog").glob("*.toml"))) >= 16


def test_metadata_is_complete(unpacked):
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    text = metadata.read_text()
    for field in ("License-Expression: Apache-2.0", "Requires-Python: >=3.10", "Summary:", "Requires-Dist: triton"):
        assert field in text
    needed = [line for line in text.splitlines() if line.startswith("Requires-Dist") and "extra" not in line]
    assert not any("torch" in line for line in needed)


def test_the_wheel_works_outside_the_checkout(unpacked, tmp_path):
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n"
        "@triton.jit\ndef double(x_ptr, n, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)\n"
    )
    command = [sys.executable, "-c", "from tilewright.cli.main import main; main()", "explain", "k.py:double"]
    command += ["--args", "x_ptr: fp32[1000], n: 1000, BLOCK: constexpr 128", "--grid", "8"]
    env = {**os.environ, "PYTHONPATH": str(unpacked), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "8 programs" in done.stdout
    where = "import tilewright; print(tilewright.__file__)"
    found = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert found.stdout.startswith(str(unpacked))
