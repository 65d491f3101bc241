"""Files that are hard to read: deep expressions, other letters, odd names; and places in them."""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest

from tilewright.lint import RULES, LintRule, lint_text
from tilewright.lint.files import lint_file, python_files

HEAD = "import triton\nimport triton.language as tl\n"
BAD = HEAD + "@triton.jit\ndef kernel(x):\n    x.to(tl.float16)\n"


@pytest.mark.parametrize("length", [100, 500, 900, 3000])
@pytest.mark.parametrize(
    "form", ["kernel[(1, x_ptr{})](s)", "y = x_ptr{}", "tl.store(x_ptr{}, 0.0)", "y = tl.where(x_ptr{}, s, -1e6)"]
)
@pytest.mark.parametrize("step", [" + pid * s", " * s", ".to(tl.int32)", "[0]"])
def test_long_expressions_lose_nothing(length, form, step):
    text = HEAD + "@triton.jit\ndef kernel(x_ptr, s):\n    pid = tl.program_id(0)\n    s.to(tl.float16)\n"
    host = "\ndef run(x_ptr, s, pid):\n" if form.startswith("kernel") else ""
    result = lint_text("deep.py", f"{text}{host}    {form.format(step * length)}\n")
    assert result.unreadable is not None or ("dropped-result", 6) in {(m.rule, m.line) for m in result.mistakes}


def test_a_file_with_a_long_expression_leaves_the_others_their_findings(run, tmp_path):
    (tmp_path / "deep.py").write_text(HEAD + "@triton.jit\ndef k(x):\n    pass\n\nk[(1, x" + ".to(x)" * 700 + ")](1)\n")
    (tmp_path / "other.py").write_text(BAD)
    done = run("lint", tmp_path)
    assert "Traceback" not in done.stderr
    assert "other.py:5:5: error" in done.stdout


@pytest.mark.parametrize(
    "value", ["1" + "0" * 400, "float('inf')", "float('nan')", "float('x')", "2 ** 2 ** 20", "(-8) ** 0.5"]
)
def test_numbers_of_any_size(value):
    text = HEAD + "@triton.jit\ndef kernel(x):\n    i = tl.arange(0, {0})\n"
    text += "    y = tl.load(x + i, mask=i < 3, other={0})\n"
    text += "    tl.store(x, tl.where(y == {0}, tl.exp(y), {0}))\n\nkernel[(1, {0})](1)\n"
    assert lint_text("kernel.py", text.format(value)).unreadable is None


def test_a_rule_that_fails_is_named_and_the_others_stand():
    def fail(file):
        raise ZeroDivisionError("oh")

    faulty = LintRule("faulty", "error", "", "", fail)
    result = lint_text("kernel.py", BAD, [faulty, *RULES])
    assert result.unreadable == "the rule faulty failed: ZeroDivisionError: oh"
    assert [m.rule for m in result.mistakes] == ["dropped-result"]


def test_columns_count_letters():
    text = HEAD + "@triton.jit\ndef kernel(x):\n    é = '\U0001f600é'; x.to(tl.float16)\n"
    (one,) = lint_text("kernel.py", text).mistakes
    line = text.splitlines()[one.line - 1]
    assert line[one.column - 1 : one.end_column] == "x.to(tl.float16)"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (BAD.encode("utf-8-sig"), 5),
        (BAD.replace("\n", "\r\n").encode(), 5),
        (BAD.replace("\n", "\r").encode(), 5),
        (("# -*- coding: cp1252 -*-\n# é\n" + BAD).encode("cp1252"), 7),
    ],
)
def test_encodings_and_line_ends(tmp_path, content, line):
    (tmp_path / "kernel.py").write_bytes(content)
    assert [m.line for m in lint_file(tmp_path / "kernel.py").mistakes] == [line]


def test_a_notebook_is_named_as_one(run, tmp_path):
    (tmp_path / "a.ipynb").write_text('{"cells": [{"source": ["import triton"]}]}')
    done = run("lint", tmp_path / "a.ipynb")
    assert done.returncode == 2
    assert "a notebook" in done.stdout
    assert run("lint", tmp_path).returncode == 0


def test_a_file_is_read_once(tmp_path):
    (tmp_path / "kernel.py").write_text(BAD)
    assert len(list(python_files([tmp_path, tmp_path / "kernel.py", tmp_path / "." / "kernel.py"]))) == 1


def test_a_file_that_does_not_parse_has_its_line(run, tmp_path):
    (tmp_path / "broken.py").write_text("import triton\n\ndef (\n")
    data = json.loads(run("lint", tmp_path, "--json").stdout)
    assert [u["line"] for u in data["unreadable"]] == [3]


def test_sarif_of_odd_names_and_of_what_is_no_rule(run, tmp_path):
    """RFC 3986: a space and a hash in a path are written in percents; every result has a rule in the driver's list."""
    (tmp_path / "my kernel#1.py").write_text(BAD + "# tilewright: ignore\n")
    (tmp_path / "broken.py").write_text("import triton\n\ndef (\n")
    (one,) = json.loads(run("lint", ".", "--format", "sarif", cwd=tmp_path).stdout)["runs"]
    rules = [r["id"] for r in one["tool"]["driver"]["rules"]]
    assert {r["ruleId"] for r in one["results"]} == {"dropped-result", "unused-ignore", "unreadable"}
    for result in one["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert (tmp_path / unquote(place["artifactLocation"]["uri"])).is_file()
        assert not set(place["artifactLocation"]["uri"]) & set(" #")
    lines = {r["ruleId"]: r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in one["results"]}
    assert lines == {"dropped-result": 5, "unused-ignore": 6, "unreadable": 3}


def test_rules_may_be_listed_with_commas(run, tmp_path):
    (tmp_path / "kernel.py").write_text(BAD)
    assert run("lint", tmp_path, "--ignore", "exp-in-loop,dropped-result").returncode == 0
    assert run("lint", tmp_path, "--select", "exp-in-loop, dropped-result").returncode == 1


@pytest.mark.parametrize("package", ["triton", "torch"])
def test_installed_kernels_are_read_without_a_fall(package):
    module = pytest.importorskip(package)
    folder = {"triton": "", "torch": "_inductor"}[package]
    results = [lint_file(p) for p in python_files([Path(module.__file__).parent / folder])]
    assert sum(r.kernels for r in results) > 10
    assert [r.path for r in results if r.unreadable] == []
