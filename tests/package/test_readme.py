"""Every `tilewright` command that the README and docs show is one that works."""

import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNEL = '''
import triton
import triton.language as tl


@triton.jit
def kernel(x, n, BLOCK: tl.constexpr, y=None, scale=1.0):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * scale, mask=i < n)
'''
BUDGETS = """
gpus = ["h200"]
budgets = ["spilled_registers == 0"]

[[kernels]]
case = "mykernel.py:kernel"
args = "x: fp32[4096], n: 4096, BLOCK: constexpr 128"
grid = "32"
"""
HAS_BLOCK_POINTERS = tuple(map(int, metadata.version("triton").split(".")[:2])) < (3, 8)


def commands():
    """Yield the indented lines of README and docs that start with `tilewright`, continuation lines joined."""
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = file.read_text().replace("\\\n", " ")
        for line in re.findall(r"^ {4}(tilewright .*)$", text, re.MULTILINE):
            if not any(sign in line for sign in ("...", "NAME", "[--")):
                yield pytest.param(line, id=f"{file.name}: {' '.join(line.split()[:4])}")


@pytest.mark.parametrize("line", list(commands()))
def test_command_in_the_docs_works(line, tmp_path):
    words = shlex.split(line, comments=True)[1:]
    (tmp_path / "mykernel.py").write_text(KERNEL)
    (tmp_path / "mycard.toml").write_text('base = "rtx-4090"\nname = "My card"\n')
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mykernel.py").write_text(KERNEL)
    (tmp_path / "my.toml").write_text("x = [1, 2, 3]\n")
    (tmp_path / "tilewright-check.toml").write_text(BUDGETS)
    words = [str(ROOT / w) if w.startswith("cases/") else w for w in words]
    command = [sys.executable, "-m", "tilewright.cli.main", *words]
    if "--serve" in words:
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            process.terminate()
        return
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    needs_pointers = any("flash_attention" in w and not w.endswith("v6") for w in words)
    if needs_pointers and not HAS_BLOCK_POINTERS:
        assert done.returncode == 1
        assert "Triton 3.6 or 3.7" in " ".join((done.stdout + done.stderr).split()) or "--compare" in words
    else:
        assert done.returncode == 0, done.stderr


def test_there_are_commands_to_check():
    assert len(list(commands())) >= 8
