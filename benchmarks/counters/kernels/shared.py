"""Kernels in Gluon whose layouts are chosen so that each kind of shared-memory access stands alone in the code."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def round_trip(
    x_ptr, y_ptr, ROWS: gl.constexpr, COLS: gl.constexpr, WRITE: gl.constexpr, READ: gl.constexpr,
    TURNED: gl.constexpr, VEC: gl.constexpr, PER_PHASE: gl.constexpr, PHASES: gl.constexpr,
):  # fmt: skip
    """A tile written to shared memory by rows, WRITE elements a thread, and read by rows or, TURNED, by columns.

    The tile is stored by rows, swizzled in vectors of VEC elements.
    """
    across: gl.constexpr = min(32, COLS // WRITE)
    write: gl.constexpr = gl.BlockedLayout([1, WRITE], [32 // across, across], [4, 1], [1, 0])
    along: gl.constexpr = min(32, (ROWS if TURNED else COLS) // READ)
    turned: gl.constexpr = gl.BlockedLayout([READ, 1], [along, 32 // along], [1, 4], [0, 1])
    straight: gl.constexpr = gl.BlockedLayout([1, READ], [32 // along, along], [4, 1], [1, 0])
    read: gl.constexpr = turned if TURNED else straight
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(VEC, PER_PHASE, PHASES, [1, 0])
    first = gl.program_id(0) * ROWS * COLS
    r = gl.arange(0, ROWS, gl.SliceLayout(1, write))
    c = gl.arange(0, COLS, gl.SliceLayout(0, write))
    x = gl.load(x_ptr + first + r[:, None] * COLS + c[None, :])
    tile = gl.allocate_shared_memory(x.dtype, [ROWS, COLS], swizzled, x)
    y = tile.load(read)
    r = gl.arange(0, ROWS, gl.SliceLayout(1, read))
    c = gl.arange(0, COLS, gl.SliceLayout(0, read))
    gl.store(y_ptr + first + r[:, None] * COLS + c[None, :], y + y)


@gluon.jit
def copies(
    x_ptr, y_ptr, n, BLOCK: gl.constexpr, WIDTH: gl.constexpr, CACHE: gl.constexpr, MASKED: gl.constexpr
):
    """Asynchronous copies of WIDTH elements a thread into shared memory, where MASKED only those below n."""
    layout: gl.constexpr = gl.BlockedLayout([WIDTH], [32], [4], [0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [BLOCK], plain)
    if MASKED:
        async_copy.async_copy_global_to_shared(tile, x_ptr + at, mask=at < n, cache_modifier=CACHE)
    else:
        async_copy.async_copy_global_to_shared(tile, x_ptr + at, cache_modifier=CACHE)
    async_copy.commit_group()
    async_copy.wait_group(0)
    y = tile.load(layout)
    if MASKED:
        gl.store(y_ptr + at, y + y, mask=at < n)
    else:
        gl.store(y_ptr + at, y + y)


@gluon.jit
def copies_of_a_tile(
    x_ptr, y_ptr, stride, ROWS: gl.constexpr, COLS: gl.constexpr, WIDTH: gl.constexpr, VEC: gl.constexpr,
    PHASES: gl.constexpr,
):  # fmt: skip
    """Asynchronous copies of rows that lie apart in global memory, into a tile that is swizzled."""
    across: gl.constexpr = min(32, COLS // WIDTH)
    layout: gl.constexpr = gl.BlockedLayout([1, WIDTH], [32 // across, across], [4, 1], [1, 0])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(VEC, 1, PHASES, [1, 0])
    r = gl.program_id(0) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    c = gl.arange(0, COLS, gl.SliceLayout(0, layout))
    at = r[:, None] * stride + c[None, :]
    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [ROWS, COLS], swizzled)
    async_copy.async_copy_global_to_shared(tile, x_ptr + at)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(y_ptr + at, tile.load(layout))


@gluon.jit
def operand_loads(
    x_ptr, y_ptr, ROWS: gl.constexpr, COLS: gl.constexpr, OPERAND: gl.constexpr, TURNED: gl.constexpr,
    K_WIDTH: gl.constexpr, VEC: gl.constexpr, PHASES: gl.constexpr,
):  # fmt: skip
    """A tile read from shared memory as an operand of mma: matrix loads where the layouts allow."""
    write: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    operand: gl.constexpr = gl.DotOperandLayout(OPERAND, mma, K_WIDTH)
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(VEC, 1, PHASES, [1, 0])
    first = gl.program_id(0) * ROWS * COLS
    r = gl.arange(0, ROWS, gl.SliceLayout(1, write))
    c = gl.arange(0, COLS, gl.SliceLayout(0, write))
    x = gl.load(x_ptr + first + r[:, None] * COLS + c[None, :])
    tile = gl.allocate_shared_memory(x.dtype, [ROWS, COLS], swizzled, x)
    M: gl.constexpr = COLS if TURNED else ROWS
    N: gl.constexpr = ROWS if TURNED else COLS
    y = (tile.permute((1, 0)) if TURNED else tile).load(operand)
    r = gl.arange(0, M, gl.SliceLayout(1, operand))
    c = gl.arange(0, N, gl.SliceLayout(0, operand))
    gl.store(y_ptr + first + r[:, None] * N + c[None, :], y)


@gluon.jit
def accumulator_stores(x_ptr, y_ptr, ROWS: gl.constexpr, COLS: gl.constexpr, TURNED: gl.constexpr):
    """A tile laid out as an accumulator, written to shared memory for tensor copies: matrix stores."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLS, 16])
    read: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, COLS], gl.float16, transposed=TURNED)
    first = gl.program_id(0) * ROWS * COLS
    r = gl.arange(0, ROWS, gl.SliceLayout(1, mma))
    c = gl.arange(0, COLS, gl.SliceLayout(0, mma))
    x = gl.load(x_ptr + first + r[:, None] * COLS + c[None, :])
    tile = gl.allocate_shared_memory(gl.float16, [ROWS, COLS], shared, x)
    y = tile.load(read)
    r = gl.arange(0, ROWS, gl.SliceLayout(1, read))
    c = gl.arange(0, COLS, gl.SliceLayout(0, read))
    gl.store(y_ptr + first + r[:, None] * COLS + c[None, :], y + y)


