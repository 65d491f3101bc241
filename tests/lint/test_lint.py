"""Lint: every rule by its own example, what silences it, every form of output, and files that cannot be read."""

import json
import re
import textwrap
from pathlib import Path

import jsonschema
import pytest

from tilewright.lint import RULES, lint_text, rule
from tilewright.lint.files import lint_file, python_files
from tilewright.report.schema import schema

ROOT = Path(__file__).parents[2]
HEAD = "import triton\nimport triton.language as tl\n"
KERNEL = """
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    x.to(tl.float16){}
    tl.store(x_ptr + i, x, mask=i < n)
"""
by_rule = pytest.mark.parametrize("one", RULES, ids=lambda r: r.id)


def found(text, head=HEAD):
    result = lint_text("kernel.py", head + textwrap.dedent(text))
    assert result.unreadable is None
    return [(m.rule, m.level) for m in result.mistakes]


def lines(text):
    return [(m.rule, m.line) for m in lint_text("kernel.py", HEAD + textwrap.dedent(text)).mistakes]


@by_rule
def test_the_wrong_example_has_the_mistake_and_no_other(one):
    result = lint_text("wrong.py", one.example[0])
    assert {m.rule for m in result.mistakes} == {one.id}
    for m in result.mistakes:
        assert 1 <= m.line <= m.end_line <= len(one.example[0].splitlines())
        assert m.message
        assert m.message[-1] not in ".:"


@by_rule
def test_the_right_example_has_none(one):
    assert lint_text("right.py", one.example[1]).mistakes == []


@by_rule
def test_examples_differ_in_little(one):
    wrong, right = (set(text.splitlines()) for text in one.example)
    assert 1 <= len(wrong ^ right) <= 12


# Beyond the examples: what each rule has to see, and what it has to let pass.


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("import triton\nimport triton.language as tl\n", "tl.arange(0, 96)"),
        ("import triton\nfrom triton import language as L\n", "L.arange(0, 96)"),
        ("import triton\nfrom triton.language import arange\n", "arange(0, 96)"),
        ("import triton as t\nimport triton.language as tl\n", "tl.arange(0, 96)"),
        ("from triton import jit\nimport triton.language as tl\n", "tl.arange(0, 96)"),
        ("import triton\n", "triton.language.arange(start=0, end=96)"),
        ("from vendor.triton_utils import tl, triton\n", "tl.arange(0, 96)"),
        ("from .compat import triton\nfrom .compat import tl as T\n", "T.arange(0, 96)"),
    ],
)
def test_triton_by_any_name(head, call):
    decorator = "jit" if "import jit" in head else "t.jit" if "as t\n" in head else "triton.jit"
    assert found(f"\n@{decorator}\ndef kernel(x):\n    i = {call}\n    return i\n", head) == [
        ("arange-power-of-two", "error")
    ]


@pytest.mark.parametrize("decorator", ["triton.jit", "triton.jit(do_not_specialize=['n'])"])
def test_decorators(decorator):
    assert found(f"\n@{decorator}\ndef kernel(n):\n    tl.zeros((4,), tl.int32)\n") == [("dropped-result", "error")]


def test_gluon_kernels_are_kernels():
    head = "from triton.experimental import gluon\nfrom triton.experimental.gluon import language as gl\n"
    assert found("\n@gluon.jit\ndef kernel(n):\n    gl.arange(0, 96)\n", head)[0][0] in (
        "arange-power-of-two",
        "dropped-result",
    )


def test_gluon_handed_on():
    head = "from vendor.triton_utils import gl, gluon\n"
    assert found("\n@gluon.jit\ndef kernel(n):\n    i = gl.arange(0, 96)\n    return i\n", head) == [
        ("arange-power-of-two", "error")
    ]


def test_other_functions_are_left_alone():
    assert found("\ndef host(x):\n    x.to(y)\n    tl.arange(0, 3)\n") == []
    assert lint_text("a.py", "def f(x):\n    x.to(3)\n").kernels == 0


def test_what_a_launch_passes_is_seen():
    text = """
        @triton.jit
        def kernel(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 1.0)

        def run(x):
            kernel[(1,)](x, BLOCK=100)
            kernel[(1,)](x, BLOCK=128)
    """
    assert lines(text) == [("arange-power-of-two", 9)]


