"""The log of a table on a local disk: appended to without loading what it says of every file.

The table library loads a table before it commits to it, and again afterwards, so that a commit to a
table with thousands of files takes longer than one to a new table. What an append needs to know is
little: the newest version, the columns and settings, and the marks. They are read here from the
last checkpoint and the few commits behind it. A commit is made as the library makes it, by a file
that comes into being whole under its name, if no other has that name.

Only logs of the plainest kind are read; of all others, and elsewhere, `read_log` says None.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.errors import UsageError
from pregao.lake.store.location import Location
from pregao.lake.store.table_paths import check_paths
from pregao.lake.store.unit import NewFile

_READER, _WRITER = 1, 2
"""The protocol of Delta that is understood here: nothing but files, columns and marks."""
_INTERVAL = "delta.checkpointInterval"
_CHECKPOINT_COLUMNS = ("txn", "protocol", "metaData")


class _NotPlainError(Exception):
    """The log has something that is not understood here."""


@dataclass(slots=True)
class LocalLog:
    """The newest state of a table's log, as far as an append needs it."""

    location: Location
    version: int = -1
    schema_json: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)

    @property
    def _folder(self) -> Path:
        return Path(self.location.uri) / "_delta_log"

    def _commit_file(self, version: int) -> Path:
        return self._folder / f"{version:020d}.json"

    def catch_up(self) -> bool:
        """Read what was committed since; False if nothing was."""
        began = self.version
        while True:
            try:
                text = self._commit_file(self.version + 1).read_bytes()
            except FileNotFoundError:
                return self.version > began
            for line in text.splitlines():
                # Most of a log is about files, which are nothing to an append.
                if not line.startswith((b'{"add"', b'{"remove"', b'{"commitInfo"')):
                    self._take(json.loads(line))
            self.version += 1

    def _take(self, action: Mapping[str, Any]) -> None:
        if mark := action.get("txn"):
            # A retired mark has the oldest time there is.
            if mark.get("lastUpdated") == 0:
                self.marks.discard(mark["appId"])
            else:
                self.marks.add(mark["appId"])
        if described := action.get("metaData"):
            self.schema_json = described["schemaString"]
            self.settings = dict(described.get("configuration") or {})
        if protocol := action.get("protocol"):
            wanted = (protocol["minReaderVersion"], protocol["minWriterVersion"])
            if wanted != (_READER, _WRITER):
                raise _NotPlainError

    def read_checkpoint(self) -> None:
        """Begin with the last checkpoint, if there is one."""
        try:
            told = json.loads((self._folder / "_last_checkpoint").read_bytes())
        except FileNotFoundError:
            return
        if told.get("parts") or told.get("v2Checkpoint"):
            raise _NotPlainError
        version = int(told["version"])
        place = self._folder / f"{version:020d}.checkpoint.parquet"
        state = place.stat()
        for name, values in _checkpoint(place, state.st_mtime_ns, state.st_size):
            for value in values:
                self._take({name: value})
        self.version = version

    def commit(self, files: Sequence[NewFile], marks: Sequence[str]) -> bool:
        """Append files and marks as the next version; False if another was faster."""
        text = "\n".join(json.dumps(line) for line in _lines(files, marks))
        staged = self._folder / f"_commit_{uuid.uuid4()}.json.tmp"
        try:
            staged.write_text(text + "\n")
            os.link(staged, self._commit_file(self.version + 1))
        except FileExistsError:
            return False
        except OSError as error:
            raise UsageError(
                f"{self.location} cannot be written: {error.strerror or error}"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                staged.unlink()
        self.version += 1
        self.marks.update(marks)
        return True

    def is_due(self) -> bool:
        """Is this the version after which a checkpoint is made?"""
        return self.version % int(self.settings.get(_INTERVAL, "100")) == 0


@functools.lru_cache(maxsize=256)
def _checkpoint(place: Path, *_state: int) -> list[tuple[str, list[Any]]]:
    """What a checkpoint says besides of files; read once, for as long as it is the same file."""
    with pq.ParquetFile(place) as file:
        rows = file.read(columns=list(_CHECKPOINT_COLUMNS), use_threads=False)
    return [(name, rows[name].drop_null().to_pylist()) for name in _CHECKPOINT_COLUMNS]


def _lines(files: Sequence[NewFile], marks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The actions of a commit."""
    now = time.time_ns() // 1_000_000
    yield {"commitInfo": {"timestamp": now, "operation": "WRITE", "engineInfo": "pregao"}}
    for file in files:
        yield {
            "add": {
                "path": quote(file.path, safe="/="),
                "partitionValues": dict(file.partition),
                "size": file.size,
                "modificationTime": now,
                "dataChange": True,
                "stats": file.stats,
            }
        }
    for name in marks:
        yield {"txn": {"appId": name, "version": 1}}


def read_paths(location: Location) -> set[str] | None:
    """The files that a table has now; None where its log cannot be read here."""
    log = read_log(location)
    if log is None:
        return None
    folder = Path(location.uri) / "_delta_log"
    found: set[str] = set()
    begin = 0
    try:
        with contextlib.suppress(FileNotFoundError):
            begin = int(json.loads((folder / "_last_checkpoint").read_bytes())["version"]) + 1
            place = folder / f"{begin - 1:020d}.checkpoint.parquet"
            state = place.stat()
            found.update(_checkpoint_paths(place, state.st_mtime_ns, state.st_size))
        for version in range(begin, log.version + 1):
            for line in (folder / f"{version:020d}.json").read_bytes().splitlines():
                if line.startswith(b'{"add"'):
                    found.add(unquote(json.loads(line)["add"]["path"]))
                elif line.startswith(b'{"remove"'):
                    found.discard(unquote(json.loads(line)["remove"]["path"]))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    check_paths(location, pa.array(sorted(found), pa.string()))
    return found


@functools.lru_cache(maxsize=8)
def _checkpoint_paths(place: Path, *_state: int) -> tuple[str, ...]:
    """The files that a checkpoint tells of."""
    with pq.ParquetFile(place) as file:
        rows = file.read(columns=["add.path"], use_threads=False)["add"].drop_null()
    return tuple(unquote(row["path"]) for row in rows.to_pylist())


def read_log(location: Location) -> LocalLog | None:
    """A table's log; None where it cannot be read here, or there is none."""
    if not location.is_local or not hasattr(os, "link"):
        return None
    log = LocalLog(location)
    try:
        log.read_checkpoint()
        log.catch_up()
    except (_NotPlainError, OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None  # the library says what is wrong, if anything is
    return log if log.schema_json else None
