"""The file of a checkpoint: a header with version, place in the journal and checksums, then values.

A checkpoint is kept only after what it holds was committed. So a journal that ends before the place
of its checkpoint has lost records, which is more than a checkpoint that cannot be used.
"""

from __future__ import annotations

import logging
import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from pregao import private_files
from pregao.exchange.host.journal_file import HEADER_BYTES, number_of

_log = logging.getLogger(__name__)
MAGIC: Final = b"pregao checkpoint 2\n"
_HEAD: Final = struct.Struct("<32sIQI16s")
"""The code that wrote it; of the journal: number and size of the file, the checksum of the last
record, a digest of the bytes before."""
_DIGEST_BYTES: Final = 16
_BEFORE: Final = 64
"""So many bytes of the journal before the place must be the same when it is used. That is enough to
recognize the journal, and so few that damage before the place seldom makes a checkpoint useless."""
MAX_BYTES: Final = 4 << 30
_NAMES: Final = "checkpoint-[0-9][0-9][0-9][0-9][0-9][0-9]"


class Place(NamedTuple):
    """A place between two records: the name of a file, and how many bytes of it are before."""

    file: str
    size: int
    checksum: int = 0
    """The checksum of the record before it."""


class Checkpoint(NamedTuple):
    """The values that all records before a place have made, and the code that wrote them."""

    place: Place
    state: bytes
    code: str
    intact: bool
    """Whether the journal is the same before the place."""
    missing: int
    """How many bytes the journal's file ends before the place."""


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints in a journal's folder, oldest first."""
    return sorted(folder.glob(_NAMES))


def write_checkpoint(folder: Path, place: Place, code: str, state: bytes) -> None:
    """Keep a checkpoint of a journal up to a place; a failure is a sentence in the log."""
    journal = folder / place.file
    path = folder / f"checkpoint-{place.file[-6:]}"
    try:
        if len(state) > MAX_BYTES - 4096:
            raise OSError(0, f"it would have {len(state):,} bytes")
        before = _digest_before(journal, place.size)
        values = (code.encode(), number_of(journal), place.size, place.checksum, before)
        head = MAGIC + _HEAD.pack(*values)
        private_files.replace(path, head + _digest(head, state) + state)
    except OSError as error:
        _log.warning("%s: no checkpoint could be kept: %s", path, error.strerror)
        return
    for old in checkpoint_files(folder):
        if old != path:
            with suppress(OSError):
                old.unlink()


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the last checkpoint of a folder, if it is whole; why it is not is in the log."""
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
    place = Place(f"journal-{number:06d}", size, checksum)
    if path.name[-6:] != place.file[-6:]:
        return _ignored(path, f"it is of {place.file}")
    journal = folder / place.file
    try:
        missing = max(0, size - journal.stat().st_size)
        intact = size >= HEADER_BYTES and _digest_before(journal, size) == before
    except OSError as error:
        return _ignored(path, f"{place.file}: {error.strerror}")
    return Checkpoint(place, state, code.decode("latin-1"), intact, missing)


def _ignored(path: Path, reason: str) -> Checkpoint | None:
    _log.warning("%s: the checkpoint is ignored, all of the journal is replayed: %s", path, reason)
    return None


def _digest(head: bytes, state: bytes) -> bytes:
    digest = blake2b(head, digest_size=_DIGEST_BYTES)
    digest.update(state)
    return digest.digest()


def _digest_before(journal: Path, size: int) -> bytes:
    """A digest of the last bytes before a place in a journal's file, without its header."""
    begin = max(HEADER_BYTES, size - _BEFORE)
    descriptor = private_files.open_existing(journal)
    try:
        data = os.pread(descriptor, max(size - begin, 0), begin)
    finally:
        os.close(descriptor)
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
