"""Converts entries of the legacy feed to book updates and trades (002 §7, §9, §10).

An entry is a group of MDEntries as decoded by `pregao.legacy`. The same entry is an order in a book
by order depth, and a price level in a book by price depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pregao.book.updates import (
    BookEmptied,
    DepthUpdate,
    LevelAdded,
    LevelChanged,
    LevelDeleted,
    LevelOverlaid,
    MessageKey,
    MessagesMissing,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    SideCleared,
    SnapshotEnded,
    SnapshotLevel,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
    Update,
)
from pregao.legacy.times import moment_ns
from pregao.schemas.bundle import bundled_values
from pregao.umdf.templates import flag
from pregao.units import PRICE_DECIMALS, Side

Entry = Mapping[str, Any]
"""An entry of a message."""

SIDES: Final[Mapping[str, Side]] = {"0": Side.BID, "1": Side.ASK}
"""Sides by MDEntryType."""
TRADE: Final = "2"
OPENING_PRICE: Final = "4"
IMBALANCE: Final = "A"
EMPTY_BOOK: Final = "J"
TRADING_STATE: Final = "c"

NEW, CHANGE, DELETE, DELETE_THRU, DELETE_FROM, OVERLAY = range(6)
"""Values of MDUpdateAction."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    OPENING_PRICE: {"OpenCloseSettlFlag": 0},
    "5": {"OpenCloseSettlFlag": 0},
    "6": {"OpenCloseSettlFlag": 0, "PriceType": "2"},
    "g": {"PriceBandType": "0", "PriceLimitType": 0},
}
"""Values of fields that are absent from an entry, by MDEntryType (002 §10.4–§10.6, §10.9)."""

_BANDS = {value: name for name, value in bundled_values("umdf", "PriceBandType").items()}
BAND_TYPES: Final[Mapping[int, str]] = {0: _BANDS[1], 1: _BANDS[3], 2: _BANDS[2]}
"""Names of the price bands in the binary feed by PriceBandType, which has other numbers there."""

IMPLIED: Final = "K"
"""QuoteCondition of an implied order."""
RETRANSMITTED: Final = "R"
"""QuoteCondition of an order sent again, to refill a book."""
EXCHANGE_LAST: Final = "U"
"""TradeCondition of an entry that is not a trade: it has the price of the last one."""


TRADE_CONDITIONS: Final[Mapping[str, int]] = {
    "R": flag("TradeCondition", "OpeningPrice"),
    "X": flag("TradeCondition", "Crossed"),
    "L": flag("TradeCondition", "LastTradeAtTheSamePrice"),
}
"""Bits of the binary feed's ``tradeCondition`` by TradeCondition (002 §10.1)."""
MULTI_ASSET: Final = "3"
"""TradeCondition of a trade of several assets, which is a sub type in the binary feed."""
_SUB_TYPES = {value: name for name, value in bundled_values("umdf", "TrdSubType").items()}
MULTI_ASSET_TRADE: Final = _SUB_TYPES[101]

_MAX_DIGITS: Final = 19
"""Maximum digits of an identifier: events and tables store signed 64-bit numbers."""
_LIMIT: Final = 1 << 63


class _UnreadableError(Exception):
    """An entry has a value that no book can have."""


def conditions(text: str | None) -> frozenset[str]:
    """Split a QuoteCondition or TradeCondition, which is a text of words."""
    return frozenset((text or "").split())


def number_of(text: str | int | None) -> int | None:
    """Convert an identifier of digits (firm, order) to a number; None if it is not one."""
    if isinstance(text, str):
        if len(text) > _MAX_DIGITS or not (text.isascii() and text.isdecimal()):
            return None
        number = int(text)
        return number if number < _LIMIT else None
    return text


def mantissa_of(price: Decimal | None) -> int | None:
    """Convert a price to a mantissa; raise _UnreadableError if books cannot store it."""
    if price is None:
        return None
    scaled = price.scaleb(PRICE_DECIMALS)
    whole = int(scaled)
    if whole != scaled:
        raise _UnreadableError(f"price {price} has more than {PRICE_DECIMALS} decimal places")
    if not -_LIMIT <= whole < _LIMIT:
        raise _UnreadableError(f"price {price} does not fit in a signed 64-bit mantissa")
    return whole


def exact_mantissa(price: Decimal | None) -> int | None:
    """Convert a price to a mantissa; None if books cannot store it."""
    try:
        return mantissa_of(price)
    except _UnreadableError:
        return None


