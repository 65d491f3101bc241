"""A product in Gluon: one warp brings the tiles with tensor copies, the others multiply them."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def bring(a, b, a_tiles, b_tiles, full, free, row, column, K, STAGES: gl.constexpr):
    """Copy the tiles of A and B along K into the stages, each once it is free."""
    depth: gl.constexpr = a.block_type.shape[1]
    for step in range(gl.cdiv(K, depth)):
        stage = step % STAGES
        mbarrier.wait(free.index(stage), step // STAGES & 1 ^ 1)
        mbarrier.expect(full.index(stage), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_copy_global_to_shared(a, [row, step * depth], full.index(stage), a_tiles.index(stage))
        tma.async_copy_global_to_shared(b, [column, step * depth], full.index(stage), b_tiles.index(stage))


@gluon.jit
def multiply(
    a, b, c, a_tiles, b_tiles, full, free, row, column, K, STAGES: gl.constexpr, WARPS: gl.constexpr
):
    """Multiply stage after stage, and store the product."""
    rows: gl.constexpr = a.block_type.shape[0]
    columns: gl.constexpr = b.block_type.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, columns, 16])
    acc = gl.zeros([rows, columns], gl.float32, layout)
    for step in range(gl.cdiv(K, a.block_type.shape[1])):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        acc = warpgroup_mma(a_tiles.index(stage), b_tiles.index(stage).permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(free.index(stage), count=1)
    tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout, acc.to(c.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c, [row, column], tile)
    tma.store_wait(0)


@gluon.jit
def product_partitioned(a, b, c, N, K, STAGES: gl.constexpr, WARPS: gl.constexpr):
    """C = A B^T, a tile a program."""
    columns = gl.cdiv(N, b.block_type.shape[0])
    row = gl.program_id(0) // columns * a.block_type.shape[0]
    column = gl.program_id(0) % columns * b.block_type.shape[0]
    a_tiles = gl.allocate_shared_memory(
        a.dtype, [STAGES, a.block_type.shape[0], a.block_type.shape[1]], a.layout
    )
    b_tiles = gl.allocate_shared_memory(
        b.dtype, [STAGES, b.block_type.shape[0], b.block_type.shape[1]], b.layout
    )
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(free.index(stage), count=1)
    gl.warp_specialize(
        [
            (multiply, (a, b, c, a_tiles, b_tiles, full, free, row, column, K, STAGES, WARPS)),
            (bring, (a, b, a_tiles, b_tiles, full, free, row, column, K, STAGES)),
        ],
        [1],
        [24],
    )
