"""Delta tables through deltalake: loaded, created once, widened, appended to exactly once."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from pregao.errors import UsageError
from pregao.lake.store.datasets import dataset
from pregao.lake.store.location import Location
from pregao.lake.store.log_depth import check_log
from pregao.lake.store.owners import is_gone, own_name, shown_name
from pregao.lake.store.table_paths import check_links, check_paths
from pregao.lake.store.table_settings import mark, retired_mark, settings_of
from pregao.lake.store.unit import DATE, NewFile, TableSpec

_ATTEMPTS = 60
_LONGEST_WAIT_S = 0.5
_AT_ONCE = 4
LEASE_MS = 30_000
"""For how long one who announced a table's creation is waited for, if it may have ended."""
_ANNOUNCEMENTS = 200
"""How far back in the register's history announcements are looked for."""
_SILENT_WAITS = 20
"""How often one looks again, 50 ms apart, before saying that one waits."""
_CREATOR, _CREATES = "pregao.creator", "pregao.creates"
_log = logging.getLogger("pregao.lake")


class LakeTable(DeltaTable):
    """A Delta table whose files pyarrow reads by itself.

    The library's own way leads through Python code in threads of pyarrow; one that is still at
    work when the interpreter ends brings the whole process down. And it gives wrong answers where
    the log has no bounds of a column; see `datasets`.
    """

    def __init__(self, location: Location) -> None:
        if location.is_local:
            check_log(location.uri)
        super().__init__(location.delta_uri, storage_options=location.storage_options or None)
        self._location = location

    def get_add_actions(self, flatten: bool = False) -> Any:
        """What the log says of the table's files; see `DeltaTable.get_add_actions`.

        All lists of files come from here. Paths that lead out of the table are an error.
        """
        found = super().get_add_actions(flatten)
        check_paths(self._location, pa.RecordBatchReader.from_stream(found).read_all()["path"])
        return found

    def to_pyarrow_dataset(self, *args: Any, **options: Any) -> Any:
        """The table as a dataset; see `DeltaTable.to_pyarrow_dataset`."""
        files = visible_files(self)
        if not any(value is not None for value in (*args, *options.values())):
            return dataset(self._location, arrow_schema(self), files)
        check_links(self._location, files["path"].to_pylist())
        return super().to_pyarrow_dataset(*args, **options)


def load(location: Location) -> LakeTable | None:
    """The table as it is now; None if there is none."""
    try:
        return LakeTable(location)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        told = location.redacted(_words(error))
        raise UsageError(f"{location} cannot be read as a table: {told}") from location.cause(error)


def load_existing(location: Location) -> LakeTable:
    """The table as it is now; that there is none is an error."""
    table = load(location)
    if table is None:
        raise UsageError(f"{location} is not a table of a lake.")
    return table


Result = TypeVar("Result")
Change = AddAction | RemoveAction


def change_table(
    location: Location, work: Callable[[LakeTable], Result], table: LakeTable | None = None
) -> Result:
    """Let work look at a table and commit to it; again, as the table is then, if it lost a race.

    Only a race that was lost against another process is run again, which is what the library means
    by a failed commit. All else that goes wrong (a full disk, a missing permission) is told at
    once. A ``table`` that is loaded already serves the first attempt.
    """
    lost: CommitFailedError | None = None
    for attempt in range(_ATTEMPTS):
        current = load_existing(location) if table is None or attempt else table
        try:
            return work(current)
        except CommitFailedError as error:
            lost = error
        except (DeltaError, OSError) as error:
            told = location.redacted(_words(error))
            raise UsageError(f"{location} cannot be written: {told}") from location.cause(error)
        pause = min(_LONGEST_WAIT_S, 0.005 * 2**attempt)
        time.sleep(pause * random.random())  # noqa: S311 - only spreads the pauses
    raise UsageError(
        f"{location}: other processes keep changing this table; try again when they are done."
    ) from lost


