"""Delta tables with deltalake: load, create once, add columns, commit exactly once, scan.

`dataset` gives each file of a table the column bounds from the table's log. The table library has
such datasets too, but treats a column without bounds in the log as one without values: a filter on
such a column finds nothing. The properties of tables (`settings_of`) keep their logs cheap to load
after years of commits.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from pregao.errors import UsageError
from pregao.lake.storage.commit_unit import DATE, NewFile, TableSpec
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.local_files import (
    check_links,
    check_paths,
    has_exited,
    own_name,
    shown_name,
)
from pregao.lake.storage.local_log import check_log

_BOUNDED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
)

_RETENTION = "delta.setTransactionRetentionDuration"
_STATISTICS = "delta.dataSkippingStatsColumns"

_ATTEMPTS = 60
_MAX_WAIT_S = 0.5
_AT_ONCE = 4
LEASE_MS = 30_000
"""Maximum wait for a process that announced a table's creation and may have exited."""
_ANNOUNCEMENTS = 200
"""Number of entries of the register's history that are searched for announcements."""
_SILENT_WAITS = 20
"""Number of checks, 50 ms apart, before a warning is logged."""
_CREATOR, _CREATES = "pregao.creator", "pregao.creates"
_log = logging.getLogger("pregao.lake")

Result = TypeVar("Result")
FileChange = AddAction | RemoveAction


# --- Datasets and properties ---


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


def settings_of(spec: TableSpec) -> dict[str, str]:
    """Return the properties of a table, under Delta's names."""
    settings = {
        # Loading a table reads the log since the last checkpoint; most commands load many tables.
        # Writing a checkpoint takes as long as reading a hundred commits.
        "delta.checkpointInterval": "30",
        # Bounds as columns: a table with a thousand files loads in half the time than with JSON.
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
        # Marks have no time and are kept; retired ones have the earliest time, so that they expire.
        _RETENTION: "interval 3650 days",
    }
    if spec.passing:
        # By default, a log keeps entries of replaced files for a week.
        settings["delta.deletedFileRetentionDuration"] = "interval 0 hours"
    if spec.statistics:
        settings[_STATISTICS] = ",".join(spec.statistics)
    return settings


def bounded_columns(settings: dict[str, str]) -> list[str] | None:
    """Return the columns with bounds in a table's log; None for the leading ones."""
    named = settings.get(_STATISTICS)
    return named.split(",") if named else None


def mark(name: str, version: int) -> Transaction:
    """Return an application transaction: a name with a version that a table's log keeps."""
    return Transaction(name, version)


def retired_mark(name: str) -> Transaction:
    """Return a transaction that removes a name: lookups and the next checkpoint omit it."""
    return Transaction(name, 1, 0)


# --- Tables ---


class LakeTable(DeltaTable):
    """A Delta table whose files pyarrow reads directly.

    The library's datasets call Python code from pyarrow threads: a thread that is still running at
    interpreter exit crashes the process. They also return wrong results if the log has no bounds of
    a column; see `delta`.
    """

    def __init__(self, location: Location) -> None:
        if location.is_local:
            check_log(location.uri)
        super().__init__(location.delta_uri, storage_options=location.storage_options or None)
        self._location = location

    def get_add_actions(self, flatten: bool = False) -> Any:
        """Return the log's entries of the table's files; see `DeltaTable.get_add_actions`.

        All lists of files come from here. Paths that lead out of the table's folder are rejected.
        """
        found = super().get_add_actions(flatten)
        check_paths(self._location, pa.RecordBatchReader.from_stream(found).read_all()["path"])
        return found

    def to_pyarrow_dataset(self, *args: Any, **options: Any) -> Any:
        """Return the table as a dataset; see `DeltaTable.to_pyarrow_dataset`."""
        files = visible_files(self)
        if not any(value is not None for value in (*args, *options.values())):
            return dataset(self._location, arrow_schema(self), files)
        check_links(self._location, files["path"].to_pylist())
        return super().to_pyarrow_dataset(*args, **options)


