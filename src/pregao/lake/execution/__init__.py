"""Lake on Spark: the session, tasks that run on it, tables as views, archives for clusters.

Names are imported on first use: not all of them need PySpark.
"""
