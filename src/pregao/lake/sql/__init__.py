"""SQL queries on the tables of a lake, run by DuckDB in this process or by Spark.

Only statements that read are accepted. Both engines return a `QueryResult`; they differ only in
their SQL dialect.
"""
