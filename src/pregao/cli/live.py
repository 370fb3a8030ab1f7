"""``pregao live``: follow the feed on the network, and show it."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError
from pregao.names import did_you_mean, folded

if TYPE_CHECKING:
    from pregao.cli.live_demo import Demo
    from pregao.live import FeedHandler, FeedProcesses, LiveConfig, Recorder
    from pregao.live.processes import ProcessSubscription

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao live --demo",
        "pregao live --config live.toml --metrics 9100",
        "pregao live --config live.toml --headless --symbol PETR4 > events.jsonl",
        "pregao live --config live.toml --lake lake --headless > /dev/null",
        "The configuration is described in docs/live.md; --demo needs none.",
    )
)
_STATUS_S = 1.0
_PAUSE_S = 0.02
_SWITCH_S = 0.0005


def live(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to listen to, in TOML.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Simulate a market, send it on loopback, follow it.")
    ] = False,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Follow only these channels (comma list)."),
    ] = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="Write lines of JSON instead of a view.")
    ] = False,
    symbol: options.Symbols = None,
    depth: Annotated[int, typer.Option(min=0, max=1000, help="Levels of a book in a line.")] = 5,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write what is received as captures.")
    ] = None,
    roll_size: Annotated[str, typer.Option(help="A capture ends at about this size …")] = "256M",
    roll_time: Annotated[str, typer.Option(help="… or after this time.")] = "10m",
    lake: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Take what is received into this lake, exactly once."),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where captures for the lake go; by default beside it."),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="Serve /metrics, /health and /ready here."
        ),
    ] = None,
    spin: Annotated[
        bool, typer.Option("--spin", help="Never sleep: faster by some µs, takes a whole core.")
    ] = False,
    realtime: Annotated[
        bool,
        typer.Option("--realtime", help="Go before other work of the machine, if it grants it."),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, max=255, help="Follow the channels in so many processes; needs --headless."
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="End after so long, such as 10m.")
    ] = None,
    speed: Annotated[str, typer.Option(help="Of the demonstration: 1x, 10x, max.")] = "1x",
) -> None:
    """Follow channels over the network: books that heal themselves, and how far to trust them."""
    from pregao.cli import option_values
    from pregao.cli.decode_output import ReaderGoneError
    from pregao.clock import SECOND, parse_span
    from pregao.live import (
        FeedHandler,
        FeedProcesses,
        check_manner,
        parse_speed,
        read_config,
        seldom_collected,
        serve,
    )

    if (config is None) != demo:
        raise UsageError("pregao live takes either --config FILE or --demo.")
    if spool is not None and lake is None:
        raise UsageError("--spool is where captures for a lake go: give --lake too, or --record.")
    if lake is not None and record is not None:
        raise UsageError("--lake records by itself: give --spool to say where, not --record.")
    check_manner(spin=spin, realtime=realtime)
    # The thread that follows must not wait long for the one that writes or draws.
    sys.setswitchinterval(_SWITCH_S)
    pace = parse_speed(speed)
    seconds = None if duration is None else parse_span(duration, "--for") / SECOND
    channels = option_values.numbers(channel, "--channel", 255)
    symbols = option_values.parts(symbol) or None
    named = None if config is None else read_config(config).only(channels)
    if not headless and not sys.stdout.isatty():
        raise UsageError(
            "The view needs a terminal: give --headless to write lines of JSON instead."
        )
    with ExitStack() as opened:
        shown: Demo | None = None
        if named is not None:
            followed = named
        else:
            shown = _demo(opened)
            followed = shown.config.only(channels)
            shown.prepare(pace)
        if realtime:
            followed = replace(followed, realtime=True)
        recorder = _recorder(record, lake, spool, roll_size, roll_time)
        groups = followed.groups(processes)
        handler: FeedHandler | FeedProcesses
        if len(groups) > 1:
            _check_apart(headless=headless, recorded=recorder is not None)
            handler = FeedProcesses(groups, spin=spin or None)
            opened.callback(handler.stop)
        else:
            handler = FeedHandler(followed, recorder=recorder, spin=spin or None)
            if recorder is not None and lake is not None:
                from pregao.cli.live_lake import LakeFollower

                taking = LakeFollower(recorder.settings.folder, lake, followed)
                opened.callback(opened.enter_context(taking).finish)
            opened.callback(handler.stop)
            opened.enter_context(seldom_collected())
            handler.start()
        if metrics is not None:
            server = serve(handler, metrics)
            opened.callback(server.close)
            _say(f"http://127.0.0.1:{server.port}/metrics")
        if shown is not None:
            shown.start()
        end = None if seconds is None else time.monotonic() + seconds
        try:
            if headless or isinstance(handler, FeedProcesses):
                write_lines(handler, symbols, depth, end, shown)
            else:
                _show(handler, followed, shown, end)
        except (KeyboardInterrupt, ReaderGoneError):
            pass  # that is how one ends what would go on for ever


def _check_apart(*, headless: bool, recorded: bool) -> None:
    """Channels in processes of their own can be listened to, and no more."""
    if recorded:
        raise UsageError(
            "Several processes cannot record into one folder: start `pregao live --channel …` once "
            "for each, each with its own --record."
        )
    if not headless:
        raise UsageError("The view follows channels in one process: give --headless for several.")


def _say(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()


def _demo(opened: ExitStack) -> Demo:
    from pregao.cli.live_demo import DURATION_NS, INSTRUMENTS, Demo
    from pregao.clock import MINUTE

    minutes = DURATION_NS // MINUTE
    _say(f"simulating a session of {INSTRUMENTS} instruments that takes {minutes} minutes …")
    made = Demo()
    opened.callback(made.close)
    return made


def _recorder(
    record: Path | None, lake: str | None, spool: Path | None, roll_size: str, roll_time: str
) -> Recorder | None:
    from pregao.clock import parse_span
    from pregao.lake.source import parse_size
    from pregao.live import Recorder, RecordSettings

    size = parse_size(roll_size, "--roll-size") or 1
    span = parse_span(roll_time, "--roll-time")
    folder = record
    if lake is not None:
        from pregao.cli.live_lake import spool_of

        folder = spool_of(lake) if spool is None else spool
    if folder is None:
        return None
    recorder = Recorder(RecordSettings(folder, roll_bytes=size, roll_ns=max(1, span)))
    if recorder.mended:
        _say(f"{recorder.mended} bytes of half a record were cut off a capture in {folder}")
    return recorder


def write_lines(
    handler: FeedHandler | FeedProcesses,
    symbols: list[str] | None,
    depth: int,
    end: float | None,
    demo: Demo | None,
) -> None:
    """Write a line for everything that happens, and one a second for the state of the feed."""
    from pregao.cli.decode_output import StandardOutput
    from pregao.cli.live_lines import line_of, status_line
    from pregao.live import FeedHandler, Subscription, report

    subscription: Subscription | ProcessSubscription
    if isinstance(handler, FeedHandler):
        own = subscription = Subscription(symbols, depth=depth)
        handler.ask(own.begin)
    else:
        subscription = handler.subscribe(symbols, depth=depth)
    unnamed = set(symbols or ())
    out = StandardOutput()
    told = 0.0
    while True:
        over = (end is not None and time.monotonic() >= end) or (
            demo is not None and not demo.running
        )
        due = over or time.monotonic() - told >= _STATUS_S
        # Asked first, so that all that the last status tells of was written before it.
        made = handler.ask(report) if due else None
        status = None if made is None else status_line(made)
        if made is not None and made.ready and unnamed:
            known = handler.ask(_names)
            for name in sorted(each for each in unnamed if folded(each) not in known):
                hint = did_you_mean(name, sorted(known))
                _say(f"there is no instrument {name} on the channels that are followed.{hint}")
            unnamed.clear()
        items = subscription.take()
        lines = [line_of(item) for item in items]
        if status is not None:
            lines.append(status)
            told = time.monotonic()
        if lines:
            out.write(("\n".join(lines) + "\n").encode())
        if over:
            return
        if subscription.behind and isinstance(subscription, Subscription):
            handler.ask(subscription.refresh)
        elif not items:
            time.sleep(_PAUSE_S)


def _names(handler: FeedHandler) -> set[str]:
    """What instruments are called, by symbol and by number."""
    return {
        name
        for followed in handler.channels.values()
        for instrument in followed.channel.instruments.values()
        for name in (folded(instrument.symbol), str(instrument.security_id))
    }


def _show(handler: FeedHandler, config: LiveConfig, demo: Demo | None, end: float | None) -> None:
    from pregao.cli.live_view import watch
    from pregao.cli.terminal import console

    name = config.name if demo is None else "demonstration"
    watch(handler, console(), name, end)
