"""`tilewright check`: budgets read, figures read, what is broken and how it is said, baselines, annotations, SARIF."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tilewright.check import FIGURES, Baseline, find_config, judge, parse_budget, read_baseline, read_config
from tilewright.check.budget import BudgetError
from tilewright.check.config import FILE
from tilewright.report.schema import schema

ROOT = Path(__file__).parents[2]
KERNEL = """
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * 2, mask=i < n)
"""
ENTRY = """
[[kernels]]
case = "k.py:kernel"
args = "x_ptr: fp32[4096], y_ptr: fp32[4096], n: 4096, BLOCK: constexpr 128"
grid = "32"
"""


@pytest.fixture
def project(tmp_path):
    """Write a kernel and its budgets: project("budgets = [...]") -> the folder."""

    def project(text, top='gpus = ["h200"]\n', kernel=KERNEL, entry=ENTRY):
        (tmp_path / "k.py").write_text(kernel)
        (tmp_path / FILE).write_text(top + entry + text + "\n")
        return tmp_path

    return project


@pytest.mark.parametrize(
    ("text", "figure", "compared", "times", "of"),
    [
        ("spilled_registers == 0", "spilled_registers", "==", 0, None),
        ("spilled_registers = 0", "spilled_registers", "==", 0, None),
        ("instructions <= 1.02 * baseline", "instructions", "<=", 1.02, "baseline"),
        ("tensor_ops<=1.05*needed", "tensor_ops", "<=", 1.05, "needed"),
        ("  instructions  <=  baseline ", "instructions", "<=", 1, "baseline"),
        ("instructions < 1_000_000", "instructions", "<", 1e6, None),
        ("least_us > 1.5e3", "least_us", ">", 1500, None),
    ],
)
def test_budgets(text, figure, compared, times, of):
    budget = parse_budget(text)
    assert (budget.figure, budget.compared, budget.times, budget.of) == (figure, compared, times, of)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("instructions", "expected FIGURE <= NUMBER"),
        ("instructions <= ", "expected FIGURE"),
        ("instructions <= -1", "expected FIGURE"),
        ("instructions <= baseline * 2", "expected FIGURE"),
        ("instructions <= 2 * 3", "expected FIGURE"),
        ("1 <= instructions", "expected FIGURE"),
        ("instruction <= 1", "did you mean instructions"),
        ("instructions <= 1.02 * basline", "did you mean baseline"),
        ("registers <= needed", "how much registers is needed; that is known of tensor_ops, l2_to_sm_bytes"),
        ("__import__('os') == 1", "expected FIGURE"),
    ],
)
def test_bad_budgets(text, said):
    with pytest.raises(BudgetError, match=re.escape(said)):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "is not TOML"),
        ("", "expected [[kernels]] tables"),
        ("kernels = 3", "expected [[kernels]] tables"),
        ("[[kernels]]\n", "kernel 1: expected case ="),
        ("[[kernels]]\ncase = 'a:b'\n", "expected gpus ="),
        ("gpus = 'h200'\n[[kernels]]\ncase = 'a:b'\n", "expected budgets, fits or no_findings"),
        ("gpus = 'h200'\n[[kernels]]\ncase = 'a:b'\nbudget = []\n", "did you mean budgets"),
        ("gpu = 'h200'\n[[kernels]]\ncase = 'a:b'\n", "did you mean gpus"),
        ("gpus = 'h200'\n[[kernels]]\ncase = 'a:b'\nbudgets = [3]\n", "list of texts"),
        ("gpus = 'h200'\n[[kernels]]\ncase = 'a:b'\nbudgets = ['x <= 1']\n", "a:b: budget 'x <= 1': no figure"),
        ("gpus = 'h200'\n[[kernels]]\ncase = 'a:b'\nno_findings = ['round-trips']\n", "did you mean round-trip"),
        ("gpus = 'h200'\n[[kernels]]\ncase = 'a:b'\nset = 3\nfits = ['l4']\n", "set must be a table"),
        ("gpus = ['l4', 'l4']\n[[kernels]]\ncase = 'a:b'\nfits = ['l4']\n", "a:b on l4 is there twice"),
        ("baseline = 1\ngpus = 'l4'\n[[kernels]]\ncase = 'a:b'\nfits = ['l4']\n", "baseline must be a file's name"),
    ],
)
def test_bad_files(tmp_path, text, said):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BudgetError, match=re.escape(said)):
        read_config(tmp_path / FILE)


def test_where_budgets_are_looked_for(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    with pytest.raises(BudgetError, match="no budgets in"):
        find_config(inner)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.tilewright.check]\ngpus = ['l4']\nbudgets = { spilled_registers = 0 }\n"
        "[[tool.tilewright.check.kernels]]\ncase = 'case.py:v'\nset = { B = 64, causal = true }\n"
    )
    found = find_config(inner)
    assert found == tmp_path / "pyproject.toml"
    (entry,) = read_config(found).entries
    assert entry.name == "case.py:v B=64 causal=True"
    assert [b.text for b in entry.budgets] == ["spilled_registers = 0"]
    (tmp_path / "a" / FILE).write_text("")
    assert find_config(inner) == tmp_path / "a" / FILE


def test_every_figure_is_read(explain, compiler, flagship):
    from tilewright.model.counting import count_one

    p = explain("v6", "h200", N=512, batch_heads=2)
    unknown = {name for name, f in FIGURES.items() if f.read(p).value is None}
    assert unknown == {name for name, f in FIGURES.items() if f.origin == "counted"} | {"least_us"}
    assert FIGURES["instructions"].read(p).reason == "it was not counted"
    counted = count_one((p.compiled, p.launch), (), True)
    from dataclasses import replace

    p = replace(p, counters=counted)
    values = {name: f.read(p).value for name, f in FIGURES.items()}
    assert None not in values.values()
    assert values["instructions"] == counted.instructions
    assert values["tensor_ops"] == counted.total_tensor_ops
    assert values["registers"] == p.compiled.registers
    assert values["programs_per_sm"] == p.occupancy.programs_per_sm
    assert values["least_us"] == pytest.approx(1e6 * p.busy[0].seconds)
    assert FIGURES["tensor_ops"].needed(p) == p.needed.operations
    assert FIGURES["l2_to_sm_bytes"].needed(p) == p.needed.bytes


def test_what_holds_and_what_does_not(run, project):
    folder = project('budgets = ["registers <= 64", "spilled_registers == 0", "programs_per_sm >= 8"]\nfits = ["l4"]')
    done = run("check", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "all within their budgets" in done.stdout
    assert "  ok      k.py:kernel" in done.stdout
    folder = project('budgets = ["registers <= 4", "spilled_registers == 0"]')
    done = run("check", cwd=folder)
    assert done.returncode == 1
    assert re.search(r"registers <= 4: found \d+, the limit is 4\n", done.stdout)
    assert "spilled" not in done.stdout


def test_a_kernel_that_got_worse_is_named_by_line(run, project):
    folder = project('budgets = ["instructions <= 1.02 * baseline"]')
    done = run("check", cwd=folder)
    assert done.returncode == 1
    assert "the baseline has no such figure: record it with tilewright check --update" in " ".join(done.stdout.split())
    recorded = run("check", "--update", cwd=folder)
    assert recorded.returncode == 0, recorded.stderr
    assert "instructions" in recorded.stdout
    assert run("check", cwd=folder).returncode == 0
    slower = KERNEL.replace("x * 2", "tl.exp(x) * 2")
    project('budgets = ["instructions <= 1.02 * baseline"]', kernel=slower)
    done = run("check", cwd=folder)
    assert done.returncode == 1
    words = " ".join(done.stdout.split())
    said = r"instructions <= 1.02 \* baseline: found [\d,]+, the limit is [\d,]+ \(baseline [\d,]+: \+\d+\.\d%\)"
    assert re.search(said, words)
    assert re.search(r"new: [\d,]+ tl\.store\(y_ptr \+ i, tl\.exp\(x\) \* 2, mask=i < n\)", words)
    again = run("check", "--update", cwd=folder)
    assert re.search(r"instructions +[\d,]+ +[\d,]+ +\+\d+\.\d%", again.stdout)
    assert "unchanged" in run("check", "--update", cwd=folder).stdout


def test_a_baseline_reads_well_in_a_difference(run, project):
    folder = project('budgets = ["registers <= baseline"]')
    run("check", "--update", cwd=folder)
    file = folder / "tilewright-baseline.json"
    text = file.read_text()
    assert text.endswith("}\n")
    assert re.search(r'^ +"registers": \d+,$', text, re.M)
    first = read_baseline(file)
    first.write(file)
    assert file.read_text() == text
    (key,) = first.recorded
    assert key == ("k.py:kernel grid=32 x_ptr: fp32[4096], y_ptr: fp32[4096], n: 4096, BLOCK: constexpr 128", "h200")
    # Another kernel's entry stays when this one is recorded anew.
    data = json.loads(text)
    data["kernels"]["other.py:k"] = {"l4": {"triton": "3.6.0", "figures": {"registers": 9}, "lines": {}}}
    file.write_text(json.dumps(data))
    run("check", "--update", cwd=folder)
    assert ("other.py:k", "l4") in read_baseline(file).recorded


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read as a baseline"),
        ('{"schema": "tilewright.profile/1"}', "expected schema tilewright.baseline/1"),
        ('{"schema": "tilewright.baseline/1", "kernels": {"a": {"b": {}}}}', "is no baseline"),
        ("[]", "is no baseline"),
    ],
)
def test_a_damaged_baseline_is_named_and_kept(run, project, text, said):
    folder = project('budgets = ["registers <= baseline"]')
    (folder / "tilewright-baseline.json").write_text(text)
    done = run("check", "--update", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert (folder / "tilewright-baseline.json").read_text() == text


LOOP = """
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, n_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(tl.load(n_ptr)):
        total += tl.load(x_ptr + i)
    tl.store(x_ptr + i, total)
