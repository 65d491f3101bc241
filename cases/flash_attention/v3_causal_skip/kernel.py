"""FlashAttention-2 forward, version 3: key tiles that cannot matter are never visited, whole ones not masked.

Under a causal mask half of version 2's tiles are above the diagonal: loaded, multiplied, and masked to
nothing. Here the key loop is split in two: first the tiles that every query sees whole, without mask or
boundary check, then those that need a mask.
"""

import triton
import triton.language as tl
from triton._C.libtriton import ir

if not hasattr(ir.builder, "create_make_block_ptr"):
    raise ImportError(
        "this version shows block pointers, which Triton 3.8 and later no longer have "
        f"(found Triton {triton.__version__}): use Triton 3.6 or 3.7, or v6_longest_first"
    )


@triton.jit
def attend_key_tiles(
    O, l, m,
    Q, q_pos,
    K_block_ptr, V_block_ptr,
    k_start, k_stop, N_KEYS,
    scale,
    K_TILE_SIZE: tl.constexpr,
    is_causal: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Fold keys k_start to k_stop into O, l and m. Without MASKED, every query must see every one of them."""
    K_block_ptr = tl.advance(K_block_ptr, (k_start, 0))
    V_block_ptr = tl.advance(V_block_ptr, (k_start, 0))

    for k_tile_start in range(k_start, k_stop, K_TILE_SIZE):
        if MASKED:
            K = tl.load(K_block_ptr, boundary_check=(0, 1), padding_option="zero")  # (K_TILE_SIZE, D)
            V = tl.load(V_block_ptr, boundary_check=(0, 1), padding_option="zero")  # (K_TILE_SIZE, D)
        else:
            K = tl.load(K_block_ptr)
            V = tl.load(V_block_ptr)

        S = tl.dot(Q, tl.trans(K)) * scale  # (Q_TILE_SIZE, K_TILE_SIZE)
        if MASKED:
            k_pos = (k_tile_start + tl.arange(0, K_TILE_SIZE))[None, :]
            keep = k_pos < N_KEYS
            if is_causal:
                keep = keep & (k_pos <= q_pos)
            # Finite, so that a row whose whole tile is masked gives exp(-1e6 - m), not exp(-inf + inf).
            S = tl.where(keep, S, -1e6)

        m_new = tl.maximum(m, tl.max(S, axis=1, keep_dims=True))
        P = tl.exp(S - m_new)
        alpha = tl.exp(m - m_new)  # what the sums so far are worth under the new maximum
        l = alpha * l + tl.sum(P, axis=1, keep_dims=True)
        O = tl.dot(P.to(V.dtype), V, acc=alpha * O)
        m = m_new

        K_block_ptr = tl.advance(K_block_ptr, (K_TILE_SIZE, 0))
        V_block_ptr = tl.advance(V_block_ptr, (K_TILE_SIZE, 0))

    return O, l, m


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
    query_tile_index = tl.program_id(0)
    # 32-bit, as in the published study: `batch_index * stride` must stay below 2**31 elements, which the
    # launcher checks. Widening it here changes the compiled code (the 256x64 tile spills 6 registers instead
    # of 4). v6 is 64-bit throughout.
    batch_index = tl.program_id(1)

    Q_block_ptr = tl.make_block_ptr(
        Q_ptr + batch_index * stride_qb,
        shape=(N_QUERIES, D),
        strides=(stride_qq, stride_qd),
        offsets=(query_tile_index * Q_TILE_SIZE, 0),
        block_shape=(Q_TILE_SIZE, D),
        order=(1, 0),
    )
    K_block_ptr = tl.make_block_ptr(
        K_ptr + batch_index * stride_kb,
        shape=(N_KEYS, D),
        strides=(stride_kk, stride_kd),
        offsets=(0, 0),
        block_shape=(K_TILE_SIZE, D),
        order=(1, 0),
    )
    V_block_ptr = tl.make_block_ptr(
        V_ptr + batch_index * stride_vb,
        shape=(N_KEYS, D),
        strides=(stride_vk, stride_vd),
        offsets=(0, 0),
        block_shape=(K_TILE_SIZE, D),
        order=(1, 0),
    )
    O_block_ptr = tl.make_block_ptr(
        O_ptr + batch_index * stride_ob,
        shape=(N_QUERIES, D),
        strides=(stride_oq, stride_od),
        offsets=(query_tile_index * Q_TILE_SIZE, 0),
        block_shape=(Q_TILE_SIZE, D),
        order=(1, 0),
    )
    L_block_ptr = tl.make_block_ptr(
        L_ptr + batch_index * stride_lb,
        shape=(N_QUERIES,),
        strides=(stride_lq,),
        offsets=(query_tile_index * Q_TILE_SIZE,),
        block_shape=(Q_TILE_SIZE,),
        order=(0,),
    )

    O = tl.zeros((Q_TILE_SIZE, D), dtype=tl.float32)
    l = tl.zeros((Q_TILE_SIZE, 1), dtype=tl.float32)
    m = tl.full((Q_TILE_SIZE, 1), float("-inf"), dtype=tl.float32)

    Q = tl.load(Q_block_ptr, boundary_check=(0, 1), padding_option="zero")  # (Q_TILE_SIZE, D)
    q_start = query_tile_index * Q_TILE_SIZE
    q_pos = (q_start + tl.arange(0, Q_TILE_SIZE))[:, None]

    # Three kinds of key tile: visible to every query of the tile (no mask), crossing the diagonal or the end
    # of the keys (mask), and above the diagonal (never visited). `all_whole` is where the last key tile that
    # is full ends.
    all_whole = (N_KEYS // K_TILE_SIZE) * K_TILE_SIZE
    if is_causal:
        unmasked_stop = tl.minimum((q_start // K_TILE_SIZE) * K_TILE_SIZE, all_whole)
        masked_stop = tl.minimum(q_start + Q_TILE_SIZE, N_KEYS)
    else:
        unmasked_stop = all_whole
        masked_stop = N_KEYS

    O, l, m = attend_key_tiles(
        O, l, m, Q, q_pos, K_block_ptr, V_block_ptr,
        0, unmasked_stop, N_KEYS, scale, K_TILE_SIZE, is_causal, MASKED=False,
    )  # fmt: skip
    O, l, m = attend_key_tiles(
        O, l, m, Q, q_pos, K_block_ptr, V_block_ptr,
        unmasked_stop, masked_stop, N_KEYS, scale, K_TILE_SIZE, is_causal, MASKED=True,
    )  # fmt: skip

    tl.store(O_block_ptr, (O / l).to(O_ptr.dtype.element_ty), boundary_check=(0, 1))
    tl.store(L_block_ptr, tl.reshape(m + tl.log(l), (Q_TILE_SIZE,)), boundary_check=(0,))
