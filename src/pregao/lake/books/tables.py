"""The tables that books give: ticks, checkpoints, audits, and what is known of each book.

The levels of a tick are columns of their own (``bid_price_1`` …), not lists: a query for the best
prices then reads two columns of sixty, and they compress better.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from pregao.lake.ingest import DATE_FIELD, GAPS, bounded_spec
from pregao.lake.store import TableSpec

PRICE = pa.decimal128(18, 4)

LEVEL_PARTS = ("price", "size", "orders")
SIDE_NAMES = ("bid", "ask")
DEFAULT_DEPTH = 10
MOST_LEVELS = 100


def _column(name: str, kind: Any, comment: str) -> Any:
    return pa.field(name, kind, metadata={"comment": comment})


_INSTRUMENT = [
    _column("channel", pa.int16(), "Channel."),
    _column("security_id", pa.int64(), "Instrument."),
    _column("symbol", pa.string(), "Its symbol, where a definition tells it."),
]

_MESSAGE = [
    _column("sequence_version", pa.int32(), "Sequence version of that message's packet."),
    _column("sequence_number", pa.int64(), "Number of that packet."),
    _column("index_in_packet", pa.int32(), "Place in the packet; null behind a snapshot."),
    _column("event_time_ns", pa.int64(), "When it happened (T5; T10 below version 15)."),
    _column("sending_time_ns", pa.int64(), "Sending time of the packet (T11)."),
    _column("capture_time_ns", pa.int64(), "When the packet was captured first."),
]

_STATISTICS = [
    _column("last_price", PRICE, "Price of the last trade of the session that sets it."),
    _column("trade_volume", pa.int64(), "Quantity traded in the session, as published."),
]

_STATE = _column(
    "state",
    pa.string(),
    "empty, building, valid; unconfirmed: packets are missing that may be about it; stale.",
)


def level_columns(depth: int) -> list[str]:
    """The columns of the levels, the best first."""
    return [
        f"{side}_{part}_{level}"
        for level in range(1, depth + 1)
        for side in SIDE_NAMES
        for part in LEVEL_PARTS
    ]


def _level_field(name: str) -> Any:
    side, part, level = name.split("_")
    place = f"{'Bids' if side == 'bid' else 'Asks'}, level {level} from the best"
    if part == "price":
        return _column(name, PRICE, f"{place}: price; null for orders without one.")
    if part == "size":
        return _column(name, pa.int64(), f"{place}: quantity.")
    return _column(name, pa.int32(), f"{place}: number of orders.")


def ticks_spec(depth: int = DEFAULT_DEPTH) -> TableSpec:
    """The table of ticks with so many levels."""
    schema = pa.schema(
        [
            *_INSTRUMENT,
            _column("event", pa.int64(), "The event; null where a snapshot was loaded."),
            *_MESSAGE,
            _STATE,
            *_STATISTICS,
            *[_level_field(name) for name in level_columns(depth)],
            DATE_FIELD,
        ]
    )
    return bounded_spec("ticks", schema, "The best levels after each event that changed them.")


ORDER = pa.struct(
    [
        _column("order_id", pa.int64(), "Public number (secondaryOrderID)."),
        _column("price", PRICE, "Price; null of an order without one."),
        _column("size", pa.int64(), "Quantity."),
        _column("firm", pa.int64(), "Firm that entered it."),
        _column("insert_time_ns", pa.int64(), "When it got its place in the queue."),
        _column("implied", pa.bool_(), "Is it an implied order?"),
    ]
)

LEVEL = pa.struct(
    [
        _column("price", PRICE, "Price; null of orders without one."),
        _column("size", pa.int64(), "Quantity."),
        _column("orders", pa.int64(), "Number of orders."),
    ]
)
SIDE_ORDERS = ("bids", "asks")
SIDE_LEVELS = ("bid_levels", "ask_levels")

CHECKPOINTS = bounded_spec(
    "book_checkpoints",
    pa.schema(
        [
            *_INSTRUMENT,
            *_MESSAGE,
            _column("event", pa.int64(), "The event; null where a snapshot was loaded."),
            _column("reason", pa.string(), "interval, phase, updates, or end (of the data)."),
            _STATE,
            _column("rpt_seq", pa.int64(), "Counter of the instrument's last message."),
            *_STATISTICS,
            _column("low_limit_price", PRICE, "Lowest price that is let in, if it is told."),
            _column("high_limit_price", PRICE, "Highest price that is let in, if it is told."),
            _column("bids", pa.list_(pa.field("element", ORDER)), "Bids in queue order."),
            _column("asks", pa.list_(pa.field("element", ORDER)), "Asks in queue order."),
            _column(
                SIDE_LEVELS[0],
                pa.list_(pa.field("element", LEVEL)),
                "Bids by price, the best first, where the feed tells no orders; else null.",
            ),
            _column(SIDE_LEVELS[1], pa.list_(pa.field("element", LEVEL)), "Asks, likewise."),
            DATE_FIELD,
        ]
    ),
    "The full book of an instrument after a message.",
)

AUDIT = bounded_spec(
    "book_audit",
    pa.schema(
        [
            *_INSTRUMENT,
            _column("sequence_version", pa.int32(), "Sequence version that it holds as of."),
            _column("sequence_number", pa.int64(), "Packet that it holds as of."),
            _column("rpt_seq", pa.int64(), "Counter of the last message in it."),
            _column("loop_version", pa.int32(), "Sequence version of the snapshot's loop."),
            _column("loop_number", pa.int64(), "Packet of the loop with its header."),
            _column("sending_time_ns", pa.int64(), "Sending time of that packet."),
            _column("capture_time_ns", pa.int64(), "When that packet was captured."),
            _column("bids", pa.int64(), "Bids in the snapshot: orders, or price levels."),
            _column("asks", pa.int64(), "Asks in the snapshot: orders, or price levels."),
            _column("statistics", pa.int64(), "Statistics in the snapshot."),
            _column(
                "result",
                pa.string(),
                "equal; different; gap: messages were missing; start: the book begins with it; "
                "incomplete: parts of it are missing; void: it only says that there is nothing.",
            ),
            _column("differences", pa.int64(), "How many orders or levels and statistics differ."),
            _column("detail", pa.string(), "The first differences, or why it was not compared."),
            DATE_FIELD,
        ]
    ),
    "A snapshot found in the captures, compared with the rebuilt book.",
)

BOOKS = bounded_spec(
    "books",
    pa.schema(
        [
            *_INSTRUMENT,
            _column(
                "kind", pa.string(), "How the feed describes it: priority, position, or price."
            ),
            _column("origin", pa.string(), "What it begins with; null if it was never known."),
            _column("origin_version", pa.int32(), "Sequence version of that."),
            _column("origin_number", pa.int64(), "Packet of that."),
            _column("messages", pa.int64(), "Messages about the instrument."),
            _column("updates", pa.int64(), "Messages that changed the book."),
            _column("ticks", pa.int64(), "Rows in ticks."),
            _column("checkpoints", pa.int64(), "Rows in book_checkpoints."),
            _column("snapshots", pa.int64(), "Rows in book_audit."),
            _column("differences", pa.int64(), "Snapshots that were different."),
            _column("gaps", pa.int64(), "Rows in gaps."),
            _column("state", pa.string(), "State at the end of the day's data."),
            _column("reason", pa.string(), "Why it is stale at the end; null if it is not."),
            _column("unit_id", pa.string(), "The build that made it."),
            _column("market_depth", pa.int32(), "Of kind price: how many levels the feed shows."),
            DATE_FIELD,
        ]
    ),
    "What is known of each instrument's book of a day.",
)

GAPS_SPEC = bounded_spec("gaps", GAPS, "A hole in a sequence.")

DERIVED = ("ticks", CHECKPOINTS.name, AUDIT.name, GAPS_SPEC.name, BOOKS.name)
"""The tables to which a build of books writes."""


def side_columns(names: Collection[str]) -> tuple[str, str]:
    """The columns of bids and asks among those of a file; lakes of 0.1 called asks offers."""
    return ("bids", "asks" if "asks" in names else "offers")


def specs(depth: int) -> list[TableSpec]:
    """All tables that books need, the ticks with so many levels or more."""
    return [ticks_spec(max(depth, DEFAULT_DEPTH)), CHECKPOINTS, AUDIT, BOOKS, GAPS_SPEC]
