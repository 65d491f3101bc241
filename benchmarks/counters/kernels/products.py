"""Matrix products: pointers, split over K, persistent, tensor descriptors, attention backward."""

import triton
import triton.language as tl


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """C = A B, programs in groups of GROUP rows of tiles: division and modulo by runtime values."""
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * columns
    first = pid // in_group * GROUP
    height = min(rows - first, GROUP)
    tile_m = first + pid % in_group % height
    tile_n = pid % in_group // height
    m = tile_m * BM + tl.arange(0, BM)
    n = tile_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a_ptr + m[:, None].to(tl.int64) * stride_am + k[None, :] * stride_ak
    b_at = b_ptr + k[:, None] * stride_bk + n[None, :].to(tl.int64) * stride_bn
    acc = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        a = tl.load(a_at, mask=(m[:, None] < M) & (start + k[None, :] < K), other=0.0)
        b = tl.load(b_at, mask=(start + k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, out_dtype=ACC)
        a_at += BK * stride_ak
        b_at += BK * stride_bk
    c_at = c_ptr + m[:, None].to(tl.int64) * stride_cm + n[None, :] * stride_cn
    tl.store(c_at, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def product_split(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """C += A B with K split over programs; fp32 atomics join the parts. Sizes are multiples of the tile."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(part * BK, K, PARTS * BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None].to(tl.int64) * stride_am + k[None, :])
        b = tl.load(b_ptr + k[:, None].to(tl.int64) * stride_bk + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.atomic_add(c_ptr + m[:, None].to(tl.int64) * stride_cm + n[None, :], acc, sem="relaxed")


@triton.jit
def product_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """As many programs as the grid has take tile after tile."""
    columns = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        m = tile // columns * BM + tl.arange(0, BM)
        n = tile % columns * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            a = tl.load(
                a_ptr + m[:, None].to(tl.int64) * stride_am + k[None, :], mask=m[:, None] < M, other=0.0
            )
            b = tl.load(
                b_ptr + k[:, None].to(tl.int64) * stride_bk + n[None, :], mask=n[None, :] < N, other=0.0
            )
            acc = tl.dot(a, b, acc)
        keep = (m[:, None] < M) & (n[None, :] < N)
        c_at = c_ptr + m[:, None].to(tl.int64) * stride_cm + n[None, :]
        tl.store(c_at, acc.to(c_ptr.dtype.element_ty), mask=keep)


@triton.jit
def product_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tensor descriptors made on the host; one tile a program."""
    columns = tl.cdiv(N, BN)
    m = tl.program_id(0) // columns * BM
    n = tl.program_id(0) % columns * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        acc = tl.dot(a.load([m, start]), b.load([n, start]).T, acc)
    c.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def product_descriptors_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tensor descriptors and a persistent grid."""
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        m = tile // columns * BM
        n = tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            acc = tl.dot(a.load([m, start]), b.load([n, start]).T, acc)
        c.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def attention_dkdv(
    q_ptr, k_ptr, v_ptr, do_ptr, l_ptr, d_ptr, dk_ptr, dv_ptr, stride_head, N, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dK and dV of one tile of keys, over the queries that see it."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    keys = tl.program_id(0) * BK + tl.arange(0, BK)
    d = tl.arange(0, D)
    at_keys = head + keys[:, None] * D + d[None, :]
    seen = keys[:, None] < N
    k = tl.load(k_ptr + at_keys, mask=seen, other=0.0)
    v = tl.load(v_ptr + at_keys, mask=seen, other=0.0)
    dk = tl.zeros((BK, D), tl.float32)
    dv = tl.zeros((BK, D), tl.float32)
    first = tl.program_id(0) * BK // BQ * BQ if CAUSAL else 0
    for start in range(first, N, BQ):
        queries = start + tl.arange(0, BQ)
        at = head + queries[:, None] * D + d[None, :]
        there = queries < N
        q = tl.load(q_ptr + at, mask=there[:, None], other=0.0)
        do = tl.load(do_ptr + at, mask=there[:, None], other=0.0)
        row = tl.program_id(1) * N + queries
        lse = tl.load(l_ptr + row, mask=there, other=0.0)
        delta = tl.load(d_ptr + row, mask=there, other=0.0)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
        keep = there[:, None] & (keys[None, :] < N)
        if CAUSAL:
            keep = keep & (queries[:, None] >= keys[None, :])
        p = tl.where(keep, p, 0.0)
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    tl.store(dk_ptr + at_keys, dk.to(k.dtype), mask=seen)
    tl.store(dv_ptr + at_keys, dv.to(v.dtype), mask=seen)


@triton.jit
def attention_varlen(
    q_ptr, k_ptr, o_ptr, starts_ptr, stride, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr
):
    """Sums of scores over sequences whose lengths are loaded: the bounds are data."""
    sequence = tl.program_id(1)
    begin = tl.load(starts_ptr + sequence)
    end = tl.load(starts_ptr + sequence + 1)
    d = tl.arange(0, D)
    queries = begin + tl.program_id(0) * BQ + tl.arange(0, BQ)
    q = tl.load(q_ptr + queries[:, None] * stride + d[None, :], mask=queries[:, None] < end, other=0.0)
    total = tl.zeros((BQ,), tl.float32)
    for start in range(begin, end, BK):
        keys = start + tl.arange(0, BK)
        k = tl.load(k_ptr + keys[:, None] * stride + d[None, :], mask=keys[:, None] < end, other=0.0)
        total += tl.sum(tl.dot(q, tl.trans(k)), 1)
    tl.store(o_ptr + queries, total, mask=queries < end)
