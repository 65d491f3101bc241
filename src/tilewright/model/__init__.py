"""Compiled x Gpu -> Profile: what fits, what binds, how the grid fills the GPU, what the launch executes."""

from tilewright.model.cliffs import Cliff
from tilewright.model.counted import SourceLine, source_lines
from tilewright.model.counting import AssumeError, count_launches
from tilewright.model.profile import SCHEMA, DoesNotFit, Profile, make_profile

__all__ = [
    "SCHEMA",
    "AssumeError",
    "Cliff",
    "DoesNotFit",
    "Profile",
    "SourceLine",
    "count_launches",
    "make_profile",
    "source_lines",
]
