"""Events of a channel as columns: for who takes many at once and has no time for objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from pregao.book.rows import NULL
from pregao.feed import channel_events as told
from pregao.feed.columns import Codes, Numbers
from pregao.sbe.values import MAX_SIGNED

KINDS: Final[tuple[type[told.Event], ...]] = (
    told.BookChanged,
    told.TradeDone,
    told.TradeBusted,
    told.StatusChanged,
    told.PhaseChanged,
    told.StatisticChanged,
    told.InstrumentChanged,
    told.NewsReceived,
    told.Unconfirmed,
    told.Confirmed,
    told.Stale,
    told.Healed,
    told.Gap,
    told.ChannelDown,
    told.ChannelUp,
    told.FailedOver,
    told.Synchronized,
    told.RecoveryIdle,
    told.BooksReset,
    told.VersionChanged,
    told.EventsMissed,
)
"""The kinds of events; a column holds the place of its kind in this list."""
_CODES = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(slots=True)
class EventBatch:
    """Events in order, a row each; what an event does not have is `pregao.book.rows.NULL`."""

    kind: Codes
    """See `KINDS`."""
    security_id: Numbers
    sequence_version: Numbers
    sequence_number: Numbers
    event: Numbers
    sending_ns: Numbers
    received_ns: Numbers
    price: Numbers
    """Of trades and busts, as in books; so is the size."""
    size: Numbers
    trade_id: Numbers

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.kind)

    @staticmethod
    def joined(parts: Sequence[EventBatch]) -> EventBatch:
        """The events of several, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        columns = (
            np.concatenate([getattr(part, each.name) for part in parts])
            for each in fields(EventBatch)
        )
        return EventBatch(*columns) if parts else EventBatch.of(())

    @staticmethod
    def of_books(
        security_id: Numbers,
        sequence_version: int,
        sequence_number: Numbers,
        event: Numbers,
        sending_ns: Numbers,
        received_ns: Numbers,
    ) -> EventBatch:
        """The columns of books that changed."""
        count = len(security_id)
        none = np.full(count, NULL, np.int64)
        return EventBatch(
            np.full(count, _CODES[told.BookChanged], np.uint8),
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
    def of(events: Sequence[told.Event]) -> EventBatch:
        """The columns of some events."""
        places = [each.place or (NULL, NULL) for each in events]

        def column(name: str) -> Numbers:
            # Bytes that are wrong may tell nothing, or a number that nobody has.
            values = (getattr(each, name, NULL) for each in events)
            known = [NULL if each is None or each > MAX_SIGNED else each for each in values]
            return np.array(known, np.int64)

        return EventBatch(
            np.array([_CODES[type(each)] for each in events], np.uint8),
            column("security_id"),
            np.array([place[0] for place in places], np.int64),
            np.array([place[1] for place in places], np.int64),
            column("event"),
            column("sending_ns"),
            column("received_ns"),
            column("price"),
            column("size"),
            column("trade_id"),
        )
