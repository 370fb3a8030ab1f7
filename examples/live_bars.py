"""Bars of trades as they happen: python examples/live_bars.py CONFIG SECONDS SYMBOL…"""

import asyncio
import sys
from dataclasses import dataclass
from decimal import Decimal

from pregao import Live
from pregao.clock import SECOND, format_ns
from pregao.events import TradeDone
from pregao.live import ItemsMissed


@dataclass
class Bar:
    """Trades in a span of time."""

    begin_ns: int
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int = 0

    def add(self, price, size):
        """Take a trade in."""
        self.high, self.low = max(self.high, price), min(self.low, price)
        self.close = price
        self.volume += size


async def main(config, seconds, symbols):
    """Print a bar when the next one of its instrument begins."""
    bars = {}
    async for item in Live(config, symbols=symbols or None, kinds=(TradeDone,)):
        if isinstance(item, ItemsMissed):
            print(f"too slow: {item.count:,} trades were missed")
        elif isinstance(item.event, TradeDone) and not item.event.corrects:
            trade = item.event
            begin = trade.sending_ns - trade.sending_ns % (seconds * SECOND)
            price = trade.price
            bar = bars.get(item.symbol)
            if bar is None or bar.begin_ns != begin:
                if bar is not None:
                    print(f"{item.symbol} {format_ns(bar.begin_ns)[:19]} {bar}", flush=True)
                bar = bars[item.symbol] = Bar(begin, price, price, price, price)
            bar.add(price, trade.size)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
