"""`tilewright cache`: where compiled kernels are kept, how much there is, and how to delete it."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete every entry.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show or clear the cache of compiled kernels."""
    from tilewright.compile import Cache, cache_dir

    folder = cache_dir()
    store = Cache(folder)
    removed = store.clear() if clear else 0
    entries, size = store.size()
    if as_json:
        print(json.dumps({"folder": str(folder), "entries": entries, "bytes": size, "removed": removed}))
    elif clear:
        print(f"{_entries(removed)} deleted from {folder}")
    else:
        print(f"{folder}: {_entries(entries)}, {size:,} bytes")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"