def commit_changes(
    table: LakeTable,
    changes: Sequence[Change],
    marks: Mapping[str, int] | None = None,
    remarks: Mapping[str, str] | None = None,
    retired: Iterable[str] = (),
) -> None:
    """Commit changes of files as one transaction that carries marks: names with a version each.

    The library refuses a mark that another process commits in between, if the table was loaded
    before; it does not always refuse to remove a file that another removes in the same moment. So
    all transactions with removals carry one and the same mark besides. Remarks are kept in the
    table's history and mean nothing to the library. Marks that are ``retired`` are forgotten.
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
        # To look for old commits after each new one takes longer than the commit: `vacuum` does it.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )


def append_once(
    location: Location,
    ids: Sequence[str],
    adds: Sequence[AddAction],
    table: LakeTable | None = None,
    is_open: Callable[[], bool] | None = None,
) -> list[str]:
    """Append in one transaction that carries these ids, unless one of them is there already.

    Gives the ids that were there; none means that the append was done now. The ids are looked up
    and committed on one and the same handle: only then does the library refuse an id that another
    process commits in between. For the rest see `change_once`.
    """
    return change_once(location, ids, lambda _table: adds, table, is_open)


def change_once(
    location: Location,
    ids: Sequence[str],
    changes: Callable[[LakeTable], Sequence[Change]],
    table: LakeTable | None = None,
    is_open: Callable[[], bool] | None = None,
) -> list[str]:
    """The same for changes that depend on the table as it is in that moment.

    Ids are retired some time after they were committed, so that one which is not there may have
    been: ``is_open`` tells whether these are not retired. It is asked after the table was loaded.
    Whoever hands over a ``table`` has asked since it was loaded.
    """

    def change(current: LakeTable) -> list[str]:
        there = [name for name in ids if current.transaction_version(name) is not None]
        if not there and current is not table and is_open is not None and not is_open():
            return list(ids)
        if not there:
            commit_changes(current, changes(current), dict.fromkeys(ids, 1))
        return there

    return change_table(location, change, table)


def replace_files(
    location: Location,
    removals: Sequence[RemoveAction],
    adds: Sequence[AddAction],
    retired: Sequence[str] = (),
) -> bool:
    """Put files in the place of others that hold the same rows; False if those are gone.

    Marks that are ``retired`` are forgotten in the same transaction.
    """
    wanted = {removal.path for removal in removals}

    def replace(table: LakeTable) -> bool:
        there = wanted <= set(visible_files(table)["path"].to_pylist())
        if there:
            commit_changes(table, [*removals, *adds], retired=retired)
        return there

    return change_table(location, replace)


def replace_partition(
    location: Location, day: date, files: Sequence[NewFile], marks: Mapping[str, int]
) -> None:
    """Put files in the place of all that a table shows of a day, as one transaction with marks."""
    adds = [add_action(file) for file in files]

    def replace(table: LakeTable) -> None:
        shown = [
            action
            for action in visible_files(table).to_pylist()
            if action[f"partition.{DATE}"] == day
        ]
        gone = [remove_action(action["path"], action["size_bytes"], day) for action in shown]
        commit_changes(table, [*gone, *adds], marks)

    change_table(location, replace)


def visible_files(table: DeltaTable) -> Any:
    """The files that a table shows, with what its log says of them, as an Arrow table."""
    # Not pa.table(…): that brings pandas along, a quarter of a second.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()


def add_action(file: NewFile, *, data_change: bool = True) -> AddAction:
    """What a table's log says of a file."""
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
    """What a table's log says of a file that it no longer shows; ``day`` is its partition."""
    partition: dict[str, str | None] | None = None if day is None else {DATE: day.isoformat()}
    return RemoveAction(path, data_change, _now_ms(), size, partition)


