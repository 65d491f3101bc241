"""`tilewright check`: budgets for kernels, on a machine without their GPU; exit code 1 when one does not hold."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Jobs
from tilewright.errors import TilewrightError
from tilewright.files import write_whole

if TYPE_CHECKING:
    from tilewright.check import Baseline, Config, Entry, Verdict
    from tilewright.launch import Launch
    from tilewright.model import Profile

EXAMPLE = "Example: tilewright check --config cases/flash_attention/tilewright-check.toml"
FORMATS = ("text", "json", "sarif")


def check(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="A file of budgets. [default: the nearest, see docs/check.md]"),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("-k", metavar="TEXT", help="Only kernels whose case or GPU holds this text.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Record the figures as the new baseline.")] = False,
    form: Annotated[str, typer.Option("--format", help="text, json or sarif.")] = "text",
    as_json: Annotated[
        bool, typer.Option("--json", help="As --format json (see: tilewright schema check).")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    github: Annotated[
        bool | None,
        typer.Option("--github/--no-github", help="Annotate lines on GitHub. [default: in its Actions]"),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Check kernels against budgets: registers, spills, instructions, bytes, occupancy, which GPUs they fit on.

    Exit code 1 when a budget does not hold.
    """
    from tilewright.check import find_config, read_baseline, read_config

    form = "json" if as_json else form
    if form not in FORMATS:
        raise TilewrightError(f"--format must be one of {', '.join(FORMATS)}, found {form!r}")
    read = read_config(config or find_config(Path.cwd()))
    pairs = [(e, g) for e in read.entries for g in e.gpus if pattern is None or pattern in f"{e.name} on {g}"]
    if not pairs:
        raise TilewrightError(f"no kernel of {read.path} holds {pattern!r}")
    baseline = read_baseline(read.baseline)
    profiles, verdicts = _verdicts(read, pairs, baseline, jobs)
    if update:
        _update(read, pairs, baseline, profiles, verdicts)
        return
    text = _text(verdicts, form)
    if output is None:
        sys.stdout.write(text)
    else:
        write_whole(output, text.encode())
        from tilewright.report.verdicts import summary

        print(f"{output}: {summary(verdicts)}")
    if github or (github is None and os.environ.get("GITHUB_ACTIONS") == "true" and form == "text"):
        from tilewright.report.verdicts import github_annotations

        for line in github_annotations(verdicts):
            print(line)
    if not all(v.ok for v in verdicts):
        raise typer.Exit(1)


def _verdicts(
    read: Config, pairs: Sequence[tuple[Entry, str]], baseline: Baseline, jobs: int | None
) -> tuple[list[Profile], list[Verdict]]:
    """Compile and count every kernel on its GPUs, compile it for those it has to fit on, and judge."""
    from tilewright.check import judge
    from tilewright.check.figures import figures_of
    from tilewright.cli.counting import read_assumed
    from tilewright.cli.explain import compile_and_count
    from tilewright.compile import Compiler
    from tilewright.gpus import load

    launches = [_launch(read, entry) for entry, _ in pairs]
    given = [read_assumed(entry.assume) for entry, _ in pairs]
    profiles: list[Profile] = []
    with Compiler(workers=jobs) as compiler:
        # Given values belong to one entry, so entries that have some are counted on their own.
        plain = [n for n, g in enumerate(given) if not g]
        found = dict(
            zip(plain, compile_and_count(compiler, [(launches[n], load(pairs[n][1])) for n in plain], True, (), jobs),
                strict=True)
        )  # fmt: skip
        for n, values in enumerate(given):
            if values:
                found[n] = compile_and_count(
                    compiler, [(launches[n], load(pairs[n][1]))], True, values, jobs
                )[0]
        profiles = [found[n] for n in range(len(pairs))]
        wanted = [(n, name) for n, (entry, _) in enumerate(pairs) for name in entry.fits]
        fits = compile_and_count(compiler, [(launches[n], load(name)) for n, name in wanted], False, (), jobs)
    fitting: list[dict[str, Profile]] = [{} for _ in pairs]
    for (n, name), p in zip(wanted, fits, strict=True):
        fitting[n][name] = p
    verdicts = [
        judge(entry, gpu, p, baseline, fitting[n], figures_of(p) if p.fits else {})
        for n, ((entry, gpu), p) in enumerate(zip(pairs, profiles, strict=True))
    ]
    return profiles, verdicts


def _launch(read: Config, entry: Entry) -> Launch:
    """Return an entry's launch; its file is looked for beside the file of budgets."""
    from tilewright.cli.captures import Wanted
    from tilewright.cli.launches import read_asked

    file, colon, name = entry.case.rpartition(":")
    beside = read.path.parent / file
    reference = f"{beside}{colon}{name}" if file and beside.is_file() else entry.case
    try:
        asked = read_asked([reference], [], entry.settings, entry.args, entry.grid, Wanted())
    except TilewrightError as e:
        raise TilewrightError(f"{read.path}, {entry.case}: {e}") from None
    if len(asked.pairs) != 1:
        labels = ", ".join((launch.case or "").rpartition(":")[2] for launch, _ in asked.pairs[:6])
        of = f": name one of {labels}" if asked.captures else ""
        raise TilewrightError(
            f"{read.path}, {entry.case}: expected one launch, found {len(asked.pairs)}{of}"
        )
    return asked.pairs[0][0]


def _update(
    read: Config,
    pairs: Sequence[tuple[Entry, str]],
    baseline: Baseline,
    profiles: Sequence[Profile],
    verdicts: Sequence[Verdict],
) -> None:
    """Record the figures of what compiles; exit with 1 where something does not."""
    from tilewright.report.page import Page
    from tilewright.report.verdicts import print_updated

    keys = [(entry.name, gpu) for entry, gpu in pairs]
    bad = [key for key, p in zip(keys, profiles, strict=True) if not p.fits]
    before = [dict(baseline.recorded[key].figures) if key in baseline.recorded else {} for key in keys]
    kept = {key: p for key, p in zip(keys, profiles, strict=True) if p.fits}
    baseline.with_profiles(kept).write(read.baseline)
    print_updated(Page(sys.stdout), verdicts, before, str(read.baseline))
    for name, gpu in bad:
        print(f"tilewright: {name} on {gpu} does not compile or fit: it is not recorded", file=sys.stderr)
    if bad:
        raise typer.Exit(1)


def _text(verdicts: Sequence[Verdict], form: str) -> str:
    import io

    from tilewright.report.page import Page
    from tilewright.report.sarif import sarif_log
    from tilewright.report.verdicts import print_verdicts, sarif_of

    if form == "sarif":
        return json.dumps(sarif_log(*sarif_of(verdicts)), indent=2) + "\n"
    if form == "json":
        data = {
            "schema": "tilewright.check/1",
            "ok": all(v.ok for v in verdicts),
            "launches": [v.to_dict() for v in verdicts],
        }
        return json.dumps(data, indent=2) + "\n"
    written = io.StringIO()
    print_verdicts(Page(written), verdicts)
    return written.getvalue()
