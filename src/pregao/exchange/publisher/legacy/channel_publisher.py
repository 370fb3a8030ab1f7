"""Publisher of one channel of the legacy feed: events and a time in, datagrams out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args

from pregao.exchange.engine.model.enums import SecurityUpdateAction
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    ChannelReset,
    DeleteOrderMbo,
    EmptyBook,
    ExecutionStatistics,
    ForwardTrade,
    LastTradePrice,
    MarketEvent,
    MassDeleteOrders,
    NewOrderMbo,
    News,
    PriceBand,
    SecurityDefinition,
    SecurityGroupPhase,
    SecurityStatus,
    SequenceReset,
    Statistic,
    Trade,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.publisher.legacy import loop
from pregao.exchange.publisher.legacy.books import BookItem, OrderBooks, PriceBooks
from pregao.exchange.publisher.legacy.definitions import lists
from pregao.exchange.publisher.legacy.entries import (
    ENTRIES,
    OSCILLATION,
    Values,
    at,
    day_digits,
    oscillation,
    withdrawn_average,
)
from pregao.exchange.publisher.legacy.loop import LegacyLoop, LegacyMessageWriter, LoopMessages
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.published_state import PublishedChannel, PublishedInstrument
from pregao.feed.legacy.book_updates import EMPTY_BOOK, NEW, TRADING_STATE
from pregao.legacy.recovery import MessageStore
from pregao.legacy.streams import HEARTBEAT_NS, LegacyStream
from pregao.legacy.times import timestamp_digits
from pregao.umdf.phases import TradingEvent

ENTRIES_PER_MESSAGE = 16
_SHOWN = frozenset(get_args(Statistic))
_SESSION_CHANGE = TradingEvent.TRADING_SESSION_CHANGE
_REJOINS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS

Sent = tuple[LegacyStream, int, bytes]
"""A datagram: its stream, sending time and bytes."""


class LegacyChannelPublisher:
    """Publishes one channel by order depth, by price depth, or the top of its books.

    A unit of events becomes messages of a few entries each; statuses, news and definitions are
    separate messages between them. ``RptSeq`` counts the entries of an instrument.
    """

    def __init__(
        self,
        number: int,
        instruments: Iterable[Instrument],
        start_ns: int,
        *,
        market_depth: int | None = None,
        first_number: int = 1,
        pace: LoopPace | None = None,
        store: MessageStore | None = None,
    ) -> None:
        """Create the streams of the channel.

        ``market_depth`` is None for all orders, 1 for the top, else the number of price levels.
        The ``store`` receives the messages of the incremental stream for TCP recovery
        (002 §5.1.4).
        """
        pace = LoopPace() if pace is None else pace
        self.number = number
        self.state = PublishedChannel(instruments, positions=market_depth is None)
        self.books: OrderBooks | PriceBooks = (
            OrderBooks(self.state) if market_depth is None else PriceBooks(self.state, market_depth)
        )
        self.writer = LegacyMessageWriter(first_number, store=store, channel=str(number))
        self._snapshots = LegacyLoop(self._snapshot_loop, pace, start_ns)
        self._definitions = LegacyLoop(self._definition_loop, pace, start_ns)
        self._last_sent_ns = start_ns
        self._entries: list[Values] = []
        self._traded: dict[int, tuple[object, tuple[int, int], int]] = {}
        """By instrument: statistics of its session, the last trade, and the volume since."""
        self._sent: list[bytes] = []
        self._now_ns = start_ns
        self._publish_item: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys(ENTRIES, self._statistic),
            **dict.fromkeys((NewOrderMbo, ChangeOrderMbo, DeleteOrderMbo), self._book),
            MassDeleteOrders: self._book,
            SecurityStatus: self._status,
            SecurityGroupPhase: self._phase,
            EmptyBook: self._empty_book,
            ChannelReset: self._channel_reset,
            SequenceReset: self._sequence_reset,
            News: self._news,
            SecurityDefinition: self._definition,
        }

    @property
    def next_due_ns(self) -> int:
        """Time of the next scheduled datagram."""
        return min(
            self._last_sent_ns + HEARTBEAT_NS,
            self._snapshots.next_due_ns,
            self._definitions.next_due_ns,
        )

    def advance(self, now_ns: int) -> list[Sent]:
        """Return the datagrams scheduled up to a time, in order of time."""
        sent: list[Sent] = []
        while (due := self._last_sent_ns + HEARTBEAT_NS) <= now_ns:
            sent += [(LegacyStream.INCREMENTAL, due, each) for each in self.writer.heartbeat(due)]
            self._last_sent_ns = due
        for stream, messages in (
            (LegacyStream.MARKET_RECOVERY, self._snapshots),
            (LegacyStream.INSTRUMENT_DEFINITION, self._definitions),
        ):
            sent += [(stream, time_ns, datagram) for time_ns, datagram in messages.advance(now_ns)]
        sent.sort(key=lambda each: each[1])
        return sent

    def publish(self, units: Iterable[MarketEvent], now_ns: int) -> list[Sent]:
        """Publish units of events now, after the datagrams that were due before."""
        sent = self.advance(now_ns)
        self._now_ns = now_ns
        for unit in units:
            for item in unit.items:
                handler = self._publish_item.get(type(item))
                if handler is not None:  # the legacy feed has no entry for some events
                    handler(item)
            self._flush()
        if self._sent:
            self._last_sent_ns = now_ns
            sent += [(LegacyStream.INCREMENTAL, now_ns, datagram) for datagram in self._sent]
            self._sent = []
        return sent

    def initialize(self, now_ns: int) -> list[Sent]:
        """Publish a start of the system: message numbers restart at 1 (002 §5.3.7)."""
        return self.publish([MarketEvent([SequenceReset(self.number)])], now_ns)

    # Entries

    def _add(self, instrument: PublishedInstrument, entry: Values) -> None:
        instrument.rpt_seq += 1
        own = {"SecurityID": instrument.security_id, "RptSeq": instrument.rpt_seq}
        self._entries.append(entry | own)
        if len(self._entries) >= ENTRIES_PER_MESSAGE:
            self._flush()

    def _flush(self) -> None:
        if self._entries:
            entries, self._entries = self._entries, []
            self._write(loop.INCREMENTAL, {"MDEntries": entries})

    def _write(self, template: str, values: Values) -> None:
        self._sent += self.writer.write(template, values, self._now_ns)

    def _message(self, template: str, values: Values) -> None:
        """Write a message that is not an entry, after the entries queued before it."""
        self._flush()
        self._write(template, values)

    def _book(self, item: BookItem) -> None:
        instrument = self.state.instruments[item.security_id]
        instrument.emptied = False
        for entry in self.books.entries(item):
            self._add(instrument, entry)

    def _statistic(self, item: Any) -> None:
        instrument = self.state.instruments[item.security_id]
        instrument.emptied = False
        stated = instrument.statistics.get(ExecutionStatistics)
        if isinstance(item, (Trade, ForwardTrade, LastTradePrice)):
            instrument.traded(item)
        elif type(item) in _SHOWN:
            instrument.show(item)
        if isinstance(item, PriceBand) and item.band_type in OSCILLATION:
            item = oscillation(instrument.statistics)
        entries = ENTRIES[type(item)](item)
        if isinstance(item, (Trade, ForwardTrade)):
            entries[0]["TradeVolume"] = self._volume(stated, item)
        elif isinstance(item, ExecutionStatistics):
            entries += withdrawn_average(stated, item)
        for entry in entries:
            self._add(instrument, entry)

    def _volume(self, stated: object, trade: Trade | ForwardTrade) -> int | None:
        """Return the volume of the session up to a trade (002 §15.10); None for a correction.

        ``stated`` are the last statistics of the session.
        """
        base, newest, volume = self._traded.get(trade.security_id, (None, (0, 0), 0))
        number = (trade.trade_date, trade.trade_id)
        if number <= newest:
            return None
        # Statistics include the trades before them; those of another session are gone.
        volume = (volume if base is stated else 0) + trade.size
        self._traded[trade.security_id] = (stated, number, volume)
        return volume + (stated.trade_volume if isinstance(stated, ExecutionStatistics) else 0)

    def _empty_book(self, item: EmptyBook) -> None:
        instrument = self.state.instruments[item.security_id]
        instrument.empty_book()
        self.books.empty([item.security_id])
        own = {"SecurityID": item.security_id, "RptSeq": 0}
        self._entries.append(_empty(item.time_ns) | own)

    def _channel_reset(self, item: ChannelReset) -> None:
        for instrument in self.state.instruments.values():
            instrument.clear_book()
        self.books.empty(self.state.instruments)
        self._flush()
        # The entry needs a SecurityID; 0 stands for no instrument.
        self._entries.append(_empty(item.time_ns) | {"SecurityID": 0, "RptSeq": 0})
        self._flush()

    # Separate messages

    def _sequence_reset(self, _item: SequenceReset) -> None:
        self._flush()
        self._sent += self.writer.reset(self._now_ns)

    def _status(self, item: SecurityStatus) -> None:
        instrument = self.state.instruments[item.security_id]
        own, phase = instrument.own_status, self.state.phases.get(instrument.group)
        self.state.status(item)
        values = self._of_session(item)
        values["SecurityID"] = item.security_id
        values["SecurityTradingStatus"] = None if item.status is None else int(item.status)
        self._message(loop.SECURITY_STATUS, values)
        if own is not None and item.event != _REJOINS and phase and phase.phase == item.status:
            # Receivers read the state of the group as a return to it (002 §15.6): leave it again.
            self._message(loop.SECURITY_STATUS, values)

    def _phase(self, item: SecurityGroupPhase) -> None:
        self.state.phase(item)
        values = self._of_session(item)
        values["SecurityGroup"] = item.group
        values["TradingSessionSubID"] = f"{int(item.phase):02d}"
        self._message(loop.SECURITY_STATUS, values)

    @staticmethod
    def _of_session(item: SecurityStatus | SecurityGroupPhase) -> Values:
        opens = item.open_time_ns
        return {
            "SecurityExchange": "BVMF",
            "TradeDate": day_digits(item.trade_date),
            "TradingSessionID": int(item.trading_session),
            "TradSesOpenTime": None if opens is None else timestamp_digits(opens),
            "TransactTime": timestamp_digits(item.transact_time_ns),
            "SecurityTradingEvent": int(item.event) if item.event == _SESSION_CHANGE else None,
        }

    def _news(self, item: News) -> None:
        about = [] if item.security_id is None else [{"SecurityID": item.security_id}]
        self._message(
            loop.NEWS,
            {
                "OrigTime": timestamp_digits(item.orig_time_ns),
                "NewsSource": str(int(item.source)),
                "NewsID": None if item.news_id is None else str(item.news_id),
                "LanguageCode": item.language,
                "Headline": _ascii(item.headline),
                "URLLink": item.url or None,
                "EncodedHeadlineLen": len(item.headline.encode()),
                "EncodedHeadline": item.headline,
                "RelatedSym": [each | {"SecurityExchange": "BVMF"} for each in about] or None,
                "LinesOfText": [
                    {
                        "Text": _ascii(line),
                        "EncodedTextLen": len(line.encode()),
                        "EncodedText": line,
                    }
                    for line in item.text.splitlines()
                ]
                or None,
            },
        )

    def _definition(self, item: SecurityDefinition) -> None:
        self.state.define(item)
        if item.action == SecurityUpdateAction.DELETE:
            self._traded.pop(item.instrument.security_id, None)
        for values in lists([item.instrument], item.action, self.number):
            self._message(loop.SECURITY_LIST, values)

    # Loops

    def _definition_loop(self) -> LoopMessages | None:
        instruments: Sequence[Instrument] = list(self.state.definitions.values())
        if not instruments:
            return None
        rows = lists(instruments, SecurityUpdateAction.ADD, self.number)
        return ((loop.SECURITY_LIST, values) for values in rows)

    def _snapshot_loop(self) -> LoopMessages | None:
        # An emptied book has no snapshot until it has data again (002 §5.3.8).
        turns = [
            each.security_id
            for each in self.state.instruments.values()
            if not each.emptied and (each.rpt_seq or each.group in self.state.phases)
        ]
        return self._snapshot_messages(turns) if turns else None

    def _snapshot_messages(self, turns: list[int]) -> LoopMessages:
        for security_id in turns:
            instrument = self.state.instruments.get(security_id)
            yield loop.SNAPSHOT, self.snapshot(security_id, instrument, len(turns))

    def snapshot(
        self, security_id: int, instrument: PublishedInstrument | None, reports: int
    ) -> Values:
        """Return the snapshot of an instrument, without entries if it was deleted or emptied."""
        entries: list[Values] = []
        rpt_seq = 0
        if instrument is not None and not instrument.emptied:
            rpt_seq = instrument.rpt_seq
            entries = [*self.books.snapshot(instrument), *self._shown(instrument)]
        return {
            "LastMsgSeqNumProcessed": self.writer.last_number,
            "TotNumReports": reports,
            "MarketDepth": self.books.market_depth,
            "RptSeq": rpt_seq,
            "SecurityID": security_id,
            "MDEntries": entries,
        }

    def _shown(self, instrument: PublishedInstrument) -> Iterator[Values]:
        shown: list[Any] = [
            item
            for item in instrument.statistics.values()
            if not (isinstance(item, PriceBand) and item.band_type in OSCILLATION)
        ]
        tunnel = oscillation(instrument.statistics)
        if tunnel is not None:
            shown.append(tunnel)
        last = instrument.last_price()
        if last is not None:
            shown.append(last)
        for item in shown:
            for entry in ENTRIES[type(item)](item) if type(item) in ENTRIES else ():
                yield _in_snapshot(entry)
        phase = self.state.phases.get(instrument.group)
        own = instrument.own_status
        if phase is not None or own is not None:
            yield {
                "MDEntryType": TRADING_STATE,
                "TradingSessionSubID": None if phase is None else f"{int(phase.phase):02d}",
                "SecurityTradingStatus": (
                    None if own is None or own.status is None else int(own.status)
                ),
            }


def _empty(time_ns: int) -> Values:
    return {"MDUpdateAction": NEW, "MDEntryType": EMPTY_BOOK, **at(time_ns)}


def _in_snapshot(entry: Values) -> Values:
    """Return an entry in the form of snapshots: without an action, its time as text."""
    own = {name: value for name, value in entry.items() if name != "MDUpdateAction"}
    own["MDEntryTime"] = f"{own['MDEntryTime']:09d}"
    return own


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
