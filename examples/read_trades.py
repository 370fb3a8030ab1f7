"""Trades of captures as an Arrow table: python examples/read_trades.py CAPTURE…"""

import sys

import pregao

trades = pregao.read(*sys.argv[1:]).table("Trade_53")
print(trades.select(["security_id", "md_entry_px", "md_entry_size"]).slice(0, 5).to_pandas())
