"""The one test file for every version: it imports whichever version's folder is on PYTHONPATH.

    PYTHONPATH=cases/flash_attention/v5_final pytest cases/flash_attention/test_flashattention_triton.py

on a GPU, or, with `-p tilewright.interpret`, on the CPU.
"""

import sys
from pathlib import Path

import pytest
import torch
from flashattention_autograd_function_triton import FlashAttentionTriton

sys.path.append(str(Path(__file__).parent))
from flashattention_pytorch import FlashAttentionPytorch
from reference import attention

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU, or -p tilewright.interpret"
)

# On a GPU, tl.dot takes fp32 operands as TF32 by default: 10 bits of mantissa, fp16's.
TOLERANCE = {torch.float32: 2e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}


def make_inputs(batch, n_queries, n_keys, head_dim, dtype=torch.float32, seed=0):
    """Three tensors on the GPU: (batch, n_queries, head_dim), then twice (batch, n_keys, head_dim)."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    shapes = [(batch, n, head_dim) for n in (n_queries, n_keys, n_keys)]
    return [torch.randn(shape, generator=generator, device="cuda").to(dtype) for shape in shapes]


def run(Q, K, V, is_causal):
    """Return the output and the log-sum-exp, the only saved tensor that may have its shape and type."""
    Q = Q.detach().requires_grad_()
    O = FlashAttentionTriton.apply(Q, K, V, is_causal)
    saved = O.grad_fn.saved_tensors
    assert len(saved) == 5
    assert all(torch.equal(s, x) for s, x in zip(saved[:4], (Q, K, V, O), strict=True))
    row_values = [s for s in saved if s.shape == Q.shape[:2] and s.dtype == torch.float32]
    assert len(row_values) == 1
    return O.detach(), row_values[0]


def check(Q, K, V, is_causal):
    O, L = run(Q, K, V, is_causal)
    expected_O, expected_L = attention(Q, K, V, is_causal)
    assert O.dtype == Q.dtype
    assert O.shape == Q.shape
    tolerance = TOLERANCE[Q.dtype]
    torch.testing.assert_close(O.double(), expected_O, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(L.double(), expected_L, atol=tolerance, rtol=tolerance)


causal_or_not = pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])


@causal_or_not
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128])
def test_head_dims(head_dim, is_causal):
    check(*make_inputs(2, 128, 128, head_dim), is_causal)


@causal_or_not
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["fp32", "fp16", "bf16"]
)
def test_dtypes(dtype, is_causal):
    check(*make_inputs(2, 128, 160, 64, dtype), is_causal)


@causal_or_not
@pytest.mark.parametrize(
    ("n_queries", "n_keys"),
    [(1, 1), (1, 100), (63, 1), (63, 63), (100, 63), (65, 129), (33, 100), (130, 31)],
    ids=lambda n: str(n),
)
def test_ragged_lengths(n_queries, n_keys, is_causal):
    check(*make_inputs(2, n_queries, n_keys, 32), is_causal)


@causal_or_not
def test_many_tiles_of_keys(is_causal):
    check(*make_inputs(1, 96, 300, 16, torch.bfloat16), is_causal)


@causal_or_not
def test_maximum_that_grows_tile_by_tile(is_causal):
    """Every key tile raises the row's maximum, so a wrong rescale of what came before cannot hide."""
    Q, K, V = make_inputs(1, 128, 128, 32)
    growth = torch.linspace(0.0, 6.0, 128, device=K.device)[None, :, None]
    check(Q.abs(), K * 0.1 + growth / 32**0.5, V, is_causal)


@causal_or_not
def test_scores_far_below_zero(is_causal):
    """Rows whose scores are all about -100: a tile's padding, read as score 0, would take all the weight."""
    Q, K, V = make_inputs(1, 40, 50, 16)
    # In fp32 a GPU multiplies in TF32: numbers that bfloat16 holds are exact there too, so large scores are.
    Q, K = ((x.abs() + 1).bfloat16().float() for x in (Q, K))
    check(Q * 4, -K * 4, V, is_causal)


@causal_or_not
def test_non_contiguous_inputs(is_causal):
    """Heads sliced out of one packed projection: rows far apart, last stride 1."""
    packed = torch.randn(
        (2, 70, 5, 32), generator=torch.Generator(device="cuda").manual_seed(3), device="cuda"
    )
    Q, K, V = packed[:, :50, 0], packed[:, 3:, 2], packed[:, 3:, 4]
    assert not Q.is_contiguous()
    assert K.stride(-1) == 1
    check(Q, K, V, is_causal)


@causal_or_not
def test_expanded_keys(is_causal):
    """One set of keys and values for the whole batch: batch stride 0."""
    Q, K, V = make_inputs(3, 40, 70, 16)
    check(Q, K[:1].expand(3, -1, -1), V[:1].expand(3, -1, -1), is_causal)


@causal_or_not
def test_agrees_with_tiled_pytorch(is_causal):
    Q, K, V = make_inputs(2, 100, 80, 64)
    O, L = run(Q, K, V, is_causal)
    tiled_O = FlashAttentionPytorch.apply(Q.requires_grad_(), K, V, is_causal)
    torch.testing.assert_close(O, tiled_O.detach(), atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(L, tiled_O.grad_fn.saved_tensors[4], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize(("batch", "n_queries"), [(0, 32), (2, 0)], ids=["no-batch", "no-queries"])
def test_nothing_to_do(batch, n_queries):
    Q, K, V = make_inputs(batch, n_queries, 32, 16)
    assert FlashAttentionTriton.apply(Q, K, V).shape == (batch, n_queries, 16)


def x(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device="cuda")


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([x(2, 4, 8, 16)] * 3, ValueError, r"must be \(batch, sequence, head_dim\)"),
        ([x(2, 8, 16), x(2, 8, 16), x(2, 9, 16)], ValueError, "K and V must have one shape"),
        ([x(2, 8, 16), x(3, 8, 16), x(3, 8, 16)], ValueError, "K and V must have one shape"),
        ([x(2, 8, 32), x(2, 8, 16), x(2, 8, 16)], ValueError, "K and V must have one shape"),
        ([x(2, 8, 24)] * 3, ValueError, r"head_dim must be one of \(16, 32, 64, 128\)"),
        ([x(2, 8, 16, dtype=torch.float64)] * 3, TypeError, "float32, float16 or bfloat16"),
        ([x(2, 8, 16), x(2, 8, 16, dtype=torch.float16), x(2, 8, 16)], TypeError, "one dtype"),
        ([x(2, 16, 8).mT, x(2, 8, 16), x(2, 8, 16)], ValueError, "last stride of Q must be 1"),
        ([x(2, 8, 16), x(2, 0, 16), x(2, 0, 16)], ValueError, "no keys"),
    ],
    ids=["4-d", "K-and-V", "batch", "head-dims", "head-dim", "fp64", "mixed", "transposed", "no-keys"],
)
def test_refusals(inputs, error, message):
    with pytest.raises(error, match=message):
        FlashAttentionTriton.apply(*inputs)


def test_backward_says_that_it_is_missing():
    Q, K, V = make_inputs(1, 16, 16, 16)
    O = FlashAttentionTriton.apply(Q.requires_grad_(), K, V)
    with pytest.raises(NotImplementedError, match="only the forward pass"):
        O.sum().backward()
