"""History of an instrument since the page started: trades, bars, auctions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pregao.clock import MINUTE, SECOND
from pregao.feed.channel_events import TradeBusted, TradeDone

TAPE = 200
"""Maximum number of trades on the tape of an instrument."""
_PATH = 900
"""Maximum number of theoretical prices and of imbalances kept."""
_PAST = 20_000
"""Maximum number of trades kept for bars."""
BARS = {"1s": SECOND, "5s": 5 * SECOND, "1m": MINUTE, "5m": 5 * MINUTE}
"""Available bar lengths."""
_AT, _PRICE, _SIZE, _SIDE, _BUSTED, _NUMBER = range(6)


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
    path: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_PATH))
    imbalances: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_PATH))
    _past: deque[tuple[list[Any], bool]] = field(default_factory=lambda: deque(maxlen=_PAST))
    """Trades, and whether they set the last price."""

    def traded(self, event: TradeDone, base: int) -> None:
        """Add a trade; times are relative to ``base``."""
        if event.price is None:
            return
        # The trade does not state its aggressor, so apply the tick rule: an uptick is a buy, a
        # downtick a sell, and an equal price has the side of the previous trade.
        if self.last is not None and event.price != self.last:
            self.side = 1 if event.price > self.last else -1
        self.last = event.price
        self.first = event.price if self.first is None else self.first
        if not event.corrects:
            self.volume += event.size
        self.published += 1
        row = [event.sending_ns - base, event.price, event.size, self.side, None,
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
        bars_by_start: dict[int, list[Any]] = {}
        for time, trade, makes_last in counted.values():
            start = time // length_ns * length_ns
            bar = bars_by_start.setdefault(start, [start, None, None, None, None, 0])
            bar[5] += trade[_SIZE]
            if makes_last:
                price = trade[_PRICE]
                bar[1] = price if bar[1] is None else bar[1]
                bar[2] = price if bar[2] is None else max(bar[2], price)
                bar[3] = price if bar[3] is None else min(bar[3], price)
                bar[4] = price
        return [bars_by_start[start] for start in sorted(bars_by_start)]
