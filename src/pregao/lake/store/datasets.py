"""Pyarrow datasets of a table's files, each with the column bounds from the table's log.

The table library has such datasets too, but treats a column without bounds in the log as one
without values: a filter on such a column finds nothing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.lake.store.location import Location
from pregao.lake.store.table_paths import check_links
from pregao.lake.store.unit import DATE

_BOUNDED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
)


def dataset(location: Location, declared: Any, actions: Any) -> Any:
    """Return a dataset of a table's files (``actions`` of its log) with the declared columns.

    Files of other days, or without values that match a filter, are not opened.
    """
    # Imported lazily: it imports pandas, which commands that only read do not need.
    import pyarrow.dataset as ds
    import pyarrow.fs

    check_links(location, actions["path"].to_pylist())
    files = pyarrow.fs.SubTreeFileSystem(location.path, location.filesystem)
    format_ = ds.ParquetFileFormat()
    schema = declared.remove_metadata()
    bounded = [
        field
        for field in schema
        if any(is_kind(field.type) for is_kind in _BOUNDED)
        and {f"min.{field.name}", f"max.{field.name}"}.issubset(actions.column_names)
    ]
    dated = f"partition.{DATE}" in actions.column_names
    fragments = []
    for action in actions.to_pylist():
        guarantee = ds.field(DATE) == action[f"partition.{DATE}"] if dated else ds.scalar(True)
        for field in bounded:
            low, high = action[f"min.{field.name}"], action[f"max.{field.name}"]
            if low is not None and high is not None:
                column = ds.field(field.name)
                within = column >= pa.scalar(low, field.type)
                within &= column <= pa.scalar(high, field.type)
                no_nulls = action.get(f"null_count.{field.name}") == 0
                guarantee &= within if no_nulls else within | column.is_null()
        fragments.append(format_.make_fragment(action["path"], files, guarantee))
    return ds.FileSystemDataset(fragments, schema, format_, files)
