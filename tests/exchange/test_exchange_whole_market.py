"""Any commands at all, phases and market operations included: what must hold after each."""

from __future__ import annotations

from copy import copy
from datetime import date, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import (
    CancelOrder,
    Command,
    CrossSide,
    MassCancel,
    ModifyOrder,
    NewCross,
    NewOrder,
)
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrderSide,
    OrdType,
    PriceBandType,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    ExecutionSummary,
    NewOrderMbo,
    TheoreticalOpeningPrice,
    Trade,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    AmendTrade,
    BustTrade,
    DeleteSide,
    EndDay,
    EnterImplied,
    EnterTrade,
    ExpelOrder,
    RejoinGroup,
    ResetBook,
    ResetChannel,
    SetClosingPrice,
    SetGroupPhase,
    SetPriceBand,
    SetSecurityStatus,
    StartDay,
)
from pregao.exchange.engine.model.reports import (
    CommandOutcome,
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
)
from pregao.exchange.engine.phases.auction import theoretical
from tests.exchange.floor import BUY, DAY, OTHER, SELL, SHARE, Floor, share

SECURITIES = st.sampled_from((SHARE, SHARE, OTHER))
SIDES = st.sampled_from((BUY, SELL))
PRICES = st.integers(996, 1004).map(lambda ticks: ticks * 100)
STATES = st.sampled_from(
    (
        *[TradingStatus.OPEN] * 6,
        *[TradingStatus.RESERVED] * 4,
        *[TradingStatus.FINAL_CLOSING_CALL] * 2,
        TradingStatus.PAUSE,
        TradingStatus.CLOSE,
        TradingStatus.FORBIDDEN,
    )
)
VALIDITIES = st.sampled_from([TimeInForce.DAY] * 12 + list(TimeInForce))
TYPES = st.sampled_from([OrdType.LIMIT] * 20 + list(OrdType))


def instruments() -> tuple[Instrument, Instrument]:
    return (
        share(implied_market_indicator=True, previous_close=10**9),
        share(OTHER, previous_close=10**9),
    )


def afresh(listing: Listing) -> Listing:
    """The book without cached state of its history."""
    copied = Listing(listing.instrument, listing.group)
    for order in (*listing.bids, *listing.offers):
        copied.side(order.side).add(copy(order))
    copied.statistics = listing.statistics
    copied.reference8, copied.previous_close8 = listing.reference8, listing.previous_close8
    return copied


