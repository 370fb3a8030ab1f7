"""Messages of a channel that the order flow is measured from, as numeric columns."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.errors import UsageError
from pregao.lake.analytics import _kernels
from pregao.lake.analytics.reading import incremental_templates, message_table
from pregao.lake.books.columns import codes, integers
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.phases import Status, phase_status
from pregao.umdf.streams import Stream
from pregao.umdf.templates import (
    BID,
    CHANNEL_RESET,
    DELETE_ORDER,
    EMPTY_BOOK,
    FORWARD_TRADE,
    MASS_DELETE_ORDERS,
    OFFER,
    ORDER,
    RECOVERY,
    SECURITY_GROUP_PHASE,
    TRADE,
    UpdateAction,
    by_name,
)

_INCREMENTAL = Stream.INCREMENTAL.value
_BID, _OFFER = 0, 1
_NEW, _CHANGE, _TOP = 0, 1, 2
_OTHER = 9
_CODES = {
    "md_entry_type": by_name("MDEntryType", {BID: _BID, OFFER: _OFFER}),
    "md_update_action": by_name(
        "MDUpdateAction",
        {UpdateAction.NEW: _NEW, UpdateAction.CHANGE: _CHANGE, UpdateAction.DELETE_FROM: _TOP},
    ),
}
_KEY = ("sequence_version", "sequence_number", "index_in_packet")
NAMED = ("event", "sending_time_ns", "security_id", "schema_version")

Columns = dict[str, Any]
"""Columns by name, all of one length."""
Span = tuple[int, int]
"""Start and end time, in nanoseconds since 1970."""


class FlowTables:
    """Messages of a channel on a day, as columns."""

    def __init__(self, lake: LakeStore, day: date) -> None:
        self.lake = lake
        self.day = day
        self.channel: int | None = None
        self._names = frozenset(lake.table_names())

    def busiest(self) -> int:
        """Return the channel with the most orders."""
        channels = self.read(ORDER, ("channel",))["channel"]
        if not len(channels):
            raise UsageError(
                f"{self.lake.location} has no orders of the binary feed on {self.day}: there is "
                "no order flow to measure."
            )
        return int(np.bincount(channels).argmax())

    def events(self) -> list[int]:
        """Return the templates of messages about instruments."""
        return [
            template
            for template in incremental_templates()
            if message_table(template) in self._names
            and "security_id" in self.lake.schema(message_table(template)).names
        ]

    def read(
        self, template: int, columns: tuple[str, ...], stream: str | None = _INCREMENTAL
    ) -> Columns:
        """Return columns of a template's messages; empty if there are none."""
        import pyarrow.compute as pc

        name = message_table(template)
        if name not in self._names:
            return {column: np.zeros(0, np.int64) for column in columns}
        wanted = pc.field(DATE) == self.day
        if stream is not None:
            wanted &= pc.field("stream") == stream
        if self.channel is not None:
            wanted &= pc.field("channel") == self.channel
        stored = self.lake.delta(name).to_pyarrow_dataset()
        present = [column for column in columns if column in stored.schema.names]
        rows = stored.to_table(columns=present, filter=wanted)
        return {
            column: _numbers(column, rows[column])
            if column in present
            else np.zeros(len(rows), np.int64)
            for column in columns
        }

    def lot_sizes(self) -> dict[int, int]:
        """Return the minimum lot of each instrument."""
        return {number: int(lot) for number, lot in self._defined("min_lot_size") if lot}

    def security_types(self, securities: Any) -> tuple[str, ...]:
        """Return the security types of these instruments, the most frequent first."""
        wanted = set(securities.tolist())
        found = [kind for number, kind in self._defined("security_type") if number in wanted]
        return tuple(kind for kind, _ in Counter(found).most_common() if kind)

    def _defined(self, column: str) -> list[tuple[int, Any]]:
        """Return a column of each instrument's definition."""
        import pyarrow.compute as pc

        if "instruments" not in self._names:
            return []
        rows = (
            self.lake.delta("instruments")
            .to_pyarrow_dataset()
            .to_table(
                columns=["security_id", column],
                filter=(pc.field(DATE) == self.day) & (pc.field("channel") == self.channel),
            )
        )
        return list(zip(rows["security_id"].to_pylist(), rows[column].to_pylist(), strict=True))


