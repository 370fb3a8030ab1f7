"""Spark data source ``b3``: captures as rows, complete or still growing.

Names are imported on first use: not all of them need PySpark.
"""
