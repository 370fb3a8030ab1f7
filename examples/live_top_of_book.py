"""The best bid and ask whenever they change: python examples/live_top_of_book.py CONFIG SYMBOL…"""

import asyncio
import sys

from pregao import Live
from pregao.live import BookRefresh, ItemsMissed, LiveEvent


def shown(level):
    """A level as text."""
    if level is None:
        return "nothing"
    return f"{level.size:,} at {'market' if level.price is None else level.price}"


async def main(config, symbols):
    """Print what the top of each book has become."""
    last = {}
    async for item in Live(config, symbols=symbols or None, depth=1):
        match item:
            case ItemsMissed(count):
                print(f"too slow: {count:,} events were missed, fresh books follow")
            case LiveEvent(symbol=symbol, book=book) | BookRefresh(symbol=symbol, book=book) if (
                book
            ):
                top = (shown(book.best_bid), shown(book.best_ask), book.state.name.lower())
                if last.get(symbol) != top:
                    last[symbol] = top
                    print(f"{symbol}: bid {top[0]}, ask {top[1]} ({top[2]})", flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
