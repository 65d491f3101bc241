"""TTGIR as the compiler writes it, read into dots, buffers and trips; buffers add up to what was compiled."""

import itertools

import pytest

from tilewright.compile import triton_version
from tilewright.launch import Tensor
from tilewright.ttgir import summarise
from tilewright.ttgir.ir import parse

GPU = "rtx-4070-super"

SOFTMAX = """
    @triton.jit
    def kernel(x_ptr, y_ptr, n, steps, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        for step in range(steps):
            x = tl.load(x_ptr + step * n + i, mask=i < n, other=-float("inf"))
            e = tl.exp(x - tl.max(x, 0))
            tl.store(y_ptr + step * n + i, e / tl.sum(e, 0), mask=i < n)
"""

MATMUL = """
    @triton.jit
    def kernel(a_ptr, b_ptr, c_ptr, K, stride, BLOCK: tl.constexpr, PRECISION: tl.constexpr = None):
        i, k = tl.arange(0, BLOCK), tl.arange(0, 32)
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for at in range(0, K, 32):
            a = tl.load(a_ptr + i[:, None] * stride + (at + k)[None, :])
            b = tl.load(b_ptr + (at + k)[:, None] * stride + i[None, :])
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
        tl.store(c_ptr + i[:, None] * stride + i[None, :], acc)
"""

SCAN = """
    @triton.jit
    def kernel(x_ptr, y_ptr, steps, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        for step in range(steps):
            tl.store(y_ptr + i, tl.cumsum(tl.load(x_ptr + i + step), 0))
"""

WHILE = """
    @triton.jit
    def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        left = n
        while left > 0:
            y = tl.sum(tl.load(x_ptr + i + left), 0)
            tl.atomic_add(y_ptr, y)
            left = left - y.to(tl.int32)
"""

NESTED = """
    @triton.jit
    def kernel(x_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        for row in range(rows):
            total = tl.zeros((BLOCK,), tl.float32)
            for column in range(columns):
                if column % 3 == 0:
                    total += tl.load(x_ptr + row * columns + column + i)
                else:
                    total -= 1.0
            tl.store(y_ptr + row, tl.max(total, 0))
"""

ROW_SUM = """
    @triton.jit
    def kernel(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
        tl.store(y_ptr + i, tl.sum(tl.load(x_ptr + i[:, None] * COLUMNS + j[None, :]), 1))
"""

VECTOR = Tensor.of("fp32", (1 << 16,))


def square(dtype, *names):
    return {name: Tensor.of(dtype, (1024, 1024)) for name in names}


@pytest.fixture
def layout_of(compile_kernel):
    """Compile a kernel and read its layout; whatever the kernel, its buffers must add up."""

    def layout_of(body, args, gpu=GPU, **options):
        compiled = compile_kernel(body, gpu, args, **options)
        layout = summarise(compiled.asm["ttgir"], compiled.buffer_bytes)
        assert None not in [b.bytes for b in layout.buffers]
        end = max((b.offset + b.bytes for b in layout.buffers), default=0)
        assert end <= compiled.shared_bytes <= end + 127
        primary = [b for b in layout.buffers if b.shares_with is None]
        for one, two in itertools.pairwise(primary):
            assert one.offset + one.bytes <= two.offset
        assert 0 <= compiled.shared_bytes - sum(b.bytes for b in primary) < 1024
        assert not compiled.notes
        return layout

    return layout_of


def lines_of(body):
    """Line numbers, in the file that the fixture writes, of the lines of a kernel's body."""
    return {line.strip(): number for number, line in enumerate(body.splitlines(), start=4)}


def test_reductions_across_warps(layout_of):
    layout = layout_of(SOFTMAX, {"x_ptr": VECTOR, "y_ptr": VECTOR, "n": 1000, "steps": 4, "BLOCK": 1024})
    lines = lines_of(SOFTMAX)
    assert layout.loops == 1
    assert layout.dots == ()
    assert [(t.name, t.kind, t.line, t.shape, t.bytes) for t in layout.trips] == [
        ("tl.max", "reduction", lines["e = tl.exp(x - tl.max(x, 0))"], (1024,), 16),
        (
            "tl.sum",
            "reduction",
            lines["tl.store(y_ptr + step * n + i, e / tl.sum(e, 0), mask=i < n)"],
            (1024,),
            16,
        ),
    ]


def test_a_reduction_within_one_warp_takes_no_shared_memory(layout_of):
    args = {"x_ptr": VECTOR, "y_ptr": VECTOR, "n": 1000, "steps": 4, "BLOCK": 1024}
    layout = layout_of(SOFTMAX, args, num_warps=1, num_stages=1)
    assert (layout.trips, layout.buffers, layout.stage_bytes) == ((), (), 0)


