"""Published state of a channel: definitions, phases, books and statistics.

It is built only from events, as a receiver of the feed would build it: the snapshot and definition
streams contain only what the incremental stream has published.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from pregao.errors import UsageError
from pregao.exchange.engine.book.order_book import key_of
from pregao.exchange.engine.book.snapshots import last_trade_price
from pregao.exchange.engine.matching.statistics import sets_last_price
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrderSide,
    SecurityUpdateAction,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    ClosingPrice,
    DeleteOrderMbo,
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
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.phases.trading_phases import AUCTIONS, ruling
from pregao.exchange.publisher.encoding.layouts import LAYOUTS
from pregao.exchange.publisher.encoding.orders import OrderItem
from pregao.umdf.phases import RESET_WITH_THE_SESSION, TradingEvent
from pregao.umdf.templates import template_id

_Rank = tuple[int, int, int]
"""Price key, arrival count on the side (negated), and secondaryOrderID."""
_IMPLIED = 1 << 62
"""Added to the arrival count of implied orders: they rank after all others of their price."""


def rank(order: OrderItem | DeleteOrderMbo) -> tuple[int, int]:
    """Return the sort key of an order from version 15 on: the greater, the closer to the top.

    A better price is greater, and at one price a smaller number. Orders without a price rank first.
    """
    return key_of(order.side, order.price), -order.secondary_order_id


class RankedSide:
    """Ranks of a side's orders, best at the end, so that changes near the top are cheap.

    At one price orders rank in arrival order: below version 15 the number of an order does not
    always determine its position (000 §12.1).
    """

    __slots__ = ("_came", "_rank_of", "_ranks")

    def __init__(self) -> None:
        self._came = 0
        self._ranks: list[_Rank] = []
        self._rank_of: dict[int, _Rank] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def numbers(self) -> list[int]:
        """Return the secondaryOrderIDs from best to worst."""
        return [number for _, _, number in reversed(self._ranks)]

    def add(self, order: OrderItem) -> int:
        """Add an order and return its 1-based position."""
        self._came += 1
        number = order.secondary_order_id
        arrival = self._came + (_IMPLIED if order.implied else 0)
        order_rank = self._rank_of[number] = (key_of(order.side, order.price), -arrival, number)
        ranks = self._ranks
        if not ranks or order_rank > ranks[-1]:
            ranks.append(order_rank)
            return 1
        index = bisect_left(ranks, order_rank)
        ranks.insert(index, order_rank)
        return len(ranks) - index

    def position(self, order: OrderItem | DeleteOrderMbo) -> int:
        """Return the 1-based position of an order."""
        return len(self._ranks) - self._index(order)

    def remove(self, order: DeleteOrderMbo) -> int:
        """Remove an order and return the position it had."""
        index = self._index(order)
        position = len(self._ranks) - index
        del self._ranks[index], self._rank_of[order.secondary_order_id]
        return position

    def stands_at(self, order: DeleteOrderMbo, position: int) -> bool:
        """Whether the order is at this 1-based position."""
        ranks = self._ranks
        return position <= len(ranks) and ranks[-position][2] == order.secondary_order_id

    def remove_top(self, count: int) -> list[int]:
        """Remove the first `count` orders and return their numbers, from worst to best."""
        start = len(self._ranks) - count
        numbers = [number for _, _, number in self._ranks[start:]]
        del self._ranks[start:]
        for number in numbers:
            del self._rank_of[number]
        return numbers

    def clear(self) -> None:
        """Remove all orders."""
        self._ranks.clear()
        self._rank_of.clear()

    def _index(self, order: OrderItem | DeleteOrderMbo) -> int:
        order_rank = self._rank_of.get(order.secondary_order_id)
        if order_rank is None:
            raise UsageError(
                f"order {order.secondary_order_id} of instrument {order.security_id} cannot be "
                "changed or deleted: it is not in the published book"
            )
        return bisect_left(self._ranks, order_rank)


_OF_THE_SESSION = (
    *(
        kind
        for kind, layout in LAYOUTS.items()
        if template_id(layout.messages[0]) in RESET_WITH_THE_SESSION
    ),
    # An imbalance belongs to its theoretical price.
    AuctionImbalance,
)
"""Events that a new trading session resets."""
_REJOINS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
_PREVIOUS_DAY = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY


class PublishedSide:
    """Orders of a side by secondaryOrderID, ranked where positions are published."""

    __slots__ = ("_published", "_rank_of", "_ranks", "orders", "ranked", "side", "touched")

    def __init__(self, side: OrderSide, positions: bool) -> None:
        self.side = side
        self.orders: dict[int, OrderItem] = {}
        self.ranked = RankedSide() if positions else None
        self.touched: list[int] = []
        """Numbers of orders added, changed or deleted since the last snapshot."""
        self._published = bytearray()
        """Encoded orders of the last snapshot, best first, reused because most rest for long."""
        self._ranks: list[int] = []
        """Sort keys of these orders, best first: the price key above the order number."""
        self._rank_of: dict[int, int] = {}

    def clear(self) -> None:
        """Remove every order."""
        self.orders.clear()
        self.touched.clear()
        self._published.clear()
        self._ranks.clear()
        self._rank_of.clear()
        if self.ranked is not None:
            self.ranked.clear()

    def in_order(self) -> list[OrderItem]:
        """Return the orders from best to worst."""
        if self.ranked is not None:
            return [self.orders[number] for number in self.ranked.numbers()]
        return sorted(self.orders.values(), key=rank, reverse=True)

    def entries(self, entry: Callable[[OrderItem], bytes], size: int) -> bytes:
        """Return the orders from best to worst, each encoded by ``entry`` in ``size`` bytes."""
        if not self.touched:
            return bytes(self._published)
        encoded, ranks, rank_of, orders = self._published, self._ranks, self._rank_of, self.orders
        for number in set(self.touched):
            order, old_rank = orders.get(number), rank_of.get(number)
            if old_rank is not None:
                index = bisect_left(ranks, old_rank)
                if order is not None and old_rank == self._rank(order):
                    encoded[index * size : (index + 1) * size] = entry(order)
                    continue
                del ranks[index], rank_of[number], encoded[index * size : (index + 1) * size]
            if order is not None:
                rank_of[number] = new_rank = self._rank(order)
                index = bisect_left(ranks, new_rank)
                ranks.insert(index, new_rank)
                encoded[index * size : index * size] = entry(order)
        self.touched.clear()
        return bytes(encoded)

    def _rank(self, order: OrderItem) -> int:
        """Return the sort key of an order: better price first, then smaller order number."""
        return (-key_of(self.side, order.price) << 64) + order.secondary_order_id


class PublishedInstrument:
    """Published state of one instrument."""

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
        """``rptSeq`` of the last message; 0 after EmptyBook and before the first message."""
        self.bids = PublishedSide(OrderSide.BUY, positions)
        self.offers = PublishedSide(OrderSide.SELL, positions)
        self.statistics: dict[object, Statistic] = {}
        self.last_trade: Trade | ForwardTrade | LastTradePrice | None = None
        self.own_status: SecurityStatus | None = None
        """Status of the instrument itself, or None while it follows its group's phase."""
        self.emptied = False
        """Whether EmptyBook was the last message."""

    def side(self, side: OrderSide) -> PublishedSide:
        """Return one side of the book."""
        return self.bids if side == OrderSide.BUY else self.offers

    def empty_book(self) -> None:
        """Apply an EmptyBook: the book is void, and its messages are counted from 1 again."""
        self.clear_book()
        self.rpt_seq = 0
        self.emptied = True

    def clear_book(self) -> None:
        """Remove all orders."""
        self.bids.clear()
        self.offers.clear()

    def show(self, item: Statistic) -> None:
        """Apply a statistic: store it, or remove it if it is deleted."""
        key = _key(item)
        if getattr(item, "deleted", False):
            self.statistics.pop(key, None)
            return
        self.statistics[key] = item
        if isinstance(item, ClosingPrice) and item.flag == _PREVIOUS_DAY:
            self._age_closing_price(item.trade_date)
        elif isinstance(item, ExecutionStatistics) and not item.number_of_trades:
            # Every trade was busted, so there is no longer a last price.
            self.last_trade = None

    def _age_closing_price(self, trade_date: int) -> None:
        """Remove yesterday's daily closing price: it is now published as the previous day's."""
        key = (ClosingPrice, OpenCloseSettlFlag.DAILY)
        daily = self.statistics.get(key)
        if isinstance(daily, ClosingPrice) and daily.trade_date < trade_date:
            del self.statistics[key]

    def traded(self, trade: Trade | ForwardTrade | LastTradePrice) -> None:
        """Store a trade as the last one, unless it is out of sequence or amends an earlier one."""
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
        """Return the last trade in the form that snapshots publish."""
        last = self.last_trade
        if last is None or isinstance(last, LastTradePrice):
            return last
        return last_trade_price(last)

    def start_session(self) -> None:
        """Start a new trading session: remove the statistics of the old one."""
        self.last_trade = None
        for kind in _OF_THE_SESSION:
            self.statistics.pop(kind, None)

    def follow(self, phase: TradingStatus) -> None:
        """Apply a change of phase: outside auctions there is no theoretical price."""
        own = None if self.own_status is None else self.own_status.status
        if ruling(phase, own) not in AUCTIONS:
            self.statistics.pop(TheoreticalOpeningPrice, None)
            self.statistics.pop(AuctionImbalance, None)


