"""`tilewright walkthrough`: seven algorithms step by step, with the reader's own numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.errors import TilewrightError
from tilewright.files import write_whole

EXAMPLE = "Example: tilewright walkthrough online-softmax --set x=3,1,4,1,5 --set tile=2"


def walkthrough(
    name: Annotated[str | None, typer.Argument(help="Which; without it they are listed.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A value: x=1,2,3 or W='[[1, 0], [0, 1]]'; repeatable."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A TOML or JSON file of values; --set goes before it.")
    ] = None,
    values: Annotated[bool, typer.Option("--values", help="List the values that it takes.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write one page, to open in a browser.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine, where its numbers can be changed.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of --serve. [default: a free one]")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (see: tilewright schema trace).")] = False,
) -> None:
    """Work an algorithm through, step by step, with the published numbers or your own."""
    from tilewright.byhand import WALKTHROUGHS, find
    from tilewright.byhand.show import print_list, print_parameters, print_trace
    from tilewright.byhand.values import read_file, read_settings
    from tilewright.report.page import Page

    page = Page(sys.stdout)
    if name is None:
        if as_json:
            listed = [{"name": w.name, "title": w.title, "about": w.about} for w in WALKTHROUGHS.values()]
            _dump({"schema": "tilewright.walkthroughs/1", "walkthroughs": listed})
        else:
            print_list(page, list(WALKTHROUGHS.values()))
        return
    one = find(name)
    if sum((values, html is not None, serve, as_json)) > 1:
        raise TilewrightError("expected one of --values, --html, --serve and --json")
    if values:
        print_parameters(page, one)
        return
    given: dict[str, Any] = {**(read_file(file) if file else {}), **read_settings(one, setting or [])}
    if html is not None:
        from tilewright.byhand.page import html_page

        written = html_page(one, given).encode()
        write_whole(html, written)
        print(f"{html}  {len(written) / 1e3:,.0f} kB")
    elif serve:
        _serve(one, given, port)
    elif as_json:
        _dump(one.run(given).to_dict())
    else:
        print_trace(page, one.run(given))


def _serve(one: Any, given: dict[str, Any], port: int) -> None:
    from tilewright.byhand.serve import make_server

    one.run(given)  # Bad values end here, before anything listens.
    try:
        server = make_server(one, given, port)
    except OSError as e:
        raise TilewrightError(f"port {port} of 127.0.0.1 cannot be had ({e.strerror}); another: --port") from None
    with server:
        print(f"http://127.0.0.1:{server.server_port}/  (ends with Ctrl-C)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _dump(data: Any) -> None:
    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")
