"""The journal: everything that changed the exchange, in its order, in files that outlive it.

A record has a length, a checksum, a time, a session and a kind. What one turn of the loop brought
is written and synced at once (`commit`), before anything that it caused is sent. A write that was
cut short leaves a torn end: it is put aside when the journal is opened, and nobody was told of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from pregao.errors import UsageError

_log = logging.getLogger(__name__)
_MAGIC: Final = b"pregao journal 1\n"
_LENGTHS: Final = struct.Struct("<II")
_HEAD: Final = struct.Struct("<QIB")
_RECORD: Final = struct.Struct("<IIQIB")
"""Both at once, as they are read."""
_PLACE: Final = struct.Struct("<32sQI")
"""Of a checkpoint: the code that made it, its place in the journal's file, a checksum."""
ROLL_BYTES: Final = 256 * 1024 * 1024
_PATTERN: Final = "journal-[0-9][0-9][0-9][0-9][0-9][0-9]"


class Kind(IntEnum):
    """What a record is about."""

    START = 1
    """The process began: settings as JSON."""
    REQUEST = 2
    """A business message of a session, as it came."""
    SESSION = 3
    """Something happened to a session: negotiated, established, left …"""
    CONTROL = 4
    """A command of market operations, as JSON."""
    CANCEL = 5
    """The orders of a session that left are cancelled: the name of the reason."""
    TIME = 6
    """Something of the market came due."""
    HANDSHAKE = 7
    """A session message as it came, credentials blanked: for people, nothing follows from it."""
    RESTATE = 8
    """A session is told of its orders that are of an earlier day."""


class Record(NamedTuple):
    """One record."""

    kind: Kind
    time_ns: int
    session: int
    body: bytes


class Place(NamedTuple):
    """A place between two records: the name of a file, and how much of it is before."""

    file: str
    size: int


class Checkpoint(NamedTuple):
    """What was made of all records before a place."""

    place: Place
    state: bytes


_KINDS: Final = {int(kind): kind for kind in Kind}


