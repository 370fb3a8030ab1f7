"""Table ``orders``: the history of every order of the public book.

The feed does not state which orders traded. An order that shrinks or disappears in an event after
its trades, on the side that did not aggress, was filled: in message order, until the traded
quantity is used up. An order that shrinks or disappears otherwise was reduced or canceled.

When the displayed part of an iceberg order is filled, the next part enters the book in the same
event, under a new number: an order of the same firm, side and price. The public feed allows only a
guess; two orders of a firm at one price look the same.

In schema versions below 15, an order that is replaced keeps its number: each of its stays in the
queue is a row. There a deletion from the top has only the number of orders removed; the book by
position identifies them, unless messages are missing.

Orders that existed before the capture, or entered while packets were missing, are known from the
snapshot that starts or heals their book.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.feed.packet_keys import AFTER_PACKET, in_order, packet_of
from pregao.lake.analytics import _order_kernels as k
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.order_flow import ENTRIES, REQUESTS, TIMES, answers
from pregao.lake.analytics.order_histories import SIDES, Histories, histories, order_tasks
from pregao.lake.analytics.reading import INSTRUMENTS, LakeDay, incremental_templates
from pregao.lake.analytics.tables import PRICE, AnalyticsOptions, AnalyticsTable, column
from pregao.lake.books.columns import integers, named, nulled, prices
from pregao.umdf.keys import key_field
from pregao.umdf.streams import ONLY_SNAPSHOT

COLUMNS = (
    key_field("channel"),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("secondary_order_id", pa.int64(), "Number of the order on the public feed."),
    column("side", pa.string(), "BUY or SELL."),
    column("firm", pa.int64(), "Firm that entered it."),
    column("implied", pa.bool_(), "Whether it is an implied order; null below schema version 10."),
    column("price", PRICE, "Price at entry; null for an order without one."),
    column("size", pa.int64(), "Quantity shown when it was first seen, or before that change."),
    column("origin", pa.string(), "Where it appeared first: message, or snapshot."),
    column("entered_ns", pa.int64(), "Time when it got its queue position; null if unknown."),
    column("entry_seen", pa.bool_(), "Whether its entry was seen, not only later messages."),
    column(
        "queue_position",
        pa.int32(),
        "Its position among the orders of its price after the event in which it entered; null if "
        "it left in that event, or if the book is unknown.",
    ),
    column("changes", pa.int64(), "Messages that changed it."),
    column("reductions", pa.int64(), "Number of reductions, except by trades."),
    column("reduced_quantity", pa.int64(), "Total quantity of these reductions."),
    column("fills", pa.int64(), "Number of trades that reduced or removed it."),
    column("filled_quantity", pa.int64(), "Total quantity traded; null if a size is unknown."),
    column("unobserved_quantity", pa.int64(), "Reduction while messages were missing."),
    column("last_change_ns", pa.int64(), "Time of its last change, except its end."),
    column("last_size", pa.int64(), "Quantity shown before its end, or at the end of the data."),
    column(
        "ended_ns", pa.int64(), "Time when it left the book; null if it stays or is UNOBSERVED."
    ),
    column(
        "end_reason",
        pa.string(),
        "FILLED, CANCELLED, SIDE_CANCELLED, BOOK_EMPTIED; UNOBSERVED where messages were missing; "
        "or null.",
    ),
    column("lifetime_ns", pa.int64(), "From its entry to its end."),
    column("replenishes", pa.int64(), "Filled order that it likely replenishes."),
    column("chain", pa.int64(), "First order of the likely iceberg."),
    column("chain_position", pa.int32(), "Position in that chain, from 1."),
    column("event", pa.int64(), "Event of its first message; null from a snapshot."),
    key_field(
        "sequence_version",
        "Sequence version of that packet; for a snapshot, of the last packet it includes.",
    ),
    key_field("sequence_number", "Number of that packet."),
    key_field("index_in_packet", "Index of the message in that packet; null from a snapshot."),
    column("end_event", pa.int64(), "Event in which it left the book."),
    column(
        "session_id", pa.int64(), "Session that entered it; this and the following from EntryPoint."
    ),
    column("cl_ord_id", pa.int64(), "Client's number of the request that entered it."),
    column("order_id", pa.int64(), "Number of the order on the private flow."),
    column("t1_ns", pa.int64(), "T1: the client sent that request."),
    column("t2_ns", pa.int64(), "T2: the gateway received it."),
    column("t4_ns", pa.int64(), "T4: the matching engine received it."),
    column("t6_ns", pa.int64(), "T6: the gateway answered."),
)

_NUMBERS = {
    "secondary_order_id": k.ID,
    "firm": k.FIRM,
    "size": k.FIRST_SIZE,
    "entered_ns": k.ENTERED,
    "queue_position": k.QUEUE,
    "changes": k.CHANGES,
    "reductions": k.REDUCTIONS,
    "reduced_quantity": k.REDUCED,
    "fills": k.FILLS,
    "filled_quantity": k.FILLED_SIZE,
    "unobserved_quantity": k.UNSEEN,
    "last_change_ns": k.LAST_CHANGE,
    "last_size": k.LEFT,
    "ended_ns": k.ENDED,
    "replenishes": k.REPLENISHES,
    "chain": k.CHAIN,
    "chain_position": k.CHAIN_POSITION,
    "event": k.EVENT,
    "end_event": k.END_EVENT,
}
"""Columns that are numbers of a life."""
_REASONS = [None, "FILLED", "CANCELLED", "SIDE_CANCELLED", "BOOK_EMPTIED", "UNOBSERVED"]
_REQUEST = ("session_id", "cl_ord_id", "order_id", *TIMES)


def orders(day: LakeDay) -> Iterator[Any]:
    """Yield the histories of the day's orders as tables, each in order."""
    symbols = _symbols(day)
    requests = _Requests(day)
    for task in order_tasks(day):
        for found in histories(day, task):
            if len(found.lives):
                yield _table(found, task.inputs.inputs.channel, symbols, requests)


