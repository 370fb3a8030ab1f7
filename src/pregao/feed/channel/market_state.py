"""State of a channel other than its books: instruments, phases, states and statistics.

A statistic is in effect from the packet of its message on, and a snapshot replaces what was
published up to its own packet, however late it arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from operator import itemgetter
from typing import Any, Final

from pregao.feed.channel.instruments import ChannelInstrument, Definitions, group_key
from pregao.feed.listener import EventMessage
from pregao.feed.recovery import MAX_INSTRUMENTS
from pregao.records import record
from pregao.schemas.bundle import bundled_message_ids
from pregao.umdf import templates
from pregao.umdf.phases import (
    RESET_WITH_THE_SESSION,
    GroupKey,
    PhaseEvent,
    Phases,
    StatisticsReset,
    Status,
    StatusChange,
    sets_last_price,
)
from pregao.umdf.sequencing import PacketKey, covers

AUCTIONS: Final = (Status.RESERVED, Status.FINAL_CLOSING_CALL)
"""States with a theoretical price."""
STATISTICS: Final = frozenset(
    {
        templates.OPENING_PRICE,
        templates.THEORETICAL_OPENING_PRICE,
        templates.CLOSING_PRICE,
        templates.AUCTION_IMBALANCE,
        templates.QUANTITY_BAND,
        templates.HIGH_PRICE,
        templates.LOW_PRICE,
        templates.LAST_TRADE_PRICE,
        templates.SETTLEMENT_PRICE,
        templates.OPEN_INTEREST,
        templates.EXECUTION_STATISTICS,
        *templates.PRICE_BANDS,
    }
)
"""Messages that each carry one statistic, price band or reference price."""
_NAMES: Final = {
    number: name.rsplit("_", 1)[0] for name, number in bundled_message_ids("umdf").items()
}
_SIDE_BY_SIDE: Final = {
    templates.CLOSING_PRICE: "openCloseSettlFlag",
    templates.SETTLEMENT_PRICE: "openCloseSettlFlag",
    **dict.fromkeys(templates.PRICE_BANDS, "priceBandType"),
}
"""Statistics that have variants, and the field that distinguishes them."""
_DATED: Final = templates.SETTLEMENT_PRICE
"""A statistic whose date distinguishes it where its flag, which is deprecated, is absent."""
MAX_DATES: Final = 16
"""Maximum number of dates of a statistic that are kept; the oldest are removed."""
_OF_THE_DAY: Final = templates.value_names("OpenCloseSettlFlag", 0)
_OF_PREVIOUS_DAY: Final = templates.value_names("OpenCloseSettlFlag", 4)

REPLACING: Final = STATISTICS - _SIDE_BY_SIDE.keys() - {templates.LAST_TRADE_PRICE}
"""Statistics without variants: each one replaces the one before, unless it is a deletion or reports
that no trades are left."""

Key = tuple[str, Any]
"""A statistic's name, and its variant if it has several."""


@record
class Statistic:
    """A statistic as last published."""

    name: str
    kind: str | int | None
    values: Mapping[str, Any]
    template_id: int
    packet_key: PacketKey | None
    """The packet that published it, or that its snapshot is as of; None if that was at a site that
    is no longer followed."""


@record
class StatisticChange:
    """A statistic was published, or removed if ``statistic`` is None."""

    security_id: int
    name: str
    kind: str | int | None
    statistic: Statistic | None


@record
class GroupChange:
    """The phase of a group changed."""

    group: GroupKey
    before: Status
    now: Status


StateChange = StatisticChange | StatusChange | GroupChange


def key_of(template_id: int, values: Mapping[str, Any]) -> Key:
    """Return the key of a statistic, which replaces the earlier one with the same key."""
    field = _SIDE_BY_SIDE.get(template_id)
    kind = None if field is None else values.get(field)
    if kind is None and template_id == _DATED:
        settl_date = values.get("settlDate")
        kind = None if settl_date is None else str(settl_date)
    return _NAMES[template_id], kind


