"""Translation of the legacy feed's entries to messages of the binary feed, as columns.

Books and analytics then have one implementation for both feeds. `EntryColumns` is the column form
of `pregao.feed.legacy.book_updates`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pregao.arrays import BoolArray, Int64Array
from pregao.book.update_rows import NULL
from pregao.clock import DAY
from pregao.feed.book_updates import NUMBER_OF_ORDERS
from pregao.feed.legacy.book_updates import (
    BAND_TYPES,
    CHANGE,
    DEFAULTS,
    DELETE,
    DELETE_FROM,
    DELETE_THRU,
    ELECTRONIC,
    EXCHANGE_LAST,
    IMBALANCE,
    IMPLIED,
    MULTI_ASSET,
    MULTI_ASSET_TRADE,
    NEW,
    OPENING_PRICE,
    RETRANSMITTED,
    SIDES,
    TRADE,
    TRADE_CONDITIONS,
    conditions,
    number_of,
    stream_id_of,
)
from pregao.feed.legacy.book_updates import EMPTY_BOOK as EMPTIED
from pregao.feed.legacy.state import THEORETICAL
from pregao.lake.books.columns import integers, nulled, prices, take
from pregao.lake.books.legacy_versions import TimeSlots
from pregao.legacy.bulk import moments_of
from pregao.legacy.tables import SCALE
from pregao.sbe.model import EnumType
from pregao.schemas.bundle import bundled
from pregao.umdf import templates as t
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION

LEGACY_RULES: Final = 1
"""Increase it when the same entries yield other messages: days built from them are rebuilt."""
OTHER: Final = -9
"""Template of entries without a message in the binary feed; they are counted, too."""
PRICE_BAND: Final = max(t.PRICE_BANDS)
STATISTICS: Final = (
    t.LAST_TRADE_PRICE, t.OPENING_PRICE, t.HIGH_PRICE, t.LOW_PRICE, t.EXECUTION_STATISTICS,
    PRICE_BAND,
)  # fmt: skip
"""Entries that also appear in snapshots, and are compared."""
INCREMENTAL: Final = (
    t.ORDER, t.DELETE_ORDER, t.MASS_DELETE_ORDERS, t.EMPTY_BOOK, t.CHANNEL_RESET, t.TRADE,
    t.FORWARD_TRADE, t.TRADE_BUST, *STATISTICS, OTHER,
)  # fmt: skip
"""Templates of entries of the incremental stream."""
ENTRY_BITS: Final = 16
"""Bits of ``index_in_packet`` with the index of an entry in its message."""

ENTRY_COLUMNS: Final = (
    "channel", "stream", "sequence_version", "index_in_packet", "sending_time_ns",
    "capture_time_ns", "feed", "feed_difference_ns", "capture_id", "msg_seq_num", "security_id",
    "rpt_seq", "md_update_action", "md_entry_type", "md_entry_px", "md_entry_size",
    "md_entry_date", "md_entry_time", "md_insert_date", "md_insert_time",
    "md_entry_position_no", "md_price_level", "number_of_orders", "md_entry_buyer",
    "md_entry_seller", "order_id",
    "quote_condition", "trade_condition", "trade_id", "trade_volume", "trading_session_id",
    "open_close_settl_flag", "md_stream_id", "net_chg_prev_day", "seller_days",
    "md_entry_interest_rate", "price_band_type", "price_limit_type",
    "price_band_midpoint_price_type", "low_limit_price", "high_limit_price",
    "trading_reference_price",
)  # fmt: skip
"""Columns read of ``legacy_incremental_refresh``."""
SNAPSHOT_COLUMNS: Final = (
    *(name for name in ENTRY_COLUMNS if name not in ("md_update_action", "md_price_level")),
    "last_msg_seq_num_processed", "tot_num_reports", "market_depth",
    "trading_session_sub_id", "security_trading_status",
)  # fmt: skip
"""Columns read of ``legacy_snapshot_full_refresh``."""
NUMBERS_AS_TEXTS: Final = frozenset({"order_id", "trade_id", "md_entry_time"})
"""Columns with texts of digits, which may differ in every row."""
_PRICE_STEP: Final = 10 ** (SCALE - 4)
_BY_TYPE: Final = {
    "7": t.HIGH_PRICE,
    "8": t.LOW_PRICE,
    "B": t.EXECUTION_STATISTICS,
    "g": PRICE_BAND,
    OPENING_PRICE: t.OPENING_PRICE,
}

UNREADABLE: Final = "UNREADABLE"
"""Action unknown to books: the entry cannot be applied to a book."""
_IMBALANCES: Final = {
    "P": t.flag("ImbalanceCondition", "ImbalanceMoreBuyers"),
    "Q": t.flag("ImbalanceCondition", "ImbalanceMoreSellers"),
}

_UNKNOWN = 99


# --- Entries ---


class EntryColumns:
    """Entries of messages of a table of the lake; each column is computed once."""

    def __init__(
        self,
        rows: Any,
        slots: Mapping[int, TimeSlots] | None = None,
        *,
        levels: bool = False,
        seconds: Collection[int] = (),
    ) -> None:
        """``slots`` has restarts of numbers, by channel; ``levels`` states whether the entries of
        books are price levels rather than orders. ``seconds`` are the channels whose times of day
        have no milliseconds (002 §15.11).
        """
        self.rows = rows.combine_chunks()
        self.levels = levels
        self._slots = slots or {}
        self._seconds = seconds

    def __len__(self) -> int:
        count: int = self.rows.num_rows
        return count

    def numbers(self, name: str, null: int = NULL) -> Int64Array:
        """Return a column of integers."""
        return integers(self.rows.column(name), null)

    def value(self, name: str, meaning: Callable[[str | None], Any], kind: Any) -> Any:
        """Return the meanings of a column's texts, each converted once."""
        column = self.rows.column(name)
        column = column.chunk(0) if column.num_chunks else pa.array([], pa.string())
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        texts = column.dictionary.to_pylist()
        known = np.array([meaning(text) for text in [*texts, None]], kind)
        return known[integers(column.indices, len(texts))]

    @cached_property
    def action(self) -> Int64Array:
        """Update actions; in snapshots every entry is new."""
        if "md_update_action" not in self.rows.column_names:
            return np.full(len(self), NEW, np.int64)
        return self.numbers("md_update_action", NEW)

    @cached_property
    def type(self) -> npt.NDArray[Any]:
        """Entry types, as letters."""
        return np.asarray(self.value("md_entry_type", lambda text: text or "", "U2"))

    @cached_property
    def theoretical(self) -> BoolArray:
        """Whether each is the theoretical price of an auction."""
        return np.asarray(
            self.value(
                "open_close_settl_flag", lambda text: number_of(text) == THEORETICAL, np.bool_
            )
        )

    @cached_property
    def venue(self) -> npt.NDArray[Any]:
        """Venues, as letters; the electronic market where none is stated."""
        return np.asarray(
            self.value("md_stream_id", lambda text: stream_id_of({"MDStreamID": text}), np.object_)
        )

    @cached_property
    def elsewhere(self) -> BoolArray:
        """Whether each is of a venue other than the electronic market."""
        found: BoolArray = self.venue != ELECTRONIC
        return found

    def default(self, kind: str, name: str, field: str) -> Int64Array:
        """Return a column of numbers as digits or integers; where absent, the value of entries of
        a type.
        """
        absent = number_of(DEFAULTS[kind][field])
        if pa.types.is_integer(self.rows.schema.field(name).type):
            return self.numbers(name, or_null(absent))
        return np.asarray(
            self.value(
                name, lambda text: or_null(absent if text is None else number_of(text)), np.int64
            )
        )

    def trades_elsewhere(self, template: int) -> Int64Array:
        """Return the indices of the trades, forwards or busts of other venues."""
        return np.flatnonzero((self._of_trades == template) & self.elsewhere)

    @cached_property
    def template(self) -> Int64Array:
        """Equivalent message of the binary feed of each entry."""
        found = np.full(len(self), OTHER, np.int64)
        kind, action = self.type, self.action
        for letter, template in _BY_TYPE.items():
            found[kind == letter] = template
        found[(kind == OPENING_PRICE) & self.theoretical] = OTHER
        traded = kind == TRADE
        found[traded] = self._of_trades[traded]
        # Other venues make no trade, price or volume of the electronic market (002 §10).
        found[self.elsewhere] = OTHER
        emptied = kind == EMPTIED
        found[emptied] = t.EMPTY_BOOK
        found[emptied & (self.numbers("security_id", 0) == 0)] = t.CHANNEL_RESET
        of_book = np.isin(kind, list(SIDES))
        found[of_book] = t.ORDER
        found[of_book & (action == DELETE)] = t.DELETE_ORDER
        found[of_book & np.isin(action, (DELETE_THRU, DELETE_FROM))] = t.MASS_DELETE_ORDERS
        return found

    @cached_property
    def _of_trades(self) -> Int64Array:
        """Equivalent message of each trade, whatever its venue; `OTHER` for other entries."""
        traded = self.type == TRADE
        found = np.where(traded, t.TRADE, OTHER)
        found[traded & (self.numbers("seller_days") != NULL)] = t.FORWARD_TRADE
        found[traded & (self.action == DELETE)] = t.TRADE_BUST
        last = self.value(
            "trade_condition", lambda text: EXCHANGE_LAST in conditions(text), np.bool_
        )
        # In snapshots it is the last trade, regardless of its condition.
        last |= "md_update_action" not in self.rows.column_names
        found[traded & last] = t.LAST_TRADE_PRICE
        return found

    # Values

    @cached_property
    def price(self) -> Int64Array:
        """Prices as mantissas of books; NULL where there is none, or one with more decimals."""
        return self.scaled("md_entry_px")

    def scaled(self, name: str) -> Int64Array:
        """Return decimals as price mantissas."""
        values = self.numbers(name)
        present = values != NULL
        exact = present & (values % _PRICE_STEP == 0)
        return np.where(exact, values // _PRICE_STEP, NULL)

    @cached_property
    def unreadable(self) -> BoolArray:
        """Whether a price is impossible in a book, or the size or a level's number of orders is
        missing.
        """
        odd: BoolArray = (self.price == NULL) & (self.numbers("md_entry_px") != NULL)
        odd |= self.numbers("md_entry_size") == NULL
        if self.levels:
            odd |= self.numbers("number_of_orders") < 1
        return odd

    @cached_property
    def time_ns(self) -> Int64Array:
        """Times of the events."""
        return self._moments("md_entry_date", "md_entry_time")

    @cached_property
    def inserted_ns(self) -> Int64Array:
        """Times at which orders took their positions."""
        return self._moments("md_insert_date", "md_insert_time")

    def _moments(self, day: str, time: str) -> Int64Array:
        if pa.types.is_string(self.rows.schema.field(time).type):
            times = integers(as_numbers(self.rows.column(time)))
        else:
            times = self.numbers(time)
        return moments_of(self.numbers(day), times, NULL, self._milliseconds)

    @cached_property
    def _milliseconds(self) -> BoolArray:
        channels = self.numbers("channel", -1)
        found: BoolArray = ~np.isin(channels, list(self._seconds))
        return found

    @cached_property
    def position(self) -> Int64Array:
        """Positions; the oldest templates have a price level instead."""
        found = self.numbers("md_entry_position_no")
        if "md_price_level" in self.rows.column_names:
            found = np.where(found == NULL, self.numbers("md_price_level"), found)
        return found

    @cached_property
    def firm(self) -> Int64Array:
        """Firm of an order: the buyer of a bid, the seller of an offer."""
        return np.where(
            self.type == "0", self.party("md_entry_buyer"), self.party("md_entry_seller")
        )

    def party(self, name: str) -> Int64Array:
        """Return firms as integers; NULL where they are not numeric."""
        return np.asarray(self.value(name, lambda text: or_null(number_of(text)), np.int64))

    @cached_property
    def indicator(self) -> Int64Array:
        """Flags that an order has in the binary feed; a price level is never implied."""

        def bits(text: str | None) -> int:
            words = conditions(text)
            implied = t.IMPLIED if IMPLIED in words and not self.levels else 0
            return implied | (t.RECOVERY if RETRANSMITTED in words else 0)

        return np.asarray(self.value("quote_condition", bits, np.int64))

    @cached_property
    def version(self) -> Int64Array:
        """Stand-in for the sequence version of each entry's message."""
        found = self.numbers("sequence_version")
        channels = self.numbers("channel", -1)
        for channel, slots in self._slots.items():
            if slots.restarts:
                own = np.flatnonzero(channels == channel)
                sending = self.numbers("sending_time_ns")[own]
                found[own] = slots.version_at(sending, self.number[own])
        return found

    @cached_property
    def number(self) -> Int64Array:
        """Number of each entry's message."""
        return self.numbers("msg_seq_num", 0)

    @cached_property
    def entry(self) -> Int64Array:
        """Index of each entry in its message."""
        return self.numbers("index_in_packet") & ((1 << ENTRY_BITS) - 1)


def or_null(number: int | None) -> int:
    """Return a number, or `NULL` if it is None or exceeds 63 bits."""
    return NULL if number is None or number >= 1 << 63 else number


def as_numbers(column: Any) -> Any:
    """Return texts of digits as integers; null for other texts."""
    digits = pc.match_substring_regex(column, "^[0-9]{1,18}$")
    return pc.cast(pc.if_else(digits, column, pa.scalar(None, pa.string())), pa.int64())


# --- Messages ---


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
        return sum(TRADE_CONDITIONS.get(word, 0) for word in conditions(text))

    many = entries.value("trade_condition", lambda text: MULTI_ASSET in conditions(text), np.int64)
    kinds = {1: MULTI_ASSET_TRADE}
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
    flags = entries.default(OPENING_PRICE, "open_close_settl_flag", "OpenCloseSettlFlag")
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
    kinds = entries.default("g", "price_band_type", "PriceBandType")
    limits = entries.default("g", "price_limit_type", "PriceLimitType")
    return {
        "price_band_type": named(kinds, BAND_TYPES, kept),
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
