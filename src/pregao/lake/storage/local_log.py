"""Log of a Delta table on a local disk: cheap appends, and a check before the library reads it.

The table library loads a table before a commit and again afterwards, so that a commit to a table
with thousands of files takes longer than one to a new table. An append needs only the newest
version, the columns, the properties and the marks. They are read here from the last checkpoint and
the few commits after it. A commit works as in the library: a complete file appears atomically under
its name, if no other has that name. Only the simplest logs are supported; for all others, and on
other filesystems, `read_log` returns None.

The library's JSON reader is recursive: a commit of 100,000 brackets overflows its stack and ends
the process. On a local disk, `check_log` first scans the commits that it would read; a line with
few brackets, as all except those of wide tables are, costs only a count. Logs in object stores are
not checked: reading each commit twice would double the requests of every command.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
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
from pregao.lake.storage.commit_unit import NewFile
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.local_files import check_paths
from pregao.safe_io.documents import MAX_DEPTH

_READER, _WRITER = 1, 2
"""Supported versions of the Delta protocol: only files, columns and marks."""
_INTERVAL = "delta.checkpointInterval"
_CHECKPOINT_COLUMNS = ("txn", "protocol", "metaData")

_FEW = 2_000
"""Number of brackets up to which no line can be nested too deep for the library."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")


class _NotPlainError(Exception):
    """The log uses an unsupported feature."""


# --- Reading and appending ---


@dataclass(slots=True)
class LocalLog:
    """The part of a table's newest state that an append needs."""

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
        """Read new commits; return False if there are none."""
        began = self.version
        while True:
            try:
                text = self._commit_file(self.version + 1).read_bytes()
            except FileNotFoundError:
                return self.version > began
            for line in text.splitlines():
                # Most entries of a log are about files, which an append does not need.
                if not line.startswith((b'{"add"', b'{"remove"', b'{"commitInfo"')):
                    self._take(json.loads(line))
            self.version += 1

    def _take(self, action: Mapping[str, Any]) -> None:
        if mark := action.get("txn"):
            # A retired mark has the earliest possible time.
            if mark.get("lastUpdated") == 0:
                self.marks.discard(mark["appId"])
            else:
                self.marks.add(mark["appId"])
        if described := action.get("metaData"):
            self.schema_json = described["schemaString"]
            self.settings = dict(described.get("configuration") or {})
        if protocol := action.get("protocol"):
            versions = (protocol["minReaderVersion"], protocol["minWriterVersion"])
            if versions != (_READER, _WRITER):
                raise _NotPlainError

    def read_checkpoint(self) -> None:
        """Read the last checkpoint, if there is one."""
        try:
            pointer = json.loads((self._folder / "_last_checkpoint").read_bytes())
        except FileNotFoundError:
            return
        if pointer.get("parts") or pointer.get("v2Checkpoint"):
            raise _NotPlainError
        version = int(pointer["version"])
        file = self._folder / f"{version:020d}.checkpoint.parquet"
        state = file.stat()
        for name, values in _checkpoint(file, state.st_mtime_ns, state.st_size):
            for value in values:
                self._take({name: value})
        self.version = version

    def commit(self, files: Sequence[NewFile], marks: Sequence[str]) -> bool:
        """Append files and marks as the next version; return False if another process did first."""
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
        """Whether a checkpoint is due after this version."""
        return self.version % int(self.settings.get(_INTERVAL, "100")) == 0


@functools.lru_cache(maxsize=256)
def _checkpoint(path: Path, *_state: int) -> list[tuple[str, list[Any]]]:
    """Read a checkpoint's entries other than files; cached while the file does not change."""
    with pq.ParquetFile(path) as file:
        rows = file.read(columns=list(_CHECKPOINT_COLUMNS), use_threads=False)
    return [(name, rows[name].drop_null().to_pylist()) for name in _CHECKPOINT_COLUMNS]


def _lines(files: Sequence[NewFile], marks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the actions of a commit."""
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
    """Return the current files of a table; None if its log is not supported."""
    log = read_log(location)
    if log is None:
        return None
    folder = Path(location.uri) / "_delta_log"
    paths: set[str] = set()
    begin = 0
    try:
        with contextlib.suppress(FileNotFoundError):
            begin = int(json.loads((folder / "_last_checkpoint").read_bytes())["version"]) + 1
            file = folder / f"{begin - 1:020d}.checkpoint.parquet"
            state = file.stat()
            paths.update(_checkpoint_paths(file, state.st_mtime_ns, state.st_size))
        for version in range(begin, log.version + 1):
            for line in (folder / f"{version:020d}.json").read_bytes().splitlines():
                if line.startswith(b'{"add"'):
                    paths.add(unquote(json.loads(line)["add"]["path"]))
                elif line.startswith(b'{"remove"'):
                    paths.discard(unquote(json.loads(line)["remove"]["path"]))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    check_paths(location, pa.array(sorted(paths), pa.string()))
    return paths


@functools.lru_cache(maxsize=8)
def _checkpoint_paths(path: Path, *_state: int) -> tuple[str, ...]:
    """Read the files of a checkpoint."""
    with pq.ParquetFile(path) as file:
        rows = file.read(columns=["add.path"], use_threads=False)["add"].drop_null()
    return tuple(unquote(row["path"]) for row in rows.to_pylist())


def read_log(location: Location) -> LocalLog | None:
    """Read a table's log; return None if it is not supported or does not exist."""
    if not location.is_local or not hasattr(os, "link"):
        return None
    log = LocalLog(location)
    try:
        log.read_checkpoint()
        log.catch_up()
    except (_NotPlainError, OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None  # the library reports errors, if there are any
    return log if log.schema_json else None


# --- Nesting depth ---


def check_log(table: str) -> None:
    """Raise UsageError if a commit of a local table is nested too deep to read."""
    log = Path(table) / "_delta_log"
    names = [path.name for path in log.glob("[0-9]*")]
    # The library reads the newest checkpoint and the commits after it.
    newest = max((name[:20] for name in names if ".checkpoint." in name), default="")
    for name in names:
        if name.endswith(".json") and name[:20] > newest:
            found = (log / name).stat()
            if _is_deep(str(log / name), found.st_size, found.st_mtime_ns):
                raise _too_deep(log / name)
    pointer = log / "_last_checkpoint"
    with contextlib.suppress(FileNotFoundError):
        if _line_is_deep(pointer.read_bytes()):
            raise _too_deep(pointer)


def _too_deep(file: Path) -> UsageError:
    return UsageError(
        f"{file} is nested more than {MAX_DEPTH} levels deep, which no valid table log is. "
        "Restore it from a backup."
    )


@functools.lru_cache(maxsize=10_000)
def _is_deep(commit: str, _size: int, _modified_ns: int) -> bool:
    """Whether a commit is nested too deep; cached by its size and modification time."""
    with Path(commit).open("rb") as lines:
        return any(_line_is_deep(line) for line in lines)


def _line_is_deep(line: bytes) -> bool:
    if line.count(b"[") + line.count(b"{") <= _FEW:
        return False
    depth = 0
    for run in _BRACKETS.findall(_STRING.sub(b"", line)):
        depth += len(run) if run[0] in b"[{" else -len(run)
        if depth > MAX_DEPTH:
            return True
    return False
