"""How long orders live, by how they end: python examples/order_lifetimes.py LAKE."""

import sys

import pregao

query = """
    SELECT coalesce(end_reason, 'still there') AS ended, count(*) AS orders,
           median(lifetime_ns) / 1e9 AS median_seconds
    FROM orders GROUP BY 1 ORDER BY 2 DESC
"""
for row in pregao.Lake(sys.argv[1]).sql(query).to_pylist():
    print(row)
