"""The live feed for the page: books, trades and auctions as they are now, and how the feed is."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, date, datetime, tzinfo
from itertools import islice
from typing import Any

from pregao._version import __version__
from pregao.book.depth import PriceDepthBook
from pregao.book.orders import OrderBook
from pregao.book.updates import Side
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.feed.channel_events import (
    Event,
    NewsReceived,
    StatisticChanged,
    TradeBusted,
    TradeDone,
)
from pregao.feed.definitions import Instrument
from pregao.feed.followed_channel import FollowedChannel, Listed
from pregao.live import FeedHandler, Report, report
from pregao.names import folded, nearness
from pregao.umdf.templates import flag
from pregao.web.lake_market import offset_s
from pregao.web.live_seen import BARS, Seen
from pregao.web.wire import LEVELS, MOST_IN_QUEUE, QUEUES, midnight_ns

_NEWS = 50
"""So many pieces of news are remembered."""
_FOUND = 40
_MORE_SELLERS = flag("ImbalanceCondition", "ImbalanceMoreSellers")


class LiveMarket:
    """Listens to a handler, and answers what the page asks; made before the handler runs."""

    mode = "live"

    def __init__(self, handler: FeedHandler, name: str, zone: tzinfo | None = None) -> None:
        self.base = midnight_ns(datetime.fromtimestamp(handler.now() // SECOND, UTC).date())
        self._day = datetime.fromtimestamp(handler.now() // SECOND, UTC).date()
        self._handler = handler
        self._name = name
        self._zone = zone or UTC
        self._seen: dict[tuple[int, int], Seen] = {}
        self._news: deque[dict[str, Any]] = deque(maxlen=_NEWS)
        # It looks at no books when something is told, so it may be told of much at once.
        handler.listen(self, singly=False)

    # In the handler's thread

    def told(self, channel: FollowedChannel, events: list[Event]) -> None:
        """Remember what the page shows of the past."""
        number = channel.settings.number
        for event in events:
            match event:
                case TradeDone():
                    self._of(number, event.security_id).traded(event, self.base)
                case TradeBusted():
                    self._of(number, event.security_id).busted(event, self.base)
                case StatisticChanged(name="TheoreticalOpeningPrice", values=values):
                    if values is not None and values.get("mDEntryPx") is not None:
                        row = [
                            event.sending_ns - self.base,
                            int(values["mDEntryPx"] * 10_000),
                            values.get("mDEntrySize") or 0,
                        ]
                        self._of(number, event.security_id).path.append(row)
                case StatisticChanged(name="AuctionImbalance", values=values):
                    if values is not None:
                        row = [event.sending_ns - self.base, _imbalance(values)]
                        self._of(number, event.security_id).imbalances.append(row)
                case NewsReceived(news=news):
                    known = channel.instruments.get(news.security_id or -1)
                    self._news.append(
                        {
                            "at": event.sending_ns - self.base,
                            "headline": news.headline,
                            "text": news.text,
                            "symbol": None if known is None else known.symbol,
                            "source": None if news.source is None else str(news.source),
                        }
                    )
                case _:
                    pass

    def _of(self, channel: int, security_id: int) -> Seen:
        return self._seen.setdefault((channel, security_id), Seen())

    # In other threads

    def about(self) -> dict[str, Any]:
        """What the page shows."""
        return {
            "mode": self.mode,
            "name": self._name,
            "version": __version__,
            "zone": str(self._zone),
            "days": [{"day": self._day.isoformat(), "offset": offset_s(self._day, self._zone)}],
        }

    @property
    def day(self) -> date:
        """The day from whose midnight times count."""
        return self._day

    def search(self, words: str) -> dict[str, Any]:
        """The instruments whose symbol, number or description has the words.

        Of those that are as near to them, the busiest comes first.
        """
        wanted = folded(words.strip())

        def ask(handler: FeedHandler) -> list[dict[str, Any]]:
            found = []
            for number, followed in handler.channels.items():
                for one in followed.channel.instruments.values():
                    description = str(defined(one).get("securityDesc") or "")
                    texts = (folded(one.symbol), folded(description), str(one.security_id))
                    if any(wanted in text for text in texts):
                        seen = self._seen.get((number, one.security_id))
                        found.append(
                            {
                                "symbol": one.symbol,
                                "id": str(one.security_id),
                                "channel": number,
                                "group": group_of(one),
                                "description": description or None,
                                "messages": 0 if seen is None else seen.told,
                                "state": None,
                                "gaps": 0,
                            }
                        )
            return found

        found = self._handler.ask(ask)
        found.sort(
            key=lambda one: (nearness(one["symbol"], wanted), -one["messages"], one["symbol"])
        )
        return {"count": len(found), "all": len(found), "instruments": found[:_FOUND]}

    def instrument(self, channel: int, security_id: int) -> dict[str, Any]:
        """What is defined of an instrument."""

        def ask(handler: FeedHandler) -> dict[str, Any] | None:
            followed = handler.channels.get(channel)
            one = None if followed is None else followed.channel.instruments.get(security_id)
            if one is None:
                return None
            tick = defined(one).get("minPriceIncrement")
            return {
                "symbol": one.symbol,
                "id": str(security_id),
                "channel": channel,
                "day": self._day.isoformat(),
                "group": group_of(one),
                "description": defined(one).get("securityDesc"),
                "currency": defined(one).get("currency"),
                "isin": defined(one).get("isinNumber"),
                "tick": None if not tick else max(1, int(tick * 10_000)),
                "lot": defined(one).get("minLotSize"),
                "phases": [],
                "gaps": [],
                "activity": [],
                "intervals": list(BARS),
            }

        found = self._handler.ask(ask)
        if found is None:
            raise UsageError(
                f"Channel {channel} has no instrument {security_id}, or it is not known yet."
            )
        return found

    def view(self, channel: int, security_id: int) -> dict[str, Any] | None:
        """An instrument now: its book, its trades; None if it is not known (any more)."""

        def ask(handler: FeedHandler) -> dict[str, Any] | None:
            followed = handler.channels.get(channel)
            if followed is None or security_id not in followed.channel.instruments:
                return None
            book = followed.channel.book(security_id)
            seen = self._seen.get((channel, security_id)) or Seen()
            status = followed.channel.phases.status(security_id)
            return {
                "at": handler.now() - self.base,
                "sent": None,
                "version": None if book.place is None else book.place.sequence_version,
                "number": None if book.place is None else book.place.sequence_number,
                "state": book.state.name.lower(),
                "reason": book.reason,
                "status": status.name,
                "last": seen.last,
                "first": seen.first,
                "volume": seen.volume,
                "ends": None,
                "current": True,
                "sides": [live_side(book.content, side, self.base) for side in Side],
                "trades": list(seen.trades),
            }

        return self._handler.ask(ask)

    def auctions(self, channel: int, security_id: int) -> list[dict[str, Any]]:
        """What was expected of the auction of now, or of the last one."""

        def ask(_handler: FeedHandler) -> tuple[list[Any], list[Any]]:
            seen = self._seen.get((channel, security_id)) or Seen()
            return list(seen.path), list(seen.imbalances)

        path, imbalances = self._handler.ask(ask)
        if not path and not imbalances:
            return []
        begin = min(row[0] for row in (*path, *imbalances))
        last = path[-1] if path else [None, None, None]
        return [
            {
                "kind": "since the page began",
                "begin": begin,
                "end": last[0],
                "scheduled": None,
                "extensions": None,
                "price": last[1],
                "volume": last[2],
                "trades": None,
                "path": path,
                "imbalances": imbalances,
            }
        ]

    def bars(self, channel: int, security_id: int, interval: str) -> list[list[Any]]:
        """Bars of the trades since the page began: start, open, high, low, close, volume."""
        if interval not in BARS:
            raise UsageError(f"interval is {', '.join(BARS)}, not {interval!r}.")

        def ask(_handler: FeedHandler) -> list[list[Any]]:
            seen = self._seen.get((channel, security_id)) or Seen()
            return seen.bars(BARS[interval])

        return self._handler.ask(ask)

    def latency(self) -> dict[str, Any]:
        """How the delays from sending to receiving are spread since the handler began."""
        return {
            "spread": self._handler.ask(
                lambda handler: {
                    number: followed.delays.spread()
                    for number, followed in handler.channels.items()
                }
            )
        }

    def news(self) -> list[dict[str, Any]]:
        """The last news."""
        return self._handler.ask(lambda _handler: list(self._news))

    def health(self) -> dict[str, Any]:
        """How the feed is."""
        if self._handler.failure is not None:
            raise UsageError(f"The feed handler ended: {self._handler.failure}")
        return report_data(self._handler.ask(report), self.base)


def defined(one: Listed) -> Mapping[str, Any]:
    """The fields of an instrument's definition; the legacy feed's has others."""
    return one.values if isinstance(one, Instrument) else {}


def group_of(one: Listed) -> str | None:
    """The group of an instrument, where it is told."""
    return one.group.group if isinstance(one, Instrument) else None


def live_side(content: OrderBook | PriceDepthBook, side: Side, base: int) -> dict[str, Any]:
    """A side of a book that is followed: its best levels, and the orders of the first of them."""
    if isinstance(content, PriceDepthBook):
        found = list(islice(content.walk_levels(side), LEVELS))
        return {
            "orders": sum(level.orders for level in found),
            "size": sum(level.size for level in found),
            "levels": [list(level) for level in found],
            "queues": [],
        }
    levels = content.levels(side, LEVELS)
    shown = levels[:QUEUES]
    walk = islice(content.walk_orders(side), sum(level.orders for level in shown))
    queues = []
    for level in shown:
        own = list(islice(walk, level.orders))[:MOST_IN_QUEUE]
        queues.append(
            [
                [
                    order.size,
                    order.firm,
                    None if order.insert_time_ns is None else order.insert_time_ns - base,
                    str(order.order_id),
                ]
                for order in own
            ]
        )
    return {
        "orders": content.count(side),
        "size": sum(level.size for level in levels),
        "levels": [list(level) for level in levels],
        "queues": queues,
    }


def _imbalance(values: Any) -> int:
    """The imbalance with its side as its sign."""
    size = int(values.get("mDEntrySize") or 0)
    condition = values.get("imbalanceCondition") or 0
    return -size if int(condition) & _MORE_SELLERS else size


def report_data(made: Report, base: int) -> dict[str, Any]:
    """A report as the page shows it."""
    return {
        "at": made.at_ns - base,
        "since": made.since_ns - base,
        "ready": made.ready,
        "channels": [
            {
                "number": each.number,
                "state": each.state.name.lower(),
                "meaning": each.state.value,
                "instruments": each.instruments,
                "books": {
                    state.name.lower(): count for state, count in each.books.items() if count
                },
                "counters": each.counters,
                "feeds": each.feeds,
                "delays": list(each.delays_ns),
                "lines": [
                    {
                        "stream": line.line.stream.value,
                        "feed": line.line.feed,
                        "address": str(line.line.address),
                        "joined": line.joined,
                        "packets": line.counts.packets,
                        "bytes": line.counts.bytes,
                        "dropped": line.counts.dropped,
                    }
                    for line in each.lines
                ],
            }
            for each in made.channels
        ],
    }
