"""Tilewright: see why a Triton kernel is slow, fix it, and prove it, with or without the GPU.

The names here are those that a case file needs; everything else is imported from its room.
"""

from tilewright.launch import Case, Descriptor, Launch, Param, Tensor

__version__ = "0.1.0"

__all__ = ["Case", "Descriptor", "Launch", "Param", "Tensor", "__version__"]