def load(location: Location) -> LakeTable | None:
    """Load the current version of a table; return None if it does not exist."""
    try:
        return LakeTable(location)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        reason = location.redacted(_words(error))
        raise UsageError(f"{location} cannot be read as a table: {reason}") from location.cause(
            error
        )


def load_existing(location: Location) -> LakeTable:
    """Load the current version of a table; raise UsageError if it does not exist."""
    table = load(location)
    if table is None:
        raise UsageError(f"{location} is not a table of a lake.")
    return table


def change_table(
    location: Location, work: Callable[[LakeTable], Result], table: LakeTable | None = None
) -> Result:
    """Run ``work``, which commits to a table; reload and retry if another process commits first.

    Only such conflicts are retried, which the library reports as CommitFailedError. Other errors (a
    full disk, a missing permission) raise UsageError immediately. A loaded ``table`` is used for
    the first attempt.
    """
    conflict: CommitFailedError | None = None
    for attempt in range(_ATTEMPTS):
        current = load_existing(location) if table is None or attempt else table
        try:
            return work(current)
        except CommitFailedError as error:
            conflict = error
        except (DeltaError, OSError) as error:
            reason = location.redacted(_words(error))
            raise UsageError(f"{location} cannot be written: {reason}") from location.cause(error)
        pause = min(_MAX_WAIT_S, 0.005 * 2**attempt)
        time.sleep(pause * random.random())  # noqa: S311 - only spreads the pauses
    raise UsageError(
        f"{location}: other processes keep changing this table; try again when they have finished."
    ) from conflict


def commit_changes(
    table: LakeTable,
    changes: Sequence[FileChange],
    marks: Mapping[str, int] | None = None,
    remarks: Mapping[str, str] | None = None,
    retired: Iterable[str] = (),
) -> None:
    """Commit file changes in one transaction with marks: application IDs with a version each.

    The library rejects a mark that another process has committed since the table was loaded; it
    does not always reject the removal of a file that another process removes concurrently. So all
    transactions with removals also share one mark. Remarks are stored in the table's history and
    ignored by the library. ``retired`` marks are removed.
    """
    names = [mark(name, version) for name, version in (marks or {}).items()]
    names += [retired_mark(name) for name in retired]
    if any(isinstance(change, RemoveAction) for change in changes):
        names.append(mark("replace", _now_ms()))
    table.create_write_transaction(
        list(changes),
        "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=CommitProperties(
            app_transactions=names, custom_metadata=dict(remarks or {}) or None
        ),
        # Searching for old commits after each new one takes longer than the commit: `vacuum` does.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )


def append_once(
    location: Location,
    ids: Sequence[str],
    adds: Sequence[AddAction],
    table: LakeTable | None = None,
    is_open: Callable[[], bool] | None = None,
) -> list[str]:
    """Append in one transaction with these IDs, unless the table already has one of them.

    Returns the IDs that it had; none means that the files were appended. IDs are looked up and
    committed on the same handle: only then does the library reject an ID that another process
    commits in between. See also `change_once`.
    """
    return change_once(location, ids, lambda _table: adds, table, is_open)


def change_once(
    location: Location,
    ids: Sequence[str],
    changes: Callable[[LakeTable], Sequence[FileChange]],
    table: LakeTable | None = None,
    is_open: Callable[[], bool] | None = None,
) -> list[str]:
    """Commit changes computed from the current table with these IDs, unless it has one of them.

    Returns the IDs that it had. IDs are retired some time after their commit, so that a missing one
    may have been committed: ``is_open`` returns whether these are not retired, and is called after
    the table is loaded. A caller that passes a ``table`` must have called it since loading.
    """

    def change(current: LakeTable) -> list[str]:
        present = [name for name in ids if current.transaction_version(name) is not None]
        if not present and current is not table and is_open is not None and not is_open():
            return list(ids)
        if not present:
            commit_changes(current, changes(current), dict.fromkeys(ids, 1))
        return present

    return change_table(location, change, table)


