"""The tests of the rules notice a rule that is wrong: each of these changes makes one of them fail."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest

import tilewright.sass.integer
import tilewright.sass.logic
import tilewright.sass.values
from tilewright.sass.decode import RULES

MODULES = {
    "values": tilewright.sass.values,
    "integer": tilewright.sass.integer,
    "logic": tilewright.sass.logic,
}
MUTATIONS = [
    ("integer", "add(multiply(a(state), b(state)), c(state))", "multiply(a(state), b(state))"),
    ("integer", "_wide(x.bits, signed) * _wide(y.bits, signed)", "_wide(x.bits, False) * _wide(y.bits, signed)"),
    ("integer", "over: Array = total < product", "over: Array = total <= product"),
    ("integer", "over = over | (total < before)", "over = over"),
    ("integer", "[1 if high_only else 0 :]", "[0 if high_only else 0 :]"),
    ("integer", "[invert(value), _ONE]", "[invert(value)]"),
    ("integer", "if negative and carry_outs", "if negative and not carry_outs"),
    ("integer", "total - value if negative else total + value", "total + value"),
    ("integer", "constant(2 if twice.any() else 1)", "constant(1 if twice.any() else 0)"),
    ("integer", "shift = ops.integer() & 31", "shift = (ops.integer() + 1) & 31"),
    ("integer", "np.uint32(32 - shift) if shift", "np.uint32(31 - shift) if shift"),
    ("integer", "top = (_signed(x.bits) >> 31)", "top = (_signed(x.bits) >> 0)"),
    ("integer", "largest(x) < 1 << (32 - shift)", "largest(x) < 1 << (33 - shift)"),
    ("integer", "np.minimum(n.bits, np.uint32(most))", "np.minimum(n.bits, np.uint32(64))"),
    ("integer", "np.minimum(n.bits, np.uint32(most))", "n.bits & np.uint32(most - 1)"),
    ("integer", "n.bits & np.uint32(most - 1) if wrap", "n.bits & np.uint32(2 * most - 1) if wrap"),
    ("integer", "        elif signed:\n            moved", "        elif not signed:\n            moved"),
    ("integer", "gone = (np.uint32(32) - n)", "gone = (np.uint32(33) - n)"),
    ("integer", "(np.uint64(1) << limited(n.bits)) - np.uint64(1)", "(np.uint64(1) << limited(n.bits))"),
    ("integer", "(a if row & 4 else ~a) & (b if row & 2", "(a if row & 1 else ~a) & (b if row & 2"),
    ("integer", "0xFC: (0, 1), 0xFE: (0, 1, 2)", "0xFC: (0, 1), 0xFE: (0, 1)"),
    ("integer", "low, high = low & bits, high | bits", "low, high = bits, high | bits"),
    ("integer", "merge_words(no(state), yes(state)", "merge_words(yes(state), no(state)"),
    ("integer", "np.where(least.bits, np.minimum(x, y),", "np.where(~least.bits, np.minimum(x, y),"),
    ("integer", "(_signed(a.bits), _signed(b.bits)) if signed", "(_signed(a.bits), _signed(b.bits)) if not signed"),
    ("integer", "np.where(bits >= 0x80,", "np.where(bits > 0x80,"),
    ("integer", "for bit in range(32))\n", "for bit in range(31))\n"),
    ("integer", "[1] - 1\n", "[1]\n"),
    ("integer", "np.where(bits == 0, -1, place)", "np.where(bits == 0, 0, place)"),
    ("logic", '"LT": np.less,', '"LT": np.less_equal,'),
    ("logic", 'if kind.startswith("S") else bits', "if False else bits"),
    ("logic", "strict | (equal & low)", "strict | low"),
    ("logic", "~equal | low", "~equal & low"),
    ("logic", 'settled = ~other.bits if join == "AND"', 'settled = other.bits if join == "AND"'),
    ("logic", "for f in (found, ~found)", "for f in (found, found)"),
    ("logic", "(x if row & 4 else ~x)", "(x if row & 2 else ~x)"),
    ("logic", "clear = np.uint32(~(mask << shift)", "clear = np.uint32(~(mask)"),
    ("logic", "bit = np.uint32(1 << (n + shift))", "bit = np.uint32(1 << n)"),
    ("logic", "active = active & found.bits\n", "active = active\n"),
    ("logic", "lane + step <= most", "lane + step < most"),
    ("logic", "inside = target >= most", "inside = target > most"),
    ("logic", "absent = ~np.take", "absent = np.zeros_like(active) & np.take"),
    ("logic", "near.astype(np.float64) < exact", "near.astype(np.float64) > exact"),
    ("logic", "kept = kept + ((kept << drop) != value)", "kept = kept + 0"),
    ("logic", "(np.trunc(number) == number)", "(number == number)"),
    ("values", "return Word(~a.part, np.uint32(0) - a.lane_part", "return Word(~a.part, ~a.lane_part"),
    ("values", "if taken & mine:", "if False:"),
    ("values", "ALL_BITS_INT if found & lanes else", "found | lanes if found & lanes else"),
    ("values", "return over >= 1, over >= 2", "return over >= 1, over >= 1"),
    ("values", "if not in_parts and low >> 32", "if low >> 32"),
    ("values", "= a.part * b.part, a.lane_part * b.part", "= a.part * b.part, a.lane_part"),
    ("values", "unknown = np.where(guess, either, unknown)", "pass"),
    ("values", "lanes = mine if lanes is None else lanes | mine", "lanes = mine"),
    ("values", "return min(high, ALL_BITS_INT)", "return min(high, 1 << 20)"),
]  # fmt: skip


def load_checks():
    """The tests of the rules as a module of their own."""
    spec = importlib.util.spec_from_file_location(
        "rules_under_mutation", Path(__file__).with_name("test_rules.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECKS = load_checks()


def mutant(name, text):
    """Run a room's source under its own name, as a module beside the real one."""
    original = MODULES[name]
    module = types.ModuleType(original.__name__)
    module.__file__ = original.__file__
    sys.modules[original.__name__] = module
    exec(compile(text, original.__file__, "exec"), module.__dict__)
    if name == "values":
        for kept in ("Word", "Flag", "Cause"):
            setattr(module, kept, getattr(original, kept))
    return module


