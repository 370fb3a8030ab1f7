"""Any sequence of commands with every order type, prevention and protection: what always holds."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.commands import CrossSide, MassCancel, NewCross
from pregao.exchange.engine.model.enums import (
    CrossPrioritization,
    CrossType,
    OrdType,
    RoutingInstruction,
    SelfTradePreventionInstruction,
    TimeInForce,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import Trade
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    ProtectionReference,
    SetGroupPhase,
    SetProtection,
    SetSecurityStatus,
)
from pregao.exchange.engine.model.reports import (
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
    OrderRestated,
)
from tests.exchange.floor import BUY, DAY, OTHER, SELL, SHARE, Floor, px, share

SECURITIES = (SHARE, OTHER)
INVESTORS = (0, investor_number(300, 1), investor_number(300, 2))
HIDDEN = (TrdSubType.RLP_TRADE, TrdSubType.MIDPOINT_TRADE)
"""Trades that are not of the book: prevention does not hold for them."""
UNSEEN = (OrdType.RLP, OrdType.PEGGED_MIDPOINT)
"""Types of orders that are active although never in the book."""
SIDES = st.sampled_from((BUY, SELL))
TICKS = st.integers(997, 1004)
QUANTITIES = st.integers(1, 30)
FIRMS = st.integers(1, 2)
ACCOUNTS = st.integers(0, 1)
LIMIT, STOP, STOP_LIMIT = OrdType.LIMIT, OrdType.STOP_LOSS, OrdType.STOP_LIMIT
MARKET, TO_LIMIT = OrdType.MARKET, OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT


@dataclass
class Known:
    """State of an order according to its reports."""

    session: int
    security_id: int
    investor: int
    cl_ord_id: int
    quantity: int
    cum: int = 0


class WholeOrderModel(RuleBasedStateMachine):
    """Two instruments with everything on; an owner's reports and the feed are followed."""

    AUCTIONS: AuctionRules | None = None
    """Ends of auctions other than by the phase."""

    def __init__(self) -> None:
        super().__init__()
        instruments = (share(previous_close=10 * 10**8), share(OTHER, previous_close=10 * 10**8))
        self.floor = Floor(*instruments, auction_rules=self.AUCTIONS)
        self.known: dict[int, Known] = {}
        self.next_cross = 0
        for account in (0, 1):
            for firm in (1, 2):
                self.floor.do(
                    SetProtection(
                        10 * firm + account,
                        firm,
                        account,
                        (ProtectionReference(SHARE),),
                        interval_ns=50,
                        traded_quantity=150,
                        cancels_stops=bool(account),
                    )
                )

    def follow(self, investor: int = 0, prevented: bool = True) -> None:
        """Follow the reports: every chain is consistent, and no investor trades with itself."""
        fills = []
        for report in self.floor.reports():
            if isinstance(report, OrderAccepted):
                known = self.known.setdefault(
                    report.order_id,
                    Known(
                        report.session,
                        report.security_id,
                        investor,
                        report.cl_ord_id,
                        report.quantity,
                    ),
                )
                assert (known.quantity, known.cum) == (report.quantity, report.cum_qty)
                assert report.leaves_qty == report.quantity - report.cum_qty
            elif isinstance(report, OrderModified):
                known = self.known[report.order_id]
                assert (known.cl_ord_id, known.cum) == (report.orig_cl_ord_id, report.cum_qty)
                known.cl_ord_id, known.quantity = report.cl_ord_id, report.quantity
                assert report.leaves_qty == report.quantity - report.cum_qty > 0
            elif isinstance(report, OrderFilled):
                known = self.known[report.order_id]
                known.cum += report.last_qty
                assert (known.cum, known.quantity) == (report.cum_qty, report.quantity)
                assert report.leaves_qty == report.quantity - report.cum_qty >= 0
                fills.append((report, known.investor))
                if not report.leaves_qty:
                    del self.known[report.order_id]
            elif isinstance(report, OrderCancelled):
                known = self.known.pop(report.order_id)
                assert (known.cum, known.quantity) == (report.cum_qty, report.quantity)
            elif isinstance(report, OrderRestated):
                assert self.known[report.order_id].cum == report.cum_qty
        trades = self.floor.items(Trade)
        for trade, (one, mine), (other, yours) in zip(trades, fills[::2], fills[1::2], strict=True):
            assert trade.size == one.last_qty == other.last_qty
            assert trade.price == one.last_px == other.last_px
            assert {one.side, other.side} == {BUY, SELL}
            if prevented and trade.trd_sub_type not in HIDDEN:
                assert not mine or mine != yours

    @rule(
        security_id=st.sampled_from(SECURITIES),
        side=SIDES,
        quantity=QUANTITIES,
        ticks=TICKS,
        away=st.integers(-2, 2),
        kind=st.sampled_from(
            (LIMIT, LIMIT, LIMIT, STOP, STOP_LIMIT, MARKET, TO_LIMIT, OrdType.RLP)
        ),
        tif=st.sampled_from(
            (TimeInForce.DAY,) * 4
            + (
                TimeInForce.IMMEDIATE_OR_CANCEL,
                TimeInForce.FILL_OR_KILL,
                TimeInForce.GOOD_FOR_AUCTION,
                TimeInForce.AT_THE_CLOSE,
            )
        ),
        floor=st.sampled_from((0, 0, 0, 1, 3)),
        least=st.sampled_from((0, 0, 0, 5)),
        investor=st.sampled_from(INVESTORS),
        prevention=st.sampled_from(SelfTradePreventionInstruction),
        routing=st.sampled_from((0, 0, 0, 1, 2)),
        firm=FIRMS,
        account=ACCOUNTS,
        reset=st.booleans(),
        session=st.integers(1, 2),
    )
    def enter(
        self, security_id, side, quantity, ticks, away, kind, tif, floor, least, investor,
        prevention, routing, firm, account, reset, session,
    ):  # fmt: skip
        # Most of what is drawn goes together; what does not is refused, and must change nothing.
        if tif != TimeInForce.DAY or kind != LIMIT:
            floor = least = 0
        if kind in (OrdType.RLP, OrdType.PEGGED_MIDPOINT) or (kind == MARKET and routing == 1):
            tif, routing = TimeInForce.DAY, 0
        if routing == 1:
            floor = least = 0
        protected = any(
            protection.active
            for protection in self.floor.engine.market.protections.get((firm, account), ())
        )
        self.floor.order(
            side,
            quantity,
            ticks / 100 if kind in (LIMIT, STOP_LIMIT) else None,
            security_id=security_id,
            ord_type=kind,
            stop_px=px((ticks + away) / 100) if kind in (STOP, STOP_LIMIT) else None,
            time_in_force=tif,
            max_floor=floor,
            min_qty=least,
            investor_id=investor,
            self_trade_prevention=prevention,
            routing_instruction=RoutingInstruction(routing),
            firm=firm,
            account=account,
            mm_protection_reset=reset,
            session=session,
        )
        if protected and security_id == SHARE and not reset:
            assert self.floor.reject_code() is not None
        self.follow(investor)

    @precondition(lambda self: self.known)
    @rule(
        pick=st.integers(0, 10_000),
        change=st.sampled_from((-9, -1, 0, 2)),
        ticks=st.one_of(st.none(), TICKS),
        kind=st.sampled_from((None, None, LIMIT, STOP_LIMIT)),
        tif=st.sampled_from((None, None, None, *TimeInForce)),
        least=st.sampled_from((None, None, None, 5)),
        floor=st.sampled_from((None, None, 0, 3)),
        tag=st.sampled_from((None, 1, 2)),
        reset=st.booleans(),
    )
    def modify(self, pick, change, ticks, kind, tif, least, floor, tag, reset):
        order_id = sorted(self.known)[pick % len(self.known)]
        known = self.known[order_id]
        if known.quantity + change <= 0:
            return
        self.floor.modify(
            known.cl_ord_id,
            known.quantity + change,
            None if ticks is None else ticks / 100,
            ord_type=kind,
            stop_px=px(10.03) if kind == STOP_LIMIT else None,
            time_in_force=tif,
            min_qty=least,
            max_floor=floor,
            ord_tag_id=tag,
            expire_date=DAY if tif == TimeInForce.GOOD_TILL_DATE else None,
            session=known.session,
            security_id=known.security_id,
            mm_protection_reset=reset,
        )
        order = self.floor.engine.market.orders.get(order_id)
        for report in self.floor.reports(OrderModified):
            # The report confirms what the order now is, unless something happened to it since.
            if order is None or len(self.floor.reports()) > 1:
                continue
            assert (report.time_in_force, report.min_qty, report.max_floor, report.stop_px) == (
                order.time_in_force, order.min_qty, order.max_floor, order.stop_px,
            )  # fmt: skip
            assert tag in (None, order.ord_tag_id)
            assert report.working == (order.level is not None or order.ord_type in UNSEEN)
        self.follow()

    @precondition(lambda self: self.known)
    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick):
        order_id = sorted(self.known)[pick % len(self.known)]
        known = self.known[order_id]
        self.floor.cancel(known.cl_ord_id, session=known.session, security_id=known.security_id)
        self.follow()

    @rule(
        session=st.integers(1, 2),
        side=st.sampled_from((None, BUY, SELL)),
        investor=st.sampled_from(INVESTORS),
    )
    def cancel_all(self, session, side, investor):
        self.floor.now += 100
        self.floor.do(MassCancel(session, 1_000_000, side=side, investor_id=investor))
        if self.AUCTIONS is None:  # else an auction may have ended just before
            assert len(self.floor.last.market) <= 1
        self.follow()

    @rule(
        ticks=TICKS,
        quantity=QUANTITIES,
        sweep=st.sampled_from(CrossPrioritization),
        firm=FIRMS,
        max_sweep=st.one_of(st.none(), QUANTITIES),
    )
    def cross(self, ticks, quantity, sweep, firm, max_sweep):
        self.next_cross -= 2
        kind = CrossType.ALL_OR_NONE_CROSS
        if sweep:
            kind = CrossType.CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT
        self.floor.do(
            NewCross(
                1,
                7,
                SHARE,
                quantity,
                ticks * 100,
                CrossSide(firm, 10**9 - self.next_cross, 1),
                CrossSide(firm, 10**9 - self.next_cross + 1, 0),
                cross_type=kind,
                prioritization=sweep,
                max_sweep_qty=max_sweep,
            )
        )
        self.follow()

    @rule(
        phase=st.sampled_from(
            (
                *(TradingStatus.OPEN,) * 6,
                TradingStatus.RESERVED,
                TradingStatus.FINAL_CLOSING_CALL,
                TradingStatus.PAUSE,
            )
        )
    )
    def change_phase(self, phase):
        self.floor.do(SetGroupPhase("XX", phase))
        self.follow(prevented=False)

    @invariant()
    def feed_gives_the_book(self):
        self.floor.check_feed()
        self.floor.check_levels()

    @invariant()
    def owners_know_every_order(self):
        orders = self.floor.engine.market.orders
        assert {
            number: (x.quantity, x.cum, x.quantity - x.leaves) for number, x in orders.items()
        } == {number: (x.quantity, x.cum, x.cum) for number, x in self.known.items()}

    @invariant()
    def orders_outside_the_book_wait_for_something(self):
        for order in self.floor.engine.market.orders.values():
            dated = order.time_in_force == TimeInForce.GOOD_TILL_DATE
            assert dated == (order.expire_date is not None)
            if order.level is not None:
                assert order.stop_px is None
                assert order.ord_type not in UNSEEN
            else:
                closing = order.time_in_force == TimeInForce.AT_THE_CLOSE
                assert order.stop_px is not None or closing or order.ord_type in UNSEEN

    @invariant()
    def nothing_is_left_to_follow(self):
        market = self.floor.engine.market
        assert not market.triggered
        assert not market.reached

    @invariant()
    def book_is_not_crossed_in_continuous_trading(self):
        for security_id in SECURITIES:
            view = self.floor.engine.book(security_id)
            if view.ruling_status == TradingStatus.OPEN and view.bids and view.offers:
                assert view.bids[0].price < view.offers[0].price


