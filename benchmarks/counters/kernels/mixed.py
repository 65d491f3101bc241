"""More kinds of kernels: descriptors made on the GPU, warp specialisation, scaled dots, gathers, locks, gradients."""

import triton
import triton.language as tl


@triton.jit
def product_device_descriptors(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """C = A B^T with tensor descriptors that each program makes for itself."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        acc = tl.dot(a.load([m, start]), b.load([n, start]).T, acc)
    c.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def product_specialised(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B^T on a persistent grid whose loop over tiles asks for warp specialisation."""
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=True):
        m = tile // columns * BM
        n = tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            acc = tl.dot(a.load([m, start]), b.load([n, start]).T, acc)
        c.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def product_loop_specialised(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B^T, a tile a program, warp specialisation asked for along K."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(a.load([m, start]), b.load([n, start]).T, acc)
    c.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def product_scaled(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, K, stride_c, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """C = A B of e4m3 numbers, each 32 of which along K share a power of two. Sizes are multiples of the tile."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    group = tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + start + k[None, :])
        b = tl.load(b_ptr + n[None, :] * K + start + k[:, None])
        a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + start // 32 + group[None, :])
        b_scale = tl.load(b_scale_ptr + n[:, None] * (K // 32) + start // 32 + group[None, :])
        acc = tl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3", acc)
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], acc)


@triton.jit
def attention_dq(
    q_ptr, k_ptr, v_ptr, do_ptr, l_ptr, d_ptr, dq_ptr, stride_head, N, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dQ of one tile of queries, over the keys it sees, from the last tile to the first."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    queries = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    there = queries < N
    at = head + queries[:, None] * D + d[None, :]
    q = tl.load(q_ptr + at, mask=there[:, None], other=0.0)
    do = tl.load(do_ptr + at, mask=there[:, None], other=0.0)
    row = tl.program_id(1) * N + queries
    lse = tl.load(l_ptr + row, mask=there, other=0.0)
    delta = tl.load(d_ptr + row, mask=there, other=0.0)
    dq = tl.zeros((BQ, D), tl.float32)
    last = min(N, (tl.program_id(0) + 1) * BQ) if CAUSAL else N
    for start in range((last - 1) // BK * BK, -1, -BK):
        keys = start + tl.arange(0, BK)
        seen = keys[:, None] < N
        at_keys = head + keys[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at_keys, mask=seen, other=0.0)
        v = tl.load(v_ptr + at_keys, mask=seen, other=0.0)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
        keep = keys[None, :] < N
        if CAUSAL:
            keep = keep & (queries[:, None] >= keys[None, :])
        p = tl.where(keep, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + at, dq.to(q.dtype), mask=there[:, None])


@triton.jit
def layer_norm_dx(x_ptr, w_ptr, dy_ptr, dx_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    """The gradient of layer normalisation with respect to its input, a row a program, the row in one block."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    keep = at < columns
    x = tl.load(x_ptr + row * stride + at, mask=keep, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + at, mask=keep, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(keep, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    normal = centred * scale
    g = w * dy
    c1 = tl.sum(normal * g, 0) / columns
    c2 = tl.sum(g, 0) / columns
    tl.store(dx_ptr + row * stride + at, (g - normal * c1 - c2) * scale, mask=keep)


@triton.jit
def elementary(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Exponentials, logarithms, roots and the error function."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1.0)
    y = tl.exp(x) + tl.log(x + 1) + tl.exp2(-x) * tl.log2(x + 2) + tl.sqrt(x) * tl.rsqrt(x + 1) + tl.erf(x)
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def doubles_more(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """fp64: products, minima, conversions to and from integers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.minimum(x * 3.0 - 1.0, x + at.to(tl.float64)) + (x * 1000.0).to(tl.int64).to(tl.float64)
    tl.store(y_ptr + at, tl.where(y > 2.0, y, -y), mask=at < n)


@triton.jit
def divide_lanes_wide(y_ptr, n, a, BLOCK: tl.constexpr):
    """Quotients and remainders of 64-bit integers by a runtime value, lane by lane."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = at.to(tl.int64) * 1000003 + 17
    tl.store(y_ptr + at, x // a + x % a * 3, mask=at < n)


@triton.jit
def swap(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Compare and swap, once a lane, then an exchange a program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = tl.atomic_cas(x_ptr + at, at % 61, at + 1, sem="relaxed")
    tl.store(y_ptr + at, old, mask=at < n)
    tl.atomic_xchg(y_ptr + n + tl.program_id(0), tl.program_id(0) * 3, sem="relaxed")


@triton.jit
def atomics_of_all_kinds(x_ptr, y_ptr, h_ptr, n, bins, BLOCK: tl.constexpr):
    """Additions of fp16, minima, and, or, of which some give back what was there."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    old = tl.atomic_min(y_ptr + at % bins, x, mask=at < n, sem="relaxed")
    tl.atomic_or(y_ptr + bins + at % bins, x, mask=at < n, sem="relaxed")
    tl.atomic_and(y_ptr + 2 * bins + at % bins, x, mask=(at < n) & (at % 3 == 0), sem="acq_rel")
    tl.atomic_add(h_ptr + at % bins, (x % 2).to(tl.float16), mask=at < n, sem="relaxed")
    tl.store(x_ptr + at, tl.where(old > 1000000, old, x), mask=at < n)


@triton.jit
def gather_lanes(x_ptr, y_ptr, BR: tl.constexpr, BC: tl.constexpr):
    """Columns of a tile in an order that arithmetic gives."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    x = tl.load(x_ptr + r[:, None] * BC + c[None, :])
    index = (c[None, :] * 5 + tl.arange(0, BR)[:, None]) % BC
    tl.store(y_ptr + r[:, None] * BC + c[None, :], tl.gather(x, index, 1))


@triton.jit
def convolution(x_ptr, w_ptr, y_ptr, height, width, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """A row of a two-dimensional convolution: places inside the image decide what is loaded."""
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(TAPS):
        y = row + i - TAPS // 2
        for j in range(TAPS):
            x = column + j - TAPS // 2
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            acc += tl.load(x_ptr + y * width + x, mask=inside, other=0.0) * tl.load(w_ptr + i * TAPS + j)
    tl.store(y_ptr + row * width + column, acc, mask=column < width)


@triton.jit
def scan_backwards(x_ptr, y_ptr, stride, BR: tl.constexpr, BC: tl.constexpr):
    """Running maxima and products along both axes, one of them from the end."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    x = tl.load(x_ptr + r[:, None] * stride + c[None, :])
    y = tl.cumsum(x, 1, reverse=True) + tl.associative_scan(x, 0, _larger)
    tl.store(y_ptr + r[:, None] * stride + c[None, :], y)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def row_extremes(x_ptr, y_ptr, where_ptr, columns, BR: tl.constexpr, BC: tl.constexpr):
    """The largest element of each row and its column, over a loop."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    best = tl.full((BR,), -float("inf"), tl.float32)
    place = tl.zeros((BR,), tl.int32)
    for start in range(0, columns, BC):
        c = start + tl.arange(0, BC)
        x = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=c[None, :] < columns, other=-float("inf"))
        value, index = tl.max(x, 1, return_indices=True)
        place = tl.where(value > best, index + start, place)
        best = tl.maximum(best, value)
    tl.store(y_ptr + r, best)
    tl.store(where_ptr + r, place)
