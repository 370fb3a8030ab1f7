"""State of a legacy channel other than its books: instruments, phases, statistics, news.

Statistics are separate by venue (MDStreamID, 002 §10). Group codes are not unique across
exchanges, so a group is identified by its code and exchange (002 §11).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pregao.feed.legacy.book_updates import (
    DELETE,
    EXCHANGE_LAST,
    IMBALANCE,
    OPENING_PRICE,
    SIDES,
    TRADE,
    TRADING_STATE,
    Entry,
    LegacyTrade,
    conditions,
    number_of,
    stream_id_of,
    trade_of,
)
from pregao.feed.recovery import MAX_INSTRUMENTS
from pregao.legacy.loop_line import LoopEnded, LoopMessage
from pregao.legacy.messages import LegacyMessage, MsgType
from pregao.umdf.loops import DefinitionLoop
from pregao.umdf.phases import (
    GroupKey,
    Phases,
    StatisticsReset,
    Status,
    TradingEvent,
    instrument_status,
    phase_status,
)

MAX_NEWS = 1000
MAX_TRADES = 1_000_000
"""Maximum number of trades that wait to be taken; older ones are dropped."""
RESET_WITH_THE_SESSION: Final = frozenset("34789AB")
"""Entry types that restart with a trading session (002 §11.3); so does a trade's volume."""
THEORETICAL: Final = 5
"""OpenCloseSettlFlag of an opening price that is an auction's theoretical price."""
_BY_FLAG: Final = {"4": "OpenCloseSettlFlag", "5": "OpenCloseSettlFlag", "6": "OpenCloseSettlFlag"}
_BY_KIND: Final = {**_BY_FLAG, "g": "PriceBandType"}
_LAST_FRAGMENT: Final = ("Y", "1")
_DELETED: Final = "D"


class StatisticKey(NamedTuple):
    """Identifies one of an instrument's statistics; several of one type may coexist."""

    entry_type: str
    stream_id: str
    kind: Any = None
    """Flag of an opening, closing or settlement price, or type of a price band."""


@dataclass(frozen=True, slots=True)
class LegacyInstrument:
    """An instrument by its last definition."""

    security_id: int
    symbol: str
    group: GroupKey
    values: Mapping[str, Any]


def _flag(value: Any) -> Any:
    return number_of(value) if isinstance(value, str) else value


def statistic_key(entry: Entry) -> StatisticKey | None:
    """Return the key of an entry's statistic; None for book and state entries, and trades."""
    kind = entry.get("MDEntryType")
    if kind is None or kind in SIDES or kind in ("J", TRADING_STATE):
        return None
    if kind == TRADE:
        trade_conditions = conditions(entry.get("TradeCondition"))
        return (
            StatisticKey(kind, stream_id_of(entry)) if EXCHANGE_LAST in trade_conditions else None
        )
    field = _BY_KIND.get(kind)
    return StatisticKey(kind, stream_id_of(entry), None if field is None else _of(entry, field))


def _of(entry: Entry, field: str) -> Any:
    return _flag(entry.get(field)) if field == "OpenCloseSettlFlag" else entry.get(field)


def is_theoretical(key: StatisticKey) -> bool:
    """Whether this is an auction's theoretical price or imbalance."""
    return key.entry_type == IMBALANCE or (
        key.entry_type == OPENING_PRICE and key.kind == THEORETICAL
    )


def _everything(_security_id: int) -> bool:
    return True