def _key(item: Statistic) -> object:
    """Return the key under which a statistic replaces an earlier one.

    It is the event type, with the flag of closing and settlement prices, and the type of a band.
    """
    if isinstance(item, (ClosingPrice, SettlementPrice)):
        return type(item), item.flag
    if isinstance(item, PriceBand):
        return PriceBand, item.band_type
    return type(item)


class _Instruments(dict[int, PublishedInstrument]):
    """Instruments by security ID; a missing one raises `UsageError`."""

    def __missing__(self, security_id: int) -> PublishedInstrument:
        raise UsageError(f"instrument {security_id} is not listed on this channel")


class PublishedChannel:
    """Published state of a channel."""

    def __init__(self, instruments: Iterable[Instrument], positions: bool) -> None:
        self._positions = positions
        self._retired: dict[int, int] = {}
        self.definitions: dict[int, Instrument] = {}
        self.instruments: dict[int, PublishedInstrument] = _Instruments()
        self.phases: dict[str, SecurityGroupPhase] = {}
        self._members: dict[str, dict[int, PublishedInstrument]] = {}
        for instrument in instruments:
            if instrument.security_id in self.definitions:
                raise UsageError(f"two instruments have the security ID {instrument.security_id}")
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
        """Apply an added, changed or deleted definition."""
        instrument = item.instrument
        security_id = instrument.security_id
        if item.action == SecurityUpdateAction.DELETE:
            removed = self.instruments.pop(security_id, None)
            self.definitions.pop(security_id, None)
            if removed is not None:
                self._members[removed.group].pop(security_id)
                # If it is listed again, its rptSeq continues.
                self._retired[security_id] = removed.rpt_seq
        elif security_id in self.definitions:
            self.definitions[security_id] = instrument
        else:
            self._add(instrument)

    def has_group(self, group: str) -> bool:
        """Whether any instrument of the group is on this channel."""
        return bool(self._members.get(group))

    def phase(self, item: SecurityGroupPhase) -> None:
        """Apply the phase of a group."""
        self.phases[item.group] = item
        new_session = item.event == TradingEvent.TRADING_SESSION_CHANGE
        for instrument in self._members.get(item.group, {}).values():
            if new_session:
                instrument.start_session()
            instrument.follow(item.phase)

    def status(self, item: SecurityStatus) -> None:
        """Apply the status of an instrument."""
        instrument = self.instruments[item.security_id]
        instrument.own_status = None if item.event == _REJOINS else item
        if item.event == TradingEvent.TRADING_SESSION_CHANGE:
            instrument.start_session()
        phase = self.phases.get(instrument.group)
        if phase is not None:
            instrument.follow(phase.phase)

    def shown_status(self, instrument: PublishedInstrument) -> SecurityStatus | None:
        """Return the status that snapshots publish: always with an event (001 §9.2.3).

        Without an own status it is null, with the event of an instrument that follows its group.
        """
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
            _REJOINS,
            phase.trade_date,
            phase.open_time_ns,
            phase.transact_time_ns,
        )

    def shown_phases(self) -> list[SecurityGroupPhase]:
        """Return the phases that snapshots publish: without the event of a session change."""
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
