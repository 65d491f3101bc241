"""What rules see beyond their examples, each beside the nearest thing that they have to let pass."""

import textwrap

import pytest

from tilewright.lint import lint_text

HEAD = "import triton\nimport triton.language as tl\n"


def found(text):
    result = lint_text("kernel.py", HEAD + textwrap.dedent(text))
    assert result.unreadable is None
    return [(m.rule, m.level) for m in result.mistakes]


@pytest.mark.parametrize(
    "statement",
    ["(x * 2).to(tl.int8)", "x.to(tl.int32).to(tl.int8)", "x + 1", "-x", "x == 1", "x[:, None]", "tl.math.exp(x)"],
)
def test_arithmetic_that_is_dropped(statement):
    assert found(f"\n@triton.jit\ndef kernel(p):\n    x = tl.load(p)\n    {statement}\n    tl.store(p, x)\n") == [
        ("dropped-result", "error")
    ]


@pytest.mark.parametrize("statement", ["tl.load(p)", "tl.atomic_add(p, 1)", "helper(p)", "tl.debug_barrier()", "'a'"])
def test_statements_that_do_something_pass(statement):
    assert found(f"\n@triton.jit\ndef kernel(p):\n    {statement}\n") == []


@pytest.mark.parametrize("name", ["y", "_y"])
def test_results_that_are_read_or_called_so_pass(name):
    text = f"\n@triton.jit\ndef kernel(p):\n    x = tl.load(p)\n    {name} = x.to(tl.float16)\n    tl.store(p, {{}})\n"
    assert found(text.format(name)) == []
    assert bool(found(text.format("x"))) == (name == "y")


@pytest.mark.parametrize(
    ("value", "seen"),
    [("3 * 32", True), ("4 * 32", False), ("1 << 7", False), ("2**7 - 1", True), ("1 / 0", False), ("9**9**9", False)],
)
def test_numbers_are_worked_out(value, seen):
    text = f"\n@triton.jit\ndef kernel(p):\n    tl.store(p + tl.arange(0, {value}), 0.0)\n"
    assert bool(found(text)) == seen


@pytest.mark.parametrize("low", ["LOW = -1e6", "LOW: tl.constexpr = -1e6", "LOW = tl.constexpr(-1e6)"])
def test_sentinels_by_name(low):
    text = f"""
        {low}
        @triton.jit
        def kernel(x_ptr, m_ptr, n):
            i = tl.arange(0, 64)
            x = tl.where(tl.load(m_ptr + i) != 0, tl.load(x_ptr + i), LOW)
            tl.store(x_ptr + i, tl.exp2(x - tl.max(x, 0)))
    """
    assert found(text) == [("finite-sentinel", "warning")]
    assert found(text + f"\n        {low}\n") == []


@pytest.mark.parametrize(
    ("compared", "seen"),
    [
        ("tl.exp(x) == tl.load(q)", True),
        ("x / 3 == tl.load(q)", True),
        # A row and its own maximum are equal exactly; what is loaded may be; bounds and flags are not values.
        ("tl.exp(x) == tl.max(tl.exp(x), 0)", False),
        ("x == tl.load(q)", False),
        ("tl.exp(x) == 0.0", False),
    ],
)
def test_equality_of_what_is_rounded(compared, seen):
    text = f"\n@triton.jit\ndef kernel(p, q):\n    x = tl.load(p)\n    tl.store(p, tl.where({compared}, 1.0, x))\n"
    assert found(text) == ([("float-equality", "warning")] if seen else [])


@pytest.mark.parametrize("loop", ["", "    for j in range(n):\n        tl.store(x_ptr, j)\n", "    helper(x_ptr)\n"])
def test_stages_are_idle_only_without_a_loop(loop):
    text = "\n@triton.autotune([triton.Config({}, 4, 2), triton.Config({}, 4, 3)], key=[])\n@triton.jit\n"
    text += f"def kernel(x_ptr, n):\n    tl.store(x_ptr, n)\n{loop}"
    assert found(text) == ([] if loop else [("autotune-idle-stages", "note")])


@pytest.mark.parametrize("size", ["n, d = x.shape", "n = x.shape[0]", "n = x.numel()", "n = x.size(0)"])
def test_branches_on_a_size_under_a_name(size):
    text = f"""
        @triton.jit
        def kernel(x):
            tl.store(x, 1.0)

        def run(x, m):
            {size}
            if {{}}:
                kernel[(1,)](x)
    """
    assert found(text.format("n > 1024")) == [("shape-branch", "note")]
    assert found(text.format("n == 0")) == []
    assert found(text.format("len(x.shape) == 2")) == []
    assert found(text.format("m > 1024")) == []


