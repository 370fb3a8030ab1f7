"""Entries of the legacy feed as columns do to books what they do one at a time."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.update_rows import NULL, UpdateKind, row_of
from pregao.book.updates import MessageKey, MessagesMissing
from pregao.feed.book_updates import BOOK_TEMPLATES, LEVEL_FIELDS, ORDER_FIELDS, update_columns
from pregao.feed.legacy.book_updates import update_of
from pregao.lake.books.day_loader import ArrowColumns
from pregao.lake.books.legacy_messages import (
    ENTRY_COLUMNS,
    OTHER,
    PRICE_BAND,
    EntryColumns,
    messages_of,
)
from pregao.lake.books.legacy_reader import SnapshotEntries
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.umdf.templates import (
    AUCTION_IMBALANCE,
    FORWARD_TRADE,
    IMPLIED_SINCE,
    LAST_TRADE_PRICE,
    OPENING_PRICE,
    THEORETICAL_OPENING_PRICE,
    TRADE,
    TRADE_BUST,
    implied_masks,
)

FIELDS = {
    "MDUpdateAction": "md_update_action",
    "MDEntryType": "md_entry_type",
    "MDEntryPx": "md_entry_px",
    "MDEntrySize": "md_entry_size",
    "MDEntryPositionNo": "md_entry_position_no",
    "NumberOfOrders": "number_of_orders",
    "OrderID": "order_id",
    "QuoteCondition": "quote_condition",
    "MDEntryBuyer": "md_entry_buyer",
    "MDEntrySeller": "md_entry_seller",
    "MDInsertDate": "md_insert_date",
    "MDInsertTime": "md_insert_time",
    "MDStreamID": "md_stream_id",
    "OpenCloseSettlFlag": "open_close_settl_flag",
    "PriceBandType": "price_band_type",
    "PriceLimitType": "price_limit_type",
    "TradeCondition": "trade_condition",
    "SellerDays": "seller_days",
}
(SPEC,) = (
    spec for spec in PROTOCOLS["legacy"].tables() if spec.name == "legacy_incremental_refresh"
)
TRADES = (TRADE, FORWARD_TRADE, TRADE_BUST)
NUMBERS = ("order_id", "price", "size", "position", "firm", "inserted")
WITHOUT_POSITION = (UpdateKind.CLEAR_SIDE, UpdateKind.OVERLAY)
"""The position that they name does not matter."""


def or_none(strategy):
    return st.none() | strategy


entries = st.fixed_dictionaries(
    {
        "SecurityID": st.just(7),
        "MDUpdateAction": st.integers(0, 6),
        "MDEntryType": st.sampled_from("01J"),
        "MDEntryPx": or_none(
            st.integers(-(10**9), 10**9).flatmap(
                lambda mantissa: st.sampled_from([2, 4, 6]).map(
                    lambda decimals: Decimal(mantissa).scaleb(-decimals)
                )
            )
        ),
        "MDEntrySize": or_none(st.integers(0, 10**9)),
        "MDEntryPositionNo": st.integers(1, 20),
        "NumberOfOrders": or_none(st.integers(0, 9)),
        "OrderID": or_none(st.sampled_from(["12", "9" * 17, "X1", ""])),
        "QuoteCondition": or_none(st.sampled_from(["K", "R", "K R", "Z"])),
        "MDEntryBuyer": or_none(st.sampled_from(["3", "85", "ABC"])),
        "MDEntrySeller": or_none(st.sampled_from(["3", "85", "ABC"])),
        "MDInsertDate": or_none(st.just(20260521)),
        "MDInsertTime": or_none(st.sampled_from([93000123, 180000000])),
    }
)


def table_of(entry_rows):
    """Entries as a table of the lake has them."""
    columns = {}
    for name in ENTRY_COLUMNS:
        kind = SPEC.schema.field(name).type
        own = next((field for field, column in FIELDS.items() if column == name), None)
        values = (
            [None] * len(entry_rows) if own is None else [entry.get(own) for entry in entry_rows]
        )
        if pa.types.is_decimal(kind):
            kind = pa.decimal128(28, 8)
        columns[name] = pa.array(values, kind)
    columns["security_id"] = pa.array([7] * len(entry_rows), pa.int64())
    columns["index_in_packet"] = pa.array(range(len(entry_rows)), pa.int32())
    return pa.table(columns)


def by_columns(entry_rows, levels):
    """Effect of each entry, by its number."""
    rows = EntryColumns(table_of(entry_rows), levels=levels)
    found = {}
    for template in BOOK_TEMPLATES:
        made = messages_of(rows, template)
        for name in (LEVEL_FIELDS if levels else ORDER_FIELDS)[template]:
            if name not in made.column_names:  # not published by the feed
                made = made.append_column(name, pa.nulls(made.num_rows, pa.int64()))
        messages = ArrowColumns(made)
        masks = implied_masks(np.full(len(messages), IMPLIED_SINCE))
        updates = update_columns(template, messages, masks, levels=levels)
        for at, entry in enumerate(messages.numbers("index_in_packet").tolist()):
            found[entry] = {
                "kind": int(updates.kind[at]), "side": int(updates.side[at]),
                "flags": int(updates.flags[at]),
                **{name: int(getattr(updates, name)[at]) for name in NUMBERS},
            }  # fmt: skip
    return found


def plain(entry, depth):
    update = update_of(MessageKey(1, 1), entry, depth)
    if isinstance(update, MessagesMissing):
        return {"kind": UpdateKind.INTERRUPT}
    row = dict.fromkeys(NUMBERS, NULL) | {"side": 0, "flags": 0} | row_of(update)
    return {name: int(value) for name, value in row.items() if name != "previous"}


@settings(max_examples=150, deadline=None)
@given(entry_rows=st.lists(entries, min_size=1, max_size=12), levels=st.booleans())
def test_columns_of_entries_do_what_each_entry_does(entry_rows, levels):
    # A field that is not there has no value in a table.
    given_fields = [{k: v for k, v in entry.items() if v is not None} for entry in entry_rows]
    found = by_columns(entry_rows, levels)
    assert found.keys() == set(range(len(entry_rows)))
    for at, entry in enumerate(given_fields):
        expected, row = plain(entry, 5 if levels else None), found[at]
        if expected["kind"] in WITHOUT_POSITION:
            row = row | {"position": expected["position"]}
        if expected["kind"] == UpdateKind.INTERRUPT:
            row = {"kind": row["kind"]}
        assert row == expected, entry


@settings(max_examples=20, deadline=None)
@given(captures=st.permutations([None, *(f"{number:032x}" for number in range(12))]))
def test_snapshots_of_several_captures_are_sorted_by_capture(captures):
    """Copies that agree in everything else have the same order in every process."""
    entry_rows = [{"MDEntryType": "0", "MDEntrySize": size} for size in range(len(captures))]
    rows = table_of(entry_rows)
    same = {name: pa.array([1] * len(entry_rows), rows.schema.field(name).type)
            for name in ("msg_seq_num", "sending_time_ns", "capture_time_ns")}  # fmt: skip
    same["index_in_packet"] = pa.array([0] * len(entry_rows), pa.int32())
    same["capture_id"] = pa.array(captures, pa.string())
    for extra in ("market_depth", "last_msg_seq_num_processed", "tot_num_reports"):
        same[extra] = pa.array([0] * len(entry_rows), pa.int64())
    columns = {name: rows.column(name) for name in rows.column_names}
    sorted_rows = SnapshotEntries(pa.table(columns | same), None).entries.rows
    first, *others = sorted_rows.column("capture_id").to_pylist()
    assert (first, others) == (None, sorted(captures[at] for at in range(13) if captures[at]))


def column(entry_rows, template, name):
    return messages_of(EntryColumns(table_of(entry_rows)), template).column(name).to_pylist()


def test_002_10_9_bands_have_the_codes_and_defaults_of_the_legacy_feed():
    bands = [
        {"MDEntryType": "g", "PriceBandType": kind, "PriceLimitType": limit}
        for kind, limit in ((None, None), ("0", 0), ("1", 1), ("2", 2), ("7", 9))
    ]
    assert column(bands, PRICE_BAND, "price_band_type") == [
        "HARD_LIMIT", "HARD_LIMIT", "REJECTION_BAND", "AUCTION_LIMITS", None,
    ]  # fmt: skip
    assert column(bands, PRICE_BAND, "price_limit_type") == [
        "PRICE_UNIT", "PRICE_UNIT", "TICKS", "PERCENTAGE", None,
    ]  # fmt: skip


def test_002_10_4_an_opening_price_without_a_flag_is_of_the_day():
    prices = [{"MDEntryType": "4", "OpenCloseSettlFlag": flag} for flag in (None, "0", "5", "4")]
    assert column(prices, OPENING_PRICE, "open_close_settl_flag") == [
        "DAILY", "DAILY", "ENTRY_FROM_PREVIOUS_BUSINESS_DAY",
    ]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    entry_rows=st.lists(
        st.fixed_dictionaries(
            {
                "MDEntryType": st.sampled_from("22478B9ACg"),
                "MDUpdateAction": st.sampled_from([0, 2]),
                "MDStreamID": st.sampled_from([None, "E", "X", "S", "O", "C"]),
                "TradeCondition": st.sampled_from([None, "X", "U"]),
                "SellerDays": st.sampled_from([None, 30]),
                "OpenCloseSettlFlag": st.sampled_from([None, "5"]),
            }
        ),
        min_size=1,
        max_size=8,
    )
)
def test_002_10_entries_of_other_venues_are_no_message_of_the_binary_feed(entry_rows):
    found = EntryColumns(table_of(entry_rows))
    without = EntryColumns(table_of([each | {"MDStreamID": None} for each in entry_rows]))
    for at, each in enumerate(entry_rows):
        electronic = each["MDStreamID"] in (None, "E")
        assert found.template[at] == (without.template[at] if electronic else OTHER)
        assert found.venue[at] == (each["MDStreamID"] or "E")
        elsewhere = [kind for kind in TRADES if at in found.trades_elsewhere(kind)]
        expected = [kind for kind in TRADES if kind == without.template[at] and not electronic]
        assert elsewhere == expected
    for auction in (THEORETICAL_OPENING_PRICE, AUCTION_IMBALANCE):
        found_at, at_all = (
            messages_of(each, auction).column("index_in_packet").to_pylist()
            for each in (found, without)
        )
        assert found_at == [at for at in at_all if entry_rows[at]["MDStreamID"] in (None, "E")]


def test_002_10_1_the_trade_of_a_snapshot_is_the_last_one():
    """Whatever its condition; an incremental entry is a trade, unless it only has its price (U)."""
    trades = [{"MDEntryType": "2", "TradeCondition": each} for each in (None, "X L", "U")]
    table = table_of(trades)
    assert EntryColumns(table).template.tolist() == [TRADE, TRADE, LAST_TRADE_PRICE]
    shown = EntryColumns(table.drop_columns(["md_update_action"]))
    assert shown.template.tolist() == [LAST_TRADE_PRICE] * 3
