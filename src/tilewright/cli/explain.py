"""`tilewright explain`: what the compiler made of a launch, what limits it, and how the grid fills the GPU."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from tilewright.errors import CaseError, LaunchError, TilewrightError
from tilewright.files import write_whole

if TYPE_CHECKING:
    from tilewright.launch import Launch
    from tilewright.model import Profile

DEFAULT_GPU = "rtx-4070-super"
EXAMPLE = (
    "Examples: tilewright explain cases/flash_attention/case.py:v1 --gpu h200 --set Q_TILE_SIZE=128"
    "  |  tilewright explain k.py:kernel --args 'x: bf16[4096,64], n: 4096, BLOCK: constexpr 128' --grid 32"
)


def explain(
    cases: Annotated[
        list[str],
        typer.Argument(
            metavar="CASE...", help="path/to/case.py:variant, or FILE.py:KERNEL together with --args."
        ),
    ],
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu", "-g", help=f"A GPU's name or a TOML file; repeatable. [default: {DEFAULT_GPU}]"
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE[,VALUE...]", help="Set a parameter; lists are combined."
        ),
    ] = None,
    args: Annotated[
        str | None,
        typer.Option("--args", help="Describe the arguments of FILE.py:KERNEL: 'x: bf16[64,64], n: 64'."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", help="The grid of FILE.py:KERNEL: 32,8 or 'cdiv(n, BLOCK)'.")
    ] = None,
    configs: Annotated[bool, typer.Option("--configs", help="One row per configuration.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON (see: tilewright schema profile).")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compile afresh and keep nothing.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that one compile may take.")] = 120.0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Compiles at once. [default: cores]")
    ] = None,
) -> None:
    """Say what the compiler made of a Triton kernel launch and which resource limits it, for any GPU."""
    from tilewright.compile import Compiler
    from tilewright.gpus import load
    from tilewright.model import make_profile

    gpus = [load(name) for name in gpu or [DEFAULT_GPU]]
    launches, varied = _launches(cases, setting or [], args, grid)
    pairs = [(launch, g) for launch in launches for g in gpus]
    if timeout <= 0:
        raise TilewrightError(f"--timeout must be more than 0 seconds, found {timeout:g}")
    with Compiler(
        workers=jobs, limit_seconds=timeout, cache_folder=None if no_cache else "default"
    ) as compiler:
        with _Progress(len(pairs)) as progress:
            results = compiler.compile([(launch, g.target) for launch, g in pairs], progress=progress.update)
        profiles = [make_profile(launch, g, r) for (launch, g), r in zip(pairs, results, strict=True)]
        if compiler.cache.problem:
            print(f"tilewright: {compiler.cache.problem}", file=sys.stderr)
    _write(output, lambda file: _print(file, profiles, varied, configs, as_json))
    broken = [p for p in profiles if p.compiled is None and p.does_not_fit is None]
    if broken and (not configs or len(broken) == len(profiles)):
        raise typer.Exit(1)


def _launches(
    references: Sequence[str], settings: Sequence[str], args: str | None, grid: str | None
) -> tuple[list[Launch], list[str]]:
    """Return the launches asked for, in order, and the names of the parameters that have several values."""
    from tilewright.launch import (
        describe_launch,
        described_parameters,
        find_kernel,
        load_case,
        parse_args,
        read_settings,
    )

    launches: list[Launch] = []
    for reference in references:
        if args is None:
            if grid is not None:
                raise LaunchError("--grid goes with --args; a case states its own grid")
            case = load_case(_case_or_complain(reference))
            chosen = read_settings(case.case.parameters(), settings)
            launches += [case.launch(values) for values in chosen]
        else:
            if grid is None:
                raise LaunchError("--args needs --grid too, for example --grid 32,8")
            _complain_of_case(reference)
            kernel, described = find_kernel(reference), parse_args(args)
            chosen = read_settings(described_parameters(kernel, described), settings)
            launches += [describe_launch(kernel, described, grid, values) for values in chosen]
    varied = [s.partition("=")[0].strip() for s in settings if "," in s]
    return launches, varied


def _file_of(reference: str) -> Path:
    """The file of FILE.py:NAME, or of FILE.py alone."""
    return Path(reference.rpartition(":")[0] or reference)


def _complain_of_case(reference: str) -> None:
    """Say what to do when a case is named where a kernel is expected."""
    from tilewright.launch import is_case_file

    file = _file_of(reference)
    if file.is_file() and is_case_file(file):
        raise CaseError(
            f"{reference} is a case, which states its own arguments and grid: leave out --args and --grid"
        )


def _case_or_complain(reference: str) -> str:
    """Say what to do when a kernel, or a file of kernels, is named where a case is expected."""
    from tilewright.launch import find_kernel, is_case_file

    file = _file_of(reference)
    if file.is_file() and not is_case_file(file):
        # A file alone is asked for a kernel without a name, which lists those that it has.
        kernel = find_kernel(reference if ":" in reference else f"{reference}:_")
        raise CaseError(
            f"{reference} is a kernel, not a case: describe its arguments, for example "
            f"--args '{_example_args(kernel.parameters)}' --grid 32"
        )
    return reference


def _example_args(parameters: Sequence[Any]) -> str:
    def value(p: Any) -> str:
        if p.is_constexpr:
            return "constexpr 128"
        name = p.name.lower()
        is_tensor = "ptr" in name or (len(name) == 1 and name not in "nmkd")
        return "fp32[4096]" if is_tensor else "4096"

    return ", ".join(f"{p.name}: {value(p)}" for p in parameters if not p.has_default)


def _print(
    file: IO[str], profiles: Sequence[Profile], varied: Sequence[str], configs: bool, as_json: bool
) -> None:
    if as_json:
        dicts = [p.to_dict() for p in profiles]
        json.dump(dicts[0] if len(dicts) == 1 else dicts, file, indent=2)
        file.write("\n")
        return
    from tilewright.report import Page, print_configs, print_profile, print_side_by_side

    page = Page(file)
    if configs:
        print_configs(page, profiles, varied)
    elif len(profiles) == 1:
        print_profile(page, profiles[0])
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


class _Progress:
    """A progress bar on stderr when a batch of compiles takes a while and a person is watching."""

    def __init__(self, total: int) -> None:
        self._wanted = total > 2 and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _Progress:
        if self._wanted:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("compiling")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
