"""Sums over padding: what is still 0 there, what is not, and what cannot be told."""

import textwrap

import pytest

from tilewright.lint import lint_text

HEAD = "import triton\nimport triton.language as tl\n"
KERNEL = """
    @triton.jit
    def kernel(x_ptr, w_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other={other}).to(tl.float32)
        w = tl.load(w_ptr + i, mask=i < n, other=0.0)
        m = tl.load(w_ptr)
        mean = tl.sum(x, 0) / n
        tl.store(y_ptr, tl.sum({summed}, {axis}))
"""


def found(summed, other="0.0", axis="0"):
    text = HEAD + textwrap.dedent(KERNEL.format(summed=summed, other=other, axis=axis))
    return [m.rule for m in lint_text("kernel.py", text).mistakes if m.rule == "padded-sum"]


@pytest.mark.parametrize(
    "summed", ["tl.exp(x)", "tl.exp2(x - mean)", "(x - mean) * (x - mean)", "x + 1.0", "tl.exp(x) * tl.exp(w)",
               "(x - mean).to(tl.float32)", "tl.math.exp(x)", "tl.sigmoid(x)", "-(x + 2)", "(x + 1) / n"],
)  # fmt: skip
def test_no_longer_zero(summed):
    assert found(summed) == ["padded-sum"]


@pytest.mark.parametrize(
    "summed",
    [
        "x", "x * x", "x * scale", "(x - mean) * w", "tl.abs(x)", "tl.sqrt(x)", "x * tl.exp(x)", "x / n",
        # Not known: what a mask may be part of, what is not zero and may be it again, integers.
        "tl.where(i < n, x - mean, 0.0)", "(x - mean) * (i < n)", "tl.exp(x - m)", "x - m", "(x + 15) // 16", "x % 2",
        "(x + 1) - (w + 1)",
    ],
)  # fmt: skip
def test_zero_or_unknown(summed):
    assert found(summed) == []


@pytest.mark.parametrize("other", ["float('-inf')", "1.0", "scale"])
def test_other_padding_is_not_judged(other):
    assert found("tl.exp(x)", other) == []


def test_tiles_of_two_dimensions_are_not_judged():
    """The mask may hide rows that are not stored."""
    text = HEAD + textwrap.dedent("""
        @triton.jit
        def kernel(x_ptr, y_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr):
            r = tl.arange(0, BLOCK)
            i = r[:, None] * D + tl.arange(0, D)[None, :]
            x = tl.load(x_ptr + i, mask=r[:, None] < rows, other=0.0)
            tl.store(y_ptr + r, tl.sum(tl.exp(x), 1), mask=r < rows)
    """)
    assert [m.rule for m in lint_text("kernel.py", text).mistakes] == []


def test_a_long_chain_of_products_takes_no_time():
    """Each name is followed once: 2^60 paths lead through this."""
    chain = "".join(f"        a{n + 1} = a{n} * a{n}\n" for n in range(60))
    body = KERNEL.format(summed="a60", other="0.0", axis="0")
    body = body.replace("        tl.store", f"        a0 = x + 1\n{chain}        tl.store")
    assert "padded-sum" in [m.rule for m in lint_text("kernel.py", HEAD + textwrap.dedent(body)).mistakes]
