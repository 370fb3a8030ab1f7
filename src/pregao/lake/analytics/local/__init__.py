"""Local engine: DuckDB in this process, with the methods of Spark's DataFrames that our tables use.

Each table is defined once, with PySpark's functions, and `pregao.lake.analytics.engine` selects
their implementation. Local frames and columns are SQL expressions; DuckDB runs them when rows are
read. Differences between the engines are resolved here: nulls, windows, decimals and lists behave
as in Spark.
"""
