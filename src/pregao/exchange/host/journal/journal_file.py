"""File format of the journal: a header that links the files, then records with checksums.

The header is stored twice. It contains the number of the file, the end of the previous file, and
the start value of the checksums, which is random per journal: no bytes that a client sends can
look like a record. Files of version 1 have neither links nor a start value.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Generator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from pregao.errors import UsageError

_FIRST_MAGIC: Final = b"pregao journal 1\n"
_MAGIC: Final = b"pregao journal 2\n"
_LINK: Final = struct.Struct("<IIIQI")
"""Number, start of checksums; of the previous file: number, size, checksum of its last record."""
_CHECK: Final = struct.Struct("<I")
HEADER_BYTES: Final = len(_MAGIC) + 2 * (_LINK.size + _CHECK.size)
LENGTHS: Final = struct.Struct("<II")
HEAD: Final = struct.Struct("<QIB")
_RECORD: Final = struct.Struct("<IIQIB")
"""`LENGTHS` and `HEAD` combined, for reading."""
_SECTOR: Final = 512
_CANDIDATE: Final = re.compile(rb"(?s)(?=...\x00.{16}[^\x00])")
"""Matches possible records: less than 16 MiB, and a kind other than 0."""
_NAME: Final = re.compile(r"journal-[0-9]{6}")


class RecordKind(IntEnum):
    """Kind of a record."""

    START = 1
    """A process started: its settings as JSON."""
    REQUEST = 2
    """A business message of a session, as received."""
    SESSION = 3
    """A change of a session: negotiated, established, left …"""
    CONTROL = 4
    """A command of market operations, as JSON."""
    CANCEL = 5
    """Cancellation of the orders of a session that left: the name of the reason."""
    TIME = 6
    """A timer of the market was due."""
    HANDSHAKE = 7
    """An event of a session or connection, credentials blanked: for inspection, not replayed."""
    RESTATE = 8
    """A session's orders of an earlier day were restated to it."""
    VOID = 9
    """An earlier request failed when it reached the engine, and is void."""


class JournalRecord(NamedTuple):
    """One record."""

    kind: RecordKind
    time_ns: int
    session: int
    body: bytes


_KINDS: Final = {int(kind): kind for kind in RecordKind}


class JournalEnd(NamedTuple):
    """End of a file: its number, size and the checksum of its last record, if known."""

    number: int
    size: int
    checksum: int | None
    time_ns: int = 0
    """Time of its last record, if known."""


NO_FILE: Final = JournalEnd(0, 0, 0)


class JournalHeader(NamedTuple):
    """Header of a file."""

    version: int
    number: int
    seed: int
    """Start value of the checksums."""
    previous: JournalEnd
    start: int
    """Offset of the first record."""
    intact: bool
    """Whether both copies of the header are the same."""


def journal_files(folder: Path) -> list[Path]:
    """Return the files of a journal, oldest first."""
    return sorted(each for each in folder.glob("journal-*") if _NAME.fullmatch(each.name))


def number_of(path: Path) -> int:
    """Return the number in the name of a journal file."""
    return int(path.name[-6:])


def pack_header(number: int, seed: int, previous: JournalEnd) -> bytes:
    """Return the header of a file that continues a previous one."""
    link = _LINK.pack(number, seed, previous.number, previous.size, previous.checksum or 0)
    return _MAGIC + 2 * (link + _CHECK.pack(zlib.crc32(_MAGIC + link)))


def read_header(data: bytes) -> JournalHeader | None:
    """Return the header of a file from either of its copies; None if neither is valid."""
    if data.startswith(_FIRST_MAGIC):
        return JournalHeader(1, 0, 0, NO_FILE, len(_FIRST_MAGIC), intact=True)
    if len(data) < HEADER_BYTES:
        return None
    size = _LINK.size + _CHECK.size
    for start in (len(_MAGIC), len(_MAGIC) + size):
        link = data[start : start + _LINK.size]
        check = data[start + _LINK.size : start + size]
        if check == _CHECK.pack(zlib.crc32(_MAGIC + link)):
            number, seed, *previous = _LINK.unpack(link)
            header = JournalHeader(
                2, number, seed, JournalEnd(*previous), HEADER_BYTES, intact=True
            )
            expected = pack_header(number, seed, header.previous)
            return header._replace(intact=data.startswith(expected))
    return None


def is_begun(data: bytes) -> bool:
    """Whether a file without a header was truncated before its first record was written."""
    if len(data) < HEADER_BYTES and data[: len(_MAGIC)] == _MAGIC[: len(data)]:
        return True
    return _FIRST_MAGIC.startswith(data) or not data.strip(b"\x00")