def create(location: Location, spec: TableSpec) -> None:
    """Create a table, if it is not there.

    Called by two processes in the same moment, the library may write the description of the table
    twice, which would undo a change of columns made in between: see `create_once`.
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
        told = location.redacted(_words(error))
        raise UsageError(f"{location} cannot be made: {told}") from location.cause(error)


def create_once(register: Location, specs: Iterable[tuple[Location, TableSpec]]) -> None:
    """Create the tables that are not there, each by one process alone.

    Whoever is first to announce a table in the register (a table that exists) creates it; others
    wait until it is there, until the process that announced it has ended, or, where that cannot be
    known, until the announcement is too old to be of a living process.
    """
    waits = 0
    missing = [(place, spec) for place, spec in specs if load(place) is None]
    while missing:
        mine = _announce(register, [spec.name for _, spec in missing])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            made = [pool.submit(create, *item) for item in missing if item[1].name in mine]
            for each in made:
                each.result()
        missing = [
            (place, spec)
            for place, spec in missing
            if spec.name not in mine and load(place) is None
        ]
        if missing:
            waits += 1
            if waits == _SILENT_WAITS:
                _log.warning(_waiting(register, [spec.name for _, spec in missing]))
            time.sleep(0.05)


def bring_up_to_date(location: Location, spec: TableSpec) -> None:
    """Add the columns (and members of nested columns) and the settings that a table lacks.

    A column that is there with another type is an error.
    """
    wanted = Schema.from_arrow(spec.schema)
    settings = settings_of(spec)
    types = {field.name: field.type for field in pa.schema(wanted.to_arrow())}

    def widen(table: LakeTable) -> None:
        known = {field.name: field.type for field in arrow_schema(table)}
        lacking = {name for name, kind in types.items() if name not in known}
        for name in types.keys() & known.keys():
            if not _compatible(known[name], types[name]):
                raise UsageError(
                    f"{location}: the column {name} is {known[name]} and cannot become "
                    f"{types[name]}; ingest into a new lake."
                )
            if _lacks(known[name], types[name]):
                lacking.add(name)
        if lacking:
            table.alter.add_columns([field for field in wanted.fields if field.name in lacking])
        there = table.metadata().configuration
        if other := {name: value for name, value in settings.items() if there.get(name) != value}:
            table.alter.set_table_properties(other)

    change_table(location, widen)


def arrow_schema(table: DeltaTable) -> Any:
    """The declared schema, with comments in the fields' metadata."""
    return pa.schema(table.schema().to_arrow())


def comment_of(field: Any) -> str:
    """What a column means, as its table declares it."""
    found: bytes = (field.metadata or {}).get(b"comment", b"")
    return found.decode()


def _announce(register: Location, names: Sequence[str]) -> set[str]:
    """The tables that this process is to create.

    They were announced by nobody, too long ago, or by a process that has ended since.
    """

    def announce(table: LakeTable) -> set[str]:
        now = _now_ms()
        said = {name: table.transaction_version(f"create:{name}") for name in names}
        fresh = {name for name, when in said.items() if when is not None and now - when <= LEASE_MS}
        owners = _announcers(table, fresh) if fresh else {}
        held = {name for name in fresh if name not in owners or not is_gone(owners[name])}
        mine = set(names) - held
        if mine:
            marks = {f"create:{name}": now for name in sorted(mine)}
            remarks = {_CREATOR: own_name(), _CREATES: " ".join(sorted(mine))}
            commit_changes(table, [], marks, remarks)
        return mine

    return change_table(register, announce)


def _announcers(table: LakeTable, names: set[str]) -> dict[str, str]:
    """Which process announced each of these tables last, as far as the history tells."""
    found: dict[str, str] = {}
    for entry in table.history(_ANNOUNCEMENTS):
        for name in names.intersection(str(entry.get(_CREATES, "")).split()):
            found.setdefault(name, str(entry[_CREATOR]))
    return found


def _waiting(register: Location, names: Sequence[str]) -> str:
    """What is waited for, and for how long at most."""
    owners = _announcers(load_existing(register), set(names))
    who = ", ".join(sorted({shown_name(owner) for owner in owners.values()})) or "another process"
    which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return (
        f"waiting for {who}, which is making the tables {which} of {register.parent}; "
        f"at most {LEASE_MS // 1000} s if it has ended"
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _compatible(there: Any, wanted: Any) -> bool:
    """Can a column of one type take values of the other, if members are added to it?"""
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
    """Does a nested column lack members?"""
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
