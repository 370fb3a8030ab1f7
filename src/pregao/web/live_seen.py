"""What happened to an instrument since the page began to listen: trades, bars, auctions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pregao.clock import MINUTE, SECOND
from pregao.feed.channel_events import TradeBusted, TradeDone

TAPE = 200
"""So many trades of an instrument are shown, ..."""
_PATH = 900
"""... so many theoretical prices and imbalances are remembered, ..."""
_PAST = 20_000
"""... and so many trades for bars."""
BARS = {"1s": SECOND, "5s": 5 * SECOND, "1m": MINUTE, "5m": 5 * MINUTE}
"""The bars that can be asked for."""
_AT, _PRICE, _SIZE, _SIDE, _BUSTED, _NUMBER = range(6)


@dataclass(slots=True)
class Seen:
    """The past of an instrument."""

    trades: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=TAPE))
    told: int = 0
    """How often something was told of its trades."""
    volume: int = 0
    last: int | None = None
    first: int | None = None
    side: int = 0
    path: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_PATH))
    imbalances: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_PATH))
    _past: deque[tuple[list[Any], bool]] = field(default_factory=lambda: deque(maxlen=_PAST))
    """Trades, and whether they make the last price."""

    def traded(self, event: TradeDone, base: int) -> None:
        """A trade was published; times count from ``base``."""
        if event.price is None:
            return
        # The feed does not tell who was the aggressor in the trade itself: a price above the last
        # one counts as bought, one below as sold, the same as the trade before.
        if self.last is not None and event.price != self.last:
            self.side = 1 if event.price > self.last else -1
        self.last = event.price
        self.first = event.price if self.first is None else self.first
        if not event.corrects:
            self.volume += event.size
        self.told += 1
        row = [event.sending_ns - base, event.price, event.size, self.side, None,
               event.trade_id, event.buyer, event.seller]  # fmt: skip
        self.trades.append(row)
        self._past.append((row, event.makes_last))

    def busted(self, event: TradeBusted, base: int) -> None:
        """A trade was cancelled."""
        self.told += 1
        for trade, _ in self._past:
            if trade[_NUMBER] == event.trade_id:
                trade[_BUSTED] = event.sending_ns - base

    def bars(self, length_ns: int) -> list[list[Any]]:
        """Start, open, high, low, close and volume; as in the table ``bars`` of a lake.

        Trades that were busted are left out, and a correction counts at the time of its trade.
        """
        counted: dict[int, tuple[int, list[Any], bool]] = {}
        for trade, makes_last in self._past:
            if trade[_BUSTED] is not None:
                counted.pop(trade[_NUMBER], None)
                continue
            known = counted.get(trade[_NUMBER])
            counted[trade[_NUMBER]] = (known[0] if known else trade[_AT], trade, makes_last)
        found: dict[int, list[Any]] = {}
        for at, trade, makes_last in counted.values():
            start = at // length_ns * length_ns
            bar = found.setdefault(start, [start, None, None, None, None, 0])
            bar[5] += trade[_SIZE]
            if makes_last:
                price = trade[_PRICE]
                bar[1] = price if bar[1] is None else bar[1]
                bar[2] = price if bar[2] is None else max(bar[2], price)
                bar[3] = price if bar[3] is None else min(bar[3], price)
                bar[4] = price
        return [found[start] for start in sorted(found)]
