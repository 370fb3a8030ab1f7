"""Order flow of an instrument: the acts on its orders, and its trades, in time order.

Third-party formats are written from it. Messages, clearings and snapshots become four acts: an
order is added, changed or deleted, or a trade is published.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.book.update_rows import NULL
from pregao.feed.columns import Codes, Flags, Numbers

NO_SIDE = 2
OFF_BOOK = ("crossed", "block", "forward", "multi_asset", "leg", "out_of_sequence", "on_behalf")
"""Kinds of trades that did not result from orders matched in the book."""


class FlowAction(IntEnum):
    """Kind of a row of the flow."""

    ADD = 0
    CHANGE = 1
    DELETE = 2
    TRADE = 3
    """A trade was published; it changes no order."""


class ChangeCause(IntEnum):
    """Why an order changed or was deleted."""

    REQUEST = 0
    """A request; also for an order that is added."""
    FILL = 1
    """It traded against an incoming order."""
    AUCTION = 2
    """It traded in an event without an aggressor."""
    CLEARING = 3
    """Its side or book was emptied, or messages were missing after which it does not reappear."""
    SNAPSHOT = 4
    """It was not entered now: a snapshot or the exchange's recovery published it."""


@dataclass(frozen=True, slots=True)
class OrderFlow:
    """Acts of an instrument's day as columns, in order of publication."""

    event_key: Numbers
    """Event key of the message; increases."""
    sequence: Numbers
    """Number of its packet."""
    event_time: Numbers
    """Event time (T5); never decreases."""
    sending_time: Numbers
    capture_time: Numbers
    last_of_event: Flags
    act: Codes
    cause: Codes
    side: Codes
    """0 buy, 1 sell, 2 none. Of a trade, the aggressor's."""
    order_id: Numbers
    """Public order number; of a trade, its trade number."""
    price: Numbers
    """In ten-thousandths, after the act; NULL for an order without one. Of a deletion, the last
    price.
    """
    size: Numbers
    """After the act, 0 for a deletion; of a trade, its quantity."""
    old_price: Numbers
    """Before the act; NULL for an order that did not exist."""
    old_size: Numbers
    off_book: Flags
    """Whether a trade involved no order of the book: crosses, blocks, forwards, late reports."""

    def __len__(self) -> int:
        return len(self.event_key)

    def take(self, chosen: npt.NDArray[Any]) -> OrderFlow:
        """Return some rows, in the given order."""
        return OrderFlow(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def priced(self) -> OrderFlow:
        """Return the flow without orders that have no price, which most formats do not support."""
        orders = self.act != FlowAction.TRADE
        now, before = self.price != NULL, self.old_price != NULL
        act = self.act.copy()
        act[orders & now & (self.act == FlowAction.CHANGE) & ~before] = FlowAction.ADD
        leaves = orders & ~now & before
        act[leaves] = FlowAction.DELETE
        flow = replace(
            self,
            act=act,
            price=np.where(leaves, self.old_price, self.price),
            size=np.where(leaves, 0, self.size),
        )
        return flow.take(np.flatnonzero(~orders | now | before))
