"""Time the version on PYTHONPATH against torch's scaled_dot_product_attention, at every sequence length.

    PYTHONPATH=cases/flash_attention/v5_final python cases/flash_attention/bench_flashattention.py

Batch 4 x 8 heads, D = 64, bf16, N = 512 to 4096, with and without a causal mask; the median of triton.testing.do_bench.
The GPU is kept busy for a second first: after idling it runs below its boost clock, and what is timed first loses.
Needs a GPU.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import triton
import triton.testing

BATCH, HEADS, HEAD_DIM = 4, 8, 64
LENGTHS = (512, 1024, 2048, 4096)


def warm_up(seconds=1.0):
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        a @ a
        torch.cuda.synchronize()


def tflops(length, is_causal, milliseconds):
    """Operations needed, two matrix products of 2 N N D each, half of them under a causal mask, per second."""
    operations = 4 * BATCH * HEADS * length**2 * HEAD_DIM / (2 if is_causal else 1)
    return operations / milliseconds / 1e9


def compare(FlashAttentionTriton, length, is_causal):
    """Return (ms of the kernel, ms of SDPA), after checking that they agree."""
    Q, K, V = torch.randn(3, BATCH * HEADS, length, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    Q4, K4, V4 = (x.unflatten(0, (BATCH, HEADS)) for x in (Q, K, V))

    def kernel():
        return FlashAttentionTriton.apply(Q, K, V, is_causal)

    def sdpa():
        return torch.nn.functional.scaled_dot_product_attention(Q4, K4, V4, is_causal=is_causal)

    torch.testing.assert_close(kernel(), sdpa().flatten(0, 1), atol=2e-2, rtol=2e-2)
    return tuple(triton.testing.do_bench(fn, return_mode="median") for fn in (kernel, sdpa))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=LENGTHS, help="sequence lengths, default %(default)s"
    )
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no GPU found: this compares times, which only a GPU has. For values, see README.md")

    import flashattention_autograd_function_triton as version

    print(f"{Path(version.__file__).parent.name} on {torch.cuda.get_device_name()}")
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, Triton {triton.__version__}")
    print(f"batch {BATCH} x {HEADS} heads, D {HEAD_DIM}, bf16")
    print(
        f"{'N':>6} {'mask':>7} {'kernel ms':>10} {'TFLOP/s':>8} {'SDPA ms':>9} {'TFLOP/s':>8} {'SDPA/kernel':>12}"
    )
    warm_up()
    for is_causal in (False, True):
        for length in arguments.lengths:
            ms, sdpa_ms = compare(version.FlashAttentionTriton, length, is_causal)
            print(
                f"{length:>6} {'causal' if is_causal else 'full':>7} {ms:>10.3f} {tflops(length, is_causal, ms):>8.1f} "
                f"{sdpa_ms:>9.3f} {tflops(length, is_causal, sdpa_ms):>8.1f} {sdpa_ms / ms:>12.2f}"
            )
    tuner = version.flash_fwd_kernel
    if hasattr(tuner, "configs"):
        print("chosen by the autotuner:")
        for key, config in tuner.cache.items():
            print(f"  {key[:4]}: {config}")


if __name__ == "__main__":
    main()