def _table(found: Histories, channel: int, symbols: dict[int, str], requests: _Requests) -> Any:
    """Return lives as rows of the table."""
    lives = found.lives[in_order(found.lives[:, k.RANK], found.lives[:, k.ID])]
    count = len(lives)
    ranks, serials = lives[:, k.RANK], lives[:, k.SERIAL]
    securities = found.securities[ranks]
    version, number = packet_of(serials, found.base)
    from_snapshot = lives[:, k.ORIGIN] == k.SNAPSHOT
    entered, ended = lives[:, k.ENTERED], lives[:, k.ENDED]
    dated = (entered != NULL) & (ended != NULL)
    columns: dict[str, Any] = {name: nulled(lives[:, at]) for name, at in _NUMBERS.items()}
    columns |= {
        "channel": pa.array(np.full(count, channel, np.int16)),
        "security_id": pa.array(securities),
        "symbol": named(ranks, [symbols.get(own) for own in found.securities.tolist()]),
        "side": named(lives[:, k.SIDE], list(SIDES)),
        "implied": pa.array(lives[:, k.IMPLIED_FLAG] == 1, mask=lives[:, k.IMPLIED_FLAG] == NULL),
        "price": prices(lives[:, k.PRICE]),
        "origin": named(from_snapshot.astype(np.int64), ["message", "snapshot"]),
        "entry_seen": pa.array(lives[:, k.ENTRY_SEEN] == 1),
        "end_reason": named(lives[:, k.REASON], _REASONS),
        "lifetime_ns": nulled(np.where(dated, ended - entered, NULL)),
        "sequence_version": pa.array(version),
        "sequence_number": pa.array(number),
        "index_in_packet": nulled(np.where(from_snapshot, NULL, serials & AFTER_PACKET)),
        **requests.of(securities, lives[:, k.ID], entered),
    }
    arrays = [_as(columns[field.name], field.type) for field in COLUMNS]
    return pa.Table.from_arrays(arrays, names=[field.name for field in COLUMNS])


def _as(values: Any, kind: Any) -> Any:
    """Return numbers in the type of a column; names and prices stay as they are stored."""
    same = pa.types.is_dictionary(values.type) or pa.types.is_decimal(values.type)
    return values if same else values.cast(kind)


def _symbols(day: LakeDay) -> dict[int, str]:
    """Return the symbols of the instruments whose definition was received."""
    found = day.instruments()
    if day.part is not None:
        own = F.col("security_id")
        found = found.where((own >= day.part.first) & (own <= day.part.last))
    return {row["security_id"]: row["symbol"] for row in found.collect()}


class _Requests:
    """Requests that entered orders, where EntryPoint was captured."""

    def __init__(self, day: LakeDay) -> None:
        reports = answers(day, ENTRIES)
        self._columns: dict[str, Int64Array] | None = None
        if reports is None:
            return
        names = ("security_id", "secondary_order_id", "t5_ns", "reported_ns", *_REQUEST)
        found = reports.select(*names).table()
        columns = {name: integers(found.column(name)) for name in names}
        restated = columns["t6_ns"] == NULL
        for name in TIMES:  # it answers no request, whatever times it repeats
            columns[name] = np.where(restated, NULL, columns[name])
        order = np.lexsort([columns[name] for name in ("reported_ns", *names[1::-1])])
        self._columns = {name: own[order] for name, own in columns.items()}

    def of(self, securities: Int64Array, orders: Int64Array, entered: Int64Array) -> dict[str, Any]:
        """Return the requests of orders, which are sorted by instrument and number.

        The first report of a number is about its entry; one that was resent is equal. A number
        that stays in the queue several times has the last report up to each entry.
        """
        if self._columns is None:
            return {name: pa.nulls(len(orders), pa.int64()) for name in _REQUEST}
        known = self._columns
        chosen = np.full(len(orders), -1, np.int64)
        k.first_reports(
            securities, orders, entered,
            known["security_id"], known["secondary_order_id"], known["t5_ns"], chosen,
        )  # fmt: skip
        there = chosen >= 0
        return {
            name: nulled(np.where(there, np.append(known[name], NULL)[chosen], NULL))
            for name in _REQUEST
        }


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> Iterator[Any]:
    return orders(day)


ORDERS = AnalyticsTable(
    "orders",
    "History of an order of the public book; channels with price levels have none.",
    COLUMNS,
    _build,
    # Messages of all templates are counted: a missing one makes a snapshot count.
    tuple(sorted({*incremental_templates(), *ONLY_SNAPSHOT})),
    (INSTRUMENTS, *ENTRIES, *REQUESTS),
    sort_by=("channel", "security_id", "secondary_order_id"),
)
