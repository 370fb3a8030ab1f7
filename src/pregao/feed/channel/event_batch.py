"""Events of a channel as columns, for consumers of many events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from pregao import events as channel_events
from pregao.arrays import Int64Array, Uint8Array
from pregao.book.update_rows import NULL
from pregao.sbe.value_specs import MAX_SIGNED

KINDS: Final[tuple[type[channel_events.ChannelEvent], ...]] = (
    channel_events.BookChanged,
    channel_events.TradeDone,
    channel_events.TradeBusted,
    channel_events.StatusChanged,
    channel_events.PhaseChanged,
    channel_events.StatisticChanged,
    channel_events.InstrumentChanged,
    channel_events.NewsReceived,
    channel_events.BookUnconfirmed,
    channel_events.BookConfirmed,
    channel_events.BookStale,
    channel_events.BookHealed,
    channel_events.GapFound,
    channel_events.ChannelDown,
    channel_events.ChannelUp,
    channel_events.FailedOver,
    channel_events.Synchronized,
    channel_events.RecoveryIdle,
    channel_events.BooksReset,
    channel_events.VersionChanged,
    channel_events.EventsMissed,
    channel_events.VenueTrade,
    channel_events.StreamSilent,
    channel_events.StreamActive,
)
"""Kinds of events; the column ``kind`` has their indices in this list."""
_CODES = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(slots=True)
class EventBatch:
    """Events in order, one per row; missing values are `pregao.book.update_rows.NULL`."""

    kind: Uint8Array
    """See `KINDS`."""
    security_id: Int64Array
    sequence_version: Int64Array
    sequence_number: Int64Array
    event: Int64Array
    sending_ns: Int64Array
    received_ns: Int64Array
    price: Int64Array
    """Of trades and busts, as in books; so is the size."""
    size: Int64Array
    trade_id: Int64Array

    def __len__(self) -> int:
        """Number of events."""
        return len(self.kind)

    @staticmethod
    def joined(parts: Sequence[EventBatch]) -> EventBatch:
        """Concatenate batches."""
        if len(parts) == 1:
            return parts[0]
        columns = (
            np.concatenate([getattr(part, each.name) for part in parts])
            for each in fields(EventBatch)
        )
        return EventBatch(*columns) if parts else EventBatch.of(())

    @staticmethod
    def of_books(
        security_id: Int64Array,
        sequence_version: int,
        sequence_number: Int64Array,
        event: Int64Array,
        sending_ns: Int64Array,
        received_ns: Int64Array,
    ) -> EventBatch:
        """Return the events of changed books as columns."""
        count = len(security_id)
        none = np.full(count, NULL, np.int64)
        return EventBatch(
            np.full(count, _CODES[channel_events.BookChanged], np.uint8),
            security_id,
            np.full(count, sequence_version, np.int64),
            sequence_number,
            event,
            sending_ns,
            received_ns,
            none,
            none,
            none,
        )

    @staticmethod
    def of(events: Sequence[channel_events.ChannelEvent]) -> EventBatch:
        """Return events as columns."""
        keys = [each.packet_key or (NULL, NULL) for each in events]

        def column(name: str) -> Int64Array:
            # Malformed messages may have no value, or one beyond signed 64 bits.
            values = (getattr(each, name, NULL) for each in events)
            known = [NULL if each is None or each > MAX_SIGNED else each for each in values]
            return np.array(known, np.int64)

        return EventBatch(
            np.array([_CODES[type(each)] for each in events], np.uint8),
            column("security_id"),
            np.array([key[0] for key in keys], np.int64),
            np.array([key[1] for key in keys], np.int64),
            column("event"),
            column("sending_ns"),
            column("received_ns"),
            column("price"),
            column("size"),
            column("trade_id"),
        )
