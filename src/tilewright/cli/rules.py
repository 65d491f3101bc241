"""`tilewright rules`: what `explain` looks for."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List what `explain` looks for, and explain one rule.",
    no_args_is_help=False,
    epilog="Example: tilewright rules show exp-not-exp2",
)


@app.callback(invoke_without_command=True)
def rules(
    context: typer.Context,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON, schema `tilewright schema rules`.")
    ] = False,
) -> None:
    """List the rules."""
    if context.invoked_subcommand is not None:
        return
    from tilewright.report import Page
    from tilewright.report.findings import print_rules
    from tilewright.rules import RULES

    if as_json:
        _dump({"schema": "tilewright.rules/1", "rules": [rule.to_dict() for rule in RULES]})
        return
    print_rules(Page(sys.stdout), RULES)


@app.command(epilog="Example: tilewright rules show exp-not-exp2")
def show(
    rule: Annotated[str, typer.Argument(help="A rule's id, as `tilewright rules` lists them.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON, schema `tilewright schema rules`.")
    ] = False,
) -> None:
    """Explain one rule: why, from which figure on, by which source, an example before and after."""
    from tilewright.errors import TilewrightError, did_you_mean
    from tilewright.report import Page
    from tilewright.report.findings import print_rule
    from tilewright.rules import RULES

    known = {r.id: r for r in RULES}
    if rule not in known:
        raise TilewrightError(f"no rule {rule!r}{did_you_mean(rule, known)}; `tilewright rules` lists them")
    if as_json:
        _dump({"schema": "tilewright.rules/1", "rules": [known[rule].to_dict()]})
        return
    print_rule(Page(sys.stdout), known[rule])


def _dump(data: Any) -> None:
    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")
