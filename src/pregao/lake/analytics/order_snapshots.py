"""Orders that snapshots made known: those that books begin with, or are healed with; and what was
done to orders on the legacy feed, which names them by their places alone.

Which snapshots count is decided by the rules of `pregao.feed`, as for books; no books need to be
built. Tasks read ranges of instruments from the tables' files, as the tasks of a build do.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.book.rows import IMPLIED, NULL, RECOVERY, UpdateKind
from pregao.feed.columns import Numbers
from pregao.feed.day import LAST_SERIAL
from pregao.feed.holes import no_holes
from pregao.feed.places import BEHIND_PACKET, packet_of
from pregao.feed.sequence import (
    CountingSnapshots,
    Rows,
    Sequence,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
    rows_of,
)
from pregao.feed.snapshots import Absences, Snapshots
from pregao.lake.analytics import _kernels
from pregao.lake.analytics.engine import DataFrame
from pregao.lake.analytics.reading import Day
from pregao.lake.analytics.tables import PRICE, column, spark_type
from pregao.lake.books.catalogue import Catalogue
from pregao.lake.books.columns import nulled, prices
from pregao.lake.books.legacy_reader import LEGACY
from pregao.lake.books.plan import plan_day, plan_tasks
from pregao.lake.books.tasks import BookTask, BuildSettings
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.gap_columns import Counters
from pregao.umdf.gaps import Step
from pregao.umdf.templates import IMPLIED_SINCE

SNAPSHOT = "SNAPSHOT"
"""An order is in a snapshot that was loaded."""
LOST = "LOST"
"""Messages were lost before: orders that are not named again have ended unseen."""

FOUND = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column(
        "action",
        pa.string(),
        "SNAPSHOT of an order, LOST of the instrument; NEW, CHANGE, DELETE of the legacy feed.",
    ),
    column("place", pa.int64(), "Where it counts: behind the packet that the snapshot holds."),
    column("sequence_version", pa.int32(), "Sequence version of that packet."),
    column("sequence_number", pa.int64(), "Number of that packet."),
    column("secondary_order_id", pa.int64(), "Order."),
    column("side", pa.string(), "Its side."),
    column("position", pa.int64(), "Its place in the queue of its side, from 1; 0 if LOST."),
    column("price", PRICE, "Its price."),
    column("size", pa.int64(), "Its quantity."),
    column("firm", pa.int64(), "Its firm."),
    column("insert_ns", pa.int64(), "When it got its place in the queue."),
    column("implied", pa.bool_(), "An implied order; null below schema version 10."),
    column("event", pa.int64(), "This and below of the legacy feed: the event."),
    column("index_in_packet", pa.int32(), "Which entry of its message it is."),
    column("time_ns", pa.int64(), "When it happened."),
    column("moment", pa.int64(), "The same: messages of one moment are of one event."),
    column("told_before", pa.int64(), "Quantity before."),
    column("recovery", pa.bool_(), "Was it sent again, to restore a book?"),
)
_SCHEMA = pa.schema([pa.field(field.name, field.type) for field in FOUND])
_NAMED = ", ".join(f"{field.name} {spark_type(field.type)}" for field in FOUND)
_SIDES = pa.array(["BUY", "SELL"])
_ACTIONS = pa.array(["NEW", "CHANGE", "DELETE"])
_BEHIND_PACKET = EVENT_NUMBER - 1
_NOTHING_TO_WRITE = BuildSettings("", depth=1, interval_ns=0)


def snapshot_orders(day: Day, *, legacy: bool = True) -> DataFrame:
    """What snapshots that count tell of the day's orders, and where messages were lost.

    With what was done to orders on the legacy feed, unless only the binary feed is wanted.
    """
    tasks = _tasks(day, legacy)
    if not tasks:
        nothing: DataFrame = day.spark.createDataFrame([], _NAMED)
        return nothing

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for blob in batch.column(0).to_pylist():
                task = pickle.loads(blob)  # noqa: S301 - sent by our own driver
                yield from found_by(task).to_batches()

    blobs = [(pickle.dumps(task),) for task in tasks]
    sent: DataFrame = day.spark.createDataFrame(blobs, "task binary")
    return sent.repartition(len(tasks)).mapInArrow(work, _NAMED)


def _tasks(day: Day, legacy: bool) -> list[BookTask]:
    """Ranges of instruments of the legacy feed, and of channels of which anything is missing."""
    catalogue = Catalogue(day.tables.lake)
    parallelism = os.cpu_count() or 1  # as for books; Spark Connect does not tell its own
    tasks = []
    for channel in catalogue.channels(day.date):
        inputs = plan_day(catalogue, day.date, channel)
        older = inputs.inputs.protocol == LEGACY
        if (older and not legacy) or not (older or len(inputs.day.holes)):
            continue  # every message is there: no snapshot can tell more
        tasks += plan_tasks(inputs, _NOTHING_TO_WRITE, parallelism)
    return [task for task in tasks if not task.inputs.day.of_levels]


def found_by(task: BookTask) -> Any:
    """The rows of a task's instruments; those with very many messages are taken in windows."""
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
    counters: Counters | None = None
    counting = CountingSnapshots(snapshots)
    windows = task.windows or ((0, LAST_SERIAL),)
    for number, window in enumerate(windows):
        serials = (day.base, *window) if alone else None
        messages, resets = source.messages(others, serials), source.resets(serials)
        usable = counting.within(messages, last=number == len(windows) - 1)
        absent = Absences.none()
        if counters is None:
            absent = day.absences(snapshots, np.concatenate([messages.keys.security, also]))
        sequence = in_sequence(messages, resets, snapshots, usable, absent, also, no_holes())
        if counters is None:
            counters = day.counters(len(sequence.securities))
        followed = follow_sequence(sequence, counters, day.holes)
        step = followed.step
        restarts = np.flatnonzero((step == Step.RESTART) | (step == Step.EMPTIES))
        rows.add_restarts(sequence, restarts)
        if snapshots is not None:
            rows.add_snapshots(snapshots, sequence.snapshot[loaded_snapshots(followed)])
        if legacy:
            rows.add_acts(sequence, rows_of(sequence, followed, snapshots))
    return rows.table()


