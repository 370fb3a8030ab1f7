"""Survey of captures: channels, lines and their streams, versions, sequences, rates, rejects.

Packets are added block by block; the results are available at any time. Memory does not grow with
the input.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pregao.capture.blocks import PacketBlock
from pregao.clock import MILLISECOND, SECOND
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, UnknownMessages, WalkedPackets, walk
from pregao.umdf.streams import Stream
from pregao.umdf.survey import _kernels
from pregao.umdf.survey.lines import Destination, LineMessages, LineNumbers, LineTable, schema_of
from pregao.umdf.survey.rejects import (
    RejectCounts,
    SequenceAudit,
    SequenceGap,
    SequenceRun,
    decode_kinds,
    walk_faults,
)

PEAK_SPAN = 100 * MILLISECOND
"""Interval over which a peak is counted."""

_HELD_SPANS = 16
_BLOCKS_AHEAD = 2
"""Maximum number of blocks whose messages are still to be decoded: each is held in memory."""
_MAX_KEYS = 4096


class Peaks:
    """Maximum counts of keys within one interval."""

    def __init__(self) -> None:
        self._tags = np.full((16, _HELD_SPANS), -1, np.int64)
        self._counts = np.zeros((16, _HELD_SPANS), np.int64)
        self._peaks = np.zeros(16, np.int64)

    def add(self, times: npt.NDArray[np.int64], keys: npt.NDArray[np.int32], count: int) -> None:
        """Count events of keys at these times; ``count`` is the number of keys."""
        if count > len(self._peaks):
            more = 2 * count - len(self._peaks)
            self._tags = np.concatenate((self._tags, np.full((more, _HELD_SPANS), -1, np.int64)))
            self._counts = np.concatenate((self._counts, np.zeros((more, _HELD_SPANS), np.int64)))
            self._peaks = np.concatenate((self._peaks, np.zeros(more, np.int64)))
        _kernels.tally_peaks(times, keys, PEAK_SPAN, self._tags, self._counts, self._peaks)

    def per_second(self, key: int = 0) -> int:
        """Return the maximum count of a key, as a rate per second."""
        return int(self._peaks[key]) * (SECOND // PEAK_SPAN) if key < len(self._peaks) else 0


@dataclass(slots=True)
class TemplateCount:
    """Messages of one template, over all lines."""

    template_id: int
    name: str
    """Empty if no schema has the template."""
    versions: list[int]
    messages: int
    peak_per_second: int


@dataclass(slots=True)
class LineAccount:
    """Statistics of one line."""

    destination: Destination
    stream: Stream
    channels: list[int]
    packets: int
    bytes: int
    messages: int
    heartbeats: int
    first_ns: int | None
    last_ns: int | None
    peak_per_second: int
    """Messages, in the busiest 100 ms."""
    templates: Counter[int]
    runs: list[SequenceRun]


@dataclass(slots=True)
class _LineTotals:
    """Totals by line, grown as lines appear."""

    packets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    bytes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    first: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    last: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, lines: npt.NDArray[np.int32], block: PacketBlock, count: int) -> None:
        if count > len(self.packets):
            more = count - len(self.packets)
            self.packets = np.concatenate((self.packets, np.zeros(more, np.int64)))
            self.bytes = np.concatenate((self.bytes, np.zeros(more, np.int64)))
            latest = np.iinfo(np.int64).max
            self.first = np.concatenate((self.first, np.full(more, latest)))
            self.last = np.concatenate((self.last, np.full(more, -1, np.int64)))
        self.packets += np.bincount(lines, minlength=count)
        self.bytes += np.bincount(lines, block.length, minlength=count).astype(np.int64)
        np.minimum.at(self.first, lines, block.time_ns)
        np.maximum.at(self.last, lines, block.time_ns)


class Survey:
    """Collects statistics of the packets of captures.

    Messages are decoded in a thread, to find those that cannot be, while further blocks are read:
    kernels run at the same time.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        streams: Mapping[Destination, Stream] | None = None,
    ) -> None:
        self._decoder = BulkDecoder(registry)
        self.registry = self._decoder.registry
        self.lines = LineTable(streams)
        self.audit = SequenceAudit()
        self.messages = 0
        self.packets = 0
        """UDP packets."""
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._rejects = RejectCounts()
        self._unknown: Counter[tuple[int, int]] = Counter()
        self._thread = ThreadPoolExecutor(1)
        self._checks: deque[Future[None]] = deque()
        self._totals = _LineTotals()
        self._total_peak = Peaks()
        self._packet_peak = Peaks()
        self._line_peaks = Peaks()
        self._template_peaks = Peaks()
        self._template_keys: dict[int, int] = {}
        self._key_of_row: npt.NDArray[np.int32] = np.full(1, -1, np.int32)

    def add(self, name: str, block: PacketBlock, numbers: LineNumbers) -> None:
        """Add a block of the capture with this name."""
        walked = walk(block.buffer, block.offset, block.length)
        lines = numbers.of(block.flow)
        count = len(self.lines.destinations)
        self.packets += len(block)
        self.messages += len(walked)
        self._span(block)
        self._totals.add(lines, block, count)
        self.audit.add(lines, block.time_ns, walked)
        rows = self.lines.add(lines, walked)
        times = block.time_ns[walked.packet]
        self._total_peak.add(times, np.zeros(len(walked), np.int32), 1)
        self._packet_peak.add(block.time_ns, np.zeros(len(block), np.int32), 1)
        self._line_peaks.add(times, lines[walked.packet], count)
        self._template_peaks.add(times, self._keys(rows), len(self._template_keys))
        while len(self._checks) >= _BLOCKS_AHEAD:
            self._checks.popleft().result()
        self._checks.append(self._thread.submit(self._check, name, block, walked))

    def _check(self, name: str, block: PacketBlock, walked: WalkedPackets) -> None:
        """Count the messages and packets of a block that cannot be decoded."""
        rejects, kinds = self._rejects, walked.kinds()
        walk_faults(self._decoder, walked, name, block, rejects)
        for outcome in decode_kinds(self._decoder, walked, kinds, name, block, rejects):
            if isinstance(outcome, UnknownMessages):
                self._unknown[outcome.template_id, outcome.version] += len(outcome.rows)

    def _finish_checks(self) -> None:
        while self._checks:
            self._checks.popleft().result()

    @property
    def rejects(self) -> RejectCounts:
        """Messages and packets that cannot be decoded."""
        self._finish_checks()
        return self._rejects

    @property
    def unknown(self) -> Counter[tuple[int, int]]:
        """Messages of unknown templates, by template id and version."""
        self._finish_checks()
        return self._unknown

    def _span(self, block: PacketBlock) -> None:
        first, last = int(block.time_ns.min()), int(block.time_ns.max())
        self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        self.last_ns = last if self.last_ns is None else max(last, self.last_ns)

    def _keys(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the peak key of each message's template, or -1."""
        if self.lines.kinds >= len(self._key_of_row):
            keys = [self._key(seen) for seen in self.lines.messages()]
            # The last entry is for messages without a row: their row is -1.
            self._key_of_row = np.array([*keys, -1], np.int32)
        return self._key_of_row[rows]

    def _key(self, messages: LineMessages) -> int:
        if schema_of(self.registry, messages.schema_id, messages.version) is None:
            return -1
        if messages.template_id not in self._template_keys and len(self._template_keys) < _MAX_KEYS:
            self._template_keys[messages.template_id] = len(self._template_keys)
        return self._template_keys.get(messages.template_id, -1)

    @property
    def seconds(self) -> float:
        """Seconds from the first packet to the last."""
        if self.first_ns is None or self.last_ns is None:
            return 0.0
        return (self.last_ns - self.first_ns) / SECOND

    @property
    def message_peak(self) -> int:
        """Messages per second in the busiest 100 ms."""
        return self._total_peak.per_second()

    @property
    def packet_peak(self) -> int:
        """Packets per second in the busiest 100 ms."""
        return self._packet_peak.per_second()

    def channels(self) -> list[int]:
        """Return the channels seen."""
        return sorted({channel for _, channel in self.audit.heartbeats()})

    def versions(self) -> dict[tuple[int, int], int]:
        """Return the number of messages by schema id and version."""
        counts: Counter[tuple[int, int]] = Counter()
        for seen in self.lines.messages():
            counts[seen.schema_id, seen.version] += seen.messages
        return dict(sorted(counts.items()))

    def templates(self) -> list[TemplateCount]:
        """Return the messages by template, most frequent first, without rejected ones."""
        found: dict[int, TemplateCount] = {}
        for seen in self.lines.messages():
            schema = schema_of(self.registry, seen.schema_id, seen.version)
            if schema is None:
                continue
            message = schema.by_id.get(seen.template_id)
            account = found.setdefault(
                seen.template_id, TemplateCount(seen.template_id, "", [], 0, 0)
            )
            account.name = account.name or ("" if message is None else message.name)
            account.messages += seen.messages
            if seen.version not in account.versions:
                account.versions.append(seen.version)
        for template_id, account in found.items():
            account.versions.sort()
            key = self._template_keys.get(template_id)
            account.peak_per_second = 0 if key is None else self._template_peaks.per_second(key)
        return sorted(found.values(), key=lambda each: (-each.messages, each.template_id))

    def line_accounts(self) -> list[LineAccount]:
        """Return the lines with at least one message, in order of appearance."""
        streams = self.lines.streams(self.registry)
        templates: list[Counter[int]] = [Counter() for _ in streams]
        for seen in self.lines.messages():
            templates[seen.line][seen.template_id] += seen.messages
        runs: list[list[SequenceRun]] = [[] for _ in streams]
        for run in self.audit.runs():
            runs[run.line].append(run)
        heartbeats = self.audit.heartbeats()
        channels: list[set[int]] = [set() for _ in streams]
        for line, channel in heartbeats:
            channels[line].add(channel)
        return [
            LineAccount(
                destination=destination,
                stream=streams[line],
                channels=sorted(channels[line]),
                packets=int(self._totals.packets[line]),
                bytes=int(self._totals.bytes[line]),
                messages=templates[line].total(),
                heartbeats=sum(heartbeats[line, channel] for channel in channels[line]),
                first_ns=int(self._totals.first[line]),
                last_ns=int(self._totals.last[line]),
                peak_per_second=self._line_peaks.per_second(line),
                templates=templates[line],
                runs=runs[line],
            )
            for line, destination in enumerate(self.lines.destinations)
            if channels[line]
        ]

    def unsupported(self) -> dict[Destination, int]:
        """Return destinations without any message, with their packets: other traffic, or noise."""
        known = {line for line, _ in self.audit.heartbeats()}
        return {
            destination: int(self._totals.packets[line])
            for line, destination in enumerate(self.lines.destinations)
            if line not in known and self._totals.packets[line]
        }

    def gaps(self, limit: int = 20) -> list[SequenceGap]:
        """Return the earliest unclosed gaps in sequences, at most ``limit``."""
        return self.audit.gaps(limit)
