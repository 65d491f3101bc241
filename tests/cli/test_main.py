"""The commands around explain: help, version, schema, doctor, cache; and what starting costs."""

import json
import os
import subprocess
import sys

import jsonschema
import pytest

import tilewright

COMMANDS = [(), ("explain",), ("gpus",), ("doctor",), ("cache",), ("schema",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c) or "tilewright")
def test_help(run, command):
    done = run(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout
    assert "--help" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_help_without_a_command_lists_them_all(run):
    done = run()
    assert done.returncode == 2
    assert all(command[0] in done.stderr for command in COMMANDS if command)


def test_version(run):
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"{tilewright.__version__}\n")


def test_unknown_command(run):
    done = run("explian")
    assert done.returncode == 2
    assert "explian" in done.stderr


def test_the_schema_is_a_schema(run):
    schema = json.loads(run("schema", "profile").stdout)
    jsonschema.validators.validator_for(schema).check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "tilewright.profile/1"}, schema)


def test_doctor(run):
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    assert "explain works here" in done.stdout
    data = json.loads(run("doctor", "--json").stdout)
    assert data["ok"]
    checks = {check["name"]: check for check in data["checks"]}
    assert {"platform", "python", "triton", "ptxas", "nvdisasm", "compile", "cache"} <= set(checks)
    assert checks["compile"]["found"].startswith("a test kernel for sm_80 in")


def test_doctor_where_the_cache_cannot_be_written(run, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = run("doctor", TILEWRIGHT_CACHE_DIR=str(blocked / "cache"))
    assert done.returncode == 0
    assert "cannot be written, so every explain compiles afresh: set TILEWRIGHT_CACHE_DIR" in done.stdout
    assert "explain works here" in done.stdout


def test_cache(run, tmp_path, kernel_file):
    file = kernel_file("@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n")
    own = {"TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    assert json.loads(run("cache", "--json", **own).stdout)["entries"] == 0
    explain = ("explain", f"{file}:kernel", "--args", "x_ptr: fp32[16]", "--grid", "1")
    assert "from the cache" not in run(*explain, **own).stdout
    assert "from the cache" in run(*explain, **own).stdout
    data = json.loads(run("cache", "--json", **own).stdout)
    # The compiled kernel and its count.
    assert (data["folder"], data["entries"]) == (own["TILEWRIGHT_CACHE_DIR"], 2)
    assert data["bytes"] > 0
    assert "from the cache" not in run(*explain, "--no-cache", **own).stdout
    assert run("cache", "--clear", **own).stdout == f"2 entries deleted from {tmp_path / 'cache'}\n"
    assert run("cache", **own).stdout == f"{tmp_path / 'cache'}: 0 entries, 0 bytes\n"


HEAVY = ("torch", "triton", "numpy", "rich")
EXPLAIN = """
import sys
from tilewright.cli.main import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit as e:
    assert not e.code, e.code
print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)
"""


def loaded_by(arguments):
    code = EXPLAIN.format(arguments=list(arguments), heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    return done.stderr.strip()


def test_nothing_heavy_is_loaded(kernel_file):
    """Explaining loads neither Triton nor torch or rich, and numpy only where something must be counted."""
    file = kernel_file("@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n")
    explain = ("explain", f"{file}:kernel", "--args", "x_ptr: fp32[16]", "--grid", "1")
    assert loaded_by(["--version"]) == "[]"
    assert loaded_by([*explain, "--no-count"]) == "[]"
    assert loaded_by([*explain, "--no-count"]) == "[]"
    assert loaded_by(explain) == "['numpy']"
    assert loaded_by(explain) == "[]"
    assert loaded_by([*explain, "--json"]) == "[]"


def test_a_closed_pipe_is_no_error(kernel_file):
    file = kernel_file("@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n")
    command = (
        f"'{sys.executable}' -m tilewright.cli.main explain '{file}:kernel' --args 'x_ptr: fp32[16]' --grid 1"
    )
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.stderr == ""
