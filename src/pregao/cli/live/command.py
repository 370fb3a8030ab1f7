"""``pregao live``: follow the live feed in a terminal view or as JSON lines."""

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
from pregao.name_matching import did_you_mean, folded

if TYPE_CHECKING:
    from pregao.cli.live.demo import LiveDemo
    from pregao.live.config import LiveConfig
    from pregao.live.handler import FeedHandler
    from pregao.live.recorder import Recorder
    from pregao.live.worker_processes import FeedProcesses, ProcessSubscription

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao live --demo",
        "pregao live --config live.toml --metrics 9100",
        "pregao live --config live.toml --json --symbol PETR4 > events.jsonl",
        "pregao live --config live.toml --lake lake --json > /dev/null",
        "docs/live.md describes the configuration file; --demo needs none.",
    )
)
_STATUS_S = 1.0
_PAUSE_S = 0.02
_SWITCH_S = 0.0005


def live(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration file (TOML): channels and addresses."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Simulate a market, send it over loopback and follow it.")
    ] = False,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Follow only these channels (comma-separated)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines instead of showing the view.")
    ] = False,
    symbol: options.Symbols = None,
    depth: Annotated[
        int, typer.Option(min=0, max=1000, help="Levels per side of books in JSON lines.")
    ] = 5,
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record received packets as captures in this folder."),
    ] = None,
    roll_size: Annotated[str, typer.Option(help="Roll captures at this size.")] = "256M",
    roll_time: Annotated[str, typer.Option(help="Roll captures after this time.")] = "10m",
    lake: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Ingest received packets into this lake, exactly once."),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of captures for the lake (default: DIR-spool)."),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve /metrics, /health and /ready on this port.",
        ),
    ] = None,
    spin: Annotated[
        bool,
        typer.Option("--spin", help="Busy-poll the sockets: a few µs faster, uses a full core."),
    ] = False,
    realtime: Annotated[
        bool,
        typer.Option("--realtime", help="Request real-time scheduling for the feed thread."),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=255, help="Number of worker processes (requires --json)."),
    ] = None,
    schema: options.Schemas = None,
    duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop after this time, e.g. 10m.")
    ] = None,
    speed: Annotated[str, typer.Option(help="Speed of --demo: 1x, 10x or max.")] = "1x",
) -> None:
    """Follow channels over the network: books that recover from gaps, and their health."""
    from pregao.cli import option_values
    from pregao.cli.decode.outputs import OutputClosedError
    from pregao.clock import SECOND
    from pregao.live.config import read_config
    from pregao.live.handler import FeedHandler
    from pregao.live.health import serve
    from pregao.live.process_tuning import check_manner, rare_collection
    from pregao.live.replayer import parse_speed
    from pregao.live.worker_processes import FeedProcesses
    from pregao.units import parse_duration

    if (config is None) != demo:
        raise UsageError("`pregao live` requires either --config FILE or --demo.")
    if spool is not None and lake is None:
        raise UsageError("--spool requires --lake; use --record to record without a lake.")
    if lake is not None and record is not None:
        raise UsageError("--lake cannot be combined with --record: set the folder with --spool.")
    check_manner(spin=spin, realtime=realtime)
    # The feed thread must not wait long for the thread that writes or draws.
    sys.setswitchinterval(_SWITCH_S)
    pace = parse_speed(speed)
    seconds = None if duration is None else parse_duration(duration, "--duration") / SECOND
    channels = option_values.numbers(channel, "--channel", 255)
    symbols = option_values.parts(symbol) or None
    config_ = None if config is None else read_config(config).only(channels)
    if not as_json and not sys.stdout.isatty():
        raise UsageError("The view requires a terminal: use --json to write JSON lines instead.")
    with ExitStack() as opened:
        demo_market: LiveDemo | None = None
        if config_ is not None:
            followed = config_
        else:
            demo_market = _demo(opened)
            followed = demo_market.config.only(channels)
            demo_market.prepare(pace)
        if realtime:
            followed = replace(followed, realtime=True)
        followed = replace(followed, schema_files=tuple(schema or ()))
        recorder = _recorder(record, lake, spool, roll_size, roll_time)
        groups = followed.groups(processes)
        handler: FeedHandler | FeedProcesses
        if len(groups) > 1:
            _check_processes(as_json=as_json, recorded=recorder is not None)
            handler = FeedProcesses(groups, spin=spin or None)
            opened.callback(handler.stop)
        else:
            handler = FeedHandler(followed, recorder=recorder, spin=spin or None)
            if recorder is not None and lake is not None:
                from pregao.cli.live.lake import LakeFollower

                follower = LakeFollower(recorder.settings.folder, lake, followed)
                opened.callback(opened.enter_context(follower).finish)
            opened.callback(handler.stop)
            opened.enter_context(rare_collection())
            handler.start()
        if metrics is not None:
            server = serve(handler, metrics)
            opened.callback(server.close)
            _print_line(f"http://127.0.0.1:{server.port}/metrics")
        if demo_market is not None:
            demo_market.start()
        end = None if seconds is None else time.monotonic() + seconds
        try:
            if as_json or isinstance(handler, FeedProcesses):
                write_lines(handler, symbols, depth, end, demo_market)
            else:
                _show(handler, followed, demo_market, end)
        except (KeyboardInterrupt, OutputClosedError):
            pass  # the regular way to stop