def with_defaults(entry: Entry) -> Entry:
    """Return an entry with the values that its absent fields stand for."""
    absent = {
        field: value
        for field, value in DEFAULTS.get(entry.get("MDEntryType", ""), {}).items()
        if entry.get(field) is None
    }
    return {**entry, **absent} if absent else entry


def _side(entry: Entry) -> Side:
    return SIDES[entry["MDEntryType"]]


def _position(entry: Entry) -> int | None:
    # The oldest templates have MDPriceLevel instead.
    position: int | None = entry.get("MDEntryPositionNo") or entry.get("MDPriceLevel")
    return position


def _needed(value: int | None, what: str) -> int:
    if value is None:
        raise _UnreadableError(f"book entry without {what}")
    return value


def _orders(entry: Entry) -> int:
    orders = _needed(entry.get("NumberOfOrders"), "number of orders")
    if orders < 1:
        raise _UnreadableError("price level without orders")
    return orders


def _firm(entry: Entry, side: Side) -> int | None:
    return number_of(entry.get("MDEntryBuyer" if side is Side.BID else "MDEntrySeller"))


def _inserted_ns(entry: Entry, milliseconds: bool | None) -> int | None:
    day, time = entry.get("MDInsertDate"), entry.get("MDInsertTime")
    return moment_ns(day, time, milliseconds=milliseconds)


def update_of(
    key: MessageKey, entry: Entry, depth: int | None, *, milliseconds: bool | None = None
) -> Update | DepthUpdate | None:
    """Return the update for a book of ``depth`` price levels, or of all orders if it is None.

    Returns None if the entry does not change a book. ``milliseconds`` states whether the platform's
    times of day include them; None decides by their size.
    """
    kind = entry.get("MDEntryType")
    if kind == EMPTY_BOOK:
        return BookEmptied(key)
    if kind not in SIDES:
        return None
    try:
        if depth is None:
            return _order_update(key, entry, milliseconds)
        return _level_update(key, entry)
    except _UnreadableError as error:
        return MessagesMissing(key, str(error))


def _order_update(key: MessageKey, entry: Entry, milliseconds: bool | None) -> Update:
    side, position, rpt_seq = _side(entry), _position(entry), entry.get("RptSeq")
    match entry.get("MDUpdateAction", NEW):
        case action if action in (NEW, CHANGE):
            price = mantissa_of(entry.get("MDEntryPx"))
            size = _needed(entry.get("MDEntrySize"), "size")
            quote_conditions = conditions(entry.get("QuoteCondition"))
            firm, inserted = _firm(entry, side), _inserted_ns(entry, milliseconds)
            implied, recovery = IMPLIED in quote_conditions, RETRANSMITTED in quote_conditions
            order_id = number_of(entry.get("OrderID"))
            if action == NEW:
                return OrderAdded(
                    key, side, order_id, price, size, position, firm, inserted, implied, recovery,
                    rpt_seq,
                )  # fmt: skip
            # Only the position is reliable: an order ID is unique within its firm only (§9.1.1).
            return OrderChanged(
                key, side, None, price, size, None, position, firm, inserted, implied, recovery,
                rpt_seq,
            )  # fmt: skip
        case action if action == DELETE:
            return OrderDeleted(key, side, None, position=position, rpt_seq=rpt_seq)
        case action if action == DELETE_THRU:
            return SideCleared(key, side, rpt_seq)
        case action if action == DELETE_FROM:
            return TopRemoved(key, side, position or 0, rpt_seq)
        case action:
            return MessagesMissing(key, f"update action {action} is invalid in a book by orders")


def _level_update(key: MessageKey, entry: Entry) -> DepthUpdate:
    side, rpt_seq = _side(entry), entry.get("RptSeq")
    action = entry.get("MDUpdateAction", NEW)
    if action == DELETE_THRU:
        return SideCleared(key, side, rpt_seq)
    if action not in (NEW, CHANGE, DELETE, DELETE_FROM, OVERLAY):
        return MessagesMissing(key, f"update action {action} is invalid in a book by price")
    position = _position(entry)
    if action != OVERLAY:
        position = _needed(position, "position")
    if action == DELETE:
        return LevelDeleted(key, side, position or 0, rpt_seq)
    if action == DELETE_FROM:
        return TopRemoved(key, side, position or 0, rpt_seq)
    price = mantissa_of(entry.get("MDEntryPx"))
    size = _needed(entry.get("MDEntrySize"), "size")
    orders = _orders(entry)
    recovery = RETRANSMITTED in conditions(entry.get("QuoteCondition"))
    if action == OVERLAY:
        return LevelOverlaid(key, side, price, size, orders, rpt_seq, recovery)
    update = LevelAdded if action == NEW else LevelChanged
    return update(key, side, position or 0, price, size, orders, rpt_seq, recovery)


