"""Autotuning and timing without a driver, and CUDA requests answered by the CPU."""

import pytest
import torch
import triton
import triton.language as tl
import triton.testing
from triton.runtime.errors import InterpreterError

import tilewright.interpret

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((16, 4), (32, 4), (64, 8))]


def keep_large(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] >= named_args["n"]]


@triton.autotune(
    configs=CONFIGS, key=["n"], prune_configs_by={"early_config_prune": keep_large}, reset_to_zero=["out_ptr"]
)
@triton.jit
def count_kernel(out_ptr, blocks_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(out_ptr, 1.0)
    tl.atomic_add(blocks_ptr, BLOCK)


@pytest.mark.parametrize(("choice", "blocks_run"), [("first", 32), ("all", 32 + 64 + 32)])
def test_autotuner_runs_the_first_config_that_pruning_leaves(choice, blocks_run):
    """With "all", every config runs and then the first; the reset before each leaves one count."""
    count_kernel.cache.clear()
    tilewright.interpret.enable(autotune=choice)
    out, blocks = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    count_kernel[(1,)](out, blocks, 20)
    tilewright.interpret.enable(autotune="first")
    assert count_kernel.best_config.kwargs == {"BLOCK": 32}
    assert out.item() == 1
    assert blocks.item() == blocks_run


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def picky_kernel(out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK < 64)
    tl.store(out_ptr, BLOCK)


def test_all_finds_the_config_that_fails():
    out = torch.zeros(1, dtype=torch.int32)
    picky_kernel[(1,)](out, 1)
    assert out.item() == 16
    picky_kernel.cache.clear()
    tilewright.interpret.enable(autotune="all")
    try:
        with pytest.raises(InterpreterError):
            picky_kernel[(1,)](out, 1)
    finally:
        tilewright.interpret.enable(autotune="first")


def test_do_bench_calls_once():
    calls = []
    assert triton.testing.do_bench(lambda: calls.append(1)) > 0
    assert len(calls) == 1
    assert len(triton.testing.do_bench(lambda: None, quantiles=[0.5, 0.2, 0.8])) == 3
    assert isinstance(triton.testing.do_bench(lambda: None, quantiles=[0.5]), float)
    assert len(triton.testing.do_bench(lambda: None, return_mode="all")) == 1


def test_driver_answers():
    driver = triton.runtime.driver.active
    assert driver.get_active_torch_device() == torch.device("cpu")
    assert driver.get_current_target().backend == "cuda"
    with pytest.raises(AttributeError, match=r"driver\.active\.launcher_cls"):
        _ = driver.launcher_cls


@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda"), 0], ids=str)
def test_tensors_asked_for_on_cuda(device):
    assert torch.ones(3, device=device).device.type == "cpu"
    assert torch.ones(3).to(device).tolist() == [1.0, 1.0, 1.0]
    assert torch.tensor([1, 2]).to(device, torch.float32).dtype == torch.float32
    assert torch.ones(2).cuda(device).is_cuda


def test_everything_else_asked_of_cuda():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() >= (8, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count >= 1
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        start.record()
        end.record()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert start.elapsed_time(end) >= 0
    assert torch.nn.Linear(2, 2).cuda().to("cuda").weight.device.type == "cpu"
    assert torch.ones(2, pin_memory=True).pin_memory().tolist() == [1.0, 1.0]
    with torch.device("cuda"):
        assert torch.zeros(2).device.type == "cpu"
    with torch.random.fork_rng():
        torch.rand(1)


def test_seeds_repeat():
    def draw():
        torch.cuda.manual_seed(3)
        return torch.randn(4, device="cuda")

    assert torch.equal(draw(), draw())
    torch.manual_seed(5)
    first = torch.rand(2)
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(2))
    generators = [torch.Generator(device="cuda").manual_seed(1) for _ in range(2)]
    assert torch.equal(*(torch.rand(3, device="cuda", generator=generator) for generator in generators))


def test_default_device():
    torch.set_default_device("cuda")
    try:
        assert torch.zeros(1).device.type == "cpu"
    finally:
        torch.set_default_device(None)
