"""A chart of the book over time: python examples/plot_book.py LAKE SYMBOL FILE."""

import sys

import pregao

lake, symbol, output = sys.argv[1:]
pregao.plot.heatmap(lake, symbol).savefig(output, dpi=100)
