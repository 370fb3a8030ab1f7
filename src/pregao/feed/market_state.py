"""What holds on a channel beside its books: instruments, phases, states and statistics.

A statistic holds from the place of the message that told it, and a snapshot replaces what was told
up to its own place, however late it comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from operator import itemgetter
from typing import Any, Final

from pregao.feed.channel_settings import MAX_INSTRUMENTS
from pregao.feed.definitions import Definitions, Instrument, group_key
from pregao.feed.listener import Part
from pregao.feed.records import record
from pregao.schemas import bundled_message_ids
from pregao.umdf import templates
from pregao.umdf.phases import (
    RESET_WITH_THE_SESSION,
    GroupKey,
    PhaseEvent,
    Phases,
    StatisticsReset,
    Status,
    StatusChange,
)
from pregao.umdf.sequencing import Place, covers
from pregao.umdf.trades import sets_last_price

AUCTIONS: Final = (Status.RESERVED, Status.FINAL_CLOSING_CALL)
"""States in which there is a theoretical price."""
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
"""The messages that each tell one statistic, band or price of reference."""
_NAMES: Final = {
    number: name.rsplit("_", 1)[0] for name, number in bundled_message_ids("umdf").items()
}
_SIDE_BY_SIDE: Final = {
    templates.CLOSING_PRICE: "openCloseSettlFlag",
    templates.SETTLEMENT_PRICE: "openCloseSettlFlag",
    **dict.fromkeys(templates.PRICE_BANDS, "priceBandType"),
}
"""Of which statistics there are several, and the field that tells them apart."""

REPLACING: Final = STATISTICS - _SIDE_BY_SIDE.keys() - {templates.LAST_TRADE_PRICE}
"""Statistics of which there is one: each only takes the place of the one before, unless it is
deleted or tells that there is no trade any more."""

Key = tuple[str, Any]
"""A statistic's name, and which one it is where there are several."""


@record
class Statistic:
    """A statistic as it was told last."""

    name: str
    kind: str | int | None
    values: Mapping[str, Any]
    template_id: int
    place: Place | None
    """Where it was told, or the place that its snapshot holds as of; None if that was at a site
    that is followed no more."""


@record
class StatisticChange:
    """A statistic was told (or, with None, is no more)."""

    security_id: int
    name: str
    kind: str | int | None
    statistic: Statistic | None


@record
class GroupChange:
    """The phase of a group has changed."""

    group: GroupKey
    before: Status
    now: Status


StateChange = StatisticChange | StatusChange | GroupChange


def key_of(template_id: int, values: Mapping[str, Any]) -> Key:
    """What a statistic replaces: that of its name, or of its name and kind."""
    field = _SIDE_BY_SIDE.get(template_id)
    return _NAMES[template_id], None if field is None else values.get(field)