def test_an_address_by_whatever_name():
    text = """
        @triton.jit
        def kernel(out, columns):
            tl.store(out + tl.program_id(0) * columns + tl.arange(0, 64), {})
    """
    assert found(text.format("0.0")) == [("int32-address", "note")]
    assert found(text.format("0.0").replace("(0) *", "(0).to(tl.int64) *")) == []
    # A number that is not an address may wrap as it likes.
    assert found(text.format("columns + tl.program_id(1) * columns").replace("tl.program_id(0) * columns + ", "")) == []


def test_what_is_stored_where_it_was_loaded_under_another_name():
    text = """
        @triton.autotune(configs=[triton.Config({{'B': 64}})], key=[]{})
        @triton.jit
        def kernel(x_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            place = x_ptr + i
            tl.store(x_ptr + i, tl.load(place) * 2)
    """
    assert found(text.format("")) == [("autotune-in-place", "note")]
    assert found(text.format(", restore_value=['x_ptr']")) == []


@pytest.mark.parametrize("call", ["x.max(0)", "tl.max(x, 0)", "tl.max(x, axis=0)"])
def test_maxima_as_methods(call):
    text = """
        @triton.jit
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 64)
            x = tl.load(x_ptr + i, mask=i < n, other=0.0)
            tl.store(y_ptr, tl.exp({}))
    """
    assert found(text.format(call)) == [("padded-maximum", "warning")]


def test_the_maximum_of_bits_is_any():
    text = """
        @triton.jit
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 64)
            x = tl.load(x_ptr + i, mask=i < n, other=0){}
            tl.store(y_ptr, tl.max(x, 0))
    """
    assert found(text.format("")) == [("padded-maximum", "note")]
    assert found(text.format(".to(tl.int1)")) == []


@pytest.mark.parametrize(
    ("valid", "seen"),
    [
        ("j + i < n", True),
        ("j + i < tl.load(l_ptr)", True),
        # Blocks that were picked: which of them are there is no matter of position.
        ("tl.load(l_ptr + j + i) >= 0", False),
        ("(picked >= 0) & (j + i < n)", False),
        ("again >= 0", False),
    ],
)
def test_masks_of_positions_and_of_picked_blocks(valid, seen):
    text = f"""
        @triton.jit
        def kernel(q_ptr, k_ptr, l_ptr, o_ptr, n, D: tl.constexpr):
            i = tl.arange(0, 64)
            t = i[:, None] * D + tl.arange(0, D)[None, :]
            q = tl.load(q_ptr + t)
            m = tl.full((64,), float("-inf"), tl.float32)
            again = i
            for j in range(0, n, 64):
                picked = tl.load(l_ptr + j + i, mask=j + i < n, other=-1)
                again = picked
                s = tl.dot(q, tl.trans(tl.load(k_ptr + t)))
                s = tl.where(({valid})[None, :], s, float("-inf"))
                m = tl.maximum(m, tl.max(s, 1))
            tl.store(o_ptr + i, m)
    """
    assert found(text) == ([("mask-on-every-tile", "note")] if seen else [])


@pytest.mark.parametrize(
    ("passed", "more", "seen"),
    [
        ("D", "", True),
        ("d", "", True),
        # What follows from the key need not be in it; pruning and heuristics may set what cannot be seen.
        ("triton.next_power_of_2(n)", "", False),
        ("rounded", "", False),
        ("min(MOST, n)", "", False),
        ("min(d, n)", "", True),
        ("64", "", False),
        ("64 if n else d", "", True),
        ("d", ", prune_configs_by={'early_config_prune': f}", False),
        ("d", ")\n@triton.heuristics(values", False),
        ("d", ", warmup=10", True),
    ],
)
def test_sizes_that_follow_from_the_key(passed, more, seen):
    text = f"@triton.autotune([triton.Config({{}}, 4), triton.Config({{}}, 8)], key=['n']{more})\n"
    text += "@triton.jit\ndef kernel(x_ptr, n, D: tl.constexpr):\n    tl.store(x_ptr + tl.arange(0, D), n)\n\n"
    text += "MOST = 64\n\ndef run(x, n, d, D):\n    rounded = triton.next_power_of_2(n)\n"
    text += f"    kernel[(1,)](x, n, D={passed})\n"
    assert found(text) == ([("autotune-key", "note")] if seen else [])


@pytest.mark.parametrize(("second", "seen"), [("64", False), ("128", True)])
def test_one_number_at_every_launch_needs_no_key(second, seen):
    text = f"""
        @triton.autotune([triton.Config({{}}, 4), triton.Config({{}}, 8)], key=['n'])
        @triton.jit
        def kernel(x_ptr, n, D: tl.constexpr):
            tl.store(x_ptr + tl.arange(0, D), n)

        def run(x, n):
            kernel[(1,)](x, n, D=64)
            kernel[(1,)](x, n, D={second})
    """
    assert found(text) == ([("autotune-key", "note")] if seen else [])


