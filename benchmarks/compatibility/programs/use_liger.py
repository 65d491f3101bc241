"""Liger's layers, forward and backward."""

import torch
from liger_kernel.ops.rms_norm import LigerRMSNormFunction

x = torch.randn(4, 512, 2048, device="cuda", dtype=torch.bfloat16, requires_grad=True)
w = torch.randn(2048, device="cuda", dtype=torch.bfloat16, requires_grad=True)
y = LigerRMSNormFunction.apply(x, w, 1e-6)
y.sum().backward()
