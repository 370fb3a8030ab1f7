"""Overview of the market for a screen: activity, last trades, tapes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal

from pregao.events import BookChanged, ChannelEvent, TradeBusted, TradeDone
from pregao.feed.channel.channel_base import FeedChannel
from pregao.live.handler import FeedHandler
from pregao.live.items import BookCopy, copy_of

TAPE = 50
"""Number of trades kept per instrument."""


@dataclass(slots=True)
class _Activity:
    """Activity of an instrument."""

    changes: int = 0
    trades: int = 0
    volume: int = 0
    last_price: Decimal | None = None
    tape: deque[TradeDone | TradeBusted] = field(default_factory=lambda: deque(maxlen=TAPE))


@dataclass(frozen=True, slots=True)
class InstrumentRow:
    """An instrument in a list: its activity and the top of its book."""

    channel: int
    security_id: int
    symbol: str
    changes: int
    trades: int
    volume: int
    last_price: Decimal | None
    book: BookCopy


@dataclass(frozen=True, slots=True)
class InstrumentPage:
    """Details of one instrument."""

    row: InstrumentRow
    status: str
    tape: tuple[TradeDone | TradeBusted, ...]
    """The last trades, newest first."""


class MarketWatch:
    """Listens to a handler and collects the data of a screen."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], _Activity] = {}

    def on_events(self, channel: FeedChannel, events: list[ChannelEvent]) -> None:
        """Count the book changes and trades of a channel."""
        number = channel.settings.number
        for event in events:
            if isinstance(event, BookChanged):
                self._of(number, event.security_id).changes += 1
            elif isinstance(event, TradeDone):
                activity = self._of(number, event.security_id)
                activity.tape.appendleft(event)
                if not event.corrects:
                    activity.trades += 1
                    activity.volume += event.size
                    activity.last_price = event.price
            elif isinstance(event, TradeBusted):
                self._of(number, event.security_id).tape.appendleft(event)

    def _of(self, channel: int, security_id: int) -> _Activity:
        return self._found.setdefault((channel, security_id), _Activity())

    def busiest(self, handler: FeedHandler, limit: int) -> list[InstrumentRow]:
        """Return the instruments with the most book changes, at most ``limit``.

        Called through `FeedHandler.call`.
        """
        order = sorted(self._found, key=lambda key: -self._found[key].changes)
        rows = []
        for channel, security_id in order:
            followed = handler.channels.get(channel)
            if followed is not None and security_id in followed.channel.instruments:
                rows.append(self._row(followed.channel, security_id, 1))
            if len(rows) == limit:
                break
        return rows

    def page(
        self, handler: FeedHandler, channel: int, security_id: int, depth: int
    ) -> InstrumentPage | None:
        """Return one instrument, or None if it is not known.

        Called through `FeedHandler.call`.
        """
        followed = handler.channels.get(channel)
        if followed is None or security_id not in followed.channel.instruments:
            return None
        row = self._row(followed.channel, security_id, depth)
        status = followed.channel.phases.status(security_id)
        tape = tuple(self._of(channel, security_id).tape)
        return InstrumentPage(row, status.name.lower().replace("_", " "), tape)

    def _row(self, channel: FeedChannel, security_id: int, depth: int) -> InstrumentRow:
        number = channel.settings.number
        activity = self._of(number, security_id)
        return InstrumentRow(
            number,
            security_id,
            channel.instruments[security_id].symbol,
            activity.changes,
            activity.trades,
            activity.volume,
            activity.last_price,
            copy_of(channel, security_id, depth),
        )
