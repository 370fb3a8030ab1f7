"""Streaming ingest: ingests the growth of rolling captures into a lake, batch by batch.

Names are imported on first use: following files in this process needs no Spark.
"""
