"""The captures named on the command line, read in blocks as often as needed."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, cast

from pregao.capture import (
    BlockReader,
    CaptureStatistics,
    PacketBlock,
    TruncatedTail,
    read_blocks,
)
from pregao.capture.bulk import BLOCK_BYTES
from pregao.capture.pcap import is_pcap
from pregao.capture.source import open_source
from pregao.cli.progress import Progress
from pregao.errors import CaptureError, UsageError
from pregao.umdf.survey import LineNumbers, Lines

STANDARD_INPUT = "-"

_PCAPNG = b"\n\r\r\n"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap)\d*(\.(gz|zst|zstd))?$", re.IGNORECASE)
_PIECE = 1 << 20


@dataclass(slots=True)
class ReadAccount:
    """What became of the bytes of the captures that were read."""

    statistics: CaptureStatistics = field(default_factory=CaptureStatistics)
    names: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    link_types: set[int] = field(default_factory=set)
    compressions: list[str | None] = field(default_factory=list)
    tails: list[tuple[str, TruncatedTail]] = field(default_factory=list)
    damaged: list[CaptureError] = field(default_factory=list)
    """Records that cannot be: what follows them in their file was not read."""

    @property
    def lost(self) -> int:
        """Packets that were captured, but not so that they could be read."""
        return self.statistics.cut + self.statistics.malformed.total()

    def close(self, reader: BlockReader) -> None:
        """Take in a reader that was read to its end."""
        self.statistics.add(reader.statistics)
        self.names.append(reader.name)
        self.formats.append(reader.format)
        self.compressions.append(reader.source.compression)
        self.link_types.update(reader.link_types)
        if reader.truncated_tail is not None:
            self.tails.append((reader.name, reader.truncated_tail))


class Captures:
    """Captures by name: files, folders of them, addresses such as ``s3://…``, standard input."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [found for name in names for found in _named(name)]
        if self.names.count(STANDARD_INPUT) > 1:
            raise UsageError("Standard input (-) can be read only once; name it once.")
        self._spool: IO[bytes] | None = None

    def check(self) -> None:
        """Open each capture once, so that a mistake shows before anything is written."""
        for name in self.names:
            if name != STANDARD_INPUT:
                read_blocks(name, block_bytes=64).close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Make standard input readable more than once."""
        if STANDARD_INPUT not in self.names:
            yield
            return
        with tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool, _PIECE)
            self._spool = spool
            try:
                yield
            finally:
                self._spool = None

    def read(
        self, account: ReadAccount, progress: Progress, block_bytes: int = BLOCK_BYTES
    ) -> Generator[tuple[BlockReader, PacketBlock], None, None]:
        """The blocks of all captures, one capture after the other.

        Where a capture is damaged, its rest is given up: the account tells.
        """
        for name in self.names:
            with self._open(name, block_bytes) as reader:
                size = reader.source.size() if reader.source.random_access else None
                progress.begin(reader.name, size)
                try:
                    for block in reader:
                        yield reader, block
                        progress.reached(int(block.position[-1]))
                except CaptureError as error:
                    account.damaged.append(error)
                finally:
                    account.close(reader)

    def _open(self, name: str, block_bytes: int) -> BlockReader:
        if name != STANDARD_INPUT:
            return read_blocks(name, block_bytes=block_bytes)
        if self._spool is None:
            return _called(read_blocks(sys.stdin.buffer, block_bytes=block_bytes))
        self._spool.seek(0)
        return _called(read_blocks(cast(BinaryIO, self._spool), block_bytes=block_bytes))


def numbered(
    blocks: Iterator[tuple[BlockReader, PacketBlock]], lines: Lines
) -> Iterator[tuple[str, PacketBlock, LineNumbers]]:
    """The blocks with their capture's name and lines."""
    last: BlockReader | None = None
    numbers: LineNumbers | None = None
    for reader, block in blocks:
        if reader is not last or numbers is None:
            last, numbers = reader, LineNumbers(lines, reader.flows)
        yield reader.name, block, numbers


def _called(reader: BlockReader) -> BlockReader:
    reader.name = "<stdin>"
    return reader


def _named(name: str) -> list[str]:
    """The captures that a name stands for: itself, or those in the folder of that name."""
    if name == STANDARD_INPUT or _URI.match(name):
        return [name]
    folder = Path(name)
    if not folder.is_dir():
        return [name]
    found = [str(path) for path in sorted(folder.iterdir()) if path.is_file() and _fits(path)]
    if not found:
        raise UsageError(
            f"{name}: there is no capture in this folder. Name a pcap or pcapng file, or a folder "
            "that holds some (plain, gzip or zstd)."
        )
    return found


def _fits(path: Path) -> bool:
    """Is it a capture, or called like one so that its fault should be told?"""
    try:
        if path.stat().st_size == 0:
            return False
        with open_source(path) as source:
            head = source.read(4)
    except (OSError, CaptureError):
        head = b""
    return head == _PCAPNG or is_pcap(head) or bool(_CAPTURE_NAME.search(path.name))
