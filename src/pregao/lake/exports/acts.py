"""The flow of an instrument: what happened to its orders, and its trades, in one line of time.

This is what the formats of others are written from. Messages, clearings and snapshots have become
four acts: an order is added, changed or deleted, or a trade is published.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.book.rows import NULL
from pregao.feed.columns import Codes, Flags, Numbers

NO_SIDE = 2
OFF_BOOK = ("crossed", "block", "forward", "multi_asset", "leg", "out_of_sequence", "on_behalf")
"""Trades of these kinds were not made by orders that met in the book."""


class Act(IntEnum):
    """What a row of the flow does."""

    ADD = 0
    CHANGE = 1
    DELETE = 2
    TRADE = 3
    """A trade was published; it changes no order by itself."""


class Cause(IntEnum):
    """Why an order changed or went."""

    REQUEST = 0
    """Somebody asked for it; of an order that is added, too."""
    FILL = 1
    """It traded against an incoming order."""
    AUCTION = 2
    """It traded in an event without an aggressor."""
    CLEARING = 3
    """Its side or book was emptied, or messages were missing behind which it is not seen again."""
    SNAPSHOT = 4
    """It was not entered now: a snapshot or the exchange's recovery told of it."""


@dataclass(frozen=True, slots=True)
class OrderFlow:
    """The acts of an instrument's day as columns, in the order in which they were published."""

    place: Numbers
    """Where in the channel the message was; rises."""
    sequence: Numbers
    """Number of its packet."""
    event_time: Numbers
    """When it happened (T5); never falls."""
    sending_time: Numbers
    capture_time: Numbers
    last_of_event: Flags
    act: Codes
    cause: Codes
    side: Codes
    """0 buy, 1 sell, 2 none. Of a trade that of the aggressor."""
    order_id: Numbers
    """Public number; of a trade its own number."""
    price: Numbers
    """In ten-thousandths, after the act; NULL of an order without one. Of a deletion the last."""
    size: Numbers
    """After the act, 0 of a deletion; of a trade its quantity."""
    old_price: Numbers
    """Before the act; NULL of what was not there."""
    old_size: Numbers
    off_book: Flags
    """A trade that no order of the book was part of: crosses, blocks, forwards, late reports."""

    def __len__(self) -> int:
        return len(self.place)

    def taken(self, chosen: npt.NDArray[Any]) -> OrderFlow:
        """Some rows, in the order given."""
        return OrderFlow(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def priced(self) -> OrderFlow:
        """The same without orders that have no price, which most formats cannot hold."""
        orders = self.act != Act.TRADE
        now, before = self.price != NULL, self.old_price != NULL
        act = self.act.copy()
        act[orders & now & (self.act == Act.CHANGE) & ~before] = Act.ADD
        leaves = orders & ~now & before
        act[leaves] = Act.DELETE
        made = replace(
            self,
            act=act,
            price=np.where(leaves, self.old_price, self.price),
            size=np.where(leaves, 0, self.size),
        )
        return made.taken(np.flatnonzero(~orders | now | before))
