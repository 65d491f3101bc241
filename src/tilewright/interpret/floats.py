"""bfloat16 and the 8-bit floats as numbers.

Triton's interpreter keeps these types as their bits, in unsigned integers, and mostly computes on the integers.
Here they are ml_dtypes' numpy types: arithmetic is arithmetic, and every cast rounds to nearest even.
Conversions to an 8-bit float saturate, as the GPU's own instruction does (cvt.rn.satfinite, sm_90 and later).

Each function below stands in for the method or function of `triton.runtime.interpreter` that `install` names; it
keeps to the types of NUMPY_TYPES and leaves every other type to the original. Only `enable` imports this module,
once Triton interprets.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

Array = np.ndarray[Any, Any]

NUMPY_TYPES: dict[Any, np.dtype[Any]] = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
    tl.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
}

Handle = interpreter.TensorHandle
Builder = interpreter.InterpreterBuilder
original_numpy_type = interpreter._get_np_dtype
original_cast = Builder.cast_impl
original_load = Builder.create_masked_load
original_store = Builder.create_masked_store
original_atomic = Builder.create_atomic_rmw
original_compare_and_swap = Builder.create_atomic_cas
original_dot = Builder.create_dot
original_fma = Builder.create_fma
original_sum = interpreter.ReduceOps.sum


def install() -> None:
    """Replace what Triton's interpreter does with these types. Called once, by `enable`."""
    interpreter._get_np_dtype = numpy_type
    Builder.get_bf16 = bf16_constant  # Triton 3.6 has none
    Builder.cast_impl = cast
    Builder.create_fp_to_fp = cast_with_rounding
    Builder.create_masked_load = masked_load
    Builder.create_masked_store = masked_store
    Builder.create_atomic_rmw = atomic
    Builder.create_atomic_cas = compare_and_swap
    Builder.create_dot = dot
    Builder.create_fma = fma
    interpreter.ReduceOps.sum = reduce_sum
    if hasattr(Builder, "create_dot_scaled"):
        interpreter._mxfp_value_handle_to_float32 = scaled_operand_as_float32
    else:
        tl.semantic.TritonSemantic.dot_scaled = refuse_scaled_dot


# Types and their bits


def is_small_float(dtype: Any) -> bool:
    """Whether a scalar type is one of those that this module takes over."""
    return not isinstance(dtype, tl.pointer_type) and dtype in NUMPY_TYPES


def numpy_type(dtype: Any) -> Any:
    """The numpy type of a Triton type's elements."""
    if is_small_float(dtype.scalar):
        return NUMPY_TYPES[dtype.scalar]
    if dtype.scalar == tl.float8e4b15:
        raise NotImplementedError("fp8e4b15 cannot be interpreted: there is no numpy type with its values")
    return original_numpy_type(dtype)


def bits_type(dtype: Any) -> np.dtype[Any]:
    """The unsigned numpy type as wide as a small float."""
    return np.dtype(f"u{NUMPY_TYPES[dtype].itemsize}")


def carrier(dtype: Any) -> Any:
    """The unsigned Triton type as wide as a small float."""
    return tl.uint16 if dtype == tl.bfloat16 else tl.uint8


def as_bits(handle: Any) -> Any:
    """A small float's bits, for the interpreter's C++, which knows numpy's own types only."""
    if handle is None or not is_small_float(handle.dtype.scalar):
        return handle
    dtype = handle.dtype.scalar
    return Handle(handle.data.view(bits_type(dtype)), carrier(dtype))


# Casts


def round_to(values: Array, dtype: np.dtype[Any], toward_zero: bool = False) -> Array:
    """Cast to a numpy or ml_dtypes type: to nearest even, or toward zero. An 8-bit float saturates."""
    if dtype.itemsize == 1 and dtype.kind not in "biu":
        largest = float(ml_dtypes.finfo(dtype).max)
        values = np.clip(values.astype(np.float32), -largest, largest)  # a NaN stays one
    rounded = values.astype(dtype)
    if not toward_zero:
        return rounded
    overshot = np.abs(rounded.astype(np.float64)) > np.abs(values.astype(np.float64))
    bits = rounded.view(f"u{dtype.itemsize}")
    stepped_back: Array = np.where(overshot, bits - 1, bits).astype(bits.dtype).view(dtype)
    return stepped_back


