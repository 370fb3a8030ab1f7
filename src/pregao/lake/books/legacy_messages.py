"""Translation of the legacy feed's entries to messages of the binary feed.

Books and analytics then have one implementation for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.clock import DAY
from pregao.feed.legacy.book_updates import CHANGE, IMBALANCE, OPENING_PRICE, SIDES, conditions, number_of
from pregao.feed.book_updates import NUMBER_OF_ORDERS
from pregao.lake.books.columns import integers, nulled, prices, take
from pregao.lake.books.legacy_entries import OTHER, PRICE_BAND, EntryColumns, as_numbers, or_null
from pregao.legacy.bulk import moments_of
from pregao.sbe.model import EnumType
from pregao.schemas.bundle import bundled
from pregao.umdf import templates as t
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION

UNREADABLE: Final = "UNREADABLE"
"""Action unknown to books: the entry cannot be applied to a book."""
_CONDITIONS: Final = {
    "R": t.flag("TradeCondition", "OpeningPrice"),
    "X": t.flag("TradeCondition", "Crossed"),
    "L": t.flag("TradeCondition", "LastTradeAtTheSamePrice"),
}
_MULTI_ASSET: Final = "3"
_IMBALANCES: Final = {
    "P": t.flag("ImbalanceCondition", "ImbalanceMoreBuyers"),
    "Q": t.flag("ImbalanceCondition", "ImbalanceMoreSellers"),
}


@cache
def names_of(enumeration: str) -> Mapping[int, str]:
    """Return the names of an enumeration's values, which are equal in both feeds."""
    found = bundled("umdf").types[enumeration]
    assert isinstance(found, EnumType)
    return {member.value: member.name for member in found.members}


def messages_of(entries: EntryColumns, template: int, chosen: Int64Array | None = None) -> Any:
    """Return the entries that are messages of a template as a table; or the chosen entries."""
    kept = _chosen(entries, template) if chosen is None else chosen
    columns = {**key_columns(entries, kept), **_MEMBERS[template](entries, kept)}
    return pa.table(columns)


def _chosen(entries: EntryColumns, template: int) -> Int64Array:
    # Books count entries of auctions among the others; only analytics read them.
    if template == t.THEORETICAL_OPENING_PRICE:
        own = (entries.type == OPENING_PRICE) & entries.theoretical & ~entries.elsewhere
        return np.flatnonzero(own)
    if template == t.AUCTION_IMBALANCE:
        return np.flatnonzero((entries.type == IMBALANCE) & ~entries.elsewhere)
    return np.flatnonzero(entries.template == template)


def named(codes: Int64Array, names: Mapping[int, str], kept: Int64Array) -> Any:
    """Return a dictionary column of names by their codes."""
    known = sorted(names)
    values = codes[kept]
    at = np.searchsorted(known, values)
    at = np.where(at < len(known), at, 0)
    there = np.array(known, np.int64)[at] == values
    return pa.DictionaryArray.from_arrays(
        pa.array(at.astype(np.int32), mask=~there if not there.all() else None),
        pa.array([names[code] for code in known], pa.string()),
    )


def _counts(entries: EntryColumns, kept: Int64Array) -> Any:
    if "rpt_seq" not in entries.rows.column_names:  # states have no rptSeq
        return pa.nulls(len(kept), pa.int64())
    return nulled(entries.numbers("rpt_seq")[kept])


