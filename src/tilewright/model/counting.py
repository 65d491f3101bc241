"""Counters of many launches: from the cache where they were counted before, else counted, several at once.

numpy and the emulator are loaded only when something must be counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from tilewright.compile import Cache, Compiled
from tilewright.errors import TilewrightError
from tilewright.launch import Descriptor, DType, Launch, Tensor
from tilewright.sass import Counters, Given, Unknown

COUNT_FORMAT = 1
"""Raised when what an entry of the cache holds changes its form."""

FEWEST_FOR_PROCESSES = 3
"""Launches to count from which processes pay: each loads numpy anew, which takes about as long as one count."""

Job: TypeAlias = "tuple[Compiled, Launch]"
Progress: TypeAlias = "Callable[[int, int], None]"


class AssumeError(TilewrightError):
    """A given value does not fit the kernel: nothing is loaded at its line."""


def count_launches(
    jobs: Sequence[Job],
    *,
    given: Sequence[Given] = (),
    traffic: bool = True,
    cache: Cache | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Counters]:
    """Return the Counters of each job, in order.

    given: values taken for what is loaded at a line; traffic: memory accesses too (slower); workers: processes
    at once; progress is called with (done, all) after each. Raises AssumeError where a given value fits none.
    """
    keys = [count_key(compiled, launch, given, traffic) for compiled, launch in jobs]
    found: dict[str, Counters] = {}
    for key in dict.fromkeys(keys):
        if (counters := _read(cache, key)) is not None:
            found[key] = counters
    missing = {key: job for key, job in zip(keys, jobs, strict=True) if key not in found}
    total = len(found) + len(missing)
    for key, counters in _count(missing, given, traffic, workers):
        found[key] = counters
        if cache is not None and not _broken(counters):
            cache.put_record(key, counters.to_dict())
        if progress:
            progress(len(found), total)
    if missing and cache is not None:
        cache.trim()
    results = [found[key] for key in keys]
    _complain_of_given(results, given)
    return results


def count_key(compiled: Compiled, launch: Launch, given: Sequence[Given], traffic: bool) -> str:
    """Return the key of a count: everything that decides it, the counter's own source among it."""
    seen = {
        "format": COUNT_FORMAT,
        "counter": counter_digest(),
        "asm": {k: compiled.asm.get(k) for k in ("sass", "ptx")},
        "machine_code": asdict(compiled.machine_code) if compiled.machine_code else None,
        "num_warps": compiled.num_warps,
        "num_ctas": compiled.num_ctas,
        "signature": dict(compiled.signature),
        "constexprs": {k: str(v) for k, v in compiled.constexprs.items()},
        "file": str(launch.kernel.path),
        "args": {k: _arg(v) for k, v in launch.args.items()},
        "grid": launch.grid,
        "given": [asdict(g) for g in given],
        "traffic": traffic,
    }
    return "count-" + hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:40]


@lru_cache(maxsize=1)
def counter_digest() -> str:
    """Return a hash of the counter's source files, so that no count outlives the code that made it."""
    digest = hashlib.sha256()
    for file in sorted((Path(__file__).parents[1] / "sass").glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _arg(value: object) -> object:
    if isinstance(value, (Tensor, Descriptor)):
        return value.to_dict()
    return value.name if isinstance(value, DType) else value


def _read(cache: Cache | None, key: str) -> Counters | None:
    record = cache.get_record(key) if cache is not None else None
    if record is None:
        return None
    try:
        return replace(Counters.from_dict(record), cached=True)
    except (KeyError, TypeError, ValueError):
        return None


def _count(
    missing: Mapping[str, Job], given: Sequence[Given], traffic: bool, workers: int
) -> Iterator[tuple[str, Counters]]:
    if len(missing) < FEWEST_FOR_PROCESSES or workers < 2:
        for key, job in missing.items():
            yield key, count_one(job, given, traffic)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    # Spawned, not forked: the compiler's threads may hold locks.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(missing)), mp_context=spawn) as pool:
        futures = {pool.submit(count_one, job, given, traffic): key for key, job in missing.items()}
        for future in as_completed(futures):
            key = futures[future]
            try:
                yield key, future.result()
            except BrokenProcessPool:
                yield key, _failed(missing[key][1], "its process was killed, as when memory runs out")


def count_one(job: Job, given: Sequence[Given], traffic: bool) -> Counters:
    """Count one launch; a fault of the counter itself is said in the result, and costs no other figure."""
    from tilewright.sass.count import count

    compiled, launch = job
    try:
        return count(compiled, launch, given, traffic)
    except Exception as e:
        return _failed(launch, f"{type(e).__name__}: {e}")


BROKEN = "counting failed, which is a fault of Tilewright's"


def _failed(launch: Launch, why: str) -> Counters:
    unknown = Unknown("everything", f"{BROKEN}: {why}", None, None, None)
    return Counters(launch.programs, None, unknown=(unknown,))


def _broken(counters: Counters) -> bool:
    return any(u.reason.startswith(BROKEN) for u in counters.unknown)


def _complain_of_given(results: Sequence[Counters], given: Sequence[Given]) -> None:
    """Raise AssumeError if a given value fits none of the launches; what fits some is said in each result."""
    for g in given:
        said = f"--assume {g}:"
        reasons = [next((u.reason for u in r.unknown if u.reason.startswith(said)), None) for r in results]
        if results and all(reasons):
            raise AssumeError(str(reasons[0]))
