"""What a change removed and added: exp against exp2, one case set otherwise, lines paired by their text."""

import dataclasses
import json

import jsonschema
import pytest

from tilewright.model import count_launches, difference
from tilewright.model.difference import _aligned
from tilewright.report.schema import schema


def counted(p):
    return dataclasses.replace(p, counters=count_launches([(p.compiled, p.launch)])[0])


@pytest.mark.usefixtures("block_pointers")
def test_exp2_takes_the_multiplies_and_the_range_checks_away(explain):
    """exp is exp2 of x / ln 2 with a check of x's range: a multiply, a compare and two predicated multiplies."""
    before, after = (counted(explain(v, "rtx-4070-super")) for v in ("v3", "v4"))
    d = difference(before, after)
    by_opcode = {c.name: c.by for c in d.by_opcode}
    assert by_opcode["FMUL"] < -70e6
    # A warp's 32 lanes check one element of P each at a time; alpha is checked too.
    assert by_opcode["FSETP"] < -(32 * 4096 * 4096 // 32)
    assert sum(by_opcode.values()) == after.counters.instructions - before.counters.instructions
    (exponential,) = [x for x in d.by_line if x.before_place and x.before_place.line == 52]
    assert exponential.after_place.line == 56
    assert {c.name for c in exponential.by_opcode} >= {"FMUL", "FSETP"}
    assert "HMMA" not in by_opcode
    json_form = json.loads(json.dumps(d.to_dict()))
    jsonschema.validate(json_form, schema("comparison"))
    jsonschema.validate(json_form["before"], schema("profile"))


def test_a_profile_does_not_differ_from_itself(explain):
    p = counted(explain("v6", "rtx-4070-super", N=256))
    d = difference(p, p)
    assert (d.by_line, d.by_opcode) == ((), ())
    assert all(c.by == 0 for c in d.figures)


def test_what_is_not_counted_is_not_compared(explain):
    p = explain("v6", "rtx-4070-super", N=256)
    d = difference(p, counted(p))
    assert (d.by_line, d.by_opcode) == ((), ())
    jsonschema.validate(json.loads(json.dumps(d.to_dict())), schema("comparison"))


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ("abc", "abc", [(1, 1), (2, 2), (3, 3)]),
        ("abc", "ac", [(1, 1), (2, None), (3, 2)]),
        ("ac", "abc", [(1, 1), (None, 2), (2, 3)]),
        ("axc", "ayzc", [(1, 1), (2, 2), (None, 3), (3, 4)]),
        ("", "a", [(None, 1)]),
    ],
)
def test_lines_are_paired_by_their_text(old, new, pairs):
    assert list(_aligned([f"{c}\n" for c in old], [f"    {c}  # {c}\n" for c in new])) == pairs
