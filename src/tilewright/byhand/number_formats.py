"""FP8, FP4, MXFP4 and NVFP4 by hand: grids, one number in long form, and a tensor in every scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.byhand.trace import Array, Recorder, Table, Trace, Value
from tilewright.byhand.values import Parameter, Values, Walkthrough
from tilewright.formats import FORMATS, SCHEMES, ElementFormat, Quantised, Scheme, element, quantise
from tilewright.formats.blocks import SCALE_ROUNDINGS

LAYOUTS = ("E3M0", "E2M1", "E1M2", "INT4")
"""Layouts of four bits that are compared with an ideal scale."""
A = [0.31, -0.47, 0.12, 0.28, -0.19, 0.41, -0.35, 0.07, 0.22, -0.44, 0.38, -0.11, 0.16, 0.29, -0.25, 0.44]
B = [-3.54, -3.14, 1.33, 10.1, -0.07, 2.71, -1.62, 0.88, 3.01, -2.35, 0.15, 1.97, -0.53, 2.24, -1.11, 0.66]


def work(values: Values) -> Trace:
    """Work the example through."""
    tensor, number = values.array("tensor"), float(values["number"])
    one = element(values["element"])
    log = Recorder()
    _grid(log, one)
    _long_form(log, one, number)
    held = {name: quantise(tensor, _chosen(how, values)) for name, how in SCHEMES.items()}
    for one_held in held.values():
        _scheme(log, one_held)
    parts = _parts(len(tensor))
    results: dict[str, Value] = {
        "scoreboard": _scoreboard(log, held, parts),
        "layouts of four bits, mse with ideal scales": _layouts(log, tensor, parts),
        "bits": _bits(log, len(tensor)),
        "small gradients": _gradients(log),
    }
    lessons = (
        "A scale for few values follows them closely and costs bits; a power of two is cheap and "
        "loses up to a factor of 2.",
        "Of the 16 codes of four bits, floats put more of them near 0, where most values of a tensor are.",
        "NVFP4 rounds a block's scale up, so that its largest value is never clipped.",
    )
    return Trace(WALKTHROUGH.name, WALKTHROUGH.title, values.shown(), tuple(log.steps), results, lessons)


def _chosen(how: Scheme, values: Values) -> Scheme:
    if how.scale == "e8m0":
        return replace(how, scale_rounding=values["mxfp4_scale"])
    if how.scale == "e4m3":
        return replace(how, scale_rounding=values["nvfp4_scale"])
    return how


def _parts(count: int) -> list[tuple[str, slice]]:
    """The first blocks of 16 by letter: A, B, ..."""
    return [(chr(ord("A") + n), slice(16 * n, 16 * n + 16)) for n in range(min(-(-count // 16), 4))]


def _grid(log: Recorder, one: ElementFormat) -> None:
    grid = one.magnitudes
    shown = grid if len(grid) <= 32 else np.concatenate([grid[:8], grid[-8:]])
    bits = [" ".join(part for part in one.fields(code) if part) for code in range(min(len(grid), 8))]
    outputs: dict[str, Value] = {
        "bits": one.bits,
        "bias": one.bias,
        "numbers of 0 or more"
        if len(shown) == len(grid)
        else "numbers of 0 or more, first and last 8": shown,
        "first codes (sign exponent mantissa)": ", ".join(bits),
        "codes of 0 or more": len(grid),
        "distinct numbers": one.distinct,
        "largest": one.largest,
        "least above 0": one.least,
    }
    log.step(
        f"the grid of {one.name}",
        "exponent e > 0: (1 + m) 2^(e - bias);  e = 0: m 2^(1 - bias)",
        {"exponent bits": one.exponent_bits, "mantissa bits": one.mantissa_bits},
        outputs,
        "Between two powers of two the steps are even; at each power of two they double. Below the "
        "least exponent they stay.",
    )


def _long_form(log: Recorder, one: ElementFormat, number: float) -> None:
    if one.name == "E8M0" and number <= 0:
        log.step(
            f"{number:g} in E8M0",
            "-",
            {"number": number},
            {"held": "E8M0 holds powers of two alone"},
            "No sign, no 0.",
        )
        return
    code = int(one.encode(number))
    held = float(one.decode(code))
    grid = one.magnitudes
    lower = grid[grid <= abs(number)]
    upper = grid[grid >= abs(number)]
    neighbours = np.array([lower[-1] if len(lower) else grid[0], upper[0] if len(upper) else grid[-1]])
    sign, exponent, mantissa = one.fields(code)
    log.step(
        f"{number:g} in {one.name}, in long form",
        "the nearer of the two neighbours; half way, the one with an even code",
        {"number": number},
        {
            "neighbours of its magnitude": neighbours,
            "half way": float(neighbours.mean()),
            "held": held,
            "error": held - number,
            "bits (sign exponent mantissa)": " ".join(part for part in (sign, exponent, mantissa) if part),
            "code": code,
            "dead zone: smaller than this becomes 0": one.least / 2 if one.special != "e8m0" else 0.0,
        },
        f"Larger than {one.largest:g} becomes {one.largest:g}."
        if abs(number) > one.largest
        else "What lies between two numbers of the grid is lost.",
    )


def _scheme(log: Recorder, held: Quantised) -> None:
    how = held.scheme
    rule = {
        "none": "x rounded to the grid",
        "fp32": "s = amax / largest;  x = s round(x / s)",
        "e8m0": "s = 2^(exponent of amax - exponent of the largest);  x = s round(x / s)",
        "e4m3": "g = 448 * 6 / amax;  s = E4M3(amax of the block * g / 6) / g;  x = s round(x / s)",
    }[how.scale]
    outputs: dict[str, Value] = {}
    if how.scale != "none":
        outputs["scale of each block"] = held.scales
        outputs["dead zone of each block"] = held.scales * how.element.least / 2
    if held.tensor_scale is not None and held.scale_codes is not None:
        outputs["g"] = held.tensor_scale
        outputs["stored block scales (E4M3)"] = FORMATS["E4M3"].decode(held.scale_codes)
    outputs |= {"x / s": held.original / np.where(held.scale_of_each > 0, held.scale_of_each, 1.0)}
    outputs |= {"dequantised": held.values}
    outputs |= {k: "nothing was lost" if v is None else v for k, v in held.measures().items()}
    rounding = f", scale rounded {how.scale_rounding}" if how.scale in ("e8m0", "e4m3") else ""
    log.step(f"{how.name}: {how.doc}{rounding}", rule, {"x": held.original}, outputs, _WHY[how.scale])


_WHY = {
    "none": "8 bits reach far enough without a scale here; what is lost is the mantissa.",
    "fp32": "One scale for all: the largest value sets it, and small blocks fall into the dead "
    ""
    "zone.",
    "e8m0": "An exponent alone for a scale: one byte, and multiplying by it is exact, but up to a factor of 2 is lost.",
    "e4m3": "A scale with a mantissa for each 16 values, and one of fp32 that brings them into E4M3's range.",
}


def _scoreboard(log: Recorder, held: dict[str, Quantised], parts: Sequence[tuple[str, slice]]) -> Table:
    names = [f"{what} of {part}" for part, _ in parts for what in ("mse", "zeroed")]
    rows = {}
    for scheme_name, one in held.items():
        every = one.measures()
        noise = math.inf if every["sqnr_db"] is None else every["sqnr_db"]
        of_parts = [figure for _, at in parts for m in (one.measures(at),) for figure in (m["mse"], m["zeroed"])]
        rows[scheme_name] = (every["mse"], every["max_abs"], noise, every["zeroed"], *of_parts)
    table = Table(("mse", "max_abs", "sqnr_db", "zeroed", *names), rows)
    log.step(
        "the scoreboard",
        "mean squared error, largest error, signal to noise, values that became 0; of all and of each block of 16",
        {"schemes": ", ".join(SCHEMES)},
        {"scoreboard": table},
        "Fewer bits lose more; how the scale is made decides how much.",
    )
    return table


def _layouts(log: Recorder, tensor: Array, parts: Sequence[tuple[str, slice]]) -> Table:
    rows = {}
    for name in LAYOUTS:
        held = quantise(tensor, Scheme(name, FORMATS[name], 16, "fp32"))
        rows[name] = (held.measures()["mse"], *(held.measures(at)["mse"] for _, at in parts))
    table = Table(("all", *(part for part, _ in parts)), rows)
    log.step(
        "four bits, spent otherwise",
        "blocks of 16, s = amax / largest (not rounded): mean squared error of all, then of each block",
        {"layouts": ", ".join(LAYOUTS)},
        {"mse": table},
        "E1M2 and INT4 have the same even grid. One exponent bit more or less decides between reach and evenness.",
    )
    return table


def _bits(log: Recorder, count: int) -> Table:
    large = 4096 * 4096
    kept = {name.partition("_")[0]: how for name, how in SCHEMES.items() if name != "FP8_E5M2"}
    rows = {name: (how.bits(count), how.bits(large) / large) for name, how in kept.items()}
    table = Table((f"bits for {count} values", "bits per value of 4096x4096"), rows)
    log.step(
        "what it costs",
        "element bits + block scale bits / block + tensor scale bits / values",
        {"values": count},
        {"bits": table},
        "Scales count: MXFP4 has 8 bits for 32 values, NVFP4 8 for 16 and 32 for the tensor.",
    )
    return table


def _gradients(log: Recorder) -> Table:
    formats = ("E4M3", "E5M2")
    rows = {f"{number:g}": tuple(float(FORMATS[f].round(number)) for f in formats) for number in (1e-3, 1e-5)}
    table = Table(formats, rows)
    log.step(
        "small gradients",
        "nearest number of the grid",
        {f"{name}, least above 0": FORMATS[name].least for name in formats},
        {"held": table},
        "E5M2 has two mantissa bits and reaches further down: it is the one for gradients.",
    )
    return table


WALKTHROUGH = Walkthrough(
    "number-formats",
    "Number formats",
    "FP8, FP4, MXFP4 and NVFP4: grids, one number, a tensor in every scheme, what is lost and what it costs",
    (
        Parameter("tensor", "vector", A + B, "the values; the first blocks of 16 are called A to D"),
        Parameter("number", "number", 10.1, "a number that is converted in long form"),
        Parameter("element", "choice", "E2M1", "the format that it is converted to", choices=tuple(FORMATS)),
        Parameter("mxfp4_scale", "choice", "down", "how MXFP4's scales are rounded", choices=SCALE_ROUNDINGS),
        Parameter(
            "nvfp4_scale", "choice", "up", "how NVFP4's block scales are rounded", choices=SCALE_ROUNDINGS
        ),
    ),
    work,
)
