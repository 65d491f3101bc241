"""Layouts as Triton prints them, and how much of what they execute is needed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ttgir import DotLayout, dot_layout

MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>"
WGMMA = (
    "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
)
MFMA = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>"
WMMA = "#ttg.amd_wmma<{version = 1, isTranspose = false, warpsPerCTA = [4, 1]}>"
WMMA_BASES = "#ttg.amd_wmma<{version = 1, ctaLayout = {register = [], warp = [[1, 0], [2, 0], [0, 1]]}}>"
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [4, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
)
TMEM = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MMA, DotLayout("mma", (1, 4), (16, 8))),
        (WGMMA, DotLayout("wgmma", (4, 1), (16, 64, 16))),
        (MFMA, DotLayout("mfma", (2, 2), (32, 32, 8))),
        (WMMA, DotLayout("wmma", (4, 1), (16, 16, 16))),
        (WMMA_BASES, DotLayout("wmma", (4, 2), (16, 16, 16))),
        (BLOCKED, DotLayout("fma", (4, 1), (16, 32))),
        (TMEM, DotLayout("tcgen05", None, (128, 64))),
        ("#ttg.something_new<{warpsPerCTA = [1, 1]}>", None),
        ("", None),
    ],
)
def test_layouts(text, expected):
    assert dot_layout(text) == expected


@pytest.mark.parametrize(
    ("layout", "result", "repeated", "distinct"),
    [
        # Published, RTX 4070 SUPER: 206.2 G for 137.4 G is 2x on the first of two equal dots, 1x on the other.
        (DotLayout("mma", (1, 4), (16, 8)), (16, 16), 2.0, (1, 2)),
        (DotLayout("mma", (1, 4), (16, 8)), (16, 64), 1.0, (1, 4)),
        # Published: 8 warps on 64 rows repeat every multiply.
        (DotLayout("mma", (8, 1), (16, 8)), (64, 32), 2.0, (4, 1)),
        (DotLayout("mma", (4, 1), (16, 8)), (64, 32), 1.0, (4, 1)),
        # Rows or columns that do not fill the instruction are padded.
        (DotLayout("mma", (1, 1), (16, 8)), (8, 8), 2.0, (1, 1)),
        (DotLayout("wgmma", (4, 1), (16, 64, 16)), (64, 96), 4 / 3, (4, 2)),
        (DotLayout("fma", (4, 1), (16, 32)), (64, 64), 1.0, (4, 2)),
    ],
)
def test_executed_over_needed(layout, result, repeated, distinct):
    assert layout.executed_over_needed(*result) == pytest.approx(repeated)
    if layout.warps_per_cta != (4, 1):
        assert layout.distinct_warps(*result) == distinct


def test_unknown_shares_stay_unknown():
    layout = dot_layout(TMEM)
    assert layout.covered() is None
    assert layout.distinct_warps(128, 64) is None
    assert layout.executed_over_needed(128, 64) is None


powers = st.integers(0, 4).map(lambda n: 2**n)
layouts = st.builds(
    lambda down, across, rows, columns: DotLayout("mma", (down, across), (rows, columns)),
    powers,
    powers,
    st.sampled_from([16, 32]),
    st.sampled_from([8, 16, 32, 64]),
)


@given(layouts, st.integers(1, 300), st.integers(1, 300))
def test_never_less_than_needed(layout, rows, columns):
    repeated = layout.executed_over_needed(rows, columns)
    assert repeated >= 1
    covered = layout.covered()
    if rows % covered[0] == 0 and columns % covered[1] == 0:
        assert repeated == 1
        assert layout.distinct_warps(rows, columns) == layout.warps_per_cta


@given(layouts, st.integers(1, 300), st.integers(1, 300))
def test_counted_instruction_by_instruction(layout, rows, columns):
    """Every warp steps over the result until it is covered; count the results that instructions make."""
    (down, across), (m, n) = layout.warps_per_cta, layout.instr_shape
    made, row = 0, 0
    while row < rows:
        column = 0
        while column < columns:
            made += down * across * m * n
            column += across * n
        row += down * m
    assert layout.executed_over_needed(rows, columns) == pytest.approx(made / (rows * columns))


@given(layouts, powers, powers)
def test_twice_the_warps_on_a_covered_tile_repeat_everything(layout, a, b):
    rows, columns = layout.covered()
    wider = DotLayout("mma", (layout.warps_per_cta[0] * a, layout.warps_per_cta[1] * b), layout.instr_shape)
    assert math.isclose(wider.executed_over_needed(rows, columns), a * b)
    assert wider.distinct_warps(rows, columns) == layout.warps_per_cta