def key_columns(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    """Return key columns with the binary feed's names; each message is an event."""
    version, number = entries.version, entries.number
    event = version * EVENT_VERSION + number * EVENT_NUMBER
    return {
        "channel": take(entries.rows.column("channel"), kept),
        "security_id": nulled(entries.numbers("security_id")[kept]),
        "sequence_version": pa.array(version[kept].astype(np.int32)),
        "sequence_number": pa.array(number[kept]),
        "index_in_packet": pa.array(entries.entry[kept]),
        "event": pa.array(event[kept]),
        **{
            name: take(entries.rows.column(name), kept)
            for name in (
                "stream", "sending_time_ns", "capture_time_ns", "feed", "feed_difference_ns",
                "capture_id",
            )
        },
        "schema_version": pa.array(np.full(len(kept), t.IMPLIED_SINCE, np.int32)),
        "rpt_seq": _counts(entries, kept),
    }  # fmt: skip


def _order(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    action = entries.action.copy()
    action[entries.unreadable & (entries.template == t.ORDER)] = _UNKNOWN
    actions = {**names_of("MDUpdateAction"), _UNKNOWN: UNREADABLE}
    # Only the position identifies the order: its number is unique only to its firm (§9.1.1).
    order_id = integers(as_numbers(take(entries.rows.column("order_id"), kept)))
    order_id = np.where(entries.action[kept] == CHANGE, NULL, order_id)
    return {
        "match_event_indicator": pa.array(entries.indicator[kept]),
        "md_update_action": named(action, actions, kept),
        "md_entry_type": side_column(entries, kept),
        "md_entry_px": prices(entries.price[kept]),
        "md_entry_size": nulled(entries.numbers("md_entry_size")[kept]),
        "entering_firm": nulled(entries.firm[kept]),
        "md_insert_timestamp_ns": nulled(entries.inserted_ns[kept]),
        "secondary_order_id": nulled(order_id),
        "md_entry_position_no": nulled(entries.position[kept]),
        NUMBER_OF_ORDERS: nulled(entries.numbers("number_of_orders")[kept]),
        **_time(entries, kept),
    }


_UNKNOWN = 99
_SIDE_CODES = {ord(letter): names_of("MDEntryType")[ord(letter)] for letter in SIDES}


def side_column(entries: EntryColumns, kept: Int64Array) -> Any:
    """Return the sides of orders by name."""
    codes = np.where(entries.type == "0", ord("0"), ord("1"))
    return named(codes, _SIDE_CODES, kept)


def _deleted(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    return {
        "md_update_action": named(entries.action, names_of("MDUpdateAction"), kept),
        "md_entry_type": side_column(entries, kept),
        "md_entry_position_no": nulled(entries.position[kept]),
        **_time(entries, kept),
    }


def _time(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    return {"md_entry_timestamp_ns": nulled(entries.time_ns[kept])}


def _trade(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    def bits(text: str | None) -> int:
        return sum(_CONDITIONS.get(word, 0) for word in conditions(text))

    many = entries.value("trade_condition", lambda text: _MULTI_ASSET in conditions(text), np.int64)
    kinds = {1: "MULTI_ASSET_TRADE"}
    sessions = entries.value("trading_session_id", lambda text: or_null(number_of(text)), np.int64)
    dated = moments_of(entries.numbers("md_entry_date"), np.full(len(entries), NULL), NULL)
    dated = np.where(dated == NULL, entries.numbers("sending_time_ns"), dated)
    return {
        "trading_session_id": named(sessions, names_of("TradingSessionID"), kept),
        "trade_condition": pa.array(entries.value("trade_condition", bits, np.int32)[kept]),
        "trd_sub_type": named(many, kinds, kept),
        "trade_id": as_numbers(take(entries.rows.column("trade_id"), kept)),
        "trade_date": pa.array((dated[kept] // DAY).astype(np.int32)).cast(pa.date32()),
        "md_entry_px": prices(entries.price[kept]),
        "md_entry_size": nulled(entries.numbers("md_entry_size")[kept]),
        "md_entry_buyer": nulled(entries.party("md_entry_buyer")[kept]),
        "md_entry_seller": nulled(entries.party("md_entry_seller")[kept]),
        "seller_days": nulled(entries.numbers("seller_days")[kept]),
        "md_entry_interest_rate": prices(entries.scaled("md_entry_interest_rate")[kept]),
        **_time(entries, kept),
    }


def _price(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    return {
        "md_update_action": named(entries.action, names_of("MDUpdateAction"), kept),
        "md_entry_px": prices(entries.price[kept]),
        **_time(entries, kept),
    }


def _opening(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    # Usually absent: the price is that of the day (002 §10.2).
    flags = entries.value("open_close_settl_flag", lambda text: number_of(text) or 0, np.int64)
    names = names_of("OpenCloseSettlFlag")
    return {"open_close_settl_flag": named(flags, names, kept), **_price(entries, kept)}


def _theoretical(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    return {
        "md_entry_size": nulled(entries.numbers("md_entry_size")[kept]),
        **_price(entries, kept),
    }


def _imbalance(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    def bits(text: str | None) -> int:
        return sum(_IMBALANCES.get(word, 0) for word in conditions(text))

    return {
        "md_update_action": named(entries.action, names_of("MDUpdateAction"), kept),
        "imbalance_condition": pa.array(entries.value("trade_condition", bits, np.int32)[kept]),
        "md_entry_size": nulled(entries.numbers("md_entry_size")[kept]),
        **_time(entries, kept),
    }


def _volume(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    return {
        "trade_volume": nulled(entries.numbers("trade_volume")[kept]),
        "number_of_trades": nulled(entries.numbers("md_entry_size")[kept]),
        **_time(entries, kept),
    }


def _band(entries: EntryColumns, kept: Int64Array) -> dict[str, Any]:
    kinds = entries.value("price_band_type", lambda text: or_null(number_of(text)), np.int64)
    limits = entries.numbers("price_limit_type")
    return {
        "price_band_type": named(kinds, names_of("PriceBandType"), kept),
        "price_limit_type": named(limits, names_of("PriceLimitType"), kept),
        "low_limit_price": prices(entries.scaled("low_limit_price")[kept]),
        "high_limit_price": prices(entries.scaled("high_limit_price")[kept]),
        **_time(entries, kept),
    }


_MEMBERS: Final[Mapping[int, Callable[[EntryColumns, Int64Array], dict[str, Any]]]] = {
    t.ORDER: _order,
    t.DELETE_ORDER: _deleted,
    t.MASS_DELETE_ORDERS: _deleted,
    t.EMPTY_BOOK: _time,
    t.CHANNEL_RESET: _time,
    t.TRADE: _trade,
    t.FORWARD_TRADE: _trade,
    t.TRADE_BUST: _trade,
    t.LAST_TRADE_PRICE: _trade,
    t.OPENING_PRICE: _opening,
    t.THEORETICAL_OPENING_PRICE: _theoretical,
    t.AUCTION_IMBALANCE: _imbalance,
    t.HIGH_PRICE: _price,
    t.LOW_PRICE: _price,
    t.EXECUTION_STATISTICS: _volume,
    PRICE_BAND: _band,
    OTHER: lambda _entries, _kept: {},
}
