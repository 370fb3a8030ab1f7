"""DuckDB in this process with the methods of Spark's DataFrames: as many as our tables need.

Each table is stated once, in the words of PySpark, and `pregao.lake.analytics.engine` says whose
words these are. Frames and columns here are texts of SQL; DuckDB runs them when rows are asked for.
What differs between the engines is settled here: nulls, windows, decimals and lists are Spark's.
"""

from pregao.lake.analytics.here.frames import Frame
from pregao.lake.analytics.here.session import HereSession

__all__ = ["Frame", "HereSession"]
