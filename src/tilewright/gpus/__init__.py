"""GPUs as data: what a kernel may use of each one, its peak rates, and where every figure comes from.

``load("rtx-4070-super")`` reads one small TOML file; ``tilewright.gpus.occupancy`` does the residency
arithmetic. Nothing here imports Triton, so a GPU can be looked at anywhere in milliseconds.
"""

from tilewright.gpus.gpu import Clocks, Compute, Gpu, GpuError, Limits, Memory, Target
from tilewright.gpus.loading import catalog, load, names

__all__ = ["Clocks", "Compute", "Gpu", "GpuError", "Limits", "Memory", "Target", "catalog", "load", "names"]