@pytest.fixture
def changed():
    """Put a change into the table of rules, and take it out again."""
    rules = dict(RULES)

    def changed(name, before, after):
        sources = {n: Path(m.__file__).read_text() for n, m in MODULES.items()}
        assert before in sources[name], "the source has changed: bring this mutation up to date"
        sources[name] = sources[name].replace(before, after)
        RULES.clear()
        for module in ("values", "integer", "logic") if name == "values" else ("integer", "logic"):
            mutant(module, sources[module])

    yield changed
    RULES.clear()
    RULES.update(rules)
    for module in MODULES.values():
        sys.modules[module.__name__] = module


def checks():
    """Every check of the rules, the quick ones first."""
    for guard in (None, "!P3"):
        yield lambda guard=guard: CHECKS.test_votes(None, guard)
    for mode in ("UP", "DOWN", "BFLY", "IDX"):
        yield lambda mode=mode: CHECKS.test_shuffles(mode, 0x1C03)
        yield lambda mode=mode: CHECKS.test_shuffles(mode, 0x0)
    yield CHECKS.test_a_shuffle_from_a_lane_that_does_not_take_part_is_unknown
    yield lambda: CHECKS.test_conversions_to_and_from_float("U32")
    yield CHECKS.test_64_bits_to_float_and_back
    yield lambda: CHECKS.test_a_reciprocal_is_known_where_only_division_of_integers_asks_for_it(0.1, False)
    for test in (
        CHECKS.test_against_plain_integers,
        CHECKS.test_what_is_known_holds_however_the_unknown_bits_turn_out,
        CHECKS.test_words_in_parts,
    ):
        for text in CHECKS.FORMS:
            yield lambda test=test, text=text: test(text)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m[0]}: {m[1].strip()}"[:60])
def test_a_wrong_rule_is_noticed(changed, mutation):
    changed(*mutation)
    for check in checks():
        try:
            check()
        except Exception:
            return
    pytest.fail("no check of the rules notices this change")


def test_the_checks_pass_on_the_rules_as_they_are(changed):
    changed("values", "Return -a modulo 2**32.", "Return -a modulo 2**32!")
    for check in checks():
        check()
