"""Attention as the formula has it, all scores at once, in fp64: what the rest is checked against."""

import math

import torch
from torch import Tensor


def attention(Q: Tensor, K: Tensor, V: Tensor, is_causal: bool = False) -> tuple[Tensor, Tensor]:
    """Return softmax(Q K^T / sqrt(D)) V, (batch, Nq, D), and the scaled scores' log-sum-exp, (batch, Nq).

    With is_causal, query i sees keys 0 to i: the mask is aligned to the top left corner when Nq != Nk.
    """
    S = Q.double() @ K.double().transpose(1, 2) / math.sqrt(Q.shape[-1])
    if is_causal:
        visible = torch.ones(S.shape[-2:], dtype=torch.bool, device=S.device).tril()
        S = S.masked_fill(~visible, -math.inf)
    return torch.softmax(S, dim=-1) @ V.double(), torch.logsumexp(S, dim=-1)
