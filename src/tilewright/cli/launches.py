"""From the words of the command line to launches: cases, kernels that are described, and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.options import DEFAULT_GPU
from tilewright.errors import CaseError, LaunchError

if TYPE_CHECKING:
    from tilewright.cli.captures import Wanted
    from tilewright.gpus import Gpu
    from tilewright.launch import Capture, Launch


@dataclass(frozen=True)
class Asked:
    """What a command line asks for: launches with their GPUs, how often each is made, what differs between them.

    `counts` is None where no program made them; `captures` are the runs of programs that did.
    """

    pairs: list[tuple[Launch, Gpu]]
    counts: list[int] | None
    varied: list[str]
    captures: list[Capture]


def read_asked(
    references: Sequence[str],
    gpus: Sequence[str],
    settings: Sequence[str],
    args: str | None,
    grid: str | None,
    wanted: Wanted,
) -> Asked:
    """Return what is asked for: of cases and described kernels on each GPU, and of programs and capture files."""
    from tilewright.cli.captures import complain_of_settings, is_program, read_program, tell_of_captures
    from tilewright.gpus import load

    pairs: list[tuple[Launch, Gpu]] = []
    counts: list[int] = []
    captures: list[Capture] = []
    varied: list[str] = []
    for reference in references:
        if args is None and is_program(reference):
            complain_of_settings(reference, settings, args, grid)
            found, made = read_program(reference, gpus, wanted)
            tell_of_captures(made)
            captures += made
            pairs += [(f.launch, f.gpu) for f in found]
            counts += [f.count for f in found]
        else:
            launches, varied = read_launches([reference], settings, args, grid)
            named = [x for x in launches if not wanted.pattern or wanted.pattern in (x.case or x.kernel.name)]
            pairs += [(launch, load(name)) for launch in named for name in gpus or [DEFAULT_GPU]]
    if not pairs:
        raise LaunchError(f"none of the launches is named like {wanted.pattern!r}")
    return Asked(pairs, counts if len(counts) == len(pairs) else None, varied, captures)


def read_launches(
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


def read_compared(
    text: str, reference: str, settings: Sequence[str], args: str | None, grid: str | None
) -> list[Launch]:
    """Return the launch that `CASE2[,NAME=VALUE...]` names: settings apply to it too, its own override them.

    Without a case (`NAME=VALUE[,NAME=VALUE...]`) it is `reference` set otherwise.
    """
    first, *own = text.split(",")
    if "=" in first and not _file_of(first).is_file():
        first, own = reference, [first, *own]
    if any("=" not in setting for setting in own):
        raise CaseError(f"expected --compare CASE2[,NAME=VALUE...], found {text!r}")
    overridden = {setting.partition("=")[0].strip() for setting in own}
    kept = [s for s in settings if s.partition("=")[0].strip() not in overridden]
    launches, _ = read_launches([first], [*kept, *own], args, grid)
    return launches


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
