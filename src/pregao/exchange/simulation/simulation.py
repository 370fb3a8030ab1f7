"""A simulation run: traders, engine and publisher on a virtual clock, written as captures.

The truth is written next to the captures, with a summary that is also displayed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pregao.clock import MILLISECOND, MINUTE
from pregao.errors import UsageError
from pregao.exchange.engine.model.events import MarketEvent, SecurityDefinition
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.schedule import default_schedule, load_schedule
from pregao.exchange.publisher.channels import ChannelEndpoints, OutgoingPacket
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import ChannelPublisher, Publisher
from pregao.exchange.simulation.captures import ChannelCaptures, prepare_folder
from pregao.exchange.simulation.day_trading import DayTrading, TradingTotals
from pregao.exchange.simulation.instruments import choose_instruments
from pregao.exchange.simulation.settings import SimulationSettings, moment_ns
from pregao.exchange.simulation.timetable import plan_day
from pregao.exchange.simulation.truth import TruthBook, TruthWriter
from pregao.exchange.simulation.worker_process import run_in_worker, worker_pays_off
from pregao.exchange.traders.profiles import load_profile

OnProgress = Callable[[float, int], None]
"""Progress callback: completed share of the run (0 to 1), and messages so far."""

DEFAULT_INSTRUMENTS = 40
_SNAPSHOT_LOOPS = 40
"""Approximate number of snapshot and definition loops in a run."""
_LOOP_PACKETS_PER_SECOND = 1000
_MIN_PAUSE_NS = 20 * MILLISECOND
_MAX_PAUSE_NS = MINUTE


# --- Publication of a day ---


class DayPublisher:
    """Audience of a day's trading that publishes the events and writes captures and truth.

    Packets sent before ``from_ns`` are not captured. The truth goes to ``folder``.
    """

    def __init__(
        self,
        settings: SimulationSettings,
        publisher: Publisher,
        instruments: Iterable[Instrument],
        from_ns: int,
        folder: Path,
        progress: OnProgress | None = None,
    ) -> None:
        self._publisher = publisher
        self._progress = progress
        self.captures: dict[int, ChannelCaptures] = {}
        with ExitStack() as opened:
            for number, channel in publisher.channels.items():
                self.captures[number] = opened.enter_context(
                    ChannelCaptures(
                        settings.out,
                        channel.channel,
                        settings.compression.ending,
                        settings.faults,
                        settings.seed,
                        from_ns,
                        legacy=settings.legacy is not None,
                    )
                )
            self.truth = TruthWriter(folder)
            opened.callback(self.truth.close)
            self._opened = opened.pop_all()
        self._routes: dict[int, tuple[ChannelPublisher, ChannelCaptures]] = {}
        for instrument in instruments:
            self._add_instrument(instrument)

    def _add_instrument(self, instrument: Instrument) -> None:
        """Note the channel of an instrument, and its symbol in the truth."""
        self.truth.add_instrument(instrument)
        number = instrument.channel
        self._routes[instrument.security_id] = (
            self._publisher.channels[number],
            self.captures[number],
        )

    def begin(self, now_ns: int) -> None:
        """Publish the start of the system."""
        self._send(self._publisher.initialize(now_ns))

    def publish(
        self, units: Sequence[MarketEvent], now_ns: int, security_id: int | None = None
    ) -> None:
        """Publish events on any channel, or only on that of an instrument."""
        if security_id is None:
            self._publish_anywhere(units, now_ns)
            return
        channel, captures = self._routes[security_id]
        packets = channel.packets(units, now_ns)
        if packets is None:
            captures.send(channel.publish(units, now_ns))
        else:
            captures.send_incremental(now_ns, packets)
        # A single message is a new, changed or removed order: a trade always has more.
        if len(units) > 1 or len(units[0].items) > 1:
            self.truth.publish(units)

    def _publish_anywhere(self, units: Sequence[MarketEvent], now_ns: int) -> None:
        for unit in units:
            for item in unit.items:
                if isinstance(item, SecurityDefinition):
                    self._add_instrument(item.instrument)
        self._send(self._publisher.publish(units, now_ns))
        self.truth.publish(units)

    def _send(self, datagrams: Iterable[OutgoingPacket]) -> None:
        for datagram in datagrams:
            self.captures[datagram.channel].send((datagram,))

    def book(self, book: TruthBook) -> None:
        """Write the state of a book after the packets so far."""
        channel = self._publisher.channels[book.channel]
        self.truth.book(
            book,
            sequence_version=channel.incremental.sequence_version,
            sequence_number=channel.incremental.last_number,
            rpt_seq=channel.state.instruments[book.security_id].rpt_seq,
        )

    def progress(self, done: float) -> None:
        """Report the completed share of the run."""
        if self._progress is not None:
            self._progress(done, self.messages())

    def messages(self) -> int:
        """Return the number of messages on the incremental streams."""
        return self._publisher.messages

    def end(self, now_ns: int) -> None:
        """Send the packets that are due up to the end."""
        self._send(self._publisher.advance(now_ns))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the queued packets, and close all files."""
        self._opened.close()


# --- Summary ---


@dataclass(frozen=True, slots=True)
class SimulationSummary:
    """Results of a run; ``data`` is written to the truth, the same for the same settings."""

    data: dict[str, Any]

    @property
    def messages(self) -> int:
        """Messages on the incremental streams."""
        return int(self.data["messages"])

    @property
    def orders(self) -> int:
        """Requests sent by members."""
        return int(self.data["orders"])

    @property
    def trades(self) -> int:
        """Trades published; an amended trade counts again."""
        return int(self.data["trades"])