def book_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the orders or levels of a snapshot, each side sorted by position."""
    own = [entry for entry in entries if entry.get("MDEntryType") in SIDES]
    return sorted(own, key=lambda entry: _position(entry) or 0)


def snapshot_orders(
    key: MessageKey,
    entries: Sequence[Entry],
    last_rpt_seq: int | None,
    *,
    milliseconds: bool | None = None,
) -> Iterator[Update]:
    """Yield a snapshot as updates of a book by orders; for ``milliseconds`` see `update_of`."""
    own = book_entries(entries)
    yield SnapshotStarted(key, *_counts(own), last_rpt_seq)
    for entry in own:
        side = _side(entry)
        try:
            yield SnapshotOrder(
                key,
                side,
                number_of(entry.get("OrderID")),
                mantissa_of(entry.get("MDEntryPx")),
                _needed(entry.get("MDEntrySize"), "size"),
                None,
                _firm(entry, side),
                _inserted_ns(entry, milliseconds),
                IMPLIED in conditions(entry.get("QuoteCondition")),
            )
        except _UnreadableError as error:
            yield MessagesMissing(key, str(error))
            return
    yield SnapshotEnded(key)


def snapshot_levels(
    key: MessageKey, entries: Sequence[Entry], last_rpt_seq: int | None
) -> Iterator[DepthUpdate]:
    """Yield a snapshot as updates of a book by price depth."""
    own = book_entries(entries)
    yield SnapshotStarted(key, *_counts(own), last_rpt_seq)
    for entry in own:
        try:
            price = mantissa_of(entry.get("MDEntryPx"))
            size = _needed(entry.get("MDEntrySize"), "size")
            orders = _orders(entry)
        except _UnreadableError as error:
            yield MessagesMissing(key, str(error))
            return
        yield SnapshotLevel(key, _side(entry), price, size, orders)
    yield SnapshotEnded(key)


def _counts(entries: Sequence[Entry]) -> tuple[int, int]:
    sides = [_side(entry) for entry in entries]
    return sides.count(Side.BID), sides.count(Side.ASK)


@dataclass(frozen=True, slots=True)
class LegacyTrade:
    """A published trade, or the bust of one."""

    security_id: int
    trade_id: str | None
    price: Decimal | None
    size: int | None
    """None for a bust."""
    buyer: str | None
    seller: str | None
    conditions: frozenset[str]
    stream_id: str
    """Venue (MDStreamID); E is the electronic market."""
    time_ns: int | None
    busted: bool
    volume: int | None
    """Volume traded in the session up to it."""
    seller_days: int | None = None
    """Days until delivery of a forward."""
    makes_last: bool = False
    """Whether it sets the last price: no trade of the electronic market was later by then."""


def trade_of(entry: Entry, *, milliseconds: bool | None = None) -> LegacyTrade | None:
    """Return the trade of an entry; None if it is not a trade (002 §10.1).

    An entry with the condition U is not a trade: it has the price of the last one. For
    ``milliseconds`` see `update_of`.
    """
    if entry.get("MDEntryType") != TRADE:
        return None
    trade_conditions = conditions(entry.get("TradeCondition"))
    if EXCHANGE_LAST in trade_conditions:
        return None
    return LegacyTrade(
        entry["SecurityID"],
        entry.get("TradeID"),
        entry.get("MDEntryPx"),
        entry.get("MDEntrySize"),
        entry.get("MDEntryBuyer"),
        entry.get("MDEntrySeller"),
        trade_conditions,
        stream_id_of(entry),
        moment_ns(entry.get("MDEntryDate"), entry.get("MDEntryTime"), milliseconds=milliseconds),
        entry.get("MDUpdateAction") == DELETE,
        entry.get("TradeVolume"),
        entry.get("SellerDays"),
    )


ELECTRONIC: Final = "E"


def stream_id_of(entry: Entry) -> str:
    """Return the venue of an entry; the electronic market if it has none."""
    return entry.get("MDStreamID") or ELECTRONIC
