"""Counting as the command line asks for it: given values read, profiles counted with a bar."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from tilewright.cli.progress import Progress
from tilewright.compile import Cache
from tilewright.errors import TilewrightError
from tilewright.model import Profile, count_launches
from tilewright.sass import Counters, Given, Unknown

NOT_ON_AMD = "executed counts are not computed for AMD yet"
_ASSUMED = re.compile(r"(?P<file>[^=]+):(?P<line>\d+)=(?P<value>[-+]?(?:0[xX][0-9a-fA-F]+|\d[\d_]*))")


def read_assumed(texts: Sequence[str]) -> list[Given]:
    """Read `FILE:LINE=VALUE`; raise TilewrightError where a text is of another form or a line is given twice."""
    given: list[Given] = []
    for text in texts:
        match = _ASSUMED.fullmatch(text.strip())
        if match is None:
            raise TilewrightError(
                f"expected --assume FILE:LINE=VALUE with a whole number, such as kernel.py:41=128, found {text!r}"
            )
        one = Given(match["file"], int(match["line"]), int(match["value"].replace("_", ""), 0))
        if any((g.file, g.line) == (one.file, one.line) for g in given):
            raise TilewrightError(f"--assume gives {one.file}:{one.line} twice")
        given.append(one)
    return given


def count_profiles(
    profiles: Sequence[Profile], cache: Cache, given: Sequence[Given], jobs: int | None
) -> list[Profile]:
    """Return the profiles with their counters, those that fit; on AMD's GPUs they say that nothing is counted."""
    able = [i for i, p in enumerate(profiles) if p.fits and p.compiled and "sass" in p.compiled.asm]
    work = [(p.compiled, p.launch) for p in (profiles[i] for i in able) if p.compiled]
    counted = list(profiles)
    with Progress(len(work), "counting") as bar:
        found = count_launches(
            work, given=given, cache=cache, workers=jobs or os.cpu_count() or 1, progress=bar.update
        )
    for i, counters in zip(able, found, strict=True):
        counted[i] = replace(profiles[i], counters=counters)
    for i, p in enumerate(profiles):
        if p.fits and p.gpu.target.backend == "hip":
            unknown = Unknown("everything", NOT_ON_AMD, None, None, None)
            counted[i] = replace(p, counters=Counters(p.launch.programs, None, unknown=(unknown,)))
    return counted
