"""The launch's arguments as the kernel finds them: words of constant bank 0."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tilewright.compile import Compiled
from tilewright.launch import Descriptor, DType, Launch, Tensor

_TENSOR_SPACE = 1 << 36
"""Distance between tensors: no tensor's addresses cross a multiple of 2**32 that they need not."""
_SHAPES = {
    "8": (0x0, 0xC, 0x28),
    "9": (0x0, 0xC, 0x28),
    "10": (0x360, 0x370, 0x37C),
    "12": (0x360, 0x370, 0x37C),
}
"""Where bank 0 holds the block's size, the grid's and the stack's end, by major architecture.

Source: offsets that compiled kernels read for %ntid, %nctaid and R1 (`nvdisasm` of kernels that use them)."""
_STACK_END = 0xFFFDC0


class NoConstants(Exception):
    """The arguments cannot be laid out; says why."""


def constants(launch: Launch, compiled: Compiled) -> dict[int, int]:
    """Map offsets in constant bank 0 to 32-bit words.

    Raises NoConstants where the kernel's parameters and the launch's arguments do not match.
    """
    code = compiled.machine_code
    assert code is not None
    words: dict[int, int] = {}
    values = list(_values(launch, compiled))
    # Behind the arguments lie the pointers to scratch memory, null unless a kernel asks for some.
    hidden = len(code.parameters) - len(values)
    if not 0 <= hidden <= 2:
        raise NoConstants(
            f"the kernel has {len(code.parameters)} parameters where the launch gives {len(values)} arguments"
        )
    for (offset, size), value in zip(code.parameters, [*values, *[(8, 0)] * hidden], strict=True):
        expected, number = value
        if expected is None or number is None:
            continue
        if size < expected:
            raise NoConstants(f"a parameter of {size} bytes is given {expected}")
        # Parameters of one and two bytes share a word.
        place, data = code.parameters_at + offset, number & (1 << 8 * size) - 1
        for at in range(place & ~3, place + size, 4):
            shifted = data << 8 * (place - at) if place >= at else data >> 8 * (at - place)
            words[at] = words.get(at, 0) | shifted & 0xFFFFFFFF
    return words | _shape_words(launch, compiled)


def _shape_words(launch: Launch, compiled: Compiled) -> dict[int, int]:
    places = _SHAPES.get(str(compiled.target.arch // 10)) if isinstance(compiled.target.arch, int) else None
    if places is None:
        return {}
    block, grid, stack = places
    words = {block: 32 * compiled.num_warps, block + 4: 1, block + 8: 1, stack: _STACK_END}
    return words | {grid + 4 * axis: size for axis, size in enumerate(launch.grid)}


def _values(launch: Launch, compiled: Compiled) -> Iterator[tuple[int | None, int | None]]:
    """Yield (bytes, value) of each parameter; None where the launch does not fix it (a descriptor's contents)."""
    tensors = 0
    for name, type_ in compiled.signature.items():
        if type_ == "constexpr":
            continue
        arg = launch.args.get(name)
        if isinstance(arg, Descriptor):
            tensors += 1
            yield from _descriptor(arg, compiled, tensors)
        elif isinstance(arg, Tensor):
            tensors += 1
            yield 8, address(tensors, arg)
        else:
            yield _scalar(type_, arg)


def address(number: int, tensor: Tensor) -> int:
    """Return the address that the tensor with this number is taken to have."""
    odd = tensor.alignment_bytes if tensor.alignment_bytes < 16 else 0
    return number * _TENSOR_SPACE + (tensor.offset_bytes or odd)


def _descriptor(arg: Descriptor, compiled: Compiled, number: int) -> Iterator[tuple[int | None, int | None]]:
    rank = len(arg.block_shape)
    if "nvws" in compiled.asm.get("ttgir", "") or "async_tma" in compiled.asm.get("ttgir", ""):
        yield None, None
    else:
        yield 8, address(number, arg.tensor)
        for size in (*arg.tensor.shape, *arg.tensor.strides):
            yield 8, size
        yield 1, 0
    for size in arg.tensor.shape[-rank:]:
        yield 4, size
    for stride in arg.tensor.strides[-rank:]:
        yield 8, stride


def _scalar(type_: str, arg: object) -> tuple[int | None, int | None]:
    formats = {"fp16": "e", "fp32": "f", "f32": "f", "fp64": "d"}
    if arg is None or isinstance(arg, DType):
        return None, None
    if type_ in formats and isinstance(arg, (int, float)):
        data = struct.pack("<" + formats[type_], arg)
        return len(data), int.from_bytes(data, "little")
    if isinstance(arg, (bool, int)) and type_[:1] in ("i", "u"):
        bits = int(type_[1:])
        return max(bits // 8, 1), int(arg) & ((1 << max(bits, 8)) - 1)
    return None, None