"""
LOOP_ENTRY = """
[[kernels]]
case = "k.py:kernel"
args = "x_ptr: fp32[4096], n_ptr: int32[1], BLOCK: constexpr 128"
grid = "1"
"""


def test_what_is_not_known_fails_unless_it_is_allowed(run, project):
    def checked(text):
        folder = project(text, kernel=LOOP, entry=LOOP_ENTRY)
        return run("check", cwd=folder)

    done = checked('budgets = ["instructions <= 1_000_000"]')
    assert done.returncode == 1
    words = " ".join(done.stdout.split())
    assert "instructions is not known" in words
    assert "k.py:10" in words
    assert "allow_unknown = ['instructions'] lets it pass" in words
    done = checked('budgets = ["instructions <= 1_000_000"]\nallow_unknown = ["instructions"]')
    assert done.returncode == 0
    assert "note: instructions <= 1_000_000: not known, which is allowed" in " ".join(done.stdout.split())
    done = checked('budgets = ["instructions <= 1_000_000"]\nassume = ["k.py:10=16"]')
    assert done.returncode == 0, done.stdout
    assert "note" not in done.stdout


def test_a_kernel_that_does_not_compile_or_fit_fails(run, project):
    broken = KERNEL.replace("x * 2", "x * undefined_name")
    folder = project('budgets = ["registers <= 64"]', kernel=broken)
    done = run("check", cwd=folder)
    assert done.returncode == 1
    assert "it compiles and fits: " in done.stdout
    assert run("check", "--update", cwd=folder).returncode == 1


def test_needed_and_fits_and_findings(run, flagship, tmp_path, block_pointers):
    (tmp_path / FILE).write_text(
        f"gpus = ['rtx-4070-super']\n[[kernels]]\ncase = '{flagship}:v0'\nset = {{ N = 512, batch_heads = 4 }}\n"
        "budgets = ['tensor_ops <= 1.05 * needed']\nno_findings = ['repeated-tensor-work']\n"
        f"[[kernels]]\ncase = '{flagship}:v6'\nset = {{ D = 128, K_TILE_SIZE = 128, num_stages = 3, N = 512 }}\n"
        "gpus = ['h200']\nfits = ['rtx-4070-super', 'h100-sxm']\n"
    )
    done = run("check", cwd=tmp_path)
    words = " ".join(done.stdout.split())
    assert done.returncode == 1
    said = r"tensor_ops <= 1\.05 \* needed: found [\d.,]+ M, the limit is [\d.,]+ M \(needed [\d.,]+ M: \+50\.0%\)"
    assert re.search(said, words)
    assert "no finding repeated-tensor-work: tensor work of S is done 2 times" in words
    assert "fits rtx-4070-super: " in words
    assert "fits h100-sxm" not in words


def test_json_github_and_sarif(run, project):
    folder = project('budgets = ["registers <= 1", "shared_bytes <= 1"]')
    done = run("check", "--json", cwd=folder, GITHUB_ACTIONS="true")
    data = json.loads(done.stdout)
    jsonschema.validate(data, schema("check"))
    assert data["ok"] is False
    assert [b["figure"] for b in data["launches"][0]["broken"]] == ["registers"]
    for words, environment in ((["--github"], {}), ([], {"GITHUB_ACTIONS": "true"})):
        done = run("check", *words, cwd=folder, **environment)
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("::")]
        assert line.startswith("::error file=k.py,line=7,title=k.py%3Akernel grid=32 x_ptr%3A fp32[4096]%2C ")
        assert "::registers <= 1: found " in line
    assert "::" not in run("check", "--no-github", cwd=folder, GITHUB_ACTIONS="true").stdout
    done = run("check", "--format", "sarif", "-o", "log.sarif", cwd=folder)
    assert done.returncode == 1
    (one,) = json.loads((folder / "log.sarif").read_text())["runs"]
    (result,) = one["results"]
    assert one["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "budget-registers"
    location = result["locations"][0]["physicalLocation"]
    assert (location["artifactLocation"]["uri"], location["region"]) == ("k.py", {"startLine": 7})


def test_percent_signs_and_newlines_in_annotations():
    from tilewright.check import Broken, Verdict
    from tilewright.report.verdicts import github_annotations

    verdict = Verdict("a,b", "h200", "k.py", 3, 1, (Broken("b", None, None, None, None, "50% of\nit"),))
    assert list(github_annotations([verdict])) == ["::error file=k.py,line=3,title=a%2Cb on h200::b: 50%25 of%0Ait"]


def test_another_triton_is_said(explain):
    from dataclasses import replace

    from tilewright.check.baseline import record
    from tilewright.check.config import Entry

    p = explain("v6", "h200", N=512)
    entry = Entry("c:v", ("h200",), (), None, None, (), (parse_budget("registers <= baseline"),), (), (), ())
    old = Baseline({("c:v", "h200"): replace(record(p), triton="3.1.0")})
    verdict = judge(entry, "h200", p, old, {}, {})
    assert verdict.ok
    assert "the baseline was compiled by Triton 3.1.0" in verdict.notes[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "no-such.toml"], "no-such.toml cannot be read"),
        (["-k", "nothing"], "no kernel of"),
        (["--format", "xml"], "one of text, json, sarif"),
    ],
)
def test_bad_usage(run, project, words, said):
    done = run("check", *words, cwd=project('budgets = ["registers <= 64"]'))
    assert done.returncode == 2
    assert said in done.stderr


def test_a_case_that_is_not_there(run, project):
    folder = project('budgets = ["registers <= 64"]', entry='[[kernels]]\ncase = "gone.py:v"\n')
    done = run("check", cwd=folder)
    assert done.returncode == 2
    assert "gone.py:v: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_flagship_keeps_its_budgets(run, published_compiler):
    """The recorded figures are Triton 3.6's."""
    done = run("check", "--config", "cases/flash_attention/tilewright-check.toml")
    assert done.returncode == 0, done.stdout
    assert "4 launches, all within their budgets" in done.stdout


def test_the_docs_list_the_figures_as_they_are():
    page = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    for f in FIGURES.values():
        assert f"| `{f.name}` | {f.unit} | {f.origin} | {f.doc} |" in page
