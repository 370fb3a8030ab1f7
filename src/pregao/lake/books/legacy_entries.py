"""Entries of the legacy feed as columns: the equivalent message of the binary feed, and the values.

Column form of `pregao.feed.legacy.book_updates`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pregao.arrays import BoolArray, Int64Array
from pregao.book.update_rows import NULL
from pregao.feed.legacy.book_updates import DELETE, DELETE_FROM, DELETE_THRU, EXCHANGE_LAST, IMPLIED, NEW, OPENING_PRICE, RETRANSMITTED, SIDES, TRADE, conditions, number_of, stream_id_of
from pregao.feed.legacy.book_updates import EMPTY_BOOK as EMPTIED
from pregao.feed.legacy.state import THEORETICAL
from pregao.lake.books.columns import integers
from pregao.lake.books.slots import TimeSlots
from pregao.legacy.bulk import moments_of
from pregao.legacy.tables import SCALE
from pregao.umdf import templates as t

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


class EntryColumns:
    """Entries of messages of a table of the lake; each column is computed once."""

    def __init__(
        self, rows: Any, slots: Mapping[int, TimeSlots] | None = None, *, levels: bool = False
    ) -> None:
        """``slots`` has restarts of numbers, by channel; ``levels`` states whether the entries of
        books are price levels rather than orders.
        """
        self.rows = rows.combine_chunks()
        self.levels = levels
        self._slots = slots or {}

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
    def elsewhere(self) -> BoolArray:
        """Whether each is of a venue other than the electronic market."""
        own_venue = stream_id_of({})
        return np.asarray(
            self.value("md_stream_id", lambda text: (text or own_venue) != own_venue, np.bool_)
        )

    @cached_property
    def template(self) -> Int64Array:
        """Equivalent message of the binary feed of each entry."""
        found = np.full(len(self), OTHER, np.int64)
        kind, action = self.type, self.action
        for letter, template in _BY_TYPE.items():
            found[kind == letter] = template
        found[(kind == OPENING_PRICE) & self.theoretical] = OTHER
        found[self.elsewhere] = OTHER
        traded = kind == TRADE
        found[traded] = t.TRADE
        found[traded & (self.numbers("seller_days") != NULL)] = t.FORWARD_TRADE
        found[traded & (action == DELETE)] = t.TRADE_BUST
        last = self.value(
            "trade_condition", lambda text: EXCHANGE_LAST in conditions(text), np.bool_
        )
        # In snapshots it is the last trade, regardless of its condition.
        last |= "md_update_action" not in self.rows.column_names
        found[traded & last] = t.LAST_TRADE_PRICE
        found[traded & last & self.elsewhere] = OTHER
        emptied = kind == EMPTIED
        found[emptied] = t.EMPTY_BOOK
        found[emptied & (self.numbers("security_id", 0) == 0)] = t.CHANNEL_RESET
        of_book = np.isin(kind, list(SIDES))
        found[of_book] = t.ORDER
        found[of_book & (action == DELETE)] = t.DELETE_ORDER
        found[of_book & np.isin(action, (DELETE_THRU, DELETE_FROM))] = t.MASS_DELETE_ORDERS
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
        return moments_of(self.numbers(day), times, NULL)

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
        """Flags that an order has in the binary feed."""

        def bits(text: str | None) -> int:
            words = conditions(text)
            implied = t.IMPLIED if IMPLIED in words else 0
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
