"""Messages of the events of a channel, with their times, as flat columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array
from pregao.book.update_rows import NULL
from pregao.lake.analytics.legacy import (
    LEGACY_ENTRIES,
    LEGACY_LIST,
    LEGACY_STATUSES,
    TIME_COLUMNS,
    legacy_times,
)
from pregao.lake.analytics.reading import (
    DayTables,
    LakeDay,
    incremental_templates,
    message_table,
)
from pregao.lake.analytics.row_groups import (
    GroupBounds,
    Labels,
    ValueRange,
    group_bounds,
    numbers_of,
    read_rows,
)
from pregao.lake.analytics.trades import CONDITIONS
from pregao.lake.books.columns import codes, integers
from pregao.lake.books.legacy_messages import NUMBERS_AS_TEXTS
from pregao.lake.books.reader import FileRows
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.templates import (
    DELETE_ORDER,
    FORWARD_TRADE,
    ORDER,
    RECOVERY,
    TRADE,
    UpdateAction,
    value_names,
)

EVENT = "event"
"""Column that the binary feed's messages are cut by."""
MESSAGE = "msg_seq_num"
"""Column that the legacy feed's messages are cut by: each is an event."""
LEGACY_MESSAGES: Final = (LEGACY_ENTRIES, LEGACY_STATUSES, LEGACY_LIST)
KINDS: Final = ("t5_ns", "t10_ns", "aggressor_time_ns")
"""Times of an event of which the least counts."""
TEXTS: Final = ("feed", "capture_id")
COLUMNS: Final = (
    EVENT, "place", "security_id", "sending_time_ns", "capture_time_ns", "feed_difference_ns",
    *TEXTS, *KINDS,
)  # fmt: skip
"""Columns of messages; ``place`` is the event key."""

_KEY = (EVENT, "sequence_version", "sequence_number", "index_in_packet")
_TIMES = ("sending_time_ns", "capture_time_ns", "feed_difference_ns")
_OWN = ("security_id", "transact_time_ns", "md_entry_timestamp_ns", "aggressor_time_ns")
_ORDER = ("match_event_indicator", "md_update_action", "md_insert_timestamp_ns")
_TRADES = (TRADE, FORWARD_TRADE)
_NEW = dict.fromkeys(value_names("MDUpdateAction", UpdateAction.NEW), 1)
_BY_HAND = CONDITIONS["on_behalf"] | CONDITIONS["out_of_sequence"]
_NUMBERED = {ORDER: "secondary_order_id", DELETE_ORDER: "secondary_order_id", TRADE: "trade_id"}
"""Columns by which messages are joined with reports of EntryPoint."""

Part = dict[str, Int64Array]


@dataclass(slots=True)
class EventMessages:
    """Messages of the events of a range, in no order."""

    labels: dict[str, Labels] = field(default_factory=lambda: {name: Labels() for name in TEXTS})
    """Labels of the columns of texts."""
    orders: list[Part] = field(default_factory=list)
    """Orders by public number and T5, for the join with EntryPoint."""
    trades: list[Part] = field(default_factory=list)
    """Trades by number and T5, for the same."""
    _parts: list[Part] = field(default_factory=list)

    def add(self, part: Part) -> None:
        """Add messages."""
        self._parts.append(part)

    def column(self, name: str) -> Int64Array:
        """Return a column, once."""
        parts = [part.pop(name) for part in self._parts]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def read_messages(day: LakeDay, within: ValueRange, *, with_numbers: bool) -> EventMessages:
    """Return the messages of the events of a range, or of the messages of the legacy feed.

    ``with_numbers`` includes the numbers of orders and trades.
    """
    found = EventMessages()
    for template in incremental_templates():
        if day.has(message_table(template)):
            for part in _binary_parts(day, template, within, found.labels):
                numbers = part.pop("number")
                if with_numbers and template in _NUMBERED:
                    kept = found.trades if template == TRADE else found.orders
                    kept.append(_numbered(part, numbers, _NUMBERED[template]))
                found.add(part)
    for name in LEGACY_MESSAGES:
        if day.has(name):
            for part in _legacy_parts(day, name, within, found.labels):
                found.add(part)
    return found


