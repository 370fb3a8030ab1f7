"""Simulate a trading day: python examples/simulate_day.py FOLDER."""

import sys

import pregao

summary = pregao.simulate(sys.argv[1], seed=1, instruments=4, messages=2000, duration="3m")
print(f"{summary['messages']:,} messages in {sys.argv[1]}; the true books are in truth/")