def test_a_helper_may_have_constexprs_of_its_caller():
    text = """
        @triton.jit
        def helper(x, n):
            tl.store(x + tl.arange(0, n), 1.0)

        @triton.jit
        def kernel(x, N: tl.constexpr):
            helper(x, N)
    """
    assert found(text) == []


def test_padding_of_absolute_values_is_a_note():
    text = """
        @triton.jit
        def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i, mask=i < n, other=0)
            tl.store(y_ptr, tl.max({}, 0))
    """
    assert found(text.format("x")) == [("padded-maximum", "note")]
    assert found(text.format("tl.abs(x)")) == []


def test_a_mask_of_positions_may_be_finite_and_one_of_memory_not():
    text = """
        @triton.jit
        def kernel(x_ptr, m_ptr, y_ptr, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            keep = {}
            x = tl.where(keep, tl.load(x_ptr + i), -1e6)
            tl.store(y_ptr + i, tl.exp2(x - tl.max(x, 0)))
    """
    assert found(text.format("i < n")) == [("finite-sentinel", "note")]
    assert found(text.format("tl.load(m_ptr + i)")) == [("finite-sentinel", "warning")]
    assert found(text.format("tl.load(m_ptr + i).to(tl.int1) & (i < n)")) == [("finite-sentinel", "warning")]
    # A length that is loaded makes a mask of positions.
    assert found(text.format("i < tl.load(m_ptr)")) == [("finite-sentinel", "note")]


@pytest.mark.parametrize(("value", "seen"), [("0.1", True), ("0.25", False), ("1.0", False), ("float('inf')", False)])
def test_equality_with_a_number_that_is_held_exactly_passes(value, seen):
    text = "\n@triton.jit\ndef kernel(p):\n    x = tl.load(p)\n    tl.store(p, tl.where(x == {}, 1.0, x))\n"
    assert bool(found(text.format(value))) == seen


def test_program_ids_in_branches_and_grids_that_grow_pass():
    text = """
        @triton.jit
        def kernel(x, THREE: tl.constexpr):
            i = tl.program_id(0)
            if THREE:
                i += tl.program_id(2)
            tl.store(x + i, tl.program_id(1))

        def run(x, n):
            grid = (n, 1)
            {}
            kernel[grid](x, THREE=False)
    """
    assert found(text.format("pass")) == []
    assert found(text.replace("(n, 1)", "(n,)").format("pass")) == [("program-id-without-axis", "warning")]
    assert found(text.replace("(n, 1)", "(n,)").format("grid += (2,)")) == []


def test_a_config_s_hook_may_put_back():
    text = """
        @triton.autotune(configs=[triton.Config({{'B': 64}}{})], key=['n'])
        @triton.jit
        def kernel(x_ptr, n, B: tl.constexpr):
            tl.atomic_{}(x_ptr + tl.arange(0, B), 1.0)
    """
    assert found(text.format("", "add")) == [("autotune-in-place", "warning")]
    assert found(text.format(", pre_hook=reset", "add")) == []
    assert found(text.format("", "max")) == []


def test_grids():
    text = """
        @triton.jit
        def kernel(x):
            tl.store(x + tl.program_id(0) + tl.program_id(1), 1.0)

        def run(x, b, h):
            kernel[{}](x)
    """
    assert found(text.format("(1, 70000)")) == [("grid-axis-limit", "error")]
    assert found(text.format("(70000, 8)")) == []
    assert found(text.format("(1, b * h)")) == [("grid-axis-limit", "note")]
    assert found(text.format("lambda meta: (1, b * h)")) == [("grid-axis-limit", "note")]


def test_configs_are_compared_with_their_defaults():
    text = """
        @triton.autotune(configs=[triton.Config({{'A': 1, 'B': 2}}), triton.Config({})], key=[])
        @triton.jit
        def kernel(x, A: tl.constexpr, B: tl.constexpr):
            tl.store(x, A + B)
    """
    assert found(text.format("{'B': 2, 'A': 1}, num_warps=4, num_stages=3")) == [("autotune-same-config", "warning")]
    assert found(text.format("{'B': 2, 'A': 1}, num_warps=8")) == []


# Comments that silence.


