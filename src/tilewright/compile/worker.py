"""The child process that compiles: reads one JSON request per line, writes one JSON reply per line.

A compiler can crash or hang; it does so here, and the parent reports it. Run as
`python -m tilewright.compile.worker`; replies go to the file descriptor that was stdout at the start, while
whatever the compiler prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO


def main() -> None:
    """Serve requests until stdin closes. The argument is a folder for files, which the parent deletes."""
    _die_with_parent()
    scratch = Path(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # Triton's own cache is not wanted: the parent keeps a cache by content. It still writes files.
    os.environ.setdefault("TRITON_CACHE_DIR", str(scratch))
    # Triton 3.9 warns that its default will change in 3.10; fusing is the default of every version here.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    os.environ.pop("TRITON_INTERPRET", None)
    # Imported here: from now on stdout belongs to the replies.
    from tilewright.compile.failures import failure_of
    from tilewright.compile.pipeline import run

    _send(replies, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        try:
            reply = {"compiled": run(request, scratch)}
        except Exception as e:
            if os.environ.get("TILEWRIGHT_DEBUG"):
                traceback.print_exc()
            reply = {"failure": {**failure_of(e), "seconds": time.perf_counter() - started}}
        _send(replies, reply)


def _die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, however it ends: a hung compiler reads no stdin."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL))


def _send(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message, default=str) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