def _numbers(name: str, column: Any) -> Any:
    """Return a column as a numpy array; null becomes -1."""
    if name in _CODES:
        return codes(column, _CODES[name], _OTHER)
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        return np.array(column.cast(pa.string()).to_pylist(), object)
    return integers(column, -1)


def concat(parts: list[Columns]) -> Columns:
    """Concatenate the rows of several templates."""
    if not parts:
        return {name: np.zeros(0, np.int64) for name in NAMED}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _event_key(rows: Columns) -> Any:
    """Return the event keys of messages: one number each, which increases along the channel."""
    version, number, index = (rows[name].astype(np.int64) for name in _KEY)
    return version * EVENT_VERSION + number * EVENT_NUMBER + index


def open_span(tables: FlowTables) -> Span | None:
    """Return the longest span in which all groups that trade are open; None without phases."""
    columns = ("security_group", "trading_session_sub_id", "sending_time_ns", "stream")
    rows = tables.read(SECURITY_GROUP_PHASE, columns, stream=None)
    order = np.argsort(rows["sending_time_ns"], kind="stable")
    changes: list[tuple[int, str, bool]] = []
    known: dict[str, bool] = {}
    for row in order:
        group = rows["security_group"][row]
        is_open = phase_status(rows["trading_session_sub_id"][row]) is Status.OPEN
        if known.get(group) != is_open:
            known[group] = is_open
            # A phase from a snapshot was already in effect before it.
            is_first = group not in [each for _, each, _ in changes]
            early = is_first and rows["stream"][row] != _INCREMENTAL
            changes.append((0 if early else int(rows["sending_time_ns"][row]), group, is_open))
    trading = {group for _, group, is_open in changes if is_open}
    if not trading:
        return None
    changes.sort(key=lambda change: change[0])
    now: set[str] = set()
    spans, since = [], 0
    for when, group, is_open in [*changes, (np.iinfo(np.int64).max, "", False)]:
        if now == trading:
            spans.append((since, int(when)))
        (now.add if is_open else now.discard)(group)
        if not group:
            break
        since = when
    return max(spans, key=lambda span: span[1] - span[0], default=None)


def flow_acts(tables: FlowTables, span: Span | None) -> tuple[Columns, Columns, Columns, Columns]:
    """Return new orders, deletions, changes and trades within the span.

    Books are tracked from the start of the data, not of the span.
    """
    common = (*_KEY, "event", "sending_time_ns", "security_id", "match_event_indicator")
    entry = ("md_entry_type", "secondary_order_id")
    orders = tables.read(
        ORDER,
        (*common, *entry, "md_update_action", "md_entry_px", "md_entry_size", "entering_firm"),
    )
    action = orders["md_update_action"]
    fresh = action == _NEW
    gone = tables.read(DELETE_ORDER, (*common, *entry))
    new = {name: column[fresh] for name, column in orders.items()}
    changed = {name: column[action == _CHANGE] for name, column in orders.items()}
    for rows in (new, gone):
        rows["place"] = _event_key(rows)
        rows["side"] = (rows["md_entry_type"] == _OFFER).astype(np.int64)
    lots = tables.lot_sizes()
    securities, which = np.unique(new["security_id"], return_inverse=True)
    lot = np.array([lots.get(int(number), 1) for number in securities], np.int64)
    new["lots"] = new["md_entry_size"] // lot[which] if len(which) else which
    new["firm"] = new["entering_firm"]
    entries = _entries(new, gone)
    gone["known"] = np.ones(len(entries), np.bool_)
    since = np.where(entries >= 0, new["sending_time_ns"][entries], 0) if len(entries) else entries
    gone["lifetime_ns"] = np.where(entries >= 0, gone["sending_time_ns"] - since, -1)
    new["improving"] = _improving(tables, new, gone, entries)
    trades = concat(
        [tables.read(template, ("event", "sending_time_ns")) for template in (TRADE, FORWARD_TRADE)]
    )
    left = len(new["place"]) - int((entries >= 0).sum())
    ordinary = (new["match_event_indicator"] & RECOVERY) == 0
    new = {name: column[ordinary] for name, column in new.items()}
    found = [_within(rows, span) for rows in (new, gone, changed, trades)]
    found[0]["left"] = left
    return found[0], found[1], found[2], found[3]


