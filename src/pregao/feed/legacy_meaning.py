"""Which entry of the legacy feed is which book update, and which is a trade (002 §7, §9, §10).

An entry is a group of MDEntries as `pregao.legacy` decodes it. The same entry means an order in a
book by order depth, and a price level in a book by price depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pregao.book.updates import (
    BookEmptied,
    DepthUpdate,
    Interrupted,
    LevelAdded,
    LevelChanged,
    LevelDeleted,
    LevelOverlaid,
    MessageKey,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    Side,
    SideCleared,
    SnapshotBegun,
    SnapshotEnded,
    SnapshotLevel,
    SnapshotOrder,
    TopRemoved,
    Update,
)
from pregao.feed.meaning import PRICE_SCALE
from pregao.legacy import moment_ns

Entry = Mapping[str, Any]
"""An entry of a message."""

SIDES: Final[Mapping[str, Side]] = {"0": Side.BID, "1": Side.ASK}
"""The sides as MDEntryType names them."""
TRADE: Final = "2"
OPENING_PRICE: Final = "4"
IMBALANCE: Final = "A"
EMPTY_BOOK: Final = "J"
TRADING_STATE: Final = "c"

NEW, CHANGE, DELETE, DELETE_THRU, DELETE_FROM, OVERLAY = range(6)
"""The values of MDUpdateAction."""

IMPLIED: Final = "K"
"""A QuoteCondition: the order is implied by others."""
RETRANSMITTED: Final = "R"
"""A QuoteCondition: the order was there before; a book is filled again."""
EXCHANGE_LAST: Final = "U"
"""A TradeCondition: this is no trade, it tells the price of the last one."""


_MAX_DIGITS: Final = 19
"""Digits of an identifier: more do not fit a signed 64-bit number, as events and tables have it."""
_LIMIT: Final = 1 << 63


class _UnreadableError(Exception):
    """What an entry says cannot be said of a book."""


def conditions(text: str | None) -> frozenset[str]:
    """The single conditions of QuoteCondition or TradeCondition, which are words of a text."""
    return frozenset((text or "").split())


def number_of(text: str | int | None) -> int | None:
    """A text of digits, as identifiers of firms and orders are, as a number; else None."""
    if isinstance(text, str):
        if len(text) > _MAX_DIGITS or not (text.isascii() and text.isdecimal()):
            return None
        number = int(text)
        return number if number < _LIMIT else None
    return text


def mantissa_of(price: Decimal | None) -> int | None:
    """A price as books keep it; one with more digits than they have is an error."""
    if price is None:
        return None
    scaled = price.scaleb(PRICE_SCALE)
    whole = int(scaled)
    if whole != scaled:
        raise _UnreadableError(f"the price {price} has more than {PRICE_SCALE} decimal places")
    if not -_LIMIT <= whole < _LIMIT:
        raise _UnreadableError(f"the price {price} does not fit a signed 64-bit number")
    return whole


def exact_mantissa(price: Decimal | None) -> int | None:
    """A price as books keep it; None of one that they cannot have."""
    try:
        return mantissa_of(price)
    except _UnreadableError:
        return None


def _side(entry: Entry) -> Side:
    return SIDES[entry["MDEntryType"]]


def _position(entry: Entry) -> int | None:
    # The oldest templates have a level of prices instead.
    position: int | None = entry.get("MDEntryPositionNo") or entry.get("MDPriceLevel")
    return position


def _needed(value: int | None, what: str) -> int:
    if value is None:
        raise _UnreadableError(f"an entry of a book without its {what}")
    return value


def _orders(entry: Entry) -> int:
    orders = _needed(entry.get("NumberOfOrders"), "number of orders")
    if orders < 1:
        raise _UnreadableError("a price level without orders")
    return orders


def _firm(entry: Entry, side: Side) -> int | None:
    return number_of(entry.get("MDEntryBuyer" if side is Side.BID else "MDEntrySeller"))


def _inserted_ns(entry: Entry) -> int | None:
    return moment_ns(entry.get("MDInsertDate"), entry.get("MDInsertTime"))


def update_of(key: MessageKey, entry: Entry, depth: int | None) -> Update | DepthUpdate | None:
    """What an entry does to a book of so many price levels, or of all orders if it is None.

    None if the entry is of no book.
    """
    kind = entry.get("MDEntryType")
    if kind == EMPTY_BOOK:
        return BookEmptied(key)
    if kind not in SIDES:
        return None
    try:
        return _order_update(key, entry) if depth is None else _level_update(key, entry)
    except _UnreadableError as wrong:
        return Interrupted(key, str(wrong))


def _order_update(key: MessageKey, entry: Entry) -> Update:
    side, position, rpt_seq = _side(entry), _position(entry), entry.get("RptSeq")
    match entry.get("MDUpdateAction", NEW):
        case action if action in (NEW, CHANGE):
            price = mantissa_of(entry.get("MDEntryPx"))
            size = _needed(entry.get("MDEntrySize"), "size")
            told = conditions(entry.get("QuoteCondition"))
            firm, inserted = _firm(entry, side), _inserted_ns(entry)
            implied, recovery = IMPLIED in told, RETRANSMITTED in told
            order_id = number_of(entry.get("OrderID"))
            if action == NEW:
                return OrderAdded(
                    key, side, order_id, price, size, position, firm, inserted, implied, recovery,
                    rpt_seq,
                )  # fmt: skip
            # The place alone is safe: the number of an order is unique to its firm only (§9.1.1).
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
            return Interrupted(key, f"update action {action} is not one of a book by orders")


def _level_update(key: MessageKey, entry: Entry) -> DepthUpdate:
    side, rpt_seq = _side(entry), entry.get("RptSeq")
    action = entry.get("MDUpdateAction", NEW)
    if action == DELETE_THRU:
        return SideCleared(key, side, rpt_seq)
    if action not in (NEW, CHANGE, DELETE, DELETE_FROM, OVERLAY):
        return Interrupted(key, f"update action {action} is not one of a book by prices")
    position = _position(entry)
    if action != OVERLAY:
        position = _needed(position, "place")
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
    made = LevelAdded if action == NEW else LevelChanged
    return made(key, side, position or 0, price, size, orders, rpt_seq, recovery)


def book_entries(entries: Sequence[Entry]) -> list[Entry]:
    """The orders or levels of a snapshot, each side in the order of its places."""
    own = [entry for entry in entries if entry.get("MDEntryType") in SIDES]
    return sorted(own, key=lambda entry: _position(entry) or 0)


def snapshot_orders(
    key: MessageKey, entries: Sequence[Entry], last_rpt_seq: int | None
) -> Iterator[Update]:
    """A snapshot as updates of a book by order depth."""
    own = book_entries(entries)
    yield SnapshotBegun(key, *_counts(own), last_rpt_seq)
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
                _inserted_ns(entry),
                IMPLIED in conditions(entry.get("QuoteCondition")),
            )
        except _UnreadableError as wrong:
            yield Interrupted(key, str(wrong))
            return
    yield SnapshotEnded(key)


def snapshot_levels(
    key: MessageKey, entries: Sequence[Entry], last_rpt_seq: int | None
) -> Iterator[DepthUpdate]:
    """A snapshot as updates of a book by price depth."""
    own = book_entries(entries)
    yield SnapshotBegun(key, *_counts(own), last_rpt_seq)
    for entry in own:
        try:
            price = mantissa_of(entry.get("MDEntryPx"))
            size = _needed(entry.get("MDEntrySize"), "size")
            orders = _orders(entry)
        except _UnreadableError as wrong:
            yield Interrupted(key, str(wrong))
            return
        yield SnapshotLevel(key, _side(entry), price, size, orders)
    yield SnapshotEnded(key)


def _counts(entries: Sequence[Entry]) -> tuple[int, int]:
    sides = [_side(entry) for entry in entries]
    return sides.count(Side.BID), sides.count(Side.ASK)


@dataclass(frozen=True, slots=True)
class LegacyTrade:
    """A trade that was told, or one that was told to be void."""

    security_id: int
    trade_id: str | None
    price: Decimal | None
    size: int | None
    """None of a trade that is void."""
    buyer: str | None
    seller: str | None
    conditions: frozenset[str]
    stream_id: str
    """Where it came about (MDStreamID); E is the electronic market."""
    time_ns: int | None
    busted: bool
    volume: int | None
    """What was traded in the session up to it."""
    seller_days: int | None = None
    """Days until delivery of a forward."""
    makes_last: bool = False
    """It was the last one of its instrument and venue when it came."""


def trade_of(entry: Entry) -> LegacyTrade | None:
    """The trade that an entry tells; None if it tells none (002 §10.1).

    An entry with the condition U is no trade: it tells the price of the last one.
    """
    if entry.get("MDEntryType") != TRADE:
        return None
    told = conditions(entry.get("TradeCondition"))
    if EXCHANGE_LAST in told:
        return None
    return LegacyTrade(
        entry["SecurityID"],
        entry.get("TradeID"),
        entry.get("MDEntryPx"),
        entry.get("MDEntrySize"),
        entry.get("MDEntryBuyer"),
        entry.get("MDEntrySeller"),
        told,
        stream_id_of(entry),
        moment_ns(entry.get("MDEntryDate"), entry.get("MDEntryTime")),
        entry.get("MDUpdateAction") == DELETE,
        entry.get("TradeVolume"),
        entry.get("SellerDays"),
    )


ELECTRONIC: Final = "E"


def stream_id_of(entry: Entry) -> str:
    """The venue that an entry is about: the electronic market where it names none."""
    return entry.get("MDStreamID") or ELECTRONIC
