"""What a followed channel tells: its events as small objects, in the order they happened.

Each one says where it happened (the place of its packet in the incremental stream; None where
there is none), when that packet was sent, and when it was received. Prices are mantissas of
`pregao.feed.meaning.PRICE_SCALE` digits, as in books.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import Any

from pregao.feed.records import record
from pregao.umdf.news import News
from pregao.umdf.phases import GroupKey, Status
from pregao.umdf.sequencing import Place


@record
class Event:
    """What every event has."""

    place: Place | None
    sending_ns: int
    """When the packet was sent; 0 where time alone brought the event about."""
    received_ns: int


# Books and trades


@record
class BookChanged(Event):
    """An event of the market, or a snapshot, changed a book; told once, when it was over."""

    security_id: int
    event: int
    """The number of the market's event; -1 where a snapshot or its absence changed the book."""


@record
class TradeDone(Event):
    """A trade; told as its message comes, whatever the state of the book is.

    Where it makes the last price, this is the event that says so: none of a statistic follows.
    """

    security_id: int
    event: int
    trade_id: int
    trade_date: date | None
    price: int | None
    size: int
    buyer: int | None
    seller: int | None
    condition: int
    """Bits of ``tradeCondition``."""
    sub_type: str | int | None
    transact_ns: int | None
    corrects: bool
    """It replaces a trade of the same number."""
    forward: bool
    makes_last: bool
    """It makes the last price (000 §13.3)."""


@record
class TradeBusted(Event):
    """A trade was cancelled by the exchange."""

    security_id: int
    event: int
    trade_id: int
    trade_date: date | None
    price: int
    size: int


# States, statistics, instruments, news


@record
class StatusChanged(Event):
    """What holds for an instrument has changed."""

    security_id: int
    before: Status
    now: Status


@record
class PhaseChanged(Event):
    """The phase of a group has changed."""

    group: GroupKey
    before: Status
    now: Status


@record
class StatisticChanged(Event):
    """A statistic, band or price of reference was told, or is no more."""

    security_id: int
    name: str
    """The message's name without its number, such as ``HighPrice``."""
    kind: str | int | None
    """Which one, of those that are side by side: a type of band, a day of a closing price."""
    values: Mapping[str, Any] | None
    """The message's fields; None if the statistic is no more."""


class Change(Enum):
    """What happened to an instrument's definition."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@record
class InstrumentChanged(Event):
    """An instrument was added, changed or deleted."""

    security_id: int
    symbol: str
    change: Change


@record
class NewsReceived(Event):
    """A piece of news, put together from its parts."""

    news: News


# Trust


@record
class Unconfirmed(Event):
    """Packets are missing that may have been about an instrument."""

    security_id: int


@record
class Confirmed(Event):
    """What was missing is made up for, or was not about the instrument."""

    security_id: int


@record
class Stale(Event):
    """A book is known to have missed something; it waits for a snapshot."""

    security_id: int
    reason: str


@record
class Healed(Event):
    """A stale book is sound again."""

    security_id: int
    by: str
    """What healed it: snapshot, absent, emptied, reset, message."""


@record
class Gap(Event):
    """Packets that no feed brought in time."""

    sequence_version: int
    first: int
    last: int | None
    """None where nobody knows how many are missing."""


# The channel


@record
class ChannelDown(Event):
    """Nothing came on any feed for three heartbeats: no book of the channel is confirmed."""

    silent_ns: int


@record
class ChannelUp(Event):
    """The channel is heard again, and what was missed meanwhile is known."""


@record
class FailedOver(Event):
    """The channel is followed at another site from here on, whose numbers are its own."""

    site: tuple[str, ...]
    """The feeds of that site."""


@record
class Synchronized(Event):
    """Every instrument is known and every book is confirmed, for the first time or again."""


@record
class RecoveryIdle(Event):
    """The recovery streams have nothing to tell until a ChannelReset (000 §7.5)."""


@record
class BooksReset(Event):
    """A ChannelReset: every book is empty and is filled anew."""


@record
class VersionChanged(Event):
    """The incremental stream goes on with another sequence version."""

    sequence_version: int


@record
class EventsMissed(Event):
    """So many events were not taken in time and are gone: read books and statistics anew."""

    count: int