def cast(self: Any, src: Any, dst_type: Any) -> Any:
    if is_small_float(src.dtype.scalar) or is_small_float(dst_type.scalar):
        return Handle(round_to(src.data, numpy_type(dst_type)), dst_type.scalar)
    return original_cast(self, src, dst_type)


def cast_with_rounding(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
    toward_zero = rounding_mode == ir.ROUNDING_MODE.RTZ
    return Handle(round_to(src.data, numpy_type(dst_type), toward_zero), dst_type.scalar)


def bf16_constant(self: Any, value: float) -> Any:
    return Handle(round_to(np.array([value], np.float32), NUMPY_TYPES[tl.bfloat16]), tl.bfloat16)


# Memory


# After `other`, Triton 3.6 passes (cache_modifier, eviction_policy, is_volatile), 3.9 (cache_policy, is_volatile).
def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *hints: Any, **named_hints: Any) -> Any:
    dtype = ptrs.get_element_ty()
    if not is_small_float(dtype):
        return original_load(self, ptrs, mask, other, *hints, **named_hints)
    bits_ptrs = Handle(ptrs.data, tl.pointer_type(carrier(dtype)))
    bits = original_load(self, bits_ptrs, mask, as_bits(other), *hints, **named_hints)
    return Handle(bits.data.view(NUMPY_TYPES[dtype]), dtype)


def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *hints: Any, **named_hints: Any) -> Any:
    return original_store(self, ptrs, as_bits(value), mask, *hints, **named_hints)


def atomic(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *order: Any) -> Any:
    """Add element by element. Programs run one after the other, so reading and then writing is atomic."""
    dtype = val.dtype.scalar
    if not is_small_float(dtype):
        return original_atomic(self, operation, ptr, val, mask, *order)
    if operation != ir.ATOMIC_OP.FADD:
        raise NotImplementedError(f"{operation} on {dtype} is not interpreted: use tl.float32")
    addresses = np.broadcast_to(ptr.data, val.data.shape)
    old = np.zeros(val.data.shape, NUMPY_TYPES[dtype])
    memory, bits, always = interpreter._interpreter, bits_type(dtype), np.ones(1, np.bool_)
    for index in map(tuple, np.argwhere(np.broadcast_to(mask.data, val.data.shape))):
        address = addresses[index].reshape(1)
        old[index] = memory.load(address, always, np.zeros(1, bits), bits).view(old.dtype)[0]
        memory.store(address, np.array([old[index] + val.data[index]], old.dtype).view(bits), always)
    return Handle(old, dtype)


def compare_and_swap(self: Any, ptr: Any, cmp: Any, val: Any, *order: Any) -> Any:
    dtype = cmp.dtype.scalar
    found = original_compare_and_swap(self, ptr, as_bits(cmp), as_bits(val), *order)
    return Handle(found.data.view(NUMPY_TYPES[dtype]), dtype) if is_small_float(dtype) else found


# Arithmetic that accumulates: in fp32, rounded once


def widened(handle: Any) -> Any:
    if is_small_float(handle.dtype.scalar):
        return Handle(handle.data.astype(np.float32), tl.float32)
    return handle


def dot(self: Any, a: Any, b: Any, d: Any, *precision: Any) -> Any:
    return original_dot(self, widened(a), widened(b), d, *precision)


def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    if not is_small_float(z.dtype.scalar):
        return original_fma(self, x, y, z)
    return cast(self, original_fma(self, widened(x), widened(y), widened(z)), z.dtype)


def reduce_sum(self: Any, input: Any) -> Any:
    if not is_small_float(input.dtype.scalar):
        return original_sum(self, input)
    total = np.sum(input.handle.data, axis=self.axis, keepdims=self.keep_dims, dtype=np.float32)
    return self.to_tensor(total, input.dtype)


# Block-scaled dot: Triton 3.9 decodes its operands from their bits, 3.6 does not interpret it at all


def scaled_operand_as_float32(handle: Any) -> Any:
    if handle.dtype == tl.uint8:  # two fp4 values a byte
        return interpreter._e2m1_to_f32(handle.data)
    return handle.data.astype(np.float32)


def refuse_scaled_dot(self: Any, *operands: Any, **options: Any) -> Any:
    raise NotImplementedError("tl.dot_scaled is not interpreted by this Triton: use Triton 3.9")
