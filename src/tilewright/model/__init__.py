"""Compiled x Gpu -> Profile: what fits, what binds, how the grid fills the GPU, what the launch executes."""

from tilewright.model.cliffs import Cliff
from tilewright.model.counted import SourceLine, source_lines
from tilewright.model.counting import AssumeError, count_launches
from tilewright.model.difference import COMPARISON_SCHEMA, Change, Difference, LineChange, difference
from tilewright.model.profile import SCHEMA, DoesNotFit, Profile, make_profile

__all__ = [
    "COMPARISON_SCHEMA",
    "SCHEMA",
    "AssumeError",
    "Change",
    "Cliff",
    "Difference",
    "DoesNotFit",
    "LineChange",
    "Profile",
    "SourceLine",
    "count_launches",
    "difference",
    "make_profile",
    "source_lines",
]