class LegacyState:
    """State from messages and snapshots, without the books."""

    def __init__(
        self, max_instruments: int = MAX_INSTRUMENTS, *, milliseconds: bool | None = None
    ) -> None:
        """``milliseconds`` states whether the platform's times of day include them; None decides
        by their size.
        """
        self._max_instruments = max_instruments
        self._milliseconds = milliseconds
        self.dropped = 0
        """Definitions of instruments beyond the limit."""
        self.instruments: dict[int, LegacyInstrument] = {}
        self.complete = False
        """Whether a complete loop of definitions was received."""
        self.phases = Phases()
        self.statistics: dict[int, dict[StatisticKey, Entry]] = {}
        self.volumes: dict[tuple[int, str], int] = {}
        """Volume traded in the session, from trades (tag 1020)."""
        self.last_trades: dict[tuple[int, str], LegacyTrade] = {}
        """The last trade of each instrument and venue."""
        self.news: deque[Mapping[str, Any]] = deque(maxlen=MAX_NEWS)
        self._trades: deque[LegacyTrade] = deque(maxlen=MAX_TRADES)
        self._loop: DefinitionLoop[Entry] = DefinitionLoop()

    def take_trades(self) -> list[LegacyTrade]:
        """Return and clear the trades and busts since the last call."""
        trades = list(self._trades)
        self._trades.clear()
        return trades

    # The incremental stream

    def message(self, message: LegacyMessage, admits: Callable[[int], bool] = _everything) -> None:
        """Apply a message of the incremental stream to the instruments that are followed."""
        values = message.values
        match message.type:
            case MsgType.INCREMENTAL_REFRESH:
                for entry in values.get("MDEntries", ()):
                    if admits(entry.get("SecurityID") or 0):
                        self._entry(entry)
            case MsgType.SECURITY_STATUS:
                if admits(values.get("SecurityID") or 0):
                    self._status(values)
            case MsgType.SECURITY_LIST:
                for row in values.get("RelatedSym", ()):
                    self._define(row)
            case MsgType.NEWS:
                self.news.append(values)

    def _entry(self, entry: Entry) -> None:
        security_id = entry.get("SecurityID") or 0
        trade = trade_of(entry, milliseconds=self._milliseconds)
        if trade is not None:
            self._trade(trade)
            return
        key = statistic_key(entry)
        if key is None:
            return
        if entry.get("MDUpdateAction") == DELETE:
            self.statistics.get(security_id, {}).pop(key, None)
        else:
            self.statistics.setdefault(security_id, {})[key] = entry

    def _trade(self, trade: LegacyTrade) -> None:
        key = (trade.security_id, trade.stream_id)
        if trade.volume is not None:
            self.volumes[key] = trade.volume
        # The trade received last need not be the last: compare time and number (002 §10.1 note 1).
        last = self.last_trades.get(key)
        if not trade.busted and (last is None or _later(trade, last)):
            trade = self.last_trades[key] = replace(trade, makes_last=True)
        self._trades.append(trade)

    def _status(self, values: Mapping[str, Any]) -> None:
        event = values.get("SecurityTradingEvent")
        exchange = values.get("SecurityExchange") or "BVMF"
        phase = number_of(values.get("TradingSessionSubID"))
        status = values.get("SecurityTradingStatus")
        group = values.get("SecurityGroup")
        security_id = values.get("SecurityID")
        session = event if event == TradingEvent.TRADING_SESSION_CHANGE else None
        key = GroupKey(group or "", exchange)
        full = len(self.phases.groups) >= self._max_instruments
        if group and (key in self.phases.groups or not full):
            previous = self.phases.phase(key)
            self._changed(self.phases.group_phase(key, phase or status, session))
            if previous is Status.RESERVED:
                self._forget_theoretical(key)
        elif security_id is not None:
            self._instrument_status(security_id, phase, status, session)

    def _instrument_status(
        self, security_id: int, phase: int | None, status: int | None, session: int | None
    ) -> None:
        """Apply an instrument's status; its value shows if it rejoins its group (§15.6)."""
        instrument = self.instruments.get(security_id)
        if instrument is not None and phase is not None:
            self._changed(self.phases.group_phase(instrument.group, phase))
        if status is not None:
            event = self.phases.inferred_event(security_id, status)
            self._changed(self.phases.security_status(security_id, status, event))
        if session is not None:
            self._changed([StatisticsReset((security_id,))])

    def _changed(self, changes: Iterable[object]) -> None:
        for change in changes:
            if isinstance(change, StatisticsReset):
                for security_id in change.security_ids:
                    self._reset_statistics(security_id)

    def _reset_statistics(self, security_id: int) -> None:
        own = self.statistics.get(security_id, {})
        for key in [key for key in own if key.entry_type in RESET_WITH_THE_SESSION]:
            del own[key]
        for venue in [venue for venue in self.volumes if venue[0] == security_id]:
            del self.volumes[venue]

    def _forget_theoretical(self, group: GroupKey) -> None:
        """Remove the theoretical prices of instruments that left pre-open (002 §10.7)."""
        for security_id, own in self.statistics.items():
            instrument = self.instruments.get(security_id)
            if instrument is None or instrument.group != group:
                continue
            if self.phases.status(security_id) is not Status.RESERVED:
                for key in [key for key in own if is_theoretical(key)]:
                    del own[key]

    # Definitions

    def definition(self, found: LoopMessage | LoopEnded) -> None:
        """Process a message or a loop end of the instrument definition stream (002 §5.3.4)."""
        loop = self._loop
        if isinstance(found, LoopEnded):
            if loop.sequence_version == found.version:
                loop.end()
                self._whole_loop()
            return
        message = found.message
        if message.type is not MsgType.SECURITY_LIST:
            return
        if not loop.packet(found.version, message.number):
            return
        values = message.values
        for row in values.get("RelatedSym", ()):
            loop.definition(row["SecurityID"], values["TotNoRelatedSym"], row)
            self._define(row)
        if values.get("LastFragment") in _LAST_FRAGMENT:
            loop.end()
            self._whole_loop()

    def _whole_loop(self) -> None:
        """Remove the instruments that are not in a complete loop: they are no longer listed."""
        if not self._loop.complete:
            return
        self.complete = True
        for security_id in [
            each for each in self.instruments if each not in self._loop.definitions
        ]:
            self._remove(security_id)

    def _define(self, row: Entry) -> None:
        """Create, change or delete an instrument (002 §8)."""
        security_id = row["SecurityID"]
        if row.get("SecurityUpdateAction") == _DELETED:
            self._remove(security_id)
            return
        if security_id not in self.instruments and len(self.instruments) >= self._max_instruments:
            self.dropped += 1
            return
        group = GroupKey(row.get("SecurityGroup") or "", row.get("SecurityExchange") or "BVMF")
        symbol = row.get("Symbol") or ""
        self.instruments[security_id] = LegacyInstrument(security_id, symbol, group, row)
        self.phases.define(security_id, group)

    def _remove(self, security_id: int) -> None:
        self.instruments.pop(security_id, None)
        self.statistics.pop(security_id, None)
        self.phases.remove(security_id)

    # Snapshots

    def snapshot(self, message: LegacyMessage) -> None:
        """Apply the statistics and state in a snapshot of an instrument (002 §11.4)."""
        security_id = message.values["SecurityID"]
        own: dict[StatisticKey, Entry] = {}
        for entry in message.values.get("MDEntries", ()):
            if entry.get("MDEntryType") == TRADING_STATE:
                self._shown_state(security_id, entry)
            key = statistic_key(entry)
            if key is not None:
                own[key] = entry
        self.statistics[security_id] = own

    def _shown_state(self, security_id: int, entry: Entry) -> None:
        phase = number_of(entry.get("TradingSessionSubID"))
        status = entry.get("SecurityTradingStatus")
        instrument = self.instruments.get(security_id)
        if instrument is not None and phase is not None:
            self.phases.group_phase(instrument.group, phase)
        if status is None:
            self.phases.security_status(security_id, None)
        elif instrument_status(status) is not phase_status(phase) or phase is None:
            event = TradingEvent.SECURITY_STATUS_CHANGE
            self.phases.security_status(security_id, status, event)


def _later(trade: LegacyTrade, last: LegacyTrade) -> bool:
    if trade.time_ns != last.time_ns:
        return (trade.time_ns or 0) > (last.time_ns or 0)
    return (number_of(trade.trade_id) or 0) >= (number_of(last.trade_id) or 0)
