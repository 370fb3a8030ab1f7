"""State of a legacy channel other than its books: instruments, phases, statistics, news.

Statistics are separate by venue (MDStreamID, 002 §10). Group codes are not unique across
exchanges, so a group is identified by its code and exchange (002 §11).

Everything is ordered by sequence number, as on the binary feed: a snapshot replaces what was
published up to its own number (tag 369), and removes what it does not show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pregao.events import DefinitionChange
from pregao.feed.legacy.book_updates import (
    DELETE,
    ELECTRONIC,
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
    with_defaults,
)
from pregao.feed.listener import EventMessage
from pregao.feed.recovery import MAX_INSTRUMENTS
from pregao.legacy.loop_line import LoopEnded, LoopMessage
from pregao.legacy.messages import LegacyMessage, MsgType
from pregao.umdf.loops import DefinitionLoop
from pregao.umdf.news import DEFAULT_LANGUAGE
from pregao.umdf.phases import (
    GroupKey,
    PhaseEvent,
    Phases,
    StatisticsReset,
    Status,
    StatusChange,
    TradingEvent,
    instrument_status,
    is_undefined,
    phase_status,
)
from pregao.umdf.sequencing import PacketKey, covers

MAX_NEWS = 1000
MAX_TRADES = 1_000_000
"""Maximum number of trades that wait to be taken; older ones are dropped."""
RESET_WITH_THE_SESSION: Final = frozenset("34789AB")
"""Entry types that restart with a trading session (002 §11.3); so does a trade's volume."""
THEORETICAL: Final = 5
"""OpenCloseSettlFlag of an opening price that is an auction's theoretical price."""
_BY_FLAG: Final = {"4": "OpenCloseSettlFlag", "5": "OpenCloseSettlFlag", "6": "OpenCloseSettlFlag"}
_BY_KIND: Final = {**_BY_FLAG, "g": "PriceBandType"}
_LAST_FRAGMENT: Final = ("Y", "1", 1)
"""FAST encodes a Boolean as an integer (002 §3.1.3); some templates have it as text."""
_VOLUME: Final = "1020"
"""Type in the key under which the volume of a venue's trades (tag 1020) is ordered."""
_DELETED: Final = "D"


class StatisticKey(NamedTuple):
    """Identifies one of an instrument's statistics; several of one type may coexist."""

    entry_type: str
    stream_id: str
    kind: int | None = None
    """Flag of an opening, closing or settlement price, or type of a price band; 0 if absent."""


@dataclass(frozen=True, slots=True)
class LegacyInstrument:
    """An instrument by its last definition."""

    security_id: int
    symbol: str
    group: GroupKey
    values: Mapping[str, Any]


class InstrumentChange(NamedTuple):
    """An instrument was added or deleted."""

    security_id: int
    symbol: str
    change: DefinitionChange


