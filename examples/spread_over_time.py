"""The spread after each change of a book: python examples/spread_over_time.py FOLDER SYMBOL."""

import sys

import pregao
from pregao.events import BookChanged

folder, symbol = sys.argv[1:]
last = None
for item in pregao.follow(folder, symbol=symbol, kinds=(BookChanged,)):
    book = item.book
    if book.trusted and book.bids and book.asks:
        bid, ask = book.bids[0].price, book.asks[0].price
        if bid is not None and ask is not None and ask - bid != last:
            last = ask - bid
            print(item.event.sending_ns, last)
