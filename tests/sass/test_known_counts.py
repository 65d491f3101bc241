"""Counts that are known by construction: marks in loops, against the same loops run in Python."""

from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.launch import Tensor
from tilewright.sass import Given

TRITON = tuple(int(part) for part in metadata.version("triton").split(".")[:2])
KERNELS = Path(__file__).with_name("marked.py")
GPUS = ("a100-80", "rtx-3090", "rtx-4070-super", "h200", "b200", "rtx-5090")
"""sm_80, 86, 89, 90, 100 and 120."""
OUT = Tensor.of("int32", (1,))
SMALL = st.integers(-20, 20)
INT32 = st.one_of(st.integers(-(2**31), 2**31 - 1), SMALL, st.sampled_from([2**31 - 1, -(2**31), 2**16, -1]))
INT64 = st.one_of(
    st.integers(-(2**62), 2**62), SMALL, st.sampled_from([2**32, 2**32 - 1, -(2**32), 2**53 + 1])
)
examples = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def wrap(value, bits=32):
    """A signed integer of so many bits."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def truncated(a, b):
    """Division as C and Triton have it: toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def marks(found):
    """Executed reductions: RED or ATOM, by the warp."""
    assert found.instructions is not None, found.unknown
    return sum(n for opcode, n in found.by_opcode.items() if opcode in ("RED", "REDG", "ATOMG", "ATOM"))


@pytest.fixture(params=GPUS)
def marks_of(request, count_kernel):
    """marks_of("counted_loop", {"start": 0, "stop": 9, "step": 2}): executed marks on one GPU.

    An argument that is 1 or divisible by 16 compiles another kernel: all are counted.
    """

    def marks_of(kernel, args, grid=(3,), given=(), **options):
        found = count_kernel(
            f"{KERNELS}:{kernel}",
            {"out_ptr": OUT, **args},
            grid,
            request.param,
            given,
            num_warps=1,
            **options,
        )
        return marks(found)

    return marks_of


@examples
@given(start=st.integers(-50, 50), stop=st.integers(-50, 50), step=st.integers(1, 40))
def test_loops_with_runtime_bounds(marks_of, start, stop, step):
    expected = sum(len(range(start + p, stop, step)) for p in range(3))
    assert marks_of("counted_loop", {"start": start, "stop": stop, "step": step}) == expected


@examples
@given(start=st.integers(-50, 50), stop=st.integers(-50, 50))
def test_loops_that_count_down(marks_of, start, stop):
    assert marks_of("backward_loop", {"start": start, "stop": stop}) == sum(
        len(range(start, stop - p, -3)) for p in range(3)
    )


@examples
@given(n=st.integers(-2, 12), m=st.integers(-2, 12))
def test_nested_loops(marks_of, n, m):
    expected = sum((i ^ j) & 1 == 0 for p in range(3) for i in range(n) for j in range(i + p, m))
    assert marks_of("triangle", {"n": n, "m": m}) == expected


@examples
@given(a=INT32, b=INT32.filter(lambda b: b not in (0, -(2**31))))
def test_division_of_32_bits(marks_of, a, b):
    expected = 0
    for p in range(3):
        x = wrap(a + p)
        if (x, b) == (-(2**31), -1):
            return  # overflows, and is whatever the hardware gives
        q = truncated(x, b)
        expected += (q & 7) + (x - q * b & 7)
    assert marks_of("divided", {"a": a, "b": b}) == expected


@examples
@given(a=INT64, b=INT64.filter(bool))
def test_division_of_64_bits(marks_of, a, b):
    expected = 0
    for p in range(3):
        q = truncated(a + p, b)
        expected += (q & 7) + (a + p - q * b & 7)
    assert marks_of("divided_wide", {"a": a, "b": b}) == expected


@examples
@given(tiles=st.integers(0, 60), group=st.integers(2, 9), last=st.integers(0, 8), programs=st.integers(2, 7))
def test_persistent_programs(marks_of, tiles, group, last, programs):
    expected = 0
    for p in range(programs):
        for tile in range(p, tiles, programs) if p <= last else ():
            size = min(tiles - tile // group * group, group)
            expected += tile % size + 1
    assert marks_of("persistent", {"tiles": tiles, "group": group, "last": last}, (programs,)) == expected


@examples
@given(a=INT32, b=INT32)
def test_logic_and_shifts(marks_of, a, b):
    expected = 0
    for p in range(3):
        x = a ^ p
        expected += max(min(wrap(abs(x)), 9), 0)
        expected += (x >> 3 | wrap(b << 2)) & 5
        expected += wrap(max(b & ~x, -4) + 4) & 7
        expected += x % 2**32 > b % 2**32
        expected += (x < b and x != 5) or (b >= 0 and wrap(x * b) > 100)
    assert marks_of("bits", {"a": a, "b": b}) == expected


@examples
@given(a=INT64, b=INT64)
def test_64_bit_arithmetic(marks_of, a, b):
    expected = 0
    for p in range(3):
        x = wrap(a * 3 - b + p, 64)
        expected += x > a
        expected += x % 2**64 <= b % 2**64
        expected += x & 7
    assert marks_of("wide", {"a": a, "b": b}) == expected


@examples
@given(n=st.integers(0, 2**30))
def test_while_loops(marks_of, n):
    expected = 0
    for p in range(3):
        low, high = 0, n + p + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if middle * middle <= n + p else (low, middle)
            expected += 1
    assert marks_of("searched", {"n": n}) == expected


def test_every_axis_of_the_grid(marks_of):
    grid = (3, 4, 5)
    expected = sum(
        max(2 * x + 3 * y + z - 2, 0) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])
    )
    assert marks_of("axes", {"n": 2}, grid) == expected


def line_of(text):
    lines = KERNELS.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_bound_that_is_loaded_is_unknown_until_it_is_given(count_kernel, gpu):
    args, line = {"out_ptr": OUT, "bound_ptr": OUT}, line_of("bound = tl.load(")
    found = count_kernel(f"{KERNELS}:loaded", args, (3,), gpu, num_warps=1)
    assert found.instructions is None
    (unknown,) = found.unknown
    # Triton 3.9 puts the load at the loop that uses it.
    assert unknown.place.file == str(KERNELS)
    assert unknown.place.line - line in ((0,) if TRITON < (3, 9) else (0, 1))
    line = unknown.place.line
    assert "not known" in unknown.reason
    for bound in (0, 1, 7):
        told = count_kernel(
            f"{KERNELS}:loaded", args, (3,), gpu, [Given("marked.py", line, bound)], num_warps=1
        )
        assert marks(told) == 3 * bound
        assert any(f"marked.py:{line}" in text for text in told.assumptions)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_loop_that_a_float_ends_is_unknown(count_kernel, gpu):
    found = count_kernel(f"{KERNELS}:by_number", {"out_ptr": OUT, "limit": 100.0}, (3,), gpu, num_warps=1)
    assert found.instructions is None
    assert found.unknown[0].place is not None
