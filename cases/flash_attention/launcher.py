"""What every version's launch has in common: the checks, the outputs, what is saved, and the call of the kernel.

A version's class says in its attributes what is its own: tiles, warps, stages, and which grid axis heads are on.
"""

from typing import Any

import torch
import triton
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
HEAD_DIMS = (16, 32, 64, 128)
MAX_GRID_AXIS_1 = 65_535  # CUDA's limit on grid axes 1 and 2
WIDE_ROW_BYTES = 256  # fp32 at D = 128: three stages want 107,520 bytes of shared memory, sm_89 gives 101,376


class FlashAttentionForward(torch.autograd.Function):
    """The forward pass of softmax(Q K^T / sqrt(D)) V; a version derives from this and sets the attributes.

    Q is (batch, Nq, D), K and V are (batch, Nk, D), O is (batch, Nq, D); D is 16, 32, 64 or 128. With
    is_causal, query i sees keys 0 to i (the mask is aligned to the top left when Nq != Nk). Saves Q, K, V, O
    and the log-sum-exp of every row's scaled scores, (batch, Nq) in fp32. Raises ValueError or TypeError for
    inputs that it cannot take.
    """

    KERNEL: Any = None

    # None: the kernel's autotuner chooses. All four set pin a configuration.
    Q_TILE_SIZE: int | None = None
    K_TILE_SIZE: int | None = None
    NUM_WARPS: int | None = None
    NUM_STAGES: int | None = None

    MAX_STAGES_FOR_WIDE_ROWS: int | None = None  # stages at most where a row of K is over WIDE_ROW_BYTES
    HEADS_ON_AXIS_0 = False
    ADDRESS_BITS = 32  # in which the kernel computes batch * stride

    @staticmethod
    def backward(ctx: Any, dO: Tensor) -> Any:
        raise NotImplementedError(
            "only the forward pass is here; what a backward pass would need is in ctx.saved_tensors"
        )


def forward(version: type[FlashAttentionForward], ctx: Any, Q: Tensor, K: Tensor, V: Tensor, is_causal: bool) -> Tensor:
    """Check, launch, and save for a backward pass; return O."""
    check_inputs(version, Q, K, V)
    O = torch.empty(Q.shape, dtype=Q.dtype, device=Q.device)
    L = torch.empty(Q.shape[:2], dtype=torch.float32, device=Q.device)
    if O.numel() > 0:
        launch(version, Q, K, V, O, L, bool(is_causal))
    ctx.save_for_backward(Q, K, V, O, L)
    ctx.is_causal = bool(is_causal)
    return O


def launch(
    version: type[FlashAttentionForward], Q: Tensor, K: Tensor, V: Tensor, O: Tensor, L: Tensor, is_causal: bool
) -> None:
    """Launch the version's kernel on checked inputs; writes O and L."""
    batch, n_queries, head_dim = Q.shape
    kernel, configuration = version.KERNEL, pinned(version)
    if configuration:
        kernel = kernel.fn if hasattr(kernel, "configs") else kernel  # without its autotuner
        if version.MAX_STAGES_FOR_WIDE_ROWS is not None and head_dim * Q.element_size() > WIDE_ROW_BYTES:
            stages = configuration["num_stages"]
            configuration["num_stages"] = min(stages, version.MAX_STAGES_FOR_WIDE_ROWS)

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        tiles = triton.cdiv(n_queries, meta["Q_TILE_SIZE"])
        return (batch, tiles) if version.HEADS_ON_AXIS_0 else (tiles, batch)

    kernel[grid](
        Q, K, V, O, L,
        *Q.stride(), *K.stride(), *V.stride(), *O.stride(), *L.stride(),
        n_queries, K.shape[1],
        head_dim**-0.5,
        D=head_dim,
        is_causal=is_causal,
        **configuration,
    )  # fmt: skip


def pinned(version: type[FlashAttentionForward]) -> dict[str, int]:
    """Return the configuration that the class attributes fix, or nothing if the autotuner is to choose."""
    values = {
        "Q_TILE_SIZE": version.Q_TILE_SIZE,
        "K_TILE_SIZE": version.K_TILE_SIZE,
        "num_warps": version.NUM_WARPS,
        "num_stages": version.NUM_STAGES,
    }
    missing = [name for name, value in values.items() if value is None]
    if missing and not hasattr(version.KERNEL, "configs"):
        raise ValueError(f"this version has no autotuner: set all of {', '.join(values)}, missing {', '.join(missing)}")
    return {} if missing else {name: value for name, value in values.items() if value is not None}


def check_inputs(version: type[FlashAttentionForward], Q: Tensor, K: Tensor, V: Tensor) -> None:
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
    check_sizes(version, Q, K, V)


def check_sizes(version: type[FlashAttentionForward], Q: Tensor, K: Tensor, V: Tensor) -> None:
    """Raise ValueError where the grid or 32-bit addresses would not hold the tensors."""
    if version.HEADS_ON_AXIS_0:
        tile = version.Q_TILE_SIZE or min(c.kwargs["Q_TILE_SIZE"] for c in version.KERNEL.configs)
        if triton.cdiv(Q.shape[1], tile) > MAX_GRID_AXIS_1:
            raise ValueError(
                f"at most {MAX_GRID_AXIS_1 * tile} queries (tiles are grid axis 1), found {Q.shape[1]}"
            )
    elif Q.shape[0] > MAX_GRID_AXIS_1:
        raise ValueError(
            f"at most {MAX_GRID_AXIS_1} batch entries (the batch is grid axis 1), found {Q.shape[0]}; "
            "split the batch, or use v6_longest_first"
        )
    if version.ADDRESS_BITS == 32:
        stride_of_O = Q.shape[1] * Q.shape[2]
        for name, stride in (("Q", Q.stride(0)), ("K", K.stride(0)), ("V", V.stride(0)), ("O", stride_of_O)):
            if Q.shape[0] * stride >= 2**31:
                raise ValueError(
                    f"{name} is too large: the kernel computes batch * stride in 32 bits, found "
                    f"{Q.shape[0]} * {stride}; split the batch, or use v6_longest_first"
                )
