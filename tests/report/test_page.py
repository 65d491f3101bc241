"""The page: 100 columns whatever is put on it, plain unless a person watches."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.report import Page
from tilewright.report.page import WIDTH

words = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=60)
cells = st.lists(words, max_size=3).map("\n".join)


def written(write):
    file = io.StringIO()
    write(Page(file))
    return file.getvalue()


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1, max_size=5)
    )
)
def test_a_table_fits_whatever_it_holds(rows):
    text = written(lambda page: page.table(rows, right=[0, 3]))
    for line in text.splitlines():
        assert len(line) <= WIDTH
        assert line == line.rstrip()
    held = "".join("".join(cell.split()) for row in rows for cell in row)
    assert sorted("".join(text.split())) == sorted(held)


def test_words_stay_whole_where_there_is_room():
    rows = [("one two three " * 5, "x" * 30, "four five six " * 5)]
    text = written(lambda page: page.table(rows))
    assert "x" * 30 in text
    assert set(text.split()) == {"one", "two", "three", "x" * 30, "four", "five", "six"}


@given(st.lists(words, max_size=10).map(" ".join), st.sampled_from(["", "  ", "      "]))
def test_paragraphs_wrap_and_hang(text, mark):
    lines = written(lambda page: page.paragraph(text, mark)).splitlines()
    assert all(len(line) <= WIDTH and line.startswith(mark) for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_columns_are_aligned():
    rows = [("K", "4,096 B"), ("layout", "512 B")]
    text = written(lambda page: page.table(rows, head=("name", "size"), right=[1]))
    assert text == "  name       size\n  K       4,096 B\n  layout    512 B\n"


def test_a_cell_of_several_lines():
    text = written(lambda page: page.table([("a", "one\ntwo", "x"), ("b", "three", "y")]))
    assert text == "  a  one    x\n     two\n  b  three  y\n"


def test_an_empty_table_is_nothing():
    assert written(lambda page: page.table([], head=("a", "b"))) == ""


def test_headings_end_at_the_last_column():
    text = written(lambda page: page.heading("GRID", "32 x 1 x 1"))
    assert text.splitlines()[1] == "GRID" + "32 x 1 x 1".rjust(96)


@pytest.mark.parametrize(("left", "lines"), [(60, 1), (70, 2)])
def test_a_title_too_wide_takes_two_lines(left, lines):
    text = written(lambda page: page.title("l" * left, "r" * 38))
    assert len(text.splitlines()) == lines
    assert all(len(line) <= WIDTH for line in text.splitlines())


class Watched(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "bold"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_bold_only_for_a_person_who_wants_it(monkeypatch, environment, bold):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = Watched()
    Page(file).heading("GRID")
    assert ("\033[1m" in file.getvalue()) is bold
    assert "\033" not in written(lambda page: page.heading("GRID"))