TestWholeOrderModel = WholeOrderModel.TestCase
TestWholeOrderModel.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)


class WithRulesOfAuctions(WholeOrderModel):
    """Orders in auctions that are extended, end at random, and bind their orders."""

    AUCTIONS = AuctionRules(
        duration_ns=60,
        extension_ns=40,
        window_ns=80,
        extensions=2,
        random_ns=50,
        protection=2_000,
        binding=True,
    )

    def follow(self, investor: int = 0, prevented: bool = False) -> None:
        """Follow the reports; auctions, in which investors may meet, can end at any time."""
        super().follow(investor, prevented=False)

    @rule(security_id=st.sampled_from(SECURITIES), length=st.integers(1, 300))
    def call_an_auction(self, security_id, length):
        end = self.floor.now + 1 + length
        self.floor.do(SetSecurityStatus(security_id, TradingStatus.RESERVED, open_time_ns=end))
        self.follow()

    @rule(length=st.integers(1, 300))
    def gather(self, length):
        end = self.floor.now + 1 + length
        self.floor.do(SetGroupPhase("XX", TradingStatus.RESERVED, open_time_ns=end))
        self.follow()

    @rule(security_id=st.sampled_from(SECURITIES), ticks=TICKS, quantity=QUANTITIES)
    def meet(self, security_id, ticks, quantity):
        """A buyer and a seller at one price: in an auction the theoretical price moves."""
        for side in (BUY, SELL):
            self.floor.order(
                side, quantity, ticks / 100, security_id=security_id, session=1 + (side == SELL)
            )
            self.follow()

    @rule(pause=st.integers(1, 60))
    def wait(self, pause):
        self.floor.do(AdvanceTime(), after=pause)
        self.follow()

    @invariant()
    def an_auction_that_ends_by_itself_has_an_end_ahead(self):
        market = self.floor.engine.market
        assert not market.extending
        assert not market.announced
        for listing in market.listings.values():
            if listing.active_auction:
                end = listing.closes_ns or listing.open_time_ns
                assert end is not None
                assert end > self.floor.now
                assert market.next_due_ns is not None
                assert market.next_due_ns <= end
            assert listing.extended <= 2


TestWithRulesOfAuctions = WithRulesOfAuctions.TestCase
TestWithRulesOfAuctions.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
