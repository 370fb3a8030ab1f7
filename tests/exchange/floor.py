"""A small trading floor for the tests: an engine with shorthand for orders, and a feed reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import CancelOrder, Command, ModifyOrder, NewOrder
from pregao.exchange.engine.model.enums import OrderSide, TradingStatus
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    DeleteOrderMbo,
    EmptyBook,
    MarketItem,
    MassDeleteOrders,
    NewOrderMbo,
)
from pregao.exchange.engine.model.instruments import (
    InstrAttrib,
    InstrAttribType,
    InstrAttribValue,
    Instrument,
    Product,
    SecurityType,
)
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.engine.model.reports import CommandOutcome, OrderRejected

BUY, SELL = OrderSide.BUY, OrderSide.SELL
DAY = date(2026, 5, 21)
SHARE = 100_000_000_001
OTHER = 100_000_000_002

CROSS = InstrAttrib(InstrAttribType.TRADE_TYPE_ELIGIBILITY, InstrAttribValue.ORDER_CROSS_ELIGIBLE)
GOOD_TILL = InstrAttrib(
    InstrAttribType.GTD_GTC_ELIGIBILITY, InstrAttribValue.ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE
)


def px(price: float | str) -> int:
    """A price as people write it, in units of 1e-4."""
    return round(float(price) * 10_000)


def share(security_id: int = SHARE, **changes: Any) -> Instrument:
    """A share with a lot of 1 and a tick of 0.01."""
    fields: dict[str, Any] = {
        "security_id": security_id,
        "symbol": f"ACME{security_id % 100}",
        "security_group": "XX",
        "security_type": SecurityType.CS,
        "security_sub_type": 1003,
        "product": Product.EQUITY,
        "asset": "ACME",
        "cfi_code": "ESVUFR",
        "min_price_increment": 1_000_000,
        "min_lot_size": 1,
        "channel": 1,
        "attributes": (CROSS, GOOD_TILL),
    }
    return Instrument(**{**fields, **changes})


def future(security_id: int = SHARE, **changes: Any) -> Instrument:
    """A derivative with a tick of 0.01."""
    return share(
        security_id,
        **{
            "security_type": SecurityType.FUT,
            "security_sub_type": 20,
            "product": Product.INDEX,
            "cfi_code": "FFICSX",
            "attributes": (CROSS,),
            **changes,
        },
    )


@dataclass
class FeedBook:
    """A client's book, rebuilt from the feed alone: by price, then by secondary order id."""

    orders: dict[tuple[OrderSide, int], tuple[int | None, int]] = field(default_factory=dict)
    by_position: dict[OrderSide, list[tuple[int | None, int, int]]] = field(
        default_factory=lambda: {BUY: [], SELL: []}
    )

    def apply(self, item: MarketItem) -> None:
        """Follow one message."""
        if isinstance(item, NewOrderMbo):
            key = (item.side, item.secondary_order_id)
            assert key not in self.orders
            self.orders[key] = (item.price, item.size)
            if item.position is not None:
                self.by_position[item.side].insert(
                    item.position - 1, (item.price, item.size, item.secondary_order_id)
                )
        elif isinstance(item, ChangeOrderMbo):
            key = (item.side, item.secondary_order_id)
            assert self.orders[key] == (item.price, item.prev_size)
            assert 0 < item.size != item.prev_size
            self.orders[key] = (item.price, item.size)
            if item.position is not None:
                rows = self.by_position[item.side]
                assert rows[item.position - 1][2] == item.secondary_order_id
                rows[item.position - 1] = (item.price, item.size, item.secondary_order_id)
        elif isinstance(item, DeleteOrderMbo):
            key = (item.side, item.secondary_order_id)
            assert self.orders.pop(key) == (item.price, item.size)
            if item.position is not None:
                gone = self.by_position[item.side].pop(item.position - 1)
                assert gone == (item.price, item.size, item.secondary_order_id)
        elif isinstance(item, MassDeleteOrders):
            gone_keys = [key for key in self.orders if key[0] == item.side]
            assert len(gone_keys) == item.count
            for key in gone_keys:
                del self.orders[key]
            self.by_position[item.side].clear()
        elif isinstance(item, EmptyBook):
            self.orders.clear()
            for rows in self.by_position.values():
                rows.clear()

    def side(self, side: OrderSide) -> list[tuple[int | None, int, int]]:
        """One side as (price, size, secondary order id), best first."""
        rows = [
            (price, size, number)
            for (own, number), (price, size) in self.orders.items()
            if own == side
        ]
        sign = -1 if side == BUY else 1

        def rank(row: tuple[int | None, int, int]) -> tuple[int, int, int]:
            price, _, number = row
            return (0, 0, number) if price is None else (1, sign * price, number)

        return sorted(rows, key=rank)


