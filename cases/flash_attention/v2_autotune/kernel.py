"""FlashAttention-2 forward, version 2: version 1's body under the autotuner.

The best launch depends on the shape, the type and the head dimension, and some do not fit at all (three
stages of fp32, D = 128 want 107,520 bytes of shared memory; an RTX 4070 SUPER gives a block 101,376). The
autotuner drops those and times the rest, once per key. What this buys is validity for every input more than
speed: the four candidates are within a few per cent of each other.
"""

import triton
import triton.language as tl
from triton._C.libtriton import ir

if not hasattr(ir.builder, "create_make_block_ptr"):
    raise ImportError(
        "this version shows block pointers, which Triton 3.8 and later no longer have "
        f"(found Triton {triton.__version__}): use Triton 3.6 or 3.7, or v6_longest_first"
    )

CONFIGS = [
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=3),
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=4),
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 32}, num_warps=4, num_stages=2),  # fits fp32, D = 128
    triton.Config({"Q_TILE_SIZE": 64, "K_TILE_SIZE": 16}, num_warps=4, num_stages=5),
]


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
    q_pos = (query_tile_index * Q_TILE_SIZE + tl.arange(0, Q_TILE_SIZE))[:, None]

    for j in range(tl.cdiv(N_KEYS, K_TILE_SIZE)):
        k_pos = (j * K_TILE_SIZE + tl.arange(0, K_TILE_SIZE))[None, :]
        K = tl.load(K_block_ptr, boundary_check=(0, 1), padding_option="zero")  # (K_TILE_SIZE, D)
        V = tl.load(V_block_ptr, boundary_check=(0, 1), padding_option="zero")  # (K_TILE_SIZE, D)

        S = tl.dot(Q, tl.trans(K)) * scale  # (Q_TILE_SIZE, K_TILE_SIZE)
        # Keys past the end were loaded as zeros; a score of 0 would still take its share of the softmax.
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

    tl.store(O_block_ptr, (O / l).to(O_ptr.dtype.element_ty), boundary_check=(0, 1))
    tl.store(L_block_ptr, tl.reshape(m + tl.log(l), (Q_TILE_SIZE,)), boundary_check=(0,))
