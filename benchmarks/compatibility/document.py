"""Writes docs/compatibility.md from the results of run.py."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

HEAD = """# Third-party kernels under capture

Each package is installed from PyPI without its dependencies, and used as its users do by a program of
`benchmarks/compatibility/programs/`, which runs unmodified under `tilewright capture` on a machine with no GPU. Every
different launch (kernel, types, specialisation, constexprs, warps, stages; those that an autotuner tried as well) is
then compiled and counted for the GPU that stood in. *Exact* is the number of variants whose executed instructions are
known exactly; the others say why below. *Traffic* is the number whose L2-to-SM bytes are exact too.

This page is written by a command: `python benchmarks/compatibility/run.py`.
"""


def write_document(file: Path, results: Path, names: list[str]) -> None:
    """Write the page from every result that is there, in the order of names."""
    rows = [json.loads(f.read_text()) for n in names if (f := results / f"{n}.json").exists()]
    if not rows:
        return
    lines = [HEAD, f"Made with Triton {rows[0]['triton']} and torch {rows[0]['torch']}.", ""]
    for gpu in rows[0]["gpus"]:
        lines += [f"## {gpu}", "", *_table(gpu, rows), ""]
    lines += ["## What has no exact count, and why", "", *_reasons(rows), ""]
    file.write_text("\n".join(lines))


def _table(gpu: str, rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| package | kernels shipped | captured | launches | variants | compiled | exact | traffic |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    total = Counter[str]()
    for row in rows:
        found = row["gpus"].get(gpu)
        if found is None:
            continue
        variants = found["variants"]
        own = {
            "shipped": row["kernels_shipped"],
            "captured": len(found["kernels"]),
            "launches": found["launches"],
            "variants": len(variants),
            "compiled": sum(v["compiled"] for v in variants),
            "exact": sum(v["exact"] for v in variants),
            "traffic": sum(v["traffic_exact"] for v in variants),
        }
        total.update(own)
        lines.append(f"| {row['install'][0].replace('==', ' ')} | {_cells(own)} |")
    return [*lines, f"| **all** | {_cells(total)} |"]


def _cells(counts: Any) -> str:
    keys = ("shipped", "captured", "launches", "variants", "compiled", "exact", "traffic")
    return " | ".join(f"{counts[k]:,}" for k in keys)


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        own: list[str] = []
        for gpu, found in row["gpus"].items():
            why: Counter[str] = Counter(v["why"] for v in found["variants"] if not v["exact"])
            own += [
                f"- {gpu}, {n} of {len(found['variants'])} variants: {_short(text)}"
                for text, n in why.most_common()
            ]
            own += [f"- {gpu}, `{p}` ended early: {text}" for p, text in found["stopped"].items()]
        if own:
            lines += [f"### {row['package']}", "", *own, ""]
    return lines or ["Nothing."]


def _short(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