class MarketState:
    """Keeps instruments, phases and statistics from messages and snapshots."""

    def __init__(self, max_instruments: int = MAX_INSTRUMENTS) -> None:
        self.definitions = Definitions(max_instruments)
        self._max_groups = max_instruments
        self.phases = Phases()
        self.statistics: dict[int, dict[Key, Statistic]] = {}
        self._phase_published: dict[GroupKey, tuple[PacketKey, int]] = {}
        """The packet that last published the phase of a group, and the number of gaps by then."""
        self._status_published: dict[int, PacketKey] = {}
        """The packet that last published the state of an instrument."""
        self._session: dict[int, PacketKey] = {}
        """The packet at which the trading session of an instrument began."""
        self._last_trade: dict[int, tuple[date, int]] = {}
        """Date and number of the last trade of an instrument; one not above it is a correction."""
        self._of_auctions: set[int] = set()
        """Instruments that may have statistics to discard at the end of an auction."""

    @property
    def instruments(self) -> Mapping[int, ChannelInstrument]:
        """Instruments by security ID."""
        return self.definitions.known

    def restart(self) -> None:
        """Restart: the channel is followed elsewhere, where earlier packet keys have no meaning."""
        self._phase_published.clear()
        self._status_published.clear()
        self._session.clear()
        self._last_trade.clear()
        for own in self.statistics.values():
            for key, each in own.items():
                own[key] = replace(each, packet_key=None)
        self.definitions.lost()

    # Messages of the incremental stream

    def statistic(
        self, security_id: int, template_id: int, values: Mapping[str, Any], packet_key: PacketKey
    ) -> Iterable[StateChange]:
        """Apply a statistic."""
        key = key_of(template_id, values)
        if values.get("mDUpdateAction") in templates.DELETED:
            return self._remove(security_id, key)
        changes: Iterable[StateChange] = self._set(
            security_id, key, template_id, values, packet_key
        )
        if template_id == templates.CLOSING_PRICE:
            return [*changes, *self._age_closing_price(security_id, values)]
        if template_id == _DATED:
            return [*changes, *self._limit_dates(security_id, key)]
        if template_id == templates.EXECUTION_STATISTICS and values["numberOfTrades"] == 0:
            # Every trade was busted: there is no last price.
            return [*changes, *self._remove(security_id, _LAST_TRADE)]
        return changes

    def replace(
        self, security_id: int, template_id: int, values: Mapping[str, Any], packet_key: PacketKey
    ) -> str:
        """Replace a statistic that has no variants. Returns its name."""
        key = _KEYS[template_id]
        self._keep(security_id, key, Statistic(*key, values, template_id, packet_key))
        return key[0]

    def remove(self, security_id: int, template_id: int) -> str | None:
        """Remove a statistic that has no variants. Returns its name if it existed."""
        key = _KEYS[template_id]
        own = self.statistics.get(security_id)
        return None if own is None or own.pop(key, None) is None else key[0]

    def trade(
        self,
        security_id: int,
        trade_id: int,
        trade_date: date | None,
        condition: int,
        sub_type: str | int | None,
    ) -> tuple[bool, bool]:
        """Apply a trade. Returns whether it is a correction, and whether it sets the last price.

        If it sets the last price, the caller must call `keep_last` before it applies anything else.
        """
        number = _trade_number(trade_date, trade_id)
        last = self._last_trade.get(security_id)
        if last is not None and number < last:
            return True, False
        # The last trade itself may be amended: the amendment sets the last price (§13.3).
        self._last_trade[security_id] = number
        return number == last, sets_last_price(condition, sub_type)

    def keep_last(
        self, security_id: int, template_id: int, values: Mapping[str, Any], packet_key: PacketKey
    ) -> None:
        """Keep the fields of the trade that set the last price."""
        self._keep(
            security_id, _LAST_TRADE, Statistic(*_LAST_TRADE, values, template_id, packet_key)
        )

    def security_status(
        self, security_id: int, values: Mapping[str, Any], packet_key: PacketKey
    ) -> list[StateChange]:
        """Apply the state of an instrument."""
        self._status_published[security_id] = packet_key
        events = self.phases.security_status(
            security_id, values["securityTradingStatus"], values["securityTradingEvent"]
        )
        return self._follow(events, packet_key)

    def group_phase(
        self, values: Mapping[str, Any], packet_key: PacketKey, missing: int
    ) -> list[StateChange]:
        """Apply the phase of a group; ``missing`` is the number of gaps so far."""
        group = group_key(values)
        if not self._admits(group):
            return []
        self._phase_published[group] = (packet_key, missing)
        return self._phase(group, values, packet_key)

    def _admits(self, group: GroupKey) -> bool:
        """Whether a group is known, or may be: their names come from the wire."""
        return group in self._phase_published or len(self._phase_published) < self._max_groups

    def _phase(
        self, group: GroupKey, values: Mapping[str, Any], packet_key: PacketKey
    ) -> list[StateChange]:
        before = self.phases.phase(group)
        events = self.phases.group_phase(
            group, values["tradingSessionSubID"], values["securityTradingEvent"]
        )
        now = self.phases.phase(group)
        of_group = [] if now is before else [GroupChange(group, before, now)]
        return [*of_group, *self._follow(events, packet_key)]

    def define(self, instrument: ChannelInstrument, packet_key: PacketKey) -> list[StateChange]:
        """Assign an instrument to its group."""
        return self._follow(
            self.phases.define(instrument.security_id, instrument.group), packet_key
        )

    def delete(self, security_id: int) -> None:
        """Remove all state of an instrument that is no longer listed."""
        self.phases.remove(security_id)
        self.statistics.pop(security_id, None)
        self._status_published.pop(security_id, None)
        self._session.pop(security_id, None)
        self._last_trade.pop(security_id, None)
        self._of_auctions.discard(security_id)

    def _follow(self, events: Iterable[PhaseEvent], packet_key: PacketKey) -> list[StateChange]:
        changes: list[StateChange] = []
        of_auctions = self._of_auctions
        for event in events:  # a phase causes one per instrument of its group
            if isinstance(event, StatisticsReset):
                for security_id in event.security_ids:
                    changes += self._new_session(security_id, packet_key)
                continue
            changes.append(event)
            if event.security_id in of_auctions and event.now not in AUCTIONS:
                # Clients must discard both after pre-open (000 §13.10).
                of_auctions.discard(event.security_id)
                for key in _OF_AUCTIONS:
                    changes += self._remove(event.security_id, key)
        return changes

    def _new_session(self, security_id: int, packet_key: PacketKey) -> Iterator[StateChange]:
        self._session[security_id] = packet_key
        own = self.statistics.get(security_id)
        if own:
            for key in _by_name(key for key in own if _ends_with_session(key)):
                yield from self._remove(security_id, key)

    def _age_closing_price(
        self, security_id: int, values: Mapping[str, Any]
    ) -> Iterator[StateChange]:
        """Remove a daily close that is now published as that of the previous day."""
        if values["openCloseSettlFlag"] not in _OF_PREVIOUS_DAY:
            return
        for flag in _OF_THE_DAY:
            key = (_NAMES[templates.CLOSING_PRICE], flag)
            daily = self.statistics[security_id].get(key)
            if daily is not None and _day(daily.values["tradeDate"]) < _day(values["tradeDate"]):
                yield from self._remove(security_id, key)

    def _limit_dates(self, security_id: int, key: Key) -> Iterator[StateChange]:
        """Remove the oldest of too many dates: their number comes from the wire."""
        if _is_date(key[1]):
            own = self.statistics[security_id]
            dates = [each for each in own if each[0] == key[0] and _is_date(each[1])]
            for oldest in sorted(dates)[:-MAX_DATES]:
                yield from self._remove(security_id, oldest)

    def _set(
        self,
        security_id: int,
        key: Key,
        template_id: int,
        values: Mapping[str, Any],
        packet_key: PacketKey,
    ) -> tuple[StatisticChange, ...]:
        if key == _LAST_TRADE and values.get("tradeID") is not None:
            # A late joiner learns the last trade number from a snapshot.
            number = _trade_number(values["tradeDate"], values["tradeID"])
            self._last_trade[security_id] = max(self._last_trade.get(security_id, number), number)
        statistic = Statistic(*key, values, template_id, packet_key)
        self._keep(security_id, key, statistic)
        return (StatisticChange(security_id, *key, statistic),)

    def _keep(self, security_id: int, key: Key, statistic: Statistic) -> None:
        own = self.statistics.get(security_id)
        if own is None:
            own = self.statistics[security_id] = {}
        own[key] = statistic
        if key in _OF_AUCTIONS:
            self._of_auctions.add(security_id)

    def _remove(self, security_id: int, key: Key) -> Iterator[StateChange]:
        if self.statistics.get(security_id, {}).pop(key, None) is not None:
            yield StatisticChange(security_id, *key, None)

    # Snapshots

    def snapshot(
        self, security_id: int, parts: Iterable[EventMessage], packet_key: PacketKey
    ) -> Iterator[StateChange]:
        """Apply all statistics and the state of an instrument, as of a packet."""
        session = self._session.get(security_id)
        session_ended = session is not None and not covers(packet_key, session)
        published: set[Key] = set()
        for part in parts:
            if part.template_id == templates.SECURITY_STATUS:
                if _is_newer(packet_key, self._status_published.get(security_id)):
                    yield from self.security_status(security_id, part.values, packet_key)
            elif part.template_id in STATISTICS:
                key = key_of(part.template_id, part.values)
                published.add(key)
                current = self.statistics.get(security_id, {}).get(key)
                if session_ended and _ends_with_session(key):
                    continue
                if current is None or _is_newer(packet_key, current.packet_key):
                    yield from self._set(
                        security_id, key, part.template_id, part.values, packet_key
                    )
                    if part.template_id == _DATED:
                        yield from self._limit_dates(security_id, key)
        yield from self._forget_but(security_id, published, packet_key)

    def absent(self, security_id: int, packet_key: PacketKey) -> Iterator[StateChange]:
        """Remove the statistics of an instrument without data as of a packet (000 §6.3)."""
        yield from self._forget_but(security_id, set(), packet_key)

    def _forget_but(
        self, security_id: int, published: set[Key], packet_key: PacketKey
    ) -> Iterator[StateChange]:
        own = self.statistics.get(security_id, {})
        for key in _by_name(
            key
            for key, each in own.items()
            if key not in published and _is_newer(packet_key, each.packet_key)
        ):
            yield from self._remove(security_id, key)

    def snapshot_phase(
        self, values: Mapping[str, Any], packet_key: PacketKey, missing: int
    ) -> Iterator[StateChange]:
        """Apply the phase of a group from a snapshot loop, as of about the given packet.

        The loop does not state when the phase was recorded: the incremental stream takes
        precedence, unless packets were lost since.
        """
        group = group_key(values)
        published = self._phase_published.get(group)
        if published is not None and (
            published[1] == missing or not covers(packet_key, published[0])
        ):
            return
        if published is None and len(self.phases.groups) >= self._max_groups:
            return
        yield from self._phase(group, values, packet_key)


