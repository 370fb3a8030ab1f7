"""Parquet files of tables of numbers and repeated strings, written and read by kernels."""