@pytest.mark.parametrize(
    "text",
    [
        KERNEL.format("  # tilewright: ignore[dropped-result]"),
        KERNEL.format("  # tilewright: ignore"),
        KERNEL.format("  # noqa  # tilewright:ignore[exp-in-loop, dropped-result]"),
        KERNEL.format("").replace("    x.to", "    # tilewright: ignore[dropped-result]\n    x.to"),
        KERNEL.format("").replace("constexpr):", "constexpr):  # tilewright: ignore[dropped-result]"),
        KERNEL.format("").replace("def kernel", "# tilewright: ignore[dropped-result]\ndef kernel"),
    ],
)
def test_comments_silence_a_line_or_a_function(text):
    assert found(KERNEL.format("")) == [("dropped-result", "error")]
    assert found(text) == []


def test_a_text_that_speaks_of_such_a_comment_is_none():
    text = KERNEL.format("").replace("x.to(tl.float16)", "x.to('# tilewright: ignore')")
    assert found(text) == [("dropped-result", "error")]
    assert found('\nWORDS = "# tilewright: ignore"\n') == []


def test_a_comment_for_another_rule_does_not_and_is_named():
    text = KERNEL.format("  # tilewright: ignore[exp-in-loop]")
    assert found(text) == [("dropped-result", "error"), ("unused-ignore", "note")]
    # With only other rules looked for, it may be of use.
    assert lint_text("k.py", HEAD + text, [rule("float-equality")]).mistakes == []


# The command.


@pytest.fixture
def project(tmp_path):
    (tmp_path / "good.py").write_text(HEAD + KERNEL.format("  # tilewright: ignore"))
    (tmp_path / "bad.py").write_text(HEAD + KERNEL.format(""))
    (tmp_path / "plain.py").write_text("print('no kernels here')\n")
    for skipped in (".hidden", "build", "venv"):
        (tmp_path / skipped).mkdir()
        (tmp_path / skipped / "bad.py").write_text(HEAD + KERNEL.format(""))
    return tmp_path


def test_text_and_exit_codes(run, project):
    done = run("lint", project)
    assert done.returncode == 1
    assert f"{project}/bad.py:8:5: error: x.to(...) returns its result: x = x.to(...) [dropped-result]" in done.stdout
    assert done.stdout.endswith("1 error in 3 files, 2 kernels\n")
    done = run("lint", project / "good.py")
    assert (done.returncode, done.stdout) == (0, "nothing found in 1 file, 1 kernel\n")
    assert run("lint", project, "--ignore", "dropped-result").returncode == 0
    assert run("lint", project, "--select", "float-equality").returncode == 0
    assert run("lint", project / ".hidden").returncode == 1


def test_notes_fail_nothing(run, tmp_path):
    (tmp_path / "k.py").write_text(rule("exp-in-loop").example[0])
    assert run("lint", tmp_path).returncode == 0
    assert "note" not in run("lint", tmp_path, "--no-notes").stdout


def test_json_follows_its_schema(run, project):
    data = json.loads(run("lint", project, "--json").stdout)
    jsonschema.validate(data, schema("lint"))
    assert (data["files"], data["kernels"]) == (3, 2)
    assert [m["rule"] for m in data["mistakes"]] == ["dropped-result"]
    jsonschema.validate(json.loads(run("lint", "--list", "--json").stdout), schema("lint-rules"))
    assert run("lint", project, "--format", "json").stdout == run("lint", project, "--json").stdout


