"""Runs the command as a user would: in a process of its own, its output piped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(compile_cache):
    """run("explain", "case.py:v0", cwd=..., NO_COLOR="1") -> CompletedProcess; from the repository's root."""

    def run(*arguments, cwd=ROOT, **environment):
        return subprocess.run(
            [sys.executable, "-m", "tilewright.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, **environment},
            timeout=300,
            check=False,
        )

    return run
