"""Lanes of a warp that part, masks, packed predicates, spilled bounds: counts that are known by construction."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tilewright.compile import Compiled
from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, make_launch
from tilewright.sass import Given
from tilewright.sass.count import count

KERNELS = Path(__file__).with_name("lanes.py")
GPUS = ("a100-80", "rtx-4070-super", "h200", "b200", "rtx-5090")
PROGRAMS, WARPS = 2, 4
PAIRS = [(5, 3), (0, -5), (0, 7), (1, -64), (3, -200), (-7, 1000), (1, 0)]


@pytest.fixture(scope="session")
def counted(compiler):
    """Compile a kernel once a GPU, count it with many arguments: counted("loop", "h200", {"a": 1, "b": 2})."""
    kept = {}

    def counted(name, gpu, args, programs=PROGRAMS, num_warps=WARPS, dtype="int32", traffic=False, **options):
        kernel = find_kernel(f"{KERNELS}:{name}")
        x = Tensor.of(dtype, (1 << 20,))
        launch = make_launch(kernel, {"x_ptr": x, **args}, (programs,), num_warps=num_warps, options=options)
        key = (name, gpu, num_warps, *options.items())
        if key not in kept:
            (kept[key],) = compiler.compile([(launch, load(gpu).target)])
        assert isinstance(kept[key], Compiled), kept[key]
        return count(kept[key], launch, traffic=traffic)

    return counted


def marks(found):
    """Executed marks by number, each instruction of a run of equal ones counted once."""
    assert found.instructions is not None, found.unknown
    totals = Counter()
    for i in found.by_instruction:
        if "NANOSLEEP" in i.text:
            assert i.text.startswith("NANOSLEEP"), i.text
            totals[int(i.text.split()[1], 16)] += i.executed
    return +totals


def remainder(a, b):
    """The remainder with the sign of the dividend, as in C and Triton."""
    return abs(a) % b * (1 if a >= 0 else -1)


def warps(values):
    """Values of a launch's lanes, warp by warp."""
    lanes = [values(at) for at in range(128 * PROGRAMS)]
    return [lanes[at : at + 32] for at in range(0, len(lanes), 32)]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_warp_loops_as_long_as_one_lane_does(counted, gpu, pair):
    a, b = pair
    found = counted("loop", gpu, {"a": a, "b": b})
    turns = [[max(remainder(at, 13) - 3, 0) for at in lanes] for lanes in warps(lambda at: at * a + b)]
    assert marks(found) == +Counter({17: sum(max(lanes) for lanes in turns)})
    # Lanes that leave at different times reach the barrier apart, and each group is issued.
    meetings = sum(i.executed for i in found.by_instruction if i.text.startswith("BSYNC"))
    assert meetings == sum(len(set(lanes)) for lanes in turns)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_both_ways_are_issued_where_lanes_take_both(counted, gpu, pair):
    a, b = pair
    lanes = warps(lambda at: at * a + b)
    assert marks(counted("either", gpu, {"a": a, "b": b})) == +Counter(
        {
            18: 2 * sum(any(v >= 0 for v in warp) for warp in lanes),
            19: 3 * sum(any(v < 0 for v in warp) for warp in lanes),
            20: len(lanes),
        }
    )


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_lanes_part_inside_a_loop_that_they_leave_one_by_one(counted, gpu, pair):
    a, b = pair
    expected = Counter()
    for warp in warps(lambda at: (at, remainder(at * a + b, 9) - 3)):
        for i in range(6):
            ways = [(at ^ i) & 3 == 0 for at, n in warp if i < n]
            expected[21] += 2 * (False in ways)
            expected[22] += 2 * (True in ways)
            expected[23] += bool(ways)
        expected[24] += 1
    assert marks(counted("nested", gpu, {"a": a, "b": b})) == +expected


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    "case", [(5, 3, 2), (-3, 100, 5), (40, -7, 1), (1, 300, 4), (0, 0, 9), (2, 2, 0)], ids=str
)
def test_masks_that_do_not_fit_the_predicate_registers(counted, gpu, case):
    a, b, n = case
    found = counted("masks", gpu, {"a": a, "b": b, "n": n}, programs=3, traffic=True)
    stored = 0
    for lane in range(128 * 3):
        stored += lane * a < b
        stored += (lane ^ a) & 5 == 1
        stored += lane + b > 2 * a
        stored += (lane * b) & 31 > a
        stored += remainder(lane, 11) == remainder(a, 11)
        stored += (lane | a) < (b | 3)
        stored += (lane - a) * (lane - b) < 0
        stored += lane > b - a
    kinds = found.traffic.kinds
    assert (kinds["global stores"].bytes if n else 0) == 4 * n * stored
    assert (kinds["global loads"].bytes if n else 0) == 4 * n * 128 * 3
    # What depends on a loaded value is not known, and it alone.
    store = f"global stores at line {line_of('mask=m1 & (y != 1)')}"
    assert {u.what for u in found.unknown} == ({store} if n else set())
    assert {u.place.line for u in found.unknown} <= {line_of("y = tl.load(")}
    unknown = sum(i.executed for i in found.by_instruction if i.opcode == "STG" and i.access is None)
    assert unknown == (kinds["global stores"].unknown if n else 0)
    assert any("P2R" in i.text for i in found.by_instruction)


