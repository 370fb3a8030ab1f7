"""Bytes by channel and feed, with Polars: python examples/query_polars.py LAKE."""

import sys

import polars as pl

packets = pl.scan_delta(f"{sys.argv[1]}/packets")
sizes = (
    packets.group_by("channel", "feed")
    .agg(pl.len().alias("packets"), pl.col("size").sum().alias("bytes"))
    .sort("channel", "feed")
)
print(sizes.collect())
