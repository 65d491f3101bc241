"""The plain references: against torch's own operators, the worked examples' traces, and autograd."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the references are in PyTorch")

from tilewright.byhand import find  # noqa: E402
from tilewright.formats import FORMATS, SCHEMES, Scheme  # noqa: E402
from tilewright.formats import quantise as by_numpy  # noqa: E402
from tilewright.kernels.attention.reference import attention, paged_attention  # noqa: E402
from tilewright.kernels.formats.reference import dequantise, quantise  # noqa: E402
from tilewright.kernels.lora.reference import lora_linear, merged  # noqa: E402
from tilewright.kernels.softmax.reference import running_maximum_and_sum, softmax  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class TestSoftmax:
    @pytest.mark.parametrize("shape", [(1,), (63,), (3, 100), (2, 1, 5), (0,), (4, 0)])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
    def test_is_torch_s(self, shape, dtype):
        x = torch.randn(shape, dtype=torch.float64).to(dtype) * 4
        torch.testing.assert_close(softmax(x), torch.softmax(x, -1), rtol=1e-3, atol=1e-6)
        assert softmax(x).dtype == dtype

    def test_rows_of_nothing_give_0(self):
        x = torch.tensor([[-math.inf, -math.inf], [0.0, -math.inf]])
        assert softmax(x).tolist() == [[0, 0], [1, 0]]

    @pytest.mark.parametrize("tile", [1, 2, 3, 7, 64, 1000])
    def test_tiles_give_the_same(self, tile):
        x = torch.randn(5, 100, dtype=torch.float64) * 30
        x[0, :70] = -math.inf
        x[1] = -math.inf
        m, d = running_maximum_and_sum(x, tile)
        torch.testing.assert_close(m, x.amax(-1))
        torch.testing.assert_close(m + d.log(), torch.logsumexp(x, -1))

    def test_is_the_trace_s(self):
        found = find("online-softmax").run().results
        x = torch.tensor([1, 2, 3, 6, 2, 1], dtype=torch.float64)
        np.testing.assert_allclose(softmax(x).numpy(), found["y"], rtol=1e-12)
        m, d = running_maximum_and_sum(x, 3)
        assert (float(m), float(d)) == (found["m"], pytest.approx(found["d"], rel=1e-14))
        with pytest.raises(ValueError, match="tile must be 1 or more, found 0"):
            running_maximum_and_sum(x, 0)


def inputs(b, h, hk, nq, nk, d, dv, dtype=torch.float64):
    shapes = (b, h, nq, d), (b, hk, nk, d), (b, hk, nk, dv)
    return [torch.randn(s, dtype=torch.float64).to(dtype) for s in shapes]


class TestAttention:
    @pytest.mark.parametrize("nq", [1, 63, 100])
    @pytest.mark.parametrize(("h", "hk"), [(4, 4), (6, 2), (3, 1)])
    @pytest.mark.parametrize("causal", [False, True])
    def test_is_sdpa_s(self, nq, h, hk, causal):
        q, k, v = inputs(2, h, hk, nq, 100, 40, 24)
        out, _ = attention(q, k, v, is_causal=causal, alignment="top-left")
        torch.testing.assert_close(out, sdpa(q, k, v, is_causal=causal, enable_gqa=True))

    def test_the_two_alignments(self):
        q, k, v = inputs(1, 1, 1, 2, 5, 8, 8)
        bottom, _ = attention(q, k, v, is_causal=True)
        mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
        torch.testing.assert_close(bottom, sdpa(q, k, v, attn_mask=mask))
        top, _ = attention(q, k, v, is_causal=True, alignment="top-left")
        mask = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], dtype=torch.bool)
        torch.testing.assert_close(top, sdpa(q, k, v, attn_mask=mask))

    def test_log_sum_exp_and_scale(self):
        q, k, v = inputs(1, 2, 2, 7, 9, 16, 16)
        _, lse = attention(q, k, v, scale=0.3)
        torch.testing.assert_close(lse, torch.logsumexp(0.3 * q @ k.mT, -1))

    def test_a_query_without_keys_gives_0_and_minus_infinity(self):
        q, k, v = inputs(1, 1, 1, 3, 2, 4, 4)
        out, lse = attention(q, k, v, is_causal=True)
        assert out[0, 0, 0].tolist() == [0] * 4
        assert lse[0, 0, 0] == -math.inf
        assert torch.isfinite(out).all()
        out, lse = attention(q, k, v, mask=torch.zeros(3, 2, dtype=torch.bool))
        assert not out.any()
        assert torch.isneginf(lse).all()

    @pytest.mark.parametrize(("nq", "nk", "b"), [(0, 5, 1), (5, 0, 1), (0, 0, 1), (5, 5, 0)])
    def test_nothing_in_some_dimension(self, nq, nk, b):
        out, lse = attention(*inputs(b, 2, 2, nq, nk, 8, 8))
        assert out.shape == (b, 2, nq, 8)
        assert lse.shape == (b, 2, nq)
        assert not out.any()

    def test_is_the_trace_s(self):
        found = find("flash-attention").run().results
        logits = torch.tensor([[1, 2, 3, 6, 2, 1]], dtype=torch.float64)
        v = torch.arange(1, 7, dtype=torch.float64)[:, None].expand(6, 2)
        q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        out, lse = attention(q, logits.mT[None, None], v[None, None], scale=1.0)
        np.testing.assert_allclose(out[0, 0, 0].numpy(), found["output"], rtol=1e-12)
        assert float(lse) == pytest.approx(found["m"] + math.log(found["d"]), rel=1e-12)

    def test_gradients(self):
        q, k, v = (x.requires_grad_() for x in inputs(1, 2, 1, 3, 4, 5, 3))
        assert torch.autograd.gradcheck(lambda *x: attention(*x, is_causal=True), (q, k, v))

    def test_shapes_that_do_not_go_together(self):
        q, k, v = inputs(1, 4, 3, 2, 2, 8, 8)
        with pytest.raises(ValueError, match="Hk dividing H"):
            attention(q, k, v)
        with pytest.raises(ValueError, match="alignment must be one of"):
            attention(q, k[:, :2], v[:, :2], alignment="middle")


class TestPaged:
    @pytest.mark.parametrize("size", [1, 2, 16])
    def test_is_attention_over_each_sequence(self, size):
        lengths = torch.tensor([1, 63, 0, 100, 2])
        most = -(-100 // size)
        blocks = int(sum(-(-n // size) for n in lengths))
        shuffled = torch.randperm(blocks + 3)
        tables = torch.full((5, most), -1)
        at = 0
        for n, length in enumerate(lengths.tolist()):
            used = -(-length // size)
            tables[n, :used] = shuffled[at : at + used]
            at += used
        k_cache, v_cache = (torch.randn(blocks + 3, size, 2, d, dtype=torch.float64) for d in (8, 6))
        q = torch.randn(5, 4, 8, dtype=torch.float64)
        out = paged_attention(q, k_cache, v_cache, tables, lengths)
        assert out.shape == (5, 4, 6)
        for n, length in enumerate(lengths.tolist()):
            if not length:
                assert not out[n].any()
                continue
            where = [(int(tables[n, t // size]), t % size) for t in range(length)]
            k, v = (torch.stack([c[b, s] for b, s in where]).transpose(0, 1)[None] for c in (k_cache, v_cache))
            torch.testing.assert_close(out[n][None, :, None], sdpa(q[n][None, :, None], k, v, enable_gqa=True))

    def test_is_the_trace_s(self):
        found = find("paged-attention").run().results
        k, v = torch.full((9, 2, 1, 2), 1e9, dtype=torch.float64), torch.zeros(9, 2, 1, 2, dtype=torch.float64)
        k[[2, 0, 1], :, 0] = torch.tensor([[[1, 0], [0, 1]], [[1, 1], [2, 0]], [[0, 2], [9, 9]]], dtype=torch.float64)
        v[[2, 0, 1], :, 0] = torch.tensor([[[1, 1], [2, 2]], [[3, 3], [4, 4]], [[5, 5], [9, 9]]], dtype=torch.float64)
        q = torch.tensor([[[1.0, 2.0]]], dtype=torch.float64)
        out = paged_attention(q, k, v, torch.tensor([[2, 0, 1]]), torch.tensor([5]), scale=1.0)
        np.testing.assert_allclose(out[0, 0].numpy(), found["output"], rtol=1e-12)

    def test_a_table_that_is_too_short(self):
        cache = torch.zeros(2, 2, 1, 4)
        with pytest.raises(ValueError, match="sequence 0 of 3 tokens takes 2 blocks, its table has 1"):
            paged_attention(torch.zeros(1, 1, 4), cache, cache, torch.tensor([[0]]), torch.tensor([3]))


class TestLora:
    def test_is_the_trace_s(self):
        found = find("lora").run().results
        w, b, a, x, g = (
            torch.tensor(v, dtype=torch.float64)
            for v in (
                [[0.8, 0.1, 0.3], [0.2, 0.7, 0.5]], [[0.4], [0.2]], [[0.25, -0.5, 0.1]], [10, 20, 30], [0.5, -0.2]
            )
        )  # fmt: skip
        a.requires_grad_()
        b.requires_grad_()
        h = lora_linear(x, w, a, b)
        h.backward(g)
        np.testing.assert_allclose(h.detach().numpy(), found["h"], rtol=1e-12)
        np.testing.assert_allclose(b.grad.numpy(), found["grad_B"], rtol=1e-12)
        np.testing.assert_allclose(a.grad.numpy(), found["grad_A"], rtol=1e-12)
        np.testing.assert_allclose(merged(w, a.detach(), b.detach()).numpy(), found["W_merged"], rtol=1e-12)

    @pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 0, 5), (2, 3, 5)])
    def test_both_paths_agree(self, shape):
        w, a, b = (torch.randn(s, dtype=torch.float64) for s in ((4, 5), (2, 5), (4, 2)))
        x = torch.randn(shape, dtype=torch.float64)
        torch.testing.assert_close(lora_linear(x, w, a, b, scale=0.7), x @ merged(w, a, b, scale=0.7).T)

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(ValueError, match="b \\(out, rank\\)"):
            lora_linear(torch.zeros(5), torch.zeros(4, 5), torch.zeros(2, 5), torch.zeros(4, 3))
        with pytest.raises(ValueError, match="x has 6 values"):
            lora_linear(torch.zeros(6), torch.zeros(4, 5), torch.zeros(2, 5), torch.zeros(4, 2))


ROUNDINGS = ("down", "nearest-even", "up")
SCHEMES_AND_MORE = [
    *SCHEMES.values(),
    *(Scheme(f"{s}-{r}", FORMATS["E2M1"], b, s, r) for s, b in (("e8m0", 32), ("e4m3", 16)) for r in ROUNDINGS),
    *(Scheme(f"{e} by 7", FORMATS[e], 7, "fp32") for e in ("INT4", "E3M0", "E2M3", "E3M2")),
]


@pytest.mark.parametrize("how", SCHEMES_AND_MORE, ids=lambda how: how.name)
class TestFormats:
    @pytest.mark.parametrize("shape", [(), (0,), (1,), (63,), (3, 100), (5, 2, 16)])
    def test_is_numpy_s_to_the_bit(self, how, shape):
        x = torch.randn(shape, dtype=torch.float64) * torch.exp2(torch.randint(-9, 9, shape).double())
        held, other = quantise(x, how), by_numpy(x.numpy(), how)
        np.testing.assert_array_equal(held.codes.numpy(), other.codes)
        np.testing.assert_array_equal(held.scales.numpy(), other.scales)
        np.testing.assert_array_equal(dequantise(held, torch.float64).numpy(), other.values)

    def test_strides_zeros_and_next_to_nothing(self, how):
        x = torch.randn(6, 10).T[::2]
        torch.testing.assert_close(dequantise(quantise(x, how)), dequantise(quantise(x.contiguous(), how)))
        assert not dequantise(quantise(torch.zeros(40), how)).any()
        tiny = torch.full((40,), 1e-40, dtype=torch.float64)
        np.testing.assert_array_equal(quantise(tiny, how).codes.numpy(), by_numpy(tiny.numpy(), how).codes)
        with pytest.raises(ValueError, match="value \\[1\\] is nan"):
            quantise(torch.tensor([1.0, math.nan]), how)


@pytest.mark.parametrize(("name", "dtype"), [("FP8_E4M3", torch.float8_e4m3fn), ("FP8_E5M2", torch.float8_e5m2)])
def test_fp8_is_torch_s_own(name, dtype):
    x = torch.randn(10_000) * torch.exp2(torch.randint(-12, 6, (10_000,)).float())
    torch.testing.assert_close(dequantise(quantise(x, SCHEMES[name])), x.to(dtype).float(), rtol=0, atol=0)
