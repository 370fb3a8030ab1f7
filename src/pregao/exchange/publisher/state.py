"""What was last published of a channel: definitions, phases, books and statistics.

It is built from the events alone, as a receiver of the feed would: the snapshot and definition
streams show what the incremental stream has told, nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from pregao.errors import UsageError
from pregao.exchange.engine.events import (
    AuctionImbalance,
    ClosingPrice,
    ExecutionStatistics,
    ForwardTrade,
    LastTradePrice,
    PriceBand,
    SecurityDefinition,
    SecurityGroupPhase,
    SecurityStatus,
    SettlementPrice,
    Statistic,
    TheoreticalOpeningPrice,
    Trade,
)
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.orders import key_of
from pregao.exchange.engine.phases import AUCTIONS, ruling
from pregao.exchange.engine.session_statistics import sets_last_price
from pregao.exchange.engine.terms import (
    OpenCloseSettlFlag,
    SecurityUpdateAction,
    Side,
    TradingStatus,
)
from pregao.exchange.engine.views import last_trade_price
from pregao.exchange.publisher.encoding.layouts import LAYOUTS
from pregao.exchange.publisher.encoding.orders import OrderItem
from pregao.exchange.publisher.positions import RankedSide, rank
from pregao.umdf.phases import RESET_WITH_THE_SESSION, TradingEvent
from pregao.umdf.templates import template_id

_OF_THE_SESSION = (
    *(
        kind
        for kind, layout in LAYOUTS.items()
        if template_id(layout.messages[0]) in RESET_WITH_THE_SESSION
    ),
    # It goes with the theoretical price that it is of.
    AuctionImbalance,
)
"""The events whose messages begin anew with a trading session."""
_REJOINS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
_PREVIOUS_DAY = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY


class PublishedSide:
    """The orders of a side by their public number, ranked where positions are published."""

    __slots__ = ("_rank_of", "_ranks", "_told", "orders", "ranked", "side", "touched")

    def __init__(self, side: Side, positions: bool) -> None:
        self.side = side
        self.orders: dict[int, OrderItem] = {}
        self.ranked = RankedSide() if positions else None
        self.touched: list[int] = []
        """The numbers of orders that came, changed or went since the last snapshot."""
        self._told = bytearray()
        """What the last snapshot told of the orders, the best first: most rest for long."""
        self._ranks: list[int] = []
        """Their ranks, the best first: a number that puts the price ahead of the order's own."""
        self._rank_of: dict[int, int] = {}

    def clear(self) -> None:
        """Forget every order."""
        self.orders.clear()
        self.touched.clear()
        self._told.clear()
        self._ranks.clear()
        self._rank_of.clear()
        if self.ranked is not None:
            self.ranked.clear()

    def in_order(self) -> list[OrderItem]:
        """The orders from the best to the worst."""
        if self.ranked is not None:
            return [self.orders[number] for number in self.ranked.numbers()]
        return sorted(self.orders.values(), key=rank, reverse=True)

    def entries(self, entry: Callable[[OrderItem], bytes], size: int) -> bytes:
        """The orders from the best to the worst, each as ``entry`` writes it in so many bytes."""
        if not self.touched:
            return bytes(self._told)
        told, ranks, rank_of, orders = self._told, self._ranks, self._rank_of, self.orders
        for number in set(self.touched):
            order, known = orders.get(number), rank_of.get(number)
            if known is not None:
                place = bisect_left(ranks, known)
                if order is not None and known == self._rank(order):
                    told[place * size : (place + 1) * size] = entry(order)
                    continue
                del ranks[place], rank_of[number], told[place * size : (place + 1) * size]
            if order is not None:
                rank_of[number] = now = self._rank(order)
                place = bisect_left(ranks, now)
                ranks.insert(place, now)
                told[place * size : place * size] = entry(order)
        self.touched.clear()
        return bytes(told)

    def _rank(self, order: OrderItem) -> int:
        """Orders of a better price first, of one price those with the smaller number."""
        return (-key_of(self.side, order.price) << 64) + order.secondary_order_id


