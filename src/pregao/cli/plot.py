"""``pregao plot``: charts of a lake."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.plot.style import Chart

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao plot heatmap PETR4 --lake lake -o book.png",
        "pregao plot depth PETR4 --lake lake --at 2026-05-21T13:00:00 -o depth.svg",
        "pregao plot bars PETR4 --lake lake --interval 1m -o bars.png",
        "pregao plot latency --lake lake -o latency.png",
        "Times are read and shown in UTC, or in the zone of --tz. Requires matplotlib: "
        "pip install 'pregao[plot]'.",
    )
)
ENDINGS = (".png", ".svg", ".pdf")


class ChartKind(StrEnum):
    """Kinds of charts."""

    HEATMAP = "heatmap"
    DEPTH = "depth"
    TAPE = "tape"
    BARS = "bars"
    LATENCY = "latency"
    GAPS = "gaps"

    @property
    def of_all(self) -> bool:
        """Whether the chart covers all instruments."""
        return self in (ChartKind.LATENCY, ChartKind.GAPS)


def plot(
    kind: Annotated[ChartKind, typer.Argument(help="Kind of chart.")],
    lake: options.Lake,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Output file: .png, .svg or .pdf."),
    ],
    symbol: Annotated[
        str | None,
        typer.Argument(metavar="[SYMBOL]", help="Instrument; none for latency and gaps."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="For depth: time (default: end of the day).")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start of the chart, inclusive.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the chart, exclusive.")
    ] = None,
    day: Annotated[
        str | None,
        typer.Option("--date", metavar="DATE", help="Date, if the lake has several."),
    ] = None,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="For bars: length, e.g. 1s, 1m or 5m.")
    ] = "1m",
    measure: Annotated[
        str,
        typer.Option(metavar="NAME", help="For latency: network, network_raw, engine or feeds."),
    ] = "network",
    tz: options.Zone = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
) -> None:
    """Draw a chart of a lake: book heatmap, depth, trades, bars, latencies or gaps.

    The file extension determines the format.
    """
    from pregao import extras
    from pregao.cli import option_values
    from pregao.cli.config import configuration
    from pregao.safe_io.output_files import NewFiles

    if output.suffix.lower() not in ENDINGS:
        raise UsageError(f"{output}: the file name must end in {', '.join(ENDINGS)}.")
    if kind.of_all == (symbol is not None):
        wrong = "covers all instruments: omit SYMBOL" if kind.of_all else "requires a SYMBOL"
        raise UsageError(f"`plot {kind}` {wrong}.")
    if at is not None and kind is not ChartKind.DEPTH:
        raise UsageError(f"--at is for `plot depth`; use --since and --until with `plot {kind}`.")
    extras.require("matplotlib")
    files = NewFiles(force=force)
    files.check(output)
    zone = tz or configuration().tz or "UTC"
    days = option_values.days([day]) if day else [None]
    times = (
        option_values.moment(at, "--at", zone),
        option_values.moment(since, "--since", zone),
        option_values.moment(until, "--until", zone),
    )
    chart = _drawn(kind, lake, symbol or "", times, days[0], interval, measure, zone)
    with files:
        chart.savefig(files.create(output), format=output.suffix[1:].lower(), dpi=150)
    typer.echo(f"pregao: {output}", err=True)


def _drawn(
    kind: ChartKind,
    path: str,
    symbol: str,
    moments: tuple[int | None, int | None, int | None],
    day: date | None,
    interval: str,
    measure: str,
    zone: str,
) -> Chart:
    from pregao import plot
    from pregao.api.lake import Lake

    lake = Lake(path)
    at, since, until = moments
    match kind:
        case ChartKind.DEPTH:
            return plot.depth(lake, symbol, at, tz=zone, day=day)
        case ChartKind.HEATMAP:
            return plot.heatmap(lake, symbol, since, until, tz=zone, day=day)
        case ChartKind.TAPE:
            return plot.tape(lake, symbol, since, until, tz=zone, day=day)
        case ChartKind.BARS:
            return plot.bars(lake, symbol, interval, since, until, tz=zone, day=day)
        case ChartKind.LATENCY:
            return plot.latency(lake, measure, since, until, tz=zone, day=day)
        case ChartKind.GAPS:
            return plot.gaps(lake, since, until, tz=zone, day=day)