class MarketState:
    """Keeps what messages and snapshots tell of instruments, phases and statistics."""

    def __init__(self, max_instruments: int = MAX_INSTRUMENTS) -> None:
        self.definitions = Definitions(max_instruments)
        self._max_groups = max_instruments
        self.phases = Phases()
        self.statistics: dict[int, dict[Key, Statistic]] = {}
        self._phase_told: dict[GroupKey, tuple[Place, int]] = {}
        """Where the phase of a group was last told, and how many packets were missing then."""
        self._status_told: dict[int, Place] = {}
        """Where the state of an instrument was last told."""
        self._session: dict[int, Place] = {}
        """Where the trading session of an instrument began."""
        self._last_trade: dict[int, tuple[date, int]] = {}
        """Day and number of the last trade of an instrument; one that is not above corrects."""
        self._of_auctions: set[int] = set()
        """Instruments that may have what is forgotten when an auction is over."""

    @property
    def instruments(self) -> Mapping[int, Instrument]:
        """The instruments by their numbers."""
        return self.definitions.known

    def begin_anew(self) -> None:
        """The channel is followed elsewhere: places of before mean nothing any more."""
        self._phase_told.clear()
        self._status_told.clear()
        self._session.clear()
        self._last_trade.clear()
        for own in self.statistics.values():
            for key, each in own.items():
                own[key] = replace(each, place=None)
        self.definitions.lost()

    # Messages of the incremental stream

    def statistic(
        self, security_id: int, template_id: int, values: Mapping[str, Any], place: Place
    ) -> Iterable[StateChange]:
        """A statistic is told."""
        key = key_of(template_id, values)
        if values.get("mDUpdateAction") == "DELETE":
            return self._remove(security_id, key)
        changes: Iterable[StateChange] = self._set(security_id, key, template_id, values, place)
        if template_id == templates.CLOSING_PRICE:
            return [*changes, *self._age_closing_price(security_id, values)]
        if template_id == templates.EXECUTION_STATISTICS and values["numberOfTrades"] == 0:
            # Every trade was busted: there is no last price any more.
            return [*changes, *self._remove(security_id, _LAST_TRADE)]
        return changes

    def replace(
        self, security_id: int, template_id: int, values: Mapping[str, Any], place: Place
    ) -> str:
        """A statistic is told that only takes the place of its like; gives its name."""
        key = _KEYS[template_id]
        self._keep(security_id, key, Statistic(*key, values, template_id, place))
        return key[0]

    def remove(self, security_id: int, template_id: int) -> str | None:
        """A statistic of which there is one is deleted; gives its name if it was there."""
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
        """A trade is told: does it correct one, and does it make the last price?

        If so, whoever told of it lets `keep_last` know, before anything else is told here.
        """
        number = _trade_number(trade_date, trade_id)
        last = self._last_trade.get(security_id)
        if last is not None and number < last:
            return True, False
        # The last trade itself may be amended: what is told then makes the last price (§13.3).
        self._last_trade[security_id] = number
        return number == last, sets_last_price(condition, sub_type)

    def keep_last(
        self, security_id: int, template_id: int, values: Mapping[str, Any], place: Place
    ) -> None:
        """These are the fields of the trade that made the last price."""
        self._keep(security_id, _LAST_TRADE, Statistic(*_LAST_TRADE, values, template_id, place))

    def security_status(
        self, security_id: int, values: Mapping[str, Any], place: Place
    ) -> list[StateChange]:
        """The state of an instrument is told."""
        self._status_told[security_id] = place
        events = self.phases.security_status(
            security_id, values["securityTradingStatus"], values["securityTradingEvent"]
        )
        return self._follow(events, place)

    def group_phase(
        self, values: Mapping[str, Any], place: Place, missing: int
    ) -> list[StateChange]:
        """The phase of a group is told; so many packets are missing by now."""
        group = group_key(values)
        if not self._admits(group):
            return []
        self._phase_told[group] = (place, missing)
        return self._phase(group, values, place)

    def _admits(self, group: GroupKey) -> bool:
        """Whether a group is known, or may be: their names come from the wire."""
        return group in self._phase_told or len(self._phase_told) < self._max_groups

    def _phase(self, group: GroupKey, values: Mapping[str, Any], place: Place) -> list[StateChange]:
        before = self.phases.phase(group)
        events = self.phases.group_phase(
            group, values["tradingSessionSubID"], values["securityTradingEvent"]
        )
        now = self.phases.phase(group)
        of_group = [] if now is before else [GroupChange(group, before, now)]
        return [*of_group, *self._follow(events, place)]

    def define(self, instrument: Instrument, place: Place) -> list[StateChange]:
        """An instrument belongs to a group."""
        return self._follow(self.phases.define(instrument.security_id, instrument.group), place)

    def delete(self, security_id: int) -> None:
        """An instrument is no longer listed: nothing is known of it any more."""
        self.phases.remove(security_id)
        self.statistics.pop(security_id, None)
        self._status_told.pop(security_id, None)
        self._session.pop(security_id, None)
        self._last_trade.pop(security_id, None)
        self._of_auctions.discard(security_id)

    def _follow(self, events: Iterable[PhaseEvent], place: Place) -> list[StateChange]:
        changes: list[StateChange] = []
        of_auctions = self._of_auctions
        for event in events:  # a phase brings one for each instrument of its group
            if isinstance(event, StatisticsReset):
                for security_id in event.security_ids:
                    changes += self._new_session(security_id, place)
                continue
            changes.append(event)
            if event.security_id in of_auctions and event.now not in AUCTIONS:
                # Clients are to forget both after pre-open (000 §13.10).
                of_auctions.discard(event.security_id)
                for key in _OF_AUCTIONS:
                    changes += self._remove(event.security_id, key)
        return changes

    def _new_session(self, security_id: int, place: Place) -> Iterator[StateChange]:
        self._session[security_id] = place
        own = self.statistics.get(security_id)
        if own:
            for key in _by_name(key for key in own if _ends_with_session(key)):
                yield from self._remove(security_id, key)

    def _age_closing_price(
        self, security_id: int, values: Mapping[str, Any]
    ) -> Iterator[StateChange]:
        """Yesterday's close of the day is now told as that of the previous day."""
        if values["openCloseSettlFlag"] != "ENTRY_FROM_PREVIOUS_BUSINESS_DAY":
            return
        key = (_NAMES[templates.CLOSING_PRICE], "DAILY")
        daily = self.statistics[security_id].get(key)
        if daily is not None and _day(daily.values["tradeDate"]) < _day(values["tradeDate"]):
            yield from self._remove(security_id, key)

    def _set(
        self,
        security_id: int,
        key: Key,
        template_id: int,
        values: Mapping[str, Any],
        place: Place,
    ) -> tuple[StatisticChange, ...]:
        if key == _LAST_TRADE and values.get("tradeID") is not None:
            # Who joins late learns from a snapshot how far trades have been counted.
            number = _trade_number(values["tradeDate"], values["tradeID"])
            self._last_trade[security_id] = max(self._last_trade.get(security_id, number), number)
        statistic = Statistic(*key, values, template_id, place)
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
        self, security_id: int, parts: Iterable[Part], place: Place
    ) -> Iterator[StateChange]:
        """All statistics and the state of an instrument, as of a place."""
        session = self._session.get(security_id)
        over = session is not None and not covers(place, session)
        told: set[Key] = set()
        for part in parts:
            if part.template_id == templates.SECURITY_STATUS:
                if _is_newer(place, self._status_told.get(security_id)):
                    yield from self.security_status(security_id, part.values, place)
            elif part.template_id in STATISTICS:
                key = key_of(part.template_id, part.values)
                told.add(key)
                known = self.statistics.get(security_id, {}).get(key)
                if over and _ends_with_session(key):
                    continue
                if known is None or _is_newer(place, known.place):
                    yield from self._set(security_id, key, part.template_id, part.values, place)
        yield from self._forget_but(security_id, told, place)

    def absent(self, security_id: int, place: Place) -> Iterator[StateChange]:
        """There is nothing of an instrument as of a place (000 §6.3)."""
        yield from self._forget_but(security_id, set(), place)

    def _forget_but(self, security_id: int, told: set[Key], place: Place) -> Iterator[StateChange]:
        own = self.statistics.get(security_id, {})
        for key in _by_name(
            key for key, each in own.items() if key not in told and _is_newer(place, each.place)
        ):
            yield from self._remove(security_id, key)

    def snapshot_phase(
        self, values: Mapping[str, Any], place: Place, missing: int
    ) -> Iterator[StateChange]:
        """The phase of a group as a loop of snapshots tells it, as of about a place.

        The loop does not say when the phase was taken: what the incremental stream told counts,
        unless packets were lost since.
        """
        group = group_key(values)
        told = self._phase_told.get(group)
        if told is not None and (told[1] == missing or not covers(place, told[0])):
            return
        if told is None and len(self.phases.groups) >= self._max_groups:
            return
        yield from self._phase(group, values, place)