class PublishedInstrument:
    """All that was last published of one instrument."""

    __slots__ = (
        "bids",
        "emptied",
        "group",
        "last_trade",
        "offers",
        "own_status",
        "rpt_seq",
        "security_id",
        "statistics",
    )

    def __init__(self, instrument: Instrument, positions: bool, rpt_seq: int = 0) -> None:
        self.security_id = instrument.security_id
        self.group = instrument.security_group
        self.rpt_seq = rpt_seq
        """The ``rptSeq`` of the last message; 0 after EmptyBook and before the first."""
        self.bids = PublishedSide(Side.BUY, positions)
        self.offers = PublishedSide(Side.SELL, positions)
        self.statistics: dict[object, Statistic] = {}
        self.last_trade: Trade | ForwardTrade | LastTradePrice | None = None
        self.own_status: SecurityStatus | None = None
        """The state that the instrument has apart from its group, or None."""
        self.emptied = False
        """EmptyBook was the last thing told."""

    def side(self, side: Side) -> PublishedSide:
        """One side of the book."""
        return self.bids if side == Side.BUY else self.offers

    def empty_book(self) -> None:
        """The book is sent anew: it is void, and its messages are counted from 1."""
        self.clear_book()
        self.rpt_seq = 0
        self.emptied = True

    def clear_book(self) -> None:
        """There is no order."""
        self.bids.clear()
        self.offers.clear()

    def show(self, item: Statistic) -> None:
        """Take a statistic over, or take it away if it is withdrawn."""
        key = _key(item)
        if getattr(item, "deleted", False):
            self.statistics.pop(key, None)
            return
        self.statistics[key] = item
        if isinstance(item, ClosingPrice) and item.flag == _PREVIOUS_DAY:
            self._age_closing_price(item.trade_date)
        elif isinstance(item, ExecutionStatistics) and not item.number_of_trades:
            # Every trade was busted: there is no last price any more.
            self.last_trade = None

    def _age_closing_price(self, trade_date: int) -> None:
        """Yesterday's close of the day is now told as that of the previous day."""
        key = (ClosingPrice, OpenCloseSettlFlag.DAILY)
        daily = self.statistics.get(key)
        if isinstance(daily, ClosingPrice) and daily.trade_date < trade_date:
            del self.statistics[key]

    def traded(self, trade: Trade | ForwardTrade | LastTradePrice) -> None:
        """Take a trade for the last one, unless it is out of sequence or a correction of one."""
        if not isinstance(trade, LastTradePrice):
            last = self.last_trade
            if not sets_last_price(trade):
                return
            if last is not None and (trade.trade_date, trade.trade_id) < (
                last.trade_date,
                last.trade_id,
            ):
                return
        self.last_trade = trade

    def last_price(self) -> LastTradePrice | None:
        """The last trade as a snapshot shows it."""
        last = self.last_trade
        if last is None or isinstance(last, LastTradePrice):
            return last
        return last_trade_price(last)

    def start_session(self) -> None:
        """A new trading session: the statistics of the old one are void."""
        self.last_trade = None
        for kind in _OF_THE_SESSION:
            self.statistics.pop(kind, None)

    def follow(self, phase: TradingStatus) -> None:
        """The state has changed: outside of auctions there is no theoretical price."""
        own = None if self.own_status is None else self.own_status.status
        if ruling(phase, own) not in AUCTIONS:
            self.statistics.pop(TheoreticalOpeningPrice, None)
            self.statistics.pop(AuctionImbalance, None)


def _key(item: Statistic) -> object:
    """What a statistic replaces: that of its kind, or of its kind and day, or its type of band."""
    if isinstance(item, (ClosingPrice, SettlementPrice)):
        return type(item), item.flag
    if isinstance(item, PriceBand):
        return PriceBand, item.band_type
    return type(item)


