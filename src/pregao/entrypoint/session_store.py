"""Storage of sessions: in memory, or in a file that survives a crash of the process.

The file is a sequence of records, each with its length and checksum. Sessions hand records to the
operating system (`flush`) before they send anything that depends on them, so a crash of the process
loses no record that a peer has seen; `sync` writes them to disk. An incomplete record at the end of
the file is dropped.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pregao.entrypoint.session_state import (
    ALWAYS,
    NEVER,
    ON_LOSS,
    ON_TERMINATE,
    CancelScheduled,
    DayReset,
    DeliveryResolved,
    IncomingAccepted,
    IncomingExpected,
    IncomingKept,
    OutgoingNotApplied,
    OutgoingSent,
    OutgoingSkipped,
    SessionBound,
    SessionRecord,
    SessionState,
    SessionUnbound,
    VersionNegotiated,
    WeekReset,
)
from pregao.errors import UsageError
from pregao.safe_io import private_files

_MAGIC: Final = b"pregao sessions 1\n"
_LENGTHS: Final = struct.Struct("<II")
_MAX_SEARCH: Final = 1 << 16
"""Bytes searched for a valid record after damage: more than any message has."""
_NO_TIME: Final = (1 << 64) - 1
_WISHES: Final = (NEVER, ON_LOSS, ON_TERMINATE, ALWAYS)

_KINDS: Final[tuple[tuple[type, str, Callable[[Any], tuple[int, ...]]], ...]] = (
    (VersionNegotiated, "<QHB", lambda r: (r.session_ver_id, r.version, r.gateway)),
    (SessionBound, "<BI", lambda r: (_WISHES.index(r.cancel_on_disconnect), r.window_ms)),
    (IncomingExpected, "<Q", lambda r: (r.number,)),
    (OutgoingSent, "<Q", lambda r: (r.number,)),
    (OutgoingSkipped, "<Q", lambda r: (r.number,)),
    (CancelScheduled, "<Q", lambda r: (_NO_TIME if r.time_ns is None else r.time_ns,)),
    (DayReset, "<", lambda _: ()),
    (WeekReset, "<", lambda _: ()),
    (IncomingAccepted, "<Q", lambda r: (r.number,)),
    (DeliveryResolved, "<Q", lambda r: (r.number,)),
    (SessionUnbound, "<", lambda _: ()),
    (IncomingKept, "<Q", lambda r: (r.number,)),
    (OutgoingNotApplied, "<QQ", lambda r: (r.first, r.count)),
)
_NUMBERS: Final = {kind: number for number, (kind, _, _) in enumerate(_KINDS)}


class SessionStore:
    """Sessions in memory; base class of the file store."""

    def __init__(self) -> None:
        self._states: dict[int, SessionState] = {}

    def state(self, session_id: int) -> SessionState:
        """Return the state of a session; an unknown session is new."""
        found = self._states.get(session_id)
        if found is None:
            found = self._states[session_id] = SessionState()
        return found

    def sessions(self) -> list[int]:
        """Return the sessions with a state."""
        return list(self._states)

    def record(self, session_id: int, record: SessionRecord) -> None:
        """Apply a record to a session."""
        self.state(session_id).apply(record)

    def accept_incoming(self, session_id: int, number: int) -> None:
        """Record an accepted business message of the peer (`IncomingAccepted`)."""
        self.record(session_id, IncomingAccepted(number))

    def sent(self, session_id: int, number: int, data: bytes) -> None:
        """Record a sent business message (`OutgoingSent`)."""
        self.record(session_id, OutgoingSent(number, data))

    def reset_day(self) -> None:
        """Start a trading session: clear numbers and sent messages, keep session versions."""
        self._reset(DayReset())

    def reset_week(self) -> None:
        """Start a week: clear session versions as well."""
        self._reset(WeekReset())

    def _reset(self, record: DayReset | WeekReset) -> None:
        for session_id in self.sessions():
            self.record(session_id, record)

    def flush(self) -> None:
        """Hand records to the operating system: a crash of the process cannot lose them."""

    def sync(self) -> None:
        """Write records to disk: a crash of the machine cannot lose them."""

    def close(self) -> None:
        """Flush and close."""


class SessionFile(SessionStore):
    """Sessions in a file, locked by one process at a time.

    ```python
    client = Client(settings, gateways, SessionFile(Path("session.bin")))
    ```

    Args:
        path: The file; it is created if it does not exist.

    Raises:
        UsageError: The file cannot be opened, is in use or damaged, or is not a session file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._unwritten: list[bytes] = []
        try:
            self._file = private_files.open_or_create(path, os.O_RDWR)
        except OSError as error:
            raise UsageError(f"{path}: cannot open the session file: {error.strerror}") from error
        try:
            self._lock()
            size = self._load()
        except BaseException:
            os.close(self._file)
            raise
        os.ftruncate(self._file, size)
        os.lseek(self._file, size, os.SEEK_SET)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{self._path}: the session file is in use by another process"
            ) from None

    def _load(self) -> int:
        """Apply the stored records; return the end offset of the last complete one."""
        with os.fdopen(self._file, "rb", closefd=False) as file:
            data = file.read()
        if not data.startswith(_MAGIC):
            if _MAGIC.startswith(data):  # new, or cut off within the magic number
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, _MAGIC, 0)
                return len(_MAGIC)
            raise UsageError(f"{self._path}: not a session file")
        complete = len(_MAGIC)
        for session_id, record, end in _records(data):
            super().record(session_id, record)
            complete = end
        if complete < len(data) and not _is_torn(data, complete):
            raise UsageError(
                f"{self._path}: the session file is damaged at byte {complete}; restore a copy, or "
                "use another file"
            )
        return complete

    def record(self, session_id: int, record: SessionRecord) -> None:
        """Apply a record to a session, and queue it for the file."""
        self._unwritten.append(_checked(pack_record(session_id, record)))
        super().record(session_id, record)

    def flush(self) -> None:
        """Hand records to the operating system: a crash of the process cannot lose them."""
        if self._unwritten:
            data, self._unwritten = b"".join(self._unwritten), []
            private_files.write_all(self._file, data)

    def _reset(self, record: DayReset | WeekReset) -> None:
        super()._reset(record)
        self._unwritten = []  # the new file includes them
        self._rewrite()

    def _rewrite(self) -> None:
        """Replace the file atomically by one with the fewest records."""
        fresh = self._path.with_name(self._path.name + ".new")
        with suppress(FileNotFoundError):
            fresh.unlink()  # left by a process that ended early
        file = private_files.create(fresh, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            parts = [_MAGIC]
            for session_id, state in self._states.items():
                parts += [_checked(pack_record(session_id, each)) for each in state.summary()]
            private_files.write_all(file, b"".join(parts))
            private_files.sync_data(file)
            fresh.rename(self._path)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file = file
        private_files.sync_folder(self._path.parent)

    def sync(self) -> None:
        """Write records to disk: a crash of the machine cannot lose them."""
        self.flush()
        private_files.sync_data(self._file)

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        os.close(self._file)


def pack_record(session_id: int, record: SessionRecord) -> bytes:
    """Encode a record of a session; `unpack_record` decodes it.

    Args:
        session_id: The session.
        record: The record.

    Returns:
        The encoded record, without length and checksum.

    Example:
        >>> from pregao.entrypoint.session_state import IncomingExpected
        >>> unpack_record(pack_record(7, IncomingExpected(12)))
        (7, IncomingExpected(number=12))
    """
    number = _NUMBERS[type(record)]
    _, form, numbers = _KINDS[number]
    body = struct.pack("<BI", number, session_id) + struct.pack(form, *numbers(record))
    return body + record.data if isinstance(record, OutgoingSent | IncomingKept) else body


def unpack_record(body: bytes) -> tuple[int, SessionRecord]:
    """Decode a record encoded by `pack_record`.

    Args:
        body: The encoded record.

    Returns:
        The session and the record.

    Example:
        >>> from pregao.entrypoint.session_state import IncomingExpected
        >>> session_id, record = unpack_record(pack_record(7, IncomingExpected(12)))
        >>> session_id
        7
    """
    number, session_id = struct.unpack_from("<BI", body)
    return session_id, _record(number, body[5:])


def _checked(body: bytes) -> bytes:
    """Return an encoded record with its length and checksum."""
    return _LENGTHS.pack(len(body), zlib.crc32(body)) + body


def _records(data: bytes) -> Iterator[tuple[int, SessionRecord, int]]:
    """Yield the complete records of a file with their sessions and end offsets."""
    position = len(_MAGIC)
    while position + _LENGTHS.size <= len(data):
        length, checksum = _LENGTHS.unpack_from(data, position)
        start, end = position + _LENGTHS.size, position + _LENGTHS.size + length
        body = data[start:end]
        if len(body) < length or length < 5 or zlib.crc32(body) != checksum:
            return
        yield *unpack_record(body), end
        position = end


def _is_torn(data: bytes, position: int) -> bool:
    """Whether the file ends inside a record, or in zeros that were never written."""
    rest = data[position:]
    if len(rest) < _LENGTHS.size or not rest.strip(b"\x00"):
        return True
    length, checksum = _LENGTHS.unpack_from(rest)
    if _LENGTHS.size + length <= len(rest) or zlib.crc32(rest[_LENGTHS.size :]) == checksum:
        return False
    # The length itself may be damaged: then a valid record follows.
    for start in range(1, min(len(rest) - _LENGTHS.size, _MAX_SEARCH)):
        length, checksum = _LENGTHS.unpack_from(rest, start)
        body = rest[start + _LENGTHS.size : start + _LENGTHS.size + length]
        if 5 <= length == len(body) and zlib.crc32(body) == checksum:
            return False
    return True


def _record(number: int, body: bytes) -> SessionRecord:
    kind, form, _ = _KINDS[number]
    numbers = struct.unpack_from(form, body)
    if kind is OutgoingSent or kind is IncomingKept:
        message: SessionRecord = kind(numbers[0], body[struct.calcsize(form) :])
        return message
    if kind is SessionBound:
        return SessionBound(_WISHES[numbers[0]], numbers[1])
    if kind is CancelScheduled:
        return CancelScheduled(None if numbers[0] == _NO_TIME else numbers[0])
    record: SessionRecord = kind(*numbers)
    return record
