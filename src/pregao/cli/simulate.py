"""``pregao simulate``: write the captures of a synthetic trading day, and the truth about them."""

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
from pregao.exchange.simulation import (
    SCHEMA_VERSIONS,
    TRADE_DATE,
    Compression,
    LegacyDepth,
    Settings,
    fault_rates,
    parse_duration,
    parse_moment,
    parse_rates,
    parse_reset,
)

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.exchange.simulation import Progress, Summary

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao simulate --profile equities --seed 1 --instruments 40 --duration 30m --out day",
        "pregao simulate --profile stress --messages 10000000 --duration 1h --out large",
        "pregao simulate --like lake --out like --save-profile like.toml",
        "pregao simulate --loss A=0.01,B=0.02 --reorder 0.001 --late-join 0.5 --out faulty",
        "The hours of the schedule (opening auction, trading, closing call, after-market) are told "
        "within the duration; hours in which nothing can be traded pass quickly, and auctions are "
        "given more room. Faults spare heartbeats, and are counted in truth/faults.json.",
    )
)


_FIRST_DAY, _LAST_DAY = date(1970, 1, 2), date(2106, 2, 5)


def simulate(
    out: Annotated[
        Path,
        typer.Option("--out", "--output", "-o", help="Folder for the captures and their truth."),
    ],
    profile: Annotated[
        str,
        typer.Option(
            help="equities, derivatives, stress, thin-derivatives, or the path of a profile in "
            "TOML."
        ),
    ] = "equities",
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    instruments: Annotated[
        int | None,
        typer.Option(help="How many instruments: 40, or all of --instruments-file."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            help="Time that the whole day takes, such as 1h30m or 45s: 30m, or that of --like."
        ),
    ] = None,
    schema_version: Annotated[
        int | None,
        typer.Option(
            metavar="VERSION",
            help=f"Version of the feed: {', '.join(map(str, SCHEMA_VERSIONS))}; 16, or that of "
            "--like.",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Mean orders a second; by default the profile's.")
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option(
            help="End after so many incremental messages; without --rate they fill the duration."
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="Share of packets lost: 0.01 on both feeds, or A=0.01,B=0.02, "
            "and snapshot= or definition= for the loops."
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
        typer.Option(help="Captures begin here: a share of the run (0.5) or a time (10:05:30)."),
    ] = None,
    reset_at: Annotated[
        list[str] | None,
        typer.Option(
            help="Reset every channel at a share of the run or a time; 'sequence@0.5' begins a "
            "new sequence version too. May be given several times."
        ),
    ] = None,
    day: Annotated[
        str | None,
        typer.Option(
            "--date",
            metavar="DAY",
            help=f"The trading day that is simulated, {TRADE_DATE} unless given; with --like, "
            "the day of the lake.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="LAKE",
            help="Fit the profile to a day of this lake (the last, unless --date is given), and "
            "show both flows side by side.",
        ),
    ] = None,
    channel: Annotated[
        int | None,
        typer.Option(help="With --like: the channel to be like; the busiest unless given."),
    ] = None,
    save_profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --like: write the fitted profile here, as TOML."),
    ] = None,
    instruments_file: Annotated[
        Path | None, typer.Option(help="Catalogue of instruments, TOML or JSON.")
    ] = None,
    schedule_file: Annotated[
        Path | None, typer.Option(help="Schedule of the groups' phases, TOML or JSON.")
    ] = None,
    books: Annotated[
        int, typer.Option(help="How many times the books go to the truth, the end included.")
    ] = 10,
    compress: Annotated[
        Compression, typer.Option(help="Compression of the captures.")
    ] = Compression.NONE,
    legacy: Annotated[
        LegacyDepth | None,
        typer.Option(
            help="Publish the older feed UMDF FIX/FAST too: books of all orders, of 5 price "
            "levels, or of the best one."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Overwrite what an earlier run left in the folder."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no summary.")
    ] = False,
) -> None:
    """Simulate a trading day and write it as captures, with the books and trades it should give.

    One file per channel, stream and feed (051_Incremental_A.pcap and so on), and a folder truth/
    with books.jsonl, trades.jsonl, faults.json and summary.json. The same arguments give the same
    bytes.
    """
    if like is None and (channel is not None or save_profile is not None):
        option = "--channel" if channel is not None else "--save-profile"
        raise UsageError(f"{option} is for --like LAKE, which fits a profile to a day.")
    settings = Settings(
        profile=profile,
        out=out,
        seed=seed,
        instruments=instruments,
        duration_ns=parse_duration("30m" if duration is None else duration),
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
        books=books,
        force=force,
        legacy=legacy,
    )
    if like is None:
        _simulate(settings, quiet)
    else:
        wanted = None if day is None else settings.trade_date
        whole = duration is not None
        _simulate_like(like, wanted, channel, settings, save_profile, quiet, schema_version, whole)


def _simulate(settings: Settings, quiet: bool) -> None:
    """Run a simulation, and say what came of it."""
    from pregao.exchange.simulation import Simulation

    simulation = Simulation(settings)
    if quiet:
        simulation.run()
        return
    # Imported here: it costs a tenth of a second, which --help need not pay.
    from pregao.cli.terminal import console as shown_on

    console = shown_on(sys.stderr)
    began = monotonic()
    with ExitStack() as shown:
        summary = simulation.run(_bar(console, shown) if console.is_terminal else None)
    _show(console, summary, settings.out, monotonic() - began)


def _simulate_like(
    lake: str,
    day: date | None,
    channel: int | None,
    settings: Settings,
    save: Path | None,
    quiet: bool,
    version: int | None,
    own_duration: bool,
) -> None:
    """Fit a profile to a day of a lake, simulate with it, and show both flows."""
    from tempfile import TemporaryDirectory

    from pregao.cli import simulate_like
    from pregao.cli.terminal import console as shown_on
    from pregao.cli.terminal import say
    from pregao.exchange.simulation import prepare_folder

    if settings.profile != "equities":
        raise UsageError("--like makes a profile of its own: leave --profile out.")
    console = shown_on(sys.stderr)

    def tell(number: int, away: float) -> None:
        if not quiet:
            say(console, f"round {number}: all numbers within a factor of {away:.2f}")

    real = simulate_like.real_flow(lake, day, channel)
    settings = simulate_like.like_settings(real, settings, version)
    if not own_duration:
        settings = replace(settings, duration_ns=simulate_like.like_duration(real))
    # A folder that cannot be used is told of before the fit, which takes a while.
    prepare_folder(settings.out, settings.force)
    settings = replace(settings, force=True)
    fitted = simulate_like.fit(real, settings, tell)
    with simulate_like.fitted_profile(fitted, save) as path, TemporaryDirectory() as folder:
        _simulate(replace(settings, profile=str(path)), quiet)
        if not quiet:
            given = simulate_like.measured(settings.out, Path(folder) / "lake")
            simulate_like.show(shown_on(sys.stdout), real, given)


def _bar(console: Console, shown: ExitStack) -> Progress:
    """A bar that tells how far the run is."""
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
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--date: {text!r} is not a date, such as 2026-05-21") from error
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise UsageError(
            f"--date: captures hold days from {_FIRST_DAY} to {_LAST_DAY}, not {day}: their "
            "seconds have 32 bits"
        )
    return day


def _show(out: Console, summary: Summary, folder: Path, seconds: float) -> None:
    """Say what came of it."""
    from pregao.cli.terminal import print_table, say

    data = summary.data
    rows = [
        (number, name, file["packets"], file["payload_bytes"])
        for number, channel in data["channels"].items()
        for name, file in channel["files"].items()
    ]
    title = f"{data['settings']['profile']}, seed {data['settings']['seed']}"
    columns = ("channel", "file", "packets", "bytes")
    print_table(out, title, columns, rows, numbers="packets bytes", framed=True)
    say(
        out,
        f"{summary.messages:,} messages from {summary.orders:,} requests, {summary.trades:,} "
        f"trades, in {seconds:.1f} s ({summary.messages / max(seconds, 1e-9):,.0f} messages/s): "
        f"{folder}",
    )
