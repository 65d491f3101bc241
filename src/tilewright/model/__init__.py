"""Compiled x Gpu -> Profile: what fits, what binds, how the grid fills the GPU."""

from tilewright.model.cliffs import Cliff
from tilewright.model.profile import SCHEMA, DoesNotFit, Profile, make_profile

__all__ = ["SCHEMA", "Cliff", "DoesNotFit", "Profile", "make_profile"]
