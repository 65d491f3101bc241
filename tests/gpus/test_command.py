"""``tilewright gpus``: tables that fit, JSON that parses, errors that say what is wrong."""

import json
import os
import subprocess
import sys

import pytest

from tilewright.gpus import names

RUN = "from tilewright.cli.gpus import app; app(prog_name='tilewright gpus')"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=False,
    )


def test_list():
    done = run()
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert set(names()) < set(rows)
    assert rows["rtx-4070-super"].split() == [
        *("rtx-4070-super", "AD104", "sm_89", "56", "100", "KiB", "12", "GiB", "504", "71.0")
    ]
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_list_as_json():
    data = json.loads(run("--json").stdout)
    assert data["schema"] == "tilewright.gpus/1"
    assert [row["slug"] for row in data["gpus"]] == names()
    assert data["gpus"][0]["bf16_peak_tflops"] == pytest.approx(312, rel=0.01)


def test_show():
    done = run("show", "mi355x")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    figure = next(line for line in lines if line.startswith("bf16_fp32acc 4,096 operations / clock / SM ["))
    source = next(line for line in lines if line.startswith(figure.split()[-1]))
    assert "AMD CDNA 4 white paper, table of operations per clock per CU" in source
    assert "l2_gbps unknown" in lines
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_show_as_json():
    data = json.loads(run("show", "h100", "--json").stdout)
    assert (data["slug"], data["limits"]["shared_bytes_per_sm"]) == ("h100-sxm", 233472)


@pytest.mark.parametrize(
    ("name", "message"),
    [("rtx-4080", "unknown GPU 'rtx-4080'"), ("absent.toml", "absent.toml: cannot be read")],
)
def test_bad_input_is_one_line_on_stderr(name, message):
    done = run("show", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_no_color_means_plain_text():
    forced = run("show", "l4", FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b[" in forced.stdout
    plain = run("show", "l4", FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b" not in plain.stdout


def test_help_has_an_example():
    assert "tilewright gpus show rtx-4070-super" in run("--help").stdout
    assert "show ./mine.toml" in " ".join(run("show", "--help").stdout.split())
