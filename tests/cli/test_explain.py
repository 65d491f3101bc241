"""`tilewright explain` from the outside: output, exit codes, files, and what is said when something is wrong."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
CASE = "cases/flash_attention/case.py"

KERNEL = """
    @triton.jit
    def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)
"""
ARGS = "x_ptr: fp32[4096], y_ptr: fp32[4096]@4, n: 4096, BLOCK: constexpr 128"


@pytest.fixture
def schema(run):
    return json.loads(run("schema", "profile").stdout)


def check_page(text):
    """What every page is held to: 100 columns, no trailing spaces, no escapes, one newline at the end."""
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.splitlines():
        assert len(line) <= 100, line
        assert line == line.rstrip(), repr(line)
    assert "\033" not in text
    assert "None" not in text


@pytest.mark.usefixtures("block_pointers")
@pytest.mark.parametrize("version", ["v0", "v1", "v3", "v5"])
def test_pages_of_the_block_pointer_versions(run, version):
    done = run("explain", f"{CASE}:{version}")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)


@pytest.mark.parametrize("gpu", ["rtx-4070-super", "h200", "b200", "mi300x", "rx-7900-xtx"])
def test_pages_of_the_last_version(run, gpu):
    done = run("explain", f"{CASE}:v6", "--gpu", gpu)
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)


@pytest.mark.usefixtures("block_pointers")
def test_figures_of_the_baseline(run):
    text = run("explain", f"{CASE}:v0").stdout
    words = " ".join(text.split())
    for figure in (
        "10,752 B a program (compiled)",
        "Tensor work of S is done 2 times at most 1.5x",
        "line 94 137.4 G tensor operations executed, 68.7 G of them needed",
        "warps lie [1, 4] over the 16x16 tile: 2 of 4 have work of their own, the others repeat it",
        "1.5x the multiplies needed",
        "P makes a trip through shared memory on every step at most 1.14x line 106 P: 512 B a step",
        "8 programs share an SM; shared memory binds",
        "one stage fewer (2): 9 programs instead of 8",
        "8,192 programs in 448 slots: 18.3 waves, the last 29% busy",
        "8 programs x 4 warps = 32 of 48 warps (66.7% occupancy)",
        "REGISTERS 56 a thread (compiled)",
        "no spills",
        "mma 16x8 warps [1, 4]",
        "GeForce RTX 4070 SUPER",
    ):
        assert figure in words


@pytest.mark.usefixtures("block_pointers")
def test_side_by_side(run):
    done = run("explain", f"{CASE}:v0", f"{CASE}:v1")
    assert done.returncode == 0
    check_page(done.stdout)
    rows = {}
    for line in done.stdout.splitlines():
        name, *cells = re.split(r"\s{2,}", line.strip())
        rows.setdefault(name, cells)
    expected = {
        "shared memory, bytes": ["10,752", "24,576"],
        "registers a thread": ["56", "127"],
        "spilled registers": ["0", "0"],
        "warps over the dots": ["[1, 4]", "[4, 1]"],
        "work repeated": ["2x on the first dot", "none"],
        "programs per SM": ["8", "4"],
        "occupancy": ["66.7%", "33.3%"],
        "waves": ["18.29", "9.14"],
    }
    assert {name: rows[name] for name in expected} == expected
    assert rows["in the loop through shared"][-1] == "none"
    assert "P 512 B" in rows


def test_side_by_side_says_what_differs(run):
    done = run("explain", f"{CASE}:v6", "--set", "causal=false,true")
    assert done.returncode == 0
    check_page(done.stdout)
    assert "v6 on GeForce RTX 4070 SUPER: causal=true\n" in done.stdout
    assert re.search(r"\n  causal +false +true\n", done.stdout)


@pytest.mark.usefixtures("block_pointers")
def test_five_profiles_side_by_side_still_fit_the_page(run):
    done = run("explain", f"{CASE}:v0", "--set", "Q_TILE_SIZE=16,32,64,128,256", "--set", "K_TILE_SIZE=128")
    assert done.returncode == 0
    check_page(done.stdout)
    assert done.stdout.count("  registers a thread") == 2


@pytest.mark.usefixtures("block_pointers")
def test_a_row_of_every_parameter_fits_the_page(run):
    done = run(
        *("explain", f"{CASE}:v0", "--configs", "-s", "Q_TILE_SIZE=16,128", "-s", "K_TILE_SIZE=64,128"),
        *("-s", "num_warps=4,8", "-s", "num_stages=3,4"),
    )
    assert done.returncode == 0
    check_page(done.stdout)
    assert done.stdout.endswith("16 configurations: 12 fit, 4 out of resources, 0 failed\n")


@pytest.mark.usefixtures("block_pointers")
def test_one_row_per_configuration(run):
    settings = ["--set", "Q_TILE_SIZE=128,16", "--set", "K_TILE_SIZE=128", "--set", "num_stages=3,4"]
    done = run("explain", f"{CASE}:v0", *settings, "--set", "num_warps=8", "--configs")
    assert done.returncode == 0
    check_page(done.stdout)
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s+(128|16)\s", line)]
    assert [row[:2] for row in rows] == [["128", "3"], ["128", "4"], ["16", "3"], ["16", "4"]]
    assert rows[0][2:5] == ["81,920", "207", "0"]
    assert rows[1][2] == "114,688"
    assert "0 no: shared - -" in " ".join(rows[1])
    assert "4 configurations: " in done.stdout


def test_configs_that_do_not_compile_stand_among_the_rest(run, kernel_file):
    body = KERNEL.replace("* 2", "* 2 + tl.zeros((128,), tl.float32)")
    reference = f"{kernel_file(body)}:kernel"
    settings = ("--args", ARGS, "--grid", "32", "--set", "BLOCK=64,128,256")
    done = run("explain", reference, *settings, "--configs")
    assert done.returncode == 0
    check_page(done.stdout)
    assert "3 configurations: 1 fit, 0 out of resources, 2 failed" in done.stdout
    assert done.stdout.count("error: CompilationError") == 2  # each reason once: 64 and 256 differ in words
    done = run("explain", reference, "--args", ARGS, "--grid", "32", "--set", "BLOCK=64,256", "--configs")
    assert done.returncode == 1


@pytest.mark.usefixtures("block_pointers")
def test_json_of_one_and_of_several(run, schema):
    one = json.loads(run("explain", f"{CASE}:v0", "--json").stdout)
    jsonschema.validate(one, schema)
    assert one["schema"] == "tilewright.profile/1"
    assert one["compiled"]["shared_bytes"] == 10752
    assert one["layout"]["work_factor"] == 1.5
    assert one["occupancy"]["programs_per_sm"] == 8
    assert [c["programs_per_sm"] for c in one["occupancy"]["cliffs"]] == [9, 7, 6]
    several = json.loads(
        run(
            *("explain", f"{CASE}:v1", "-g", "rtx-4070-super", "-g", "h200", "--json"), "-s", "num_stages=3,9"
        ).stdout
    )
    jsonschema.validate(several, schema)
    found = [(p["gpu"]["slug"], p["launch"]["num_stages"], p["fits"]) for p in several]
    expected = [
        ("rtx-4070-super", 3, True),
        ("h200", 3, True),
        ("rtx-4070-super", 9, True),
        ("h200", 9, True),
    ]
    assert found == expected
    jsonschema.validate(json.loads(run("explain", f"{CASE}:v0", "-s", "N=0", "--json").stdout), schema)


def test_json_of_what_fails_and_of_what_does_not_fit(run, schema, kernel_file):
    reference = f"{kernel_file(KERNEL.replace('* 2', '* missing'))}:kernel"
    done = run("explain", reference, "--args", ARGS, "--grid", "32", "--json")
    assert done.returncode == 1
    failed = json.loads(done.stdout)
    jsonschema.validate(failed, schema)
    assert failed["failure"]["kind"] == "error"
    assert failed["failure"]["place"].endswith(
        "y_ptr + i, tl.load(x_ptr + i, mask=i < n) * missing, mask=i < n)"
    )
    big = run(*("explain", f"{CASE}:v6", "-s", "D=128", "-s", "dtype=fp32", "-s", "num_stages=4", "--json"))
    assert big.returncode == 0
    too_big = json.loads(big.stdout)
    jsonschema.validate(too_big, schema)
    assert not too_big["fits"]
    assert too_big["does_not_fit"]["resource"] == "shared memory"
    assert too_big["does_not_fit"]["limit"] == 101376


def test_a_kernel_that_does_not_compile(run, kernel_file):
    file = kernel_file(KERNEL.replace("* 2", "* missing"))
    done = run("explain", f"{file}:kernel", "--args", ARGS, "--grid", "32", cwd=file.parent)
    assert done.returncode == 1
    assert "It does not compile: CompilationError: NameError: missing is not defined" in done.stdout
    assert "At kernel.py:8: tl.store(" in done.stdout
    check_page(done.stdout)


def test_a_described_kernel_says_what_was_assumed(run, kernel_file):
    done = run("explain", f"{kernel_file(KERNEL)}:kernel", "--args", ARGS, "--grid", "32")
    assert (done.returncode, done.stderr) == (0, "")
    check_page(done.stdout)
    assert "assumed" in done.stdout
    assert "address divisible by 16: x_ptr" in " ".join(done.stdout.split())
    assert "every pointer and integer but y_ptr is divisible by 16" in " ".join(done.stdout.split())
    assert "32 programs in" in done.stdout


def test_a_file_appears_whole(run, kernel_file, tmp_path):
    reference = f"{kernel_file(KERNEL)}:kernel"
    output = tmp_path / "out.txt"
    done = run("explain", reference, "--args", ARGS, "--grid", "32", "-o", output)
    assert (done.returncode, done.stdout) == (0, "")
    check_page(output.read_text())
    plain = tmp_path / "plain.txt"
    plain.write_text("")
    assert output.stat().st_mode == plain.stat().st_mode
    before = output.read_text()
    done = run("explain", reference, "--args", ARGS + "x", "--grid", "32", "-o", output)
    assert done.returncode == 2
    assert output.read_text() == before
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []


def test_a_loop_without_a_pipeline_is_not_said_to_have_one(run, kernel_file):
    body = """
        @triton.jit
        def kernel(x_ptr, n):
            i = tl.arange(0, 128)
            for step in range(n):
                tl.store(x_ptr + step * 128 + i, 1.0)
    """
    done = run("explain", f"{kernel_file(body)}:kernel", "--args", "x_ptr: fp32[4096], n: 32", "--grid", "1")
    assert re.search(r"THROUGH SHARED MEMORY ON EVERY STEP +nothing\n", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", f"{CASE}:v6", "-g", "rtx-4071-super"), "rtx-4070-super"),
        (("explain", f"{CASE}:v66"), "no variant 'v66' (did you mean v6?)"),
        (("explain", CASE), "which variant?"),
        (("explain", "cases/nothing.py:v0"), "no case file 'cases/nothing.py'"),
        (
            ("explain", f"{CASE}:v6", "--set", "Q_TILE=64"),
            "no parameter 'Q_TILE' (did you mean Q_TILE_SIZE?)",
        ),
        (("explain", f"{CASE}:v6", "--set", "Q_TILE_SIZE=48"), "Q_TILE_SIZE must be a power of two"),
        (("explain", f"{CASE}:v6", "--grid", "32"), "--grid goes with --args; a case states its own grid"),
        (("explain", f"{CASE}:v6", "--timeout", "0"), "--timeout must be more than 0 seconds"),
        (("explain", f"{CASE}:v6", "-o", "/no/such/folder/x"), "cannot write /no/such/folder/x"),
        (("schema", "nothing"), "no schema 'nothing'; there are: check, comparison, lint, lint-rules, profile"),
    ],
    ids=lambda v: " ".join(v[1:]) if isinstance(v, tuple) else "",
)
def test_bad_input_is_one_clear_line(run, arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("tilewright: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "is a kernel, not a case: describe its arguments, for example --args 'x_ptr: fp32[4096]"),
        (("--args", ARGS), "--args needs --grid too, for example --grid 32,8"),
        (("--args", ARGS, "--grid", "a"), "expected a grid such as 32,8, found 'a'"),
        (("--args", "x_ptr: fp32[4096]", "--grid", "1"), "kernel needs a value for y_ptr, n, BLOCK"),
        (("--args", ARGS + ", z: 1", "--grid", "1"), "kernel has no parameter 'z'"),
        (("--args", ARGS.replace("4096]", "4096"), "--grid", "1"), "cannot read"),
    ],
)
def test_bad_descriptions(run, kernel_file, more, message):
    done = run("explain", f"{kernel_file(KERNEL)}:kernel", *more)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_suggested_description_works(run, kernel_file):
    """What the message proposes can be pasted."""
    reference = f"{kernel_file(KERNEL)}:kernel"
    said = run("explain", reference).stderr
    args, grid = re.search(r"--args '(.*)' --grid (\S+)", said).groups()
    assert run("explain", reference, "--args", args, "--grid", grid).returncode == 0


def test_a_gpu_of_the_users_own(run, kernel_file, tmp_path):
    own = (ROOT / "src/tilewright/gpus/catalog/rtx-4070-super.toml").read_text()
    own = re.sub(r"(?m)^name = .*$", 'name = "My own card"', own)
    own = re.sub(r"(?m)^sms = \d+", "sms = 7", own)
    file = tmp_path / "mine.toml"
    file.write_text(own)
    done = run("explain", f"{kernel_file(KERNEL)}:kernel", "--args", ARGS, "--grid", "32", "-g", file)
    assert done.returncode == 0, done.stderr
    assert "My own card  sm_89  7 SMs" in done.stdout
    file.write_text("name = ")
    done = run("explain", f"{kernel_file(KERNEL)}:kernel", "--args", ARGS, "--grid", "32", "-g", file)
    assert done.returncode == 2
    assert "mine.toml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_bold_headings_only_where_a_person_watches(kernel_file, no_color, coloured):
    parent, child = pty.openpty()
    done = subprocess.Popen(
        [
            *(sys.executable, "-m", "tilewright.cli.main", "explain", f"{kernel_file(KERNEL)}:kernel"),
            *("--args", ARGS, "--grid", "32"),
        ],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm"},
    )
    os.close(child)
    text = b""
    try:
        while chunk := os.read(parent, 4096):
            text += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(parent)
    assert done.wait(timeout=60) == 0
    assert (b"\033[1m" in text) is coloured
    assert b"IN SHORT" in text