class _Instruments(dict[int, PublishedInstrument]):
    """Instruments by security id; asking for one that is not there says so."""

    def __missing__(self, security_id: int) -> PublishedInstrument:
        raise UsageError(f"instrument {security_id} is not on this channel")


class ChannelState:
    """What was last published of a channel."""

    def __init__(self, instruments: Iterable[Instrument], positions: bool) -> None:
        self._positions = positions
        self._retired: dict[int, int] = {}
        self.definitions: dict[int, Instrument] = {}
        self.instruments: dict[int, PublishedInstrument] = _Instruments()
        self.phases: dict[str, SecurityGroupPhase] = {}
        self._members: dict[str, dict[int, PublishedInstrument]] = {}
        for instrument in instruments:
            if instrument.security_id in self.definitions:
                raise UsageError(f"two instruments have the security id {instrument.security_id}")
            self._add(instrument)

    def _add(self, instrument: Instrument) -> None:
        security_id = instrument.security_id
        self.definitions[security_id] = instrument
        published = PublishedInstrument(
            instrument, self._positions, self._retired.pop(security_id, 0)
        )
        self.instruments[security_id] = published
        self._members.setdefault(published.group, {})[security_id] = published

    def define(self, item: SecurityDefinition) -> None:
        """Take over a definition that was added, changed or deleted."""
        instrument = item.instrument
        security_id = instrument.security_id
        if item.action == SecurityUpdateAction.DELETE:
            gone = self.instruments.pop(security_id, None)
            self.definitions.pop(security_id, None)
            if gone is not None:
                self._members[gone.group].pop(security_id)
                # Should it be listed again, its messages are counted on.
                self._retired[security_id] = gone.rpt_seq
        elif security_id in self.definitions:
            self.definitions[security_id] = instrument
        else:
            self._add(instrument)

    def has_group(self, group: str) -> bool:
        """Is any instrument of the group on this channel?"""
        return bool(self._members.get(group))

    def phase(self, item: SecurityGroupPhase) -> None:
        """Take over the phase of a group."""
        self.phases[item.group] = item
        new_session = item.event == TradingEvent.TRADING_SESSION_CHANGE
        for instrument in self._members.get(item.group, {}).values():
            if new_session:
                instrument.start_session()
            instrument.follow(item.phase)

    def status(self, item: SecurityStatus) -> None:
        """Take over the state of an instrument."""
        instrument = self.instruments[item.security_id]
        instrument.own_status = None if item.event == _REJOINS else item
        if item.event == TradingEvent.TRADING_SESSION_CHANGE:
            instrument.start_session()
        phase = self.phases.get(instrument.group)
        if phase is not None:
            instrument.follow(phase.phase)

    def shown_status(self, instrument: PublishedInstrument) -> SecurityStatus | None:
        """The state as a snapshot shows it: without a status of its own, the group's holds."""
        own = instrument.own_status
        if own is not None:
            return SecurityStatus(
                own.security_id,
                own.trading_session,
                own.status,
                TradingEvent.SECURITY_STATUS_CHANGE,
                own.trade_date,
                own.open_time_ns,
                own.transact_time_ns,
            )
        phase = self.phases.get(instrument.group)
        if phase is None:
            return None
        return SecurityStatus(
            instrument.security_id,
            phase.trading_session,
            None,
            None,
            phase.trade_date,
            phase.open_time_ns,
            phase.transact_time_ns,
        )

    def shown_phases(self) -> list[SecurityGroupPhase]:
        """The phases as a snapshot shows them: no session begins there."""
        return [
            SecurityGroupPhase(
                item.group,
                item.trading_session,
                item.phase,
                None,
                item.trade_date,
                item.open_time_ns,
                item.transact_time_ns,
            )
            for item in self.phases.values()
            if self.has_group(item.group)
        ]
