"""Orders known from snapshots that start or heal books, and order updates of the legacy feed.

The legacy feed identifies orders only by position. The rules of `pregao.feed` decide which
snapshots count, as for books; no books need to be built. Tasks read ranges of instruments from the
tables' files, as the tasks of a build do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.book.update_rows import IMPLIED, NULL, RECOVERY, UpdateKind
from pregao.feed.packet_gaps import no_gaps
from pregao.feed.packet_keys import AFTER_PACKET, packet_of
from pregao.feed.replay.day import LAST_SERIAL
from pregao.feed.replay.sequence import (
    EffectiveSnapshots,
    InstrumentSequence,
    SequenceRows,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
    rows_of,
)
from pregao.feed.replay.snapshots import AbsentInstruments, Snapshots
from pregao.lake.analytics import _kernels
from pregao.lake.analytics.engine import DataFrame, spark_type
from pregao.lake.analytics.reading import LakeDay
from pregao.lake.analytics.tables import PRICE, column
from pregao.lake.books.columns import nulled, prices
from pregao.lake.books.planner import plan_tasks
from pregao.lake.books.reader import LEGACY
from pregao.lake.books.task import BookTask, BuildSettings, DayInputs
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.gap_columns import GapCounters
from pregao.umdf.gaps import GapStep
from pregao.umdf.templates import IMPLIED_SINCE

SNAPSHOT = "SNAPSHOT"
"""An order of a loaded snapshot."""
LOST = "LOST"
"""Messages were lost before: orders that do not appear again ended unseen."""

FOUND = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column(
        "action",
        pa.string(),
        "SNAPSHOT for an order, LOST for the instrument; NEW, CHANGE, DELETE for the legacy feed.",
    ),
    column("place", pa.int64(), "Event key after the last packet that the snapshot includes."),
    column("sequence_version", pa.int32(), "Sequence version of that packet."),
    column("sequence_number", pa.int64(), "Number of that packet."),
    column("secondary_order_id", pa.int64(), "Order."),
    column("side", pa.string(), "Its side."),
    column("position", pa.int64(), "Its position in the queue of its side, from 1; 0 if LOST."),
    column("price", PRICE, "Its price."),
    column("size", pa.int64(), "Its quantity."),
    column("firm", pa.int64(), "Its firm."),
    column("insert_ns", pa.int64(), "Time when it got its queue position."),
    column("implied", pa.bool_(), "Whether it is an implied order; null below schema version 10."),
    column("event", pa.int64(), "Event; this and the following only for the legacy feed."),
    column("index_in_packet", pa.int32(), "Index of the entry in its message."),
    column("time_ns", pa.int64(), "Event time."),
    column("moment", pa.int64(), "Event time: messages of equal times are of one event."),
    column("stated_before", pa.int64(), "Quantity before."),
    column("recovery", pa.bool_(), "Whether it was resent to restore a book."),
)
_SCHEMA = pa.schema([pa.field(field.name, field.type) for field in FOUND])
_NAMED = ", ".join(f"{field.name} {spark_type(field.type)}" for field in FOUND)
_SIDES = pa.array(["BUY", "SELL"])
_ACTIONS = pa.array(["NEW", "CHANGE", "DELETE"])
_AFTER_PACKET = EVENT_NUMBER - 1
_NOTHING_TO_WRITE = BuildSettings("", depth=1, interval_ns=0)


def snapshot_orders(day: LakeDay, *, legacy: bool = True) -> DataFrame:
    """Return the orders of the day's snapshots that count, and where messages were lost.

    With ``legacy``, also returns the order updates of the legacy feed.
    """
    found = [found_by(task) for task in _tasks(day, legacy)]
    return day.session.from_arrow(found, _NAMED)


def matters(inputs: DayInputs) -> bool:
    """Whether snapshots of a channel's day have orders that its messages lack.

    Where no message is missing, they add nothing; the legacy feed's orders are read here.
    """
    return inputs.inputs.protocol == LEGACY or len(inputs.day.gaps) > 0


def _tasks(day: LakeDay, legacy: bool) -> list[BookTask]:
    """Return tasks for the legacy feed's channels, and for channels with missing packets."""
    tasks = []
    for inputs in day.book_inputs():
        if matters(inputs) and (legacy or inputs.inputs.protocol != LEGACY):
            tasks += plan_tasks(inputs, _NOTHING_TO_WRITE, 1, day.part)
    return [task for task in tasks if not task.inputs.day.of_levels]


def found_by(task: BookTask) -> Any:
    """Return the rows of a task's instruments, read in windows where there are very many."""
    day = task.inputs.day
    source = task.inputs.source(task.part)
    others = source.others()
    snapshots = source.snapshots(others)
    alone = len(task.windows) > 1
    also = np.array([task.part.first] if alone else [], np.int64)
    version = task.inputs.schema_version
    legacy = task.inputs.inputs.protocol == LEGACY
    implied_known = legacy or (version is not None and version >= IMPLIED_SINCE)
    rows = _FoundRows(task.inputs.inputs.channel, day.base, implied_known)
    counters: GapCounters | None = None
    counting = EffectiveSnapshots(snapshots)
    windows = task.windows or ((0, LAST_SERIAL),)
    for number, window in enumerate(windows):
        serials = (day.base, *window) if alone else None
        messages, resets = source.messages(others, serials), source.resets(serials)
        usable = counting.within(messages, last=number == len(windows) - 1)
        absent = AbsentInstruments.none()
        if counters is None:
            absent = day.absences(snapshots, np.concatenate([messages.keys.security, also]))
        sequence = in_sequence(messages, resets, snapshots, usable, absent, also, no_gaps())
        if counters is None:
            counters = day.counters(len(sequence.securities))
        followed = follow_sequence(sequence, counters, day.gaps)
        step = followed.step
        restarts = np.flatnonzero((step == GapStep.RESTART) | (step == GapStep.EMPTIES))
        rows.add_restarts(sequence, restarts)
        if snapshots is not None:
            rows.add_snapshots(snapshots, sequence.snapshot[loaded_snapshots(followed)])
        if legacy:
            rows.add_acts(sequence, rows_of(sequence, followed, snapshots))
    return rows.table()


