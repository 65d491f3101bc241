"""Block schemes: what is stored, what it stands for, short and empty blocks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.formats import FORMATS, SCHEMES, FormatError, quantise, scheme

by_scheme = pytest.mark.parametrize("how", SCHEMES.values(), ids=lambda how: how.name)


def by_loops(tensor, how):
    """The same, written out number by number with Python's own arithmetic, for schemes of blocks."""
    numbers = [float(v) for v in np.ravel(tensor)]
    grid = [float(g) for g in how.element.magnitudes]
    amax = max(map(abs, numbers), default=0.0)
    found = []
    for start in range(0, len(numbers), how.block):
        block = numbers[start : start + how.block]
        largest = max(map(abs, block))
        if how.scale == "e8m0":
            power = 0
            while 2.0**power > largest:
                power -= 1
            while 2.0 ** (power + 1) <= largest:
                power += 1
            scale = 2.0 ** (power - 2)
        else:
            total = 448 * 6 / amax
            wanted = largest * total / 6
            scale = min(float(v) for v in FORMATS["E4M3"].magnitudes if v >= wanted) / total
        for number in block:
            at = abs(number) / scale
            best = min(range(len(grid)), key=lambda code: (abs(grid[code] - at), code % 2))
            found.append(np.copysign(grid[best] * scale, number))
    return np.array(found)


@pytest.mark.parametrize("name", ["MXFP4", "NVFP4"])
@pytest.mark.parametrize("size", [1, 15, 16, 33, 100])
def test_a_plain_loop_gives_the_same(name, size):
    tensor = np.random.default_rng(size).normal(size=size) * 3
    np.testing.assert_allclose(quantise(tensor, SCHEMES[name]).values, by_loops(tensor, SCHEMES[name]), rtol=1e-12)


@by_scheme
@pytest.mark.parametrize("shape", [(0,), (1,), (63,), (3, 100), (2, 3, 16)])
def test_shapes_and_zeros(how, shape):
    held = quantise(np.zeros(shape), how)
    assert held.values.shape == shape
    assert not held.values.any()
    assert np.isfinite(held.scales).all()
    assert held.measures()["mse"] == 0
    assert held.measures()["sqnr_db"] is None


@by_scheme
@given(st.lists(st.floats(-300, 300), min_size=1, max_size=70))
def test_nothing_is_further_off_than_its_step(how, numbers):
    held = quantise(numbers, how)
    largest = how.element.largest * held.scale_of_each
    clipped = np.abs(held.original) > largest
    grid = how.element.magnitudes
    widest = np.max(np.diff(grid)) * held.scale_of_each / 2
    assert (np.abs(held.errors)[~clipped] <= widest[~clipped] * (1 + 1e-9) + 1e-300).all()
    if how.name in ("FP4", "NVFP4"):
        assert (np.abs(held.original) <= largest * (1 + 1e-9)).all(), "a scale that is rounded up clips nothing"


def test_scales_rounded_otherwise():
    roundings = ("down", "nearest-even", "up")
    mxfp4 = [replace(SCHEMES["MXFP4"], scale_rounding=r) for r in roundings]
    assert [quantise([10.1, 1.0], how).scales[0] for how in mxfp4] == [2.0, 2.0, 4.0]
    assert quantise([8.0], replace(SCHEMES["MXFP4"], scale_rounding="up")).scales[0] == 2.0
    assert quantise([11.9], replace(SCHEMES["MXFP4"], scale_rounding="nearest-even")).scales[0] == 4.0
    nvfp4 = [replace(SCHEMES["NVFP4"], scale_rounding=r) for r in roundings]
    stored = [quantise([0.47] + [0.0] * 15 + [10.1], how).scale_codes for how in nvfp4]
    # 20.848 before it is rounded.
    assert [FORMATS["E4M3"].decode(codes)[0] for codes in stored] == [20, 20, 22]


def test_bits():
    assert [SCHEMES[n].bits(32) for n in ("FP8_E4M3", "FP4", "MXFP4", "NVFP4")] == [256, 160, 136, 176]
    assert SCHEMES["NVFP4"].bits(17) == 17 * 4 + 2 * 8 + 32


def test_tiny_and_large_blocks_keep_their_scale():
    held = quantise([1e-36, -1e-36], SCHEMES["MXFP4"])
    assert np.abs(held.errors).max() < 2e-37
    assert quantise([1e-45], SCHEMES["MXFP4"]).values[0] == 0
    assert quantise([3e38], SCHEMES["MXFP4"]).values[0] == pytest.approx(3e38, rel=0.2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: quantise([[1.0, np.nan]], SCHEMES["FP4"]), "value \\[0, 1\\] is nan"),
        (lambda: quantise([np.inf], SCHEMES["MXFP4"]), "value \\[0\\] is inf"),
        (lambda: quantise([1.0], replace(SCHEMES["MXFP4"], scale_rounding="floor")), "one of down, nearest-even, up"),
        (lambda: quantise([1.0], replace(SCHEMES["MXFP4"], block=0)), "a block needs 1 value or more"),
        (lambda: scheme("nvfp8"), "did you mean NVFP4"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(FormatError, match=said):
        call()
