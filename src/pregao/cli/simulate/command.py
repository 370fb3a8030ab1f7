"""``pregao simulate``: write captures of a simulated trading day, with their ground truth."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.errors import UsageError
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import (
    SCHEMA_VERSIONS,
    TRADE_DATE,
    Compression,
    LegacyDepth,
    SimulationSettings,
    parse_moment,
    parse_reset,
)
from pregao.units import parse_day, parse_duration

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.exchange.simulation.simulation import OnProgress, SimulationSummary

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao simulate --profile equities --seed 1 --instruments 40 --duration 30m --output day",
        "pregao simulate --profile stress --messages 10000000 --duration 1h --output large",
        "pregao simulate --like lake --output like --save-profile like.toml",
        "pregao simulate --loss A=0.01,B=0.02 --reorder 0.001 --late-join 0.5 --output faulty",
        "The schedule (opening auction, trading, closing call, after-market) is compressed into "
        "the duration; hours without trading pass quickly, and auctions get a larger share. Faults "
        "do not affect heartbeats, and are counted in truth/faults.json.",
    )
)


_FIRST_DAY, _LAST_DAY = date(1970, 1, 2), date(2106, 2, 5)


def simulate(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder of the captures and truth/."),
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile: equities, derivatives, stress, thin-derivatives, or the path of a TOML "
            "file (default: equities, or that fitted by --like)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal bytes.")] = 1,
    instruments: Annotated[
        int | None,
        typer.Option(help="Number of instruments (default: 40, or all of --instruments-file)."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Duration of the day, e.g. 1h30m or 45s (default: 30m, or that of --like).",
        ),
    ] = None,
    schema_version: Annotated[
        int | None,
        typer.Option(
            metavar="VERSION",
            help=f"Schema version of the feed: {', '.join(map(str, SCHEMA_VERSIONS))} (default: "
            "16, or that of --like).",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Mean orders per second (default: the profile's).")
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of incremental messages; without --rate, they fill the duration."
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="Share of packets lost: 0.01 for both feeds, or A=0.01,B=0.02; snapshot= and "
            "definition= for the loops."
        ),
    ] = None,
    reorder: Annotated[
        str | None, typer.Option(help="Share of packets out of order, as with --loss.")
    ] = None,
    duplicate: Annotated[
        str | None, typer.Option(help="Share of packets delivered twice, as with --loss.")
    ] = None,
    late_join: Annotated[
        str | None,
        typer.Option(help="Start of the captures: a share of the run (0.5) or a time (10:05:30)."),
    ] = None,
    reset_at: Annotated[
        list[str] | None,
        typer.Option(
            help="Reset every channel at a share of the run or a time; 'sequence@0.5' also starts "
            "a new sequence version. Repeatable."
        ),
    ] = None,
    day: Annotated[
        str | None,
        typer.Option(
            "--date",
            metavar="DATE",
            help=f"Trading day to simulate (default: {TRADE_DATE}); with --like, the day of the "
            "lake.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="LAKE",
            help="Fit the profile to a day of this lake (default: the last; see --date), and "
            "compare both order flows.",
        ),
    ] = None,
    channel: Annotated[
        int | None,
        typer.Option(help="With --like: channel to fit to (default: the busiest)."),
    ] = None,
    save_profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --like: write the fitted profile to this TOML file."
        ),
    ] = None,
    instruments_file: Annotated[
        Path | None, typer.Option(help="Instrument catalog, TOML or JSON.")
    ] = None,
    schedule_file: Annotated[
        Path | None, typer.Option(help="Schedule of the groups' trading phases, TOML or JSON.")
    ] = None,
    truth_books: Annotated[
        int, typer.Option(help="Number of times at which truth/ has books, including the end.")
    ] = 10,
    compress: Annotated[
        Compression, typer.Option(help="Compression of the captures.")
    ] = Compression.NONE,
    legacy: Annotated[
        LegacyDepth | None,
        typer.Option(
            help="Also publish a legacy feed (UMDF FIX/FAST): books of all orders, of 5 price "
            "levels, or of the best level."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Overwrite the files of an earlier run in the folder."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Simulate a trading day and write its captures, with the expected books and trades.

    Writes one file per channel, stream and feed (e.g. 051_Incremental_A.pcap), and a folder truth/
    with books.jsonl, trades.jsonl, faults.json and summary.json. Equal arguments give equal bytes.
    """
    if like is None and (channel is not None or save_profile is not None):
        option = "--channel" if channel is not None else "--save-profile"
        raise UsageError(f"{option} requires --like LAKE.")
    if like is not None and profile is not None:
        raise UsageError("--like fits its own profile: omit --profile.")
    settings = SimulationSettings(
        profile="equities" if profile is None else profile,
        out=output,
        seed=seed,
        instruments=instruments,
        duration_ns=parse_duration("30m" if duration is None else duration, "--duration"),
        schema_version=16 if schema_version is None else schema_version,
        trade_date=TRADE_DATE if day is None else _date(day),
        rate=rate,
        messages=messages,
        faults=fault_rates(
            parse_rates("--loss", loss),
            parse_rates("--reorder", reorder),
            parse_rates("--duplicate", duplicate),
        ),
        late_join=None if late_join is None else parse_moment("--late-join", late_join),
        resets=tuple(parse_reset(text) for text in reset_at or ()),
        instruments_file=instruments_file,
        schedule_file=schedule_file,
        compression=compress,
        truth_books=truth_books,
        force=force,
        legacy=legacy,
    )
    if like is None:
        _simulate(settings, quiet)
    else:
        date_ = None if day is None else settings.trade_date
        own_duration = duration is not None
        _simulate_like(
            like, date_, channel, settings, save_profile, quiet, schema_version, own_duration
        )


