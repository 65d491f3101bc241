"""A Gluon kernel, launched with two layouts."""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def gluon_copy(x_ptr, y_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    """Copy, with the layout that the host chose."""
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y_ptr + at, gl.load(x_ptr + at, mask=at < n), mask=at < n)


def run(x, y):
    """Launch it."""
    for per_thread in (1, 4):
        layout = gl.BlockedLayout([per_thread], [32], [4], [0])
        gluon_copy[(triton.cdiv(1000, 512),)](x, y, 1000, 512, layout)
