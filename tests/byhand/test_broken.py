"""The tests of the worked examples fail when an algorithm is broken: one change of the source each."""

import importlib.util
import sys
from pathlib import Path

import pytest

import tilewright.byhand.number_formats
import tilewright.byhand.paged_attention
from tilewright.byhand import WALKTHROUGHS


def _tests():
    path = Path(__file__).with_name("test_walkthroughs.py")
    spec = importlib.util.spec_from_file_location("walkthrough_tests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


T = _tests()
SOFTMAX, FLASH, CACHE, BATCH, PAGED, FORMATS, LORA = (
    T.TestOnlineSoftmax(), T.TestFlashAttention(), T.TestKvCache(), T.TestBatchedInference(), T.TestPagedAttention(),
    T.TestNumberFormats(), T.TestLora(),
)  # fmt: skip


def two_layers():
    CACHE.test_two_layers_agree_with_caches_and_not_with_the_shortcut(False)


CHANGES = {
    "softmax: no rescale": (
        "byhand.online_softmax", "d = d * float(np.exp(m - new)) + ", "d = d + ", SOFTMAX.test_published_figures
    ),
    "softmax: no maximum": (
        "byhand.online_softmax", "exp((half - half.max()).astype", "exp(half.astype", SOFTMAX.test_published_figures
    ),
    "flash: o is not rescaled": (
        "byhand.flash_attention", "o = o * rescale + p", "o = o + p", FLASH.test_published_figures
    ),
    "flash: d is not rescaled": (
        "byhand.flash_attention", "d = d * rescale + ", "d = d + ", FLASH.test_published_figures
    ),
    "flash: FlashAttention 1 forgets d": (
        "byhand.flash_attention", "o = (o * d * float(", "o = (o * float(", FLASH.test_published_figures
    ),
    "flash: bytes of a row, not of the matrix": (
        "byhand.flash_attention", "kept = n * n * size", "kept = n * size", FLASH.test_bytes_of_a_full_matrix
    ),
    "cache: a value is never kept": (
        "byhand.kv_cache",
        "self.values = np.vstack([self.values, x @ self.layer.w_v])",
        "self.values = np.vstack([self.values, 0 * x @ self.layer.w_v])",
        CACHE.test_published_figures,
    ),
    "cache: scaled scores": (
        "byhand.kv_cache", 'bool(values["scaled"])', 'not values["scaled"]', CACHE.test_published_figures
    ),
    "cache: a layer without its causal mask": (
        "byhand.kv_cache", "mask = causal(len(x), len(x))", "mask = None", two_layers
    ),
    "cache: everything projected again": (
        "byhand.kv_cache", "cache = layer.projection_cost(1)", "cache = layer.projection_cost(t)", CACHE.test_costs
    ),
    "batch: no causal mask": (
        "byhand.batched_inference",
        "masked = np.where(visible, scores, -np.inf)",
        "masked = scores",
        BATCH.test_published_figures,
    ),
    "batch: users see each other": (
        "byhand.batched_inference",
        "mask[at_q : at_q + q, at_k : at_k + k] = causal(q, k)",
        "mask[:] = True",
        BATCH.test_users_of_different_lengths,
    ),
    "batch: offsets that begin at the first length": (
        "byhand.batched_inference", "np.concatenate([[0], np.cumsum(lengths)])", "np.cumsum(lengths)",
        BATCH.test_published_figures,
    ),
    "batch: the ridge upside down": (
        "byhand.batched_inference", "ridge = tflops / tbps", "ridge = tbps / tflops", BATCH.test_the_roofline
    ),
    "paged: the empty slot is not masked": (
        "byhand.paged_attention",
        "seen = n * size + np.arange(size) < length",
        "seen = np.arange(size) < size",
        PAGED.test_published_figures,
    ),
    "paged: blocks are not rescaled": (
        "byhand.paged_attention", "rescale = float(np.exp(m - new))", "rescale = 1.0", PAGED.test_published_figures
    ),
    "paged: a reference is not dropped on copy": (
        "engine.blocks", "self._references[source] -= 1", "pass", PAGED.test_copy_on_write_as_published
    ),
    "paged: a fork counts no reference": (
        "engine.blocks", "self._references[block] += 1", "pass", PAGED.test_copy_on_write_as_published
    ),
    "paged: a shared block is written": (
        "engine.blocks", "shared = bool(tokens and filled and self._references[held.table[-1]] > 1)", "shared = False",
        PAGED.test_copy_on_write_as_published,
    ),
    "formats: NVFP4's scale rounded down": (
        "formats.blocks", '"up": "away-from-zero"', '"up": "toward-zero"', FORMATS.test_scales
    ),
    "formats: MXFP4's scale rounded up": (
        "formats.blocks", '"down": np.zeros(amax.shape, bool)', '"down": mantissa > 0.5', FORMATS.test_the_scoreboard
    ),
    "formats: the tensor's scale left out": (
        "formats.blocks", "return _E4M3.decode(codes) / tensor_scale, codes", "return _E4M3.decode(codes), codes",
        FORMATS.test_dequantised_tables,
    ),
    "formats: scales cost nothing": (
        "formats.blocks", "+ blocks * per_block + tensor", "+ tensor", FORMATS.test_bits
    ),
    "formats: half way goes to the odd code": (
        "formats.element", "(lower % 2 == 1)", "(lower % 2 == 0)", FORMATS.test_one_number_in_long_form
    ),
    "formats: no subnormal numbers": (
        "formats.element", "np.maximum(exponent, 1) - self.bias", "exponent - self.bias", FORMATS.test_small_gradients
    ),
    "lora: the gradient of B without A x": (
        "byhand.lora", "scale * np.outer(grad, ax)", "scale * np.outer(grad, ax) ** 0", LORA.test_published_figures
    ),
    "lora: the gradient of A by another sign": (
        "byhand.lora", "scale * np.outer(b.T @ grad, x)", "-scale * np.outer(b.T @ grad, x)", LORA.test_the_query
    ),
    "lora: merged the wrong way": (
        "byhand.lora", "merged = w0 + delta", "merged = w0 - delta", LORA.test_published_figures
    ),
    "lora: alpha not over the rank": (
        "byhand.lora", 'float(values["alpha"]) / a.shape[0]', "1.0", LORA.test_alpha_is_over_the_rank
    ),
    "lora: one module too many": (
        "byhand.lora", '"q, v": 2', '"q, v": 3', LORA.test_what_is_saved_on_gpt3
    ),
}  # fmt: skip


def changed(name, old, new):
    """Import a module's changed text under another name."""
    right = importlib.import_module(f"tilewright.{name}")
    text = Path(right.__file__).read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
    spec = importlib.util.spec_from_loader("changed_module", loader=None)
    module = importlib.util.module_from_spec(spec)
    sys.modules["changed_module"] = module
    exec(compile(text.replace(old, new), right.__file__, "exec"), module.__dict__)
    return module


def put_in(monkeypatch, name, module):
    """Let the worked examples use a changed module."""
    if name.startswith("byhand."):
        monkeypatch.setitem(WALKTHROUGHS, module.WALKTHROUGH.name, module.WALKTHROUGH)
    elif name == "engine.blocks":
        for one in ("BlockManager", "OutOfBlocks"):
            monkeypatch.setattr(tilewright.byhand.paged_attention, one, getattr(module, one))
    elif name == "formats.blocks":
        monkeypatch.setattr(tilewright.byhand.number_formats, "quantise", module.quantise)
        monkeypatch.setattr(tilewright.byhand.number_formats, "SCHEMES", module.SCHEMES)
    else:
        formats = tilewright.byhand.number_formats
        monkeypatch.setattr(formats, "FORMATS", module.FORMATS)
        monkeypatch.setattr(formats, "element", module.element)


@pytest.mark.parametrize("change", CHANGES)
def test_a_broken_algorithm_is_seen(change, monkeypatch):
    name, old, new, test = CHANGES[change]
    test()
    put_in(monkeypatch, name, changed(name, old, new))
    with pytest.raises(AssertionError):
        test()
