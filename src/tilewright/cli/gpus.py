"""``tilewright gpus``: which GPUs the workbench knows, and one GPU's figures with where each comes from."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.gpus import Gpu

WIDTH = 100

app = typer.Typer(help="List the GPUs that are known, or show all figures of one.", add_completion=False)

_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

# A figure's unit, from the end of its name; the first that fits counts.
_UNITS = (
    ("_ops_per_clock_per_sm", "operations / clock / SM"),
    ("_bytes_per_clock_per_sm", "B / clock / SM"),
    ("_lanes_per_clock_per_sm", "lanes / clock / SM"),
    ("_slots_per_clock_per_sm", "instructions / clock / SM"),
    ("_per_clock_per_sm", "results / clock / SM"),
    ("register_unit_per_warp", "32-bit registers"),
    ("registers_per_sm", "32-bit registers"),
    ("registers_per_thread", "32-bit registers"),
    ("bytes_per_sm", "B"),
    ("bytes_per_block", "B"),
    ("_bytes", "B"),
    ("_gbps", "GB/s"),
    ("_ghz", "GHz"),
    ("warp_size", "threads"),
)
_TABLES = ("target", "compute", "limits", "memory", "clocks")
_KEYED_TABLES = {
    "tensor_ops_per_clock_per_sm": "operations / clock / SM",
    "tensor_sync_ops_per_clock_per_sm": "operations / clock / SM",
    "published_tflops": "TFLOP/s",
}


@app.callback(
    invoke_without_command=True,
    epilog="Example: tilewright gpus show rtx-4070-super",
)
def list_gpus(context: typer.Context, as_json: _AsJson = False) -> None:
    """List the GPUs that are known, or show all figures of one."""
    if context.invoked_subcommand is not None:
        return
    from tilewright.gpus import catalog

    gpus = catalog()
    if as_json:
        _print_json({"schema": "tilewright.gpus/1", "gpus": [_row(gpu) for gpu in gpus]})
        return
    _print_table(gpus)


@app.command(
    epilog="Examples: tilewright gpus show h100, tilewright gpus show sm_89, tilewright gpus show ./mine.toml"
)
def show(
    name: Annotated[
        str, typer.Argument(help="A name, an alias, an architecture, or a path to a .toml file.")
    ],
    as_json: _AsJson = False,
) -> None:
    """Show all figures of one GPU, with units and sources."""
    from tilewright.gpus import GpuError, load

    try:
        gpu = load(name)
    except GpuError as error:
        typer.echo(f"error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        _print_json(gpu.to_dict())
    else:
        _print_gpu(gpu)


def _row(gpu: Gpu) -> dict[str, Any]:
    return {
        "slug": gpu.slug,
        "name": gpu.name,
        "chip": gpu.chip,
        "arch": gpu.arch,
        "sms": gpu.compute.sms,
        "shared_bytes_per_sm": gpu.limits.shared_bytes_per_sm,
        "dram_bytes": gpu.memory.dram_bytes,
        "dram_gbps": gpu.memory.dram_gbps,
        "bf16_peak_tflops": gpu.peak_tflops("bf16_fp32acc"),
    }


def _print_json(data: dict[str, Any]) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _console() -> Console:
    from rich.console import Console

    # Rich honours NO_COLOR for colours only; without a colour system bold goes too, and the output is plain.
    color_system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(width=WIDTH, highlight=False, color_system=color_system)


def _print_table(gpus: list[Gpu]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("chip", no_wrap=True)
    table.add_column("arch", no_wrap=True)
    for heading in ("SMs", "shared/SM", "DRAM", "GB/s", "bf16 TFLOP/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for gpu in gpus:
        peak = gpu.peak_tflops("bf16_fp32acc")
        table.add_row(
            gpu.slug,
            gpu.chip,
            gpu.arch,
            str(gpu.compute.sms),
            f"{gpu.limits.shared_bytes_per_sm // 1024} KiB",
            f"{gpu.memory.dram_bytes / 2**30:.0f} GiB",
            f"{gpu.memory.dram_gbps:,.0f}",
            "unknown" if peak is None else f"{peak:,.1f}",
        )
    console = _console()
    console.print(table)
    console.print()
    console.print(
        "bf16: dense, fp32 accumulation, the vendor's clock. All figures: tilewright gpus show NAME"
    )


def _print_gpu(gpu: Gpu) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = _console()
    console.print(Text(f"{gpu.name}  ({gpu.slug}: {gpu.chip}, {gpu.arch})", style="bold"))
    for note in gpu.notes:
        console.print(Text(note))
    numbers = {source: number for number, source in enumerate(dict.fromkeys(gpu.sources.values()), start=1)}
    data = gpu.to_dict()
    for table_name in (*_TABLES, *_KEYED_TABLES):
        if not data[table_name]:
            continue
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        for figure, value in data[table_name].items():
            key = f"{table_name}.{figure}"
            if value is None:
                table.add_row(figure, "unknown" if key in gpu.unknown else "none")
                continue
            unit = _KEYED_TABLES.get(table_name) or _unit(figure)
            table.add_row(figure, _number(value), unit, Text(f"[{numbers[gpu.sources[key]]}]"))
        console.print()
        console.print(Text(table_name, style="bold"))
        console.print(Padding(table, (0, 0, 0, 2)))
    if gpu.unknown:
        _print_paragraphs(console, "unknown, and why", [f"{key}: {why}" for key, why in gpu.unknown.items()])
    _print_paragraphs(console, "sources", [f"[{number}] {source}" for source, number in numbers.items()])


def _print_paragraphs(console: Console, heading: str, paragraphs: list[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print()
    console.print(Text(heading, style="bold"))
    for paragraph in paragraphs:
        console.print(Padding(Text(paragraph), (0, 0, 0, 2)))


def _unit(figure: str) -> str:
    return next((unit for end, unit in _UNITS if figure.endswith(end)), "")


def _number(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.10g}"
    return str(value)