class Journal:
    """A journal in a folder, of one process at a time."""

    def __init__(self, folder: Path, *, roll_bytes: int = ROLL_BYTES) -> None:
        self._folder = folder
        self._roll_bytes = roll_bytes
        self._pending: list[bytes] = []
        self.torn = 0
        """How many bytes of a torn end were put aside when it was opened."""
        self.commits = 0
        self.bytes = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"{folder}: no journal can be kept here: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise UsageError(f"{folder}: another exchange has this journal open.") from None
        self._file = -1
        self._size = 0
        self._broken: UsageError | None = None
        """Why nothing more can be written."""

    def files(self) -> list[Path]:
        """Its files, oldest first."""
        return sorted(self._folder.glob(_PATTERN))

    def records(self, since: Place | None = None) -> Iterator[Record]:
        """What it holds, or holds from a place on; a torn end of the last file is put aside.

        To be read before writing.
        """
        files = self.files()
        for path in files:
            if since is not None and path.name < since.file:
                continue
            if not path.is_file():
                raise UsageError(f"{path}: is not a file, so it is no journal of Pregão.")
            data = path.read_bytes()
            position = len(_MAGIC)
            if since is not None and path.name == since.file:
                position = since.size
            if not data.startswith(_MAGIC):
                position = 0
                if not (_MAGIC.startswith(data) and path == files[-1]):
                    raise UsageError(f"{path}: is no journal of Pregão.")
            end = len(data)
            view = memoryview(data)
            least, lengths, head = _RECORD.size, _LENGTHS.size, _HEAD.size
            unpack, crc32, kinds = _RECORD.unpack_from, zlib.crc32, _KINDS
            while position + least <= end:
                length, checksum, time_ns, session, number = unpack(data, position)
                start = position + lengths
                after = start + length
                if length < head or after > end or crc32(view[start:after]) != checksum:
                    break
                kind = kinds.get(number)
                if kind is None:
                    raise UsageError(
                        f"{path}: the record at byte {position} is of a kind that this version "
                        "does not know; use the version that wrote it."
                    )
                yield Record(kind, time_ns, session, data[start + head : after])
                position = after
            if position < end:
                self._put_aside(path, data, position, last=path == files[-1])

    def keep_checkpoint(self, code: str, state: bytes) -> None:
        """Keep what was made of all that is committed; where that fails, a start takes longer."""
        files = self.files()
        if not files or self._file < 0:
            return
        body = _PLACE.pack(code.encode(), self._size, zlib.crc32(state)) + state
        path = self._folder / f"checkpoint-{files[-1].name[-6:]}"
        begun = path.with_suffix(".begun")
        try:
            begun.write_bytes(body)
            with begun.open("rb") as file:
                os.fsync(file.fileno())
            begun.replace(path)
        except OSError as error:
            _log.warning("%s: no checkpoint could be kept: %s", path, error.strerror)
            with contextlib.suppress(OSError):
                begun.unlink()
            return
        for old in self._folder.glob("checkpoint-*"):
            if old != path:
                with contextlib.suppress(OSError):
                    old.unlink()

    def checkpoint(self, code: str) -> Checkpoint | None:
        """The last checkpoint, if it is whole, of this code and of this journal."""
        found = sorted(self._folder.glob("checkpoint-[0-9][0-9][0-9][0-9][0-9][0-9]"))
        if not found:
            return None
        try:
            data = found[-1].read_bytes()
            file = self._folder / f"journal-{found[-1].name[-6:]}"
            end = file.stat().st_size
        except OSError:
            return None
        if len(data) < _PLACE.size:
            return None
        kept, size, checksum = _PLACE.unpack_from(data)
        state = data[_PLACE.size :]
        if kept != code.encode() or size > end or zlib.crc32(state) != checksum:
            return None
        return Checkpoint(Place(file.name, size), state)

    def _put_aside(self, path: Path, data: bytes, position: int, *, last: bool) -> None:
        if not last:
            raise UsageError(
                f"{path}: is damaged at byte {position}, and other files follow it; restore it "
                "from a copy, or begin with another --journal."
            )
        self.torn = len(data) - position
        aside = path.with_name(path.name + ".torn")
        try:
            aside.write_bytes(data[position:])
            with path.open("r+b") as file:
                file.truncate(position)
                os.fsync(file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise UsageError(
                f"{path}: {self.torn} bytes at its end were cut short and cannot be put aside: "
                f"{error.strerror}; make room on the disk and start again."
            ) from error

    def append(self, kind: Kind, time_ns: int, session: int, body: bytes) -> None:
        """Add a record; it is there for good with the next commit."""
        whole = _HEAD.pack(time_ns, session, kind) + body
        self._pending.append(_LENGTHS.pack(len(whole), zlib.crc32(whole)) + whole)

    def commit(self) -> None:
        """Bring what was added to the disk."""
        if not self._pending:
            return
        if self._broken is not None:
            raise self._broken
        data, self._pending = b"".join(self._pending), []
        try:
            if self._file < 0 or self._size >= self._roll_bytes:
                self._roll()
            _write_all(self._file, data)
            os.fdatasync(self._file)
        except OSError as error:
            # Nobody was told of it: it goes, whole records or not, so that nothing follows from it.
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

    def _roll(self) -> None:
        """Go on in the last file while there is room, else in a new one."""
        files = self.files()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if files and files[-1].stat().st_size < self._roll_bytes:
            path = files[-1]
        else:
            number = int(files[-1].name[-6:]) + 1 if files else 1
            path = self._folder / f"journal-{number:06d}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._size = os.fstat(self._file).st_size
        if self._size < len(_MAGIC):
            os.ftruncate(self._file, 0)
            _write_all(self._file, _MAGIC)
            self._size = len(_MAGIC)
            with contextlib.suppress(OSError):
                folder = os.open(self._folder, os.O_RDONLY)
                os.fsync(folder)
                os.close(folder)

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


def _write_all(file: int, data: bytes) -> None:
    """Write all of it: where there is little room, a write takes only a part."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
