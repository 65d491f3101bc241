"""How fast lint is: python benchmarks/lint.py [FOLDER...]

Copies of the kernels that are at hand (Triton's, torch's, the cases', or those of the folders given) until they make
50,000 lines of files with kernels, each a file of its own; the command is run on them as a user would.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tilewright.lint.files import IMPORTS, lint_text, python_files, read

WANTED = 50_000


def sources(folders: list[Path]) -> list[str]:
    """Return the texts of files that hold kernels."""
    found = []
    for path in python_files(folders):
        text = read(path)
        if IMPORTS.search(text) and lint_text(str(path), text).kernels:
            found.append(text)
    return found


def main() -> None:
    """Print lines, seconds, and lines a second."""
    folders = [Path(name) for name in sys.argv[1:]]
    if not folders:
        specs = [importlib.util.find_spec(name) for name in ("triton", "torch")]
        folders = [Path(s.origin).parent for s in specs if s is not None and s.origin]
        folders.append(Path(__file__).parents[1] / "cases")
    texts = sources(folders)
    slowest = 0.0
    for text in texts:
        start = time.perf_counter()
        lint_text("file", text)
        slowest = max(slowest, time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        lines = files = 0
        while lines < WANTED:
            text = texts[files % len(texts)]
            (Path(folder) / f"copy_{files}.py").write_text(text)
            lines, files = lines + text.count("\n"), files + 1
        start = time.perf_counter()
        words = [sys.executable, "-m", "tilewright.cli.main", "lint", folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
    print(f"{lines:,} lines in {files:,} files with kernels: {seconds:.2f} s, {lines / seconds:,.0f} lines a second")
    print(f"slowest file: {slowest:.3f} s")
    print(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