def replace_files(
    location: Location,
    removals: Sequence[RemoveAction],
    adds: Sequence[AddAction],
    retired: Sequence[str] = (),
) -> bool:
    """Replace files by others with the same rows; return False if they no longer exist.

    ``retired`` marks are removed in the same transaction.
    """
    replaced = {removal.path for removal in removals}

    def replace(table: LakeTable) -> bool:
        present = replaced <= set(visible_files(table)["path"].to_pylist())
        if present:
            commit_changes(table, [*removals, *adds], retired=retired)
        return present

    return change_table(location, replace)


def replace_partition(
    location: Location, day: date, files: Sequence[NewFile], marks: Mapping[str, int]
) -> None:
    """Replace all files of a day in one transaction with marks."""
    adds = [add_action(file) for file in files]

    def replace(table: LakeTable) -> None:
        shown = [
            action
            for action in visible_files(table).to_pylist()
            if action[f"partition.{DATE}"] == day
        ]
        removals = [remove_action(action["path"], action["size_bytes"], day) for action in shown]
        commit_changes(table, [*removals, *adds], marks)

    change_table(location, replace)


def visible_files(table: DeltaTable) -> Any:
    """Return the log's entries of a table's visible files, as an Arrow table."""
    # Not pa.table(…), which imports pandas: a quarter of a second.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()


def add_action(file: NewFile, *, data_change: bool = True) -> AddAction:
    """Return the log entry that adds a file."""
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(file.partition),
        modification_time=_now_ms(),
        data_change=data_change,
        stats=file.stats,
    )


def remove_action(
    path: str, size: int, day: date | None = None, *, data_change: bool = True
) -> RemoveAction:
    """Return the log entry that removes a file; ``day`` is its partition."""
    partition: dict[str, str | None] | None = None if day is None else {DATE: day.isoformat()}
    return RemoveAction(path, data_change, _now_ms(), size, partition)


def create(location: Location, spec: TableSpec) -> None:
    """Create a table if it does not exist.

    If two processes call this concurrently, the library may write the table's metadata twice, which
    would undo a schema change made in between: see `create_once`.
    """
    try:
        DeltaTable.create(
            location.delta_uri,
            Schema.from_arrow(spec.schema),
            mode="ignore",
            partition_by=list(spec.partition_by),
            name=spec.name,
            description=spec.description or None,
            configuration=settings_of(spec),
            storage_options=location.storage_options or None,
        )
    except CommitFailedError:
        load_existing(location)
    except (DeltaError, OSError) as error:
        reason = location.redacted(_words(error))
        raise UsageError(f"{location} cannot be created: {reason}") from location.cause(error)


def create_once(register: Location, specs: Iterable[tuple[Location, TableSpec]]) -> None:
    """Create missing tables, each by a single process.

    The first process to announce a table in the register (an existing table) creates it. Others
    wait until it exists, until the announcing process has exited or, if that cannot be determined,
    until the announcement is older than `LEASE_MS`.
    """
    waits = 0
    missing = [(location, spec) for location, spec in specs if load(location) is None]
    while missing:
        mine = _announce(register, [spec.name for _, spec in missing])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            creations = [pool.submit(create, *item) for item in missing if item[1].name in mine]
            for each in creations:
                each.result()
        missing = [
            (location, spec)
            for location, spec in missing
            if spec.name not in mine and load(location) is None
        ]
        if missing:
            waits += 1
            if waits == _SILENT_WAITS:
                _log.warning(_waiting(register, [spec.name for _, spec in missing]))
            time.sleep(0.05)


def upgrade_schema(location: Location, spec: TableSpec) -> None:
    """Add missing columns, members of nested columns, and properties to a table.

    Raises UsageError if a column exists with another type.
    """
    declared = Schema.from_arrow(spec.schema)
    settings = settings_of(spec)
    types = {field.name: field.type for field in pa.schema(declared.to_arrow())}

    def widen(table: LakeTable) -> None:
        existing = {field.name: field.type for field in arrow_schema(table)}
        lacking = {name for name, kind in types.items() if name not in existing}
        for name in types.keys() & existing.keys():
            if not _compatible(existing[name], types[name]):
                raise UsageError(
                    f"{location}: the column {name} is {existing[name]} and cannot become "
                    f"{types[name]}; ingest into a new lake."
                )
            if _lacks(existing[name], types[name]):
                lacking.add(name)
        if lacking:
            table.alter.add_columns([field for field in declared.fields if field.name in lacking])
        properties = table.metadata().configuration
        if changed := {
            name: value for name, value in settings.items() if properties.get(name) != value
        }:
            table.alter.set_table_properties(changed)

    change_table(location, widen)


