"""Compiled kernels on disk, found by content.

The key holds what the caller can see: the kernel's file and name, argument types and divisibility, constexprs,
options, target, Triton's version, and the environment variables that Triton reads. Which further files decide
the result is only known after a compile, so each entry lists the files that were read with their hashes, and
counts only while every one of them still has its content. An entry is written whole or not at all; a damaged
one counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.compile.compiled import Compiled
from tilewright.files import write_whole

FORMAT = 3
MAX_ENTRIES_PER_KEY = 4
DEFAULT_LIMIT_BYTES = 2 << 30


def cache_dir() -> Path:
    """`$TILEWRIGHT_CACHE_DIR`, else `$XDG_CACHE_HOME/tilewright`, else `~/.cache/tilewright`."""
    if own := os.environ.get("TILEWRIGHT_CACHE_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright"


class Cache:
    """A folder of compressed entries; `folder` None switches it off."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._hashes: dict[tuple[str, int, int], str] = {}
        self.problem: str | None = None

    def get(self, key: str) -> Compiled | None:
        """Return the entry for `key` whose files are all unchanged, or None."""
        if self._folder is None:
            return None
        for file in sorted(self._folder.glob(f"{key}-*.z")):
            try:
                entry = json.loads(zlib.decompress(file.read_bytes()))
                if all(self._hash(path) == digest for path, digest in entry["files"].items()):
                    return Compiled.from_dict({**entry["compiled"], "cached": True})
            except (OSError, ValueError, KeyError, TypeError, zlib.error):
                continue
        return None

    def put(self, key: str, compiled: Compiled, files: Mapping[str, str]) -> None:
        """Store an entry that was made from `files` (path to hash).

        A full disk or a folder that cannot be written is remembered in `problem`.
        """
        if self._folder is None:
            return
        entry = {"files": dict(files), "compiled": {**compiled.to_dict(), "cached": False}}
        digest = hashlib.sha256(json.dumps(entry["files"], sort_keys=True).encode()).hexdigest()[:12]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._folder / f"{key}-{digest}.z", zlib.compress(json.dumps(entry).encode(), 1))
            self._drop_old(key)
        except OSError as e:
            self.problem = f"the compile cache in {self._folder} could not be written: {e.strerror or e}"

    def get_record(self, key: str) -> dict[str, Any] | None:
        """Return what `put_record` stored under `key`, or None."""
        if self._folder is None:
            return None
        try:
            record = json.loads(zlib.decompress((self._folder / f"{key}.z").read_bytes()))
        except (OSError, ValueError, zlib.error):
            return None
        return record if isinstance(record, dict) else None

    def put_record(self, key: str, record: Mapping[str, Any]) -> None:
        """Store something JSON-ready that depends on nothing but its key; like `put`, it never raises."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._folder / f"{key}.z", zlib.compress(json.dumps(record).encode(), 1))
        except OSError as e:
            self.problem = f"the cache in {self._folder} could not be written: {e.strerror or e}"

    def size(self) -> tuple[int, int]:
        """Return (entries, bytes)."""
        files = list(self._folder.glob("*.z")) if self._folder else []
        return len(files), sum(f.stat().st_size for f in files)

    def clear(self) -> int:
        """Delete every entry and return how many there were."""
        files = list(self._folder.glob("*.z")) if self._folder else []
        for file in files:
            file.unlink(missing_ok=True)
        return len(files)

    def trim(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Delete the oldest entries until the folder holds at most `limit_bytes`."""
        if self._folder is None:
            return
        aged = sorted((f.stat().st_mtime, f.stat().st_size, f) for f in self._folder.glob("*.z"))
        total = sum(size for _, size, _ in aged)
        for _, size, file in aged:
            if total <= limit_bytes:
                break
            file.unlink(missing_ok=True)
            total -= size

    def _drop_old(self, key: str) -> None:
        assert self._folder is not None
        entries = sorted(self._folder.glob(f"{key}-*.z"), key=lambda f: f.stat().st_mtime)
        for file in entries[:-MAX_ENTRIES_PER_KEY]:
            file.unlink(missing_ok=True)

    def _hash(self, path: str) -> str | None:
        try:
            stat = os.stat(path)
            known = (path, stat.st_mtime_ns, stat.st_size)
            if known not in self._hashes:
                self._hashes[known] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            return self._hashes[known]
        except OSError:
            return None


def cache_key(request: Mapping[str, Any], triton_version: str) -> str:
    """Return the key of a request: argument values count only as far as the compiler can see them."""
    seen = {
        **request,
        "args": {
            name: ["constexpr", arg] if name in request["constexprs"] else _as_compiler_sees(arg)
            for name, arg in request["args"].items()
        },
        "triton": triton_version,
        "format": FORMAT,
        "environment": {
            k: v
            for k, v in os.environ.items()
            if k.startswith(("TRITON_", "MLIR_", "LLVM_"))
            and k not in ("TRITON_CACHE_DIR", "TRITON_INTERPRET")
        },
    }
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:40]


def _as_compiler_sees(arg: Any) -> Any:
    """Reduce a runtime argument to what Triton can specialise on: type, being 1, divisibility by 16, extent."""
    if isinstance(arg, dict) and arg.get("kind") == "tensor":
        aligned = arg["alignment_bytes"] % 16 == 0
        return ["tensor", arg["torch_dtype"], aligned, arg["storage_bytes"] <= 2**31 - 1]
    if isinstance(arg, bool) or not isinstance(arg, (int, float)):
        return arg
    if isinstance(arg, float):
        return ["float"]
    return ["int", arg == 1, arg % 16 == 0, -(2**31) <= arg < 2**31, arg < 2**63]
