"""Machine code of NVIDIA GPUs: parser, control slice, emulator, counters. `count` is in `tilewright.sass.count`."""

from tilewright.sass.counters import (
    COPIES,
    LOADED,
    READS_L2,
    SECTOR_BYTES,
    Access,
    Counters,
    Given,
    InstructionCount,
    Place,
    TensorOps,
    Traffic,
    Unknown,
    lane_bytes,
    place_of,
    same_file,
)

__all__ = [
    "COPIES",
    "LOADED",
    "READS_L2",
    "SECTOR_BYTES",
    "Access",
    "Counters",
    "Given",
    "InstructionCount",
    "Place",
    "TensorOps",
    "Traffic",
    "Unknown",
    "lane_bytes",
    "place_of",
    "same_file",
]
