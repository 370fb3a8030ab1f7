"""A task of the ingest: reads ranges of captures, writes table files and returns a manifest.

It is one function that tests call without Spark. The bytes that it reads around its own ranges are
context: the other feed's copies of its packets, and the beginnings of events.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.capture.blocks import PacketBlock
from pregao.capture.source import open_source
from pregao.capture.statistics import CaptureStatistics
from pregao.errors import CaptureError
from pregao.lake.execution.runner import Job
from pregao.lake.ingest.accounting import merge_first_times
from pregao.lake.ingest.fingerprint import HashingSource, block_hashes
from pregao.lake.ingest.growing_file import sensible_times, sent_far_from_capture
from pregao.lake.ingest.merging import TaskManifest, joined_rows, stage
from pregao.lake.ingest.options import check_days
from pregao.lake.ingest.protocol import UNKNOWN_STREAM
from pregao.lake.ingest.registry import PROTOCOLS, prepare
from pregao.lake.ingest.schemas import REJECTS
from pregao.lake.ingest.sequence_ranges import Coverage, joined_runs
from pregao.lake.ingest.tables import first_specs
from pregao.lake.ingest.window import (
    FIRST_FEED,
    FlowRole,
    KeyBounds,
    PacketChunk,
    distinct,
    forget_scratch,
    timed_key,
    timed_keys,
)
from pregao.lake.ingest.window_decoder import WindowDecoder
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.filesystem import Location
from pregao.umdf.sequencing import PacketKey, precedes, serial_of

BLOCK_BYTES = 8 * 1024 * 1024
SMALL = 16_384
"""Tables with fewer rows than this are staged and merged with those of other tasks."""
_BYTES_PER_MESSAGE = 250
"""Estimated bytes of captures per message, of both feeds together."""


@dataclass(frozen=True, slots=True)
class TaskRange:
    """A range of a capture: the bytes that a task owns, and those that it reads around them.

    Without a start it is a capture that cannot be split; without an end, the range ends with the
    file.
    """

    capture: int
    start: int | None = None
    end: int | None = None
    read_from: int | None = None
    read_to: int | None = None

    @property
    def first(self) -> bool:
        """Whether it is the first range of the capture."""
        return self.start is None or self.read_from is None


@dataclass(frozen=True, slots=True)
class IngestTask:
    """Input of one task."""

    number: int
    captures: tuple[Location, ...]
    capture_ids: tuple[str, ...]
    sizes: tuple[int, ...]
    pieces: tuple[TaskRange, ...]
    roles: tuple[FlowRole, ...]
    bounds: tuple[tuple[int, KeyBounds], ...]
    covered: Coverage
    lake: Location
    staging: str | None
    """Folder for small tables, relative to the lake; None to write every table directly."""
    skew_ns: int
    protocol: str
    """Name of the protocol whose packets it decodes."""
    counted: frozenset[int]
    """Captures that tasks of this protocol count and hash."""
    readers: tuple[frozenset[str], ...]
    """Protocols whose tasks read each capture."""
    channels: tuple[int, ...] | None = None
    schema_files: tuple[str, ...] = ()
    window_bytes: int = 96 * 1024 * 1024
    skip_damaged: bool = False
    """Whether to report captures that cannot be read instead of failing."""
    starts: tuple[int, ...] | None = None
    """Starts of ranges of growing files, which end at ``sizes``. None for complete captures."""


def run_task(task: IngestTask) -> TaskManifest:
    """Run a task. Bad input raises CaptureError with file and position, or becomes rejects."""
    return _Run(task).run()


class _Run:
    """State of a running task."""

    def __init__(self, task: IngestTask) -> None:
        self.task = task
        self.manifest = TaskManifest(task.number, task.protocol)
        prepare(task.schema_files)
        self.protocol = PROTOCOLS[task.protocol]
        self.roles = list(task.roles)
        self.role_numbers = {role.destination: number for number, role in enumerate(self.roles)}
        channels = None if task.channels is None else frozenset(task.channels)
        self.decoder = WindowDecoder(
            self.protocol, self.roles, list(task.capture_ids), task.schema_files, channels
        )
        self.rows: dict[tuple[str, int], list[Any]] = {}
        self.rejects: dict[int, list[dict[str, Any]]] = {}
        self.days: set[int] = set()

    def run(self) -> TaskManifest:
        pieces = self.task.pieces
        if all(piece.start is not None for piece in pieces):
            chunks = [chunk for piece in pieces for chunk in self.chunks(piece)]
            self.decode_window(chunks, dict(self.task.bounds))
        else:
            for chunks, bounds in self.windows():
                self.decode_window(chunks, bounds)
                self.flush()
        self.flush()
        for piece in pieces:
            # A range of a growing file is identified by its file and start instead.
            if self.task.starts is None and piece.capture in self.task.counted:
                self.hash(piece)
        self.manifest.memory = peak_memory()
        return self.manifest

    # Reading

    def chunks(self, piece: TaskRange) -> Iterator[PacketChunk]:
        """Yield the packets of a piece, with those around it as context."""
        try:
            yield from self.sections(piece)
        except CaptureError as error:
            if not self.task.skip_damaged:
                raise
            self.manifest.damaged[piece.capture] = str(error)

    def sections(self, piece: TaskRange) -> Iterator[PacketChunk]:
        """Yield the packets of the bytes before, in and after a piece."""
        if piece.start is None:
            yield from self.section(piece.capture, None, None, owned=True)
            return
        # A growing file is read up to its size at the time of planning.
        stop = self.task.sizes[piece.capture] if piece.end is None else piece.end
        for start, end, owned in (
            (piece.read_from, piece.start, False),
            (piece.start, stop, True),
            (piece.end, piece.read_to, False),
        ):
            if start is not None and (end is None or start < end):
                yield from self.section(piece.capture, start, end, owned=owned)

    def section(
        self, capture: int, start: int | None, end: int | None, *, owned: bool
    ) -> Iterator[PacketChunk]:
        """Yield the packets of one section of a capture, a block at a time."""
        counted = owned and capture in self.task.counted
        with ExitStack() as opened:
            source: Any = self.task.captures[capture].source
            plain = None
            if start is None and counted:
                inner = opened.enter_context(open_source(source))
                if inner.compression is not None:
                    source = plain = HashingSource(inner)
            reader = opened.enter_context(self.protocol.read(source, start, end, BLOCK_BYTES))
            numbers = np.empty(0, np.int32)
            names: list[str] = []
            for unfiltered in reader:
                if len(numbers) < len(reader.flows):
                    names = [self.protocol.flow_name(flow) for flow in reader.flows]
                    numbers = np.array(
                        [self.role_number(name, capture) for name in names], np.int32
                    )
                times = self.usable_times(capture, unfiltered, owned=owned, counted=counted)
                block, times = _without(unfiltered, times, numbers[unfiltered.flow] < 0)
                if owned:
                    self.manifest.sums.read += len(block)
                mask = np.full(len(block), owned, np.bool_)
                keys = self.protocol.keys(block, names)
                far = sent_far_from_capture(keys.sending_time_ns, times)
                if far.any():
                    keys = keys._replace(
                        channel=np.where(far, np.int16(-1), keys.channel),
                        sending_time_ns=np.where(far, 0, keys.sending_time_ns),
                    )
                chunk = PacketChunk(block, capture, mask, numbers[block.flow], keys, times)
                chunk.far = far if far.any() else None
                if not owned and self.task.starts is not None:
                    low, high = self.task.starts[capture], self.task.sizes[capture]
                    chunk.outside = (block.position < low) | (block.position >= high)
                yield chunk
            if counted:
                kept = self.manifest.statistics.setdefault(capture, CaptureStatistics())
                kept.add(reader.statistics)
                tail = reader.truncated_tail
                if tail is not None:
                    self.manifest.tails[capture] = (tail.position, tail.length)
            if plain is not None:
                plain.finish()
                self.manifest.plain[capture] = (plain.content_hash, plain.fingerprint)

    def role_number(self, flow: str, capture: int) -> int:
        """Return the index of a flow's role; -1 if it is another protocol's.

        A flow that is not in the plan is unknown and belongs to the protocol that counts the
        capture. The reader of a protocol over TCP yields only flows that it detected.
        """
        own, counted = self.protocol.name, capture in self.task.counted
        number = self.role_numbers.get(flow)
        if number is None:
            over_tcp = self.protocol.transport == "tcp"
            if not counted and not over_tcp:
                return -1
            number = self.role_numbers[flow] = len(self.roles)
            stream = self.protocol.stream_of({}) if over_tcp else UNKNOWN_STREAM
            self.roles.append(FlowRole(flow, stream, FIRST_FEED if over_tcp else "", own))
        owner = self.roles[number].protocol
        if owner == own:
            return number
        if counted and owner not in self.task.readers[capture]:
            self.manifest.unread_flows.add((capture, flow))
        return -1

    def usable_times(
        self, capture: int, block: PacketBlock, *, owned: bool, counted: bool
    ) -> Int64Array:
        """Return the times of a block, with outliers replaced; add both to the manifest."""
        times, outliers = sensible_times(block.time_ns)
        if owned and len(block):
            first, last = int(times.min()), int(times.max())
            span = self.manifest.spans.get(capture, (first, last))
            self.manifest.spans[capture] = (min(first, span[0]), max(last, span[1]))
        if counted and len(outliers):
            position, time = int(block.position[outliers[0]]), int(block.time_ns[outliers[0]])
            before = self.manifest.time_outliers.get(capture, (0, position, time))
            self.manifest.time_outliers[capture] = (before[0] + len(outliers), *before[1:])
        return times

    def hash(self, piece: TaskRange) -> None:
        """Hash the blocks of the file that begin in the piece, unless reading has hashed them."""
        if piece.capture in self.manifest.plain or piece.capture in self.manifest.damaged:
            return
        location = self.task.captures[piece.capture]
        found = self.manifest.hashes.setdefault(piece.capture, {})
        end = self.task.sizes[piece.capture] if piece.end is None else piece.end
        start = 0 if piece.first else piece.start or 0
        found.update(block_hashes(location, self.task.sizes[piece.capture], start, end))

    # Windows

    def decode_window(self, chunks: list[PacketChunk], bounds: dict[int, KeyBounds]) -> None:
        """Decode a window and add its result."""
        decoded = self.decoder.decode(chunks, bounds, self.task.covered)
        self.manifest.sums.add(decoded.sums)
        for total, more in (
            (self.manifest.coverage, decoded.coverage),
            (self.manifest.around, decoded.around),
        ):
            for key, runs in more.items():
                total[key] = joined_runs(total.get(key, []), runs)
        for key, times in decoded.starts.items():
            merge_first_times(self.manifest.starts, key, times.items())
        for (role, kind), count in decoded.evidence.items():
            self.manifest.evidence[self.roles[role].destination, kind] += count
        for table_day, rows in decoded.tables.items():
            self.rows.setdefault(table_day, []).extend(rows)
        for day, rejects in decoded.rejects.items():
            self.rejects.setdefault(day, []).extend(rejects)
        days = self.days | {day for _, day in self.rows} | self.rejects.keys()
        if len(days) > len(self.days):
            self.days = days
            check_days(days)

    def windows(self) -> Iterator[tuple[list[PacketChunk], dict[int, KeyBounds]]]:
        """Yield windows over captures that cannot be split, read interleaved in order of time.

        A window ends at a cut: a time that every capture has passed by more than the skew. It owns
        the packets since the previous cut, and the keys below the first key after its own.
        """
        readers = [_Reader(self.chunks(piece)) for piece in self.task.pieces]
        pending: list[PacketChunk] = []
        low: dict[int, PacketKey] = {}
        previous_cut = -1
        while True:
            open_readers = [reader for reader in readers if reader.open]
            cut = min((reader.last_time for reader in open_readers), default=_FOREVER)
            cut = cut if cut == _FOREVER else cut - self.task.skew_ns
            pending_bytes = sum(len(chunk.block.buffer) for chunk in pending)
            if open_readers and (pending_bytes < self.task.window_bytes or cut <= previous_cut):
                chunk = min(open_readers, key=lambda reader: reader.last_time).next()
                if chunk is not None:
                    pending.append(chunk)
                continue
            for chunk in pending:
                times = chunk.time_ns
                chunk.owned = (times > previous_cut) & (times <= cut)
            high = self.first_keys(pending, cut, low)
            yield (
                pending.copy(),
                {c: KeyBounds(low.get(c), high.get(c)) for c in low.keys() | high.keys()},
            )
            if not open_readers:
                return
            low |= high
            previous_cut = cut
            keep = cut - self.task.skew_ns
            pending = [c for c in pending if len(c.block) and c.time_ns.max() > keep]

    def first_keys(
        self, chunks: list[PacketChunk], cut: int, low: dict[int, PacketKey]
    ) -> dict[int, PacketKey]:
        """Return the first key of each arbitrated channel after a time."""
        found: dict[int, PacketKey] = {}
        timed = self.protocol.timed_versions
        of_feeds = np.array([role.stream in self.protocol.arbitrated for role in self.roles])
        for chunk in chunks:
            channels, versions, numbers = chunk.keys[:3]
            after_cut = (chunk.time_ns > cut) & of_feeds[chunk.role]
            after_cut &= (channels >= 0) & (numbers > 0)
            for channel in distinct(channels[after_cut]):
                rows = np.flatnonzero(after_cut & (channels == channel))
                if timed:
                    sent, captured = chunk.keys.sending_time_ns[rows], chunk.time_ns[rows]
                    key = timed_key(int(timed_keys(numbers[rows], sent, captured).min()))
                    if channel not in found or key < found[channel]:
                        found[channel] = key
                    continue
                reference = found.get(channel) or low.get(channel)
                base = reference.sequence_version if reference else int(versions[rows[0]])
                serials = serial_of(versions[rows], numbers[rows], base)
                best = rows[int(serials.argmin())]
                key = PacketKey(int(versions[best]), int(numbers[best]))
                if channel not in found or precedes(key, found[channel]):
                    found[channel] = key
        return found

    # Writing

    def flush(self) -> None:
        """Save the rows decoded so far."""
        for (table, day), parts in sorted(self.rows.items()):
            self.save(table, day, joined_rows(parts))
        schema = pa.schema([entry for entry in REJECTS if entry.name != DATE])
        for day, rejects in sorted(self.rejects.items()):
            table = self.protocol.account_table("rejects")
            self.save(table, day, pa.Table.from_pylist(rejects, schema=schema))
        self.rows.clear()
        self.rejects.clear()

    def save(self, table: str, day: int, data: Any) -> None:
        """Write a large table as a file; stage a small one, to be merged with other tasks'."""
        rule = self.protocol.latest.get(table)
        if rule is not None:
            data = rule(data)
        large = data.num_rows >= SMALL and rule is None
        if self.task.staging is None or large:
            self.manifest.files.append(write_rows(self.task.lake, table, data, day))
        else:
            name = f"{self.task.number}-{len(self.manifest.staged)}"
            staged = stage(self.task.lake, self.task.staging, name, table, day, data)
            self.manifest.staged.append(staged)


