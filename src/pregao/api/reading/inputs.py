"""Captures named by a user, read in blocks as often as needed."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, Protocol, cast

import numpy as np

from pregao.capture.block_reader import BLOCK_BYTES, BlockReader, read_blocks
from pregao.capture.blocks import PADDING, PacketBlock
from pregao.capture.layers import Flow
from pregao.capture.pcap import is_pcap
from pregao.capture.reader import TruncatedTail
from pregao.capture.source import open_source
from pregao.capture.statistics import CaptureStatistics
from pregao.entrypoint.captured.frame_columns import FrameColumns, StreamAccount
from pregao.errors import CaptureError, UsageError
from pregao.umdf.survey.lines import LineNumbers, LineTable

STANDARD_INPUT = "-"

_PCAPNG = b"\n\r\r\n"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap)\d*(\.(gz|zst|zstd))?$", re.IGNORECASE)
_PIECE = 1 << 20


class Progress(Protocol):
    """Receiver of the progress of reading captures."""

    def begin(self, name: str, size: int | None) -> None:
        """Start a capture; ``size`` is its number of bytes, if known."""

    def reached(self, position: int) -> None:
        """Report the position in the current capture."""


class NullProgress:
    """Progress without output."""

    def begin(self, name: str, size: int | None) -> None:
        """Do nothing."""

    def reached(self, position: int) -> None:
        """Do nothing."""


@dataclass(slots=True)
class ReadStatistics:
    """Accounting of the captures that were read."""

    statistics: CaptureStatistics = field(default_factory=CaptureStatistics)
    names: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    link_types: set[int] = field(default_factory=set)
    compressions: list[str | None] = field(default_factory=list)
    tails: list[tuple[str, TruncatedTail]] = field(default_factory=list)
    streams: list[tuple[Sequence[Flow], dict[int, StreamAccount]]] = field(default_factory=list)
    """For each capture: its TCP flows, and the accounts of EntryPoint streams by flow index."""
    damaged: list[CaptureError] = field(default_factory=list)
    """Errors of damaged records: the rest of their file was not read."""

    @property
    def lost(self) -> int:
        """Captured packets that could not be read."""
        counts = self.statistics
        return counts.cut + counts.malformed.total() + self.fragments

    @property
    def fragments(self) -> int:
        """IP fragments that never became complete datagrams."""
        return self.statistics.fragments_dropped + self.statistics.fragments_pending

    def close(self, reader: BlockReader, frames: FrameColumns) -> None:
        """Add a reader that has ended, and its EntryPoint streams."""
        self.statistics.add(reader.statistics)
        self.streams.append((reader.tcp_flows, frames.accounts))
        self.names.append(reader.name)
        self.formats.append(reader.format)
        self.compressions.append(reader.source.compression)
        self.link_types.update(reader.link_types)
        if reader.truncated_tail is not None:
            self.tails.append((reader.name, reader.truncated_tail))


class ReadBlock(NamedTuple):
    """A block of a capture: its datagrams, and the EntryPoint messages completed in it."""

    reader: BlockReader
    block: PacketBlock
    messages: PacketBlock | None

    @property
    def name(self) -> str:
        """Name of the capture."""
        return self.reader.name


def _no_datagrams() -> PacketBlock:
    empty = np.empty(0, np.int64)
    small = empty.astype(np.int32)
    return PacketBlock(np.zeros(PADDING, np.uint8), empty, empty, small, empty, empty, small)


NO_DATAGRAMS = _no_datagrams()


class CaptureInputs:
    """Captures by name: files, folders, URIs such as ``s3://…``, standard input."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [found for name in names for found in _named(name)]
        if self.names.count(STANDARD_INPUT) > 1:
            raise UsageError(
                "Standard input (-) can be read only once; it was given several times."
            )
        self._spools: dict[str, IO[bytes]] = {}

    def check(self) -> None:
        """Open each capture once, so that errors appear before anything is written."""
        for name in self.names:
            if not _flows_by(name):
                read_blocks(name, block_bytes=64).close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Make standard input and named pipes readable more than once."""
        with ExitStack() as stack:
            try:
                for name in filter(_flows_by, self.names):
                    spool = stack.enter_context(tempfile.TemporaryFile())
                    source = stack.enter_context(_raw(name))
                    shutil.copyfileobj(source, spool, _PIECE)
                    self._spools[name] = spool
                yield
            finally:
                self._spools = {}

    def read(
        self, account: ReadStatistics, progress: Progress, block_bytes: int = BLOCK_BYTES
    ) -> Generator[ReadBlock, None, None]:
        """Yield the blocks of all captures, one capture after the other.

        The rest of a damaged capture is skipped; ``account.damaged`` has the error.
        """
        for name in self.names:
            with self._open(name, block_bytes) as reader:
                size = reader.source.size() if reader.source.random_access else None
                progress.begin(reader.name, size)
                frames = FrameColumns(reader.tcp_flows)
                try:
                    for block in reader:
                        segments = reader.segments
                        yield ReadBlock(reader, block, frames.take(segments) if segments else None)
                        reached = [each.position for each in (block, segments) if each]
                        progress.reached(max(int(position[-1]) for position in reached))
                except CaptureError as error:
                    account.damaged.append(error)
                finally:
                    account.close(reader, frames)
                last = frames.finish()
                if len(last):
                    yield ReadBlock(reader, NO_DATAGRAMS, last)

    def _open(self, name: str, block_bytes: int) -> BlockReader:
        spool = self._spools.get(name)
        if spool is not None:
            spool.seek(0)
            source = cast(BinaryIO, spool)
            reader = read_blocks(source, block_bytes=block_bytes, segments=True)
        elif name == STANDARD_INPUT:
            reader = read_blocks(sys.stdin.buffer, block_bytes=block_bytes, segments=True)
        else:
            return read_blocks(name, block_bytes=block_bytes, segments=True)
        reader.name = "<stdin>" if name == STANDARD_INPUT else name
        return reader


def _flows_by(name: str) -> bool:
    """Whether it can be read only once: standard input, or a named pipe."""
    if name == STANDARD_INPUT:
        return True
    path = Path(name)
    return not _URI.match(name) and path.exists() and not path.is_file()


def _raw(name: str) -> AbstractContextManager[BinaryIO]:
    if name == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(name).open("rb", buffering=0)
    except OSError as error:
        raise CaptureError(f"{name}: cannot be opened: {error.strerror}") from None


def numbered(
    blocks: Iterator[ReadBlock], lines: LineTable
) -> Iterator[tuple[ReadBlock, LineNumbers]]:
    """Yield the blocks with the line numbers of their capture."""
    last: BlockReader | None = None
    numbers: LineNumbers | None = None
    for read in blocks:
        if read.reader is not last or numbers is None:
            last, numbers = read.reader, LineNumbers(lines, read.reader.flows)
        yield read, numbers


def _named(name: str) -> list[str]:
    """Return the captures of a name: itself, or those in the folder with that name."""
    if name == STANDARD_INPUT or _URI.match(name):
        return [name]
    folder = Path(name)
    if not folder.is_dir():
        return [name]
    found = [str(path) for path in sorted(folder.iterdir()) if path.is_file() and _fits(path)]
    if not found:
        raise UsageError(
            f"{name}: no capture in this folder. Specify a pcap or pcapng file, or a folder that "
            "contains some (plain, gzip or zstd)."
        )
    return found


def _fits(path: Path) -> bool:
    """Whether a file is a capture, or named like one so that its error should be reported."""
    try:
        if path.stat().st_size == 0:
            return False
        with open_source(path) as source:
            head = source.read(4)
    except (OSError, CaptureError):
        head = b""
    return head == _PCAPNG or is_pcap(head) or bool(_CAPTURE_NAME.search(path.name))
