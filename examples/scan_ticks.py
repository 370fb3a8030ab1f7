"""A table of any size, in bounded memory: python examples/scan_ticks.py LAKE."""

import sys

import pregao

ticks = spread = 0
scanned = pregao.Lake(sys.argv[1]).scan(
    "ticks", where="symbol = 'PETR4'", columns=["bid_price_1", "ask_price_1"]
)
for batch in scanned:
    for bid, ask in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        if bid is not None and ask is not None:
            ticks, spread = ticks + 1, spread + (ask - bid)
print(f"{ticks:,} ticks, average spread {spread / ticks:.4f}")
