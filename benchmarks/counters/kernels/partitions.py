"""A warp-specialised kernel in Gluon: one partition loads into shared memory, the other adds up what it finds there."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def producer(x_ptr, buffers, ready, empty, first, steps, BLOCK: gl.constexpr, SLOTS: gl.constexpr):
    """Load block after block into the slots, each once its reader has let it go."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    at = gl.arange(0, BLOCK, layout)
    for step in range(steps):
        slot = step % SLOTS
        mbarrier.wait(empty.index(slot), step // SLOTS & 1 ^ 1)
        buffers.index(slot).store(gl.load(x_ptr + (first + step) * BLOCK + at))
        mbarrier.arrive(ready.index(slot), count=1)


@gluon.jit
def consumer(y_ptr, buffers, ready, empty, steps, BLOCK: gl.constexpr, SLOTS: gl.constexpr):
    """Add the blocks up."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    total = gl.zeros([BLOCK], gl.float32, layout)
    for step in range(steps):
        slot = step % SLOTS
        mbarrier.wait(ready.index(slot), step // SLOTS & 1)
        total += buffers.index(slot).load(layout)
        mbarrier.arrive(empty.index(slot), count=1)
    at = gl.arange(0, BLOCK, layout)
    gl.store(y_ptr + gl.program_id(0) * BLOCK + at, total)


@gluon.jit
def sum_partitioned(x_ptr, y_ptr, steps, BLOCK: gl.constexpr, SLOTS: gl.constexpr):
    """y[p] = the sum of `steps` blocks of x, more of them for programs further on."""
    mine = steps + gl.program_id(0) % 3
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffers = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], shared)
    ready = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(ready.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=1)
    gl.warp_specialize(
        [
            (consumer, (y_ptr, buffers, ready, empty, mine, BLOCK, SLOTS)),
            (producer, (x_ptr, buffers, ready, empty, gl.program_id(0) * 4, mine, BLOCK, SLOTS)),
        ],
        [4],
        [24],
    )
