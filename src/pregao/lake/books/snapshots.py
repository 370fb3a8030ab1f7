"""The snapshots found in the lake: each instrument's header, orders and figures put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.book.faults import State
from pregao.book.queue_order import queue_order
from pregao.book.replay import FullBook
from pregao.book.rows import NULL, UpdateKind
from pregao.lake.books import _kernels
from pregao.lake.books.columns import Codes, Flags, Numbers, codes, integers, taken
from pregao.lake.books.inputs import (
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
    Part,
    Reader,
    serial_of,
)
from pregao.lake.books.messages import (
    BEHIND_PACKET,
    IMPLIED_BIT,
    SIDES,
    BookColumns,
    place_of,
)

_PLACE = ("security_id", "sequence_version", "sequence_number", "index_in_packet")
_TIMES = ("sending_time_ns", "capture_time_ns")
HEADER_COLUMNS = (
    *_PLACE,
    *_TIMES,
    "last_msg_seq_num_processed",
    "tot_num_reports",
    "tot_num_bids",
    "tot_num_offers",
    "tot_num_stats",
    "last_rpt_seq",
    "last_sequence_version",
)


@dataclass(slots=True)
class LoopRows:
    """Where rows of the snapshot stream stand: instrument, loop, packet, index, time."""

    security: Numbers
    version: Numbers
    number: Numbers
    index: Numbers
    sending: Numbers

    def __len__(self) -> int:
        return len(self.security)

    @staticmethod
    def of(rows: Any) -> LoopRows:
        """From the columns of a table."""
        return LoopRows(*(integers(rows.column(name), 0) for name in (*_PLACE, _TIMES[0])))

    def taken(self, chosen: Numbers) -> LoopRows:
        """Some of the rows."""
        columns = (self.security, self.version, self.number, self.index, self.sending)
        return LoopRows(*(column[chosen] for column in columns))

    def order(self) -> Numbers:
        """The indexes that put rows in the order in which each instrument's came, each once.

        Two captures may have brought the same packet; a loop's version may come again, at
        another time.
        """
        keys = (self.index, self.number, self.version, self.sending, self.security)
        order = np.lexsort(keys)
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for key in keys:
            same &= key[order[1:]] == key[order[:-1]]
        first: Flags = np.append(True, ~same)[: len(order)]
        return order[first]


@dataclass(slots=True)
class Snapshots:
    """Snapshots of some instruments, in order of instrument and time; one header each."""

    security: Numbers
    place: Numbers
    """Behind the last packet that it holds."""
    version: Numbers
    number: Numbers
    """Of the incremental packet that it holds as of."""
    count: Numbers
    """``lastRptSeq``, 0 without one."""
    loop: LoopRows
    capture: Numbers
    bids: Numbers
    offers: Numbers
    statistics: Numbers
    reports: Numbers
    complete: Flags
    """Did everything come that the header counts?"""
    ends: Numbers
    """Where each one's orders end in the columns of orders."""
    side: Codes
    order_id: Numbers
    price: Numbers
    size: Numbers
    firm: Numbers
    inserted: Numbers
    implied: Codes

    def __len__(self) -> int:
        return len(self.security)

    def void(self) -> Flags:
        """Those that only say that there is nothing: of a deleted or just emptied instrument."""
        nothing = (self.bids == 0) & (self.offers == 0) & (self.statistics == 0)
        void: Flags = nothing & (self.count == 0)
        return void

    def orders(self, at: int) -> slice:
        """Which of the orders are one snapshot's."""
        return slice(int(self.ends[at - 1]) if at else 0, int(self.ends[at]))

    def book(self, at: int) -> FullBook:
        """A snapshot as a book: bids first, each side in queue order."""
        own = self.orders(at)
        return FullBook(
            -1,
            State.VALID,
            self.side[own],
            self.order_id[own],
            self.price[own],
            self.size[own],
            self.firm[own],
            self.inserted[own],
            self.implied[own],
        )

    def rows(self, at: int) -> BookColumns:
        """A snapshot as updates of a book: it begins, its orders, it ends."""
        book = self.book(at)
        rows = BookColumns.empty(len(book) + 2, UpdateKind.SNAPSHOT_ORDER)
        rows.kind[0], rows.kind[-1] = UpdateKind.SNAPSHOT_BEGIN, UpdateKind.SNAPSHOT_END
        rows.size[0], rows.previous[0] = self.bids[at], self.offers[at]
        rows.side[1:-1] = book.side
        rows.flags[1:-1] = book.implied  # the flag's value is 1
        for name in ("order_id", "price", "size", "firm", "inserted"):
            getattr(rows, name)[1:-1] = getattr(book, name)
        return rows


def read_headers(reader: Reader, part: Part) -> Any:
    """The rows of the snapshots' headers, each once, in order; None if there are none."""
    tables = reader.read(SNAPSHOT_HEADER, HEADER_COLUMNS, part)
    if not tables:
        return None
    rows = pa.concat_tables(tables)
    return taken(rows, LoopRows.of(rows).order())


def version_of(headers: Any, spans: list[tuple[int, int]]) -> Numbers:
    """The incremental sequence version that each snapshot holds as of.

    Below schema version 15 snapshots do not tell it: it is the version in which the incremental
    stream was when they were sent. ``spans`` are the versions with their first sending times.
    """
    told = integers(headers.column("last_sequence_version"))
    if not (told == NULL).any():
        return told
    firsts = np.array([first for _, first in spans], np.int64)
    versions = np.array([version for version, _ in spans], np.int64)
    at = np.searchsorted(firsts, integers(headers.column("sending_time_ns")), side="right") - 1
    return np.where(told == NULL, versions[np.maximum(at, 0)], told)