def describe(
    simulation: Simulation, traded: TradingTotals, publication: DayPublisher
) -> SimulationSummary:
    """Return the summary of a run. It contains nothing that depends on the machine."""
    truth = publication.truth
    channels = {}
    for number, channel in simulation.publisher.channels.items():
        channels[str(number)] = {
            "messages": channel.incremental.messages,
            "sequence_version": channel.incremental.sequence_version,
            "last_sequence_number": channel.incremental.last_number,
            "snapshot_loops": channel.snapshots.loops,
            "definition_loops": channel.definitions.loops,
            "files": {
                file.path.name: {
                    "feed": feed,
                    "packets": file.packets,
                    "payload_bytes": file.bytes,
                    "destination": str(file.endpoint),
                }
                for feed, file in publication.captures[number].files.items()
            },
        }
    return SimulationSummary(
        {
            "settings": _settings(simulation.settings, simulation.trading.profile.name),
            "instruments": [
                {
                    "symbol": instrument.symbol,
                    "security_id": instrument.security_id,
                    "channel": instrument.channel,
                }
                for instrument in simulation.instruments
            ],
            "start_ns": simulation.day.start_ns,
            "end_ns": traded.end_ns,
            "capture_from_ns": simulation.capture_from_ns,
            "orders": traded.orders,
            "messages": publication.messages(),
            "trades": truth.trades,
            "busts": truth.busts,
            "books": truth.books,
            "bursts": traded.bursts,
            "channels": channels,
        }
    )


def faults_of(
    settings: SimulationSettings, captures: Mapping[int, ChannelCaptures]
) -> dict[str, Any]:
    """Return the fault rates, and the counts of injected faults by channel and feed."""
    return {
        "rates": {feed: asdict(rates) for feed, rates in settings.faults.items()},
        "channels": {
            str(number): {
                **{feed: asdict(file.faults) for feed, file in channel.files.items()},
                "lost_on_both": channel.lost_on_both,
            }
            for number, channel in captures.items()
        },
    }


def _settings(settings: SimulationSettings, profile: str) -> dict[str, Any]:
    late, files = settings.late_join, (settings.instruments_file, settings.schedule_file)
    return {
        "profile": profile,
        "seed": settings.seed,
        "instruments": settings.instruments,
        "duration_ns": settings.duration_ns,
        "schema_version": settings.schema_version,
        "trade_date": settings.trade_date.isoformat(),
        "rate": settings.rate,
        "messages": settings.messages,
        "late_join": None if late is None else late.text,
        "resets": [f"{reset.kind.value}@{reset.moment.text}" for reset in settings.resets],
        "instruments_file": None if files[0] is None else files[0].name,
        "schedule_file": None if files[1] is None else files[1].name,
        "compression": settings.compression.value,
        **({} if settings.legacy is None else {"legacy": settings.legacy.value}),
    }


@contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector, which would traverse all resting orders repeatedly.

    Orders and events form no cycles: memory stays flat without it, and a run is 10% faster.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # Move the objects created meanwhile to the oldest generation: in the youngest one,
            # the next collection would traverse them all.
            gc.freeze()
            gc.enable()
            gc.unfreeze()


# --- Simulation ---


class Simulation:
    """One run: settings in, captures and their ground truth in a folder out."""

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings
        profile = load_profile(settings.profile)
        self.instruments = choose_instruments(
            profile, settings.instruments, settings.instruments_file, DEFAULT_INSTRUMENTS
        )
        schedule = (
            default_schedule(self.instruments)
            if settings.schedule_file is None
            else load_schedule(settings.schedule_file)
        )
        day = self.day = plan_day(
            schedule, self.instruments, settings.trade_date, settings.duration_ns
        )
        self.capture_from_ns = day.start_ns
        if settings.late_join is not None:
            span = (day.midnight_ns, day.start_ns, day.end_ns)
            self.capture_from_ns = moment_ns("--late-join", settings.late_join, *span)
        self.trading = DayTrading(settings, profile, self.instruments, day)
        pause = settings.duration_ns // _SNAPSHOT_LOOPS
        loops = LoopPace(_LOOP_PACKETS_PER_SECOND, min(max(pause, _MIN_PAUSE_NS), _MAX_PAUSE_NS))
        numbers = sorted({instrument.channel for instrument in self.instruments})
        self.publisher = Publisher(
            [ChannelEndpoints.numbered(number) for number in numbers],
            self.instruments,
            day.start_ns,
            schema_version=settings.schema_version,
            snapshot_pace=loops,
            definition_pace=loops,
            legacy=settings.legacy is not None,
            legacy_depth=None if settings.legacy is None else settings.legacy.market_depth,
        )

    def run(
        self, progress: OnProgress | None = None, *, worker: bool | None = None
    ) -> SimulationSummary:
        """Simulate the day and write captures and truth.

        With ``worker`` the market trades in a worker process, and ``trading`` of this process stays
        unchanged; the default is to do so where it is faster. The bytes are the same.
        """
        try:
            return self._run(progress, worker_pays_off(self.trading) if worker is None else worker)
        except OSError as error:
            where = error.filename or self.settings.out
            raise UsageError(f"{where}: cannot be written: {error.strerror}") from error

    def _run(self, progress: OnProgress | None, worker: bool) -> SimulationSummary:
        settings = self.settings
        folder = prepare_folder(settings.out, settings.force)
        arguments = (
            settings,
            self.publisher,
            self.instruments,
            self.capture_from_ns,
            folder,
            progress,
        )
        with DayPublisher(*arguments) as publication, _no_cycle_collection():
            if worker:
                totals = run_in_worker(self.trading, publication)
            else:
                totals = self.trading.run(publication)
        summary = describe(self, totals, publication)
        publication.truth.finish(faults_of(settings, publication.captures), summary.data)
        publication.progress(1.0)
        return summary
