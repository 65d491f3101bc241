"""`torch.compile`: Inductor starts the kernels that it writes by its own launcher; here they go through Triton."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.capturing.patches import Patches


def install(patches: Patches) -> None:
    """Let Inductor compile for the GPU that is stood in for, until the patches are taken back."""
    import torch._inductor.config as config
    import torch._inductor.runtime.triton_helpers as helpers

    helpers.set_driver_to_gpu  # noqa: B018  a torch without it fails here, with its name
    patches.set(helpers, "set_driver_to_gpu", lambda: None)
    patches.set(helpers, "set_driver_to_cpu", lambda: None)
    stated = {
        "compile_threads": 1,
        "use_static_cuda_launcher": False,
        "use_static_triton_launcher": False,
        # What an earlier process compiled is of a GPU that is not this one.
        "force_disable_caches": True,
    }
    for name, value in stated.items():
        if hasattr(config, name):
            before = getattr(config, name)
            setattr(config, name, value)
            patches.callback(setattr, config, name, before)
    guards = torch._C._dynamo.guards
    patches.set(guards, "_empty_strided_cuda", _empty_strided)


def _empty_strided(size: Any, stride: Any, dtype: Any) -> Any:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")
