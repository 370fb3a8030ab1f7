"""The journal: everything that changed the exchange, in its order, in files that outlive it.

What one turn of the loop brought is written and synced at once (`commit`), before anything that it
caused is sent. A write that was cut short leaves a torn end: it is set aside when the journal is
opened, and nothing that followed from it was sent. Any other damage refuses the start.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from pregao import private_files
from pregao.errors import UsageError
from pregao.exchange.host.checkpoint_file import (
    Checkpoint,
    Place,
    read_checkpoint,
    write_checkpoint,
)
from pregao.exchange.host.journal_file import (
    HEAD,
    HEADER_BYTES,
    LENGTHS,
    NO_FILE,
    End,
    Header,
    Kind,
    Record,
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

__all__ = ["ROLL_BYTES", "Checkpoint", "Journal", "Kind", "Place", "Record"]

_log = logging.getLogger(__name__)
ROLL_BYTES: Final = 256 * 1024 * 1024
_Walk = Generator[Record, None, tuple[int, int | None, int]]


class Journal:
    """A journal in a folder, of one process at a time."""

    def __init__(self, folder: Path, *, roll_bytes: int = ROLL_BYTES) -> None:
        self._folder = folder
        self._roll_bytes = roll_bytes
        self._pending: list[bytes] = []
        self.torn = 0
        """How many bytes of a torn end were set aside when it was opened."""
        self.commits = 0
        self.bytes = 0
        self._reading = ("", 0)
        try:
            private_files.make_folder(folder)
            self._lock = private_files.open_or_create(folder / "lock", os.O_RDWR)
        except OSError as error:
            raise UsageError(f"{folder}: no journal can be kept here: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise UsageError(f"{folder}: another exchange has this journal open.") from None
        self._file = -1
        self._path: Path | None = None
        self._size = 0
        self._end: End | None = None
        """The end of the last file when it was read; None until then."""
        self._checksum = 0
        self._goes_on = False
        """Whether the last file can be continued."""
        self._begun = False
        """Whether a file follows that was cut short before its first record."""
        self._seed = self._find_seed()
        self._broken: UsageError | None = None
        """Why nothing more can be written."""

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self._folder

    def files(self) -> list[Path]:
        """Its files, oldest first."""
        return journal_files(self._folder)

    def _find_seed(self) -> int:
        """The start value of this journal's checksums; a new one if it has none yet."""
        for path in reversed(self.files()):
            with contextlib.suppress(OSError):
                header = read_header(_read(path, HEADER_BYTES))
                if header is not None and header.seed:
                    return header.seed
        return secrets.randbits(32) | 1

    # Reading.

    def records(self, since: Place | None = None) -> Iterator[Record]:
        """Yield what it holds, or holds from a place on; a torn end is set aside.

        To be read before writing. Damage raises UsageError, which names the file and the offset.
        """
        files = self.files()
        before, goes_on, begun = NO_FILE, False, False
        for path in files:
            last = path == files[-1]
            skipped = since is not None and path.name < since.file
            data = self._load(path, HEADER_BYTES if skipped else -1)
            header = read_header(data)
            if header is None:
                if not (last and is_begun(data)):
                    raise UsageError(
                        f"{path}: is no journal of Pregão, or its beginning is damaged; restore it "
                        f"from a copy, or see {_repair(self._folder)}."
                    )
                self.torn, goes_on, begun = len(data), False, True
                break
            if not header.intact:
                _log.warning(
                    "%s: its header is damaged; the copy is used, and %s mends it",
                    path,
                    _repair(self._folder),
                )
            _check_link(path, header, before, data)
            if skipped:
                before = End(number_of(path), path.stat().st_size, None)
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
            before = End(number_of(path), position, checksum, time_ns)
            goes_on = header.seed == self._seed
        self._end, self._goes_on, self._begun = before, goes_on, begun

    def _noted(self, name: str, position: int, walked: _Walk) -> _Walk:
        """Yield the same records, and note where each of them is."""
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
    def reading(self) -> Place:
        """The place of the record that `records` gave last."""
        return Place(*self._reading)

    def mark(self) -> int:
        """Return how many records wait for the next commit, for `forget`."""
        return len(self._pending)

    def forget(self, mark: int) -> None:
        """Drop the records that were added after a mark: what they are about did not happen."""
        del self._pending[mark:]

    def _load(self, path: Path, size: int) -> bytes:
        try:
            return _read(path, size)
        except OSError as error:
            if not path.is_file() or path.is_symlink():
                raise UsageError(
                    f"{path}: is not a file, so it is no journal of Pregão."
                ) from error
            raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error

    def _set_aside(
        self, path: Path, data: bytes, start: int, position: int, header: Header, *, last: bool
    ) -> None:
        """Set a torn end aside; anything else refuses the start."""
        found = examine(data, position, header.seed)
        if not (found.torn and last):
            number = 1 + skip(path, data[:position], start, header.seed)[2]
            where = f"record {number}" if start == header.start else "the record"
            after = (
                f"valid records follow from byte {found.end} on"
                if found.end < len(data)
                else "other files follow it"
                if not last
                else "it is no write that was cut short"
            )
            raise UsageError(
                f"{path}: {where} at byte {position}, {describe(data, position)}, is damaged, and "
                f"{after}; restore the file from a copy, or see {_repair(self._folder)}."
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
                f"{path}: {self.torn} bytes at its end were cut short and cannot be put aside: "
                f"{error.strerror}; make room on the disk and start again."
            ) from error

    # Checkpoints.

    def keep_checkpoint(self, code: str, state: bytes) -> None:
        """Keep what was made of all that is committed; where that fails, a start takes longer."""
        if self._path is not None:
            place = Place(self._path.name, self._size, self._checksum)
            write_checkpoint(self._folder, place, code, state)

    def checkpoint(self, code: str) -> Checkpoint | None:
        """Return the last checkpoint, if it is whole, of this code and of this journal."""
        found = read_checkpoint(self._folder)
        if found is None:
            return None
        if found.missing:
            raise UsageError(
                f"{self._folder / found.place.file}: ends {found.missing:,} bytes before byte "
                f"{found.place.size:,}, up to which it was written when the checkpoint was kept; "
                f"restore the file from a copy, or see {_repair(self._folder)}."
            )
        reason = None
        if found.code != code:
            reason = "another version of Pregão wrote it"
        elif not found.intact:
            reason = "the journal before it has changed"
        if reason is not None:
            _log.warning(
                "%s: the checkpoint is ignored, all of the journal is replayed: %s",
                self._folder,
                reason,
            )
            return None
        return found

    # Writing.

    def append(self, kind: Kind, time_ns: int, session: int, body: bytes) -> None:
        """Add a record; it is there for good with the next commit."""
        whole = HEAD.pack(time_ns, session, kind) + body
        self._pending.append(LENGTHS.pack(len(whole), zlib.crc32(whole, self._seed)) + whole)

    def commit(self) -> None:
        """Bring what was added to the disk."""
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
            os.fdatasync(self._file)
        except OSError as error:
            # Nothing of it was sent: it goes, whole records too, so that nothing follows from it.
            if self._file >= 0:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
            self._broken = UsageError(
                f"{self._folder}: the journal cannot be written: {error.strerror}; the exchange "
                "stops, because what is not written must not be told."
            )
            raise self._broken from error
        self._size += len(data)
        self.bytes += len(data)
        self.commits += 1
        self._checksum = LENGTHS.unpack_from(pending[-1])[1]

    def _roll(self) -> None:
        """Go on in the last file while it may grow, else in a new one."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            assert self._end is not None
            self._end = End(self._end.number, self._size, self._checksum)
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
        opened = private_files.open_existing if self._begun else private_files.create
        self._file = opened(self._path, flags)
        self._size, self._checksum, self._begun = 0, 0, True
        os.ftruncate(self._file, 0)
        header = pack_header(number, self._seed, self._end)
        private_files.write_all(self._file, header)
        self._size = len(header)
        self._end, self._goes_on, self._begun = End(number, self._size, 0), True, False
        private_files.sync_folder(self._folder)

    def close(self) -> None:
        """Write no more."""
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
    """The first bytes of a regular file, or with -1 all of them."""
    descriptor = private_files.open_existing(path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(size)


def _check_link(path: Path, header: Header, before: End, data: bytes) -> None:
    """Refuse a file that does not go on from the one before it."""
    number, reason = number_of(path), None
    if header.version == 1:
        first = first_time(data, header.start)
        if number != before.number + 1:
            reason = f"journal-{before.number + 1:06d} is missing"
        elif first is not None and first < before.time_ns:
            reason = "its records are older than those of the file before it"
    elif header.number != number:
        reason = f"it is file {header.number} of a journal, not {number}"
    elif header.previous.number != before.number:
        reason = f"it goes on from journal-{header.previous.number:06d}, which is missing"
    elif header.previous.size != before.size:
        reason = (
            f"it goes on from byte {header.previous.size:,} of the file before it, which has "
            f"{before.size:,} bytes"
        )
    elif before.checksum is not None and header.previous.checksum != before.checksum:
        reason = "it goes on from other records than those of the file before it"
    if reason is not None:
        raise UsageError(
            f"{path}: does not go on from the file before it: {reason}; restore the files from a "
            f"copy, or see {_repair(path.parent)}."
        )
