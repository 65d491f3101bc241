"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(file: Path, content: bytes) -> None:
    """Write a file through a temporary one beside it; raise OSError, with nothing left behind, where that fails.

    A file is readable by others as far as the umask says, as one written in place would be.
    """
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".tilewright-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
