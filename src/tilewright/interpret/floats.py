"""bfloat16 and the 8-bit floats as numbers.

Triton's interpreter keeps these types as their bits, in unsigned integers, and mostly computes on the
integers. Here they are ml_dtypes' numpy types: arithmetic is arithmetic, and every cast rounds to nearest
even. Conversions to an 8-bit float saturate, as the GPU's own instruction does (cvt.rn.satfinite, sm_90 and
later).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


def install() -> None:
    """Replace what Triton's interpreter does with these types. Called once, by `enable`."""
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime import interpreter

    numpy_types: dict[Any, np.dtype[Any]] = {
        tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
        tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
        tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
        tl.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
        tl.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
    }
    # What Triton's C++ loads, stores and compares instead: the same bits.
    carriers = {dtype: tl.uint16 if dtype == tl.bfloat16 else tl.uint8 for dtype in numpy_types}
    original_numpy_type = interpreter._get_np_dtype
    builder = interpreter.InterpreterBuilder
    TensorHandle = interpreter.TensorHandle

    def is_special(dtype: Any) -> bool:
        return not isinstance(dtype, tl.pointer_type) and dtype in numpy_types

    def numpy_type(dtype: Any) -> Any:
        if is_special(dtype.scalar):
            return numpy_types[dtype.scalar]
        if dtype.scalar == tl.float8e4b15:
            raise NotImplementedError(
                "fp8e4b15 cannot be interpreted: there is no numpy type with its values"
            )
        return original_numpy_type(dtype)

    interpreter._get_np_dtype = numpy_type

    # Casts

    def cast(handle: Any, dtype: Any, toward_zero: bool) -> Any:
        return TensorHandle(round_to(handle.data, numpy_type(dtype), toward_zero), dtype.scalar)

    original_cast = builder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        if is_special(src.dtype.scalar) or is_special(dst_type.scalar):
            return cast(src, dst_type, toward_zero=False)
        return original_cast(self, src, dst_type)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        return cast(src, dst_type, toward_zero=rounding_mode == ir.ROUNDING_MODE.RTZ)

    def get_bf16(self: Any, value: float) -> Any:
        values = np.array([value], np.float32)
        return TensorHandle(round_to(values, numpy_types[tl.bfloat16]), tl.bfloat16)

    builder.cast_impl = cast_impl
    builder.create_fp_to_fp = create_fp_to_fp
    builder.get_bf16 = get_bf16

    # Memory: hand the C++ the bits, take the bits back.

    def bits_of(dtype: Any) -> np.dtype[Any]:
        return np.dtype(f"u{numpy_types[dtype].itemsize}")

    def as_bits(handle: Any) -> Any:
        if handle is None or not is_special(handle.dtype.scalar):
            return handle
        dtype = handle.dtype.scalar
        return TensorHandle(handle.data.view(bits_of(dtype)), carriers[dtype])

    def as_bits_pointer(pointers: Any) -> Any:
        return TensorHandle(pointers.data, tl.pointer_type(carriers[pointers.get_element_ty()]))

    def from_bits(handle: Any, dtype: Any) -> Any:
        return TensorHandle(handle.data.view(numpy_types[dtype]), dtype)

    original_load, original_store = builder.create_masked_load, builder.create_masked_store

    # After `other` Triton 3.6 passes (cache_modifier, eviction_policy, is_volatile), 3.9 (cache_policy,
    # is_volatile).
    def create_masked_load(
        self: Any, ptrs: Any, mask: Any, other: Any, *hints: Any, **named_hints: Any
    ) -> Any:
        dtype = ptrs.get_element_ty()
        if not is_special(dtype):
            return original_load(self, ptrs, mask, other, *hints, **named_hints)
        bits = original_load(self, as_bits_pointer(ptrs), mask, as_bits(other), *hints, **named_hints)
        return from_bits(bits, dtype)

    def create_masked_store(
        self: Any, ptrs: Any, value: Any, mask: Any, *hints: Any, **named_hints: Any
    ) -> Any:
        return original_store(self, ptrs, as_bits(value), mask, *hints, **named_hints)

    builder.create_masked_load = create_masked_load
    builder.create_masked_store = create_masked_store

    # Atomics. Programs run one after the other, so reading and then writing, element by element, is atomic.

    original_rmw, original_cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def create_atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *order: Any) -> Any:
        dtype = val.dtype.scalar
        if not is_special(dtype):
            return original_rmw(self, operation, ptr, val, mask, *order)
        if operation not in (ir.ATOMIC_OP.FADD, ir.ATOMIC_OP.XCHG):
            raise NotImplementedError(f"{operation} on {dtype} is not interpreted: use tl.float32")
        active = np.broadcast_to(mask.data, val.data.shape)
        addresses = np.broadcast_to(ptr.data, val.data.shape)
        old = np.zeros(val.data.shape, numpy_types[dtype])
        always, bits, memory = np.ones(1, np.bool_), bits_of(dtype), interpreter._interpreter
        for index in np.argwhere(active):
            i = tuple(index)
            address = addresses[i].reshape(1)
            old[i] = memory.load(address, always, np.zeros(1, bits), bits).view(old.dtype)[0]
            new = old[i] + val.data[i] if operation == ir.ATOMIC_OP.FADD else val.data[i]
            memory.store(address, np.array([new], old.dtype).view(bits), always)
        return TensorHandle(old, dtype)

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, *order: Any) -> Any:
        dtype = cmp.dtype.scalar
        if not is_special(dtype):
            return original_cas(self, ptr, cmp, val, *order)
        return from_bits(original_cas(self, ptr, as_bits(cmp), as_bits(val), *order), dtype)

    builder.create_atomic_rmw = create_atomic_rmw
    builder.create_atomic_cas = create_atomic_cas

    # Arithmetic that accumulates: in fp32, rounded once.

    def widened(handle: Any) -> Any:
        if is_special(handle.dtype.scalar):
            return TensorHandle(handle.data.astype(np.float32), tl.float32)
        return handle

    original_dot, original_fma = builder.create_dot, builder.create_fma
    original_sum = interpreter.ReduceOps.sum

    def create_dot(self: Any, a: Any, b: Any, d: Any, *precision: Any) -> Any:
        return original_dot(self, widened(a), widened(b), d, *precision)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not is_special(z.dtype.scalar):
            return original_fma(self, x, y, z)
        exact = original_fma(self, widened(x), widened(y), widened(z))
        return cast(exact, z.dtype, toward_zero=False)

    def reduce_sum(self: Any, input: Any) -> Any:
        if not is_special(input.dtype.scalar):
            return original_sum(self, input)
        total = np.sum(input.handle.data, axis=self.axis, keepdims=self.keep_dims, dtype=np.float32)
        return self.to_tensor(total, input.dtype)

    builder.create_dot = create_dot
    builder.create_fma = create_fma
    interpreter.ReduceOps.sum = reduce_sum

    # Block-scaled dot: Triton 3.9 decodes its operands from their bits, 3.6 does not interpret it at all.

    if hasattr(builder, "create_dot_scaled"):

        def operand_as_float32(handle: Any) -> Any:
            if handle.dtype == tl.uint8:
                return interpreter._e2m1_to_f32(handle.data)
            return handle.data.astype(np.float32)

        interpreter._mxfp_value_handle_to_float32 = operand_as_float32
    else:

        def create_dot_scaled(self: Any, *operands: Any) -> Any:
            raise NotImplementedError("tl.dot_scaled is not interpreted by this Triton: use Triton 3.9")

        builder.create_dot_scaled = create_dot_scaled


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
