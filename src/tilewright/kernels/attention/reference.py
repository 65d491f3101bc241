"""Attention in plain PyTorch: with the log-sum-exp of every row, and over a cache in blocks.

The scores are made whole, so it takes memory as queries times keys: it is there to be right, and read.
"""

from __future__ import annotations

import math

import torch

ALIGNMENTS = ("bottom-right", "top-left")


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    alignment: str = "bottom-right",
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return softmax(scale q k^T) v of shape (B, H, Nq, Dv) in q's type, and the log-sum-exp (B, H, Nq) in fp32.

    q: (B, H, Nq, D); k: (B, Hk, Nk, D); v: (B, Hk, Nk, Dv), where Hk divides H (grouped queries). scale: 1 / sqrt(D)
    unless given. Causal with Nq != Nk: `bottom-right` lets the last query see the last key (flash-attn's), `top-left`
    the first query the first key alone (torch's). mask: true where a key is seen; it broadcasts to (B, H, Nq, Nk).
    fp64 is computed in fp64, all else in fp32. A query that sees no key gives 0, and -inf for its log-sum-exp.
    Raises ValueError for shapes that do not go together.
    """
    heads, kv_heads = q.shape[1], k.shape[1]
    if k.shape[:3] != v.shape[:3] or q.shape[-1] != k.shape[-1] or (kv_heads and heads % kv_heads):
        raise ValueError(
            f"expected q (B, H, Nq, D), k (B, Hk, Nk, D), v (B, Hk, Nk, Dv) with Hk dividing H, found "
            f"{list(q.shape)}, {list(k.shape)}, {list(v.shape)}"
        )
    if alignment not in ALIGNMENTS:
        raise ValueError(f"alignment must be one of {', '.join(ALIGNMENTS)}, found {alignment!r}")
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = (x.to(wide).repeat_interleave(heads // max(kv_heads, 1), 1) for x in (k, v))
    scores = q.to(wide) @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if is_causal:
        seen = seen.tril(k.shape[2] - q.shape[2] if alignment == "bottom-right" else 0)
    if mask is not None:
        seen = seen & mask
    scores = scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    p = torch.exp(scores - torch.where(torch.isneginf(lse), 0.0, lse)[..., None])
    return (p @ v).to(q.dtype), lse.to(torch.promote_types(lse.dtype, torch.float32))


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """Return one new token's attention for each sequence, (S, H, Dv), over keys and values that lie in blocks.

    q: (S, H, D); caches: (blocks, block_size, Hk, D or Dv); block_tables: (S, most blocks), entries past a sequence's
    last block are not read; lengths: (S,) tokens in the cache, the new one among them; 0 gives 0. Raises ValueError
    where a length needs more blocks than its table has.
    """
    size = k_cache.shape[1]
    out = q.new_zeros((*q.shape[:2], v_cache.shape[-1]))
    for n, length in enumerate(lengths.tolist()):
        blocks = -(-length // size)
        if blocks > block_tables.shape[1]:
            found = block_tables.shape[1]
            raise ValueError(f"sequence {n} of {length} tokens takes {blocks} blocks, its table has {found}")
        table = block_tables[n, :blocks].long()
        k, v = (c[table].flatten(0, 1)[:length].transpose(0, 1)[None] for c in (k_cache, v_cache))
        out[n] = attention(q[n][None, :, None], k, v, scale=scale)[0][0, :, 0]
    return out
