"""What can go wrong because of what the user gave: one base class, so that the command line catches one thing.

Every message says what was expected, what was found and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TilewrightError(Exception):
    """Base of every error that the user can mend: bad input, a missing file, an unknown name."""


class KernelError(TilewrightError):
    """The kernel cannot be found or read."""


class LaunchError(TilewrightError):
    """The launch does not fit the kernel: an argument is missing, unknown or of the wrong kind."""


class CaseError(TilewrightError):
    """A case file, a variant or a parameter is wrong."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``' (did you mean x?)'`` for the nearest of `known`, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""
