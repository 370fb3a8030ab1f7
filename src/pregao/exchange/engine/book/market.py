"""Complete state of the market, with the basic operations that the rules share.

The rules (entry, matching, auctions, phases, surveillance) are functions over a ``Market``. They
collect their output in ``units`` and ``reports`` until the engine returns it. A `SilentMarket`
makes no reports to the owners of orders: a simulation uses only the public feed, and reports are a
tenth of its engine's work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import InstrumentGroup, Listing, TradeRecord
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.book.positions import PositionLedger
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import CxlRejResponseTo, ExecRestatementReason, OrdStatus
from pregao.exchange.engine.model.events import (
    DeleteOrderMbo,
    MarketEvent,
    MarketItem,
    NewOrderMbo,
    News,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import (
    EngineReport,
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
    OrderRejected,
    OrderRestated,
)
from pregao.units import day_number

if TYPE_CHECKING:
    from pregao.exchange.engine.matching.give_ups import GiveUp
    from pregao.exchange.engine.matching.market_protection import Protection
    from pregao.exchange.engine.products.forwards import ForwardDeclaration
    from pregao.exchange.engine.products.implied_spreads import Spread

FIRST_IMPLIED_ID = 1 << 62
"""IDs of implied orders start here, so that they rank after ordinary ones at the same price."""

_PARTIALLY_FILLED = OrdStatus.PARTIALLY_FILLED
_FILLED = OrdStatus.FILLED


class SpreadFill(NamedTuple):
    """A fill of a spread that has not traded in its legs yet."""

    security_id: int
    order: EngineOrder
    resting: EngineOrder
    quantity: int
    price: int


class Market:
    """Instruments, groups, resting orders and counters."""

    __slots__ = (
        "announced",
        "auction_duration_ns",
        "auction_rules",
        "by_client",
        "called",
        "carried",
        "declarations",
        "deltas",
        "exec_id",
        "extending",
        "follows",
        "give_up_id",
        "give_up_links",
        "give_ups",
        "groups",
        "held",
        "implied_id",
        "implied_of",
        "keeps_numbers",
        "kept_trades",
        "last_trade_ids",
        "listings",
        "next_due_ns",
        "no_legs",
        "order_id",
        "orders",
        "positions",
        "protections",
        "quote_id",
        "reached",
        "reports",
        "rlp_share",
        "secondary_id",
        "seed",
        "spread_fills",
        "spreads",
        "synchronism_ns",
        "touched",
        "track_positions",
        "trade_date",
        "trade_day",
        "trade_memory",
        "triggered",
        "units",
        "user_spreads",
    )

    def __init__(
        self,
        trade_date: date,
        track_positions: bool,
        auction_duration_ns: int,
        trade_memory: int,
        first_order_id: int,
        rlp_share: int | None = None,
        synchronism_ns: int = 0,
        no_legs: frozenset[int] = frozenset(),
        auction_rules: AuctionRules | None = None,
        seed: int = 0,
        keeps_numbers: bool = False,
    ) -> None:
        self.listings: dict[int, Listing] = {}
        self.groups: dict[str, InstrumentGroup] = {}
        self.orders: dict[int, EngineOrder] = {}
        self.by_client: dict[tuple[int, int, int], EngineOrder] = {}
        """Active orders by session, market segment and ClOrdID."""
        self.order_id = first_order_id - 1
        self.secondary_id = first_order_id - 1
        self.implied_id = FIRST_IMPLIED_ID - 1
        self.exec_id = 0
        self.track_positions = track_positions
        self.auction_duration_ns = auction_duration_ns
        self.trade_memory = trade_memory
        self.rlp_share = rlp_share
        self.synchronism_ns = synchronism_ns
        self.no_legs = no_legs
        """Instruments that cannot be a leg of a user-defined spread."""
        self.auction_rules = auction_rules
        self.seed = seed
        """Seed of all random draws."""
        self.keeps_numbers = keeps_numbers
        """Whether an order without a published firm keeps its secondary order ID when replaced."""
        self.extending: list[Listing] = []
        """Instruments whose auction changed so late that its end is extended."""
        self.announced: list[News] = []
        """News to publish after the event."""
        self.user_spreads: dict[int, date] = {}
        """User-defined spreads, with the last day on which each was used."""
        self.quote_id = 0
        self.declarations: dict[int, ForwardDeclaration] = {}
        """Forwards pending their respondent's answer, by quote ID."""
        self.positions = PositionLedger()
        self.give_up_links: dict[tuple[int, int], tuple[int, int]] = {}
        """Source accounts, with the firm and account that carry their trades."""
        self.give_up_id = 0
        self.give_ups: dict[int, GiveUp] = {}
        """Trades pending the carrying firm's answer, by give-up ID."""
        self.carried: dict[int, list[int]] = {}
        """Orders of an earlier day not yet restated to their sessions, by session."""
        self.called: list[Listing] = []
        """Paired instruments that entered an auction: their pairs follow."""
        self.kept_trades: deque[tuple[int, int]] = deque()
        self.next_due_ns: int | None = None
        self.protections: dict[tuple[int, int], list[Protection]] = {}
        """Market protections by firm and account."""
        self.deltas: dict[int, int] = {}
        self.last_trade_ids: dict[int, int] = {}
        """Last trade number of each instrument that was delisted on the trading date."""
        self.reached: list[Protection] = []
        """Protections with orders to cancel after the event."""
        self.spreads: dict[int, Spread] = {}
        """Spreads whose trades are also published in their legs."""
        self.implied_of: dict[int, list[Spread]] = {}
        """Spreads with implied orders, by their own security ID and by those of their legs."""
        self.spread_fills: list[SpreadFill] = []
        self.held: list[Listing] = []
        """User-defined spreads whose auction has to wait until their legs can trade."""
        self.touched: set[int] = set()
        """Instruments whose book changes may change implied orders."""
        self.follows = False
        """Whether follow-up work is pending: see ``engine``."""
        self.triggered: list[EngineOrder] = []
        """Stop orders that trades triggered: they enter the book after the event."""
        self.units: list[MarketEvent] = []
        self.reports: list[EngineReport] = []
        self.set_trade_date(trade_date)

    def set_trade_date(self, trade_date: date) -> None:
        """Set the trading day."""
        self.trade_date = trade_date
        self.trade_day = day_number(trade_date)

    # Instruments

    def list_instrument(self, instrument: Instrument) -> Listing:
        """List an instrument, and create its group if it is the first member."""
        group = self.groups.get(instrument.security_group)
        if group is None:
            group = self.groups[instrument.security_group] = InstrumentGroup(
                instrument.security_group
            )
        listing = self.listings[instrument.security_id] = Listing(instrument, group)
        listing.trade_id = self.last_trade_ids.pop(instrument.security_id, 0)
        listing.statistics.after_id = listing.trade_id
        group.members.append(listing)
        return listing

    def listing(self, security_id: int) -> Listing:
        """Return the listing of an instrument that market operations name; it must exist."""
        listing = self.listings.get(security_id)
        if listing is None:
            raise UsageError(f"no instrument with security ID {security_id} is listed")
        return listing

    # The public feed

    def publish(self, items: list[MarketItem], event: bool = True) -> None:
        """Publish a unit unless it is empty."""
        if items:
            self.units.append(MarketEvent(items, event))

    def add_to_book(self, listing: Listing, order: EngineOrder, now_ns: int) -> NewOrderMbo:
        """Add an order to the book and return its feed message."""
        side = listing.bids if order.side == BUY else listing.offers
        side.add(order)
        return NewOrderMbo(
            order.security_id,
            order.side,
            order.price,
            order.visible,
            order.secondary_order_id,
            order.firm or None,
            order.insert_time_ns,
            now_ns,
            side.position(order) if self.track_positions else None,
            order.implied,
        )

    def remove_from_book(
        self, listing: Listing, order: EngineOrder, now_ns: int, matched: bool = False
    ) -> DeleteOrderMbo:
        """Remove an order from the book and return its feed message."""
        side = listing.bids if order.side == BUY else listing.offers
        position = side.position(order) if self.track_positions else None
        side.remove(order)
        return DeleteOrderMbo(
            order.security_id,
            order.side,
            order.price,
            order.visible,
            order.secondary_order_id,
            now_ns,
            position,
            order.implied,
            matched,
        )

    # Orders

    def new_secondary_id(self, order: EngineOrder) -> None:
        """Assign a new secondary order ID, which ranks after all others at the order's price."""
        if order.implied:
            self.implied_id += 1
            order.secondary_order_id = self.implied_id
        else:
            self.secondary_id += 1
            order.secondary_order_id = self.secondary_id

    def remove_from_indexes(self, order: EngineOrder) -> None:
        """Remove an order from the order indexes: it is no longer in the market."""
        del self.orders[order.order_id]
        self.by_client.pop((order.session, order.segment, order.cl_ord_id), None)

    def keep_trade(self, listing: Listing, record: TradeRecord) -> None:
        """Keep a trade so that it can be busted; drops the oldest beyond ``trade_memory``."""
        trade_id = record.item.trade_id
        if trade_id not in listing.trades:
            self.kept_trades.append((listing.security_id, trade_id))
        listing.trades[trade_id] = record
        while len(self.kept_trades) > self.trade_memory:
            security_id, oldest = self.kept_trades.popleft()
            if (listed := self.listings.get(security_id)) is not None:
                listed.trades.pop(oldest, None)

    # Private reports

    def report_accepted(
        self, order: EngineOrder, now_ns: int, working: bool = True, cross_id: int = 0
    ) -> None:
        """Report to the owner that the order was accepted."""
        self.exec_id += 1
        self.reports.append(OrderAccepted(
            self.exec_id, order.session, order.firm, order.cl_ord_id, order.order_id,
            order.secondary_order_id, order.security_id, order.side, order.ord_type,
            order.time_in_force, order.price, order.quantity, order.leaves, order.cum,
            order.max_floor, order.min_qty, order.protection_price, now_ns, working, cross_id,
            order.stop_px,
        ))  # fmt: skip

    def rejected(
        self,
        session: int,
        cl_ord_id: int,
        security_id: int,
        response_to: CxlRejResponseTo,
        reject: Reject,
        now_ns: int,
        order_id: int = 0,
        orig_cl_ord_id: int = 0,
    ) -> None:
        """Report why a request was rejected; a rejected new order still gets an order ID."""
        if response_to == CxlRejResponseTo.NEW:
            self.order_id += 1
            order_id = self.order_id
        self.exec_id += 1
        self.reports.append(
            OrderRejected(
                self.exec_id,
                session,
                cl_ord_id,
                orig_cl_ord_id,
                order_id,
                security_id,
                response_to,
                reject.code,
                reject.text,
                now_ns,
            )
        )

    def cancelled(
        self,
        order: EngineOrder,
        now_ns: int,
        reason: ExecRestatementReason | None = None,
        status: OrdStatus = OrdStatus.CANCELED,
        cl_ord_id: int = 0,
        mass_action_id: int = 0,
        requested_by: int = 0,
    ) -> None:
        """Report to the owner that the order ended; ``cl_ord_id`` is the request's."""
        self.exec_id += 1
        self.reports.append(OrderCancelled(
            self.exec_id, order.session, order.firm, cl_ord_id or order.cl_ord_id, order.order_id,
            order.secondary_order_id, order.security_id, order.side, order.ord_type,
            order.time_in_force, order.price, order.quantity, order.cl_ord_id if cl_ord_id else 0,
            order.cum, status, reason, now_ns, order.stop_px, mass_action_id, requested_by,
            not order.waits,
        ))  # fmt: skip

    def filled(
        self,
        order: EngineOrder,
        quantity: int,
        price: int,
        trade_id: int,
        contra_firm: int | None,
        aggressor: bool,
        now_ns: int,
        cross_id: int = 0,
    ) -> None:
        """Report a trade to the owner; the order's quantities are already updated."""
        self.exec_id += 1
        self.reports.append(
            OrderFilled(
                self.exec_id,
                order.session,
                order.firm,
                order.cl_ord_id,
                order.order_id,
                order.secondary_order_id,
                order.security_id,
                order.side,
                order.ord_type,
                order.price,
                order.quantity,
                quantity,
                price,
                order.leaves,
                order.cum,
                _PARTIALLY_FILLED if order.leaves else _FILLED,
                aggressor,
                trade_id,
                contra_firm,
                now_ns,
                cross_id,
                order.leg_of,
            )
        )

    def modified(
        self,
        order: EngineOrder,
        before: int,
        now_ns: int,
        working: bool = True,
        reason: ExecRestatementReason | None = None,
    ) -> None:
        """Report the modified order to its owner; ``before`` is its previous ClOrdID."""
        self.exec_id += 1
        self.reports.append(OrderModified(
            self.exec_id, order.session, order.firm, order.cl_ord_id, order.order_id,
            order.secondary_order_id, order.security_id, order.side, order.ord_type,
            order.time_in_force, order.price, order.quantity, before, order.leaves, order.cum,
            order.max_floor, order.min_qty, order.protection_price, now_ns, working, order.stop_px,
            reason,
        ))  # fmt: skip

    def restated(self, order: EngineOrder, now_ns: int) -> None:
        """Report a replenished iceberg to its owner, with its new secondary order ID."""
        self.exec_id += 1
        self.reports.append(OrderRestated(
            self.exec_id, order.session, order.firm, order.cl_ord_id, order.order_id,
            order.secondary_order_id, order.security_id, order.side, order.ord_type,
            order.time_in_force, order.price, order.quantity, order.leaves, order.cum,
            order.max_floor, OrdStatus.RESTATED, now_ns,
        ))  # fmt: skip

    def expire(self, orders: Iterable[EngineOrder], now_ns: int) -> None:
        """Remove expired orders, in the book or not, and report them to their owners."""
        for order in orders:
            self.remove_from_indexes(order)
            self.cancelled(order, now_ns, status=OrdStatus.EXPIRED)


class SilentMarket(Market):
    """A market without the reports of every order; rejects are still reported."""

    __slots__ = ()

    def report_accepted(self, *_report: object, **_more: object) -> None:
        """Report nothing."""

    def cancelled(self, *_report: object, **_more: object) -> None:
        """Report nothing."""

    def filled(self, *_report: object, **_more: object) -> None:
        """Report nothing."""

    def modified(self, *_report: object, **_more: object) -> None:
        """Report nothing."""

    def restated(self, *_report: object, **_more: object) -> None:
        """Report nothing."""
