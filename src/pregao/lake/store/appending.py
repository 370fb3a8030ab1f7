"""Files appended to a table exactly once, with as little of the table loaded as will do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import DeltaError

from pregao.errors import UsageError
from pregao.lake.store.delta_tables import (
    LakeTable,
    add_action,
    append_once,
    arrow_schema,
    load_existing,
)
from pregao.lake.store.local_log import LocalLog, read_log
from pregao.lake.store.location import Location
from pregao.lake.store.unit import NewFile

_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class Target:
    """A table that files are to be appended to, as it was a moment ago."""

    location: Location
    log: LocalLog | None
    table: LakeTable | None

    @property
    def schema(self) -> Any:
        """Its declared Arrow schema, with comments in the fields' metadata."""
        if self.log is not None:
            return pa.schema(Schema.from_json(self.log.schema_json).to_arrow())
        return arrow_schema(self._loaded)

    @property
    def settings(self) -> dict[str, str]:
        """Its settings, under Delta's names."""
        if self.log is not None:
            return self.log.settings
        return self._loaded.metadata().configuration

    def lacking(self, ids: Iterable[str]) -> list[str]:
        """Which of these ids it does not remember."""
        if self.log is not None:
            return [name for name in ids if name not in self.log.marks]
        table = self._loaded
        return [name for name in ids if table.transaction_version(name) is None]

    @property
    def _loaded(self) -> LakeTable:
        return self.table or load_existing(self.location)

    def append_once(
        self, ids: Sequence[str], files: Sequence[NewFile], is_open: Callable[[], bool]
    ) -> None:
        """Append in one transaction that carries these ids, unless one of them is there already.

        Ids are retired some time after they were committed: ``is_open`` tells whether these are
        not. Whoever calls this has asked since the table was looked at; it is asked again when
        another commit came in between.
        """
        if self.log is None:
            adds = [add_action(file) for file in files]
            append_once(self.location, ids, adds, self._loaded, is_open)
            return
        for _ in range(_ATTEMPTS):
            if len(self.lacking(ids)) < len(ids):
                return
            if self.log.commit(files, ids):
                _make_checkpoint(self.log)
                return
            # A mark that is not there now was never, or was and is retired.
            self.log.catch_up()
            if not is_open():
                return
        raise UsageError(
            f"{self.location}: other processes keep changing this table; try again when they are "
            "done."
        )


def open_target(location: Location) -> Target:
    """Look at a table that files are to be appended to; that there is none is an error."""
    log = read_log(location)
    return Target(location, log, load_existing(location) if log is None else None)


def _make_checkpoint(log: LocalLog) -> None:
    """Sum the log up, now and then, as the library does after its own commits."""
    if not log.is_due():
        return
    # The commit is done; without the checkpoint, the next one has more to read.
    with contextlib.suppress(DeltaError, OSError, UsageError):
        load_existing(log.location).create_checkpoint()
