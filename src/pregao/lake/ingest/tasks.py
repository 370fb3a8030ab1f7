"""A task of the ingest: ranges of captures in, files of tables and a manifest out.

It is one pure function that tests call without Spark. What it reads beyond its own bytes is
context: the other feed's copies of its packets, and where an event began.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from pregao.capture import CaptureStatistics, Flow, PacketBlock, read_blocks
from pregao.lake.ingest.decoding import FeedCoverage, RunStarts, Sums, WindowDecoder, first_seen
from pregao.lake.ingest.files import BY_INSTRUMENT, write_rows
from pregao.lake.ingest.instruments import latest
from pregao.lake.ingest.schemas import REJECTS
from pregao.lake.ingest.window import (
    Bounds,
    Coverage,
    PacketChunk,
    Role,
    chunk_of,
    distinct,
    joined_runs,
)
from pregao.lake.store import DATE, Location, Written
from pregao.schemas import Registry
from pregao.umdf.sequencing import Place, precedes, serial_of
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import Destination

BLOCK_BYTES = 8 * 1024 * 1024
HASH_BLOCK = 16 * 1024 * 1024
_HASH_PIECE = 512 * 1024
"""Captures are hashed in blocks of this size, by whichever task has a block's first byte."""
SMALL = 16_384
"""Tables with fewer rows than this are merged with those of other tasks before they are kept."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a capture: the task's own bytes, and what it reads around them.

    Without a start it is a capture that cannot be cut; without an end it goes to the file's end.
    """

    capture: int
    start: int | None = None
    end: int | None = None
    read_from: int | None = None
    read_to: int | None = None

    @property
    def first(self) -> bool:
        """Does nothing of the capture come before it?"""
        return self.start is None or self.read_from is None


@dataclass(frozen=True, slots=True)
class Task:
    """What one task does."""

    number: int
    captures: tuple[Location, ...]
    capture_ids: tuple[str, ...]
    sizes: tuple[int, ...]
    pieces: tuple[Piece, ...]
    roles: tuple[Role, ...]
    bounds: tuple[tuple[int, Bounds], ...]
    covered: tuple[tuple[tuple[int, int, int], tuple[tuple[int, int], ...]], ...]
    lake: Location
    staging: str | None
    """The folder for small tables, relative to the lake; None to write every table directly."""
    skew_ns: int
    channels: tuple[int, ...] | None = None
    schema_files: tuple[str, ...] = ()
    window_bytes: int = 96 * 1024 * 1024
    starts: tuple[int, ...] | None = None
    """Of ranges of files: where each begins; it ends at its size. None of whole captures."""


@dataclass(slots=True)
class Manifest:
    """What a task wrote, counted and found."""

    task: int
    files: list[Written] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """What was seen of other units' packets, before and after."""
    starts: RunStarts = field(default_factory=dict)
    statistics: dict[int, CaptureStatistics] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By capture: the first and last capture time."""
    hashes: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """By capture, by number of block."""
    tails: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By capture: position and length of a record that is not whole."""
    evidence: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Messages by destination and template."""
    memory: int = 0
    """The most bytes that the process of the task ever had in memory."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A small table, kept aside until it is merged with those of other tasks."""

    table: str
    day: int
    path: str
    rows: int


def run_task(task: Task) -> Manifest:
    """Do a task. Bad input gives CaptureError with file and position, or rows in rejects."""
    return _Run(task).run()