@gluon.jit
def mma_in_registers(x_ptr, y_ptr, steps, COLS: gl.constexpr, K: gl.constexpr):
    """mma of operands that stay in registers: no shared memory at all."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    r = gl.arange(0, 64, gl.SliceLayout(1, left))
    k = gl.arange(0, K, gl.SliceLayout(0, left))
    a = gl.load(x_ptr + r[:, None] * K + k[None, :])
    k = gl.arange(0, K, gl.SliceLayout(1, right))
    c = gl.arange(0, COLS, gl.SliceLayout(0, right))
    b = gl.load(x_ptr + k[:, None] * COLS + c[None, :])
    acc = gl.zeros([64, COLS], gl.float32, mma)
    for _ in range(steps):
        acc = mma_v2(a, b, acc)
    r = gl.arange(0, 64, gl.SliceLayout(1, mma))
    c = gl.arange(0, COLS, gl.SliceLayout(0, mma))
    gl.store(y_ptr + gl.program_id(0) * 64 * COLS + r[:, None] * COLS + c[None, :], acc)


@gluon.jit
def warpgroup_product(
    a_ptr, b_ptr, y_ptr, steps, N: gl.constexpr, K: gl.constexpr, FROM_REGISTERS: gl.constexpr,
    ACC: gl.constexpr,
):  # fmt: skip
    """acc += A B, steps times over the same 64 x K and K x N tiles, A in shared memory or in registers.

    B is stored with K contiguous, as every element type allows it.
    """
    element: gl.constexpr = a_ptr.dtype.element_ty
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [4, 1], [16, N, 256 // element.primitive_bitwidth]
    )
    a_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 32 // element.primitive_bitwidth)
    blocked: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    a_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, K], element)
    b_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([N, K], element)
    r = gl.arange(0, N, gl.SliceLayout(1, blocked))
    k = gl.arange(0, K, gl.SliceLayout(0, blocked))
    b = gl.allocate_shared_memory(element, [N, K], b_shared, gl.load(b_ptr + r[:, None] * K + k[None, :]))
    if FROM_REGISTERS:
        r = gl.arange(0, 64, gl.SliceLayout(1, a_layout))
        k = gl.arange(0, K, gl.SliceLayout(0, a_layout))
        a = gl.load(a_ptr + r[:, None] * K + k[None, :])
    else:
        r = gl.arange(0, 64, gl.SliceLayout(1, blocked))
        x = gl.load(a_ptr + r[:, None] * K + k[None, :])
        a = gl.allocate_shared_memory(element, [64, K], a_shared, x)
    fence_async_shared()
    acc = gl.zeros([64, N], ACC, acc_layout)
    for _ in range(steps):
        acc = warpgroup_mma(a, b.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    r = gl.arange(0, 64, gl.SliceLayout(1, acc_layout))
    c = gl.arange(0, N, gl.SliceLayout(0, acc_layout))
    gl.store(y_ptr + gl.program_id(0) * 64 * N + r[:, None] * N + c[None, :], acc)


@gluon.jit
def sums(x_ptr, y_ptr, ROWS: gl.constexpr, COLS: gl.constexpr, THREADS: gl.constexpr):
    """Sums of rows over THREADS neighbouring lanes, and over nothing else: shuffles alone."""
    layout: gl.constexpr = gl.BlockedLayout([1, COLS // THREADS], [32 // THREADS, THREADS], [4, 1], [1, 0])
    r = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    c = gl.arange(0, COLS, gl.SliceLayout(0, layout))
    x = gl.load(x_ptr + (gl.program_id(0) * ROWS + r)[:, None] * COLS + c[None, :])
    gl.store(y_ptr + gl.program_id(0) * ROWS + r, gl.sum(x, 1))


@gluon.jit
def tensor_copies(source, target, ROWS: gl.constexpr, COLS: gl.constexpr, READ: gl.constexpr):
    """A box through shared memory by tensor copies alone, where READ looked at and stored by threads too."""
    box = gl.allocate_shared_memory(source.dtype, [ROWS, COLS], source.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [gl.program_id(0) * ROWS, gl.program_id(1) * COLS], ready, box)
    mbarrier.wait(ready, 0)
    mbarrier.invalidate(ready)
    if READ:
        layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
        x = box.load(layout)
        box.store(x + x)
        fence_async_shared()
    tma.async_copy_shared_to_global(target, [gl.program_id(0) * ROWS, gl.program_id(1) * COLS], box)
    tma.store_wait(0)


@gluon.constexpr_function
def repeating(WIDTH, SAME):
    """A layout of a vector: WIDTH elements a lane, lanes that differ only in the bits of SAME have the same ones."""
    at, lanes = WIDTH, []
    for bit in range(5):
        lanes.append([0] if SAME >> bit & 1 else [at])
        at *= 1 if SAME >> bit & 1 else 2
    elements = [[1 << bit] for bit in range(WIDTH.bit_length() - 1)]
    return gl.DistributedLinearLayout(elements, lanes, [[at], [2 * at]], [], [4 * at])


@gluon.jit
def repeated_loads(x_ptr, y_ptr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, SAME: gl.constexpr):
    """A vector read from shared memory, WIDTH elements a lane; SAME says which lanes read the same."""
    plain: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    layout: gl.constexpr = repeating(WIDTH, SAME)
    first = gl.program_id(0) * BLOCK
    x = gl.load(x_ptr + first + gl.arange(0, BLOCK, plain))
    tile = gl.allocate_shared_memory(x.dtype, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]), x)
    y = tile.load(layout)
    gl.store(y_ptr + first + gl.arange(0, BLOCK, layout), y + y)