def test_what_a_kernel_wrote_before_it_reads_it_is_the_same_each_time():
    text = "@triton.autotune([triton.Config({{}})], key=[])\n@triton.jit\ndef kernel(x_ptr):\n{}    {}\n"
    again = "tl.store(x_ptr, tl.load(x_ptr) + 1)"
    assert found(text.format("", again)) == [("autotune-in-place", "note")]
    assert found(text.format("    tl.store(x_ptr, 0)\n", again)) == []


def test_a_mask_of_nothing_hides_nothing():
    text = "@triton.jit\ndef kernel(x_ptr):\n    i = tl.arange(0, 64)\n"
    text += "    x = tl.load(x_ptr + i, mask={})\n    tl.store(x_ptr, tl.max(x, 0))\n"
    assert found(text.format("x_ptr")) == [("padded-maximum", "note")]
    assert found(text.format("True")) == []


@pytest.mark.parametrize(("head", "seen"), [("d = 64", False), ("d = q.shape[-1]", True)])
def test_one_config_for_a_fixed_size_passes(head, seen):
    text = f"""
        @triton.jit
        def kernel(q_ptr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
            i = tl.arange(0, BLOCK_M)[:, None] * D + tl.arange(0, D)[None, :]
            j = tl.arange(0, D)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
            tl.store(q_ptr + tl.arange(0, BLOCK_M), tl.sum(tl.dot(tl.load(q_ptr + i), tl.load(q_ptr + j)), 1))

        def run(q):
            {head}
            kernel[(1,)](q, D=d, BLOCK_M=128, BLOCK_N=64)
    """
    assert found(text) == ([("one-config-for-all", "note")] if seen else [])


def test_a_grid_that_may_be_another_is_not_judged():
    text = """
        @triton.jit
        def kernel(x):
            tl.store(x + tl.program_id(1), 1.0)

        def run(x{}):
            grid = (7,)
            kernel[grid](x)
    """
    assert found(text.format("")) == [("program-id-without-axis", "warning")]
    assert found(text.format(", grid=None")) == []


@pytest.mark.parametrize("tail", ["tl.load(p)", "tl.load(p, boundary_check=(0,))"])
def test_a_pointer_that_is_checked_in_the_tail_may_go_unchecked_in_full_tiles(tail):
    text = f"""
        @triton.jit
        def kernel(x_ptr, n, TAIL: tl.constexpr):
            p = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (64,), (0,))
            if TAIL:
                x = {tail}
            else:
                x = tl.load(p)
            tl.store(x_ptr + tl.arange(0, 64), x)
    """
    assert found(text) == ([] if "check" in tail else [("block-ptr-no-check", "note")] * 2)


@pytest.mark.parametrize(
    ("result", "seen"),
    [
        ("tl.exp2(s - m)", True),
        ("tl.where(keep, tl.exp2(s - m), 0.0)", False),
        ("tl.where(i < 3, tl.exp2(s - m), 0.0)", True),
        ("tl.where(keep, s, 0.0) + tl.exp2(m)", True),
        ("tl.where(m > LOW / 2, tl.exp2(s - m), 0.0)", False),
    ],
)
def test_a_sentinel_that_is_taken_back(result, seen):
    text = f"""
        LOW = -1e30
        @triton.jit
        def kernel(x_ptr, n):
            i = tl.arange(0, 64)
            keep = i < n
            s = tl.where(keep, tl.load(x_ptr + i), LOW)
            m = tl.max(s, 0)
            tl.store(x_ptr + i, {result})
    """
    assert found(text) == ([("finite-sentinel", "note")] if seen else [])


@pytest.mark.parametrize(
    ("then", "seen"),
    [
        ("s = tl.where(keep, s, -1e6)\n    p = tl.exp2(s - m)", True),
        ("s += tl.where(keep, 0.0, -1e6)\n    p = tl.exp2(s - m)", True),
        ("p = tl.softmax(tl.where(keep, s, -1e6))", True),
        # A pick among what has been through the softmax.
        ("p = tl.exp2(s - m)\n    p = tl.where(keep, p, -1e6)\n    p = tl.argmax(p, 0)", False),
    ],
)
def test_a_sentinel_has_to_reach_an_exponential(then, seen):
    text = "@triton.jit\ndef kernel(x_ptr, n):\n    i = tl.arange(0, 64)\n    keep = i < n\n"
    text += f"    s = tl.load(x_ptr + i)\n    m = tl.max(s, 0)\n    {then}\n    tl.store(x_ptr + i, p)\n"
    assert found(text) == ([("finite-sentinel", "note")] if seen else [])
