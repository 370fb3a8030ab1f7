"""Any sequence of commands: a naive matcher agrees, nothing crosses, nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pregao.exchange.engine.model.commands import MassCancel
from pregao.exchange.engine.model.enums import OrderSide, TimeInForce
from pregao.exchange.engine.model.events import Trade
from pregao.exchange.engine.model.reports import (
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
)
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, share

IOC, FOK = TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL
SECURITIES = (SHARE, OTHER)


@dataclass
class Naive:
    """An order of the naive matcher."""

    number: int
    side: OrderSide
    price: int
    leaves: int
    floor: int
    shown: int
    turn: int

    def show(self) -> None:
        self.shown = min(self.floor, self.leaves) if self.floor else self.leaves


@dataclass
class NaiveBook:
    """The simplest possible matcher: one list, sorted again for every trade."""

    orders: list[Naive] = field(default_factory=list)
    trades: list[tuple[int, int, int, int]] = field(default_factory=list)
    turn: int = 0

    def queue(self, side: OrderSide) -> list[Naive]:
        sign = -1 if side == BUY else 1
        mine = [order for order in self.orders if order.side == side]
        return sorted(mine, key=lambda order: (sign * order.price, order.turn))

    def crosses(self, order: Naive, resting: Naive) -> bool:
        if order.side == BUY:
            return resting.price <= order.price
        return resting.price >= order.price

    def enter(self, order: Naive, tif: TimeInForce) -> None:
        self.turn += 1
        order.turn = self.turn
        opposite = SELL if order.side == BUY else BUY
        reach = sum(x.leaves for x in self.queue(opposite) if self.crosses(order, x))
        if tif == FOK and reach < order.leaves:
            return
        while order.leaves:
            candidates = [x for x in self.queue(opposite) if self.crosses(order, x)]
            if not candidates:
                break
            resting = candidates[0]
            quantity = min(order.leaves, resting.shown)
            order.leaves -= quantity
            resting.leaves -= quantity
            resting.shown -= quantity
            self.trades.append((resting.price, quantity, order.number, resting.number))
            if not resting.leaves:
                self.orders.remove(resting)
            elif not resting.shown:
                self.turn += 1
                resting.turn = self.turn
                resting.show()
        if order.leaves and tif not in (IOC, FOK):
            order.show()
            self.orders.append(order)


class AnyMarket(RuleBasedStateMachine):
    """Two instruments, any orders; after each step engine, feed and naive book are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.floor = Floor(share(), share(OTHER))
        self.naive = {security_id: NaiveBook() for security_id in SECURITIES}
        self.standing: dict[int, tuple[int, int]] = {}
        """ClOrdID now → (security, number that the naive book knows it by)."""
        self.entered = self.traded = self.cancelled = 0
        self.seen: dict[int, list[tuple[int, int, int, int]]] = {x: [] for x in SECURITIES}
        self.number_of: dict[int, int] = {}
        self.sessions: dict[int, int] = {}

    def follow(self) -> None:
        """Collect the books' sums and the trades from the engine's events."""
        for report in self.floor.reports():
            if isinstance(report, OrderAccepted):
                self.number_of[report.order_id] = report.cl_ord_id
                self.entered += report.quantity
            elif isinstance(report, OrderCancelled):
                self.cancelled += report.quantity - report.cum_qty
            elif isinstance(report, OrderFilled):
                self.traded += report.last_qty
        fills = self.floor.reports(OrderFilled)
        passive, active = fills[::2], fills[1::2]
        for trade, resting, order in zip(self.floor.items(Trade), passive, active, strict=True):
            assert (resting.aggressor, order.aggressor) == (False, True)
            assert trade.price == resting.last_px == order.last_px
            assert trade.size == resting.last_qty == order.last_qty
            buyer, seller = (order, resting) if order.side == BUY else (resting, order)
            assert (trade.buyer, trade.seller) == (buyer.firm, seller.firm)
            self.seen[trade.security_id].append(
                (
                    trade.price,
                    trade.size,
                    self.number_of[order.order_id],
                    self.number_of[resting.order_id],
                )
            )
        for cl_ord_id in list(self.standing):
            security_id, number = self.standing[cl_ord_id]
            if all(x.number != number for x in self.naive[security_id].orders):
                del self.standing[cl_ord_id]

    @rule(
        security_id=st.sampled_from(SECURITIES),
        side=st.sampled_from((BUY, SELL)),
        quantity=st.integers(1, 30),
        ticks=st.integers(995, 1005),
        tif=st.sampled_from((TimeInForce.DAY, TimeInForce.DAY, TimeInForce.DAY, IOC, FOK)),
        floor=st.sampled_from((0, 0, 0, 1, 3, 7)),
        session=st.integers(1, 3),
    )
    def enter(self, security_id, side, quantity, ticks, tif, floor, session):
        if tif != TimeInForce.DAY or floor > quantity:
            floor = 0
        number = self.floor.order(
            side,
            quantity,
            ticks / 100,
            security_id=security_id,
            time_in_force=tif,
            max_floor=floor,
            session=session,
        )
        assert self.floor.reject_code() is None
        self.naive[security_id].enter(
            Naive(number, side, ticks * 100, quantity, floor, quantity, 0), tif
        )
        self.standing[number] = (security_id, number)
        self.sessions[number] = session
        self.follow()

    @precondition(lambda self: self.standing)
    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick):
        cl_ord_id = sorted(self.standing)[pick % len(self.standing)]
        security_id, number = self.standing[cl_ord_id]
        self.floor.cancel(cl_ord_id, session=self.sessions[number], security_id=security_id)
        book = self.naive[security_id]
        book.orders = [order for order in book.orders if order.number != number]
        self.follow()

    @precondition(lambda self: self.standing)
    @rule(
        pick=st.integers(0, 10_000),
        change=st.sampled_from((-9, -3, -1, 0, 0, 2, 8)),
        ticks=st.one_of(st.none(), st.integers(995, 1005)),
    )
    def modify(self, pick, change, ticks):
        cl_ord_id = sorted(self.standing)[pick % len(self.standing)]
        security_id, number = self.standing.pop(cl_ord_id)
        book = self.naive[security_id]
        order = next(x for x in book.orders if x.number == number)
        view = next(x for x in self.floor.engine.market.orders.values() if x.cl_ord_id == cl_ord_id)
        quantity = view.quantity + change
        if quantity <= 0:
            self.standing[cl_ord_id] = (security_id, number)
            return
        price = None if ticks is None else ticks * 100
        if price == order.price:
            price = None
        fresh = self.floor.modify(
            cl_ord_id,
            quantity,
            None if price is None else price / 10_000,
            security_id=security_id,
            session=self.sessions[number],
        )
        assert self.floor.reject_code() is None
        self.entered += change if self.floor.reports(OrderModified) else 0
        self.standing[fresh] = (security_id, number)
        if order.leaves + change <= 0:
            book.orders.remove(order)
        elif price is None and change <= 0:
            order.leaves += change
            if order.floor > quantity:
                order.floor = 0
            if not order.floor and order.shown < order.leaves:
                # All of it is shown from now on: it goes to the end.
                book.orders.remove(order)
                book.enter(order, TimeInForce.DAY)
            order.shown = min(order.shown, order.leaves)
        else:
            order.leaves += change
            if order.floor > quantity:
                order.floor = 0
            order.price = order.price if price is None else price
            book.orders.remove(order)
            book.enter(order, TimeInForce.DAY)
        self.follow()

    @rule(
        session=st.integers(1, 3),
        security_id=st.sampled_from((None, *SECURITIES)),
        side=st.sampled_from((None, BUY, SELL)),
    )
    def cancel_all(self, session, security_id, side):
        self.floor.do(MassCancel(session, 1_000_000, security_id, side))
        assert len(self.floor.last.market) <= 1
        for own, book in self.naive.items():
            book.orders = [
                order
                for order in book.orders
                if not (
                    self.sessions[order.number] == session
                    and security_id in (None, own)
                    and side in (None, order.side)
                )
            ]
        self.follow()

    @invariant()
    def naive_matcher_agrees(self):
        for security_id, book in self.naive.items():
            assert self.seen[security_id] == book.trades
            for side in (BUY, SELL):
                expected = [(order.price, order.shown) for order in book.queue(side)]
                assert self.floor.book(side, security_id) == expected

    @invariant()
    def feed_gives_the_book(self):
        self.floor.check_feed()
        self.floor.check_levels()

    @invariant()
    def book_is_not_crossed(self):
        for security_id in SECURITIES:
            bids, offers = self.floor.book(BUY, security_id), self.floor.book(SELL, security_id)
            if bids and offers:
                assert bids[0][0] < offers[0][0]

    @invariant()
    def quantity_is_conserved(self):
        resting = sum(order.leaves for order in self.floor.engine.market.orders.values())
        assert self.entered == self.traded + self.cancelled + resting


TestAnyMarket = AnyMarket.TestCase
TestAnyMarket.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
