"""Health of the feed: a report of all channels and lines, also as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Protocol

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.feed.channel.settings import ChannelCounters, ChannelState, FeedCounters
from pregao.live.handler import FeedHandler
from pregao.live.live_channel import LineState, LiveChannel
from pregao.net.http import HttpServer, Response
from pregao.umdf.streams import Stream

CHANNEL_HELP = {
    "packets": "Datagrams received by a channel, on all streams and feeds.",
    "bytes": "Bytes of the datagrams received by a channel.",
    "bad_packets": "Datagrams that are not packets of the channel.",
    "unexpected_packets": "Packets of streams that were left, or of the site that is not followed.",
    "delivered": "Incremental packets applied in sequence.",
    "messages": "Messages in the incremental packets that were applied.",
    "undecoded_messages": "Messages that could not be decoded, or lack required fields.",
    "failures": "Packets whose processing failed; each counts as lost.",
    "gaps": "Gaps in the packets of the incremental stream.",
    "lost_packets": "Incremental packets that no feed delivered.",
    "recovered_messages": "Lost messages of the legacy feed that were recovered over TCP.",
    "stale": "Number of times that a book became stale.",
    "healed": "Number of times that a stale book was healed.",
    "unconfirmed": "Number of times that a book became unconfirmed.",
    "confirmed": "Number of times that an unconfirmed book was confirmed.",
    "overflows": "Messages of stale or unconfirmed books dropped because the queue was full.",
    "instruments_dropped": "Messages, snapshots and definitions of instruments beyond the limit.",
    "snapshots": "Complete snapshots received.",
    "outdated_snapshots": "Snapshots of an older sequence version, which are not used.",
    "snapshot_loops": "Complete loops of the snapshot stream.",
    "definition_loops": "Complete loops of the instrument definition stream.",
    "outages": "Number of times that no packets were received and the channel went down.",
    "silent_streams": "Number of times that a joined stream of a feed fell silent.",
    "failovers": "Number of switches to the other site.",
    "resyncs": "Number of restarts because sequence numbers had gone back.",
    "events_missed": "Events dropped because they were not taken in time.",
    "news_dropped": "News items that were too long, or whose parts did not all arrive in time.",
}
"""Counters of a channel: the fields of `pregao.feed.channel.settings.ChannelCounters`."""

FEED_HELP = {
    "packets": "Packets received on a feed of the incremental stream.",
    "first_arrivals": "Packets that no other feed had delivered before.",
    "duplicates": "Packets that another feed had already delivered.",
    "late": "Packets that arrived after they were declared lost.",
    "heartbeats": "Heartbeats received on a feed of the incremental stream.",
}
"""Counters of a feed: the fields of `pregao.feed.channel.settings.FeedCounters`."""

LINE_HELP = {
    "packets": "Datagrams received by the socket of a line.",
    "bytes": "Bytes received by the socket of a line.",
    "truncated": "Datagrams that were truncated because they were longer than a slot.",
    "dropped": "Datagrams dropped by the kernel because the socket's buffer was full.",
}
"""Counters of a line: the fields of `pregao.net.datagram_batch.LineCounts`."""

SHARES = (0.5, 0.99, 1.0)
"""Quantiles of the latency in reports."""
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_Samples = list[tuple[dict[str, str], float]]


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """State and counters of a channel."""

    number: int
    state: ChannelState
    instruments: int
    books: dict[State, int]
    """Number of books by state."""
    counters: dict[str, int]
    feeds: dict[str, dict[str, int]]
    delays_ns: tuple[int | None, ...]
    """Recent latency from sending to reception, at the quantiles `SHARES`."""
    lines: tuple[LineState, ...]
    silent: frozenset[tuple[Stream, str]] = frozenset()
    """Joined streams and their feeds on which nothing arrives."""

    @property
    def ready(self) -> bool:
        """Whether all books of the channel are confirmed."""
        return self.state is ChannelState.LIVE

    @property
    def dropped(self) -> int:
        """Packets that the kernel dropped."""
        return sum(line.counts.dropped for line in self.lines)


@dataclass(frozen=True, slots=True)
class FeedReport:
    """State of all channels at a point in time."""

    at_ns: int
    since_ns: int
    channels: tuple[ChannelReport, ...]
    recorded: int | None
    """Packets recorded; None without a recorder."""
    unrecorded: int

    @property
    def ready(self) -> bool:
        """Whether all channels are ready."""
        return all(channel.ready for channel in self.channels)

    @staticmethod
    def concat(reports: Sequence[FeedReport]) -> FeedReport:
        """Merge the reports of several handlers."""
        recorded = [each.recorded for each in reports if each.recorded is not None]
        return FeedReport(
            max(each.at_ns for each in reports),
            min(each.since_ns for each in reports),
            tuple(channel for each in reports for channel in each.channels),
            sum(recorded) if recorded else None,
            sum(each.unrecorded for each in reports),
        )


def report(handler: FeedHandler) -> FeedReport:
    """Return the current report; called through `FeedHandler.call`."""
    lines = handler.line_states()
    now = handler.now()
    return FeedReport(
        now,
        handler.started_ns,
        tuple(_channel(followed, lines, now) for followed in handler.channels.values()),
        None if handler.recorder is None else handler.recorder.packets,
        handler.unrecorded,
    )


def _channel(followed: LiveChannel, lines: Iterable[LineState], now_ns: int) -> ChannelReport:
    channel = followed.channel
    number = channel.settings.number
    books = dict.fromkeys(State, 0)
    for security_id in channel.security_ids:
        books[channel.book(security_id).state] += 1
    return ChannelReport(
        number,
        channel.state,
        len(channel.instruments),
        books,
        _numbers(channel.counters),
        {feed: _numbers(counters) for feed, counters in channel.counters.feeds.items()},
        tuple(followed.delays.percentiles(SHARES, now_ns)),
        tuple(line for line in lines if line.line.channel == number),
        frozenset(channel.counters.silent),
    )


def _numbers(counters: ChannelCounters | FeedCounters) -> dict[str, int]:
    values = {each.name: getattr(counters, each.name) for each in fields(counters)}
    return {name: value for name, value in values.items() if isinstance(value, int)}


# Metrics


def metrics_text(made: FeedReport) -> str:
    """Return a report in the Prometheus text format."""
    lines: list[str] = []
    for name, kind, meaning, samples in _families(made):
        lines += [f"# HELP pregao_{name} {meaning}", f"# TYPE pregao_{name} {kind}"]
        for labels, value in samples:
            pairs = ",".join(f'{label}="{text}"' for label, text in labels.items())
            lines.append(f"pregao_{name}{{{pairs}}} {value}" if pairs else f"pregao_{name} {value}")
    return "\n".join(lines) + "\n"


Page = Callable[[FeedReport], Response]


def _families(made: FeedReport) -> Iterator[tuple[str, str, str, _Samples]]:
    channels = {str(each.number): each for each in made.channels}
    yield (
        "uptime_seconds",
        "gauge",
        "Time since the start.",
        [({}, (made.at_ns - made.since_ns) / SECOND)],
    )
    yield (
        "channel_state",
        "gauge",
        "1 for the current state of a channel, 0 for the others.",
        [
            ({"channel": number, "state": state.name.lower()}, int(each.state is state))
            for number, each in channels.items()
            for state in ChannelState
        ],
    )
    yield (
        "instruments",
        "gauge",
        "Known instruments.",
        [({"channel": number}, each.instruments) for number, each in channels.items()],
    )
    yield (
        "books",
        "gauge",
        "Books by state.",
        [
            ({"channel": number, "state": state.name.lower()}, count)
            for number, each in channels.items()
            for state, count in each.books.items()
        ],
    )
    for name in _names(each.counters for each in made.channels):
        yield (
            f"channel_{name}_total",
            "counter",
            CHANNEL_HELP[name],
            [({"channel": number}, each.counters[name]) for number, each in channels.items()],
        )
    for name in _names(own for each in made.channels for own in each.feeds.values()):
        yield (
            f"feed_{name}_total",
            "counter",
            FEED_HELP[name],
            [
                ({"channel": number, "feed": feed}, own[name])
                for number, each in channels.items()
                for feed, own in each.feeds.items()
            ],
        )
    for name, meaning in LINE_HELP.items():
        yield (
            f"line_{name}_total",
            "counter",
            meaning,
            [
                (
                    {"channel": number, "stream": line.line.stream.value, "feed": line.line.feed},
                    getattr(line.counts, name),
                )
                for number, each in channels.items()
                for line in each.lines
            ],
        )
    yield (
        "line_silent",
        "gauge",
        "1 if nothing arrived on a joined line for three heartbeats, else 0.",
        [
            (
                {"channel": number, "stream": line.line.stream.value, "feed": line.line.feed},
                int((line.line.stream, line.line.feed) in each.silent),
            )
            for number, each in channels.items()
            for line in each.lines
        ],
    )
    yield (
        "feed_latency_seconds",
        "gauge",
        "Latency from sending to reception in the last seconds.",
        [
            ({"channel": number, "quantile": f"{share:g}"}, delay / SECOND)
            for number, each in channels.items()
            for share, delay in zip(SHARES, each.delays_ns, strict=True)
            if delay is not None
        ],
    )
    if made.recorded is not None:
        yield "recorded_packets_total", "counter", "Packets recorded.", [({}, made.recorded)]
        yield (
            "unrecorded_packets_total",
            "counter",
            "Packets that could not be recorded.",
            [({}, made.unrecorded)],
        )


def _names(counters: Iterable[dict[str, int]]) -> list[str]:
    return list(dict.fromkeys(name for own in counters for name in own))


class FeedCaller(Protocol):
    """Runs functions in feed handlers: in one, or in those of several worker processes."""

    def call(self, question: Callable[[FeedHandler], FeedReport]) -> FeedReport:
        """Run a function that returns a report."""


def serve(handler: FeedCaller, port: int) -> HttpServer:
    """Serve ``/metrics``, ``/health`` (running) and ``/ready`` (all books confirmed) over HTTP."""

    def answered(page: Page) -> Callable[[], Response]:
        def answer() -> Response:
            try:
                return page(handler.call(report))
            except Exception as error:  # the page shows whatever ended the feed
                return Response(f"{error or 'no answer'}\n", HTTPStatus.SERVICE_UNAVAILABLE)

        return answer

    pages = {"/metrics": _metrics, "/health": _health, "/ready": _ready}
    return HttpServer(port, {path: answered(page) for path, page in pages.items()})


def _metrics(made: FeedReport) -> Response:
    return Response(metrics_text(made), content_type=_METRICS_TYPE)


def _health(made: FeedReport) -> Response:
    failed = "".join(
        f"channel {each.number}: processing failed {each.counters['failures']} times; each counts "
        "as packet loss\n"
        for each in made.channels
        if each.counters["failures"]
    )
    silent = "".join(
        f"channel {each.number}: nothing arrives on the {stream.value} stream of feed {feed}\n"
        for each in made.channels
        for stream, feed in sorted(each.silent, key=lambda one: (one[0].value, one[1]))
    )
    return Response(f"running for {(made.at_ns - made.since_ns) // SECOND} s\n{failed}{silent}")


def _ready(made: FeedReport) -> Response:
    text = "".join(
        f"channel {each.number}: {each.state.name.lower()}: {each.state.value}\n"
        for each in made.channels
    )
    return Response(text, HTTPStatus.OK if made.ready else HTTPStatus.SERVICE_UNAVAILABLE)
