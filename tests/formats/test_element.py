"""Element formats: against ml_dtypes on every code random and adversarial numbers, and what must be."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.formats import FORMATS, ROUNDINGS, FormatError, element

THEIRS = {
    "E2M1": ml_dtypes.float4_e2m1fn,
    "E2M3": ml_dtypes.float6_e2m3fn,
    "E3M2": ml_dtypes.float6_e3m2fn,
    "E4M3": ml_dtypes.float8_e4m3fn,
    "E5M2": ml_dtypes.float8_e5m2,
    "E8M0": ml_dtypes.float8_e8m0fnu,
}
by_name = pytest.mark.parametrize("name", THEIRS)


def theirs(name, numbers):
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(numbers, np.float64).astype(THEIRS[name])


@by_name
def test_every_code_stands_for_the_same_number(name):
    own = FORMATS[name]
    codes = np.arange(2**own.bits, dtype=np.uint8)
    np.testing.assert_array_equal(own.values, codes.view(THEIRS[name]).astype(np.float64))
    np.testing.assert_array_equal(np.signbit(own.values[:-1]), np.signbit(codes.view(THEIRS[name]).astype(float))[:-1])


@by_name
def test_every_number_has_its_own_code(name):
    own = FORMATS[name]
    known = np.isfinite(own.values)
    np.testing.assert_array_equal(own.encode(own.values[known]), np.arange(2**own.bits)[known])


def adversarial(own):
    """Every number, every middle of two, and what lies next to these."""
    grid = own.magnitudes
    points = np.concatenate([grid, (grid[1:] + grid[:-1]) / 2, [own.largest * 1.01, own.least / 2, own.least / 3]])
    near = np.concatenate([np.nextafter(points, 0), points, np.nextafter(points, np.inf)])
    return near[near > 0] if own.special == "e8m0" else np.concatenate([near, -near])


@by_name
def test_rounding_is_theirs_up_to_the_largest(name):
    own = FORMATS[name]
    random = np.random.default_rng(0).normal(size=20_000) * np.exp2(np.random.default_rng(1).integers(-12, 12, 20_000))
    numbers = np.concatenate([adversarial(own), np.abs(random) if own.special == "e8m0" else random])
    numbers = numbers[np.abs(numbers) <= own.largest]
    np.testing.assert_array_equal(own.round(numbers), theirs(name, numbers).astype(np.float64))


@pytest.mark.parametrize("name", ["E4M3", "E5M2"])
def test_what_is_too_large_without_saturation_is_theirs(name):
    own = FORMATS[name]
    step = own.magnitudes[-1] - own.magnitudes[-2]
    half = own.largest + step / 2
    numbers = np.array([own.largest, np.nextafter(half, 0), half, np.nextafter(half, np.inf), own.largest * 2, np.inf])
    numbers = np.concatenate([numbers, -numbers, [np.nan]])
    np.testing.assert_array_equal(own.round(numbers, saturate=False), theirs(name, numbers).astype(np.float64))
    assert set(np.abs(own.round(numbers[:-1]))) == {own.largest}


@pytest.mark.parametrize("name", ["E2M1", "E2M3", "E3M2"])
def test_formats_without_infinity_saturate_as_theirs(name):
    numbers = np.array([1e3, -1e9, FORMATS[name].largest * 1.2, np.inf, -np.inf])
    np.testing.assert_array_equal(FORMATS[name].round(numbers), theirs(name, numbers).astype(np.float64))


def test_figures_of_the_formats():
    e4m3, e5m2, e2m1 = FORMATS["E4M3"], FORMATS["E5M2"], FORMATS["E2M1"]
    np.testing.assert_array_equal(e2m1.magnitudes, [0, 0.5, 1, 1.5, 2, 3, 4, 6])
    assert (e4m3.largest, e4m3.least, e4m3.bias, e4m3.distinct, len(e4m3.magnitudes)) == (448, 2**-9, 7, 253, 127)
    assert (e5m2.largest, e5m2.least, e5m2.distinct) == (57344, 2**-16, 247)
    assert np.isnan(e4m3.values[[0x7F, 0xFF]]).all()
    assert np.isnan(e4m3.values).sum() == 2
    assert np.isinf(e5m2.values[[0x7C, 0xFC]]).all()
    assert FORMATS["INT4"].values.tolist() == [*range(8), *range(-8, 0)]
    assert FORMATS["E3M0"].magnitudes.tolist() == [0, 0.25, 0.5, 1, 2, 4, 8, 16]
    assert FORMATS["E1M2"].magnitudes.tolist() == [n / 4 for n in range(8)]
    powers = FORMATS["E8M0"].values[:-1]
    assert (np.frexp(powers)[0] == 0.5).all()
    assert e4m3.fields(0x7E) == ("0", "1111", "110")
    assert FORMATS["E8M0"].fields(127) == ("", "01111111", "")


def test_half_way_goes_to_the_even_code():
    e2m1 = FORMATS["E2M1"]
    np.testing.assert_array_equal(e2m1.round([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]), [0, 1, 1, 2, 2, 4, 4])
    np.testing.assert_array_equal(FORMATS["INT4"].round([0.5, 1.5, -0.5, -7.5, -9, 7.4, 9]), [0, 2, 0, -8, -8, 7, 7])


@pytest.mark.parametrize("name", [n for n in FORMATS if n != "E8M0"])
@given(number=st.floats(-1e3, 1e3))
def test_directed_rounding_brackets_a_number(name, number):
    own = FORMATS[name]
    inside = abs(number) <= own.largest
    up, down, zero, away = (float(own.round(number, r)) for r in ROUNDINGS[1:])
    if inside:
        assert down <= number <= up
        assert abs(zero) <= abs(number) <= abs(away)
        assert {zero, away} == {up, down}
        assert float(own.round(number)) in (up, down)
    assert np.signbit(own.round(number)) == np.signbit(number) or own.whole


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: element("e4m4"), "did you mean E4M3"),
        (lambda: FORMATS["E2M1"].encode([1.0, np.nan]), "E2M1 has no NaN: found NaN at \\[1\\]"),
        (lambda: FORMATS["E8M0"].encode([2.0, -1.0]), "numbers above 0 only: found -1.0 at \\[1\\]"),
        (lambda: FORMATS["E8M0"].encode(0.0), "numbers above 0 only"),
        (lambda: FORMATS["E2M1"].decode([16]), "codes from 0 to 15"),
        (lambda: FORMATS["E2M1"].encode(1.0, "nearest"), "did you mean nearest-even"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(FormatError, match=said):
        call()


def test_no_numbers_and_many_dimensions():
    assert FORMATS["E4M3"].encode([]).shape == (0,)
    assert FORMATS["E4M3"].decode([]).shape == (0,)
    assert FORMATS["E4M3"].encode(np.ones((2, 3, 4))).shape == (2, 3, 4)
    assert element("e2m1") is FORMATS["E2M1"]
