"""Journal: everything that changed the exchange, in order, in durable files.

The records of one loop iteration are written and synced together (`commit`), before any of the
resulting output is sent. An incomplete write leaves a torn end: it is set aside when the journal
is opened, and nothing that resulted from it was sent. With any other damage the exchange does not
start.

`JournaledSessions` journals the changes of sessions, except those that replay derives from
requests.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

from pregao.entrypoint.session_state import SessionRecord
from pregao.entrypoint.session_store import SessionStore
from pregao.errors import UsageError
from pregao.exchange.host.checkpoints.checkpoint_file import (
    JournalCheckpoint,
    JournalPosition,
    read_checkpoint,
    write_checkpoint,
)
from pregao.exchange.host.journal.journal_file import (
    HEAD,
    HEADER_BYTES,
    LENGTHS,
    NO_FILE,
    JournalEnd,
    JournalHeader,
    JournalRecord,
    RecordKind,
    describe,
    examine,
    first_time,
    is_begun,
    journal_files,
    number_of,
    pack_header,
    read_header,
    skip,
    walk,
)
from pregao.safe_io import private_files

_log = logging.getLogger(__name__)
ROLL_BYTES: Final = 256 * 1024 * 1024
_Walk = Generator[JournalRecord, None, tuple[int, int | None, int]]


class Journal:
    """A journal in a folder, used by one process at a time."""

    def __init__(self, folder: Path, *, roll_bytes: int = ROLL_BYTES) -> None:
        self._folder = folder
        self._roll_bytes = roll_bytes
        self._pending: list[bytes] = []
        self.torn = 0
        """Bytes of a torn end that were set aside when the journal was opened."""
        self.commits = 0
        self.bytes = 0
        self._reading = ("", 0)
        try:
            private_files.make_folder(folder)
            self._lock = private_files.open_or_create(folder / "lock", os.O_RDWR)
        except OSError as error:
            raise UsageError(f"{folder}: cannot create a journal: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise UsageError(
                f"{folder}: another exchange has this journal open; stop it, or use another "
                "--journal."
            ) from None
        self._file = -1
        self._path: Path | None = None
        self._size = 0
        self._end: JournalEnd | None = None
        """End of the last file when it was read; None until then."""
        self._checksum = 0
        self._goes_on = False
        """Whether the last file can be continued."""
        self._begun = False
        """Whether the next file exists already, truncated before its first record."""
        self._seed = self._find_seed()
        self._broken: UsageError | None = None
        """Error of the failed write, which every later commit raises."""

    @property
    def folder(self) -> Path:
        """Folder of the journal."""
        return self._folder

    def files(self) -> list[Path]:
        """Return the files of the journal, oldest first."""
        return journal_files(self._folder)

    def _find_seed(self) -> int:
        """Return the start value of this journal's checksums; a new one if it has none yet."""
        for path in reversed(self.files()):
            with contextlib.suppress(OSError):
                header = read_header(_read(path, HEADER_BYTES))
                if header is not None and header.seed:
                    return header.seed
        return secrets.randbits(32) | 1

    # Reading

    def records(self, since: JournalPosition | None = None) -> Iterator[JournalRecord]:
        """Yield the records, optionally from a position; set a torn end aside.

        Read all records before writing. Damage raises UsageError, which names file and offset.
        """
        files = self.files()
        before, continuable, truncated = NO_FILE, False, False
        for path in files:
            last = path == files[-1]
            skipped = since is not None and path.name < since.file
            data = self._load(path, HEADER_BYTES if skipped else -1)
            header = read_header(data)
            if header is None:
                if not (last and is_begun(data)):
                    raise UsageError(
                        f"{path}: not a journal of Pregão, or its header is damaged; restore it "
                        f"from a backup, or use {_repair(self._folder)}."
                    )
                self.torn, continuable, truncated = len(data), False, True
                break
            if not header.intact:
                _log.warning(
                    "%s: header is damaged; using its copy. Repair it with %s",
                    path,
                    _repair(self._folder),
                )
            _check_link(path, header, before, data)
            if skipped:
                before = JournalEnd(number_of(path), path.stat().st_size, None)
                continue
            checksum: int | None = 0
            position = header.start
            if since is not None and path.name == since.file:
                position, checksum = since.size, since.checksum
            start = position
            position, checksum, time_ns = yield from self._noted(
                path.name, position, walk(path, data, position, header.seed, checksum)
            )
            if position < len(data):
                self._set_aside(path, data, start, position, header, last=last)
            before = JournalEnd(number_of(path), position, checksum, time_ns)
            continuable = header.seed == self._seed
        self._end, self._goes_on, self._begun = before, continuable, truncated

    def _noted(self, name: str, position: int, walked: _Walk) -> _Walk:
        """Yield the records of a walk, and store the position of each."""
        fixed = LENGTHS.size + HEAD.size
        while True:
            try:
                record = next(walked)
            except StopIteration as end:
                found: tuple[int, int | None, int] = end.value
                return found
            self._reading = (name, position)
            yield record
            position += fixed + len(record.body)

    @property
    def reading(self) -> JournalPosition:
        """Position of the record that `records` yielded last."""
        return JournalPosition(*self._reading)

    def mark(self) -> int:
        """Return the number of records queued for the next commit, for `forget`."""
        return len(self._pending)

    def discard_after(self, mark: int) -> None:
        """Drop the records that were queued after a mark, because their step was undone."""
        del self._pending[mark:]

    def _load(self, path: Path, size: int) -> bytes:
        try:
            return _read(path, size)
        except OSError as error:
            if not path.is_file() or path.is_symlink():
                raise UsageError(
                    f"{path}: not a regular file, so not a journal of Pregão."
                ) from error
            raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error

    def _set_aside(
        self,
        path: Path,
        data: bytes,
        start: int,
        position: int,
        header: JournalHeader,
        *,
        last: bool,
    ) -> None:
        """Set a torn end aside; raise UsageError for any other damage."""
        found = examine(data, position, header.seed)
        if not (found.torn and last):
            number = 1 + skip(path, data[:position], start, header.seed)[2]
            where = f"record {number}" if start == header.start else "the record"
            after = (
                f"valid records follow from byte {found.end}"
                if found.end < len(data)
                else "other files follow"
                if not last
                else "it is not an incomplete write"
            )
            raise UsageError(
                f"{path}: {where} at byte {position}, {describe(data, position)}, is damaged, and "
                f"{after}; restore the file from a backup, or use {_repair(self._folder)}."
            )
        self.torn = len(data) - position
        aside = private_files.unused(path.with_name(path.name + ".torn"))
        try:
            private_files.write_new(aside, data[position:])
            file = private_files.open_existing(path, os.O_RDWR)
            try:
                os.ftruncate(file, position)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise UsageError(
                f"{path}: the last {self.torn} bytes are an incomplete write and cannot be set "
                f"aside: {error.strerror}; free disk space and start again."
            ) from error

    # Checkpoints

    def keep_checkpoint(self, code: str, state: bytes) -> None:
        """Save a checkpoint of the committed records; if that fails, a start takes longer."""
        if self._path is not None:
            position = JournalPosition(self._path.name, self._size, self._checksum)
            write_checkpoint(self._folder, position, code, state)

    def checkpoint(self, code: str) -> JournalCheckpoint | None:
        """Return the last checkpoint, if it is intact, of this code and of this journal."""
        found = read_checkpoint(self._folder)
        if found is None:
            return None
        if found.missing:
            raise UsageError(
                f"{self._folder / found.position.file}: ends {found.missing:,} bytes before byte "
                f"{found.position.size:,}, the end of the journal when its checkpoint was saved; "
                f"restore the file from a backup, or use {_repair(self._folder)}."
            )
        reason = None
        if found.code != code:
            reason = "another version of Pregão wrote it"
        elif not found.intact:
            reason = "the journal before it has changed"
        if reason is not None:
            _log.warning(
                "%s: checkpoint ignored, replaying the full journal: %s",
                self._folder,
                reason,
            )
            return None
        return found

    # Writing

    def append(self, kind: RecordKind, time_ns: int, session: int, body: bytes) -> None:
        """Queue a record, which the next commit makes durable."""
        payload = HEAD.pack(time_ns, session, kind) + body
        self._pending.append(LENGTHS.pack(len(payload), zlib.crc32(payload, self._seed)) + payload)

    def commit(self) -> None:
        """Write the queued records to disk and sync."""
        if not self._pending:
            return
        if self._broken is not None:
            raise self._broken
        pending, self._pending = self._pending, []
        data = b"".join(pending)
        try:
            if self._file < 0 or self._size >= self._roll_bytes:
                self._roll()
            private_files.write_all(self._file, data)
            private_files.sync_data(self._file)
        except OSError as error:
            # No output of these records was sent: remove them all, complete ones too, so that a
            # replay does not apply them.
            if self._file >= 0:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
            self._broken = UsageError(
                f"{self._folder}: the journal cannot be written: {error.strerror}; the exchange "
                "stops, because unjournaled changes must not be sent."
            )
            raise self._broken from error
        self._size += len(data)
        self.bytes += len(data)
        self.commits += 1
        self._checksum = LENGTHS.unpack_from(pending[-1])[1]

    def _roll(self) -> None:
        """Continue in the last file while it may grow, else in a new one."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            assert self._end is not None
            self._end = JournalEnd(self._end.number, self._size, self._checksum)
        elif self._end is None:
            for _ in self.records():
                pass
        assert self._end is not None
        flags = os.O_WRONLY | os.O_APPEND
        if self._goes_on and self._end.size < self._roll_bytes:
            self._path = self._folder / f"journal-{self._end.number:06d}"
            self._file = private_files.open_existing(self._path, flags)
            self._size, self._checksum = self._end.size, self._end.checksum or 0
            return
        number = self._end.number + 1
        self._path = self._folder / f"journal-{number:06d}"
        open_file = private_files.open_existing if self._begun else private_files.create
        self._file = open_file(self._path, flags)
        self._size, self._checksum, self._begun = 0, 0, True
        os.ftruncate(self._file, 0)
        header = pack_header(number, self._seed, self._end)
        private_files.write_all(self._file, header)
        self._size = len(header)
        self._end, self._goes_on, self._begun = JournalEnd(number, self._size, 0), True, False
        private_files.sync_folder(self._folder)

    def close(self) -> None:
        """Commit, and close the files."""
        try:
            if self._broken is None:
                self.commit()
        finally:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            os.close(self._lock)


def _repair(folder: Path) -> str:
    return f"`pregao exchange repair {folder}`"


def _read(path: Path, size: int) -> bytes:
    """Return the first ``size`` bytes of a regular file, or all of them with -1."""
    descriptor = private_files.open_existing(path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(size)


def _check_link(path: Path, header: JournalHeader, before: JournalEnd, data: bytes) -> None:
    """Refuse a file that does not continue the previous one."""
    number, reason = number_of(path), None
    if header.version == 1:
        first = first_time(data, header.start)
        if number != before.number + 1:
            reason = f"journal-{before.number + 1:06d} is missing"
        elif first is not None and first < before.time_ns:
            reason = "its records are older than those of the previous file"
    elif header.number != number:
        reason = f"its header states file number {header.number}, not {number}"
    elif header.previous.number != before.number:
        reason = f"it continues journal-{header.previous.number:06d}, which is missing"
    elif header.previous.size != before.size:
        reason = (
            f"it continues from byte {header.previous.size:,} of the previous file, which has "
            f"{before.size:,} bytes"
        )
    elif before.checksum is not None and header.previous.checksum != before.checksum:
        reason = "it continues from other records than those of the previous file"
    if reason is not None:
        raise UsageError(
            f"{path}: does not continue the previous file: {reason}; restore the files from a "
            f"backup, or use {_repair(path.parent)}."
        )


class JournaledSessions(SessionStore):
    """Sessions in memory; ``note`` receives the changes to write to the journal."""

    def __init__(self, note: Callable[[int, SessionRecord], None]) -> None:
        super().__init__()
        self._note = note

    def record(self, session_id: int, record: SessionRecord) -> None:
        """Journal and apply a change of a session."""
        self._note(session_id, record)
        self.state(session_id).apply(record)

    def accept_incoming(self, session_id: int, number: int) -> None:
        """Record an accepted request; the request itself is in the journal."""
        state = self._states[session_id]
        state.next_incoming = number + 1
        state.last_incoming = number

    def sent(self, session_id: int, number: int, data: bytes) -> None:
        """Record a sent report, which replay derives from requests."""
        state = self._states[session_id]
        state.sent[number] = data
        state.next_outgoing = number + 1