def message_bounds(tables: DayTables, channel: int) -> Iterator[GroupBounds]:
    """Yield the bounds of event numbers, or of message numbers on the legacy feed."""
    names = {message_table(template): EVENT for template in incremental_templates()}
    own = {
        name: by
        for name, by in {**names, **dict.fromkeys(LEGACY_MESSAGES, MESSAGE)}.items()
        if name in tables.tables
    }
    excluded = tables.excluded is not None and channel in tables.excluded.channels
    for name, by in own.items():
        if by == EVENT or not excluded:
            files = tables.tables[name].within("channel", channel, channel)
            yield from group_bounds(files, channel, by)


def _numbered(part: Part, numbers: Int64Array, name: str) -> Part:
    known = np.flatnonzero((numbers != NULL) & (part["t5_ns"] != NULL))
    names = (EVENT, "place", "security_id", "t5_ns")
    return {name: numbers[known], **{each: part[each][known] for each in names}}


# --- Binary feed ---


def _binary_parts(
    day: LakeDay, template: int, within: ValueRange, labels: dict[str, Labels]
) -> Iterator[Part]:
    names = [*_KEY, *_TIMES, *TEXTS, *_OWN]
    texts = set(TEXTS)
    if template == ORDER:
        names += _ORDER
        texts.add("md_update_action")
    if template in _TRADES:
        names.append("trade_condition")
    if template in _NUMBERED:
        names.append(_NUMBERED[template])
    files = day.files(message_table(template))
    for read, there in read_rows(files, day.channel, EVENT, within, names, texts):
        # Messages of other streams belong to no event.
        outside = read.numbers(EVENT) == NULL
        rows = read.take(np.flatnonzero(~outside)) if outside.any() else read
        version, number, index = (numbers_of(rows, there, name) for name in _KEY[1:])
        labelled = rows.table(TEXTS, TEXTS)
        yield {
            EVENT: rows.numbers(EVENT),
            "place": version * EVENT_VERSION + number * EVENT_NUMBER + index,
            "security_id": numbers_of(rows, there, "security_id"),
            **{name: numbers_of(rows, there, name) for name in _TIMES},
            **{name: labels[name].of(labelled.column(name)) for name in TEXTS},
            "t5_ns": _happened(rows, there, template),
            "t10_ns": numbers_of(rows, there, "md_entry_timestamp_ns"),
            "aggressor_time_ns": numbers_of(rows, there, "aggressor_time_ns"),
            "number": numbers_of(rows, there, _NUMBERED.get(template, "")),
        }


def _happened(rows: FileRows, there: Sequence[str], template: int) -> Int64Array:
    """Return T5 of messages, where it is reliable.

    Below schema version 15 only the insertion of a new order states it. An order resent to restore
    a book is an old one, and the time of a trade entered or amended by hand is set by hand.
    """
    time = numbers_of(rows, there, "transact_time_ns")
    if template == ORDER:
        inserted = numbers_of(rows, there, "md_insert_timestamp_ns")
        entered = np.where(_is_new(rows, there), inserted, NULL)
        time = np.where(time == NULL, entered, time)
        indicator = numbers_of(rows, there, "match_event_indicator")
        return np.where((indicator != NULL) & (indicator & RECOVERY != 0), NULL, time)
    if template in _TRADES:
        condition = numbers_of(rows, there, "trade_condition")
        return np.where((condition == NULL) | (condition & _BY_HAND != 0), NULL, time)
    return time


def _is_new(rows: FileRows, there: Sequence[str]) -> BoolArray:
    name = "md_update_action"
    if name not in there:
        return np.zeros(rows.count, np.bool_)
    found: BoolArray = codes(rows.table([name], [name]).column(0), _NEW, 0) == 1
    return found


# --- Legacy feed ---


def _legacy_parts(
    day: LakeDay, name: str, within: ValueRange, labels: dict[str, Labels]
) -> Iterator[Part]:
    files, columns = day.files(name), TIME_COLUMNS[name]
    kinds = {field.name: field.type for field in files.declared}
    texts = [each for each in columns if pa.types.is_string(kinds[each])]
    repeated = [each for each in texts if each not in NUMBERS_AS_TEXTS]
    for read, there in read_rows(files, day.channel, MESSAGE, within, columns, repeated):
        rows = read.table(there, repeated)
        for missing in (each for each in columns if each not in there):
            rows = rows.append_column(missing, pa.nulls(rows.num_rows, kinds[missing]))
        for own in legacy_times(name, rows, day.excluded):
            numbers = [each for each in COLUMNS if each not in TEXTS]
            yield {
                **{each: integers(own.column(each)) for each in numbers},
                **{each: labels[each].of(own.column(each)) for each in TEXTS},
            }
