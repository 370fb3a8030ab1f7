"""The five busiest seconds, with DuckDB: python examples/query_duckdb.py LAKE."""

import sys

import duckdb

from pregao.lake.storage.lake_store import LakeStore

packets = LakeStore(sys.argv[1]).delta("packets").to_pyarrow_dataset()
busiest = duckdb.sql(
    """
    SELECT make_timestamp_ns(capture_time_ns // 1000000000 * 1000000000) AS second,
           count(*) AS packets
    FROM packets
    GROUP BY second
    ORDER BY packets DESC, second
    LIMIT 5
    """
)
print(busiest)
