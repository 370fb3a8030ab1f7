"""The captures of a lake, with pandas: python examples/query_pandas.py LAKE."""

import sys

import pandas as pd

from pregao.lake.storage.lake_store import LakeStore

ingests = (
    LakeStore(sys.argv[1])
    .delta("ingests")
    .to_pandas(columns=["name", "packets", "messages", "first_time_ns", "last_time_ns"])
)
for column in ("first_time_ns", "last_time_ns"):
    ingests[column] = pd.to_datetime(ingests[column], unit="ns", utc=True)
print(ingests.sort_values("first_time_ns").to_string(index=False))
