"""What a kernel's own Python sees: scalars, loop bounds, warnings."""

from __future__ import annotations

from typing import Any

import numpy as np


def install() -> None:
    """Put right how arguments become tensors and tensors loop bounds. Called once, by `enable`."""
    import triton.language as tl
    from triton.runtime import interpreter

    # A tensor as a loop bound. Triton 3.6 calls int() on an array of one dimension, which numpy 2.4 refuses.
    original_patch = interpreter._patch_lang_tensor

    def patch_tensor(tensor: Any, scope: Any) -> None:
        original_patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_tensor

    # A float or bool argument is a tensor in a compiled kernel (`scale.to(...)` works), but a Python number
    # here.
    original_convert = interpreter._implicit_cvt

    def convert_argument(argument: Any) -> Any:
        if isinstance(argument, bool):
            return tl.tensor(interpreter.TensorHandle(np.array([argument]), tl.int1), tl.int1)
        if isinstance(argument, float):
            value = np.array([argument], np.float32)
            return tl.tensor(interpreter.TensorHandle(value, tl.float32), tl.float32)
        return original_convert(argument)

    interpreter._implicit_cvt = convert_argument

    # exp(-inf), 0 / 0 and integer wrap-around are ordinary on a GPU: no numpy warnings for them.
    original_call = interpreter.GridExecutor.__call__

    def run_grid(self: Any, *args: Any, **kwargs: Any) -> None:
        with np.errstate(all="ignore"):
            original_call(self, *args, **kwargs)

    interpreter.GridExecutor.__call__ = run_grid
