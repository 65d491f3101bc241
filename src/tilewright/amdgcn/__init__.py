"""Machine code of AMD GPUs: what stands in it, by line of source and by loop. Nothing is said of how often it runs."""

from tilewright.amdgcn.static import KINDS, StaticCounts, StaticLine, StaticLoop, static_counts

__all__ = ["KINDS", "StaticCounts", "StaticLine", "StaticLoop", "static_counts"]
