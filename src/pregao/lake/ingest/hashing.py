"""The identity of a capture: a hash over the hashes of its blocks, which tasks share out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import xxhash

from pregao.lake.store import Location

HASH_BLOCK = 16 * 1024 * 1024
"""Captures are hashed in blocks of this size, by whichever task has a block's first byte."""
_HASH_PIECE = 512 * 1024


def content_hash(location: Location, size: int) -> str:
    """The identity of a capture: a hash over the hashes of its blocks."""
    return hash_of_blocks(dict(block_hashes(location, size, 0, size)), size)


def hash_of_blocks(digests: dict[int, bytes], size: int) -> str:
    """The hash of a file of that size, from the hashes of its blocks."""
    whole = hashlib.sha256(str(size).encode())
    for number in range(-(-size // HASH_BLOCK)):
        whole.update(digests[number])
    return whole.hexdigest()


def block_hashes(
    location: Location, size: int, start: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """The hashes of a file's blocks that begin in a range, by their numbers."""
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
