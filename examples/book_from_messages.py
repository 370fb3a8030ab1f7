"""A book kept up to date from messages: python examples/book_from_messages.py CAPTURE SYMBOL."""

import sys

import pregao

capture, symbol = sys.argv[1:]
book = pregao.Book()
for message in pregao.read(capture, symbol=symbol).messages():
    book.apply(message)
print(book.state.name, len(book.orders), "orders")
print(book)
