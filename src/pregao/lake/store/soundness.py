"""Are the files of a lake what its tables say? Their footers tell, no rows are read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.errors import UsageError
from pregao.lake.store.lake import Lake
from pregao.lake.store.location import Location


def unsound(lake: Lake) -> list[str]:
    """What does not hold, a sentence each: units left half done, files missing or not as told."""
    faults = [f"the unit {unit} is not complete" for unit in lake.pending()]
    with ThreadPoolExecutor(8) as pool:
        for name in lake.table_names():
            place = lake.table_location(name)
            actions = pa.table(lake.delta(name).get_add_actions(flatten=True)).to_pylist()
            for found in pool.map(lambda action, at=place: list(_file_faults(at, action)), actions):
                faults += found
    return faults


def _file_faults(place: Location, action: dict[str, Any]) -> Iterator[str]:
    file = place.join(action["path"])
    entry = file.info()
    if entry is None:
        yield f"{file} is missing"
        return
    if entry.size != action["size_bytes"]:
        yield f"{file} has {entry.size:,} bytes instead of {action['size_bytes']:,}"
        return
    try:
        with file.open_input() as opened:
            rows = pq.read_metadata(opened).num_rows
    except (UsageError, OSError, pa.ArrowException) as error:
        yield f"{file} cannot be read: {' '.join(str(error).split())[:200]}"
        return
    if rows != action["num_records"]:
        yield f"{file} has {rows:,} rows instead of {action['num_records']:,}"
