"""The identity of a capture: a hash over block hashes, which tasks compute in parallel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import xxhash

from pregao.capture.source import ByteSource, open_source
from pregao.lake.storage.filesystem import Location

FINGERPRINT_BYTES = 1024 * 1024
HASH_BLOCK = 16 * 1024 * 1024
"""Captures are hashed in blocks of this size, each by the task that has its first byte."""
_HASH_PIECE = 512 * 1024


def content_hash(location: Location, size: int) -> str:
    """Return the hash of a file's stored bytes."""
    return hash_of_blocks(dict(block_hashes(location, size, 0, size)), size)


def identities(location: Location, size: int) -> Iterator[str]:
    """Yield the identities under which a capture may be stored, the cheapest to compute first.

    A capture is identified by its decompressed content; lakes of 0.1 identify compressed captures
    by their stored bytes.
    """
    yield content_hash(location, size)
    with open_source(location.source) as source:
        if source.compression is None:
            return
        plain = HashingSource(source)
        plain.finish()
    yield plain.content_hash


def range_hash(location: Location, begin: int, end: int) -> str:
    """Return the hash of a range of a file; an empty string if the file is shorter."""
    digest = xxhash.xxh3_128()
    with location.filesystem.open_input_file(location.path) as file:
        file.seek(begin)
        left = end - begin
        while left > 0 and (piece := file.read(min(_HASH_PIECE, left))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest() if left == 0 else ""


class HashingSource:
    """A source that hashes its decompressed bytes while they are read.

    It has the interface of a binary file that readers of captures need.
    """

    def __init__(self, source: ByteSource) -> None:
        self.name = source.name
        self._source = source
        self._digests: dict[int, bytes] = {}
        self._block = xxhash.xxh3_128()
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def readinto(self, view: memoryview) -> int:
        """Fill the view; returns fewer bytes only at the end."""
        got = self._source.readinto(view)
        self._take(view[:got])
        return got

    def read(self, count: int) -> bytes:
        """Return ``count`` bytes, fewer at the end."""
        piece = self._source.read(count)
        self._take(memoryview(piece))
        return piece

    def seekable(self) -> bool:
        """Return False: the source is read sequentially."""
        return False

    def finish(self) -> None:
        """Read and hash the remaining bytes."""
        while self.read(_HASH_PIECE):
            pass

    def _take(self, view: memoryview) -> None:
        if len(self._head) < FINGERPRINT_BYTES:
            self._head += view[: FINGERPRINT_BYTES - len(self._head)]
        self._tail += view
        if len(self._tail) > 4 * FINGERPRINT_BYTES:
            del self._tail[:-FINGERPRINT_BYTES]
        while len(view):
            remaining = HASH_BLOCK - self._size % HASH_BLOCK
            self._block.update(view[:remaining])
            self._size += len(view[:remaining])
            if self._size % HASH_BLOCK == 0:
                self._digests[self._size // HASH_BLOCK - 1] = self._block.digest()
                self._block = xxhash.xxh3_128()
            view = view[remaining:]

    @property
    def content_hash(self) -> str:
        """Identity of the bytes read, equal to that of an uncompressed file with these bytes."""
        digests = dict(self._digests)
        if self._size % HASH_BLOCK:
            digests[self._size // HASH_BLOCK] = self._block.digest()
        return hash_of_blocks(digests, self._size)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of an uncompressed file with the same bytes."""
        tail = self._tail[-FINGERPRINT_BYTES:]
        return fingerprint_of(self._size, bytes(self._head), bytes(tail))


def hash_of_blocks(digests: dict[int, bytes], size: int) -> str:
    """Return the hash of a file from its size and the hashes of its blocks."""
    digest = hashlib.sha256(str(size).encode())
    for number in range(-(-size // HASH_BLOCK)):
        digest.update(digests[number])
    return digest.hexdigest()


def block_hashes(
    location: Location, size: int, start: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """Yield number and hash of a file's blocks that begin in a range."""
    buffer = memoryview(bytearray(min(_HASH_PIECE, size)))
    with location.filesystem.open_input_file(location.path) as file:
        for number in range(-(-start // HASH_BLOCK), -(-end // HASH_BLOCK)):
            digest = xxhash.xxh3_128()
            left = min(HASH_BLOCK, size - number * HASH_BLOCK)
            file.seek(number * HASH_BLOCK)
            while left and (got := file.readinto(buffer[:left])):
                digest.update(buffer[:got])
                left -= got
            yield number, digest.digest()


def fingerprint(location: Location, size: int) -> str:
    """Return a hash of size, head and tail, which differs for most different captures."""
    with location.filesystem.open_input_file(location.path) as file:
        head = file.read(min(size, FINGERPRINT_BYTES))
        file.seek(max(0, size - FINGERPRINT_BYTES))
        return fingerprint_of(size, head, file.read(FINGERPRINT_BYTES))


def fingerprint_of(size: int, head: bytes, tail: bytes) -> str:
    """Return the fingerprint of a file from its size and its first and last bytes."""
    digest = hashlib.sha256(str(size).encode())
    digest.update(head)
    digest.update(tail)
    return digest.hexdigest()[:32]