def walk(
    path: Path, data: bytes, position: int, seed: int, checksum: int | None = 0
) -> Generator[JournalRecord, None, tuple[int, int | None, int]]:
    """Yield the valid records from an offset; return where they end.

    The return value is the offset after the last valid record, its checksum and its time.
    """
    end = len(data)
    view = memoryview(data)
    min_size, lengths, head = _RECORD.size, LENGTHS.size, HEAD.size
    unpack, crc32, kinds = _RECORD.unpack_from, zlib.crc32, _KINDS
    time_ns = 0
    while position + min_size <= end:
        length, check, now_ns, session, number = unpack(data, position)
        start = position + lengths
        after = start + length
        if length < head or after > end or crc32(view[start:after], seed) != check:
            break
        kind = kinds.get(number)
        if kind is None:
            raise UsageError(
                f"{path}: the record at byte {position} has kind {number}, which this version of "
                "Pregão does not support; use the version that wrote it."
            )
        yield JournalRecord(kind, now_ns, session, data[start + head : after])
        position, checksum, time_ns = after, check, now_ns
    return position, checksum, time_ns


def skip(
    path: Path, data: bytes, position: int, seed: int, checksum: int | None = 0
) -> tuple[int, int | None, int]:
    """Return the end of the valid records from an offset, the last checksum, and their number."""
    steps = walk(path, data, position, seed, checksum)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            end, last, _ = ended.value
            return end, last, count
        count += 1


def first_time(data: bytes, position: int) -> int | None:
    """Return the time of the record at an offset, or None at the end of the data."""
    if position + _RECORD.size > len(data):
        return None
    time_ns: int = _RECORD.unpack_from(data, position)[2]
    return time_ns


class JournalDamage(NamedTuple):
    """Bytes of a file that are not a valid record."""

    start: int
    end: int
    """Offset of the next valid record, or of the end of the file."""
    torn: bool
    """Whether this is an incomplete write: nothing that resulted from it was sent."""


def examine(data: bytes, position: int, seed: int) -> JournalDamage:
    """Classify the bytes at an offset that are not a valid record.

    On a working disk a journal can only lack the end of a write: the file ends inside a record, or
    with zeros instead of the missing bytes. Everything else is damage.
    """
    following, certain = _next_record(data, position, seed)
    if following is not None:
        return JournalDamage(position, following, torn=False)
    return JournalDamage(position, len(data), certain and _is_torn(data, position, seed))


def _is_torn(data: bytes, position: int, seed: int) -> bool:
    rest = len(data) - position
    if rest < _RECORD.size:
        return True
    length, check, *_ = _RECORD.unpack_from(data, position)
    start = position + LENGTHS.size
    if length >= HEAD.size and start + length > len(data):
        # Not torn if the record is complete and only its length is wrong.
        return bool(zlib.crc32(memoryview(data)[start:], seed) != check)
    zeros = len(data) - position - len(data[position:].rstrip(b"\x00"))
    if zeros == rest:
        return True
    sector = -(-(len(data) - zeros) // _SECTOR) * _SECTOR
    return len(data) - sector >= _SECTOR


def _next_record(data: bytes, position: int, seed: int) -> tuple[int | None, bool]:
    """Return the offset of the next valid record, and whether the search was complete.

    The length of the damaged record is tried first. A budget limits the checksums of candidates
    to some passes over the rest of the file.
    """
    view = memoryview(data)
    budget = 16 * (len(data) - position) + (1 << 20)
    unpack, crc32 = _RECORD.unpack_from, zlib.crc32
    if position + _RECORD.size <= len(data):
        after = position + LENGTHS.size + unpack(data, position)[0]
        if after > position and after + _RECORD.size <= len(data) and _is_valid(data, after, seed):
            return after, True
    for match in _CANDIDATE.finditer(data, position + 1):
        offset = match.start()
        length, check = LENGTHS.unpack_from(data, offset)
        start = offset + LENGTHS.size
        if length < HEAD.size or start + length > len(data):
            continue
        budget -= length
        if budget < 0:
            return None, False
        if crc32(view[start : start + length], seed) == check:
            return offset, True
    return None, True


def _is_valid(data: bytes, position: int, seed: int) -> bool:
    length, check, _, _, number = _RECORD.unpack_from(data, position)
    start = position + LENGTHS.size
    if length < HEAD.size or start + length > len(data) or not number:
        return False
    return bool(zlib.crc32(memoryview(data)[start : start + length], seed) == check)


def kind_at(data: bytes, position: int) -> RecordKind | None:
    """Return the kind of the record at an offset, or None if it cannot be read."""
    if position + _RECORD.size > len(data):
        return None
    return _KINDS.get(_RECORD.unpack_from(data, position)[4])


def describe(data: bytes, position: int) -> str:
    """Describe the readable parts of the record at an offset, for messages."""
    if position + _RECORD.size > len(data):
        return "with an incomplete header"
    kind = kind_at(data, position)
    if kind is None:
        return "of an unreadable kind"
    session = _RECORD.unpack_from(data, position)[3]
    return f"of kind {kind.name}" + (f", session {session}" if session else "")