class Floor:
    """An engine, its clock, and every book rebuilt from its events."""

    def __init__(self, *instruments: Instrument, phase: int = TradingStatus.OPEN, **options: Any):
        instruments = instruments or (share(),)
        options.setdefault("track_positions", True)
        self.engine = MatchingEngine(instruments, DAY, **options)
        self.now = 1_000
        self.next_id = 0
        self.books = {instrument.security_id: FeedBook() for instrument in instruments}
        self.last = CommandOutcome([], [])
        self.named: dict[int, int] = {}
        """ClOrdIDs by the numbers that a document prints."""
        for group in sorted({instrument.security_group for instrument in instruments}):
            self.do(SetGroupPhase(group, TradingStatus(phase)))

    def do(self, command: Command, after: int = 1) -> CommandOutcome:
        """Apply a command a little later, and follow the feed."""
        self.now += after
        self.last = self.engine.apply(command, self.now)
        for unit in self.last.market:
            assert unit.items
            for item in unit.items:
                security_id = getattr(item, "security_id", None)
                if security_id in self.books:
                    self.books[security_id].apply(item)
        return self.last

    def order(
        self,
        side: OrderSide,
        quantity: int,
        price: float | None = None,
        *,
        session: int = 1,
        security_id: int = SHARE,
        **fields: Any,
    ) -> int:
        """Enter an order and give the ClOrdID it went by."""
        self.next_id += 1
        fields.setdefault("firm", 100 + session)
        self.do(
            NewOrder(
                session=session,
                cl_ord_id=self.next_id,
                security_id=security_id,
                side=side,
                quantity=quantity,
                price=None if price is None else px(price),
                **fields,
            )
        )
        return self.next_id

    def cancel(
        self, cl_ord_id: int, *, session: int = 1, security_id: int = SHARE
    ) -> CommandOutcome:
        """Cancel an order by its ClOrdID."""
        self.next_id += 1
        return self.do(CancelOrder(session, self.next_id, security_id, orig_cl_ord_id=cl_ord_id))

    def modify(
        self,
        cl_ord_id: int,
        quantity: int,
        price: float | None = None,
        *,
        session: int = 1,
        security_id: int = SHARE,
        **fields: Any,
    ) -> int:
        """Change an order and give its new ClOrdID."""
        self.next_id += 1
        self.do(
            ModifyOrder(
                session=session,
                cl_ord_id=self.next_id,
                security_id=security_id,
                quantity=quantity,
                price=None if price is None else px(price),
                orig_cl_ord_id=cl_ord_id,
                **fields,
            )
        )
        return self.next_id

    def unit(self) -> Any:
        """The one unit that the last command published."""
        (unit,) = self.last.market
        return unit

    def items(self, *kinds: type) -> list[Any]:
        """Market events of the last command, of these kinds or of all."""
        return [
            item
            for unit in self.last.market
            for item in unit.items
            if not kinds or isinstance(item, kinds)
        ]

    def shown(self, *kinds: type, security_id: int = SHARE) -> list[Any]:
        """The current statistics, of these kinds or of all."""
        return [
            item
            for item in self.engine.book(security_id).statistics
            if not kinds or isinstance(item, kinds)
        ]

    def reports(self, *kinds: type) -> list[Any]:
        """Private reports of the last command, of these kinds or of all."""
        return [report for report in self.last.reports if not kinds or isinstance(report, kinds)]

    def reject_code(self) -> int | None:
        """The code of the last command's reject, if there was one."""
        found = self.reports(OrderRejected)
        return found[0].code if found else None

    def book(self, side: OrderSide, security_id: int = SHARE) -> list[tuple[Any, int]]:
        """One side of the engine's book as (price, size), best first."""
        view = self.engine.book(security_id)
        return [(entry.price, entry.size) for entry in (view.bids if side == BUY else view.offers)]

    def numbers(self, side: OrderSide, security_id: int = SHARE) -> list[int]:
        """The secondary order ids of one side, best first."""
        view = self.engine.book(security_id)
        return [entry.secondary_order_id for entry in (view.bids if side == BUY else view.offers)]

    def check_feed(self) -> None:
        """The book rebuilt from the feed is the engine's, by priority and by position."""
        for security_id, rebuilt in self.books.items():
            view = self.engine.book(security_id)
            for side, entries in ((BUY, view.bids), (SELL, view.offers)):
                truth = [(entry.price, entry.size, entry.secondary_order_id) for entry in entries]
                assert rebuilt.side(side) == truth
                assert rebuilt.by_position[side] == truth

    def check_levels(self) -> None:
        """The queues of every price hold together, and every standing order is in one."""
        market = self.engine.market
        for listing in market.listings.values():
            in_book = 0
            for side in (listing.bids, listing.offers):
                assert side.keys == sorted(side.levels)
                for key in side.keys:
                    level = side.levels[key]
                    orders = list(level)
                    assert level.count == len(orders) > 0
                    assert level.quantity == sum(order.leaves for order in orders)
                    assert level.tail is orders[-1]
                    numbers = [order.secondary_order_id for order in orders]
                    assert numbers == sorted(numbers)
                    for order in orders:
                        assert 0 < order.visible <= order.leaves
                        assert order.max_floor == 0 or order.visible <= order.max_floor
                assert side.count == sum(level.count for level in side.levels.values())
                in_book += side.count
            mine = [
                order
                for order in market.orders.values()
                if order.security_id == listing.security_id
            ]
            assert len(mine) == in_book + len(listing.waiting)
