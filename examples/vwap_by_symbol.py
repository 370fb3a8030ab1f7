"""Average prices of a lake, by SQL: python examples/vwap_by_symbol.py LAKE."""

import sys

import pregao

query = """
    SELECT symbol, count(*) AS trades, sum(price * size) / sum(size) AS vwap
    FROM trades WHERE NOT busted GROUP BY symbol ORDER BY trades DESC
"""
for row in pregao.Lake(sys.argv[1]).sql(query).to_pylist():
    print(f"{row['symbol']:<10} {row['trades']:>8,} {row['vwap']:>12.4f}")