_OF_AUCTIONS: tuple[Key, ...] = (
    (_NAMES[templates.THEORETICAL_OPENING_PRICE], None),
    (_NAMES[templates.AUCTION_IMBALANCE], None),
)
_KEYS: dict[int, Key] = {template_id: (_NAMES[template_id], None) for template_id in REPLACING}
_LAST_TRADE: Key = (_NAMES[templates.LAST_TRADE_PRICE], None)
_OF_THE_SESSION = frozenset(
    {_NAMES[template] for template in RESET_WITH_THE_SESSION}
    # It belongs to the theoretical price.
    | {_NAMES[templates.AUCTION_IMBALANCE]}
)


def _is_date(kind: str | int | None) -> bool:
    """Whether a variant is a date; others are names or numbers."""
    return isinstance(kind, str) and kind[:1].isdigit()


def _day(trade_date: Any) -> date:
    """Return a trade date; a missing one is before all others."""
    return trade_date if isinstance(trade_date, date) else date.min


def _trade_number(trade_date: Any, trade_id: int | None) -> tuple[date, int]:
    """Return the key by which trades of an instrument are ordered."""
    if trade_date.__class__ is date:  # nearly always
        return trade_date, trade_id or 0
    return _day(trade_date), trade_id or 0


def _is_newer(packet_key: PacketKey, last: PacketKey | None) -> bool:
    """Whether data as of ``packet_key`` replaces data that was published at ``last``."""
    return last is None or covers(packet_key, last)


def _by_name(keys: Iterable[Key]) -> list[Key]:
    """Sort keys by name, not by time of publication: a last price may be kept late."""
    return sorted(keys, key=itemgetter(0))


def _ends_with_session(key: Key) -> bool:
    return key[0] in _OF_THE_SESSION