def _check_processes(*, as_json: bool, recorded: bool) -> None:
    """Raise `UsageError` for options that worker processes do not support."""
    if recorded:
        raise UsageError(
            "Worker processes cannot record into one folder: run one `pregao live --channel …` per "
            "channel, each with its own --record."
        )
    if not as_json:
        raise UsageError("The view runs in one process: use --json with worker processes.")


def _print_line(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()


def _demo(opened: ExitStack) -> LiveDemo:
    from pregao.cli.live.demo import DURATION_NS, INSTRUMENTS, LiveDemo
    from pregao.clock import MINUTE

    minutes = DURATION_NS // MINUTE
    _print_line(f"simulating {minutes} minutes of trading in {INSTRUMENTS} instruments …")
    demo = LiveDemo()
    opened.callback(demo.close)
    return demo


def _recorder(
    record: Path | None, lake: str | None, spool: Path | None, roll_size: str, roll_time: str
) -> Recorder | None:
    from pregao.lake.datasource.options import parse_size
    from pregao.live.recorder import Recorder, RecordSettings
    from pregao.units import parse_duration

    size = parse_size(roll_size, "--roll-size") or 1
    span = parse_duration(roll_time, "--roll-time")
    folder = record
    if lake is not None:
        from pregao.cli.live.lake import spool_of

        folder = spool_of(lake) if spool is None else spool
    if folder is None:
        return None
    recorder = Recorder(RecordSettings(folder, roll_bytes=size, roll_ns=max(1, span)))
    if recorder.mended:
        _print_line(
            f"{recorder.mended} bytes of an incomplete record removed from a capture in {folder}"
        )
    return recorder


def write_lines(
    handler: FeedHandler | FeedProcesses,
    symbols: list[str] | None,
    depth: int,
    end: float | None,
    demo: LiveDemo | None,
) -> None:
    """Write a JSON line per event, and a status line per second."""
    from pregao.cli.decode.outputs import StandardOutput
    from pregao.cli.live.json_lines import line_of, status_line
    from pregao.live.handler import FeedHandler
    from pregao.live.health import report
    from pregao.live.subscriptions import Subscription

    subscription: Subscription | ProcessSubscription
    if isinstance(handler, FeedHandler):
        local = subscription = Subscription(symbols, depth=depth)
        handler.call(local.begin)
    else:
        subscription = handler.subscribe(symbols, depth=depth)
    unchecked = set(symbols or ())
    out = StandardOutput()
    last_status = 0.0
    while True:
        over = (end is not None and time.monotonic() >= end) or (
            demo is not None and not demo.running
        )
        due = over or time.monotonic() - last_status >= _STATUS_S
        # The report comes first, so that every event it counts is written before its line.
        current = handler.call(report) if due else None
        status = None if current is None else status_line(current)
        if current is not None and current.ready and unchecked:
            known = handler.call(_names)
            for name in sorted(each for each in unchecked if folded(each) not in known):
                hint = did_you_mean(name, sorted(known))
                _print_line(f"no instrument {name} on the followed channels.{hint}")
            unchecked.clear()
        items = subscription.take()
        lines = [line_of(item) for item in items]
        if status is not None:
            lines.append(status)
            last_status = time.monotonic()
        if lines:
            out.write(("\n".join(lines) + "\n").encode())
        if over:
            return
        if subscription.overflowed and isinstance(subscription, Subscription):
            handler.call(subscription.refresh)
        elif not items:
            time.sleep(_PAUSE_S)


def _names(handler: FeedHandler) -> set[str]:
    """Return the symbols and security IDs of all instruments."""
    return {
        name
        for followed in handler.channels.values()
        for instrument in followed.channel.instruments.values()
        for name in (folded(instrument.symbol), str(instrument.security_id))
    }


def _show(
    handler: FeedHandler, config: LiveConfig, demo: LiveDemo | None, end: float | None
) -> None:
    from pregao.cli.console import console
    from pregao.cli.live.view import watch

    name = config.name if demo is None else "demonstration"
    watch(handler, console(), name, end)
