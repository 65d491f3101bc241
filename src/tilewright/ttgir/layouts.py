"""What a layout says: how warps and instructions are laid over a tile, and how often work is repeated."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class DotLayout:
    """How the warps of a program are laid over the result of one dot.

    `unit` is what multiplies: mma (warp-wide), wgmma (four warps), tcgen05 (one unit for the whole program),
    mfma and wmma (AMD), or fma (no tensor cores). `warps_per_cta` and `instr_shape` are (rows, columns) and
    (rows, columns, depth where known) per warp, None where the unit does not divide work among warps.
    """

    unit: str
    warps_per_cta: tuple[int, ...] | None
    instr_shape: tuple[int, ...] | None

    def covered(self) -> tuple[int, int] | None:
        """Rows and columns that all warps cover in one step, or None."""
        if self.warps_per_cta is None or self.instr_shape is None:
            return None
        rows, columns = self.instr_shape[:2]
        return self.warps_per_cta[-2] * rows, self.warps_per_cta[-1] * columns

    def distinct_warps(self, rows: int, columns: int) -> tuple[int, int] | None:
        """Warps along rows and columns of a (rows, columns) result that have work of their own."""
        if self.warps_per_cta is None or self.instr_shape is None:
            return None
        down, across = self.warps_per_cta[-2:]
        return (
            min(down, max(1, math.ceil(rows / self.instr_shape[0]))),
            min(across, max(1, math.ceil(columns / self.instr_shape[1]))),
        )

    def executed_over_needed(self, rows: int, columns: int) -> float | None:
        """Multiplies executed over those needed for a (rows, columns) result: 2.0 means each is done twice.

        The warps step over the result in tiles of `covered()`; a step that reaches past the edge wraps around
        and repeats work, or fills an instruction with padding.
        """
        covered = self.covered()
        if covered is None:
            return None
        steps = math.ceil(rows / covered[0]) * math.ceil(columns / covered[1])
        return steps * covered[0] * covered[1] / (rows * columns)


def dot_layout(layout: str) -> DotLayout | None:
    """Read the layout of a dot's result as Triton prints it, or None if it is of a kind not known here."""
    warps, shape = _numbers(layout, "warpsPerCTA"), _numbers(layout, "instrShape")
    if "nvidia_mma" in layout:
        unit = "wgmma" if "versionMajor = 3" in layout else "mma"
        return DotLayout(unit, warps, shape)
    if "amd_mfma" in layout:
        return DotLayout("mfma", warps, shape)
    if "amd_wmma" in layout:
        return DotLayout("wmma", warps or _warps_of_bases(layout), shape or (16, 16, 16))
    if "ttg.blocked" in layout:
        return DotLayout("fma", warps, _blocked_shape(layout))
    if "tensor_memory_encoding" in layout:
        rows, columns = re.search(r"blockM = (\d+)", layout), re.search(r"blockN = (\d+)", layout)
        return DotLayout("tcgen05", None, (int(rows[1]), int(columns[1])) if rows and columns else None)
    return None


def _blocked_shape(layout: str) -> tuple[int, ...] | None:
    """Rows and columns that the threads of one warp cover in a blocked layout."""
    per_thread, threads = _numbers(layout, "sizePerThread"), _numbers(layout, "threadsPerWarp")
    if per_thread is None or threads is None:
        return None
    return tuple(a * b for a, b in zip(per_thread, threads, strict=True))


def _warps_of_bases(layout: str) -> tuple[int, int] | None:
    """Warps along rows and columns from the `warp = [[r, c], ...]` bases that newer AMD layouts carry."""
    match = re.search(r"warp = \[((?:\[[^\]]*\](?:, )?)*)\]", layout)
    if match is None:
        return None
    bases = [tuple(map(int, b.split(", "))) for b in re.findall(r"\[([^\]]+)\]", match[1])]
    down = sum(1 for b in bases if b[0] and not b[1])
    across = sum(1 for b in bases if b[1] and not b[0])
    return 2**down, 2**across


def _numbers(layout: str, key: str) -> tuple[int, ...] | None:
    match = re.search(rf"{key} = \[([\d, ]+)\]", layout)
    return tuple(int(n) for n in match[1].split(",")) if match else None
