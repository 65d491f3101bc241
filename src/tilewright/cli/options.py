"""Options that several commands take, worded once."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_GPU = "rtx-4070-super"

Cases = Annotated[
    list[str],
    typer.Argument(
        metavar="CASE...",
        help="path/to/case.py:variant; FILE.py:KERNEL with --args; a program, SCRIPT.py or 'SCRIPT.py ARGS'; or a "
        "capture, FILE.capture.json.",
    ),
]
Gpus = Annotated[
    list[str] | None,
    typer.Option("--gpu", "-g", help=f"A GPU's name or a TOML file; repeatable. [default: {DEFAULT_GPU}]"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE[,VALUE...]", help="Set a parameter; lists are combined."),
]
Args = Annotated[
    str | None,
    typer.Option("--args", help="Describe the arguments of FILE.py:KERNEL: 'x: bf16[64,64], n: 64'."),
]
Grid = Annotated[
    str | None, typer.Option("--grid", help="The grid of FILE.py:KERNEL: 32,8 or 'cdiv(n, BLOCK)'.")
]
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="FILE:LINE=VALUE",
        help="What is loaded at a line, where the count depends on it; repeatable.",
    ),
]
Pick = Annotated[
    str | None, typer.Option("-k", metavar="PATTERN", help="Only kernels whose name holds this, or one KERNEL#N.")
]
AssumeItem = Annotated[
    list[str] | None,
    typer.Option(
        "--assume-item",
        metavar="[FILE:LINE=]VALUE",
        help="What a program is given where it reads a number that only a GPU has; repeatable.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds that one compile may take.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Compiles and counts at once. [default: cores]")
]
