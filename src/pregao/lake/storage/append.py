"""Append files to a table exactly once, loading as little of the table as possible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import DeltaError

from pregao.errors import UsageError
from pregao.lake.storage.commit_unit import NewFile
from pregao.lake.storage.delta import (
    LakeTable,
    add_action,
    append_once,
    arrow_schema,
    load_existing,
)
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.local_log import LocalLog, read_log

_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class AppendTarget:
    """A recently loaded table to which files will be appended."""

    location: Location
    log: LocalLog | None
    table: LakeTable | None

    @property
    def schema(self) -> Any:
        """Declared Arrow schema, with comments in the fields' metadata."""
        if self.log is not None:
            return pa.schema(Schema.from_json(self.log.schema_json).to_arrow())
        return arrow_schema(self._loaded)

    @property
    def settings(self) -> dict[str, str]:
        """Table properties, under Delta's names."""
        if self.log is not None:
            return self.log.settings
        return self._loaded.metadata().configuration

    def lacking(self, ids: Iterable[str]) -> list[str]:
        """Return the transaction IDs that the table's log does not have."""
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
        """Append in one transaction with these IDs, unless the table already has one of them.

        IDs are retired some time after their commit; ``is_open`` returns whether these are not
        retired. The caller must have called it since the table was loaded; it is called again
        after a conflicting commit.
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
            # An ID that is missing now was never committed, or was retired since.
            self.log.catch_up()
            if not is_open():
                return
        raise UsageError(
            f"{self.location}: other processes keep changing this table; try again when they have "
            "finished."
        )


def open_target(location: Location) -> AppendTarget:
    """Open a table for appending; raise UsageError if it does not exist."""
    log = read_log(location)
    return AppendTarget(location, log, load_existing(location) if log is None else None)


def _make_checkpoint(log: LocalLog) -> None:
    """Write a checkpoint if one is due, as the library does after its own commits."""
    if not log.is_due():
        return
    # The commit has succeeded; without the checkpoint, the next one only reads more.
    with contextlib.suppress(DeltaError, OSError, UsageError):
        load_existing(log.location).create_checkpoint()