def _within(rows: Columns, span: Span | None) -> Columns:
    if span is None:
        return dict(rows)
    inside = (rows["sending_time_ns"] >= span[0]) & (rows["sending_time_ns"] < span[1])
    return {name: column[inside] for name, column in rows.items()}


def _entries(new: Columns, removed: Columns) -> Any:
    """Return the row of the new order that each deletion removes, or -1.

    An order number may be reused: the deletion applies to the last order that had it.
    """
    count = len(new["place"])
    columns = [
        np.concatenate([new[name], removed[name]])
        for name in ("place", "secondary_order_id", "side", "security_id")
    ]
    order = np.lexsort(tuple(columns))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in columns[1:]:
        same &= column[order][1:] == column[order][:-1]
    found = np.full(len(removed["place"]), -1, np.int64)
    before, after = order[:-1], order[1:]
    ends = same & (before < count) & (after >= count)
    found[after[ends] - count] = before[ends]
    return found


def _improving(tables: FlowTables, new: Columns, removed_rows: Columns, entries: Any) -> Any:
    """Return which new orders were better than all that rested on their side."""
    if not len(new["place"]):
        return np.zeros(0, np.bool_)
    key = np.where(new["side"] == 0, new["md_entry_px"], -new["md_entry_px"])
    none = np.zeros(len(removed_rows["place"]), np.int64)
    books = np.unique(new["security_id"])
    parts = [
        (new["security_id"] * 2 + new["side"], new["place"], _kernels.NEW, key, none[:0]),
        (
            removed_rows["security_id"] * 2 + removed_rows["side"],
            removed_rows["place"],
            _kernels.DELETE,
            none,
            entries,
        ),
    ]
    rows = tables.read(
        MASS_DELETE_ORDERS,
        (*_KEY, "security_id", "md_entry_type", "md_update_action", "md_entry_position_no"),
    )
    if len(rows["security_id"]):
        sides = rows["security_id"] * 2 + (rows["md_entry_type"] == _OFFER)
        top = rows["md_update_action"] == _TOP
        event_key = _event_key(rows)
        count = np.maximum(rows["md_entry_position_no"], 0)
        parts.append((sides[top], event_key[top], _kernels.TAKE, count[top], none[:0]))
        parts.append((sides[~top], event_key[~top], _kernels.CLEAR, count[~top], none[:0]))
    for template in (EMPTY_BOOK, CHANNEL_RESET):
        rows = tables.read(template, (*_KEY, "security_id"))
        event_key = _event_key(rows)
        if template == EMPTY_BOOK:
            sides = np.concatenate([rows["security_id"] * 2, rows["security_id"] * 2 + 1])
            event_key = np.concatenate([event_key, event_key])
        else:
            both = np.concatenate([books * 2, books * 2 + 1])
            sides, event_key = np.tile(both, len(event_key)), np.repeat(event_key, len(both))
        parts.append(
            (sides, event_key, _kernels.CLEAR, np.zeros(len(event_key), np.int64), none[:0])
        )
    side, event_key, act, keys, entry = (
        np.concatenate(
            [
                np.full(len(part[0]), part[2], np.int64)
                if column == 2
                else (part[4] if column == 4 and len(part[4]) else np.full(len(part[0]), -1))
                if column == 4
                else part[column]
                for part in parts
            ]
        )
        for column in range(5)
    )
    order = np.lexsort((event_key, side))
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    # New orders are the first part: their rows are those of ``entries``.
    removed = np.where(entry >= 0, row_of[entry], -1)
    result = _kernels.improving(
        np.ascontiguousarray(side[order]),
        np.ascontiguousarray(act[order]),
        np.ascontiguousarray(keys[order].astype(np.int64)),
        np.ascontiguousarray(removed[order]),
    )
    return result[row_of[: len(new["place"])]]
