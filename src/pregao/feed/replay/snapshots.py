"""Snapshots assembled from columns: each instrument's header, orders and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.replay import FullBook
from pregao.book.state import State
from pregao.book.update_rows import NULL, UpdateKind
from pregao.book.views import queue_order
from pregao.feed.columns import MessageColumns
from pregao.feed.messages import BookColumns
from pregao.feed.packet_gaps import PacketGapColumns
from pregao.feed.packet_keys import AFTER_PACKET, message_serial
from pregao.feed.replay import _kernels
from pregao.umdf.sequencing import serial_of

LOOP_KEY = (
    "security_id",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
    "sending_time_ns",
)
"""Columns of a message's position in the snapshot stream."""
HEADER_COLUMNS = (
    *LOOP_KEY,
    "capture_time_ns",
    "last_msg_seq_num_processed",
    "tot_num_reports",
    "tot_num_bids",
    "tot_num_offers",
    "tot_num_stats",
    "last_rpt_seq",
    "last_sequence_version",
)
"""Columns of a snapshot's header."""

AnyNumbers = npt.NDArray[np.signedinteger[Any]]
_SMALL = np.iinfo(np.int32)

VersionSpans = Sequence[tuple[int, int]]
"""Sequence versions of the incremental stream, and the first sending time of each."""


