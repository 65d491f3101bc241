"""FlashAttention-2 forward, version 6: every head's longest tiles start first; addresses are 64-bit pointers.

Under a causal mask the last query tile has the most keys to visit and the first the fewest. Programs start in
the order of their index, axis 0 fastest: with query tiles on axis 0, as in versions 0 to 5, the last head's
longest tile starts at the very end and the GPU waits for it. Here heads are on axis 0 and query tiles,
reversed, on axis 1: all the longest tiles first, short ones to fill the tail. The inner loop is version 5's.

Block pointers are gone (Triton 3.8 dropped them): a tile is a base pointer plus 64-bit offsets, so any Triton
runs it.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)

CONFIGS = [
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=3),
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=4),
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=5),
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 128}, num_warps=4, num_stages=2),
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=2),
]


@triton.jit
def attend_key_tiles(
    O, l, m,
    Q, q_pos,
    K_first_ptrs, V_first_ptrs,
    stride_kk, stride_vk,
    k_start, k_stop, N_KEYS,
    qk_scale,
    K_TILE_SIZE: tl.constexpr,
    is_causal: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Fold keys k_start to k_stop into O, l and m. Without MASKED, every query must see every one of them."""
    for k_tile_start in range(k_start, k_stop, K_TILE_SIZE):
        k_pos = k_tile_start + tl.arange(0, K_TILE_SIZE)
        # Counted from the first tile, not carried from tile to tile: pointers that live across the loop cost
        # 39 registers a thread (64x32 tiles, no mask, sm_89: 167 instead of 128), and so a program per SM.
        K_ptrs = K_first_ptrs + tl.cast(k_tile_start, tl.int64) * stride_kk
        V_ptrs = V_first_ptrs + tl.cast(k_tile_start, tl.int64) * stride_vk
        if MASKED:
            K = tl.load(K_ptrs, mask=(k_pos < N_KEYS)[:, None], other=0.0)  # (K_TILE_SIZE, D)
            V = tl.load(V_ptrs, mask=(k_pos < N_KEYS)[:, None], other=0.0)  # (K_TILE_SIZE, D)
        else:
            K = tl.load(K_ptrs)
            V = tl.load(V_ptrs)

        S = tl.dot(Q, tl.trans(K))  # (Q_TILE_SIZE, K_TILE_SIZE), not yet scaled
        if MASKED:
            keep = k_pos[None, :] < N_KEYS
            if is_causal:
                keep = keep & (k_pos[None, :] <= q_pos)
            # Finite, so that a row whose whole tile is masked gives exp2(-1e6 - m), not exp2(-inf + inf).
            S = tl.where(keep, S, -1e6)

        m_new = tl.maximum(m, tl.max(S, axis=1, keep_dims=True) * qk_scale)
        P = tl.exp2(S * qk_scale - m_new)
        alpha = tl.exp2(m - m_new)  # what the sums so far are worth under the new maximum
        l = alpha * l + tl.sum(P, axis=1, keep_dims=True)
        O = tl.dot(P.to(V.dtype), V, acc=alpha * O)
        m = m_new


    return O, l, m


@triton.autotune(configs=CONFIGS, key=["N_QUERIES", "N_KEYS", "D", "is_causal"])
@triton.jit
def flash_fwd_kernel(
    Q_ptr, K_ptr, V_ptr,
    O_ptr, L_ptr,
    stride_qb, stride_qq, stride_qd,
    stride_kb, stride_kk, stride_kd,
    stride_vb, stride_vk, stride_vd,
    stride_ob, stride_oq, stride_od,
    stride_lb, stride_lq,
    N_QUERIES, N_KEYS,
    scale,
    D: tl.constexpr,
    Q_TILE_SIZE: tl.constexpr,
    K_TILE_SIZE: tl.constexpr,
    is_causal: tl.constexpr,
):  # fmt: skip
    batch_index = tl.program_id(0).to(tl.int64)
    query_tile_index = tl.num_programs(1) - 1 - tl.program_id(1)

    q_start = query_tile_index * Q_TILE_SIZE
    q_pos = (q_start + tl.arange(0, Q_TILE_SIZE))[:, None]
    q_rows = q_pos.to(tl.int64)
    k_rows = tl.arange(0, K_TILE_SIZE)[:, None].to(tl.int64)
    d = tl.arange(0, D)[None, :].to(tl.int64)

    Q_ptrs = Q_ptr + batch_index * stride_qb + q_rows * stride_qq + d * stride_qd
    K_first_ptrs = K_ptr + batch_index * stride_kb + k_rows * stride_kk + d * stride_kd
    V_first_ptrs = V_ptr + batch_index * stride_vb + k_rows * stride_vk + d * stride_vd
    O_ptrs = O_ptr + batch_index * stride_ob + q_rows * stride_oq + d * stride_od
    L_ptrs = L_ptr + batch_index * stride_lb + q_rows * stride_lq

    O = tl.zeros((Q_TILE_SIZE, D), dtype=tl.float32)
    l = tl.zeros((Q_TILE_SIZE, 1), dtype=tl.float32)
    m = tl.full((Q_TILE_SIZE, 1), float("-inf"), dtype=tl.float32)

    Q = tl.load(Q_ptrs, mask=q_pos < N_QUERIES, other=0.0)  # (Q_TILE_SIZE, D)

    # Three kinds of key tile: visible to every query of the tile (no mask), crossing the diagonal or the end
    # of the keys (mask), and above the diagonal (never visited).
    all_whole = (N_KEYS // K_TILE_SIZE) * K_TILE_SIZE  # where the last key tile that is full ends
    if is_causal:
        unmasked_stop = tl.minimum((q_start // K_TILE_SIZE) * K_TILE_SIZE, all_whole)
        masked_stop = tl.minimum(q_start + Q_TILE_SIZE, N_KEYS)
    else:
        unmasked_stop = all_whole
        masked_stop = N_KEYS

    qk_scale = scale * LOG2_E
    O, l, m = attend_key_tiles(
        O, l, m, Q, q_pos, K_first_ptrs, V_first_ptrs, stride_kk, stride_vk,
        0, unmasked_stop, N_KEYS, qk_scale, K_TILE_SIZE, is_causal, MASKED=False,
    )  # fmt: skip
    O, l, m = attend_key_tiles(
        O, l, m, Q, q_pos, K_first_ptrs, V_first_ptrs, stride_kk, stride_vk,
        unmasked_stop, masked_stop, N_KEYS, qk_scale, K_TILE_SIZE, is_causal, MASKED=True,
    )  # fmt: skip

    tl.store(O_ptrs, (O / l).to(O_ptr.dtype.element_ty), mask=q_pos < N_QUERIES)
    # m + log2(l) is the base-2 logarithm of the row's sum of exponentials.
    tl.store(L_ptrs, (m + tl.log2(l)) * LN_2, mask=q_pos < N_QUERIES)
