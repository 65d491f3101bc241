"""FlashAttention-2: the launch of version 3, which is version 1's."""

from pathlib import Path

import kernel
import torch
import triton
from kernel import flash_fwd_kernel
from torch import Tensor

# Every version has a module `kernel`: this folder alone belongs on the path.
if Path(kernel.__file__).resolve().parent != Path(__file__).resolve().parent:
    raise ImportError(
        f"`import kernel` found {kernel.__file__}, which belongs to another version: "
        f"put {Path(__file__).resolve().parent}, and no other version, on PYTHONPATH, in a fresh process"
    )

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
HEAD_DIMS = (16, 32, 64, 128)
MAX_GRID_AXIS_1 = 65_535  # CUDA's limit on grid axes 1 and 2


def check_inputs(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """Raise ValueError or TypeError for what the kernel cannot take, with what was expected and found."""
    for name, tensor in (("Q", Q), ("K", K), ("V", V)):
        if tensor.ndim != 3:
            raise ValueError(
                f"{name} must be (batch, sequence, head_dim), found shape {tuple(tensor.shape)}; "
                "fold heads into the batch first: x.flatten(0, 1)"
            )
        if tensor.dtype not in DTYPES:
            raise TypeError(f"{name} must be float32, float16 or bfloat16, found {tensor.dtype}")
        if tensor.stride(-1) != 1:
            raise ValueError(
                f"the last stride of {name} must be 1, found {tensor.stride()}; call {name}.contiguous()"
            )
    if K.shape != V.shape or K.shape[0] != Q.shape[0] or K.shape[2] != Q.shape[2]:
        raise ValueError(
            "K and V must have one shape, and Q's batch and head_dim, "
            f"found Q {tuple(Q.shape)}, K {tuple(K.shape)}, V {tuple(V.shape)}"
        )
    if not Q.dtype == K.dtype == V.dtype:
        raise TypeError(f"Q, K and V must have one dtype, found {Q.dtype}, {K.dtype} and {V.dtype}")
    if not Q.device == K.device == V.device:
        raise ValueError(f"Q, K and V must be on one device, found {Q.device}, {K.device} and {V.device}")
    if Q.device.type == "cpu" and not triton.knobs.runtime.interpret:
        raise ValueError(
            "Q, K and V are on the CPU: move them to a GPU, or set TRITON_INTERPRET=1 (Triton's interpreter)"
        )
    if Q.shape[2] not in HEAD_DIMS:
        raise ValueError(f"head_dim must be one of {HEAD_DIMS}, found {Q.shape[2]}")
    if K.shape[1] == 0 and Q.shape[0] * Q.shape[1] > 0:
        raise ValueError("there are queries but no keys: a softmax over nothing has no value")
    if Q.shape[0] > MAX_GRID_AXIS_1:
        raise ValueError(
            f"at most {MAX_GRID_AXIS_1} batch entries (the batch is grid axis 1), found {Q.shape[0]}; "
            "split the batch, or use v6_longest_first"
        )
    stride_of_O = Q.shape[1] * Q.shape[2]
    for name, stride in (("Q", Q.stride(0)), ("K", K.stride(0)), ("V", V.stride(0)), ("O", stride_of_O)):
        if Q.shape[0] * stride >= 2**31:
            raise ValueError(
                f"{name} is too large: the kernel computes batch * stride in 32 bits, found "
                f"{Q.shape[0]} * {stride}; split the batch, or use v6_longest_first"
            )


class FlashAttentionTriton(torch.autograd.Function):
    """The forward pass of softmax(Q K^T / sqrt(D)) V.

    Q is (batch, Nq, D), K and V are (batch, Nk, D), O is (batch, Nq, D); D is 16, 32, 64 or 128. With
    is_causal, query i sees keys 0 to i (the mask is aligned to the top left when Nq != Nk). Saves Q, K, V, O
    and the log-sum-exp of every row's scaled scores, (batch, Nq) in fp32. Raises ValueError or TypeError for
    inputs that it cannot take.
    """

    Q_TILE_SIZE = 64
    K_TILE_SIZE = 32
    NUM_WARPS = 4
    NUM_STAGES = 3

    @staticmethod
    def forward(ctx, Q: Tensor, K: Tensor, V: Tensor, is_causal: bool = False) -> Tensor:
        check_inputs(Q, K, V)
        batch, n_queries, head_dim = Q.shape
        O = torch.empty((batch, n_queries, head_dim), dtype=Q.dtype, device=Q.device)
        L = torch.empty((batch, n_queries), dtype=torch.float32, device=Q.device)
        if O.numel() > 0:
            FlashAttentionTriton.launch(Q, K, V, O, L, bool(is_causal))
        ctx.save_for_backward(Q, K, V, O, L)
        ctx.is_causal = bool(is_causal)
        return O

    @staticmethod
    def launch(Q: Tensor, K: Tensor, V: Tensor, O: Tensor, L: Tensor, is_causal: bool) -> None:
        """Launch the kernel on checked inputs; writes O and L."""
        batch, n_queries, head_dim = Q.shape
        # fp32 at D = 128: three stages want 107,520 bytes of shared memory, sm_89 gives a block 101,376.
        num_stages = FlashAttentionTriton.NUM_STAGES
        if head_dim * Q.element_size() > 256:
            num_stages = min(num_stages, 2)
        grid = (triton.cdiv(n_queries, FlashAttentionTriton.Q_TILE_SIZE), batch)
        flash_fwd_kernel[grid](
            Q, K, V, O, L,
            *Q.stride(), *K.stride(), *V.stride(), *O.stride(), *L.stride(),
            n_queries, K.shape[1],
            head_dim**-0.5,
            D=head_dim,
            Q_TILE_SIZE=FlashAttentionTriton.Q_TILE_SIZE,
            K_TILE_SIZE=FlashAttentionTriton.K_TILE_SIZE,
            is_causal=is_causal,
            num_warps=FlashAttentionTriton.NUM_WARPS,
            num_stages=num_stages,
        )  # fmt: skip

    @staticmethod
    def backward(ctx, dO: Tensor):
        raise NotImplementedError(
            "only the forward pass is here; what a backward pass would need is in ctx.saved_tensors"
        )
