"""`tilewright report`: one HTML page of launches; `tilewright plot`: its pictures alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.explain import DEFAULT_GPU, compile_and_count
from tilewright.cli.launches import read_launches
from tilewright.errors import TilewrightError
from tilewright.files import write_whole

if TYPE_CHECKING:
    from tilewright.model import Profile

EXAMPLE = "Example: tilewright report cases/flash_attention/case.py:v6 --gpu h200 -o report.html"
PLOT_EXAMPLE = "Example: tilewright plot warps cases/flash_attention/case.py:v6 -o warps.svg"

_Cases = Annotated[
    list[str],
    typer.Argument(
        metavar="CASE...", help="path/to/case.py:variant, or FILE.py:KERNEL together with --args."
    ),
]
_Gpus = Annotated[
    list[str] | None,
    typer.Option("--gpu", "-g", help=f"A GPU's name or a TOML file; repeatable. [default: {DEFAULT_GPU}]"),
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE[,VALUE...]", help="Set a parameter; lists are combined."),
]
_Args = Annotated[
    str | None,
    typer.Option("--args", help="Describe the arguments of FILE.py:KERNEL: 'x: bf16[64,64], n: 64'."),
]
_Grid = Annotated[
    str | None, typer.Option("--grid", help="The grid of FILE.py:KERNEL: 32,8 or 'cdiv(n, BLOCK)'.")
]
_Assume = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="FILE:LINE=VALUE", help="What is loaded at a line; repeatable."),
]
_Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Compiles and counts at once. [default: cores]")
]


def report(
    cases: _Cases,
    gpu: _Gpus = None,
    setting: _Settings = None,
    args: _Args = None,
    grid: _Grid = None,
    assume: _Assume = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    jobs: _Jobs = None,
) -> None:
    """Write one HTML page: what is wrong, the source beside its machine code, and pictures. Opens without a network."""
    profiles = _profiles(cases, gpu, setting, args, grid, assume, jobs)
    from tilewright.report.html import html_page

    page = html_page(profiles)
    write_whole(output, page.encode())
    print(
        f"{output}: {len(page.encode()) / 1e6:.2f} MB, {len(profiles)} launch{'es' if len(profiles) > 1 else ''}"
    )
    _complain(profiles)


def plot(
    picture: Annotated[str, typer.Argument(metavar="PICTURE", help="warps, shared, roofline or waves.")],
    cases: _Cases,
    gpu: _Gpus = None,
    setting: _Settings = None,
    args: _Args = None,
    grid: _Grid = None,
    assume: _Assume = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An SVG file. [default: PICTURE.svg]")
    ] = None,
    jobs: _Jobs = None,
) -> None:
    """Draw one of the report's pictures as SVG; several are numbered: warps-1.svg, warps-2.svg."""
    from tilewright.report.pictures import PICTURES, draw

    if picture not in PICTURES:
        listed = ", ".join(f"{name} ({what})" for name, what in PICTURES.items())
        raise TilewrightError(f"no picture {picture!r}: expected one of {listed}")
    output = output or Path(f"{picture}.svg")
    if output.suffix != ".svg":
        raise TilewrightError(f"pictures are SVG files: expected -o NAME.svg, found {output}")
    profiles = _profiles(cases, gpu, setting, args, grid, assume, jobs)
    drawn = [svg for p in profiles for svg in draw(p, picture)]
    if not drawn:
        raise TilewrightError(f"there is nothing to draw: this launch has no {PICTURES[picture]}")
    for number, svg in enumerate(drawn, 1):
        path = output if len(drawn) == 1 else output.with_stem(f"{output.stem}-{number}")
        write_whole(path, _alone(svg).encode())
        print(path)
    _complain(profiles)


def _alone(svg: str) -> str:
    """A file alone has no page around it: a white ground, and colours as they are."""
    first, _, rest = re.sub(r"var\(--\w+, (#\w+)\)", r"\1", svg).partition(">")
    return f'{first}><rect width="100%" height="100%" fill="#ffffff"/>{rest}\n'


def _profiles(
    cases: list[str],
    gpu: list[str] | None,
    setting: list[str] | None,
    args: str | None,
    grid: str | None,
    assume: list[str] | None,
    jobs: int | None,
) -> list[Profile]:
    from tilewright.cli.counting import read_assumed
    from tilewright.compile import Compiler
    from tilewright.gpus import load

    gpus = [load(name) for name in gpu or [DEFAULT_GPU]]
    launches, _ = read_launches(cases, setting or [], args, grid)
    with Compiler(workers=jobs) as compiler:
        pairs = [(launch, g) for launch in launches for g in gpus]
        return compile_and_count(compiler, pairs, True, read_assumed(assume or []), jobs)


def _complain(profiles: list[Profile]) -> None:
    if any(p.compiled is None and p.does_not_fit is None for p in profiles):
        raise typer.Exit(1)