class _FoundRows:
    """Collects the rows of a task."""

    def __init__(self, channel: int, base: int, implied_known: bool) -> None:
        self._channel = channel
        self._base = base
        self._implied_known = implied_known
        self._parts: list[Any] = []

    def add_restarts(self, sequence: InstrumentSequence, items: Int64Array) -> None:
        """Add restarts of counters, and loops without the book: earlier orders no longer exist."""
        version, number = packet_of(sequence.message_serial[items], self._base)
        index = sequence.message_serial[items] & AFTER_PACKET
        event_key = version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER + index - 1
        security = sequence.securities[sequence.rank[items]]
        self._add_lost(security, event_key, version, number)

    def add_snapshots(self, snapshots: Snapshots, chosen: Int64Array) -> None:
        """Add the orders of loaded snapshots."""
        version, number = snapshots.version[chosen], snapshots.number[chosen]
        event_keys = (
            version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER + _AFTER_PACKET
        )
        self._add_lost(snapshots.security[chosen], event_keys - 1, version, number)
        for at, event_key in zip(chosen.tolist(), event_keys.tolist(), strict=True):
            book = snapshots.book(at)
            count = len(book.order_id)
            bids = int((book.side == 0).sum())
            position = np.arange(1, count + 1)
            position[bids:] -= bids
            implied = pa.array((book.implied & IMPLIED) != 0)
            self._add(
                security_id=np.full(count, snapshots.security[at]),
                action=SNAPSHOT,
                event_key=np.full(count, event_key),
                sequence_version=np.full(count, snapshots.version[at]),
                sequence_number=np.full(count, snapshots.number[at]),
                secondary_order_id=nulled(book.order_id),
                side=_SIDES.take(pa.array(book.side.astype(np.int64))),
                position=position,
                price=prices(book.price).cast(PRICE),
                size=nulled(book.size),
                firm=nulled(book.firm),
                insert_ns=nulled(book.inserted),
                implied=implied if self._implied_known else pa.nulls(count, pa.bool_()),
            )

    def add_acts(self, sequence: InstrumentSequence, rows: SequenceRows) -> None:
        """Add updates of single orders, which are identified by position."""
        updates = rows.updates
        adds = (updates.kind == UpdateKind.ADD) | (updates.kind == UpdateKind.SNAPSHOT_ORDER)
        capacity = int(adds.sum())
        found_id, before = (np.empty(len(updates), np.int64) for _ in range(2))
        taken_row, taken_id, taken_size = (np.empty(capacity, np.int64) for _ in range(3))
        taken = _kernels.orders_at_positions(
            updates.instrument, updates.kind, updates.side, updates.order_id, updates.size,
            updates.position, found_id, before, taken_row, taken_id, taken_size,
        )  # fmt: skip
        single = np.flatnonzero((updates.kind <= UpdateKind.DELETE) & (found_id != NULL))
        row = np.concatenate([single, taken_row[:taken]])
        item = rows.item[row]
        version, number = packet_of(sequence.message_serial[item], self._base)
        index = sequence.message_serial[item] & AFTER_PACKET
        gone = np.maximum(updates.kind[row].astype(np.int64), 0)
        gone[len(single) :] = UpdateKind.DELETE
        happened = nulled(sequence.time[sequence.book_row[item]])
        stays = gone != UpdateKind.DELETE
        self._add(
            security_id=updates.instrument[row],
            action=_ACTIONS.take(pa.array(gone)),
            event_key=version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER + index,
            sequence_version=version,
            sequence_number=number,
            index_in_packet=index,
            event=sequence.event[item],
            secondary_order_id=np.concatenate([found_id[single], taken_id[:taken]]),
            side=_SIDES.take(pa.array(updates.side[row].astype(np.int64))),
            position=nulled(updates.position[row]),
            price=prices(updates.price[row]).cast(PRICE),
            size=nulled(np.where(stays, updates.size[row], NULL)),
            firm=nulled(updates.firm[row]),
            insert_ns=nulled(updates.inserted[row]),
            implied=pa.array((updates.flags[row] & IMPLIED) != 0, mask=~stays),
            time_ns=happened,
            moment=happened,
            stated_before=nulled(np.concatenate([before[single], taken_size[:taken]])),
            recovery=pa.array((updates.flags[row] & RECOVERY) != 0),
        )

    def table(self) -> Any:
        """Return all rows."""
        return pa.concat_tables([_SCHEMA.empty_table(), *self._parts])

    def _add_lost(
        self, security: Int64Array, event_key: Int64Array, version: Any, number: Any
    ) -> None:
        self._add(
            security_id=security,
            action=LOST,
            event_key=event_key,
            sequence_version=version,
            sequence_number=number,
            position=np.zeros(len(security), np.int64),
        )

    def _add(self, *, action: Any, event_key: Int64Array, **columns: Any) -> None:
        count = len(event_key)
        known = {"channel": np.full(count, self._channel), "place": event_key, **columns}
        known["action"] = pa.array([action] * count) if isinstance(action, str) else action
        arrays = []
        for field in _SCHEMA:
            values = known.get(field.name)
            array = pa.nulls(count, field.type) if values is None else pa.array(values)
            arrays.append(array.cast(field.type))
        self._parts.append(pa.Table.from_arrays(arrays, schema=_SCHEMA))
