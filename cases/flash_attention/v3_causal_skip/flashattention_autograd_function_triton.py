"""FlashAttention-2: the launch of version 3, which is version 1's."""

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
    Q_TILE_SIZE = 64
    K_TILE_SIZE = 32
    NUM_WARPS = 4
    NUM_STAGES = 3
    MAX_STAGES_FOR_WIDE_ROWS = 2

    @staticmethod
    def forward(ctx, Q, K, V, is_causal=False):
        return launcher.forward(FlashAttentionTriton, ctx, Q, K, V, is_causal)
