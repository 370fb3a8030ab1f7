"""Legacy snapshots in the form of the binary feed's: a header, orders, statistics.

A legacy snapshot is one message whose rows are its entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array
from pregao.feed.legacy.book_updates import SIDES
from pregao.feed.book_updates import NUMBER_OF_ORDERS
from pregao.lake.books.columns import integers, nulled, prices, take
from pregao.lake.books.legacy_entries import STATISTICS, EntryColumns, as_numbers
from pregao.lake.books.legacy_messages import key_columns, messages_of, side_column
from pregao.lake.books.slots import TimeSlots
from pregao.umdf.streams import Stream
from pregao.umdf.templates import SNAPSHOT_HEADER, SNAPSHOT_ORDERS

LOOP_VERSION = 1
"""Loops have no versions; their numbers restart where one ends."""


class SnapshotEntries:
    """Snapshots of some instruments, assembled from their rows."""

    def __init__(self, rows: Any, slots: TimeSlots, market_depth: int = 0) -> None:
        """``market_depth`` is the number of levels in the snapshots; 0 if they have orders."""
        entries = EntryColumns(rows)
        captures = set(rows.column("capture_id").unique().to_pylist()) - {None}
        rank = {text: at for at, text in enumerate(sorted(captures))}
        order = np.lexsort(
            (
                entries.entry,
                entries.value("capture_id", lambda text: rank.get(text, -1), np.int64),
                entries.numbers("capture_time_ns"),
                entries.number,
                entries.numbers("sending_time_ns"),
                entries.numbers("security_id", 0),
            )
        )
        self.entries = EntryColumns(take(rows, order), levels=market_depth > 0)
        self.slots = slots
        begins: BoolArray = self.entries.entry == 0
        if len(begins):
            begins[0] = True
        self._begins = np.flatnonzero(begins)
        self._message = np.cumsum(begins) - 1
        # An entry that no book can have makes its snapshot incomplete, as does one of another
        # depth.
        self._of_book = np.isin(self.entries.type, list(SIDES))
        own: BoolArray = self.entries.numbers("market_depth", 0) == market_depth
        self._whole = self._of_book & own & ~self.entries.unreadable
        self._stat = np.isin(self.entries.template, STATISTICS)

    def table(self, template: int) -> Any:
        """Return the rows of a template of the snapshot stream."""
        if template == SNAPSHOT_HEADER:
            return self._headers()
        if template == SNAPSHOT_ORDERS:
            return self._orders()
        kept = np.flatnonzero(self._stat & (self.entries.template == template))
        found = messages_of(self.entries, template, kept)
        return _looped(found, self.entries.entry[kept] + 2)

    def _count(self, which: BoolArray) -> Int64Array:
        return np.bincount(self._message[which], minlength=len(self._begins))

    def _headers(self) -> Any:
        entries, kept = self.entries, self._begins
        last = entries.numbers("last_msg_seq_num_processed", 0)[kept]
        # PUMA counts the message, MEGABOLSA each entry (002 §15.2).
        counts = np.zeros(len(kept), np.int64)
        np.maximum.at(counts, self._message, entries.numbers("rpt_seq", 0))
        sides = [self._of_book & (entries.type == letter) for letter in SIDES]
        sent = entries.numbers("sending_time_ns")[kept]
        values = {
            "last_msg_seq_num_processed": pa.array(last),
            "tot_num_reports": nulled(entries.numbers("tot_num_reports")[kept]),
            "tot_num_bids": pa.array(self._count(sides[0])),
            "tot_num_offers": pa.array(self._count(sides[1])),
            "tot_num_stats": pa.array(self._count(self._stat)),
            "last_rpt_seq": pa.array(counts),
            "last_sequence_version": pa.array(self.slots.held_as_of(sent, last)),
        }
        keys = key_columns(entries, kept)
        return _looped(pa.table({**keys, **values}), np.zeros(len(kept), np.int64))

    def _orders(self) -> Any:
        entries = self.entries
        kept = np.flatnonzero(self._whole)
        sizes = self._count(self._whole)
        with_orders = np.flatnonzero(sizes)
        keys = key_columns(entries, self._begins[with_orders])
        offsets = np.concatenate([[0], np.cumsum(sizes[with_orders])]).astype(np.int32)
        order_id = integers(as_numbers(take(entries.rows.column("order_id"), kept)))
        members = {
            "md_entry_px": prices(entries.price[kept]),
            "md_entry_size": nulled(entries.numbers("md_entry_size")[kept]),
            "entering_firm": nulled(entries.firm[kept]),
            "md_insert_timestamp_ns": nulled(entries.inserted_ns[kept]),
            "secondary_order_id": nulled(order_id),
            "md_entry_type": side_column(entries, kept),
            "match_event_indicator": pa.array(entries.indicator[kept]),
            "md_entry_position_no": nulled(entries.position[kept]),
            NUMBER_OF_ORDERS: nulled(entries.numbers("number_of_orders")[kept]),
        }
        struct = pa.StructArray.from_arrays(list(members.values()), list(members))
        lists = pa.ListArray.from_arrays(pa.array(offsets), struct)
        table = pa.table({**keys, "no_md_entries": lists})
        return _looped(table, np.ones(len(with_orders), np.int64))


def _looped(table: Any, index: Int64Array) -> Any:
    """Return rows as those of the snapshot stream: without a version, after their header."""
    count = table.num_rows
    changed = {
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(count, np.int32)), pa.array([Stream.SNAPSHOT.value])
        ),
        "sequence_version": pa.array(np.full(count, LOOP_VERSION, np.int32)),
        "index_in_packet": pa.array(index),
        "event": pa.nulls(count, pa.int64()),
    }
    columns = {name: changed.get(name, table.column(name)) for name in table.column_names}
    return pa.table(columns)
