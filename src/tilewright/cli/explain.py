"""`tilewright explain`: what the compiler made of a launch, what it executes, what limits it, how the grid fills
the GPU."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tilewright.cli.launches import Asked, read_asked, read_compared
from tilewright.cli.options import (
    Args,
    Assume,
    AssumeItem,
    Cases,
    Gpus,
    Grid,
    Jobs,
    Pick,
    Settings,
    Timeout,
)
from tilewright.cli.progress import Progress
from tilewright.errors import TilewrightError
from tilewright.files import write_whole

if TYPE_CHECKING:
    from tilewright.compile import Compiler
    from tilewright.gpus import Gpu
    from tilewright.launch import Launch
    from tilewright.model import Profile
    from tilewright.sass import Given

EXAMPLE = (
    "Examples: tilewright explain cases/flash_attention/case.py:v1 --gpu h200 --set Q_TILE_SIZE=128"
    "  |  tilewright explain k.py:kernel --args 'x: bf16[4096,64], n: 4096, BLOCK: constexpr 128' --grid 32"
    "  |  tilewright explain train.py --gpu h200"
)


def explain(
    cases: Cases,
    gpu: Gpus = None,
    setting: Settings = None,
    args: Args = None,
    grid: Grid = None,
    configs: Annotated[bool, typer.Option("--configs", help="One row per configuration.")] = False,
    count: Annotated[
        bool | None,
        typer.Option(
            "--count/--no-count", help="Count what is executed. [default: count, but not with --configs]"
        ),
    ] = None,
    assume: Assume = None,
    pick: Pick = None,
    assume_item: AssumeItem = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="CASE2[,NAME=VALUE...]",
            help="What differs by line and opcode; or NAME=VALUE alone, for the same case set otherwise.",
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="List every line's counts, with what is inlined into it.")
    ] = False,
    source: Annotated[bool, typer.Option("--source", help="List the source with executed counts.")] = False,
    sass: Annotated[
        bool, typer.Option("--sass", help="List the machine code with executed counts; also in --json.")
    ] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="List the PTX with executed counts.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON (see: tilewright schema profile).")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compile afresh and keep nothing.")] = False,
    timeout: Timeout = 120.0,
    jobs: Jobs = None,
) -> None:
    """Say what the compiler made of a Triton kernel launch, what it executes and which resource limits it."""
    from tilewright.cli.captures import Wanted
    from tilewright.cli.counting import read_assumed
    from tilewright.compile import Compiler

    wanted = Wanted(pick, assume_item or (), trials=configs)
    found = read_asked(cases, gpu or [], setting or [], args, grid, wanted)
    asked = {"lines": lines, "source": source, "sass": sass, "ptx": ptx}
    listings = [name for name, wanted in asked.items() if wanted]
    several = len(found.pairs)
    _check_listings(listings, several, alone=not configs and compare is None, as_json=as_json)
    if count is False:
        _check_counting({**asked, "compare": compare is not None, "assume": bool(assume)})
    if compare is not None:
        if several > 1 or configs:
            raise TilewrightError("--compare compares with one launch on one GPU, without --configs")
        others = read_compared(compare, cases[0], setting or [], args, grid)
        found.pairs.extend((launch, found.pairs[0][1]) for launch in others)
    if timeout <= 0:
        raise TilewrightError(f"--timeout must be more than 0 seconds, found {timeout:g}")
    given = read_assumed(assume or [])
    counting = count if count is not None else bool(given) or not configs
    with Compiler(
        workers=jobs, limit_seconds=timeout, cache_folder=None if no_cache else "default"
    ) as compiler:
        profiles = compile_and_count(compiler, found.pairs, counting, given, jobs)
        if compiler.cache.problem:
            print(f"tilewright: {compiler.cache.problem}", file=sys.stderr)
    if compare is not None:
        _write(output, lambda file: _print_compared(file, profiles, as_json, listings))
    else:
        _write(output, lambda file: _print(file, profiles, found, configs, as_json, listings))
    broken = [p for p in profiles if p.compiled is None and p.does_not_fit is None]
    if any(c.stopped for c in found.captures) or (broken and (not configs or len(broken) == len(profiles))):
        raise typer.Exit(1)


def compile_and_count(
    compiler: Compiler,
    pairs: Sequence[tuple[Launch, Gpu]],
    wanted: bool,
    given: Sequence[Given],
    jobs: int | None,
) -> list[Profile]:
    """Compile every pair of launch and GPU, and count those that fit if that is wanted."""
    from tilewright.cli.captures import check_target
    from tilewright.cli.counting import count_profiles
    from tilewright.model import make_profile

    for launch, g in pairs:
        check_target(launch, g)
    wanted_here = wanted and any(g.target.backend == "cuda" for _, g in pairs)
    counter = threading.Thread(target=_load_counter)
    with Progress(len(pairs), "compiling") as bar:

        def update(done: int, total: int) -> None:
            # While a worker compiles, this process may as well load what it will count with.
            if wanted_here and done < total and not counter.ident:
                counter.start()
            bar.update(done, total)

        results = compiler.compile([(launch, g.target) for launch, g in pairs], progress=update)
    if counter.ident:
        counter.join()
    profiles = [make_profile(launch, g, r) for (launch, g), r in zip(pairs, results, strict=True)]
    return count_profiles(profiles, compiler.cache, given, jobs) if wanted else profiles


def _load_counter() -> None:
    import tilewright.sass.count  # noqa: F401


def _check_listings(listings: Sequence[str], several: int, alone: bool, as_json: bool) -> None:
    """Complain of a listing that cannot be printed: it is of one launch, and JSON has only that of the code."""
    for name in listings:
        if as_json and name != "sass":
            raise TilewrightError(
                f"--{name} is a page: with --json, counts by line are always there, and --sass adds "
                "those by instruction"
            )
        if not as_json and not alone:
            raise TilewrightError(f"--{name} lists one launch: leave out --configs and --compare")
        if not as_json and several > 1:
            raise TilewrightError(f"--{name} lists one launch on one GPU, and {several} were asked for")


def _check_counting(asked: Mapping[str, bool]) -> None:
    """Complain of an option that needs counts, given together with --no-count."""
    for name, given in asked.items():
        if given:
            raise TilewrightError(f"--{name} needs counts: leave out --no-count")


def _print_compared(
    file: IO[str], profiles: Sequence[Profile], as_json: bool, listings: Sequence[str]
) -> None:
    from tilewright.model import difference

    found = difference(*profiles)
    if as_json:
        json.dump(found.to_dict(instructions="sass" in listings), file, indent=2)
        file.write("\n")
        return
    from tilewright.report import Page, print_difference

    print_difference(Page(file), found)


def _print(
    file: IO[str],
    profiles: Sequence[Profile],
    found: Asked,
    configs: bool,
    as_json: bool,
    listings: Sequence[str],
) -> None:
    if as_json:
        from tilewright.rules import find

        counts: Sequence[int | None] = found.counts or [None] * len(profiles)
        dicts = [
            {
                **p.to_dict(instructions="sass" in listings),
                "findings": [f.to_dict() for f in find(p)],
                **({} if n is None else {"launched_times": n}),
            }
            for p, n in zip(profiles, counts, strict=True)
        ]
        json.dump(dicts[0] if len(dicts) == 1 else dicts, file, indent=2)
        file.write("\n")
        return
    from tilewright.report import (
        Page,
        print_configs,
        print_listings,
        print_overview,
        print_profile,
        print_side_by_side,
    )

    page = Page(file)
    if listings:
        print_listings(page, profiles[0], listings)
    elif configs:
        print_configs(page, profiles, found.varied)
    elif len(profiles) == 1:
        print_profile(page, profiles[0])
    elif found.counts is not None:
        print_overview(page, profiles, found.counts)
    else:
        print_side_by_side(page, profiles)


def _write(output: Path | None, print_to: Callable[[IO[str]], None]) -> None:
    """Print to stdout, or to a file that appears whole or not at all."""
    if output is None:
        print_to(sys.stdout)
        return
    text = io.StringIO()
    print_to(text)
    try:
        write_whole(output.resolve(), text.getvalue().encode())
    except OSError as e:
        raise TilewrightError(f"cannot write {output}: {e.strerror or e}") from e
