"""The weighted row sum's case file, explained without torch."""

from pathlib import Path

import pytest

from tilewright.compile import Compiled
from tilewright.gpus import load
from tilewright.launch import load_case
from tilewright.model import make_profile

CASE = Path(__file__).parents[2] / "cases" / "row_sum" / "case.py"


def explain(compiler, variant, **values):
    gpu, launch = load("rtx-4070-super"), load_case(f"{CASE}:{variant}").launch(values)
    (result,) = compiler.compile([(launch, gpu.target)])
    assert isinstance(result, Compiled), result
    return make_profile(launch, gpu, result)


def check(p):
    assert p.fits
    assert p.launch.grid == (7, 1, 1)  # 100 rows in tiles of 16
    assert p.compiled.signature["N_COLS"] == "i32"
    assert p.compiled.constexprs["stride_xc"] == 1
    assert not p.layout.dots
    # One exchange between warps on every step: of w's tile where rows are wide, of the sums where they are not.
    (trip,) = p.layout.trips
    assert trip.bytes == p.compiled.shared_bytes
    assert 0 < trip.bytes <= 512


def test_pointers(compiler):
    check(explain(compiler, "pointers", ROWS=100, COLS=63))


@pytest.mark.usefixtures("block_pointers")
def test_block_pointers(compiler):
    check(explain(compiler, "block_pointers", ROWS=100, COLS=63))


def test_no_rows_is_an_empty_grid(compiler):
    p = explain(compiler, "pointers", ROWS=0)
    assert p.launch.programs == 0
    assert p.waves is None