def test_sarif(run, project):
    """The fields that GitHub's code scanning asks for: docs.github.com, SARIF support for code scanning."""
    done = run("lint", "bad.py", "--format", "sarif", "-o", "log.sarif", cwd=project)
    assert done.returncode == 1
    assert done.stdout == "log.sarif: 1 error in 1 file, 1 kernel\n"
    log = json.loads((project / "log.sarif").read_text())
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (one,) = log["runs"]
    driver = one["tool"]["driver"]
    assert driver["name"] == "tilewright"
    assert len(driver["rules"]) == len(RULES)
    (result,) = one["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "dropped-result"
    assert result["level"] == "error"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "bad.py"
    text = (project / "bad.py").read_text().splitlines()[location["region"]["startLine"] - 1]
    region = location["region"]
    assert text[region["startColumn"] - 1 : region["endColumn"] - 1] == "x.to(tl.float16)"


def test_rules_are_listed_and_explained(run):
    listed = run("lint", "--list").stdout
    assert all(f"  {r.id}  " in listed for r in RULES)
    shown = run("lint", "--explain", "dropped-result")
    assert shown.returncode == 0
    assert "x = x.to(tl.float16)" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected files or folders"),
        (["no-such-folder"], "no-such-folder is not there"),
        (["src", "--select", "exp-loop"], "did you mean exp-in-loop"),
        (["src", "--ignore", "nothing"], "no rule 'nothing'"),
        (["src", "--format", "xml"], "one of text, json, sarif"),
        (["--explain", "dropped"], "did you mean dropped-result"),
    ],
)
def test_bad_usage(run, words, said):
    done = run("lint", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_file_that_is_no_python_is_named_and_the_others_are_read(run, project):
    (project / "broken.py").write_text("import triton\ndef (\n")
    (project / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nimport triton\n# \xe9\n")
    (project / "bytes.py").write_bytes(b"import triton\n# \xff\xfe\n")
    (project / "deep.py").write_text("import triton\nx = " + "(" * 300 + ")" * 300 + "\n")
    done = run("lint", project)
    assert done.returncode == 2
    assert f"{project}/broken.py: cannot be read: line 2: " in done.stdout
    assert f"{project}/bytes.py: cannot be read" in done.stdout
    assert "latin.py" not in done.stdout
    assert "[dropped-result]" in done.stdout
    assert "Traceback" not in done.stderr
    data = json.loads(run("lint", project, "--json").stdout)
    jsonschema.validate(data, schema("lint"))
    assert len(data["unreadable"]) == 3


def test_folders_are_walked_in_order(project):
    assert [p.name for p in python_files([project])] == ["bad.py", "good.py", "plain.py"]


def test_triton_s_own_files_are_read_without_a_fall(flagship):
    import triton

    results = [lint_file(p) for p in python_files([Path(triton.__file__).parent])]
    assert sum(r.kernels for r in results) > 10
    assert not [r.unreadable for r in results if r.unreadable]


def test_the_docs_list_the_rules_as_they_are():
    page = (ROOT / "docs/lint.md").read_text(encoding="utf-8")
    for one in RULES:
        assert f"### {one.id} ({one.level})\n\n**{one.title}.** {one.why}\n" in page, "run tools/rules_doc.py"
        assert one.example[0].rstrip() in page, "run tools/rules_doc.py"


def test_every_published_mistake_has_a_rule():
    """The mistakes that the articles list, by the rule that finds each."""
    ids = {r.id for r in RULES}
    published = {
        "base already offset to the tile": "block-ptr-offset-twice",
        "tile index instead of element offset in offsets": "block-ptr-tile-index",
        "tile size in shape": "block-ptr-tile-shape",
        "run-time value in block_shape": "block-ptr-runtime-block",
        "(D) instead of (D,) for a 1-D tuple": "block-ptr-not-a-tuple",
        "tuples of different lengths": "block-ptr-ranks",
        "stride_row = D assumed (non-contiguous input)": "block-ptr-assumed-stride",
        "result of advance() dropped": "dropped-result",
        "tile counts instead of elements in advance()": "block-ptr-advance-tiles",
        "boundary_check missing": "block-ptr-no-check",
        "boundary_check given booleans": "block-ptr-boolean-check",
        "padding_option missing or 'nan' before a sum": "block-ptr-padding",
        "result of .to() dropped": "dropped-result",
        "zero-padded keys enter the softmax unless masked": "padded-softmax",
        "-1e6 sentinel": "finite-sentinel",
        "config tuned for one dtype/head dim does not fit another": "one-config-for-all",
        "mask evaluated on every tile": "mask-on-every-tile",
        "tl.exp in the inner loop": "exp-in-loop",
        "grid axis 1 limited to 65,535 programs": "grid-axis-limit",
    }
    assert set(published.values()) <= ids
    assert found("\n@triton.jit\ndef kernel(p):\n    q = p\n    q.advance((1,))\n") == [("dropped-result", "error")]
    assert re.search("tl.advance", rule("dropped-result").why)
