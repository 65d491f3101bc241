"""`tilewright`: the command line. Thin: it reads the words, calls a room, prints. Exit codes 0 ok, 1 the check
failed, 2 bad usage or input."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

import tilewright
from tilewright.cli import cache, capture, check, doctor, explain, gpus, lint, report, rules, walkthrough

app = typer.Typer(
    name="tilewright",
    help="See why a Triton kernel is slow, fix it, and prove it: with or without the GPU.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("capture", epilog=capture.EXAMPLE, context_settings=capture.SETTINGS)(capture.capture)
app.command("report", epilog=report.EXAMPLE)(report.report)
app.command("plot", epilog=report.PLOT_EXAMPLE)(report.plot)
app.add_typer(gpus.app, name="gpus")
app.add_typer(rules.app, name="rules")
app.command("check", epilog=check.EXAMPLE)(check.check)
app.command("lint", epilog=lint.EXAMPLE)(lint.lint)
app.command("walkthrough", epilog=walkthrough.EXAMPLE)(walkthrough.walkthrough)
app.command("doctor", epilog="Example: tilewright doctor")(doctor.doctor)
app.command("cache", epilog="Example: tilewright cache --clear")(cache.cache)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(tilewright.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """See why a Triton kernel is slow, fix it, and prove it: with or without the GPU."""


@app.command("schema", epilog="Example: tilewright schema profile")
def schema(
    name: Annotated[str, typer.Argument(help="As each command's help names it; 'profile' is explain's.")],
) -> None:
    """Print the JSON Schema of a command's --json output."""
    from tilewright.errors import TilewrightError
    from tilewright.report.schema import schema as find
    from tilewright.report.schema import schema_names

    try:
        print(json.dumps(find(name), indent=2))
    except KeyError:
        raise TilewrightError(f"no schema {name!r}; there are: {', '.join(schema_names())}") from None


def main() -> None:
    """Run the command line; bad input ends with one clear line and exit code 2."""
    from tilewright.errors import TilewrightError

    try:
        app()
    except TilewrightError as e:
        print(f"tilewright: {e}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as e:
        print(f"tilewright: {e.filename or 'the output'}: {e.strerror or e}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
