"""Counts of launches: the cache and what decides its keys, processes, given values, what a case needs."""

import dataclasses
import json

import jsonschema
import pytest

from tilewright.compile import Cache
from tilewright.gpus import load
from tilewright.launch import find_kernel, load_case, make_launch
from tilewright.launch.launch import Tensor
from tilewright.model import AssumeError, count_launches, counting, make_profile
from tilewright.model.counting import count_key
from tilewright.report.schema import schema
from tilewright.sass import Given

ROWS = """
    @triton.jit
    def kernel(x_ptr, y_ptr, len_ptr, stride, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        n = tl.load(len_ptr + row)
        i = tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            acc += tl.load(x_ptr + row * stride + start + i, mask=start + i < n, other=0.0)
        tl.store(y_ptr + row, tl.sum(acc, axis=0))
"""
LOADED_AT = 8


@pytest.fixture
def job(kernel_file, compiler):
    """job(grid=64, stride=1024) -> (Compiled, Launch) of a kernel whose loop ends where memory says."""
    file = kernel_file(ROWS)

    def job(grid=64, stride=1024):
        args = {
            "x_ptr": Tensor.of("fp32", (grid, 1024)),
            "y_ptr": Tensor.of("fp32", (grid,)),
            "len_ptr": Tensor.of("i32", (grid,)),
            "stride": stride,
            "BLOCK": 128,
        }
        launch = make_launch(find_kernel(f"{file}:kernel"), args, (grid,))
        return compiler.compile([(launch, load("rtx-4070-super").target)])[0], launch

    return job


@pytest.fixture
def given(job):
    """given(1024): the value for the line that the count names as what it needs to know."""
    (unknown,) = count_launches([job()])[0].unknown
    return lambda value: [Given("kernel.py", unknown.place.line, value)]


def test_a_count_is_kept_and_found_again(job, given, tmp_path):
    cache = Cache(tmp_path)
    first = count_launches([job()], given=given(1024), cache=cache)[0]
    again = count_launches([job()], given=given(1024), cache=Cache(tmp_path))[0]
    assert first.instructions > 0
    assert (first.cached, again.cached) == (False, True)
    assert first == again


def test_what_decides_a_count_is_in_its_key(job, given, monkeypatch):
    compiled, launch = job()
    keys = [
        count_key(compiled, launch, (), True),
        count_key(compiled, launch, (), False),
        count_key(compiled, launch, given(1024), True),
        count_key(compiled, launch, given(512), True),
        count_key(*job(grid=32), (), True),
        count_key(*job(stride=2048), (), True),
        count_key(dataclasses.replace(compiled, num_warps=8), launch, (), True),
        count_key(dataclasses.replace(compiled, asm={**compiled.asm, "sass": "x"}), launch, (), True),
    ]
    monkeypatch.setattr(counting, "counter_digest", lambda: "another")
    keys.append(count_key(compiled, launch, (), True))
    assert len(set(keys)) == len(keys)


def test_a_damaged_entry_is_counted_again(job, given, tmp_path):
    cache = Cache(tmp_path)
    count_launches([job()], given=given(256), cache=cache)
    (entry,) = tmp_path.glob("count-*.z")
    entry.write_bytes(b"damaged")
    assert not count_launches([job()], given=given(256), cache=cache)[0].cached


def test_processes_count_what_one_counts(job, given):
    jobs = [job(grid) for grid in (1, 2, 3, 4)]
    seen = []
    together = count_launches(
        jobs, given=given(512), workers=2, progress=lambda done, total: seen.append((done, total))
    )
    assert [c.instructions for c in together] == [
        c.instructions for c in count_launches(jobs, given=given(512))
    ]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_given_values_decide(job, given):
    one, two = (count_launches([job()], given=given(n))[0] for n in (1024, 2048))
    assert one.instructions < two.instructions
    assert any("given" in a for a in one.assumptions)


def test_what_is_loaded_is_unknown_with_the_place(job):
    found = count_launches([job()])[0]
    assert found.instructions is None
    assert [(u.place.line, u.place.file[-9:]) for u in found.unknown] == [(LOADED_AT, "kernel.py")]


def test_a_given_value_that_fits_nothing_is_an_error(job):
    with pytest.raises(AssumeError, match=r"--assume other\.py:3=1: nothing is loaded at that line"):
        count_launches([job()], given=[Given("other.py", 3, 1)])


def test_a_fault_of_the_counter_is_said_and_not_kept(job, tmp_path, monkeypatch):
    def fail(*_):
        raise IndexError("out of range")

    monkeypatch.setattr("tilewright.sass.count.count", fail)
    found = count_launches([job()], cache=Cache(tmp_path))[0]
    assert found.instructions is None
    assert (
        found.unknown[0].reason
        == "counting failed, which is a fault of Tilewright's: IndexError: out of range"
    )
    assert list(tmp_path.glob("*.z")) == []


def test_a_profile_with_unknown_counts_fits_the_schema(job):
    compiled, launch = job()
    p = make_profile(launch, load("rtx-4070-super"), compiled, count_launches([(compiled, launch)])[0])
    d = json.loads(json.dumps(p.to_dict()))
    jsonschema.validate(d, schema("profile"))
    assert d["counters"]["instructions"] is None
    assert d["counters"]["barriers"] is None
    assert LOADED_AT <= d["counters"]["unknown"][0]["line"] <= LOADED_AT + 1
    assert p.lines == ()


@pytest.mark.parametrize(
    ("n", "n_keys", "causal"),
    [(63, 100, True), (100, 63, True), (64, 64, True), (64, 64, False), (1, 0, True)],
)
def test_the_flagship_needs_what_a_count_of_pairs_says(flagship, n, n_keys, causal):
    launch = load_case(f"{flagship}:v6").launch({"N": n, "N_KEYS": n_keys, "causal": causal})
    pairs = sum(not causal or k <= q for q in range(n) for k in range(n_keys))
    assert launch.needed.operations == 4 * 32 * 64 * pairs
    assert launch.needed.bytes == 32 * ((2 * n + 2 * n_keys) * 64 * 2 + 4 * n)


def test_published_needs(flagship):
    """The study's figures: 137.4 G, and half of it where causal."""
    case = load_case(f"{flagship}:v0")
    assert case.launch({}).needed.operations == 137_438_953_472
    assert round(case.launch({"causal": True}).needed.operations / 1e9, 1) == 68.7


@pytest.mark.usefixtures("block_pointers")
def test_lines_add_up(explain):
    """v3 calls one function twice: its lines are its own, and the calls' lines hold what they lead to."""
    p = counted(explain("v3", "rtx-4070-super", causal=True))
    total = p.counters.instructions
    assert sum(x.instructions for x in p.lines) == total
    assert sum(x.tensor_ops for x in p.lines) == p.counters.total_tensor_ops
    assert sum(x.from_l2_bytes for x in p.lines) == p.counters.traffic.l2_to_sm_bytes
    assert sum(x.barriers for x in p.lines) == p.counters.barriers
    at = {x.place.line: x for x in p.lines}
    assert at[42].tensor_ops == at[55].tensor_ops > 0
    inside = sum(x.instructions for line, x in at.items() if 20 <= line < 65)
    calls = [x.with_calls for line, x in at.items() if x.with_calls > x.instructions and line > 65]
    assert len(calls) == 2
    # Of some instructions the compiler says the line and not the call.
    assert 0.99 * inside < sum(calls) <= inside
    assert any("standard.py" in chain[0].file for chain in at[51].library)


def counted(p):
    return dataclasses.replace(p, counters=count_launches([(p.compiled, p.launch)])[0])
