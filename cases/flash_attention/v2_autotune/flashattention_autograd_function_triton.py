"""FlashAttention-2: the launch of version 2. The autotuner in kernel.py chooses tiles, warps and stages."""

import sys
from pathlib import Path

import kernel
from kernel import flash_fwd_kernel

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import launcher  # noqa: E402

# Every version has a module `kernel`: this folder alone belongs on the path.
if Path(kernel.__file__).resolve().parent != HERE:
    raise ImportError(
        f"`import kernel` found {kernel.__file__}, which belongs to another version: "
        f"put {HERE}, and no other version, on PYTHONPATH, in a fresh process"
    )


class FlashAttentionTriton(launcher.FlashAttentionForward):
    __doc__ = launcher.FlashAttentionForward.__doc__

    KERNEL = flash_fwd_kernel

    @staticmethod
    def forward(ctx, Q, K, V, is_causal=False):
        return launcher.forward(FlashAttentionTriton, ctx, Q, K, V, is_causal)
