"""The book of an instrument at a moment: python examples/book_at_moment.py LAKE SYMBOL TIME."""

import sys

import pregao

lake, symbol, moment = sys.argv[1:]
print(pregao.Lake(lake).book(symbol, at=moment, tz="America/Sao_Paulo"))
