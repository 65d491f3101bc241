"""FlashAttention-2 in plain PyTorch: the kernels' tiles, running maximum and sum, one operation per line.

Read this before the kernels. It runs anywhere, forward and backward, and is as slow as it looks.
"""

import math

import torch
from torch import Tensor


class FlashAttentionPytorch(torch.autograd.Function):
    """softmax(Q K^T / sqrt(D)) V, tile by tile.

    Q is (batch, Nq, D), K and V (batch, Nk, D), the output (batch, Nq, D). With is_causal, query i sees
    keys 0 to i. Saves Q, K, V, O and the log-sum-exp of every row's scaled scores, (batch, Nq) in fp32.
    """

    Q_TILE_SIZE = 64
    K_TILE_SIZE = 32

    @staticmethod
    def forward(ctx, Q: Tensor, K: Tensor, V: Tensor, is_causal: bool = False) -> Tensor:
        q_tile_size, k_tile_size = FlashAttentionPytorch.Q_TILE_SIZE, FlashAttentionPytorch.K_TILE_SIZE
        batch, n_queries, head_dim = Q.shape
        n_keys = K.shape[1]
        scale = 1.0 / math.sqrt(head_dim)
        O = torch.empty_like(Q)
        L = Q.new_empty((batch, n_queries), dtype=torch.float32)

        for q_start in range(0, n_queries, q_tile_size):
            Q_i = Q[:, q_start : q_start + q_tile_size].float()  # (batch, q_tile, D)
            q_pos = torch.arange(q_start, q_start + Q_i.shape[1], device=Q.device)
            O_i = torch.zeros_like(Q_i)
            l_i = Q_i.new_zeros((batch, Q_i.shape[1], 1))
            m_i = Q_i.new_full((batch, Q_i.shape[1], 1), -math.inf)

            # Under a causal mask no query of this tile sees a key beyond its last query's position.
            k_stop = min(q_start + q_tile_size, n_keys) if is_causal else n_keys
            for k_start in range(0, k_stop, k_tile_size):
                K_j = K[:, k_start : k_start + k_tile_size].float()  # (batch, k_tile, D)
                V_j = V[:, k_start : k_start + k_tile_size].float()
                S = Q_i @ K_j.transpose(1, 2) * scale  # (batch, q_tile, k_tile)
                if is_causal:
                    k_pos = torch.arange(k_start, k_start + K_j.shape[1], device=K.device)
                    S = S.masked_fill(k_pos[None, :] > q_pos[:, None], -math.inf)

                # The first key tile holds key 0, which every query sees, so m_new is finite from here on.
                m_new = torch.maximum(m_i, S.amax(dim=-1, keepdim=True))
                P = torch.exp(S - m_new)
                alpha = torch.exp(m_i - m_new)
                l_i = alpha * l_i + P.sum(dim=-1, keepdim=True)
                O_i = alpha * O_i + P @ V_j
                m_i = m_new

            O[:, q_start : q_start + q_tile_size] = (O_i / l_i).to(O.dtype)
            L[:, q_start : q_start + q_tile_size] = (m_i + torch.log(l_i)).squeeze(-1)

        ctx.save_for_backward(Q, K, V, O, L)
        ctx.is_causal = is_causal
        return O

    @staticmethod
    def backward(ctx, dO: Tensor):
        """The gradient, P recomputed from Q, K and the saved log-sum-exp. Whole matrices, not tiled."""
        Q, K, V, O, L = ctx.saved_tensors
        scale = 1.0 / math.sqrt(Q.shape[-1])
        Q_, K_, V_, O_, dO_ = (x.float() for x in (Q, K, V, O, dO))

        P = torch.exp(Q_ @ K_.transpose(1, 2) * scale - L[..., None])  # (batch, Nq, Nk)
        if ctx.is_causal:
            P = P.tril()
        dV = P.transpose(1, 2) @ dO_
        dP = dO_ @ V_.transpose(1, 2)
        row_dot = (dO_ * O_).sum(dim=-1, keepdim=True)  # equals the sum over keys of P * dP
        dS = P * (dP - row_dot) * scale
        return (dS @ K_).to(Q.dtype), (dS.transpose(1, 2) @ Q_).to(K.dtype), dV.to(V.dtype), None
