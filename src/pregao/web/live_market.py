"""Live data of the page: current books, trades, auctions and feed health.

`InstrumentHistory` has the trades, bars and auctions of an instrument since the page started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from itertools import islice
from typing import Any

import numpy as np

from pregao._version import __version__
from pregao.book.order_book import OrderBook
from pregao.book.price_depth_book import PriceDepthBook
from pregao.clock import MINUTE, SECOND
from pregao.errors import UsageError
from pregao.events import ChannelEvent, NewsReceived, StatisticChanged, TradeBusted, TradeDone
from pregao.feed.channel.channel_base import FeedChannel, InstrumentInfo
from pregao.feed.channel.instruments import ChannelInstrument
from pregao.live.handler import FeedHandler
from pregao.live.health import FeedReport, report
from pregao.name_matching import folded, nearness
from pregao.umdf.templates import flag
from pregao.units import Side, midnight_ns
from pregao.web.json_encoding import LEVELS, MAX_QUEUE_ORDERS, QUEUES, auction_data, trade_bars
from pregao.web.lake_market import offset_s

TAPE = 200
"""Maximum number of trades on the tape of an instrument."""
_MAX_PATH = 900
"""Maximum number of theoretical prices and of imbalances kept."""
_MAX_TRADES = 20_000
"""Maximum number of trades kept for bars."""
BARS = {"1s": SECOND, "5s": 5 * SECOND, "1m": MINUTE, "5m": 5 * MINUTE}
"""Available bar lengths."""
_AT, _PRICE, _SIZE, _SIDE, _BUSTED, _NUMBER = range(6)

_MAX_NEWS = 50
"""Maximum number of news items kept."""
_MAX_FOUND = 40
_MORE_SELLERS = flag("ImbalanceCondition", "ImbalanceMoreSellers")


@dataclass(slots=True)
class InstrumentHistory:
    """History of an instrument."""

    trades: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=TAPE))
    published: int = 0
    """Number of trade events: trades, corrections and busts."""
    volume: int = 0
    last: int | None = None
    first: int | None = None
    side: int = 0
    path: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_MAX_PATH))
    imbalances: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_MAX_PATH))
    _past: deque[tuple[list[Any], bool]] = field(default_factory=lambda: deque(maxlen=_MAX_TRADES))
    """Trades, and whether they set the last price."""

    def traded(self, event: TradeDone, base: int) -> None:
        """Add a trade; times are relative to ``base``."""
        if event.price_mantissa is None:
            return
        # The trade does not state its aggressor, so apply the tick rule: an uptick is a buy, a
        # downtick a sell, and an equal price has the side of the previous trade.
        if self.last is not None and event.price_mantissa != self.last:
            self.side = 1 if event.price_mantissa > self.last else -1
        self.last = event.price_mantissa
        self.first = event.price_mantissa if self.first is None else self.first
        if not event.corrects:
            self.volume += event.size
        self.published += 1
        row = [event.sending_ns - base, event.price_mantissa, event.size, self.side, None,
               event.trade_id, event.buyer, event.seller]  # fmt: skip
        self.trades.append(row)
        self._past.append((row, event.makes_last))

    def busted(self, event: TradeBusted, base: int) -> None:
        """Mark a trade as busted."""
        self.published += 1
        for trade, _ in self._past:
            if trade[_NUMBER] == event.trade_id:
                trade[_BUSTED] = event.sending_ns - base

    def bars(self, length_ns: int) -> list[list[Any]]:
        """Return bars of start, open, high, low, close and volume, as in a lake's table ``bars``.

        Busted trades are excluded, and a correction counts at the time of the corrected trade.
        """
        counted: dict[int, tuple[int, list[Any], bool]] = {}
        for trade, makes_last in self._past:
            if trade[_BUSTED] is not None:
                counted.pop(trade[_NUMBER], None)
                continue
            earlier = counted.get(trade[_NUMBER])
            counted[trade[_NUMBER]] = (earlier[0] if earlier else trade[_AT], trade, makes_last)
        rows = [
            (time, trade[_PRICE], trade[_SIZE], makes_last)
            for time, trade, makes_last in counted.values()
        ]
        time, price, size, sets_last = np.array(rows, np.int64).reshape(-1, 4).T
        return trade_bars(time, price, size, sets_last, length_ns, 0)


class LiveMarket:
    """Data source of the page for the live feed; create it before the handler starts."""

    mode = "live"

    def __init__(self, handler: FeedHandler, name: str, zone: tzinfo | None = None) -> None:
        self.base = midnight_ns(datetime.fromtimestamp(handler.now() // SECOND, UTC).date())
        self._day = datetime.fromtimestamp(handler.now() // SECOND, UTC).date()
        self._handler = handler
        self._name = name
        self._zone = zone or UTC
        self._seen: dict[tuple[int, int], InstrumentHistory] = {}
        self._news: deque[dict[str, Any]] = deque(maxlen=_MAX_NEWS)
        # This listener reads no books, so it accepts events in batches.
        handler.add_listener(self, singly=False)

    # In the handler's thread

    def on_events(self, channel: FeedChannel, events: list[ChannelEvent]) -> None:
        """Record events that the page shows as history."""
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

    def _of(self, channel: int, security_id: int) -> InstrumentHistory:
        return self._seen.setdefault((channel, security_id), InstrumentHistory())

    # In other threads

    def about(self) -> dict[str, Any]:
        """Return the name of the feed, the day and the version."""
        return {
            "mode": self.mode,
            "name": self._name,
            "version": __version__,
            "zone": str(self._zone),
            "days": [{"day": self._day.isoformat(), "offset": offset_s(self._day, self._zone)}],
        }

    @property
    def day(self) -> date:
        """Day whose midnight UTC is time 0."""
        return self._day

    def search(self, words: str) -> dict[str, Any]:
        """Return the instruments whose symbol, ID or description matches, best match first.

        Among equal matches, the busiest comes first.
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
                                "messages": 0 if seen is None else seen.published,
                                "state": None,
                                "gaps": 0,
                            }
                        )
            return found

        found = self._handler.call(ask)
        found.sort(
            key=lambda one: (nearness(one["symbol"], wanted), -one["messages"], one["symbol"])
        )
        return {"count": len(found), "all": len(found), "instruments": found[:_MAX_FOUND]}

    def instrument(self, channel: int, security_id: int) -> dict[str, Any]:
        """Return the definition of an instrument."""

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

        found = self._handler.call(ask)
        if found is None:
            raise UsageError(
                f"Channel {channel} has no instrument {security_id}; its definition may not have "
                "arrived yet."
            )
        return found

    def view(self, channel: int, security_id: int) -> dict[str, Any] | None:
        """Return the current book and trades of an instrument; None if it is unknown."""

        def ask(handler: FeedHandler) -> dict[str, Any] | None:
            followed = handler.channels.get(channel)
            if followed is None or security_id not in followed.channel.instruments:
                return None
            book = followed.channel.book(security_id)
            seen = self._seen.get((channel, security_id)) or InstrumentHistory()
            status = followed.channel.phases.status(security_id)
            return {
                "at": handler.now() - self.base,
                "sent": None,
                "version": None if book.packet_key is None else book.packet_key.sequence_version,
                "number": None if book.packet_key is None else book.packet_key.sequence_number,
                "state": book.state.name.lower(),
                "reason": book.reason,
                "status": status.name,
                "last": seen.last,
                "first": seen.first,
                "volume": seen.volume,
                "ends": None,
                "current": True,
                "sides": [live_side(book.content, side, self.base) for side in Side],
                "auction": live_auction(book.content),
                "trades": list(seen.trades),
            }

        return self._handler.call(ask)

    def auctions(self, channel: int, security_id: int) -> list[dict[str, Any]]:
        """Return the theoretical prices and imbalances since the page started, as one auction."""

        def ask(_handler: FeedHandler) -> tuple[list[Any], list[Any]]:
            seen = self._seen.get((channel, security_id)) or InstrumentHistory()
            return list(seen.path), list(seen.imbalances)

        path, imbalances = self._handler.call(ask)
        if not path and not imbalances:
            return []
        begin = min(row[0] for row in (*path, *imbalances))
        last = path[-1] if path else [None, None, None]
        return [
            {
                "kind": "since page start",
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
        """Return bars since the page started: start, open, high, low, close, volume."""
        if interval not in BARS:
            raise UsageError(f"interval must be one of {', '.join(BARS)}; was {interval!r}.")

        def ask(_handler: FeedHandler) -> list[list[Any]]:
            seen = self._seen.get((channel, security_id)) or InstrumentHistory()
            return seen.bars(BARS[interval])

        return self._handler.call(ask)

    def latency(self) -> dict[str, Any]:
        """Return histograms of the latency from sending to receiving since the handler started."""
        return {
            "spread": self._handler.call(
                lambda handler: {
                    number: followed.delays.spread()
                    for number, followed in handler.channels.items()
                }
            )
        }

    def news(self) -> list[dict[str, Any]]:
        """Return the latest news."""
        return self._handler.call(lambda _handler: list(self._news))

    def health(self) -> dict[str, Any]:
        """Return the health of the feed."""
        if self._handler.failure is not None:
            raise UsageError(f"The feed handler stopped: {self._handler.failure}")
        return report_data(self._handler.call(report), self.base)


def defined(one: InstrumentInfo) -> Mapping[str, Any]:
    """Return the fields of a definition; none for the legacy feed, whose fields differ."""
    return one.values if isinstance(one, ChannelInstrument) else {}


def group_of(one: InstrumentInfo) -> str | None:
    """Return the group of an instrument, if known."""
    return one.group.group if isinstance(one, ChannelInstrument) else None


def live_side(content: OrderBook | PriceDepthBook, side: Side, base: int) -> dict[str, Any]:
    """Return a side of a live book: its best levels, and the orders of the first ones."""
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
        own = list(islice(walk, level.orders))[:MAX_QUEUE_ORDERS]
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


def live_auction(content: OrderBook | PriceDepthBook) -> list[Any] | None:
    """Return `auction_data` of a live book."""
    if not (content.crossed or content.locked):
        return None
    return auction_data(*(content.levels(side) for side in Side))


def _imbalance(values: Any) -> int:
    """Return the imbalance, negative if there are more sellers."""
    size = int(values.get("mDEntrySize") or 0)
    condition = values.get("imbalanceCondition") or 0
    return -size if int(condition) & _MORE_SELLERS else size


def report_data(made: FeedReport, base: int) -> dict[str, Any]:
    """Return a feed report as JSON-compatible data."""
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
