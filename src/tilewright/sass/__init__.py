"""Machine code of NVIDIA GPUs: parser, control slice, emulator, counters. `count` is in `tilewright.sass.count`."""

from tilewright.sass.counters import (
    Access,
    Counters,
    Given,
    InstructionCount,
    LineCount,
    Place,
    TensorOps,
    Traffic,
    Unknown,
)

__all__ = [
    "Access",
    "Counters",
    "Given",
    "InstructionCount",
    "LineCount",
    "Place",
    "TensorOps",
    "Traffic",
    "Unknown",
]