def replace_columns(location: Location, spec: TableSpec, marks: Mapping[str, int]) -> None:
    """Remove all rows of a table and give it the columns of its spec, as one transaction."""
    rows = pa.schema(Schema.from_arrow(spec.schema).to_arrow()).empty_table()

    def replace(table: LakeTable) -> None:
        write_deltalake(
            table,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=list(spec.partition_by),
            commit_properties=CommitProperties(
                app_transactions=[
                    mark("replace", _now_ms()),
                    *(mark(name, version) for name, version in marks.items()),
                ]
            ),
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )

    change_table(location, replace)


def arrow_schema(table: DeltaTable) -> Any:
    """Return the declared schema, with comments in the fields' metadata."""
    return pa.schema(table.schema().to_arrow())


_SQL_NAMES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "bool": "boolean",
}


def type_name(kind: Any) -> str:
    """Return the SQL name of an Arrow type."""
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        members = ",".join(f"{member.name}:{type_name(member.type)}" for member in kind)
        return f"struct<{members}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SQL_NAMES.get(str(kind), str(kind))


def comment_of(field: Any) -> str:
    """Return the comment of a column."""
    found: bytes = (field.metadata or {}).get(b"comment", b"")
    return found.decode()


def _announce(register: Location, names: Sequence[str]) -> set[str]:
    """Announce and return the tables that this process must create.

    These are tables without an announcement, with an expired one, or with one of a process that has
    exited.
    """

    def announce(table: LakeTable) -> set[str]:
        now = _now_ms()
        times = {name: table.transaction_version(f"create:{name}") for name in names}
        fresh = {
            name for name, when in times.items() if when is not None and now - when <= LEASE_MS
        }
        owners = _announcers(table, fresh) if fresh else {}
        claimed = {name for name in fresh if name not in owners or not has_exited(owners[name])}
        mine = set(names) - claimed
        if mine:
            marks = {f"create:{name}": now for name in sorted(mine)}
            remarks = {_CREATOR: own_name(), _CREATES: " ".join(sorted(mine))}
            commit_changes(table, [], marks, remarks)
        return mine

    return change_table(register, announce)


def _announcers(table: LakeTable, names: set[str]) -> dict[str, str]:
    """Return the last process that announced each table, if the history has it."""
    found: dict[str, str] = {}
    for entry in table.history(_ANNOUNCEMENTS):
        for name in names.intersection(str(entry.get(_CREATES, "")).split()):
            found.setdefault(name, str(entry[_CREATOR]))
    return found


def _waiting(register: Location, names: Sequence[str]) -> str:
    """Return the warning that names the awaited process and the maximum wait."""
    owners = _announcers(load_existing(register), set(names))
    who = ", ".join(sorted({shown_name(owner) for owner in owners.values()})) or "another process"
    which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return (
        f"waiting for {who}, which is creating the tables {which} of {register.parent}; "
        f"at most {LEASE_MS // 1000} s if it has exited"
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _compatible(there: Any, wanted: Any) -> bool:
    """Whether a column of one type can have values of the other after adding members."""
    if pa.types.is_struct(there) and pa.types.is_struct(wanted):
        members = {member.name: member.type for member in there}
        return all(
            member.name not in members or _compatible(members[member.name], member.type)
            for member in wanted
        )
    if pa.types.is_list(there) and pa.types.is_list(wanted):
        return _compatible(there.value_type, wanted.value_type)
    return bool(there == wanted)


def _lacks(there: Any, wanted: Any) -> bool:
    """Whether a nested column lacks members."""
    if pa.types.is_list(wanted):
        return _lacks(there.value_type, wanted.value_type)
    if not pa.types.is_struct(wanted):
        return False
    members = {member.name: member.type for member in there}
    return any(
        member.name not in members or _lacks(members[member.name], member.type) for member in wanted
    )


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
