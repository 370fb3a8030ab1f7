"""DuckDB in this process, with the methods of Spark's DataFrames that our tables use.

Frames and columns are SQL expressions; DuckDB runs them when rows are read. Nulls, windows,
decimals and lists behave as in Spark.
"""