@pytest.mark.parametrize("warps", [2, 4, 8])
def test_scratch_of_a_row_reduction(compile_kernel, warps):
    """16 rows of 1,024 across all warps: one fp32 partial sum a row and warp; newer Tritons do it in rounds."""
    args = {"x_ptr": VECTOR, "y_ptr": VECTOR, "ROWS": 16, "COLUMNS": 1024}
    compiled = compile_kernel(ROW_SUM, GPU, args, num_warps=warps)
    layout = summarise(compiled.asm["ttgir"], compiled.buffer_bytes)
    (reduction,) = [b for b in layout.buffers if b.name == "tl.sum"]
    assert 0 < reduction.bytes <= 16 * warps * 4
    if triton_version() < "3.8":
        assert reduction.bytes == 16 * warps * 4
    assert reduction.bytes == max(b.offset + b.bytes for b in layout.buffers) == compiled.shared_bytes


@pytest.mark.parametrize(("stages", "copies"), [(1, None), (2, 1), (3, 2), (4, 3)])
def test_matmul_pipeline(layout_of, stages, copies):
    args = {
        **square("fp16", "a_ptr", "b_ptr"),
        **square("fp32", "c_ptr"),
        "K": 1024,
        "stride": 1024,
        "BLOCK": 64,
    }
    layout = layout_of(MATMUL, args, num_stages=stages)
    (dot,) = layout.dots
    assert (dot.name, dot.shape[:2], dot.unit, dot.in_loop) == ("acc", (64, 64), "mma", True)
    assert dot.shape[2] == (
        16 if stages > 1 and triton_version() >= "3.8" else 32
    )  # newer ones prefetch halves
    assert (dot.input_type, dot.accumulator_type, dot.operations) == (
        "f16",
        "f32",
        2 * 64 * 64 * dot.shape[2],
    )
    assert dot.line == lines_of(MATMUL)["acc = tl.dot(a, b, acc, input_precision=PRECISION)"]
    pipelined = {b.name: (b.copies, b.shape, b.bytes) for b in layout.buffers if b.role == "pipeline"}
    if copies is None:
        assert pipelined == {}
        assert {t.kind for t in layout.trips} == {"staging of a load"}
        assert {t.name: t.bytes for t in layout.trips} == {"a": 64 * 32 * 2, "b": 64 * 32 * 2}
    else:
        tile = copies * 64 * 32 * 2
        assert pipelined == {"a": (copies, (64, 32), tile), "b": (copies, (32, 64), tile)}
        assert layout.trips == ()
    assert layout.warp_owns_rows is (dot.warps_per_cta[1] == 1)


def test_ieee_fp32_dot_has_no_tensor_cores(layout_of):
    matrices = square("fp32", "a_ptr", "b_ptr", "c_ptr")
    layout = layout_of(MATMUL, {**matrices, "K": 1024, "stride": 1024, "BLOCK": 32, "PRECISION": "ieee"})
    assert [d.unit for d in layout.dots] == ["fma"]
    assert layout.dots[0].repeat_factor >= 1


def test_tf32_dot_has_tensor_cores(layout_of):
    matrices = square("fp32", "a_ptr", "b_ptr", "c_ptr")
    layout = layout_of(MATMUL, {**matrices, "K": 1024, "stride": 1024, "BLOCK": 32, "PRECISION": "tf32"})
    assert [d.unit for d in layout.dots] == ["mma"]


CHAINED = """
    @triton.jit
    def kernel(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, N: tl.constexpr):
        i, j = tl.arange(0, M), tl.arange(0, N)
        a = tl.load(a_ptr + i[:, None] * 64 + tl.arange(0, 64)[None, :])
        out = tl.zeros((M, 64), tl.float32)
        for at in range(0, n, N):
            b = tl.load(b_ptr + (at + j)[:, None] * 64 + tl.arange(0, 64)[None, :])
            s = tl.dot(a, tl.trans(b))
            p = s.to(tl.float16)
            out = tl.dot(p, b, out)
        tl.store(c_ptr + i[:, None] * 64 + tl.arange(0, 64)[None, :], out)
"""


@pytest.mark.parametrize(("rows", "warps_per_cta", "trip"), [(64, (4, 1), None), (16, (1, 4), 16 * 32 * 2)])
def test_chained_dots(layout_of, rows, warps_per_cta, trip):
    """As many rows as columns: warps stack along rows. Fewer: side by side, and P goes through shared memory."""
    matrices = {**square("fp16", "a_ptr", "b_ptr"), **square("fp32", "c_ptr")}
    layout = layout_of(CHAINED, {**matrices, "n": 1024, "M": rows, "N": 32})
    assert [d.warps_per_cta for d in layout.dots] == [warps_per_cta] * 2
    assert [d.name for d in layout.dots] == ["s", "out"]
    assert layout.warp_owns_rows is (trip is None)
    moved = [(t.name, t.kind, t.bytes) for t in layout.trips]
    assert moved == ([] if trip is None else [("p", "store and load", trip)])


