"""Large figures in words, and tables whose last column is cut."""

import io

import pytest

from tilewright import figures
from tilewright.report import Page


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9228, "9,228"),
        (999_999, "999,999"),
        (1_000_000, "1.0 M"),
        (1_606_041_600, "1,606.0 M"),
        (9_999_900_000, "9,999.9 M"),
        (206_158_430_208, "206.2 G"),
    ],
)
def test_counts(number, text):
    assert figures.count(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (16_777_216, "16.8 MB"),
        (528_482_304, "528 MB"),
        (999_600_000, "1 GB"),
        (8_606_711_808, "8.61 GB"),
    ],
)
def test_sizes(number, text):
    assert figures.size(number) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(1, 8, "12.5%"), (0, 8, "0.0%"), (1, 10_000, "<0.1%"), (1, 0, "0.0%"), (8, 8, "100.0%")],
)
def test_shares(part, whole, text):
    assert figures.share(part, whole) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(8, 8, "########"), (4, 8, "####"), (1, 100, "#"), (1, 1000, ""), (0, 1, ""), (1, 0, "")],
)
def test_bars(part, whole, text):
    assert figures.bar(part, whole) == text


@pytest.mark.parametrize(("number", "text"), [(-303_038_464, "-303.0 M"), (8192, "+8,192"), (0, "0")])
def test_differences(number, text):
    assert figures.signed(number) == text


def test_a_line_of_source_loses_its_comment_first():
    assert figures.code("x = 1  # one", 5) == "x = 1"
    assert figures.code("x = tl.load(pointers)", 10) == "x = tl...."


def written(rows, **options):
    file = io.StringIO()
    Page(file).table(rows, **options)
    return file.getvalue()


def test_the_last_column_is_cut_and_empty_ones_left_out():
    text = written(
        [("1", "", "x" * 200), ("20", "", "y")],
        head=("line", "tensor", ""),
        right=(0, 1),
        cut=True,
        drop_empty=True,
    )
    lines = text.splitlines()
    assert lines[0] == "  line"
    assert lines[1] == f"     1  {'x' * 89}..."
    assert len(lines[1]) == 100
    assert lines[2] == "    20  y"


def test_a_table_of_another_width():
    text = written([("1", "x" * 200)], cut=True, columns=140)
    assert max(map(len, text.splitlines())) == 140