def _simulate(settings: SimulationSettings, quiet: bool) -> None:
    """Run a simulation and print its summary."""
    from pregao.exchange.simulation.simulation import Simulation

    simulation = Simulation(settings)
    if quiet:
        simulation.run()
        return
    # Imported late: rich takes 0.1 s to import, which --help should not pay.
    from pregao.cli.console import console as shown_on

    console = shown_on(sys.stderr)
    started = monotonic()
    with ExitStack() as shown:
        summary = simulation.run(_bar(console, shown) if console.is_terminal else None)
    _show(console, summary, settings.out, monotonic() - started)


def _simulate_like(
    lake: str,
    day: date | None,
    channel: int | None,
    settings: SimulationSettings,
    save: Path | None,
    quiet: bool,
    version: int | None,
    own_duration: bool,
) -> None:
    """Fit a profile to a day of a lake, simulate with it, and compare both order flows."""
    from tempfile import TemporaryDirectory

    from pregao.cli.console import console as shown_on
    from pregao.cli.console import print_line
    from pregao.cli.simulate import like
    from pregao.exchange.simulation.captures import prepare_folder

    console = shown_on(sys.stderr)

    def print_round(number: int, away: float) -> None:
        if not quiet:
            print_line(console, f"round {number}: all numbers within a factor of {away:.2f}")

    real = like.real_flow(lake, day, channel)
    settings = like.like_settings(real, settings, version)
    if not own_duration:
        settings = replace(settings, duration_ns=like.like_duration(real))
    # Check the folder before the fit, which takes a while.
    prepare_folder(settings.out, settings.force)
    settings = replace(settings, force=True)
    fitted = like.fit(real, settings, print_round)
    with like.fitted_profile(fitted, save) as path, TemporaryDirectory() as folder:
        _simulate(replace(settings, profile=str(path)), quiet)
        if not quiet:
            simulated = like.measured(settings.out, Path(folder) / "lake")
            like.show(shown_on(sys.stdout), real, simulated)


def _bar(console: Console, shown: ExitStack) -> OnProgress:
    """Return a progress callback that updates a bar."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    bar = shown.enter_context(
        Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[messages]:,} messages"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
    )
    task = bar.add_task("Simulating", total=1.0, messages=0)

    def progress(done: float, messages: int) -> None:
        bar.update(task, completed=done, messages=messages)

    return progress


def _date(text: str) -> date:
    day = parse_day(text, "--date")
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise UsageError(
            f"--date must be from {_FIRST_DAY} to {_LAST_DAY} (captures have 32-bit seconds), "
            f"was {day}."
        )
    return day


def _show(out: Console, summary: SimulationSummary, folder: Path, seconds: float) -> None:
    """Print the summary of a run."""
    from pregao.cli.console import print_line, print_table

    data = summary.data
    rows = [
        (number, name, file["packets"], file["payload_bytes"])
        for number, channel in data["channels"].items()
        for name, file in channel["files"].items()
    ]
    title = f"{data['settings']['profile']}, seed {data['settings']['seed']}"
    columns = ("channel", "file", "packets", "bytes")
    print_table(out, title, columns, rows, numbers="packets bytes", framed=True)
    print_line(
        out,
        f"{summary.messages:,} messages from {summary.orders:,} requests, {summary.trades:,} "
        f"trades, in {seconds:.1f} s ({summary.messages / max(seconds, 1e-9):,.0f} messages/s): "
        f"{folder}",
    )
