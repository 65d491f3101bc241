"""The causal mask when queries and keys differ in number: top left, checked against an explicit mask.

Two conventions exist. Top left: query i sees keys 0 to i, whatever the lengths. Bottom right: the last query
sees the last key, as in decoding with a cache. Every version here is top left, as torch's
scaled_dot_product_attention is with is_causal=True.

    PYTHONPATH=cases/flash_attention/v5_final python cases/flash_attention/check_nonsquare_causal.py

Runs on a GPU if there is one, else in the interpreter (with tilewright importable). Exits 1 when a shape
disagrees.
"""

import importlib.util
import sys

import torch

SHAPES = [(128, 128), (64, 192), (192, 64), (100, 63), (63, 100), (1, 70), (70, 1)]
HEAD_DIM = 64
TOLERANCE = (
    1e-2  # in TF32, as fp32 is multiplied on a GPU, errors reach 3e-3; a wrong mask is off by far more
)


def masked_attention(Q, K, V, visible):
    """Attention in fp64 with a boolean mask, True where query i may see key j."""
    scores = Q.double() @ K.double().transpose(1, 2) * Q.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1) @ V.double()


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        if importlib.util.find_spec("tilewright") is None:
            sys.exit(
                "no GPU found, and no tilewright to interpret the kernel on the CPU: add src to PYTHONPATH"
            )
        import tilewright.interpret

        tilewright.interpret.enable()
    from flashattention_autograd_function_triton import FlashAttentionTriton

    torch.manual_seed(0)
    failures = 0
    print(f"{'Nq':>5} {'Nk':>5}  largest error against the top-left mask")
    for n_queries, n_keys in SHAPES:
        Q = torch.randn(2, n_queries, HEAD_DIM, device=device)
        K, V = torch.randn(2, 2, n_keys, HEAD_DIM, device=device)
        q_pos, k_pos = torch.arange(n_queries, device=device), torch.arange(n_keys, device=device)
        expected = masked_attention(Q, K, V, visible=k_pos[None, :] <= q_pos[:, None])
        error = (FlashAttentionTriton.apply(Q, K, V, True) - expected).abs().max().item()
        agrees = error < TOLERANCE
        failures += not agrees
        print(f"{n_queries:>5} {n_keys:>5}  {error:.1e}{'' if agrees else '  DISAGREES'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
