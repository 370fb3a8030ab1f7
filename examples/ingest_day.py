"""Captures into a lake, in this process: python examples/ingest_day.py FOLDER LAKE."""

import sys

import pregao

report = pregao.Lake(sys.argv[2]).ingest(sys.argv[1])
print(report["packets"])