class AnyDay(RuleBasedStateMachine):
    """Commands drawn at random; the feed, the books and the sums are watched."""

    def __init__(self) -> None:
        super().__init__()
        self.floor = Floor(*instruments(), auction_duration_ns=50)
        self.number = 0
        self.log: list[tuple[Command, int, CommandOutcome]] = []
        self.balance: dict[int, int] = {}
        """Order id → entered less traded less cancelled: what must be resting."""
        self.trades: list[tuple[int, int]] = []
        self.sessions: dict[int, tuple[int, int]] = {}

    def do(self, command: Command) -> None:
        """Apply a command, or see it refused without a trace."""
        self.take(AdvanceTime())
        views = [self.floor.engine.book(security_id) for security_id in (SHARE, OTHER)]
        try:
            self.take(command)
        except UsageError:
            assert views == [self.floor.engine.book(x) for x in (SHARE, OTHER)]

    def take(self, command: Command) -> None:
        """Apply a command and count its events."""
        outcome = self.floor.do(command, after=7 if isinstance(command, AdvanceTime) else 0)
        self.log.append((command, self.floor.now, outcome))
        for report in outcome.reports:
            if isinstance(report, OrderAccepted | OrderModified):
                self.balance[report.order_id] = report.leaves_qty
                self.sessions[report.cl_ord_id] = (report.session, report.security_id)
            elif isinstance(report, OrderFilled):
                self.balance[report.order_id] -= report.last_qty
                assert self.balance[report.order_id] == report.leaves_qty
            elif isinstance(report, OrderCancelled):
                self.balance[report.order_id] = 0
        self.trades.extend((t.security_id, t.trade_id) for t in self.floor.items(Trade))

    @rule(
        security_id=SECURITIES,
        side=SIDES,
        quantity=st.integers(1, 40),
        price=PRICES,
        ord_type=TYPES,
        tif=VALIDITIES,
        floor=st.sampled_from((0, 0, 0, 4)),
        minimum=st.sampled_from((0, 0, 0, 0, 10)),
        session=st.integers(1, 2),
    )
    def enter(self, security_id, side, quantity, price, ord_type, tif, floor, minimum, session):
        self.number += 1
        priced = ord_type == OrdType.LIMIT
        self.do(
            NewOrder(
                session,
                100 + session,
                self.number,
                security_id,
                side,
                quantity,
                price if priced else None,
                ord_type,
                tif,
                floor,
                minimum,
                expire_date=DAY,
            )
        )

    @rule(
        security_id=SECURITIES,
        orders=st.lists(st.tuples(SIDES, st.integers(1, 40), PRICES), min_size=3, max_size=8),
    )
    def enter_many(self, security_id, orders):
        for side, quantity, price in orders:
            self.number += 1
            self.do(NewOrder(1, 101, self.number, security_id, side, quantity, price))

    @rule()
    def open_all(self):
        for security_id in (SHARE, OTHER):
            self.do(RejoinGroup(security_id))
        self.do(SetGroupPhase("XX", TradingStatus.OPEN))

    @rule(pick=st.integers(0, 999), quantity=st.integers(1, 40), price=st.none() | PRICES)
    def modify(self, pick, quantity, price):
        if self.sessions:
            cl_ord_id = sorted(self.sessions)[pick % len(self.sessions)]
            session, security_id = self.sessions[cl_ord_id]
            self.number += 1
            self.do(
                ModifyOrder(
                    session, self.number, security_id, quantity, price, orig_cl_ord_id=cl_ord_id
                )
            )

    @rule(pick=st.integers(0, 999))
    def cancel(self, pick):
        if self.sessions:
            cl_ord_id = sorted(self.sessions)[pick % len(self.sessions)]
            session, security_id = self.sessions[cl_ord_id]
            self.number += 1
            self.do(CancelOrder(session, self.number, security_id, orig_cl_ord_id=cl_ord_id))

    @rule(phase=STATES, new_session=st.booleans())
    def group_phase(self, phase, new_session):
        self.do(SetGroupPhase("XX", phase, new_session=new_session))

    @rule(security_id=SECURITIES, status=STATES, lasting=st.none() | st.integers(1, 60))
    def status(self, security_id, status, lasting):
        end = None if lasting is None else self.floor.now + 7 + lasting
        self.do(SetSecurityStatus(security_id, status, end))

    @rule(security_id=SECURITIES)
    def rejoin(self, security_id):
        self.do(RejoinGroup(security_id))

    @rule(security_id=SECURITIES, low=PRICES, high=PRICES)
    def auction_band(self, security_id, low, high):
        self.do(SetPriceBand(security_id, PriceBandType.AUCTION_LIMITS, low=low, high=high))

    @rule(security_id=SECURITIES, price=PRICES, quantity=st.integers(1, 9))
    def cross(self, security_id, price, quantity):
        self.number += 2
        self.do(
            NewCross(
                1,
                self.number,
                security_id,
                quantity,
                price,
                CrossSide(5, self.number - 1),
                CrossSide(6, self.number),
            )
        )

    @rule(pick=st.integers(0, 999), price=PRICES, bust=st.booleans())
    def correct(self, pick, price, bust):
        if self.trades:
            security_id, trade_id = self.trades[pick % len(self.trades)]
            if bust:
                self.do(BustTrade(security_id, trade_id))
            else:
                self.do(AmendTrade(security_id, trade_id, price))

    @rule(
        command=st.one_of(
            st.builds(MassCancel, st.integers(1, 2), st.just(7)),
            st.builds(DeleteSide, SECURITIES, SIDES),
            st.builds(ExpelOrder, st.integers(1, 60)),
            st.builds(EnterTrade, SECURITIES, PRICES, st.integers(1, 9)),
            st.builds(EnterImplied, st.just(SHARE), SIDES, PRICES, st.integers(1, 9)),
            st.builds(ResetBook, SECURITIES),
            st.just(ResetChannel(1)),
            st.just(EndDay()),
            st.just(AdvanceTime()),
            st.builds(
                SetClosingPrice,
                SECURITIES,
                PRICES.map(lambda price: price * 10_000),
                st.just(OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY),
            ),
            st.builds(
                StartDay, st.integers(0, 2).map(lambda more: date(2026, 5, 21) + timedelta(more))
            ),
        )
    )
    def operate(self, command):
        self.do(command)

    @invariant()
    def feed_gives_the_book(self):
        self.floor.check_feed()

    @invariant()
    def open_books_are_not_crossed_and_hold_no_market_orders(self):
        for security_id in (SHARE, OTHER):
            if self.floor.engine.book(security_id).ruling_status == TradingStatus.OPEN:
                bids, offers = self.floor.book(BUY, security_id), self.floor.book(SELL, security_id)
                assert all(price is not None for price, _ in bids + offers)
                if bids and offers:
                    assert bids[0][0] < offers[0][0]

    @invariant()
    def nothing_is_lost(self):
        standing = {
            order_id: order.leaves for order_id, order in self.floor.engine.market.orders.items()
        }
        assert standing == {key: value for key, value in self.balance.items() if value}

    @invariant()
    def levels_add_up(self):
        self.floor.check_levels()

    @invariant()
    def theoretical_price_stands_only_in_auctions_and_is_the_latest(self):
        for listing in self.floor.engine.market.listings.values():
            shown = self.floor.shown(
                TheoreticalOpeningPrice, AuctionImbalance, security_id=listing.security_id
            )
            auction = listing.status in (
                TradingStatus.RESERVED,
                TradingStatus.FINAL_CLOSING_CALL,
            )
            expected = theoretical(afresh(listing)) if auction else None
            assert listing.theoretical == expected
            if expected is None:
                assert not shown
            else:
                price, imbalance = shown
                assert (price.price, price.size) == (expected.price, expected.quantity)
                assert imbalance.size == abs(expected.imbalance)

    @invariant()
    def units_are_well_formed(self):
        for unit in self.floor.last.market:
            summaries = [
                i for i, item in enumerate(unit.items) if isinstance(item, ExecutionSummary)
            ]
            assert summaries in ([], [0])
            if summaries:
                trades = [item for item in unit.items if isinstance(item, Trade)]
                summary = unit.items[0]
                assert isinstance(summary, ExecutionSummary)
                assert summary.fill_qty == sum(trade.size for trade in trades)
                assert summary.last_px == trades[-1].price

    def teardown(self):
        """Equal commands give equal outcomes."""
        replica = MatchingEngine(instruments(), DAY, track_positions=True, auction_duration_ns=50)
        replica.apply(SetGroupPhase("XX", TradingStatus.OPEN), 1_001)
        for command, now, outcome in self.log:
            assert replica.apply(command, now) == outcome
        for security_id in (SHARE, OTHER):
            assert replica.book(security_id) == self.floor.engine.book(security_id)


TestAnyDay = AnyDay.TestCase
TestAnyDay.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_positions_are_computed_only_on_request():
    floor = Floor(track_positions=False)
    floor.order(OrderSide.BUY, 1, 10)
    (added,) = floor.items(NewOrderMbo)
    assert added.position is None
