"""Every way to launch a Triton kernel, once each: run under capture, and on a GPU beside it."""

import gluon_kernels
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _square(x):
    return x * x


@triton.jit
def plain(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    """Scale the squares: calls another function."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, _square(x) * scale, mask=at < n)


@triton.jit(do_not_specialize=["n"])
def unspecialised(x_ptr, y_ptr, n, other=None, BLOCK: tl.constexpr = 128):
    """An argument that is not specialised, one that is None, a default."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    if other is not None:
        x += tl.load(other + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x, mask=at < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((128, 2), (256, 4), (512, 8))],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda all_, named, **_: [c for c in all_ if c.kwargs["BLOCK"] < 512]},
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """Autotuned, pruned, with a heuristic."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + at)
    else:
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x + 1, mask=at < n)


@triton.autotune(
    configs=[triton.Config({"TILE": t}, num_warps=8, num_stages=s) for t, s in ((128, 9), (64, 3))], key=["n"]
)
@triton.jit
def too_large(a_ptr, b_ptr, c_ptr, n, TILE: tl.constexpr):
    """A product of which the first configuration fits no GPU."""
    rows = tl.arange(0, TILE)
    k = tl.arange(0, 128)
    sum_ = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, n, 128):
        a = tl.load(a_ptr + rows[:, None] * n + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * n + rows[None, :])
        sum_ = tl.dot(a, b, sum_)
    tl.store(c_ptr + rows[:, None] * n + rows[None, :], sum_)


@triton.jit
def from_tuple(pair, sizes, BLOCK: tl.constexpr):
    """Pointers and numbers in tuples."""
    at = tl.arange(0, BLOCK)
    tl.store(pair[1] + at, tl.load(pair[0] + at, mask=at < sizes[0], other=0) + sizes[1], mask=at < sizes[0])


@triton.jit
def host_descriptor(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Tiles through descriptors that the host made."""
    row = tl.program_id(0) * ROWS
    target.store([row, 0], source.load([row, 0]))


@triton.jit
def device_descriptor(x_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Tiles through descriptors that the kernel makes."""
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    y = tl.make_tensor_descriptor(y_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    row = tl.program_id(0) * ROWS
    y.store([row, 0], x.load([row, 0]))


def run():
    """Launch them all."""
    device = torch.device("cuda")
    x = torch.arange(4096, device=device, dtype=torch.float32)
    y = torch.zeros_like(x)
    for n in (4096, 1000, 1):
        plain[(triton.cdiv(n, 256),)](x, y, n, 0.5, BLOCK=256)
    plain[(4,)](x[1:], y[3:], 1000, 2, BLOCK=256)
    plain[lambda meta: (triton.cdiv(1000, meta["BLOCK"]), 1, 1)](x[4:], y, 1000, float("inf"), BLOCK=512, num_warps=8)
    unspecialised[(3,)](x, y, 300)
    unspecialised[(3,)](x, y, 304, x)
    unspecialised[(3,)](x.to(torch.bfloat16), y.half(), 2**40, None, 64)
    for n in (4096, 1000):
        tuned[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, n)
        tuned[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, n)
    a = torch.randn(256, 256, device=device, dtype=torch.float16)
    c = torch.empty(256, 256, device=device, dtype=torch.float32)
    too_large[(1,)](a, a, c, 256)
    from_tuple[(1,)]((x, y), (100, 7), 128)
    from_tuple[(1,)]((x, y), (128, 1), 128)
    square = torch.randn(128, 64, device=device, dtype=torch.float16)
    copy = torch.empty_like(square)
    described = [TensorDescriptor.from_tensor(t, [32, 64]) for t in (square, copy)]
    host_descriptor[(4,)](*described, 32, 64)
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=device))
    device_descriptor[(4,)](square, copy, 128, 64, 32, 64)
    bits = triton.reinterpret(x.to(torch.int32), tl.float32)
    plain[(1,)](bits, y, 100, 1.0, BLOCK=128)
    kernel = plain.warmup(torch.float32, torch.float32, 64, 1.0, BLOCK=64, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0, "a compiled kernel knows its registers"
    assert kernel.metadata.num_warps == 4
    graph = torch.cuda.CUDAGraph()
    plain[(4,)](x, y, 999, 1.5, BLOCK=256)
    with torch.cuda.graph(graph):
        plain[(4,)](x, y, 999, 1.5, BLOCK=256)
    graph.replay()
    gluon_kernels.run(x, y)
    torch.cuda.synchronize()


if __name__ == "__main__":
    run()
