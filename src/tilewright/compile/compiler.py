"""Launch x Gpu -> Compiled: requests for workers, the cache in front of them, batches in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tilewright.compile.cache import Cache, cache_dir, cache_key
from tilewright.compile.compiled import Compiled, Failure, Result
from tilewright.compile.pool import WorkerPool
from tilewright.gpus import Target
from tilewright.launch import Descriptor, DType, Launch, Tensor

DEFAULT_LIMIT_SECONDS = 120.0


@lru_cache(maxsize=1)
def triton_version() -> str:
    """Version of the installed Triton, without importing it."""
    return metadata.version("triton")


class Compiler:
    """Compiles launches in worker processes. Use as a context manager.

    workers: processes at once (default: one per core); limit_seconds: time limit of one compile;
    cache_folder: where results are kept (None: not at all).
    """

    def __init__(
        self,
        workers: int | None = None,
        limit_seconds: float = DEFAULT_LIMIT_SECONDS,
        cache_folder: Path | str | None = "default",
    ) -> None:
        folder = cache_dir() if cache_folder == "default" else cache_folder
        self.cache = Cache(Path(folder) if folder is not None else None)
        self._limit_seconds = limit_seconds
        self._pool = WorkerPool(workers or os.cpu_count() or 1)

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.__exit__(*exc)

    def compile(
        self,
        jobs: Sequence[tuple[Launch, Target]],
        depth: str = "binary",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Result]:
        """Return one result per job, in order: a Compiled, or the Failure that says why there is none.

        depth `ttgir` stops before the back end: shared memory and layouts, no registers, many times faster.
        progress is called with (done, all) after each.
        """
        requests = [_request(launch, target, depth) for launch, target in jobs]
        keys = [cache_key(r, triton_version()) for r in requests]
        results: dict[str, Result] = {}
        for key in dict.fromkeys(keys):
            if (found := self.cache.get(key)) is not None:
                results[key] = found
        missing = {k: r for k, r in zip(keys, requests, strict=True) if k not in results}
        done = len(results)
        total = done + len(missing)
        if progress:
            progress(done, total)
        for key, reply in self._run(missing):
            results[key] = self._read_reply(key, reply)
            done += 1
            if progress:
                progress(done, total)
        if missing:
            self.cache.trim()
        return [results[k] for k in keys]

    def _run(self, requests: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (key, reply) as they come. What crashed is tried again without the passes that only we run."""
        keys, crashed = list(requests), []
        for index, reply in self._pool.run(list(requests.values()), self._limit_seconds):
            if reply.get("failure", {}).get("kind") == "crash" and requests[keys[index]]["depth"] == "binary":
                crashed.append(keys[index])
            else:
                yield keys[index], reply
        again = [{**requests[key], "offsets": False} for key in crashed]
        for index, reply in self._pool.run(again, self._limit_seconds):
            if "compiled" in reply:
                reply["compiled"]["notes"].append(
                    "shared-memory offsets unknown: the compiler's allocation crashed"
                )
            yield crashed[index], reply

    def _read_reply(self, key: str, reply: Mapping[str, Any]) -> Result:
        if "failure" in reply:
            return Failure(**reply["failure"])
        body = dict(reply["compiled"])
        files = body.pop("files")
        compiled = Compiled.from_dict(body)
        self.cache.put(key, compiled, files)
        return compiled


def compile_launch(launch: Launch, target: Target, **kwargs: Any) -> Result:
    """Compile one launch; keyword arguments are Compiler's."""
    with Compiler(workers=1, **kwargs) as compiler:
        return compiler.compile([(launch, target)])[0]


def _request(launch: Launch, target: Target, depth: str) -> dict[str, Any]:
    where = {
        "name": launch.kernel.name,
        "backend": target.backend,
        "arch": target.arch,
        "warp_size": target.warp_size,
        "depth": depth,
        "offsets": True,
    }
    if launch.ir is not None:
        # What the compiler was given says everything: neither the file nor the arguments are looked at.
        return {**where, "args": {}, "constexprs": [], "ir": launch.ir.to_dict()}
    options = {
        "num_warps": launch.num_warps,
        "num_stages": launch.num_stages,
        "num_ctas": launch.num_ctas,
        **launch.options,
    }
    return {
        **where,
        "file": str(launch.kernel.path),
        "args": {name: _request_arg(arg) for name, arg in launch.args.items()},
        "constexprs": sorted(launch.constexprs),
        "options": options,
    }


def _request_arg(arg: Any) -> Any:
    if isinstance(arg, Tensor):
        return {
            **arg.to_dict(),
            "torch_dtype": arg.dtype.torch_name,
            "itemsize": arg.dtype.bytes,
            "storage_bytes": arg.storage_bytes,
        }
    if isinstance(arg, Descriptor):
        return {**_request_arg(arg.tensor), "kind": "descriptor", "block_shape": list(arg.block_shape)}
    if isinstance(arg, DType):
        return {"kind": "dtype", "name": arg.name}
    return arg