def _without(
    block: PacketBlock, times: Int64Array, unsupported: npt.NDArray[np.bool_]
) -> tuple[PacketBlock, Int64Array]:
    """Return a block and its times without the packets of other protocols."""
    if not unsupported.any():
        return block, times
    own = ~unsupported
    rest = PacketBlock(
        block.buffer, block.time_ns[own], block.offset[own], block.length[own], block.number[own],
        block.position[own], block.flow[own],
    )  # fmt: skip
    return rest, times[own]


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _bytes(task: IngestTask) -> int:
    """Return the bytes of captures that a task owns."""
    total = 0
    for piece in task.pieces:
        end = task.sizes[piece.capture] if piece.end is None else piece.end
        total += end - (piece.start or 0)
    return total


def estimated_messages(size: int) -> int:
    """Return the estimated number of messages in captures of ``size`` bytes."""
    return size // _BYTES_PER_MESSAGE


def _messages(task: IngestTask) -> int:
    return estimated_messages(_bytes(task))


def _ingested(task: IngestTask, manifest: TaskManifest) -> tuple[int, int]:
    return _bytes(task), manifest.sums.messages.total()


def _prepare() -> None:
    """Build the columns of all tables, and import what writes them."""
    first_specs()
    import_module("pregao.lake.storage.fast_parquet.writer")


INGEST = Job("ingest", run_task, _messages, _ingested, forget_scratch, _prepare)
"""Reads captures; its progress is in bytes."""

_FOREVER = 1 << 62


class _Reader:
    """Iterates over the chunks of a capture and tracks the time read so far."""

    def __init__(self, chunks: Iterator[PacketChunk]) -> None:
        self._chunks = chunks
        self.open = True
        self.last_time = -1

    def next(self) -> PacketChunk | None:
        """Return the next chunk; None at the end."""
        chunk = next(self._chunks, None)
        if chunk is None:
            self.open = False
        elif len(chunk.block):
            self.last_time = max(self.last_time, int(chunk.time_ns.max()))
        return chunk
