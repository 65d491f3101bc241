"""`torch.autocast("cuda")` for tensors that say to C++ that they are not on CUDA.

torch's own autocast kernels look at the device and would leave such tensors as they are. Here each operation that
autocasts gets a kernel that casts by the same policy. Source of the policies: torch's documentation of automatic mixed
precision, "CUDA Op-Specific Behavior"; that the lists are complete is tested against the operations for which the
installed torch has an autocast kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map

from tilewright.capturing.patches import Patches

LOWER = """
_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr matmul einsum
mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell
lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention
"""
FP32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Scalar pow.Tensor_Scalar
pow.Tensor_Tensor softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss
kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
upsample_bicubic2d _upsample_bicubic2d_aa
"""
RESULT_FP32 = """
prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList
"""
RESULT_FP32_APPENDED = "norm.Scalar norm.ScalarOpt_dim"
WIDEST = """
addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add vdot
"""
REFUSED = "binary_cross_entropy"
"""torch refuses it under autocast itself."""

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def _eligible(x: Any) -> bool:
    on_gpu = isinstance(x, FakeTensor) and x.fake_device.type == "cuda"
    return on_gpu and x.is_floating_point() and x.dtype is not torch.float64


def _cast(values: Any, dtype: torch.dtype) -> Any:
    return tree_map(lambda x: x.to(dtype) if _eligible(x) and x.dtype is not dtype else x, values)


def _lower(op: Any, args: Any, kwargs: Any) -> Any:
    args, kwargs = _cast((args, kwargs), torch.get_autocast_dtype("cuda"))
    return op(*args, **kwargs)


def _fp32(op: Any, args: Any, kwargs: Any) -> Any:
    args, kwargs = _cast((args, kwargs), torch.float32)
    return op(*args, **kwargs)


def _result_fp32(op: Any, args: Any, kwargs: Any) -> Any:
    if args and _eligible(args[0]) and kwargs.get("dtype") is None:
        at = [a.name for a in op._schema.arguments].index("dtype")
        if at >= len(args):
            kwargs = {**kwargs, "dtype": torch.float32}
        elif args[at] is None:
            args = (*args[:at], torch.float32, *args[at + 1 :])
    return op(*args, **kwargs)


def _result_fp32_appended(op: Any, args: Any, kwargs: Any) -> Any:
    if not args or not _eligible(args[0]):
        return op(*args, **kwargs)
    with_dtype = {"Scalar": "ScalarOpt_dtype", "ScalarOpt_dim": "ScalarOpt_dim_dtype"}[op._overloadname]
    return getattr(op._overloadpacket, with_dtype)(*args, **{**kwargs, "dtype": torch.float32})


def _widest(op: Any, args: Any, kwargs: Any) -> Any:
    tensors = [x for x in tree_leaves((args, kwargs)) if _eligible(x)]
    wide = any(x.dtype is torch.float32 for x in tensors)
    args, kwargs = _cast((args, kwargs), torch.float32 if wide else torch.get_autocast_dtype("cuda"))
    return op(*args, **kwargs)


POLICIES: list[tuple[str, Callable[[Any, Any, Any], Any]]] = [
    (LOWER, _lower),
    (FP32, _fp32),
    (RESULT_FP32, _result_fp32),
    (RESULT_FP32_APPENDED, _result_fp32_appended),
    (WIDEST, _widest),
]


def install(patches: Patches) -> None:
    """Cast under `torch.autocast("cuda")` as torch does on a GPU, until the patches are taken back."""
    library = torch.library.Library("aten", "IMPL", "AutocastCUDA")
    patches.callback(library._destroy)
    for names, policy in POLICIES:
        for name in names.split():
            op = operation(name)
            if op is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that torch's own kernel is overridden is what is wanted
                    library.impl(name, _kernel(op, policy), "AutocastCUDA", allow_override=True)


def operation(name: str) -> Any:
    """Return torch's operation `name[.overload]`, or None where this torch has none."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def _kernel(op: Any, policy: Callable[[Any, Any, Any], Any]) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return policy(op, args, kwargs)

    return kernel