def line_of(text):
    return next(n for n, line in enumerate(KERNELS.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("gpu", GPUS)
def test_bounds_that_are_spilled(counted, gpu):
    spills = 0
    for a, b, n in [(50, 7, 3), (100, 3, 2), (61, 9, 1), (8, 5, 4), (70, 70, 2)]:
        found = counted(
            "spilled", gpu, {"a": a, "b": b, "n": n}, programs=3, num_warps=1, dtype="fp32", maxnreg=40
        )
        expected = Counter()
        for p in range(3):
            quotient, rest = divmod(a + p, b)
            third = (a * 7 + p) // (b + 3) & 15
            least = min(quotient, rest) & 7
            expected[17] += n * (quotient & 7)
            expected[18] += n * (rest & 7)
            expected[19] += n * third * (quotient > rest)
            expected[20] += n * ((third > 5 and least < 4) + (a + p > 60) + least * (rest % 2 == 0))
        assert marks(found) == +expected
        spills += found.spill_loads
    assert spills > 0


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    "values", [(3, 5, 7, 200, True), (-3, -5, 300, 2, False), (127, 0, -1, 255, True)], ids=str
)
def test_arguments_of_one_and_two_bytes(counted, gpu, values):
    found = counted("narrow", gpu, dict(zip("abcde", values, strict=True)))
    a, b, c, d, e = values
    expected = Counter({17: max(a, 0), 18: max(b, 0), 19: max(c, 0), 20: d + e})
    assert marks(found) == +Counter({k: PROGRAMS * WARPS * v for k, v in expected.items()})


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("warps_of_a_program", [1, 4])
def test_bounds_reduced_over_lanes(counted, gpu, warps_of_a_program):
    """Through shuffles and shared memory: exact, or said to be unknown."""
    for a, b in [(5, 3), (0, 7), (1, -64), (3, -200)]:
        found = counted("reduced", gpu, {"a": a, "b": b}, num_warps=warps_of_a_program)
        expected = Counter()
        for p in range(PROGRAMS):
            values = [remainder((128 * p + lane) * a + b, 17) for lane in range(128)]
            expected[17] += warps_of_a_program * max(max(values), 0)
            expected[18] += warps_of_a_program * (sum(values) & 31)
        assert marks(found) == +expected


def collective(warp):
    """What every lane gets, operation by operation, as the PTX ISA has it."""
    unsigned = [v % 2**32 for v in warp]
    joined = 0
    for v in unsigned:
        joined |= v
    ballot = sum((v > 5) << lane for lane, v in enumerate(warp))
    alike = (
        ballot,
        21 if max(warp) > 14 else 9,
        21 if min(warp) > -9 else 9,
        sum(warp),
        min(warp),
        max(unsigned),
        joined,
    )
    yield from ([value] * 32 for value in alike)
    yield [warp[lane ^ 5] for lane in range(32)]
    yield [warp[lane - 3 if lane >= 3 else lane] for lane in range(32)]
    yield [warp[lane + 9 if lane + 9 < 32 else lane] for lane in range(32)]
    yield [warp[lane & 24 | 2] for lane in range(32)]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_what_lanes_work_out_together(counted, gpu, pair):
    a, b = pair
    found = counted("together", gpu, {"a": a, "b": b}, traffic=True)
    assert not found.unknown
    expected = Counter()
    for warp in warps(lambda at: remainder(at * a + b, 17)):
        for number, values in enumerate(collective(warp)):
            expected[number] += sum(v >> (lane & 7) & 1 for lane, v in enumerate(values))
    stores = Counter()
    for i in found.by_instruction:
        if "STG" in i.text:
            offset = re.search(r"\+0x([0-9a-f]+)\]", i.text)
            stores[int(offset[1], 16) // 4096 if offset else 0] += i.access.bytes // 4
    assert +stores == +expected


def test_more_programs_than_can_be_followed_are_unknown(counted):
    found = counted("nested", "h200", {"a": 5, "b": 3}, programs=2**31 - 1)
    assert found.instructions is None
    assert "2,147,483,647 programs" in found.unknown[0].reason


def test_control_through_shared_memory_of_a_given_value(count_kernel):
    """What is exchanged differs by warp where the lanes that ask for it are the same in all."""
    args = {"x_ptr": Tensor.of("int32", (1024,)), "n": 1024}
    given = [Given("lanes.py", line_of("while tl.max(left) > 0:"), 0)]
    found = count_kernel(f"{KERNELS}:until_none_is_left", args, (2,), "h200", given)
    assert found.instructions is None or found.instructions > 0
    assert not any("fault" in u.reason for u in found.unknown)


def test_bytes_of_matrix_loads(explain_counts, published_compiler):
    """Q once and K, V in every step as operands: 8 matrices of 8 x 8 bf16 a 16 x 16 tile and warp, 128 bytes each."""
    found = explain_counts("v1", "rtx-4070-super", q=64, k=32, warps=4, stages=3)
    loads = [i for i in found.by_instruction if i.opcode == "LDSM"]
    assert loads
    assert all(".x4" in i.text.lower() or ".4." in i.text or i.text.split()[0].endswith(".4") for i in loads)
    assert all(i.access.bytes == 512 * i.executed for i in loads)
    assert found.traffic.kinds["shared matrix loads"].bytes == 512 * sum(i.executed for i in loads)
