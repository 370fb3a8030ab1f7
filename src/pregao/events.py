"""Events of a followed channel: small objects, in order of occurrence.

Each one has the key of its packet in the incremental stream (None without one), the packet's
sending time, and its reception time. A price is stored as its mantissa and read as a `Decimal`.

Example:
    >>> from pregao.events import TradeDone
    >>> item = next(pregao.follow("day", symbol="PETR4", kinds=TradeDone))
    >>> item.event.price > 0 and item.event.size > 0
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

from pregao.records import record
from pregao.umdf.news import NewsItem
from pregao.umdf.phases import GroupKey, Status
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream
from pregao.units import price_of


@record
class ChannelEvent:
    """Fields of every event."""

    packet_key: PacketKey | None
    sending_ns: int
    """Sending time of the packet; 0 if the passage of time alone caused the event."""
    received_ns: int


def _with_price(event: TradeDone | TradeBusted | VenueTrade) -> str:
    """Return the text of an event, with its price in place of the mantissa."""
    shown = (
        ("price", event.price)
        if each.name == "price_mantissa"
        else (each.name, getattr(event, each.name))
        for each in fields(event)
    )
    return f"{type(event).__name__}({', '.join(f'{name}={value!r}' for name, value in shown)})"


# Books and trades


@record
class BookChanged(ChannelEvent):
    """A market event or a snapshot changed a book; emitted once, when that was complete."""

    security_id: int
    event: int
    """Number of the market event; -1 if a snapshot or its absence changed the book."""


@record
class TradeDone(ChannelEvent):
    """A trade; emitted with its message, whatever the state of the book.

    A trade that sets the last price is not followed by a `StatisticChanged`.
    """

    security_id: int
    event: int
    trade_id: int
    trade_date: date | None
    price_mantissa: int | None
    size: int
    buyer: int | None
    seller: int | None
    condition: int
    """Bits of ``tradeCondition``."""
    sub_type: str | int | None
    transact_ns: int | None
    corrects: bool
    """Whether it replaces a trade of the same number."""
    forward: bool
    makes_last: bool
    """Whether it sets the last price (000 §13.3)."""

    @property
    def price(self) -> Decimal | None:
        """The price."""
        return price_of(self.price_mantissa)

    def __repr__(self) -> str:
        return _with_price(self)


@record
class TradeBusted(ChannelEvent):
    """The exchange canceled a trade."""

    security_id: int
    event: int
    trade_id: int
    trade_date: date | None
    price_mantissa: int
    size: int

    @property
    def price(self) -> Decimal:
        """The price."""
        return price_of(self.price_mantissa)

    def __repr__(self) -> str:
        return _with_price(self)


@record
class VenueTrade(ChannelEvent):
    """A trade, or the bust of one, outside the electronic market (002 §10).

    Only the legacy feed publishes them. They are neither last prices nor part of any volume, and
    their numbers are those of their venue.
    """

    security_id: int
    event: int
    venue: str
    """MDStreamID: X for ex-pit, S for surveillance, O for exercise, C for over the counter."""
    trade_id: int
    trade_date: date | None
    price_mantissa: int | None
    size: int
    """0 for a bust."""
    buyer: int | None
    seller: int | None
    transact_ns: int | None
    corrects: bool
    """Whether it replaces a trade of the same venue and number."""
    busted: bool

    @property
    def price(self) -> Decimal | None:
        """The price."""
        return price_of(self.price_mantissa)

    def __repr__(self) -> str:
        return _with_price(self)


# States, statistics, instruments, news


@record
class StatusChanged(ChannelEvent):
    """The state of an instrument changed."""

    security_id: int
    before: Status
    now: Status


@record
class PhaseChanged(ChannelEvent):
    """The phase of a group changed."""

    group: GroupKey
    before: Status
    now: Status


@record
class StatisticChanged(ChannelEvent):
    """A statistic, price band or reference price was published or removed."""

    security_id: int
    name: str
    """Name of the message without its number, such as ``HighPrice``."""
    kind: str | int | None
    """Variant, where several coexist: the type of a band, the day of a closing price."""
    values: Mapping[str, Any] | None
    """Fields of the message; None if the statistic was removed."""


class DefinitionChange(Enum):
    """Change of an instrument's definition."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@record
class InstrumentChanged(ChannelEvent):
    """An instrument was added, changed or deleted."""

    security_id: int
    symbol: str
    change: DefinitionChange


@record
class NewsReceived(ChannelEvent):
    """A news item, assembled from its parts."""

    news: NewsItem


# Trust


@record
class BookUnconfirmed(ChannelEvent):
    """Packets are missing that may have concerned the instrument."""

    security_id: int


@record
class BookConfirmed(ChannelEvent):
    """Missing packets were made up for, or did not concern the instrument."""

    security_id: int


@record
class BookStale(ChannelEvent):
    """A book is known to have missed something; it waits for a snapshot."""

    security_id: int
    reason: str


@record
class BookHealed(ChannelEvent):
    """A stale book is valid again."""

    security_id: int
    by: str
    """Cause: snapshot, absent, emptied, reset or message."""


@record
class GapFound(ChannelEvent):
    """Packets that no feed delivered in time."""

    sequence_version: int
    first: int
    last: int | None
    """None if the number of missing packets is unknown."""


# The channel


@record
class ChannelDown(ChannelEvent):
    """Nothing arrived on any feed for three heartbeats: no book of the channel is confirmed."""

    silent_ns: int


@record
class ChannelUp(ChannelEvent):
    """Packets arrive again, and all gaps since the silence are known."""


@record
class StreamSilent(ChannelEvent):
    """Nothing arrived on a joined stream of a feed for three heartbeats (000 §6.5.10)."""

    stream: Stream
    feed: str
    silent_ns: int


@record
class StreamActive(ChannelEvent):
    """Packets of a silent stream arrive again."""

    stream: Stream
    feed: str


@record
class FailedOver(ChannelEvent):
    """The channel is now followed at another site, which numbers packets independently."""

    site: tuple[str, ...]
    """Feeds of that site."""


@record
class Synchronized(ChannelEvent):
    """Every instrument is known and every book is confirmed, initially or again."""


@record
class RecoveryIdle(ChannelEvent):
    """The recovery streams are idle until a ChannelReset (000 §7.5)."""


@record
class BooksReset(ChannelEvent):
    """A ChannelReset: every book is empty and will be filled again."""


@record
class VersionChanged(ChannelEvent):
    """The incremental stream continues with another sequence version."""

    sequence_version: int


@record
class EventsMissed(ChannelEvent):
    """The number of events dropped because they were not taken in time.

    Packet key and times are those of the last one. The consumer should re-read books and
    statistics.
    """

    count: int
