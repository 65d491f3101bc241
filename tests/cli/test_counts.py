"""Executed counts from the outside: the page, listings, comparison, given values, JSON, and what is said when wrong."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

CASE = "cases/flash_attention/case.py"
ROWS = """
    @triton.jit
    def kernel(x_ptr, y_ptr, len_ptr, stride, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        n = tl.load(len_ptr + row)
        i = tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            acc += tl.load(x_ptr + (row * stride + start + i) * 8, mask=start + i < n, other=0.0)
        tl.store(y_ptr + row, tl.sum(acc, axis=0))
"""
ARGS = "x_ptr: fp32[65536], y_ptr: fp32[64], len_ptr: i32[64], stride: 1024, BLOCK: constexpr 128"


@pytest.fixture
def rows(run, kernel_file):
    """rows(*more) runs explain on a kernel whose loop ends where memory says."""
    reference = f"{kernel_file(ROWS)}:kernel"
    return lambda *more: run("explain", reference, "--args", ARGS, "--grid", "64", *more)


@pytest.fixture
def loaded_at(rows):
    """Where the report says that the value it lacks is loaded: `kernel.py:8`."""
    return re.search(r"--assume (kernel\.py:\d+)=VALUE", words(rows().stdout))[1]


def check_page(text, columns=100):
    assert text.endswith("\n")
    for line in text.splitlines():
        assert len(line) <= columns, line
        assert line == line.rstrip(), repr(line)


def words(text):
    return " ".join(text.split())


@pytest.mark.usefixtures("published_compiler")
def test_the_page_of_the_baseline(run):
    """Figures that Nsight Compute and the study confirm: 206.2 G operations, 8,192 x 196,050 instructions."""
    done = run("explain", f"{CASE}:v0")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)
    for sentence in (
        "206.2 G tensor operations are executed, 137.4 G needed: 1.5x.",
        "13.1% of the 1,606.0 M warp instructions are at line 105: l = alpha * l + tl.sum(",
        "warp instructions 1,606.0 M 196,050 in every program",
        "tensor operations 206.2 G 137.4 G needed: 1.5x; bf16 into fp32",
        "barriers 75.6 M 2,307 for each warp",
        "from L2 into the SMs 8.61 GB exactly; 67.6 MB needed",
        "94 125.8 M 7.8% ##### 137.4 G S = tl.dot(Q, tl.trans(K)) * scale",
        "12 more lines: 0.9% (all: --lines)",
        "MEMORY TRAFFIC 8.61 GB from L2, exactly",
        "global to shared copies 16.9 M 8.59 GB 16 sectors 16 every sector is full",
        "tensor tensor cores 50.3 M 3.1% HMMA 3.1%",
    ):
        assert sentence in words(done.stdout), sentence


@pytest.mark.usefixtures("published_compiler")
def test_programs_that_differ_and_a_helper_function(run):
    text = words(run("explain", f"{CASE}:v3", "--set", "causal=true").stdout)
    assert "69.8 G 68.7 G needed: 1.02x" in text
    assert "183.5 M 6,186 to 172,786 a program, 89,622 on average" in text
    assert "Programs differ: the longest executes 1.9x the instructions of an average one." in text
    assert "20 def attend_key_tiles( 34" in text


@pytest.mark.parametrize("gpu", ["rtx-4070-super", "h200", "b200", "rtx-5090", "a100-80"])
def test_every_listing_of_every_architecture(run, gpu):
    lists = ("--lines", "--source", "--sass", "--ptx")
    done = run("explain", f"{CASE}:v6", "--gpu", gpu, "--set", "N=512", *lists)
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout, columns=140)
    for heading in ("LINES", "SOURCE", "MACHINE CODE", "PTX"):
        assert f"\n{heading} " in done.stdout
    assert "IN SHORT" not in done.stdout
    assert re.search(r"\n +0000 +[\d,.M ]+ +\S+% ", done.stdout)
    assert re.search(r"  (in )?standard\.py:\d+", done.stdout)
    assert re.search(r"\d+/\d+ sectors", done.stdout)
    assert "mov.u32" in done.stdout


def test_no_count(run):
    done = run("explain", f"{CASE}:v6", "--no-count")
    assert done.returncode == 0
    assert "WHAT IT EXECUTES" not in done.stdout
    assert json.loads(run("explain", f"{CASE}:v6", "--no-count", "--json").stdout)["counters"] is None


def test_json(run):
    schema = json.loads(run("schema", "profile").stdout)
    plain = json.loads(run("explain", f"{CASE}:v6", "--json").stdout)
    full = json.loads(run("explain", f"{CASE}:v6", "--json", "--sass").stdout)
    for d in (plain, full):
        jsonschema.validate(d, schema)
    assert plain["needed"] == {"operations": 137438953472, "bytes": 67633152}
    c = plain["counters"]
    assert c["origin"] == "counted"
    assert c["tensor_ops"] == 137438953472
    assert c["by_instruction"] is None
    total = c["instructions"]
    for rows in (c["by_line"], c["by_opcode"], c["by_pipe"]):
        assert sum(row["instructions"] for row in rows) == total
    assert sum(c["by_warp"]) == total
    assert sum(row["share"] for row in c["by_line"]) == pytest.approx(1)
    assert sum(row["executed"] for row in full["counters"]["by_instruction"]) == total


def test_compare_two_settings_of_a_case(run):
    done = run("explain", f"{CASE}:v6", "--compare", "num_warps=8")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)
    text = words(done.stdout)
    assert "before cases/flash_attention/case.py:v6 num_warps=4 after" in text
    assert "more warp instructions: " in text
    assert "More: HMMA +33.6 M" in text
    assert "BY LINE warp instructions" in text
    d = json.loads(run("explain", f"{CASE}:v6", "--compare", "num_warps=8", "--json").stdout)
    jsonschema.validate(d, json.loads(run("schema", "comparison").stdout))
    assert d["after"]["launch"]["num_warps"] == 8


@pytest.mark.usefixtures("published_compiler")
def test_compare_two_versions(run):
    text = words(run("explain", f"{CASE}:v3", "--compare", f"{CASE}:v4").stdout)
    assert "25.0% fewer warp instructions: 351.9 M before, 263.9 M after." in text
    assert "Fewer: FMUL -77.6 M, FSETP -21.0 M" in text
    assert "52 56 -67.1 M P = tl.exp2(S * qk_scale - m_new) was: P = tl.exp(S - m_new)" in text


def test_what_memory_decides(rows, loaded_at):
    done = rows()
    assert done.returncode == 0
    check_page(done.stdout)
    text = words(done.stdout)
    assert "What it executes is not known; the reason is below." in text
    assert "WHAT IT EXECUTES unknown" in text
    assert f"it is loaded from memory (line {loaded_at.partition(':')[2]} of" in text
    assert f"If you know the value: --assume {loaded_at}=VALUE" in text


def test_a_value_that_is_given(rows, loaded_at):
    done = rows("--assume", f"{loaded_at}=1024")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)
    text = words(done.stdout)
    assert f"THE COUNT ASSUMES THAT what is loaded at {loaded_at} is 1024 (given)" in text
    assert "Global loads touch 8x the sectors that their bytes fill" in text
    assert "line 12 32 sectors a request, 4 would do" in text
    assert "at most: what hits in L1 is not fetched again" in text
    more = rows("--assume", f"{loaded_at}=2_048", "--json")
    less = rows("--assume", f"{loaded_at}=0x400", "--json")
    assert (
        json.loads(more.stdout)["counters"]["instructions"]
        > json.loads(less.stdout)["counters"]["instructions"]
    )


def test_listings_of_what_is_not_known(rows, loaded_at):
    done = rows("--sass")
    assert done.returncode == 0
    assert f"--assume {loaded_at}=VALUE" in words(done.stdout)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--assume", "kernel.py"),
            "expected --assume FILE:LINE=VALUE with a whole number, such as kernel.py:41=128",
        ),
        (("--assume", "kernel.py:8=big"), "expected --assume FILE:LINE=VALUE"),
        (("--assume", "kernel.py:8=1", "--assume", "kernel.py:8=2"), "--assume gives kernel.py:8 twice"),
        (("--assume", "kernel.py:10=1"), "--assume kernel.py:10=1: nothing is loaded at that line"),
        (("--assume", "kernel.py:8=1", "--no-count"), "--assume needs counts: leave out --no-count"),
        (("--sass", "--no-count"), "--sass needs counts: leave out --no-count"),
        (("--sass", "-g", "h200", "-g", "b200"), "--sass lists one launch on one GPU, and 2 were asked for"),
        (("--lines", "--configs"), "--lines lists one launch: leave out --configs and --compare"),
        (("--ptx", "--json"), "--ptx is a page: with --json, counts by line are always there"),
        (("--compare", "stride"), "stride"),
        (("--compare", "stride=5,BLOCK"), "expected --compare CASE2[,NAME=VALUE...]"),
        (("--compare", "strid=5"), "no parameter 'strid' (did you mean stride?)"),
        (
            ("--compare", "stride=5", "-g", "h200", "-g", "b200"),
            "--compare compares with one launch on one GPU",
        ),
        (
            ("--compare", "stride=5", "--configs"),
            "--compare compares with one launch on one GPU, without --configs",
        ),
        (("--compare", "stride=5", "--no-count"), "--compare needs counts: leave out --no-count"),
        (("--compare", "stride=5,6"), "expected --compare CASE2[,NAME=VALUE...]"),
        (("--compare", "stride=5", "--lines"), "--lines lists one launch: leave out --configs and --compare"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_bad_input_is_one_clear_line(rows, more, message):
    done = rows(*more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tilewright: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("more", [(), ("--lines",), ("--compare", "stride=5")], ids=" ".join)
def test_what_does_not_compile_is_exit_code_1(run, kernel_file, more):
    reference = f"{kernel_file(ROWS.replace('* stride', '* missing'))}:kernel"
    done = run("explain", reference, "--args", ARGS, "--grid", "64", *more)
    assert done.returncode == 1
    assert "does not compile" in done.stdout
    check_page(done.stdout)


def test_amd_is_static(run):
    done = run("explain", f"{CASE}:v6", "--gpu", "mi300x")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)
    text = words(done.stdout)
    assert "Executed counts are not computed for AMD yet." in text
    assert "WHAT STANDS IN THE MACHINE CODE static: not how often it runs" in text
    assert "loop of lines 40 to 65" in text
    lines = run("explain", f"{CASE}:v6", "--gpu", "mi300x", "--lines", "--sass")
    check_page(lines.stdout)
    assert "LINES" in lines.stdout
    assert "SASS with executed counts is for NVIDIA's GPUs" in words(lines.stdout)
    d = json.loads(run("explain", f"{CASE}:v6", "--gpu", "mi300x", "--json").stdout)
    jsonschema.validate(d, json.loads(run("schema", "profile").stdout))
    assert d["static"]["origin"] == "static"
    assert d["counters"]["instructions"] is None
    assert d["counters"]["unknown"][0]["reason"] == "executed counts are not computed for AMD yet"


def test_an_empty_grid(run):
    done = run("explain", f"{CASE}:v6", "--set", "N=0")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)
    assert "warp instructions 0 the grid is empty" in words(done.stdout)


def test_counts_by_configuration(run):
    settings = ("--set", "num_warps=4,8", "--set", "N=512", "--configs")
    done = run("explain", f"{CASE}:v6", *settings, "--count")
    assert done.returncode == 0
    check_page(done.stdout)
    assert "GB L2" in done.stdout
    assert re.search(r"\n  4 .* 1\.\d+x +0\.0\d+\n|\n +4 .* 1x +0\.\d+\n", done.stdout)
    assert "GB L2" not in run("explain", f"{CASE}:v6", *settings).stdout


def test_side_by_side(run):
    done = run("explain", f"{CASE}:v6", "--gpu", "h200", "--gpu", "mi300x")
    assert done.returncode == 0
    check_page(done.stdout)
    assert "warp instructions" in done.stdout
    assert "as many as needed" in words(done.stdout)


def test_nothing_is_left_of_this_machine(run):
    """Paths in the JSON are relative where they can be."""
    d = json.loads(run("explain", f"{CASE}:v6", "--json").stdout)
    own = [x["file"] for x in d["counters"]["by_line"] if "standard" not in x["file"]]
    assert {Path(f).is_absolute() for f in own} == {False}