_OF_AUCTIONS: tuple[Key, ...] = (
    (_NAMES[templates.THEORETICAL_OPENING_PRICE], None),
    (_NAMES[templates.AUCTION_IMBALANCE], None),
)
_KEYS: dict[int, Key] = {template_id: (_NAMES[template_id], None) for template_id in REPLACING}
_LAST_TRADE: Key = (_NAMES[templates.LAST_TRADE_PRICE], None)
_OF_THE_SESSION = frozenset(
    {_NAMES[template] for template in RESET_WITH_THE_SESSION}
    # It goes with the theoretical price that it is of.
    | {_NAMES[templates.AUCTION_IMBALANCE]}
)


def _day(trade_date: Any) -> date:
    """The trade date; one that a message lacks is before all others."""
    return trade_date if isinstance(trade_date, date) else date.min


def _trade_number(trade_date: Any, trade_id: int | None) -> tuple[date, int]:
    """What trades of an instrument are counted by."""
    if trade_date.__class__ is date:  # as nearly always
        return trade_date, trade_id or 0
    return _day(trade_date), trade_id or 0


def _is_newer(place: Place, told: Place | None) -> bool:
    """Does what holds as of a place replace what was told at another one?"""
    return told is None or covers(place, told)


def _by_name(keys: Iterable[Key]) -> list[Key]:
    """In an order that does not depend on when each was told: a last price may be kept late."""
    return sorted(keys, key=itemgetter(0))


def _ends_with_session(key: Key) -> bool:
    return key[0] in _OF_THE_SESSION
