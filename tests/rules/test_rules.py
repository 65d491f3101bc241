"""Rules: the published diagnosis of the flagship, and for each rule a launch that it finds something in and one not."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, load_case, make_launch
from tilewright.model.counting import count_one
from tilewright.model.profile import make_profile
from tilewright.report.schema import schema
from tilewright.rules import RULES, find
from tilewright.rules.imbalance import makespan
from tilewright.rules.source import masks

KERNELS = Path(__file__).with_name("kernels.py")
ADA = "rtx-4070-super"


@pytest.fixture(scope="session")
def profile(compiler, flagship):
    """Profile a version of the flagship, or a kernel of kernels.py: profile("v0", gpu, causal=True)."""
    kept = {}

    def profile(name, gpu=ADA, grid=None, args=None, num_warps=4, **settings):
        key = (name, gpu, repr(grid), repr(args), num_warps, *sorted(settings.items()))
        if key not in kept:
            if args is None:
                launch = load_case(f"{flagship}:{name}").launch(settings)
            else:
                launch = make_launch(find_kernel(f"{KERNELS}:{name}"), args, grid, num_warps=num_warps)
            (result,) = compiler.compile([(launch, load(gpu).target)])
            kept[key] = make_profile(launch, load(gpu), result, count_one((result, launch), (), True))
        return kept[key]

    return profile


def found(p):
    return {f.rule: f for f in find(p)}


def said(finding):
    return " | ".join(e.text for e in finding.evidence)


# The published diagnosis: figures of facts/ada_flash_attention.json, read with Nsight Compute on an RTX 4070 SUPER.


def test_the_baseline_has_the_three_problems_of_a_16_row_tile(profile, published_compiler):
    findings = found(profile("v0"))
    repeated = findings["repeated-tensor-work"]
    assert repeated.bound == pytest.approx(1.5)
    assert "137.4 G tensor operations executed, 68.7 G of them needed" in said(repeated)
    assert "2 of 4 have work of their own" in said(repeated)
    rows = findings["rows-split-across-warps"]
    assert [(e.line, "92.3 M" in e.text) for e in rows.evidence[:2]] == [(102, True), (105, True)]
    assert "512 B a step" in said(findings["round-trip"])
    assert findings["barriers-per-step"].title == "every warp waits at 9.0 barriers a step"
    assert "num_warps=1" in repeated.change
    assert "64 rows" in repeated.change
    # The load/store pipe is on top, as the study's profile of it says.
    assert profile("v0").busy[0].key == "lsu"
    assert findings["pipe-above-tensor"].bound > 1.5


def test_the_second_version_computes_the_masked_half_of_causal(profile, published_compiler):
    findings = found(profile("v1", causal=True))
    assert findings["unneeded-tiles"].bound == pytest.approx(2.0, rel=1e-3)
    assert "137.4 G tensor operations executed, 68.7 G needed: 2x" in said(findings["unneeded-tiles"])
    assert findings["mask-on-every-tile"].evidence[0].line == 101
    assert {"repeated-tensor-work", "rows-split-across-warps", "round-trip"}.isdisjoint(findings)
    assert "mask-on-every-tile" in found(profile("v1"))
    assert "unneeded-tiles" not in found(profile("v1"))


def test_the_fourth_version_pays_for_exp(profile, published_compiler):
    finding = found(profile("v3"))["exp-not-exp2"]
    assert "28.6% of all instructions are at this line" in said(finding)  # exp_line_share_pct
    assert "range checks" in said(finding)
    # 352 M instructions became 264 M with exp2: the bound is no smaller than what it gave.
    assert 352 / 264 * 0.95 < finding.bound < 352 / 264 * 1.3
    assert "mask-on-every-tile" not in found(profile("v3", causal=True))
    assert "unneeded-tiles" not in found(profile("v3", causal=True))


def test_the_fifth_version_rescales_and_starts_long_programs_late(profile, published_compiler):
    settings = {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32, "num_warps": 4, "num_stages": 3}
    finding = found(profile("v4", **settings))["rescale-every-step"]
    assert "12.7% of all instructions" in said(finding)  # rescale_line_share_pct
    order = found(profile("v4", causal=True, **settings))["longest-last"]
    assert 1.04 <= order.bound <= 1.14  # the study expects 4 to 10 % of it
    assert "exp-not-exp2" not in found(profile("v4"))


@pytest.mark.parametrize(("version", "causal"), [("v5", False), ("v6", False), ("v6", True)])
def test_the_last_versions_are_healthy(profile, published_compiler, version, causal):
    p = profile(version, causal=causal)
    assert found(p) == {}
    assert p.busy[0].key == "tensor"


def test_causal_of_v5_lacks_only_the_order(profile, published_compiler):
    assert set(found(profile("v5", causal=True))) == {"longest-last"}


# Each rule: a launch that it finds something in, and one in which it does not.


def product(K=1024, dtype="fp16", m=64, n=64, precision="tf32"):
    x = Tensor.of(dtype, (m, K))
    return {
        "a_ptr": x, "b_ptr": Tensor.of(dtype, (n, K)), "c_ptr": Tensor.of("fp32", (132, m, n)),
        "K": K, "M": m, "N": n, "BK": 64, "PRECISION": precision,
    }  # fmt: skip


def vector(step):
    x = Tensor.of("fp32", (1 << 22,))
    return {"x_ptr": x, "y_ptr": x, "BLOCK": 1024, "STEP": step}


BIG, SMALL, ONE = Tensor.of("fp32", (1 << 22,)), Tensor.of("int8", (1 << 24,)), Tensor.of("fp32", (1,))


def summed(n=8192, **constexprs):
    args = {"x_ptr": SMALL, "y_ptr": BIG, "n": n, "stride": 3, "BLOCK": 1024, "EVEN": True, "WIDE": False}
    return {"args": {**args, **constexprs}, "grid": (512,)}


def gathered(divide):
    args = {"x_ptr": BIG, "y_ptr": BIG, "width": 1000, "stride": 1024, "STEPS": 64, "BLOCK": 256, "DIVIDE": divide}
    return {"args": args, "grid": (512,)}


ON_64 = {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 64, "num_warps": 4}
PAIRS = {
    "repeated-tensor-work": (("v6", {"Q_TILE_SIZE": 16, "K_TILE_SIZE": 16, "num_warps": 4}), ("v6", ON_64)),
    "unneeded-tiles": (("v0", {"causal": True}), ("v6", {"causal": True})),
    "rows-split-across-warps": (("v6", {"Q_TILE_SIZE": 16, "K_TILE_SIZE": 32, "num_warps": 4}), ("v6", ON_64)),
    "round-trip": (("v6", {"Q_TILE_SIZE": 16, "K_TILE_SIZE": 32, "num_warps": 4}), ("v6", ON_64)),
    "mask-on-every-tile": (("v1", {"causal": True}), ("v6", {"causal": True})),
    "exp-not-exp2": (("v3", {}), ("v4", {})),
    "rescale-every-step": (
        ("v4", {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}), ("v4", {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 128, "num_stages": 2})
    ),
    "longest-last": (("v5", {"causal": True}), ("v6", {"causal": True})),
    "pipe-above-tensor": (("v0", {}), ("v1", {})),
    "dot-without-tensor-cores": (
        ("multiply", {"args": product(dtype="fp32", precision="ieee"), "grid": (132,)}),
        ("multiply", {"args": product(dtype="fp32"), "grid": (132,)}),
    ),
    "no-warpgroup-dot": (
        ("multiply", {"args": product(m=32), "grid": (132,), "gpu": "h200"}),
        ("multiply", {"args": product(), "grid": (132,), "gpu": "h200"}),
    ),
    "fp8-promoted": (
        ("multiply", {"args": product(dtype="fp8e5"), "grid": (132,), "gpu": "a100-80"}),
        ("multiply", {"args": product(dtype="fp8e5"), "grid": (132,), "gpu": "h200"}),
    ),
    "barriers-per-step": (("v0", {}), ("v1", {})),
    "spills-in-loop": (
        ("v4", {"Q_TILE_SIZE": 128, "K_TILE_SIZE": 128, "D": 128, "num_stages": 2}),
        # Two registers outside of its loop.
        ("v5", {}),
    ),
    "scattered-access": (
        ("copy", {"args": vector(8), "grid": (512,)}), ("copy", {"args": vector(1), "grid": (512,)})
    ),
    "bytes-above-needed": (("v6", {"gpu": "h200"}), ("v6", {})),
    "masked-load": (("sum_rows", summed(EVEN=False)), ("sum_rows", summed(EVEN=False, n=1100))),
    "int64-in-loop": (("sum_rows", summed(WIDE=True)), ("sum_rows", summed())),
    "division-in-loop": (("gather", gathered(True)), ("gather", gathered(False))),
    "atomics-on-few-places": (
        ("sum_all", {"args": {"x_ptr": BIG, "y_ptr": ONE, "BLOCK": 1024, "FIRST": False}, "grid": (4096,)}),
        ("sum_all", {"args": {"x_ptr": BIG, "y_ptr": ONE, "BLOCK": 1024, "FIRST": True}, "grid": (4096,)}),
    ),
    "short-launch": (("copy", {"args": vector(1), "grid": (10,)}), ("copy", {"args": vector(1), "grid": (4096,)})),
    "bank-conflicts": (
        ("count_values", {"args": {"x_ptr": Tensor.of("int32", (1 << 18,)), "y_ptr": Tensor.of("int32", (1 << 18,)),
                                   "BLOCK": 1024, "BINS": 256}, "grid": (256,)}),
        ("v1", {}),
    ),
    "too-few-programs": (
        ("copy", {"args": vector(1), "grid": (10,)}), ("copy", {"args": vector(1), "grid": (56,)})
    ),
    "tail-wave": (("v5", {"N": 512, "batch_heads": 17}), ("v5", {"N": 512, "batch_heads": 14})),
    "occupancy-cliff": (("v4", {"Q_TILE_SIZE": 64, "K_TILE_SIZE": 128, "num_stages": 3}), ("v5", {})),
}  # fmt: skip


@pytest.mark.parametrize("rule", [r.id for r in RULES])
def test_each_rule_finds_one_launch_and_not_the_other(profile, published_compiler, rule):
    (name, settings), (other, theirs) = PAIRS[rule]
    finding = found(profile(name, **settings)).get(rule)
    assert finding is not None
    assert finding.evidence
    assert finding.change
    assert finding.bound is None or finding.bound >= 1
    assert {e.origin for e in finding.evidence} <= {"compiled", "counted", "modelled"}
    assert rule not in found(profile(other, **theirs))


def test_findings_come_in_the_order_of_their_bounds(profile, published_compiler):
    bounds = [f.bound or 0 for f in find(profile("v0"))]
    assert bounds == sorted(bounds, reverse=True)
    assert len(bounds) > 4


def test_without_counts_what_the_compiler_says_is_found(compiler, flagship, published_compiler):
    launch = load_case(f"{flagship}:v0").launch({})
    (result,) = compiler.compile([(launch, load(ADA).target)])
    findings = found(make_profile(launch, load(ADA), result))
    assert {"repeated-tensor-work", "rows-split-across-warps", "round-trip"} <= set(findings)
    assert all(f.bound is None for f in findings.values())


def test_a_launch_that_does_not_fit_has_no_findings(profile, published_compiler):
    assert find(profile("v4", Q_TILE_SIZE=256, K_TILE_SIZE=256, num_warps=16, num_stages=5)) == ()


def test_programs_start_as_slots_come_free():
    assert makespan([(3, 1), (1, 5)], 2) == 4
    assert makespan([(1, 5), (3, 1)], 2) == 5
    assert makespan([(2, 4)], 4) == 2
    assert makespan([], 3) == 0


def test_masks_of_a_source(tmp_path):
    file = tmp_path / "k.py"
    file.write_text(
        "def kernel(n):\n"
        "    a = tl.where(x, y, -1e6)\n"
        "    for i in range(n):\n"
        "        keep = i < n\n"
        "        s = tl.where(keep, s, float('-inf'))\n"
        "        t = tl.where(keep, t, 0.0)\n"
        "        while keep:\n"
        "            u = where(n > i, -float('inf'), u)\n"
    )
    assert {(m.line, m.condition_lines) for m in masks(file)} == {(5, (4,)), (8, ())}
    (tmp_path / "bad.py").write_text("def (")
    assert masks(tmp_path / "bad.py") == ()
    assert masks(tmp_path / "absent.py") == ()


def test_ids_are_different_and_texts_are_there():
    assert len({r.id for r in RULES}) == len(RULES) == len(PAIRS)
    for rule in RULES:
        assert re.fullmatch("[a-z0-9-]+", rule.id)
        assert all(rule.to_dict().values())
        json.dumps(rule.to_dict())


def test_the_docs_list_the_rules_as_they_are():
    page = (Path(__file__).parents[2] / "docs/rules.md").read_text(encoding="utf-8")
    for rule in RULES:
        assert f"### {rule.id}\n\n**{rule.title}.** {rule.why}\n" in page, "run tools/rules_doc.py"
        assert f"- Found: {rule.threshold}.\n" in page, "run tools/rules_doc.py"


def test_the_command_lists_and_explains(run):
    listed = run("rules")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert all(f"  {rule.id}  " in listed.stdout for rule in RULES)
    shown = run("rules", "show", "exp-not-exp2")
    assert shown.returncode == 0
    assert "P = tl.exp2(S * (scale * LOG2_E) - m)" in shown.stdout
    wrong = run("rules", "show", "exp-not-exp")
    assert wrong.returncode == 2
    assert "did you mean exp-not-exp2?" in wrong.stderr


def test_json_of_rules_and_findings_follows_the_schema(run, flagship):
    for words, name in (
        (("rules", "--json"), "rules"),
        (("rules", "show", "tail-wave", "--json"), "rules"),
        (("explain", f"{flagship}:v6", "--set", "Q_TILE_SIZE=16", "--set", "num_warps=4", "--json"), "profile"),
    ):
        done = run(*words)
        assert done.returncode == 0, done.stderr
        data = json.loads(done.stdout)
        jsonschema.validate(data, schema(name))
    assert data["findings"][0]["bound"] > 1
    assert data["busy"][0]["seconds"] >= data["busy"][-1]["seconds"]
