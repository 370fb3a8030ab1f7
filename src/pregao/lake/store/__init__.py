"""The store of a lake: Delta tables at a location, and units of files committed exactly once.

It is independent of the contents of the tables.
"""

from pregao.lake.store.commits import until_committed
from pregao.lake.store.compaction import (
    TARGET_BYTES,
    Compacted,
    Layout,
    compact_intents,
    compact_table,
)
from pregao.lake.store.datasets import dataset
from pregao.lake.store.delta_tables import (
    LakeTable,
    add_action,
    arrow_schema,
    change_table,
    comment_of,
    commit_changes,
    remove_action,
    replace_columns,
    replace_partition,
    visible_files,
)
from pregao.lake.store.file_statistics import INDEXED_COLUMNS, Bounds, bounds_of, stats_json
from pregao.lake.store.flat_parquet import FlatRows, open_flat
from pregao.lake.store.intents import NAME as INTENTS
from pregao.lake.store.lake import STAGING, Lake
from pregao.lake.store.location import FileEntry, Location, unique_name
from pregao.lake.store.parquet import (
    ROW_GROUP,
    Written,
    iso,
    new_file,
    number_of,
    stored_schema,
    stored_type,
    table_writer,
    write_table,
)
from pregao.lake.store.replacing import count_replaced
from pregao.lake.store.table_paths import check_links
from pregao.lake.store.unit import DATE, CommitResult, NewFile, Replaced, TableSpec, Unit
from pregao.lake.store.vacuum import Vacuumed, vacuum

__all__ = [
    "DATE",
    "INDEXED_COLUMNS",
    "INTENTS",
    "ROW_GROUP",
    "STAGING",
    "TARGET_BYTES",
    "Bounds",
    "CommitResult",
    "Compacted",
    "FileEntry",
    "FlatRows",
    "Lake",
    "LakeTable",
    "Layout",
    "Location",
    "NewFile",
    "Replaced",
    "TableSpec",
    "Unit",
    "Vacuumed",
    "Written",
    "add_action",
    "arrow_schema",
    "bounds_of",
    "change_table",
    "check_links",
    "comment_of",
    "commit_changes",
    "compact_intents",
    "compact_table",
    "count_replaced",
    "dataset",
    "iso",
    "new_file",
    "number_of",
    "open_flat",
    "remove_action",
    "replace_columns",
    "replace_partition",
    "stats_json",
    "stored_schema",
    "stored_type",
    "table_writer",
    "unique_name",
    "until_committed",
    "vacuum",
    "visible_files",
    "write_table",
]
