"""Comments that silence: where they may stand, what they cover, and what is said of those that silence nothing."""

import textwrap

import pytest

from tilewright.lint import lint_text, rule

HEAD = "import triton\nimport triton.language as tl\n"
IGNORE = "# tilewright: ignore[dropped-result]"


def found(text):
    result = lint_text("kernel.py", HEAD + textwrap.dedent(text))
    assert result.unreadable is None
    return [(m.rule, m.line) for m in result.mistakes]


def notes(text):
    return [m.message for m in lint_text("kernel.py", HEAD + textwrap.dedent(text)).mistakes if m.level == "note"]


@pytest.mark.parametrize(
    "text",
    [
        # As docs/lint.md shows: above the decorators, for the whole function.
        f"{IGNORE}\n@triton.jit\ndef kernel(x):\n    x.to(tl.float16)\n",
        f"@triton.jit  {IGNORE}\ndef kernel(x):\n    x.to(tl.float16)\n",
        # A statement of many lines, at its first, its last, and above.
        f"@triton.jit\ndef kernel(x):\n    x.to(  {IGNORE}\n        tl.float16,\n    )\n",
        f"@triton.jit\ndef kernel(x):\n    x.to(\n        tl.float16,\n    )  {IGNORE}\n",
        f"@triton.jit\ndef kernel(x):\n    {IGNORE}\n    x.to(\n        tl.float16,\n    )\n",
        # Two comments, one above the other; an empty line between a comment and its statement.
        f"@triton.jit\ndef kernel(x):\n    {IGNORE}\n    # because\n    x.to(tl.float16)\n",
        f"@triton.jit\ndef kernel(x):\n    {IGNORE}\n\n    x.to(tl.float16)\n",
    ],
)
def test_places(text):
    assert found(text) == []


@pytest.mark.parametrize("place", ["{}\n@triton.autotune(\n", "@triton.autotune(  {}\n", "def"])
def test_a_function_s_decorators_are_covered(place):
    ignore = "# tilewright: ignore[autotune-same-config]"
    first, last = ("@triton.autotune(\n", ignore) if place == "def" else (place.format(ignore), "")
    text = "    [\n        triton.Config({}),\n        triton.Config({}),\n    ],\n    key=[],\n)\n@triton.jit\n"
    assert found(f"{first}{text}def kernel(x):  {last}\n    tl.store(x, 1.0)\n") == []
    assert found(f"@triton.autotune(\n{text}def kernel(x):\n    tl.store(x, 1.0)\n") == [("autotune-same-config", 6)]


@pytest.mark.parametrize("between", ["\x0c\n", "s = 'a\u2028b'\n", "s = '\x1e'\n"])
def test_characters_that_end_lines_elsewhere_do_not_here(between):
    assert found(f"{between}@triton.jit\ndef kernel(x):\n    x.to(tl.float16)  {IGNORE}\n") == []


def test_a_comment_in_a_text_is_none():
    assert found(f'"""Write {IGNORE} to silence."""\n@triton.jit\ndef kernel(x):\n    return x\n') == []
    assert found(f"@triton.jit\ndef kernel(x):\n    x.to('''\n{IGNORE}''')\n") == [("dropped-result", 5)]


def test_a_function_s_comment_covers_no_other():
    text = f"@triton.jit\ndef one(x):  {IGNORE}\n    x.to(tl.float16)\n\n"
    text += "@triton.jit\ndef two(x):\n    x.to(tl.float16)\n"
    assert found(text) == [("dropped-result", 9)]


def test_a_rule_that_is_not_there_is_named():
    text = "@triton.jit\ndef kernel(x):\n    x.to(tl.float16)  # tilewright: ignore[droped-result]\n"
    assert found(text) == [("dropped-result", 5), ("unused-ignore", 5)]
    assert notes(text) == ["no rule 'droped-result' (did you mean dropped-result?)"]


def test_a_list_is_of_use_when_one_of_it_is():
    text = "@triton.jit\ndef kernel(x):\n    {}  # tilewright: ignore[float-equality, exp-in-loop]\n"
    used = text.replace("float-equality", "dropped-result")
    assert notes(used.format("x.to(tl.float16)")) == []
    assert notes(text.format("return x")) == ["no exp-in-loop or float-equality is found here: the comment can go"]


def test_unused_comments_are_named_only_if_asked_for():
    text = HEAD + "x = 1  # tilewright: ignore\n"
    assert [m.rule for m in lint_text("k.py", text).mistakes] == ["unused-ignore"]
    assert lint_text("k.py", text, [rule("dropped-result")]).mistakes == []
    # A bare comment may be there for a rule that was not looked for.
    assert lint_text("k.py", text, [rule("unused-ignore")]).mistakes == []