def test_scan(layout_of):
    layout = layout_of(SCAN, {"x_ptr": VECTOR, "y_ptr": VECTOR, "steps": 4, "BLOCK": 1024})
    scans = [t for t in layout.trips if t.kind == "scan"]
    assert [t.line for t in scans] == [
        lines_of(SCAN)["tl.store(y_ptr + i, tl.cumsum(tl.load(x_ptr + i + step), 0))"]
    ]


def test_while_loop(layout_of):
    layout = layout_of(WHILE, {"x_ptr": VECTOR, "y_ptr": VECTOR, "n": 1000, "BLOCK": 1024})
    assert layout.loops == 1
    assert [(t.name, t.kind) for t in layout.trips] == [("tl.sum", "reduction")]


def test_nested_loops(compile_kernel):
    args = {"x_ptr": VECTOR, "y_ptr": VECTOR, "rows": 8, "columns": 100, "BLOCK": 512}
    compiled = compile_kernel(NESTED, GPU, args, num_stages=1)
    module = parse(compiled.asm["ttgir"])
    (load,) = module.named("tt.load")
    assert len(load.loops) == 2
    outer, inner = (module.operations[i] for i in load.loops)
    assert inner.loops == (outer.index,)
    (reduction,) = module.named("tt.reduce")
    assert reduction.loops == (outer.index,)
    assert reduction.location.user_frame.line == lines_of(NESTED)["tl.store(y_ptr + row, tl.max(total, 0))"]
    layout = summarise(compiled.asm["ttgir"], compiled.buffer_bytes)
    assert layout.loops == 2
    assert [t.name for t in layout.trips] == ["tl.max"]


@pytest.mark.parametrize("gpu", ["a100-80", "h200", "b200", "mi300x", "rx-7900-xtx"])
@pytest.mark.parametrize("kernel", ["softmax", "matmul", "chained", "scan"])
def test_buffers_add_up_everywhere(layout_of, gpu, kernel):
    half, single = square("fp16", "a_ptr", "b_ptr"), square("fp32", "c_ptr")
    body, args = {
        "softmax": (SOFTMAX, {"x_ptr": VECTOR, "y_ptr": VECTOR, "n": 1000, "steps": 4, "BLOCK": 2048}),
        "matmul": (MATMUL, {**half, **single, "K": 1024, "stride": 1024, "BLOCK": 128}),
        "chained": (CHAINED, {**half, **single, "n": 1024, "M": 64, "N": 64}),
        "scan": (SCAN, {"x_ptr": VECTOR, "y_ptr": VECTOR, "steps": 4, "BLOCK": 2048}),
    }[kernel]
    layout_of(body, args, gpu)


def test_every_operation_has_its_types_and_place(compile_kernel):
    args = {
        **square("fp16", "a_ptr", "b_ptr"),
        **square("fp32", "c_ptr"),
        "K": 1024,
        "stride": 1024,
        "BLOCK": 64,
    }
    module = parse(compile_kernel(MATMUL, GPU, args).asm["ttgir"])
    loads = list(module.named("ttg.async_copy_global_to_local"))
    assert loads
    for op in loads:
        assert op.location.user_frame.file.endswith("kernel.py")
        assert "!tt.ptr<f16>" in {t.element for t in op.operand_types}
    (loop,) = module.named("scf.for")
    assert {d.loops for d in module.named("tt.dot")} == {(loop.index,)}
    for op in module.operations:
        for value in op.results:
            assert module.defined_by[value] is op


@pytest.mark.parametrize("gpu", ["h200", "b200"])
def test_loads_inside_the_call_of_a_dot_are_named_by_their_side(compile_kernel, gpu):
    """Both buffers' only variable is the one that the statement assigns."""
    body = """
        @triton.jit
        def kernel(a_ptr, b_ptr, c_ptr, K, stride, BLOCK: tl.constexpr):
            i, k = tl.arange(0, BLOCK), tl.arange(0, 32)
            a, b = a_ptr + i[:, None] * stride + k[None, :], b_ptr + k[:, None] * stride + i[None, :]
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
            for _ in range(0, K, 32):
                acc = tl.dot(tl.load(a), tl.load(b), acc)
                a += 32
                b += 32 * stride
            tl.store(c_ptr + i[:, None] * stride + i[None, :], acc)
    """
    args = {
        **square("bf16", "a_ptr", "b_ptr"),
        **square("fp32", "c_ptr"),
        "K": 1024,
        "stride": 1024,
        "BLOCK": 64,
    }
    compiled = compile_kernel(body, gpu, args, num_stages=3)
    layout = summarise(compiled.asm["ttgir"], compiled.buffer_bytes)
    names = [b.name for b in layout.buffers if b.role == "pipeline"]
    assert names == ["left operand of acc", "right operand of acc"]
