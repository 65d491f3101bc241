"""A pool of worker processes, one request at a time each: a crash or a hang costs one request, not the batch.

`concurrent.futures.ProcessPoolExecutor` gives up the whole pool when one worker dies and cannot stop a worker
that hangs, so the processes are kept here, each driven by one thread.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

START_SECONDS = 120.0


class Worker:
    """One child process that compiles; it is started at once and killed with `stop`."""

    def __init__(self) -> None:
        self._stderr_lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._buffer = b""
        self._ready = False
        # Kept here, not in the child: a killed process deletes nothing.
        self._scratch = tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True)
        # The caller's interrupt must not reach the child: the parent stops it in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tilewright.compile.worker", self._scratch.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=_environment(),
        )
        threading.Thread(target=self._drain_stderr, daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
        """Send one request and return the reply, or a failure of kind `crash`, `killed` or `timeout`."""
        started = time.monotonic()
        try:
            if not self._ready:
                self._read_line(START_SECONDS)
                self._ready = True
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            reply: dict[str, Any] = json.loads(self._read_line(limit_seconds))
            return reply
        except TimeoutError:
            kind, message = "timeout", f"the compiler did not finish in {limit_seconds:g} s and was stopped"
        except (EOFError, BrokenPipeError, json.JSONDecodeError):
            kind, message = self._how_it_died()
        self.stop()
        self.close()
        return {"failure": {"kind": kind, "message": message, "seconds": time.monotonic() - started}}

    @property
    def alive(self) -> bool:
        """Whether the child can take another request."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Kill the child and whatever it started (the assembler), and wait for it.

        Its pipes stay open: a thread that waits for its answer sees their end. Were they closed here, one that is just
        about to wait would not be woken before its time limit.
        """
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._scratch.cleanup()

    def close(self) -> None:
        """Close the pipes of a stopped child; no thread may wait for its answer any more."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _read_line(self, limit_seconds: float) -> bytes:
        assert self._process.stdout is not None
        file = self._process.stdout.fileno()
        end = time.monotonic() + limit_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(file, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise TimeoutError
                chunk = os.read(file, 1 << 16)
                if not chunk:
                    raise EOFError
                self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._stderr_lines.put(line.decode(errors="replace").rstrip())

    def _how_it_died(self) -> tuple[str, str]:
        """Return a failure's kind and message: `killed` from outside (by the out-of-memory killer, say) or `crash`."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "crash", "the compile worker stopped answering"
        if code == -signal.SIGKILL:
            return "killed", "the compile worker was killed (SIGKILL); out of memory?"
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        last: list[str] = []
        while not self._stderr_lines.empty():
            last.append(self._stderr_lines.get())
        said = [line for line in last if line.strip()][-3:]
        return "crash", f"the compiler crashed ({how})" + (": " + " | ".join(said) if said else "")


def _environment() -> dict[str, str]:
    """The child's environment: it imports this very package, also when the parent found it by another way."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


class WorkerPool:
    """Up to `workers` children. Use as a context manager: leaving it stops them all."""

    def __init__(self, workers: int) -> None:
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPoolExecutor(max_workers=workers)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            for worker in self._all:
                worker.stop()
        self._threads.shutdown(wait=True)
        for worker in self._all:
            worker.close()

    def run(
        self, requests: Sequence[Mapping[str, Any]], limit_seconds: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (index, reply) for every request, as they finish."""
        futures: dict[Future[dict[str, Any]], int] = {
            self._threads.submit(self._one, r, limit_seconds): i for i, r in enumerate(requests)
        }
        pending = set(futures)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield futures[future], future.result()

    def _one(self, request: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        if self._closed:
            return {"failure": {"kind": "killed", "message": "the batch was left before this compile began"}}
        reply = worker.ask(request, limit_seconds)
        if worker.alive and not self._closed:
            self._idle.put(worker)
        return reply

    def _start(self) -> Worker:
        worker = Worker()
        with self._lock:
            self._all = [w for w in self._all if w.alive]
            self._all.append(worker)
            # A thread may get here while the pool is being left: whoever has the lock second stops the child.
            if self._closed:
                worker.stop()
        return worker