LegacyStateChange = StatusChange | InstrumentChange


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
    variant = None if field is None else number_of(with_defaults(entry)[field])
    return StatisticKey(kind, stream_id_of(entry), variant)


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
        self,
        max_instruments: int = MAX_INSTRUMENTS,
        *,
        milliseconds: bool | None = None,
        separate_states: bool = True,
    ) -> None:
        """``milliseconds`` states whether the platform's times of day include them; None decides
        by their size. ``separate_states`` states whether an instrument keeps its own state when its
        group gets another one.
        """
        self._max_instruments = max_instruments
        self._milliseconds = milliseconds
        self._separate_states = separate_states
        self.dropped = 0
        """Definitions of instruments beyond the limit."""
        self.instruments: dict[int, LegacyInstrument] = {}
        self.complete = False
        """Whether a complete loop of definitions was received, and no message was lost since."""
        self.phases = Phases()
        self.phases_doubted = False
        """Whether messages were lost that may have changed a phase or state."""
        self.statistics: dict[int, dict[StatisticKey, Entry]] = {}
        self.volumes: dict[tuple[int, str], int] = {}
        """Volume traded in the session, from trades (tag 1020)."""
        self.last_trades: dict[tuple[int, str], LegacyTrade] = {}
        """The last trade of each instrument and venue."""
        self.news: deque[Mapping[str, Any]] = deque(maxlen=MAX_NEWS)
        self._trades: deque[LegacyTrade] = deque(maxlen=MAX_TRADES)
        self._loop: DefinitionLoop[Entry] = DefinitionLoop()
        self._newer: set[int] = set()
        """Instruments that the incremental stream defined while a loop is incomplete."""
        self._removed: list[int] = []
        self._changes: list[LegacyStateChange] = []
        self._position = PacketKey(1, 0)
        """The last message of the incremental stream."""
        self._lost_at: PacketKey | None = None
        """The last message that was lost."""
        # What published each value, or removed it: later data is not replaced by earlier data.
        self._published: dict[int, dict[StatisticKey, PacketKey]] = {}
        self._status_published: dict[int, PacketKey] = {}
        self._phase_published: dict[GroupKey, PacketKey] = {}
        self._group_states: dict[GroupKey, tuple[PacketKey, int, int]] = {}
        """Phase and state that a group gave to all of its instruments, after its message."""
        self._sessions: dict[int, PacketKey] = {}
        self._group_sessions: dict[GroupKey, PacketKey] = {}
        self._auctions: dict[int, PacketKey] = {}
        """The end of the last pre-open of each instrument."""
        self._deletions: dict[int, PacketKey] = {}
        """The last deletion of each instrument, even if it is listed again."""
        self._early: dict[int, tuple[PacketKey, int]] = {}
        """Phases that snapshots showed before the definitions of their instruments."""

    def take_trades(self) -> list[LegacyTrade]:
        """Return and clear the trades and busts since the last call."""
        trades = list(self._trades)
        self._trades.clear()
        return trades

    def take_changes(self) -> list[LegacyStateChange]:
        """Return and clear the changes of instruments and of their states since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def take_removed(self) -> list[int]:
        """Return and clear the instruments removed since the last call."""
        removed, self._removed = self._removed, []
        return removed

    def is_deleted(self, security_id: int, as_of: PacketKey) -> bool:
        """Whether an instrument was deleted after a message."""
        deleted = self._deletions.get(security_id)
        return deleted is not None and not covers(as_of, deleted)

    # The incremental stream

    def lost(self, last: PacketKey) -> None:
        """Record the loss of messages up to one: definitions and phases may have changed (§8)."""
        self.complete = False
        self.phases_doubted = True
        self._loop = DefinitionLoop()
        self._newer.clear()
        self._lost_at = last

    def message(
        self,
        message: LegacyMessage,
        admits: Callable[[int], bool] = _everything,
        packet_key: PacketKey | None = None,
    ) -> None:
        """Apply a message of the incremental stream to the instruments that are followed.

        Without a ``packet_key``, it follows the last one.
        """
        values = message.values
        version, number = self._position
        self._position = PacketKey(version, number + 1) if packet_key is None else packet_key
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
                    if not self.complete:
                        self._newer.add(row["SecurityID"])
                    self._define(row)
            case MsgType.NEWS:
                language = values.get("LanguageCode") or DEFAULT_LANGUAGE
                self.news.append({**values, "LanguageCode": language})

    def _entry(self, entry: Entry) -> None:
        security_id = entry.get("SecurityID") or 0
        trade = trade_of(entry, milliseconds=self._milliseconds)
        if trade is not None:
            self._trade(trade, entry)
            return
        key = statistic_key(entry)
        if key is None:
            return
        if entry.get("MDUpdateAction") == DELETE:
            self._remove_statistic(security_id, key, self._position)
        else:
            self._keep(security_id, key, entry, self._position)

    def _keep(
        self, security_id: int, key: StatisticKey, entry: Entry, packet_key: PacketKey
    ) -> None:
        self.statistics.setdefault(security_id, {})[key] = with_defaults(entry)
        self._published.setdefault(security_id, {})[key] = packet_key

    def _remove_statistic(self, security_id: int, key: StatisticKey, packet_key: PacketKey) -> None:
        """Remove a statistic, the last trade or the volume of a venue, as of a message."""
        self._published.setdefault(security_id, {})[key] = packet_key
        if key.entry_type == _VOLUME:
            self.volumes.pop((security_id, key.stream_id), None)
            return
        self.statistics.get(security_id, {}).pop(key, None)
        if key.entry_type == TRADE:
            self.last_trades.pop((security_id, key.stream_id), None)

    def _trade(self, trade: LegacyTrade, entry: Entry) -> None:
        venue = (trade.security_id, trade.stream_id)
        self._keep_volume(trade, self._position)
        # The trade received last need not be the last: compare time and number (002 §10.1 note 1).
        last = self.last_trades.get(venue)
        if not trade.busted and (last is None or _later(trade, last)):
            trade = self._keep_last(trade, entry, self._position)
        self._trades.append(trade)

    def _keep_last(self, trade: LegacyTrade, entry: Entry, packet_key: PacketKey) -> LegacyTrade:
        trade = replace(trade, makes_last=trade.stream_id == ELECTRONIC)
        self.last_trades[trade.security_id, trade.stream_id] = trade
        self._keep(trade.security_id, StatisticKey(TRADE, trade.stream_id), entry, packet_key)
        return trade

    def _keep_volume(self, trade: LegacyTrade, packet_key: PacketKey) -> None:
        if trade.volume is not None:
            key = StatisticKey(_VOLUME, trade.stream_id)
            self.volumes[trade.security_id, trade.stream_id] = trade.volume
            self._published.setdefault(trade.security_id, {})[key] = packet_key

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
            self._group_status(key, phase, status, session)
        elif security_id is not None:
            self._instrument_status(security_id, phase, status, session)

    def _group_status(
        self, group: GroupKey, phase: int | None, status: int | None, session: int | None
    ) -> None:
        """Apply the status of a group (002 §11, §15.6)."""
        self._phase_published[group] = self._position
        previous = self.phases.phase(group)
        phase = phase or status
        if session is not None:
            self._group_sessions[group] = self._position
        self._changed(self.phases.group_phase(group, phase, session))
        if phase is not None and status is not None and not self._separate_states:
            self._group_states[group] = self._position, phase, status
            for security_id in self.phases.members(group):
                self._set_state(security_id, phase, status, self._position)
        if previous is Status.RESERVED is not self.phases.phase(group):
            self._forget_theoretical(group, self._position)

    def _instrument_status(
        self, security_id: int, phase: int | None, status: int | None, session: int | None
    ) -> None:
        """Apply an instrument's status; its value shows if it rejoins its group (§15.6)."""
        instrument = self.instruments.get(security_id)
        if instrument is not None and phase is not None:
            self._phase_published[instrument.group] = self._position
            self._changed(self.phases.group_phase(instrument.group, phase))
        if status is not None:
            self._status_published[security_id] = self._position
            event = self.phases.inferred_event(security_id, status)
            self._changed(self.phases.security_status(security_id, status, event))
        if session is not None:
            self._changed([StatisticsReset((security_id,))])

    def _set_state(
        self, security_id: int, phase: int | None, status: int | None, packet_key: PacketKey
    ) -> None:
        """Set an instrument's state, whatever it was; it follows its group if it has its state."""
        self._status_published[security_id] = packet_key
        own = instrument_status(status)
        if status is None or (own is phase_status(phase) and not is_undefined(status)):
            self._changed(self.phases.security_status(security_id, None))
        else:
            event = TradingEvent.SECURITY_STATUS_CHANGE
            self._changed(self.phases.security_status(security_id, status, event))

    def _changed(self, changes: Iterable[PhaseEvent]) -> None:
        for change in changes:
            if isinstance(change, StatisticsReset):
                for security_id in change.security_ids:
                    self._reset_statistics(security_id, self._position)
            else:
                self._changes.append(change)

    def _reset_statistics(self, security_id: int, packet_key: PacketKey) -> None:
        """Remove what restarts with a session that began with a message (002 §11.3)."""
        self._sessions[security_id] = packet_key
        for key, published in list(self._published.get(security_id, {}).items()):
            if not covers(packet_key, published):
                continue
            if key.entry_type in RESET_WITH_THE_SESSION or key.entry_type == _VOLUME:
                self._remove_statistic(security_id, key, packet_key)
            elif key.entry_type == TRADE:
                # The last trade stays, without the volume that it states.
                own = self.statistics.get(security_id, {})
                if own.get(key, {}).get("TradeVolume") is not None:
                    own[key] = {**own[key], "TradeVolume": None}

    def _forget_theoretical(self, group: GroupKey, packet_key: PacketKey) -> None:
        """Remove the theoretical prices of instruments that left pre-open (002 §10.7)."""
        for security_id in self.phases.members(group):
            if self.phases.status(security_id) is Status.RESERVED:
                continue
            self._auctions[security_id] = packet_key
            for key, published in list(self._published.get(security_id, {}).items()):
                if is_theoretical(key) and covers(packet_key, published):
                    self._remove_statistic(security_id, key, packet_key)

    # Definitions

    def definition(self, found: LoopMessage | LoopEnded) -> None:
        """Process a message or a loop end of the instrument definition stream (002 §5.3.4).

        Once a loop was complete, the incremental stream has all changes (002 §8).
        """
        loop = self._loop
        if self.complete:
            return
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
            if row["SecurityID"] not in self._newer:
                self._define(row)
        if values.get("LastFragment") in _LAST_FRAGMENT:
            loop.end()
            self._whole_loop()

    def _whole_loop(self) -> None:
        """Remove the instruments that are not in a complete loop: they are no longer listed."""
        if not self._loop.complete:
            return
        listed = self._loop.definitions.keys() | self._newer
        for security_id in [each for each in self.instruments if each not in listed]:
            self._remove(security_id)
        self.complete = True
        self._loop = DefinitionLoop()
        self._newer.clear()

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
        before = self.instruments.get(security_id)
        self.instruments[security_id] = LegacyInstrument(security_id, symbol, group, row)
        if before is None:
            self._changes.append(InstrumentChange(security_id, symbol, DefinitionChange.ADDED))
        self._changed(self.phases.define(security_id, group))
        if before is None or before.group != group:
            self._join_group(security_id, group)

    def _join_group(self, security_id: int, group: GroupKey) -> None:
        """Apply what was received before the definition of an instrument."""
        early = self._early.pop(security_id, None)
        if early is not None:
            self._show_phase(group, early[1], early[0])
        session = self._group_sessions.get(group)
        if session is not None and _is_newer(session, self._sessions.get(security_id)):
            self._reset_statistics(security_id, session)
        state = self._group_states.get(group)
        if state is not None and _is_newer(state[0], self._status_published.get(security_id)):
            self._set_state(security_id, *state[1:], state[0])

    def _remove(self, security_id: int) -> None:
        """Remove an instrument and all that is known of it (002 §8.3)."""
        before = self.instruments.pop(security_id, None)
        if before is not None:
            deleted = InstrumentChange(security_id, before.symbol, DefinitionChange.DELETED)
            self._changes.append(deleted)
        self.phases.remove(security_id)
        for own in (self.volumes, self.last_trades):
            for venue in [venue for venue in own if venue[0] == security_id]:
                del own[venue]
        by_instrument: tuple[dict[int, Any], ...] = (
            self.statistics,
            self._published,
            self._status_published,
            self._sessions,
            self._auctions,
            self._early,
        )
        for each in by_instrument:
            each.pop(security_id, None)
        self._removed.append(security_id)
        self._deletions[security_id] = self._position
        if len(self._deletions) > self._max_instruments:
            del self._deletions[next(iter(self._deletions))]

    # Snapshots

    def snapshot(
        self, message: LegacyMessage | EventMessage, packet_key: PacketKey | None = None
    ) -> None:
        """Apply a snapshot of an instrument as of a message, or the last one (002 §6.1, §11.4)."""
        values = message.values
        security_id = values["SecurityID"]
        packet_key = self._position if packet_key is None else packet_key
        if self.is_deleted(security_id, packet_key):
            return
        session, auction = self._sessions.get(security_id), self._auctions.get(security_id)
        ended = session is not None and not covers(packet_key, session)
        over = auction is not None and not covers(packet_key, auction)
        shown: set[StatisticKey] = set()
        for entry in values.get("MDEntries", ()):
            kind = entry.get("MDEntryType")
            if kind == TRADING_STATE:
                self._shown_state(security_id, entry, packet_key)
            elif kind == TRADE:
                shown |= self._shown_trade(security_id, entry, packet_key, ended=ended)
            elif (key := statistic_key(entry)) is not None:
                shown.add(key)
                if ended and key.entry_type in RESET_WITH_THE_SESSION:
                    continue
                if over and is_theoretical(key):
                    continue
                if self._is_current(security_id, key, packet_key):
                    self._keep(security_id, key, entry, packet_key)
        self._forget_but(security_id, shown, packet_key)

    def _is_current(self, security_id: int, key: StatisticKey, packet_key: PacketKey) -> bool:
        """Whether nothing newer than a snapshot was published about a statistic."""
        return _is_newer(packet_key, self._published.get(security_id, {}).get(key))

    def _shown_trade(
        self, security_id: int, entry: Entry, packet_key: PacketKey, *, ended: bool
    ) -> set[StatisticKey]:
        """Apply the last trade of a snapshot (002 §10.1); return the keys of what it shows."""
        key = StatisticKey(TRADE, stream_id_of(entry))
        of_volume = StatisticKey(_VOLUME, key.stream_id)
        trade = trade_of({**entry, "SecurityID": security_id}, milliseconds=self._milliseconds)
        if ended:
            entry = {**entry, "TradeVolume": None}
        if self._is_current(security_id, key, packet_key):
            if trade is None:  # only the price of the last trade
                self._keep(security_id, key, entry, packet_key)
            else:
                self._keep_last(trade, entry, packet_key)
        if trade is None or trade.volume is None:
            return {key}
        if not ended and self._is_current(security_id, of_volume, packet_key):
            self._keep_volume(trade, packet_key)
        return {key, of_volume}

    def loop(self, packet_key: PacketKey, members: Collection[int]) -> None:
        """Apply a complete snapshot loop: other instruments had no statistics (002 §5.3.5)."""
        for security_id in [each for each in self._published if each not in members]:
            self._forget_but(security_id, (), packet_key)
        if self._lost_at is None or covers(packet_key, self._lost_at):
            self.phases_doubted = False

    def _forget_but(
        self, security_id: int, shown: Collection[StatisticKey], packet_key: PacketKey
    ) -> None:
        """Remove what was published up to a message and is not shown as of it."""
        for key, published in list(self._published.get(security_id, {}).items()):
            if key not in shown and covers(packet_key, published):
                self._remove_statistic(security_id, key, packet_key)

    def _shown_state(self, security_id: int, entry: Entry, packet_key: PacketKey) -> None:
        phase = number_of(entry.get("TradingSessionSubID"))
        status = entry.get("SecurityTradingStatus")
        instrument = self.instruments.get(security_id)
        if instrument is not None and phase is not None:
            self._show_phase(instrument.group, phase, packet_key)
        elif phase is not None and len(self._early) < self._max_instruments:
            self._early[security_id] = packet_key, phase
        if _is_newer(packet_key, self._status_published.get(security_id)):
            self._set_state(security_id, phase, status, packet_key)

    def _show_phase(self, group: GroupKey, phase: int, packet_key: PacketKey) -> None:
        """Apply the phase of a group from a snapshot as of a message."""
        if not _is_newer(packet_key, self._phase_published.get(group)):
            return
        self._phase_published[group] = packet_key
        previous = self.phases.phase(group)
        self._changed(self.phases.group_phase(group, phase))
        if previous is Status.RESERVED is not self.phases.phase(group):
            self._forget_theoretical(group, packet_key)


def _is_newer(packet_key: PacketKey, last: PacketKey | None) -> bool:
    """Whether data as of a message replaces data that another one published."""
    return last is None or covers(packet_key, last)


def _later(trade: LegacyTrade, last: LegacyTrade) -> bool:
    if trade.time_ns != last.time_ns:
        return (trade.time_ns or 0) > (last.time_ns or 0)
    return (number_of(trade.trade_id) or 0) >= (number_of(last.trade_id) or 0)
