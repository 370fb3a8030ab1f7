"""Classes of an exchange's state and the types of their fields: the content of a checkpoint.

Records declare their own fields. The fields of other classes are declared here, matching their
constructors; a class or field that is missing here cannot be written.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, get_args

from pregao.entrypoint.session_settings import Throttle, ThrottleLimit
from pregao.entrypoint.session_state import IncomingKept, OutgoingNotApplied, SessionState
from pregao.exchange.engine.book.listing import (
    Band,
    InstrumentGroup,
    Listing,
    SessionStatistics,
    TheoreticalUncrossing,
    TradeRecord,
)
from pregao.exchange.engine.book.market import Market, SpreadFill
from pregao.exchange.engine.book.order_book import BookSide, EngineOrder, PriceLevel
from pregao.exchange.engine.book.pending_orders import PendingOrders
from pregao.exchange.engine.book.positions import Allocation, OptionFill, Position, PositionLedger
from pregao.exchange.engine.matching.give_ups import GiveUp
from pregao.exchange.engine.matching.market_protection import Protection, ProtectionWatch
from pregao.exchange.engine.model import instruments
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.commands import DeclareForward, MaintainPosition
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrderSide,
    OrdType,
    PriceBandType,
    TimeInForce,
    TradingSession,
    TradingStatus,
)
from pregao.exchange.engine.model.events import MarketEvent, MarketItem, News, Statistic, TradeItem
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.operations_commands import ProtectionReference, SetProtection
from pregao.exchange.engine.model.reports import CommandOutcome, EngineReport
from pregao.exchange.engine.products.forwards import ForwardDeclaration
from pregao.exchange.engine.products.implied_spreads import Spread, SpreadLeg
from pregao.exchange.host.checkpoints.column_schema import ColumnShape, StateSchema
from pregao.exchange.host.gateway.order_requests import OrderRequest


@dataclass(slots=True)
class HostState:
    """Complete state of an exchange that results from its journal."""

    now_ns: int
    starts: int
    active: int
    start_settings: str
    """Settings of the last start, as JSON."""
    accepting: dict[int, bool]
    """Whether each gateway accepts sessions."""
    sessions: dict[int, SessionState]
    throttles: dict[tuple[int, int], Throttle]
    """Throttles by gateway and session."""
    market: Market
    engine_ns: int
    unreported: CommandOutcome | None
    requests: int
    orders: dict[int, OrderRequest]
    ended: dict[int, OrderRequest]
    forwards: dict[int, DeclareForward]


_MAYBE: Final = int | None

ORDER_FIELDS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        (
            "account", "cl_ord_id", "cum", "firm", "insert_time_ns", "investor_id", "key",
            "leaves", "max_floor", "min_qty", "ord_tag_id", "order_id", "prevention", "quantity",
            "routing", "secondary_order_id", "security_id", "segment", "session", "visible",
        ),
        int,
    ),
    **dict.fromkeys(("price", "protection_price", "stop_px"), _MAYBE),
    "expire_date": date | None,
    **dict.fromkeys(("implied", "waits"), bool),
    "ord_type": OrdType,
    "side": OrderSide,
    "time_in_force": TimeInForce,
}  # fmt: skip
"""All fields except the position in the queue, which its level stores."""

_LISTING_FIELDS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        (
            "active_auction", "bands_float", "derivative", "fixed_income", "keeps_positions",
            "pending", "takes_crosses", "takes_orders",
        ),
        bool,
    ),
    **dict.fromkeys(
        (
            "auction_high", "auction_low", "extended", "lot", "max_qty", "min_qty", "reject_high",
            "reject_low", "security_id", "segment", "tick", "trade_id",
        ),
        int,
    ),
    **dict.fromkeys(
        (
            "closes_ns", "open_time_ns", "previous_close8", "reference8", "since_ns",
            "volume_limit", "watch_ns", "window_ns",
        ),
        _MAYBE,
    ),
    "auction": AuctionRules | None,
    "bands": dict[PriceBandType, Band],
    "bids": BookSide,
    "frozen_by": EngineOrder | None,
    "group": InstrumentGroup,
    "instrument": Instrument,
    "last_trade": TradeItem | None,
    "offers": BookSide,
    "own_status": TradingStatus | None,
    "pair": Listing | None,
    "shown": dict[
        type[Statistic] | tuple[type[Statistic], OpenCloseSettlFlag | PriceBandType | None],
        Statistic,
    ],
    "statistics": SessionStatistics,
    "status": TradingStatus,
    "strategy": Spread | None,
    "theoretical": TheoreticalUncrossing | None,
    "trades": dict[int, TradeRecord],
    "waiting": PendingOrders,
}  # fmt: skip

_MARKET_FIELDS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        (
            "auction_duration_ns", "exec_id", "give_up_id", "implied_id", "order_id", "quote_id",
            "secondary_id", "seed", "synchronism_ns", "trade_day", "trade_memory",
        ),
        int,
    ),
    **dict.fromkeys(("follows", "keeps_numbers", "track_positions"), bool),
    **dict.fromkeys(("next_due_ns", "rlp_share"), _MAYBE),
    **dict.fromkeys(("called", "extending", "held"), list[Listing]),
    "announced": list[News],
    "auction_rules": AuctionRules | None,
    "by_client": dict[tuple[int, int, int], EngineOrder],
    "carried": dict[int, list[int]],
    "declarations": dict[int, ForwardDeclaration],
    "deltas": dict[int, int],
    "last_trade_ids": dict[int, int],
    "give_up_links": dict[tuple[int, int], tuple[int, int]],
    "give_ups": dict[int, GiveUp],
    "groups": dict[str, InstrumentGroup],
    "implied_of": dict[int, list[Spread]],
    "kept_trades": deque[tuple[int, int]],
    "listings": dict[int, Listing],
    "no_legs": frozenset[int],
    "orders": dict[int, EngineOrder],
    "positions": PositionLedger,
    "protections": dict[tuple[int, int], list[Protection]],
    "reached": list[Protection],
    "reports": list[EngineReport],
    "spread_fills": list[SpreadFill],
    "spreads": dict[int, Spread],
    "touched": set[int],
    "trade_date": date,
    "triggered": list[EngineOrder],
    "units": list[MarketEvent],
    "user_spreads": dict[int, date],
}  # fmt: skip


def _begin_order(order: EngineOrder) -> None:
    order.level = order.next = order.previous = None


def _fill_level(level: PriceLevel, fields: tuple[Any, ...]) -> None:
    level.__setstate__(fields)


_RECORDS: Final = (
    *(get_args(MarketItem)),
    *(get_args(EngineReport)),
    MarketEvent,
    AuctionRules,
    ForwardDeclaration,
    DeclareForward,
    Instrument,
    instruments.InstrAttrib,
    instruments.Leg,
    instruments.MaturityMonthYear,
    instruments.Underlying,
    MaintainPosition,
    IncomingKept,
    OutgoingNotApplied,
    ProtectionReference,
    SessionState,
    SetProtection,
    ThrottleLimit,
)

STATE: Final = StateSchema(
    (
        ColumnShape(HostState),
        *(ColumnShape(each) for each in _RECORDS),
        ColumnShape(EngineOrder, ORDER_FIELDS, begin=_begin_order),
        ColumnShape(
            PriceLevel,
            {"key": int, "price": _MAYBE, "quantity": int, "orders": list[EngineOrder]},
            take=PriceLevel.__getstate__,
            fill=_fill_level,
        ),
        ColumnShape(
            BookSide,
            {
                **dict.fromkeys(("count", "watch_key", "watched"), int),
                "keys": list[int],
                "levels": dict[int, PriceLevel],
                "side": OrderSide,
            },
        ),
        ColumnShape(
            PendingOrders,
            {
                "_buys": list[tuple[int, int, int]],
                "_sells": list[tuple[int, int, int]],
                "buy_stop": int,
                "orders": dict[int, EngineOrder],
                "pegged": dict[int, list[EngineOrder]],
                "providers": dict[tuple[int, int], list[EngineOrder]],
                "sell_stop": int,
            },
        ),
        ColumnShape(
            SessionStatistics,
            {
                **dict.fromkeys(
                    (
                        "after_id",
                        "count",
                        "crossed_notional",
                        "crossed_volume",
                        "notional",
                        "opening_id",
                        "provided",
                        "volume",
                    ),
                    int,
                ),
                **dict.fromkeys(("high", "last", "low", "opening"), _MAYBE),
                "prices": Counter[int],
            },
        ),
        ColumnShape(
            InstrumentGroup,
            {
                "auction": AuctionRules | None,
                "members": list[Listing],
                "name": str,
                "open_time_ns": _MAYBE,
                "phase": TradingStatus,
                "session": TradingSession,
                "since_ns": int,
            },
        ),
        ColumnShape(Listing, _LISTING_FIELDS),
        ColumnShape(Market, _MARKET_FIELDS),
        ColumnShape(OptionFill, dict.fromkeys(OptionFill.__slots__, int)),
        ColumnShape(Position, dict.fromkeys(Position.__slots__, int)),
        ColumnShape(
            PositionLedger,
            {
                "allocations": dict[tuple[int, int], Allocation],
                "requests": dict[tuple[int, int], int],
                "exercises": int,
                "fills": dict[tuple[int, int, OrderSide], OptionFill],
                "held": dict[tuple[int, int, int], Position],
                "instructions": dict[int, MaintainPosition],
            },
        ),
        ColumnShape(
            Protection,
            {
                "_watches": dict[int, ProtectionWatch],
                "active": bool,
                "began_ns": _MAYBE,
                **dict.fromkeys(("delta", "executions", "net_quantity", "quantity", "since"), int),
                "filled": set[int],
                "leftovers": list[EngineOrder],
                "reached": bool,
                "settings": SetProtection,
            },
        ),
        ColumnShape(
            Spread,
            {
                "implied": dict[OrderSide, EngineOrder],
                "legs": tuple[SpreadLeg, ...],
                "listing": Listing,
            },
        ),
        ColumnShape(Throttle, {"_limit": ThrottleLimit | None, "_times": deque[int]}),
    )
)
"""All classes that a checkpoint may contain."""