class _FoundRows:
    """Gathers the rows of a task."""

    def __init__(self, channel: int, base: int, implied_known: bool) -> None:
        self._channel = channel
        self._base = base
        self._implied_known = implied_known
        self._parts: list[Any] = []

    def add_restarts(self, sequence: Sequence, items: Numbers) -> None:
        """The counter began anew, or a loop is without the book: what was in it is gone."""
        version, number = packet_of(sequence.place[items], self._base)
        index = sequence.place[items] & BEHIND_PACKET
        place = version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER + index - 1
        security = sequence.securities[sequence.rank[items]]
        self._add_lost(security, place, version, number)

    def add_snapshots(self, snapshots: Snapshots, chosen: Numbers) -> None:
        """The orders of snapshots that were loaded."""
        version, number = snapshots.version[chosen], snapshots.number[chosen]
        place = version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER + _BEHIND_PACKET
        self._add_lost(snapshots.security[chosen], place - 1, version, number)
        for at, behind in zip(chosen.tolist(), place.tolist(), strict=True):
            book = snapshots.book(at)
            count = len(book.order_id)
            bids = int((book.side == 0).sum())
            position = np.arange(1, count + 1)
            position[bids:] -= bids
            implied = pa.array((book.implied & IMPLIED) != 0)
            self._add(
                security_id=np.full(count, snapshots.security[at]),
                action=SNAPSHOT,
                place=np.full(count, behind),
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

    def add_acts(self, sequence: Sequence, rows: Rows) -> None:
        """What messages did to single orders, which are found by their places."""
        updates = rows.updates
        adds = (updates.kind == UpdateKind.ADD) | (updates.kind == UpdateKind.SNAPSHOT_ORDER)
        room = int(adds.sum())
        found_id, before = (np.empty(len(updates), np.int64) for _ in range(2))
        taken_row, taken_id, taken_size = (np.empty(room, np.int64) for _ in range(3))
        taken = _kernels.orders_at_places(
            updates.instrument, updates.kind, updates.side, updates.order_id, updates.size,
            updates.position, found_id, before, taken_row, taken_id, taken_size,
        )  # fmt: skip
        single = np.flatnonzero((updates.kind <= UpdateKind.DELETE) & (found_id != NULL))
        row = np.concatenate([single, taken_row[:taken]])
        item = rows.item[row]
        version, number = packet_of(sequence.place[item], self._base)
        index = sequence.place[item] & BEHIND_PACKET
        gone = np.maximum(updates.kind[row].astype(np.int64), 0)
        gone[len(single) :] = UpdateKind.DELETE
        happened = nulled(sequence.time[sequence.book_row[item]])
        stays = gone != UpdateKind.DELETE
        self._add(
            security_id=updates.instrument[row],
            action=_ACTIONS.take(pa.array(gone)),
            place=version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER + index,
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
            told_before=nulled(np.concatenate([before[single], taken_size[:taken]])),
            recovery=pa.array((updates.flags[row] & RECOVERY) != 0),
        )

    def table(self) -> Any:
        """All rows."""
        return pa.concat_tables([_SCHEMA.empty_table(), *self._parts])

    def _add_lost(self, security: Numbers, place: Numbers, version: Any, number: Any) -> None:
        self._add(
            security_id=security,
            action=LOST,
            place=place,
            sequence_version=version,
            sequence_number=number,
            position=np.zeros(len(security), np.int64),
        )

    def _add(self, *, action: Any, place: Numbers, **columns: Any) -> None:
        count = len(place)
        known = {"channel": np.full(count, self._channel), "place": place, **columns}
        known["action"] = pa.array([action] * count) if isinstance(action, str) else action
        arrays = []
        for field in _SCHEMA:
            values = known.get(field.name)
            whole = pa.nulls(count, field.type) if values is None else pa.array(values)
            arrays.append(whole.cast(field.type))
        self._parts.append(pa.Table.from_arrays(arrays, schema=_SCHEMA))
