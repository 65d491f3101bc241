"""Attributes that are replaced while a program is captured, and put back afterwards."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

_ABSENT = object()


class Patches(ExitStack):
    """Replaces attributes; leaving it restores them, the last first."""

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner.name` by `value` and return what was there, None where nothing was."""
        # As it is stored, so that a static method or a property is put back as one.
        before = vars(owner).get(name, _ABSENT)
        current = getattr(owner, name, None)
        setattr(owner, name, value)
        if before is _ABSENT:
            self.callback(delattr, owner, name)
        else:
            self.callback(setattr, owner, name, before)
        return current