class _Run:
    """The state of one task at work."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.manifest = Manifest(task.number)
        self.roles = list(task.roles)
        self.lines = {role.destination: number for number, role in enumerate(self.roles)}
        registry = Registry.bundled()
        if task.schema_files:
            registry = Registry.from_environment(task.schema_files)
        channels = None if task.channels is None else frozenset(task.channels)
        self.decoder = WindowDecoder(self.roles, list(task.capture_ids), registry, channels)
        self.covered: Coverage = {key: list(runs) for key, runs in task.covered}
        self.rows: dict[tuple[str, int], list[Any]] = {}

    def run(self) -> Manifest:
        pieces = self.task.pieces
        if all(piece.start is not None for piece in pieces):
            chunks = [chunk for piece in pieces for chunk in self.chunks(piece)]
            self.window(chunks, dict(self.task.bounds))
        else:
            for chunks, bounds in self.windows():
                self.window(chunks, bounds)
                self.flush()
        self.flush()
        if self.task.starts is None:  # a range is known by its file and place
            for piece in pieces:
                self.hash(piece)
        self.manifest.memory = peak_memory()
        return self.manifest

    # Reading

    def chunks(self, piece: Piece) -> Iterator[PacketChunk]:
        """The packets of a piece, with those around it as context."""
        if piece.start is None:
            yield from self.blocks(piece.capture, None, None, owned=True)
            return
        # A file that grows is read as far as it went when the ingest was planned.
        stop = self.task.sizes[piece.capture] if piece.end is None else piece.end
        for start, end, owned in (
            (piece.read_from, piece.start, False),
            (piece.start, stop, True),
            (piece.end, piece.read_to, False),
        ):
            if start is not None and (end is None or start < end):
                yield from self.blocks(piece.capture, start, end, owned=owned)

    def blocks(
        self, capture: int, start: int | None, end: int | None, *, owned: bool
    ) -> Iterator[PacketChunk]:
        source = self.task.captures[capture].source
        with read_blocks(source, start, end, BLOCK_BYTES) as reader:
            numbers = np.empty(0, np.int32)
            for block in reader:
                if len(numbers) < len(reader.flows):
                    found = [self.role(flow) for flow in reader.flows]
                    numbers = np.array(found, np.int32)
                if owned:
                    self.note(capture, block)
                mask = np.full(len(block), owned, np.bool_)
                chunk = chunk_of(block, capture, numbers[block.flow], mask)
                if not owned and self.task.starts is not None:
                    low, high = self.task.starts[capture], self.task.sizes[capture]
                    chunk.outside = (block.position < low) | (block.position >= high)
                yield chunk
            if owned:
                kept = self.manifest.statistics.setdefault(capture, CaptureStatistics())
                kept.add(reader.statistics)
                tail = reader.truncated_tail
                if tail is not None:
                    self.manifest.tails[capture] = (tail.position, tail.length)

    def role(self, flow: Flow) -> int:
        """The number of a destination's role; one that the plan did not see is unknown."""
        destination = str(Destination(flow.dst, flow.dst_port))
        number = self.lines.get(destination)
        if number is None:
            number = self.lines[destination] = len(self.roles)
            self.roles.append(Role(destination, Stream.UNKNOWN, ""))
            self.decoder.roles = self.roles
        return number

    def note(self, capture: int, block: PacketBlock) -> None:
        if len(block):
            first, last = int(block.time_ns.min()), int(block.time_ns.max())
            known = self.manifest.spans.get(capture, (first, last))
            self.manifest.spans[capture] = (min(first, known[0]), max(last, known[1]))

    def hash(self, piece: Piece) -> None:
        """Hash the blocks of the file that begin in the piece."""
        location = self.task.captures[piece.capture]
        found = self.manifest.hashes.setdefault(piece.capture, {})
        end = self.task.sizes[piece.capture] if piece.end is None else piece.end
        start = 0 if piece.first else piece.start or 0
        found.update(block_hashes(location, self.task.sizes[piece.capture], start, end))

    # Windows

    def window(self, chunks: list[PacketChunk], bounds: dict[int, Bounds]) -> None:
        """Decode a window and keep what it gives."""
        decoded = self.decoder.decode(chunks, bounds, self.covered)
        self.manifest.sums.add(decoded.sums)
        for total, more in (
            (self.manifest.coverage, decoded.coverage),
            (self.manifest.around, decoded.around),
        ):
            for key, runs in more.items():
                total[key] = joined_runs(total.get(key, []), runs)
        for key, times in decoded.starts.items():
            first_seen(self.manifest.starts, key, times.items())
        for (role, template), count in decoded.evidence.items():
            self.manifest.evidence[self.roles[role].destination, template] += count
        for place, rows in decoded.tables.items():
            self.rows.setdefault(place, []).extend(rows)

    def windows(self) -> Iterator[tuple[list[PacketChunk], dict[int, Bounds]]]:
        """Windows over captures that cannot be cut, read side by side in the order of time.

        A window ends at a time that every capture has passed by more than the skew. It owns the
        packets up to then, and the keys below the first that came after.
        """
        readers = [_Reader(self.chunks(piece)) for piece in self.task.pieces]
        pending: list[PacketChunk] = []
        low: dict[int, Place] = {}
        ended = -1
        while True:
            more = [reader for reader in readers if reader.open]
            cut = min((reader.last_time for reader in more), default=_FOREVER)
            cut = cut if cut == _FOREVER else cut - self.task.skew_ns
            held = sum(len(chunk.block.buffer) for chunk in pending)
            if more and (held < self.task.window_bytes or cut <= ended):
                chunk = min(more, key=lambda reader: reader.last_time).next()
                if chunk is not None:
                    pending.append(chunk)
                continue
            for chunk in pending:
                times = chunk.block.time_ns
                chunk.owned = (times > ended) & (times <= cut)
            high = self.first_keys(pending, cut, low)
            yield (
                pending,
                {c: Bounds(low.get(c), high.get(c)) for c in low.keys() | high.keys()},
            )
            if not more:
                return
            low |= high
            ended = cut
            keep = cut - self.task.skew_ns
            pending = [c for c in pending if len(c.block) and c.block.time_ns.max() > keep]

    def first_keys(
        self, chunks: list[PacketChunk], cut: int, low: dict[int, Place]
    ) -> dict[int, Place]:
        """The first key of each incremental channel that came after a time."""
        found: dict[int, Place] = {}
        incremental = np.array([role.stream is Stream.INCREMENTAL for role in self.roles])
        for chunk in chunks:
            late = (chunk.block.time_ns > cut) & incremental[chunk.role]
            late &= (chunk.channel >= 0) & (chunk.number > 0)
            for channel in distinct(chunk.channel[late]):
                rows = np.flatnonzero(late & (chunk.channel == channel))
                known = found.get(channel) or low.get(channel)
                base = known.sequence_version if known else int(chunk.version[rows[0]])
                keys = serial_of(chunk.version[rows], chunk.number[rows], base)
                best = rows[int(keys.argmin())]
                key = Place(int(chunk.version[best]), int(chunk.number[best]))
                if channel not in found or precedes(key, found[channel]):
                    found[channel] = key
        return found

    # Writing

    def flush(self) -> None:
        """Write the rows: large tables as files, small ones to be merged with others'."""
        for (table, day), parts in sorted(self.rows.items()):
            if table == "rejects":
                schema = pa.schema([entry for entry in REJECTS if entry.name != DATE])
                data = pa.Table.from_pylist(parts, schema=schema)
            else:
                data = pa.concat_tables(parts)
            if table == "instruments":
                data = latest(data)
            large = data.num_rows >= SMALL and table != "instruments"
            if self.task.staging is None or large:
                self.manifest.files.append(write_rows(self.task.lake, table, data, day))
            else:
                self.stage(table, day, data)
        self.rows.clear()

    def stage(self, table: str, day: int, data: Any) -> None:
        folder = f"{self.task.lake.path}/{self.task.staging}/{table}"
        path = f"{folder}/{day}-{self.task.number}-{len(self.manifest.staged)}.arrow"
        filesystem = self.task.lake.filesystem
        filesystem.create_dir(folder, recursive=True)
        with (
            filesystem.open_output_stream(path) as sink,
            pa.ipc.new_file(sink, data.schema) as writer,
        ):
            writer.write_table(data.unify_dictionaries().combine_chunks())
        self.manifest.staged.append(Staged(table, day, path, data.num_rows))


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


def peak_memory() -> int:
    """The most bytes that this process ever had in memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


_FOREVER = 1 << 62


class _Reader:
    """The chunks of a capture, and up to which time they were read."""

    def __init__(self, chunks: Iterator[PacketChunk]) -> None:
        self._chunks = chunks
        self.open = True
        self.last_time = -1

    def next(self) -> PacketChunk | None:
        """The next chunk; None when there is no more."""
        chunk = next(self._chunks, None)
        if chunk is None:
            self.open = False
        elif len(chunk.block):
            self.last_time = max(self.last_time, int(chunk.block.time_ns.max()))
        return chunk


def merge_staged(lake: Location, table: str, day: int, paths: list[str]) -> Written:
    """One file of the small tables that several tasks kept aside."""
    filesystem = lake.filesystem
    parts = []
    for path in paths:
        with filesystem.open_input_file(path) as source, pa.ipc.open_file(source) as reader:
            parts.append(reader.read_all())
    data = pa.concat_tables(parts).unify_dictionaries()
    if table == "instruments":
        return write_rows(lake, table, latest(data), day)
    if by := [name for name in BY_INSTRUMENT if name in data.column_names]:
        data = data.sort_by([(name, "ascending") for name in by])
    return write_rows(lake, table, data, day)