@dataclass(slots=True)
class LoopRows:
    """Positions of rows in the snapshot stream: instrument, loop, packet, index, time."""

    security: Int64Array
    version: Int64Array
    number: Int64Array
    index: Int64Array
    sending: Int64Array

    def __len__(self) -> int:
        return len(self.security)

    @staticmethod
    def from_messages(rows: MessageColumns) -> LoopRows:
        """Read the positions from columns of messages."""
        return LoopRows(*(rows.numbers(name, 0) for name in LOOP_KEY))

    @staticmethod
    def concat(parts: Sequence[LoopRows]) -> LoopRows:
        """Concatenate the rows of several."""
        empty = [np.empty(0, np.int64)]
        return LoopRows(
            *(
                np.concatenate([getattr(part, column.name) for part in parts] or empty)
                for column in fields(LoopRows)
            )
        )

    def take(self, chosen: Int64Array) -> LoopRows:
        """Return the rows at these indices."""
        return LoopRows(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def order(self) -> Int64Array:
        """Return the indices that sort rows by instrument and stream order, without duplicates.

        Two captures may contain the same packet, and a loop's version may be used again at another
        time.
        """
        keys = (self.index, self.number, self.version, self.sending, self.security)
        order = np.lexsort(keys)
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for key in keys:
            same &= key[order[1:]] == key[order[:-1]]
        first: BoolArray = np.append(True, ~same)[: len(order)]
        return order[first]


def owners(headers: LoopRows, rows: LoopRows) -> Int64Array:
    """Return the index of each row's header in the snapshot stream: the last one before it.

    Both inputs are sorted. A row whose header is missing has -1.
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
    header_of = np.empty(len(order), np.int64)
    header_of[order] = np.where(last >= 0, order[is_header][np.maximum(last, 0)], -1)
    result = header_of[len(headers) :]
    index = np.maximum(result, 0)
    same = (headers.security[index] == rows.security) & (headers.version[index] == rows.version)
    return np.where(same, result, -1)


def version_of(headers: MessageColumns, spans: VersionSpans) -> Int64Array:
    """Return the incremental sequence version that each snapshot is as of.

    Below schema version 15 headers do not contain it: then it is the version of the incremental
    stream at their sending time.
    """
    stated = headers.numbers("last_sequence_version")
    if not (stated == NULL).any():
        return stated
    firsts = np.array([first for _, first in spans], np.int64)
    versions = np.array([version for version, _ in spans], np.int64)
    index = np.searchsorted(firsts, headers.numbers("sending_time_ns"), side="right") - 1
    return np.where(stated == NULL, versions[np.maximum(index, 0)], stated)


@dataclass(slots=True)
class SnapshotOrders:
    """Orders of all snapshots in queue order, and the index of each one's snapshot."""

    orders: BookColumns
    owner: Int64Array

    @staticmethod
    def none() -> SnapshotOrders:
        """Return empty columns."""
        return SnapshotOrders(
            BookColumns.empty(0, UpdateKind.SNAPSHOT_ORDER), np.empty(0, np.int64)
        )


def snapshot_orders(
    headers: LoopRows,
    rows: LoopRows,
    starts: Int64Array,
    counts: Int64Array,
    entries: BookColumns,
    *,
    by_position: bool,
) -> SnapshotOrders:
    """Assign the orders of snapshots to their headers.

    Each of the ``rows`` (messages with orders, in any order) has ``counts`` entries from its
    ``starts`` on.
    """
    order = rows.order()
    starts, counts = starts[order], counts[order]
    owner = np.repeat(owners(headers, rows.take(order)), counts)
    at = np.empty(len(owner), np.int64)
    _kernels.spread_ranges(starts, counts, at)
    # An order without a known header or side makes its snapshot incomplete.
    known = (owner >= 0) & (entries.side[at] < 2)
    if not known.all():
        at, owner = at[known], owner[known]
    if len(at) < len(entries) or (np.diff(at) != 1).any():
        entries = entries.take(at)
    queued = queue_order(
        owner, entries.side, entries.price, entries.flags, entries.order_id,
        entries.position if by_position else None,
    )  # fmt: skip
    if queued is None:
        return SnapshotOrders(entries, owner)
    return SnapshotOrders(entries.take(queued), owner[queued])


_NUMBERS = ("order_id", "price", "size", "firm", "inserted")


@dataclass(slots=True)
class CompactOrders:
    """The orders of a day's snapshots, which are most of the memory that a task keeps all day:
    columns whose values fit into 32 bits are stored in 32 bits."""

    side: Uint8Array
    flags: Uint8Array
    order_id: AnyNumbers
    price: AnyNumbers
    size: AnyNumbers
    firm: AnyNumbers
    inserted: AnyNumbers

    @staticmethod
    def from_books(orders: BookColumns) -> CompactOrders:
        """Convert 64-bit columns."""
        kept = (_narrow(getattr(orders, name)) for name in _NUMBERS)
        return CompactOrders(orders.side, orders.flags, *kept)

    def some(self, own: slice) -> dict[str, Any]:
        """Return the columns of a range of orders, by name."""
        codes = {"side": self.side[own], "flags": self.flags[own]}
        return codes | {name: getattr(self, name)[own].astype(np.int64) for name in _NUMBERS}


def _narrow(values: Int64Array) -> AnyNumbers:
    """Return the numbers as 32 bits if they fit; NULL does not."""
    if not len(values):
        return values
    fits = _SMALL.min <= int(values.min()) and int(values.max()) <= _SMALL.max
    return values.astype(np.int32) if fits else values


@dataclass(slots=True)
class Snapshots:
    """Snapshots of some instruments, by instrument and time; one header each."""

    security: Int64Array
    message_serial: Int64Array
    """Message serial after the last packet that it includes."""
    version: Int64Array
    number: Int64Array
    """Number of the last incremental packet that it includes."""
    count: Int64Array
    """``lastRptSeq``, 0 without one."""
    loop: LoopRows
    capture: Int64Array
    bids: Int64Array
    asks: Int64Array
    statistics: Int64Array
    reports: Int64Array
    complete: BoolArray
    """Whether everything that the header counts was received."""
    ends: Int64Array
    """End of each snapshot's orders in the columns of orders."""
    orders: CompactOrders
    """Orders; or price levels, with the number of orders as order ID."""
    of_levels: bool = False

    def __len__(self) -> int:
        return len(self.security)

    @staticmethod
    def from_messages(
        headers: MessageColumns,
        orders: SnapshotOrders,
        statistics: LoopRows,
        base: int,
        spans: VersionSpans,
        *,
        of_levels: bool = False,
    ) -> Snapshots:
        """Combine headers (sorted, without duplicates), their orders and their statistics."""
        loop = LoopRows.from_messages(headers)
        versions = version_of(headers, spans)
        numbers = headers.numbers("last_msg_seq_num_processed")
        bids, asks, stats, reports = (
            headers.numbers(f"tot_num_{name}", 0) for name in ("bids", "offers", "stats", "reports")
        )
        count = len(loop)
        side = orders.orders.side.astype(np.int64)
        received = np.bincount(orders.owner * 2 + side, minlength=2 * count).reshape(-1, 2)
        owner = owners(loop, statistics)
        received_stats = np.bincount(owner[owner >= 0], minlength=count)
        return Snapshots(
            loop.security,
            message_serial(serial_of(versions, numbers, base), AFTER_PACKET),
            versions,
            numbers,
            headers.numbers("last_rpt_seq", 0),
            loop,
            headers.numbers("capture_time_ns"),
            bids,
            asks,
            stats,
            reports,
            (received[:, 0] == bids) & (received[:, 1] == asks) & (received_stats == stats),
            np.cumsum(received.sum(axis=1)),
            CompactOrders.from_books(orders.orders),
            of_levels,
        )

    def void(self) -> BoolArray:
        """Return which snapshots are void: of an instrument just deleted or emptied."""
        nothing = (self.bids == 0) & (self.asks == 0) & (self.statistics == 0)
        void: BoolArray = nothing & (self.count == 0)
        return void

    def voids(self) -> AbsentInstruments:
        """Return the instruments of complete void snapshots, whose books are empty."""
        own = np.flatnonzero(self.complete & self.void())
        return AbsentInstruments(
            self.security[own], self.message_serial[own], self.loop.sending[own], self.capture[own]
        )

    def usable(self) -> BoolArray:
        """Return which snapshots can be compared or loaded: complete and not void."""
        usable: BoolArray = self.complete & ~self.void()
        return usable

    def _own(self, at: int) -> slice:
        return slice(int(self.ends[at - 1]) if at else 0, int(self.ends[at]))

    def book(self, at: int) -> FullBook:
        """Return a snapshot as a book: bids first, each side in queue order."""
        orders = self.orders.some(self._own(at))
        # Implied is the only flag that snapshots set.
        book = FullBook(-1, State.VALID, implied=orders.pop("flags"), **orders)
        return book.with_levels(book.order_id) if self.of_levels else book

    def rows(self, at: int) -> BookColumns:
        """Return a snapshot as updates of a book: begin, orders, end."""
        own = self._own(at)
        rows = BookColumns.empty(own.stop - own.start + 2, UpdateKind.SNAPSHOT_ORDER)
        rows.kind[0], rows.kind[-1] = UpdateKind.SNAPSHOT_BEGIN, UpdateKind.SNAPSHOT_END
        rows.size[0], rows.previous[0] = self.bids[at], self.asks[at]
        for name, values in self.orders.some(own).items():
            getattr(rows, name)[1:-1] = values
        return rows


@dataclass(frozen=True, slots=True)
class CompleteLoop:
    """A snapshot loop with all its headers."""

    version: int
    first_sending_ns: int
    last_sending_ns: int
    last_capture_ns: int
    serial: int
    """Lowest packet serial that one of its snapshots is as of."""

    def members(self, loop: LoopRows) -> Int64Array:
        """Return the instruments of the loop, among those of the given headers."""
        own = (loop.version == self.version) & (loop.sending >= self.first_sending_ns)
        members: Int64Array = loop.security[own & (loop.sending <= self.last_sending_ns)]
        return members

    @property
    def message_serial(self) -> int:
        """Message serial as of which instruments that are not in the loop have an empty book."""
        return int(message_serial(np.array([self.serial]), AFTER_PACKET)[0])


def whole_loops(headers: MessageColumns, spans: VersionSpans, base: int) -> list[CompleteLoop]:
    """Return the loops that have all their headers; these are sorted, without duplicates."""
    loop = LoopRows.from_messages(headers)
    reports = headers.numbers("tot_num_reports", 0)
    serial = serial_of(
        version_of(headers, spans), headers.numbers("last_msg_seq_num_processed"), base
    )
    capture = headers.numbers("capture_time_ns")
    order = np.lexsort((loop.number, loop.sending))
    # A loop ends where the version changes or, on a feed without versions, numbers restart.
    restarts = (np.diff(loop.version[order]) != 0) | (np.diff(loop.number[order]) < 0)
    breaks = np.flatnonzero(restarts) + 1
    complete = []
    for own in np.split(order, breaks):
        if len(np.unique(loop.security[own])) == int(reports[own].max(initial=0)) > 0:
            sending = loop.sending[own]
            complete.append(
                CompleteLoop(
                    int(loop.version[own[0]]),
                    int(sending.min()),
                    int(sending.max()),
                    int(capture[own].max()),
                    int(serial[own].min()),
                )
            )
    return complete


def complete_loops(
    loops: Sequence[CompleteLoop], gaps: PacketGapColumns
) -> tuple[CompleteLoop, ...]:
    """Return the complete loops that add information: the first one after each gap."""
    covered = gaps.covered(np.array([loop.message_serial for loop in loops], np.int64))
    informative, proven = [], 0
    for loop, missing in zip(loops, covered.tolist(), strict=True):
        if missing > proven:
            informative.append(loop)
            proven = missing
    return tuple(informative)


@dataclass(slots=True)
class AbsentInstruments:
    """Instruments whose books are known to be empty, and as of which message serials.

    Either a complete snapshot loop did not contain them, or their snapshot is void. The times are
    those of the last packet of the loop, or of the void snapshot.
    """

    security: Int64Array
    message_serial: Int64Array
    sending: Int64Array
    capture: Int64Array

    @staticmethod
    def none() -> AbsentInstruments:
        """Return no instruments."""
        return AbsentInstruments(*(np.empty(0, np.int64) for _ in fields(AbsentInstruments)))

    def take(self, chosen: Int64Array) -> AbsentInstruments:
        """Return the absences at these indices."""
        return AbsentInstruments(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @staticmethod
    def from_loops(
        loops: Sequence[CompleteLoop], snapshots: Snapshots | None, securities: Int64Array
    ) -> AbsentInstruments:
        """Return the instruments that a loop does not contain, and those with void snapshots."""
        parts = []
        distinct = np.unique(securities)
        if loops and snapshots is not None:
            parts.append(snapshots.voids())
        for loop in loops:
            members = np.empty(0, np.int64) if snapshots is None else loop.members(snapshots.loop)
            missing = np.setdiff1d(distinct, members)
            known = (loop.message_serial, loop.last_sending_ns, loop.last_capture_ns)
            columns = (np.full(len(missing), value, np.int64) for value in known)
            parts.append(AbsentInstruments(missing, *columns))
        if not parts:
            return AbsentInstruments.none()
        return AbsentInstruments(
            *(
                np.concatenate([getattr(part, column.name) for part in parts])
                for column in fields(AbsentInstruments)
            )
        )

    def after(self, message_serial: int) -> AbsentInstruments:
        """Return those after a message serial."""
        return self.take(np.flatnonzero(self.message_serial > message_serial))

    def sent_by(self, sending_ns: int) -> AbsentInstruments:
        """Return those that were known at a time."""
        return self.take(np.flatnonzero(self.sending <= sending_ns))

    def after_gaps(self, gaps: PacketGapColumns) -> AbsentInstruments:
        """Return the first absence of each instrument after each gap; others add nothing."""
        if not len(self.security):
            return self
        covered = gaps.covered(self.message_serial)
        order = np.lexsort((self.message_serial, covered, self.security))
        security, covered = self.security[order], covered[order]
        new = (security[1:] != security[:-1]) | (covered[1:] != covered[:-1])
        return self.take(order[np.append(True, new)])
