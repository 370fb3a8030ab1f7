"""Checkpoint file: a header with version, position in the journal and checksums, then the state.

A checkpoint is saved only after its state was committed. So a journal that ends before the position
of its checkpoint has lost records, which is worse than an unusable checkpoint.
"""

from __future__ import annotations

import logging
import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from pregao.exchange.host.journal.journal_file import HEADER_BYTES, number_of
from pregao.safe_io import private_files

_log = logging.getLogger(__name__)
MAGIC: Final = b"pregao checkpoint 2\n"
_HEAD: Final = struct.Struct("<32sIQI16s")
"""Digest of the code that wrote it; of the journal: number and size of the file, checksum of the
last record, digest of the bytes before it."""
_DIGEST_BYTES: Final = 16
_BEFORE: Final = 64
"""Number of journal bytes before the position that must be unchanged to use a checkpoint: enough to
recognize the journal, and so few that damage before the position seldom makes it unusable."""
MAX_BYTES: Final = 4 << 30
_NAMES: Final = "checkpoint-[0-9][0-9][0-9][0-9][0-9][0-9]"


class JournalPosition(NamedTuple):
    """Position between two records: the name of a file, and the number of bytes before it."""

    file: str
    size: int
    checksum: int = 0
    """Checksum of the record before it."""


class JournalCheckpoint(NamedTuple):
    """State after all records before a position, and the digest of the code that wrote it."""

    position: JournalPosition
    state: bytes
    code: str
    intact: bool
    """Whether the journal before the position is unchanged."""
    missing: int
    """Number of bytes that the journal file lacks up to the position."""


def checkpoint_files(folder: Path) -> list[Path]:
    """Return the checkpoints in a journal's folder, oldest first."""
    return sorted(folder.glob(_NAMES))


def write_checkpoint(folder: Path, position: JournalPosition, code: str, state: bytes) -> None:
    """Save a checkpoint of a journal up to a position; a failure is only logged."""
    journal = folder / position.file
    path = folder / f"checkpoint-{position.file[-6:]}"
    try:
        if len(state) > MAX_BYTES - 4096:
            raise OSError(0, f"its state of {len(state):,} bytes is too large")
        before = _digest_before(journal, position.size)
        values = (code.encode(), number_of(journal), position.size, position.checksum, before)
        head = MAGIC + _HEAD.pack(*values)
        private_files.replace(path, head + _digest(head, state) + state)
    except OSError as error:
        _log.warning("%s: cannot save a checkpoint: %s", path, error.strerror)
        return
    for old in checkpoint_files(folder):
        if old != path:
            with suppress(OSError):
                old.unlink()


def read_checkpoint(folder: Path) -> JournalCheckpoint | None:
    """Return the last checkpoint of a folder, or None with a log message if it is damaged."""
    found = checkpoint_files(folder)
    if not found:
        return None
    path = found[-1]
    try:
        data = private_files.read(path, MAX_BYTES)
    except OSError as error:
        return _ignored(path, error.strerror or str(error))
    if not data.startswith(MAGIC):
        return _ignored(path, "it is damaged, or another version of Pregão wrote it")
    end = len(MAGIC) + _HEAD.size
    head, digest, state = data[:end], data[end : end + _DIGEST_BYTES], data[end + _DIGEST_BYTES :]
    if len(head) < end or _digest(head, state) != digest:
        return _ignored(path, "it is damaged")
    code, number, size, checksum, before = _HEAD.unpack_from(head, len(MAGIC))
    position = JournalPosition(f"journal-{number:06d}", size, checksum)
    if path.name[-6:] != position.file[-6:]:
        return _ignored(path, f"it belongs to {position.file}")
    journal = folder / position.file
    try:
        missing = max(0, size - journal.stat().st_size)
        intact = size >= HEADER_BYTES and _digest_before(journal, size) == before
    except OSError as error:
        return _ignored(path, f"{position.file}: {error.strerror}")
    return JournalCheckpoint(position, state, code.decode("latin-1"), intact, missing)


def _ignored(path: Path, reason: str) -> JournalCheckpoint | None:
    _log.warning("%s: checkpoint ignored, replaying the full journal: %s", path, reason)
    return None


def _digest(head: bytes, state: bytes) -> bytes:
    digest = blake2b(head, digest_size=_DIGEST_BYTES)
    digest.update(state)
    return digest.digest()


def _digest_before(journal: Path, size: int) -> bytes:
    """Return a digest of the last bytes before a position in a journal file, without its header."""
    begin = max(HEADER_BYTES, size - _BEFORE)
    descriptor = private_files.open_existing(journal)
    try:
        data = os.pread(descriptor, max(size - begin, 0), begin)
    finally:
        os.close(descriptor)
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
