"""Outcomes of packets, batch by batch, with pyarrow: python examples/query_pyarrow.py LAKE.

Only the columns that are asked for are read, and never more than a batch is in memory.
"""

import sys
from collections import Counter

from pregao.lake.storage.lake_store import LakeStore

packets = LakeStore(sys.argv[1]).delta("packets").to_pyarrow_dataset()
outcomes: Counter[str] = Counter()
for batch in packets.to_batches(columns=["outcome"]):
    for counted in batch.column("outcome").value_counts().to_pylist():
        outcomes[counted["values"]] += counted["counts"]
for outcome, count in outcomes.most_common():
    print(f"{outcome:>10} {count:>12,}")
