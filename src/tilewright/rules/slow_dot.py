"""Dots that do not run on the fastest path that the GPU has."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import figures
from tilewright.model import Profile
from tilewright.rules.finding import Evidence, Finding, Rule
from tilewright.ttgir import Dot


def _dots(p: Profile) -> Iterator[Dot]:
    """Dots, those of one line and unit once."""
    if p.layout is not None and p.gpu.vendor == "nvidia":
        yield from {(d.line, d.unit): d for d in p.layout.dots}.values()


def find_without_tensor_cores(p: Profile) -> Iterator[Finding]:
    """Find dots that are plain multiply-adds."""
    for dot in _dots(p):
        yield from _without_tensor_cores(p, dot)


def find_single_warp(p: Profile) -> Iterator[Finding]:
    """Find dots on Hopper that single warps do."""
    if p.gpu.arch != "sm_90":
        return
    dots = [d for d in _dots(p) if d.unit.startswith("mma") and d.input_type not in ("f64", "fp64")]
    if not dots:
        return
    rates, single = p.gpu.tensor_ops_per_clock_per_sm, p.gpu.tensor_sync_ops_per_clock_per_sm
    bound = rates["bf16_fp32acc"] / single["bf16_fp32acc"] if "bf16_fp32acc" in single else None
    names = " and ".join(dict.fromkeys(d.name for d in dots))
    yield Finding(
        "no-warpgroup-dot",
        f"single warps multiply {names}, on Hopper",
        tuple(
            Evidence(
                f"{d.name}: tile {'x'.join(map(str, d.shape[:2]))}, {p.launch.num_warps} warps, {d.unit}",
                "compiled",
                d.line,
            )
            for d in dots
        ),
        "a tile of at least 64 rows and num_warps a multiple of 4: then Triton uses warp-group instructions "
        "(wgmma)",
        bound,
        "warp-group instructions' rate over that of single warps",
    )


def find_promoted(p: Profile) -> Iterator[Finding]:
    """Find fp8 operands that are converted before they are multiplied."""
    if p.compiled is None or p.counters is None or not p.counters.tensor_ops:
        return
    fp8 = [name for name, kind in p.compiled.signature.items() if kind.startswith("*fp8")]
    done = sorted({t.inputs for t in p.counters.tensor_ops})
    if len(fp8) < 2 or any(kind.startswith("fp8") for kind in done):
        return
    rates = p.gpu.tensor_ops_per_clock_per_sm
    fast, slow = rates.get("fp8_fp32acc"), rates.get(f"{done[0]}_fp32acc")
    yield Finding(
        "fp8-promoted",
        f"fp8 values are multiplied as {' and '.join(done)}",
        (
            Evidence(f"{' and '.join(fp8)} hold fp8", "compiled"),
            Evidence(
                f"all {figures.count(p.counters.total_tensor_ops or 0)} tensor operations are on {' and '.join(done)}",
                "counted",
            ),
        ),
        "a GPU, a tile and an accumulator for which there is an fp8 instruction; or 16-bit inputs to begin with",
        fast / slow if fast and slow else None,
        "the fp8 rate over the 16-bit rate, if the GPU has an fp8 one",
    )


def _without_tensor_cores(p: Profile, dot: Dot) -> Iterator[Finding]:
    if dot.unit != "fma":
        return
    fp32 = 2 * p.gpu.compute.fp32_ops_per_clock_per_sm / 2
    tf32 = p.gpu.tensor_ops_per_clock_per_sm.get("tf32_fp32acc")
    yield Finding(
        "dot-without-tensor-cores",
        f"{dot.name} is multiplied without tensor cores",
        (Evidence(f"{dot.input_type} inputs: plain multiply-adds", "compiled", dot.line),),
        "16-bit inputs, or for fp32 inputs input_precision='tf32' (10 bits of mantissa: check that it is enough)",
        tf32 / fp32 if tf32 and dot.input_type in ("f32", "fp32") else None,
        "the tensor cores' TF32 rate over the rate of plain fp32",
    )


RULES = (
    Rule(
        "dot-without-tensor-cores",
        "A dot does not use the tensor cores",
        "fp32 inputs under input_precision='ieee', and shapes or types that no tensor instruction takes, are "
        "multiplied "
        "by plain multiply-adds.",
        "any dot whose layout is the plain one",
        "the layout of the dot in Triton's IR; rates from the catalog",
        "tl.dot(a, b, input_precision='ieee')",
        "tl.dot(a, b)   # TF32, or 16-bit inputs",
        find_without_tensor_cores,
    ),
    Rule(
        "no-warpgroup-dot",
        "Single-warp tensor instructions on Hopper",
        "On sm_90 the full rate needs warp-group instructions, which take 64 rows of four warps together. "
        "Smaller tiles and "
        "fewer warps fall back to the instructions of Ampere, at two thirds of the rate.",
        "any dot on sm_90 with an mma layout (fp64 apart)",
        "the layout of the dot in Triton's IR; both rates read on an H200 (catalog)",
        "Q_TILE_SIZE=32 or num_warps=2",
        "Q_TILE_SIZE=64, num_warps=4",
        find_single_warp,
    ),
    Rule(
        "fp8-promoted",
        "fp8 inputs are multiplied as 16-bit ones",
        "Where Triton has no fp8 instruction for a GPU or a shape, it converts the inputs first: conversions are "
        "added and "
        "the rate is that of 16 bits.",
        "two tensors of fp8 or more, and no fp8 tensor operation executed",
        "types of the arguments; executed tensor operations by type from the machine code",
        "fp8 inputs on sm_80",
        "16-bit inputs there; fp8 on sm_89 and later",
        find_promoted,
    ),
)
