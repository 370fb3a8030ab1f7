"""Feeds A and B arbitrated, gaps recovered, events: python examples/follow_channel.py FOLDER."""

import sys

import pregao
from pregao.events import BookHealed, BookStale, GapFound, TradeDone

counts = dict.fromkeys((TradeDone, GapFound, BookStale, BookHealed), 0)
for item in pregao.follow(sys.argv[1], kinds=tuple(counts)):
    counts[type(item.event)] += 1
for kind, count in counts.items():
    print(f"{count:>8,} {kind.__name__}")
