"""Views over the tables of a lake, which add symbols, timestamps, flag names and trading phases.

Each view is defined once, from the columns of its table; SQL for DuckDB and Spark and Polars lazy
frames are generated from that definition.
"""
