"""`tilewright report`: one HTML page of launches; `tilewright plot`: its pictures alone."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright import figures
from tilewright.cli.explain import compile_and_count
from tilewright.cli.launches import read_asked
from tilewright.cli.options import Args, Assume, AssumeItem, Cases, Gpus, Grid, Jobs, Pick, Settings
from tilewright.errors import TilewrightError
from tilewright.files import write_whole

if TYPE_CHECKING:
    from tilewright.cli.captures import Wanted
    from tilewright.model import Profile

EXAMPLE = "Example: tilewright report cases/flash_attention/case.py:v6 --gpu h200 -o report.html"
PLOT_EXAMPLE = "Example: tilewright plot warps cases/flash_attention/case.py:v6 -o warps.svg"
AsJson = Annotated[
    bool, typer.Option("--json", help="Print which files were written as JSON (see: tilewright schema written).")
]


def report(
    cases: Cases,
    gpu: Gpus = None,
    setting: Settings = None,
    args: Args = None,
    grid: Grid = None,
    assume: Assume = None,
    pick: Pick = None,
    assume_item: AssumeItem = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page: what is wrong, the source beside its machine code, and pictures. Opens without a network."""
    from tilewright.cli.captures import Wanted

    profiles = _profiles(cases, gpu, setting, args, grid, assume, Wanted(pick, assume_item or ()), jobs)
    from tilewright.report.html import html_page

    page = html_page(profiles).encode()
    write_whole(output, page)
    _say_written({output: page}, as_json)
    _leave_if_broken(profiles)


def plot(
    picture: Annotated[str, typer.Argument(metavar="PICTURE", help="warps, shared, roofline or waves.")],
    cases: Cases,
    gpu: Gpus = None,
    setting: Settings = None,
    args: Args = None,
    grid: Grid = None,
    assume: Assume = None,
    pick: Pick = None,
    assume_item: AssumeItem = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An SVG or PNG file. [default: PICTURE.svg]")
    ] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Draw one of the report's pictures as SVG or PNG; several are numbered: warps-1.svg, warps-2.svg."""
    from tilewright.report.pictures import PICTURES, draw

    if picture not in PICTURES:
        listed = ", ".join(f"{name} ({what})" for name, what in PICTURES.items())
        raise TilewrightError(f"no picture {picture!r}: expected one of {listed}")
    output = output or Path(f"{picture}.svg")
    if output.suffix not in (".svg", ".png"):
        raise TilewrightError(f"pictures are SVG or PNG files: expected -o NAME.svg or NAME.png, found {output}")
    encode = _png_encoder() if output.suffix == ".png" else str.encode
    from tilewright.cli.captures import Wanted

    profiles = _profiles(cases, gpu, setting, args, grid, assume, Wanted(pick, assume_item or ()), jobs)
    drawn = [svg for p in profiles for svg in draw(p, picture)]
    if not drawn:
        _leave_if_broken(profiles)
        raise TilewrightError(f"there is nothing to draw: this launch has no {PICTURES[picture]}")
    written: dict[Path, bytes] = {}
    for number, svg in enumerate(drawn, 1):
        path = output if len(drawn) == 1 else output.with_stem(f"{output.stem}-{number}")
        written[path] = encode(_alone(svg))
        write_whole(path, written[path])
    _say_written(written, as_json)
    _leave_if_broken(profiles)


def _say_written(written: Mapping[Path, bytes], as_json: bool) -> None:
    if as_json:
        files = [{"path": str(path), "bytes": len(content)} for path, content in written.items()]
        print(json.dumps({"schema": "tilewright.written/1", "files": files}, indent=2))
    else:
        for path, content in written.items():
            print(f"{path}  {figures.size(len(content))}")


def _alone(svg: str) -> str:
    """A file alone has no page around it: a white ground, and colours as they are."""
    first, _, rest = re.sub(r"var\(--\w+, (#\w+)\)", r"\1", svg).partition(">")
    return f'{first}><rect width="100%" height="100%" fill="#ffffff"/>{rest}\n'


def _png_encoder() -> Callable[[str], bytes]:
    """Return what makes a PNG, two pixels for each of the SVG's; raise TilewrightError where it is not installed."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise TilewrightError(
            "PNG files need the package resvg_py: pip install 'tilewright[png]', or give -o NAME.svg"
        ) from None
    return lambda svg: bytes(svg_to_bytes(svg_string=svg, zoom=2))


def _profiles(
    cases: list[str],
    gpu: list[str] | None,
    setting: list[str] | None,
    args: str | None,
    grid: str | None,
    assume: list[str] | None,
    wanted: Wanted,
    jobs: int | None,
) -> list[Profile]:
    from tilewright.cli.counting import read_assumed
    from tilewright.compile import Compiler

    asked = read_asked(cases, gpu or [], setting or [], args, grid, wanted)
    given = read_assumed(assume or [])
    with Compiler(workers=jobs) as compiler:
        return compile_and_count(compiler, asked.pairs, True, given, jobs)


def _leave_if_broken(profiles: Sequence[Profile]) -> None:
    """Exit with 1 where a launch did not compile, after saying which and why."""
    from tilewright.report.in_short import in_short

    broken = [p for p in profiles if p.compiled is None and p.does_not_fit is None]
    for p in broken:
        name = p.launch.case or p.launch.kernel.name
        print(f"tilewright: {name} on {p.gpu.name}: {' '.join(in_short(p))}", file=sys.stderr)
    if broken:
        raise typer.Exit(1)
