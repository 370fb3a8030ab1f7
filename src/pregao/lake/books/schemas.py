"""Tables of books: ticks, checkpoints, audits, and the status of each book.

The levels of a tick are separate columns (``bid_price_1`` …), not lists: a query for the best
prices then reads two columns of sixty, and they compress better.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.schemas import DATE_FIELD, GAPS, bounded_spec
from pregao.lake.storage.commit_unit import TableSpec

PRICE = pa.decimal128(18, 4)

LEVEL_PARTS = ("price", "size", "orders")
SIDE_NAMES = ("bid", "ask")
DEFAULT_DEPTH = 10
MAX_LEVELS = 100


def _column(name: str, kind: Any, comment: str) -> Any:
    return pa.field(name, kind, metadata={"comment": comment})


_INSTRUMENT = [
    _column("channel", pa.int16(), "Channel."),
    _column("security_id", pa.int64(), "Instrument."),
    _column("symbol", pa.string(), "Its symbol, if its definition was received."),
]

_MESSAGE = [
    _column("sequence_version", pa.int32(), "Sequence version of that message's packet."),
    _column("sequence_number", pa.int64(), "Number of that packet."),
    _column("index_in_packet", pa.int32(), "Index in the packet; null after a snapshot."),
    _column("event_time_ns", pa.int64(), "Event time (T5; T10 below version 15)."),
    _column("sending_time_ns", pa.int64(), "Sending time of the packet (T11)."),
    _column("capture_time_ns", pa.int64(), "Time of the packet's first capture."),
]

_STATISTICS = [
    _column("last_price", PRICE, "Price of the last trade of the session that sets it."),
    _column("trade_volume", pa.int64(), "Quantity traded in the session, as published."),
]

_STATE = _column(
    "state",
    pa.string(),
    "empty, building, valid; unconfirmed: missing packets may concern it; stale.",
)


def level_columns(depth: int) -> list[str]:
    """Return the columns of the levels, the best first."""
    return [
        f"{side}_{part}_{level}"
        for level in range(1, depth + 1)
        for side in SIDE_NAMES
        for part in LEVEL_PARTS
    ]


def _level_field(name: str) -> Any:
    side, part, level = name.split("_")
    prefix = f"{'Bids' if side == 'bid' else 'Asks'}, level {level} from the best"
    if part == "price":
        return _column(name, PRICE, f"{prefix}: price; null for orders without one.")
    if part == "size":
        return _column(name, pa.int64(), f"{prefix}: quantity.")
    return _column(name, pa.int32(), f"{prefix}: number of orders.")


def ticks_spec(depth: int = DEFAULT_DEPTH) -> TableSpec:
    """Return the table of ticks with `depth` levels."""
    schema = pa.schema(
        [
            *_INSTRUMENT,
            _column("event", pa.int64(), "Event; null where a snapshot was loaded."),
            *_MESSAGE,
            _STATE,
            *_STATISTICS,
            *[_level_field(name) for name in level_columns(depth)],
            DATE_FIELD,
        ]
    )
    return bounded_spec("ticks", schema, "Best levels after each event that changed them.")


ORDER = pa.struct(
    [
        _column("order_id", pa.int64(), "Public number (secondaryOrderID)."),
        _column("price", PRICE, "Price; null for an order without one."),
        _column("size", pa.int64(), "Quantity."),
        _column("firm", pa.int64(), "Firm that entered it."),
        _column("insert_time_ns", pa.int64(), "Time when it got its queue position."),
        _column("implied", pa.bool_(), "Whether it is an implied order."),
    ]
)

LEVEL = pa.struct(
    [
        _column("price", PRICE, "Price; null for orders without one."),
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
            _column("event", pa.int64(), "Event; null where a snapshot was loaded."),
            _column("reason", pa.string(), "interval, phase, updates, or end (of the data)."),
            _STATE,
            _column("rpt_seq", pa.int64(), "Counter of the instrument's last message."),
            *_STATISTICS,
            _column("low_limit_price", PRICE, "Lowest accepted price, if published."),
            _column("high_limit_price", PRICE, "Highest accepted price, if published."),
            _column("bids", pa.list_(pa.field("element", ORDER)), "Bids in queue order."),
            _column("asks", pa.list_(pa.field("element", ORDER)), "Asks in queue order."),
            _column(
                SIDE_LEVELS[0],
                pa.list_(pa.field("element", LEVEL)),
                "Bids by price, the best first, where the feed has no orders; else null.",
            ),
            _column(SIDE_LEVELS[1], pa.list_(pa.field("element", LEVEL)), "Asks, likewise."),
            DATE_FIELD,
        ]
    ),
    "Full book of an instrument after a message.",
)

AUDIT = bounded_spec(
    "book_audit",
    pa.schema(
        [
            *_INSTRUMENT,
            _column(
                "sequence_version",
                pa.int32(),
                "Sequence version of the last packet that it includes.",
            ),
            _column("sequence_number", pa.int64(), "Last packet that it includes."),
            _column("rpt_seq", pa.int64(), "Counter of the last message that it includes."),
            _column("loop_version", pa.int32(), "Sequence version of the snapshot's loop."),
            _column("loop_number", pa.int64(), "Packet of the loop with its header."),
            _column("sending_time_ns", pa.int64(), "Sending time of that packet."),
            _column("capture_time_ns", pa.int64(), "Capture time of that packet."),
            _column("bids", pa.int64(), "Bids in the snapshot: orders, or price levels."),
            _column("asks", pa.int64(), "Asks in the snapshot: orders, or price levels."),
            _column("statistics", pa.int64(), "Statistics in the snapshot."),
            _column(
                "result",
                pa.string(),
                "equal; different; gap: messages were missing; start: the book begins with it; "
                "incomplete: parts of it are missing; void: it states only that there is no data.",
            ),
            _column(
                "differences", pa.int64(), "Number of different orders or levels and statistics."
            ),
            _column("detail", pa.string(), "First differences, or why it was not compared."),
            DATE_FIELD,
        ]
    ),
    "Snapshot from the captures, compared with the rebuilt book.",
)

BOOKS = bounded_spec(
    "books",
    pa.schema(
        [
            *_INSTRUMENT,
            _column(
                "kind",
                pa.string(),
                "How the feed describes the book: by priority, by position, or by price (levels).",
            ),
            _column("origin", pa.string(), "Where it starts from; null if it was never known."),
            _column("origin_version", pa.int32(), "Sequence version of the origin."),
            _column("origin_number", pa.int64(), "Packet of the origin."),
            _column("messages", pa.int64(), "Messages about the instrument."),
            _column("updates", pa.int64(), "Messages that changed the book."),
            _column("ticks", pa.int64(), "Rows in ticks."),
            _column("checkpoints", pa.int64(), "Rows in book_checkpoints."),
            _column("snapshots", pa.int64(), "Rows in book_audit."),
            _column("differences", pa.int64(), "Snapshots with result different."),
            _column("gaps", pa.int64(), "Rows in gaps."),
            _column("state", pa.string(), "State at the end of the day's data."),
            _column("reason", pa.string(), "Why it is stale at the end; null if it is not."),
            _column("unit_id", pa.string(), "Build that wrote it."),
            _column("market_depth", pa.int32(), "For kind price: number of levels in the feed."),
            DATE_FIELD,
        ]
    ),
    "Status of each instrument's book of a day.",
)

GAPS_SPEC = bounded_spec("gaps", GAPS, "Gap in a sequence.")

DERIVED = ("ticks", CHECKPOINTS.name, AUDIT.name, GAPS_SPEC.name, BOOKS.name)
"""Tables that a build of books writes."""


def side_columns(names: Collection[str]) -> tuple[str, str]:
    """Return the columns of bids and asks in a file; lakes of 0.1 called asks offers."""
    return ("bids", "asks" if "asks" in names else "offers")


def specs(depth: int) -> list[TableSpec]:
    """Return all tables of books, the ticks with `depth` levels or more."""
    return [ticks_spec(max(depth, DEFAULT_DEPTH)), CHECKPOINTS, AUDIT, BOOKS, GAPS_SPEC]
