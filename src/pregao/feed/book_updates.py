"""Converts messages to book updates, with one set of rules for single messages and for columns.

`book_update` converts a decoded message, `update_columns` the columns of many; likewise for the
orders of snapshots. An unsupported message interrupts the book: it must not be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.update_rows import IMPLIED, NULL, RECOVERY, UpdateKind
from pregao.book.updates import (
    BookEmptied,
    MessageKey,
    MessagesMissing,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    SideCleared,
    SnapshotEnded,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
    Update,
)
from pregao.feed.columns import MessageColumns
from pregao.feed.messages import BookColumns
from pregao.umdf import templates
from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.templates import UpdateAction, by_name
from pregao.units import PRICE_DECIMALS, Side

ACTION_VALUES: Final[Mapping[int, UpdateKind]] = {
    UpdateAction.NEW: UpdateKind.ADD,
    UpdateAction.CHANGE: UpdateKind.CHANGE,
    UpdateAction.DELETE: UpdateKind.DELETE,
    UpdateAction.DELETE_THRU: UpdateKind.CLEAR_SIDE,
    UpdateAction.DELETE_FROM: UpdateKind.REMOVE_TOP,
}
"""Update kind by ``mDUpdateAction``: DELETE_THRU clears a side, DELETE_FROM removes its top."""
ACTIONS: Final[Mapping[str, UpdateKind]] = by_name("MDUpdateAction", ACTION_VALUES)
"""The same by the names of the values."""
LEVEL_ACTIONS: Final[Mapping[str, UpdateKind]] = by_name(
    "MDUpdateAction", {**ACTION_VALUES, UpdateAction.OVERLAY: UpdateKind.OVERLAY}
)
"""Update kind by action in books by price depth, which only the legacy feed has."""
SIDE_VALUES: Final[Mapping[int, Side]] = {templates.BID: Side.BID, templates.OFFER: Side.ASK}
"""Sides by ``mDEntryType``."""
SIDES: Final[Mapping[str, Side]] = by_name("MDEntryType", SIDE_VALUES)
"""The same by the names of the values."""
BOOK_TEMPLATES: Final = (
    templates.ORDER,
    templates.DELETE_ORDER,
    templates.MASS_DELETE_ORDERS,
    templates.EMPTY_BOOK,
)
"""Messages about one instrument that change its book."""

UNKNOWN: Final = 255
"""Code of an unknown side or action."""
_DELETE: UpdateKind | None = UpdateKind.DELETE
_PLACED: Final = (UpdateKind.ADD, UpdateKind.CHANGE, UpdateKind.DELETE, UpdateKind.REMOVE_TOP)
"""Kinds of level updates that are invalid without a position."""

ORDER_COLUMNS: Final[Mapping[int, Mapping[str, str]]] = {
    templates.ORDER: {
        "order_id": "secondary_order_id",
        "price": "md_entry_px",
        "size": "md_entry_size",
        "previous": "md_entry_prev_size",
        "position": "md_entry_position_no",
        "firm": "entering_firm",
        "inserted": "md_insert_timestamp_ns",
    },
    templates.DELETE_ORDER: {
        "order_id": "secondary_order_id",
        "price": "md_entry_px",
        "previous": "md_entry_size",
        "position": "md_entry_position_no",
    },
    templates.MASS_DELETE_ORDERS: {"position": "md_entry_position_no"},
}
"""Message column of each column of a book update, by template."""
NUMBER_OF_ORDERS: Final = "number_of_orders"
"""Column with the number of orders of a level."""
LEVEL_COLUMNS: Final[Mapping[int, Mapping[str, str]]] = {
    templates.ORDER: {
        "order_id": NUMBER_OF_ORDERS,
        "price": "md_entry_px",
        "size": "md_entry_size",
        "position": "md_entry_position_no",
    },
    templates.DELETE_ORDER: {"position": "md_entry_position_no"},
    templates.MASS_DELETE_ORDERS: ORDER_COLUMNS[templates.MASS_DELETE_ORDERS],
}
"""Message column of each column of a book update, by template, where rows are price levels."""
INDICATOR, ACTION, SIDE = "match_event_indicator", "md_update_action", "md_entry_type"
"""Columns of flags, update action and side."""

ORDER_FIELDS: Final[Mapping[int, tuple[str, ...]]] = {
    templates.ORDER: (INDICATOR, ACTION, SIDE, *ORDER_COLUMNS[templates.ORDER].values()),
    templates.DELETE_ORDER: (SIDE, *ORDER_COLUMNS[templates.DELETE_ORDER].values()),
    templates.MASS_DELETE_ORDERS: (
        ACTION,
        SIDE,
        *ORDER_COLUMNS[templates.MASS_DELETE_ORDERS].values(),
    ),
    templates.EMPTY_BOOK: (),
}
"""Columns that are needed for book updates, by template."""
LEVEL_FIELDS: Final[Mapping[int, tuple[str, ...]]] = {
    templates.ORDER: (INDICATOR, ACTION, SIDE, *LEVEL_COLUMNS[templates.ORDER].values()),
    templates.DELETE_ORDER: (SIDE, *LEVEL_COLUMNS[templates.DELETE_ORDER].values()),
    templates.MASS_DELETE_ORDERS: ORDER_FIELDS[templates.MASS_DELETE_ORDERS],
    templates.EMPTY_BOOK: (),
}
"""Columns that are needed for book updates, by template, where rows are price levels."""


def mantissa(price: Any) -> int | None:
    """Convert a price to a mantissa."""
    return None if price is None else int(price.scaleb(PRICE_DECIMALS))


def book_update(
    key: MessageKey, template_id: int, schema_version: int, values: Mapping[str, Any]
) -> Update | None:
    """Return the book update of a message; None if it changes no book of one instrument."""
    if template_id == templates.EMPTY_BOOK:
        return BookEmptied(key)
    if template_id not in BOOK_TEMPLATES:
        return None
    side = SIDES.get(values["mDEntryType"])
    kind = _DELETE
    if template_id != templates.DELETE_ORDER:
        kind = ACTIONS.get(values["mDUpdateAction"])
    if side is None or kind is None:
        return MessagesMissing(key, "an order message has an unknown side or update action")
    rpt_seq = values["rptSeq"]
    position = values.get("mDEntryPositionNo")
    if kind is UpdateKind.REMOVE_TOP:
        return TopRemoved(key, side, position or 0, rpt_seq)
    if kind is UpdateKind.CLEAR_SIDE:
        return SideCleared(key, side, rpt_seq)
    if template_id == templates.MASS_DELETE_ORDERS:
        return MessagesMissing(key, "a mass deletion has the update action of a single order")
    order_id, price = values["secondaryOrderID"], mantissa(values.get("mDEntryPx"))
    size = values["mDEntrySize"]
    if kind is _DELETE:
        previous_size = values.get("mDEntryPrevSize") if template_id == templates.ORDER else size
        return OrderDeleted(key, side, order_id, price, previous_size, position, rpt_seq)
    flags = values["matchEventIndicator"]
    firm, inserted = values["enteringFirm"], values["mDInsertTimestamp"]
    implied = flags & templates.implied_mask(schema_version) != 0
    recovery = flags & templates.RECOVERY != 0
    if kind is UpdateKind.ADD:
        return OrderAdded(
            key, side, order_id, price, size, position, firm, inserted, implied, recovery, rpt_seq
        )
    previous = values.get("mDEntryPrevSize")
    return OrderChanged(
        key, side, order_id, price, size, previous, position, firm, inserted, implied, recovery,
        rpt_seq,
    )  # fmt: skip


def update_columns(
    template_id: int, rows: MessageColumns, implied: Int64Array, *, levels: bool = False
) -> BookColumns:
    """Convert messages of one template to book updates.

    ``implied`` are the masks of implied orders, which `templates.implied_masks` derives from the
    messages' schema versions. With ``levels`` the messages are price levels instead of orders.
    """
    count = len(rows)
    if template_id == templates.EMPTY_BOOK:
        return BookColumns.empty(count, UpdateKind.EMPTY)
    side = rows.codes(SIDE, SIDES, UNKNOWN)
    kind = np.full(count, UpdateKind.DELETE, np.uint8)
    if template_id != templates.DELETE_ORDER:
        kind = rows.codes(ACTION, LEVEL_ACTIONS if levels else ACTIONS, UNKNOWN)
    if template_id == templates.MASS_DELETE_ORDERS:
        kind[kind <= UpdateKind.DELETE] = UNKNOWN
    kind[(side == UNKNOWN) | (kind == UNKNOWN)] = UpdateKind.INTERRUPT
    side[side == UNKNOWN] = 0
    flags = np.zeros(count, np.uint8)
    if template_id == templates.ORDER:
        bits = rows.numbers(INDICATOR, 0)
        flags = _flag(bits & templates.RECOVERY, RECOVERY) | _flag(bits & implied, IMPLIED)
    sources = (LEVEL_COLUMNS if levels else ORDER_COLUMNS)[template_id]
    none = np.broadcast_to(np.int64(NULL), count)
    columns = {
        name: rows.numbers(sources[name]) if name in sources else none
        for name in ("order_id", "price", "size", "previous", "position", "firm", "inserted")
    }
    if levels:
        needs_position = np.isin(kind, _PLACED)
        kind[needs_position & (columns["position"] == NULL)] = UpdateKind.INTERRUPT
    return BookColumns(kind, side, flags, **columns)


def snapshot_updates(
    key: MessageKey,
    header: SnapshotHeader,
    entries: Sequence[tuple[int, Mapping[str, Any]]],
) -> Iterator[Update]:
    """Yield a snapshot as updates of a book: begin, orders in queue order, end.

    Each entry is paired with the schema version of its message.
    """
    yield SnapshotStarted(key, header.tot_num_bids, header.tot_num_offers, header.last_rpt_seq)
    for version, entry in entries:
        side = SIDES.get(entry["mDEntryType"])
        if side is not None:  # else the counts of the header show that an order is missing
            flags = entry.get("matchEventIndicator") or 0
            yield SnapshotOrder(
                key,
                side,
                entry["secondaryOrderID"],
                mantissa(entry["mDEntryPx"]),
                entry["mDEntrySize"],
                entry.get("mDEntryPositionNo"),
                entry["enteringFirm"],
                entry["mDInsertTimestamp"],
                bool(flags & templates.implied_mask(version)),
            )
    yield SnapshotEnded(key)


def snapshot_columns(
    entries: MessageColumns, implied: Int64Array, *, levels: bool = False
) -> BookColumns:
    """Return the orders of snapshots, or their price levels; an unknown side is 255."""
    count = len(entries)
    if levels:
        none = np.broadcast_to(np.int64(NULL), count)
        return BookColumns(
            np.broadcast_to(np.uint8(UpdateKind.SNAPSHOT_ORDER), count),
            entries.codes("md_entry_type", SIDES, UNKNOWN),
            np.zeros(count, np.uint8),
            entries.numbers(NUMBER_OF_ORDERS),
            entries.numbers("md_entry_px"),
            entries.numbers("md_entry_size"),
            none,
            entries.numbers("md_entry_position_no"),
            none,
            none,
        )
    bits = entries.numbers("match_event_indicator", 0)
    return BookColumns(
        np.broadcast_to(np.uint8(UpdateKind.SNAPSHOT_ORDER), count),
        entries.codes("md_entry_type", SIDES, UNKNOWN),
        _flag(bits & implied, IMPLIED),
        entries.numbers("secondary_order_id"),
        entries.numbers("md_entry_px"),
        entries.numbers("md_entry_size"),
        np.broadcast_to(np.int64(NULL), count),
        entries.numbers("md_entry_position_no"),
        entries.numbers("entering_firm"),
        entries.numbers("md_insert_timestamp_ns"),
    )


def _flag(bits: Int64Array, flag: int) -> Uint8Array:
    flags: Uint8Array = (bits != 0).astype(np.uint8) * np.uint8(flag)
    return flags