def read_snapshots(
    reader: Reader,
    part: Part,
    base: int,
    spans: list[tuple[int, int]],
    figures: LoopRows,
    by_position: bool,
    securities: tuple[int, ...] | None = None,
) -> Snapshots | None:
    """The snapshots of a range of instruments; ``figures`` is where their figures stand."""
    headers = read_headers(reader, part)
    if headers is not None and securities is not None:
        own = np.isin(integers(headers.column("security_id")), securities)
        headers = taken(headers, np.flatnonzero(own))
    if headers is None or not headers.num_rows:
        return None
    loop = LoopRows.of(headers)
    versions = version_of(headers, spans)
    numbers = integers(headers.column("last_msg_seq_num_processed"))
    place = place_of(serial_of(versions, numbers, base), BEHIND_PACKET)
    columns = {
        name: integers(headers.column(name), 0)
        for name in ("tot_num_bids", "tot_num_offers", "tot_num_stats", "tot_num_reports")
    }
    entries, owner = _entries(reader, part, loop, by_position)
    count = len(loop)
    side = entries.side.astype(np.int64)
    found = np.bincount(owner * 2 + side, minlength=2 * count).reshape(-1, 2)
    figure_owner = owners(loop, figures)
    told = np.bincount(figure_owner[figure_owner >= 0], minlength=count)
    complete = (found[:, 0] == columns["tot_num_bids"]) & (found[:, 1] == columns["tot_num_offers"])
    complete &= told == columns["tot_num_stats"]
    return Snapshots(
        loop.security,
        place,
        versions,
        numbers,
        integers(headers.column("last_rpt_seq"), 0),
        loop,
        integers(headers.column("capture_time_ns")),
        columns["tot_num_bids"],
        columns["tot_num_offers"],
        columns["tot_num_stats"],
        columns["tot_num_reports"],
        complete,
        np.cumsum(found.sum(axis=1)),
        entries.side,
        entries.order_id,
        entries.price,
        entries.size,
        entries.firm,
        entries.inserted,
        entries.flags,
    )


def owners(headers: LoopRows, rows: LoopRows) -> Numbers:
    """Which header each row of the snapshot stream belongs to: the last one before it.

    Both are in order. A row whose header did not come has -1.
    """
    if not len(headers) or not len(rows):
        return np.full(len(rows), -1, np.int64)
    joined = [
        np.concatenate([getattr(headers, name), getattr(rows, name)])
        for name in ("index", "number", "version", "sending", "security")
    ]
    order = np.lexsort(tuple(joined))
    is_header = order < len(headers)
    last = np.cumsum(is_header) - 1
    found = np.empty(len(order), np.int64)
    found[order] = np.where(last >= 0, order[is_header][np.maximum(last, 0)], -1)
    result = found[len(headers) :]
    at = np.maximum(result, 0)
    same = (headers.security[at] == rows.security) & (headers.version[at] == rows.version)
    return np.where(same, result, -1)


def _entries(
    reader: Reader, part: Part, loop: LoopRows, by_position: bool
) -> tuple[BookColumns, Numbers]:
    """The orders of all snapshots in queue order, and which snapshot each belongs to."""
    columns = [*_PLACE, _TIMES[0], "no_md_entries"]
    tables = reader.read(SNAPSHOT_ORDERS, columns, part)
    if not tables:
        return BookColumns.empty(0, UpdateKind.SNAPSHOT_ORDER), np.empty(0, np.int64)
    rows = pa.concat_tables(tables)
    places = LoopRows.of(rows)
    order = places.order()
    lists = rows.column("no_md_entries").combine_chunks()
    offsets = integers(lists.offsets)
    starts, counts = offsets[:-1][order] - offsets[0], np.diff(offsets)[order]
    struct = lists.flatten()
    owner = np.repeat(owners(loop, places.taken(order)), counts)
    members = {name: struct.field(name) for name in (field.name for field in struct.type)}
    side = codes(members["md_entry_type"], SIDES, 255)
    bits = integers(members["match_event_indicator"], 0)
    entries = BookColumns(
        np.full(len(side), UpdateKind.SNAPSHOT_ORDER, np.uint8),
        side,
        ((bits & IMPLIED_BIT) != 0).astype(np.uint8),
        integers(members["secondary_order_id"]),
        integers(members["md_entry_px"]),
        integers(members["md_entry_size"]),
        np.broadcast_to(np.int64(NULL), len(side)),
        integers(members["md_entry_position_no"]),
        integers(members["entering_firm"]),
        integers(members["md_insert_timestamp_ns"]),
    )
    # Where each order stands, message by message as they are in order now.
    at = np.empty(len(owner), np.int64)
    _kernels.spread_ranges(starts, counts, at)
    # An order whose header, or whose side, is not known makes its snapshot incomplete.
    kept = np.flatnonzero((owner >= 0) & (side[at] < 2))
    return _in_queue_order(entries.taken(at[kept]), owner[kept], by_position)


def _in_queue_order(
    entries: BookColumns, owner: Numbers, by_position: bool
) -> tuple[BookColumns, Numbers]:
    """Sort the orders of each snapshot as a book keeps them, which is how most of them come."""
    order = queue_order(
        owner, entries.side, entries.price, entries.flags, entries.order_id,
        entries.position if by_position else None,
    )  # fmt: skip
    return (entries, owner) if order is None else (entries.taken(order), owner[order])
