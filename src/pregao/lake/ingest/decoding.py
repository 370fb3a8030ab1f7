"""A window of packets to the rows of all tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.lake.ingest import _kernels
from pregao.lake.ingest.files import order_by_value
from pregao.lake.ingest.instruments import latest
from pregao.lake.ingest.schemas import (
    KEY,
    bundled_message_tables,
    message_table_name,
    message_tables,
)
from pregao.lake.ingest.window import (
    Bounds,
    Coverage,
    Numbers,
    PacketChunk,
    Packets,
    Role,
    days_of,
    distinct,
    joined_runs,
    packed,
    packets_of,
    runs_and_starts,
    settle,
)
from pregao.sbe.values import readings
from pregao.schemas import Registry
from pregao.umdf.bulk import (
    Batch,
    BulkDecoder,
    Kind,
    Reject,
    Unknown,
    Walked,
    Walker,
)
from pregao.umdf.event_columns import EventColumns
from pregao.umdf.keys import key_type
from pregao.umdf.tables import TemplateTable
from pregao.umdf.templates import SECURITY_DEFINITIONS

_OUTCOMES = ["decoded", "duplicate", "rejected", "filtered"]
DECODED, DUPLICATE, REJECTED, FILTERED = range(4)


@dataclass(slots=True)
class Sums:
    """The account of some packets and their messages."""

    packets: Counter[str] = field(default_factory=Counter)
    """Owned packets by outcome."""
    keyed_first: int = 0
    """Owned packets that were the first of a key."""
    keyed_mine: int = 0
    """Keys that were decoded here; over all windows it must equal ``keyed_first``."""
    messages: Counter[str] = field(default_factory=Counter)
    """Decoded messages by template."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Messages of templates that the schema does not have, by template and version."""
    rejected_messages: int = 0
    walked_messages: int = 0
    """All messages to be accounted for: decoded, unknown and rejected ones."""
    reasons: Counter[str] = field(default_factory=Counter)
    versions: set[int] = field(default_factory=set)
    conflicts: int = 0
    """Packets of the same key that differ in size or sending time."""

    def add(self, more: Sums) -> None:
        """Add another account."""
        self.packets.update(more.packets)
        self.messages.update(more.messages)
        self.unknown.update(more.unknown)
        self.reasons.update(more.reasons)
        self.versions |= more.versions
        self.keyed_first += more.keyed_first
        self.keyed_mine += more.keyed_mine
        self.rejected_messages += more.rejected_messages
        self.walked_messages += more.walked_messages
        self.conflicts += more.conflicts


FeedCoverage = dict[tuple[int, int, int, str], list[tuple[int, int]]]
"""By day, channel, sequence version and feed: the runs of numbers that were seen."""
RunStarts = dict[tuple[int, int, int, str], dict[int, int]]
"""By the same: when the first packets of runs were captured."""


@dataclass(slots=True)
class WindowRows:
    """What a window gave: rows by table and day, the account, the coverage of each feed."""

    tables: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    sums: Sums = field(default_factory=Sums)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """What was seen of other units' packets."""
    starts: RunStarts = field(default_factory=dict)
    evidence: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Messages by role and template: what shows which stream a destination carries."""

    def put(self, table: str, day: int, rows: Any) -> None:
        """Add rows to a table."""
        self.tables.setdefault((table, day), []).append(rows)


class WindowDecoder:
    """Decodes windows; it keeps decoders and scratch memory between them."""

    def __init__(
        self,
        roles: list[Role],
        captures: list[str],
        registry: Registry | None = None,
        channels: frozenset[int] | None = None,
    ) -> None:
        self.roles = roles
        self.channels = channels
        registry = Registry.bundled() if registry is None else registry
        plain = registry is Registry.bundled()
        self._tables = bundled_message_tables() if plain else message_tables(registry)
        self._decoder = BulkDecoder(registry)
        self._walker = Walker()
        self._events = EventColumns(self._decoder)
        self._captures = pa.array(captures, pa.string())

    def decode(
        self, chunks: list[PacketChunk], bounds: dict[int, Bounds], covered: Coverage
    ) -> WindowRows:
        """Decode what a window owns."""
        result = WindowRows()
        packets = packets_of(chunks)
        if not len(packets):
            return result
        accepted, rest = settle(packets, self.roles, bounds, covered)
        chosen = np.concatenate([*accepted, rest]).astype(np.int64)
        filtered = self._filtered(packets)
        buffer, places = packed(chunks, packets, chosen)
        walked = self._walker.walk(buffer, places, packets.length[chosen])
        emit = (packets.mine & ~packets.covered & ~filtered)[chosen]
        kinds = walked.kinds()
        events = self._events.number(walked, [len(rows) for rows in accepted])
        self._messages(result, walked, kinds, packets, chosen, emit, events)
        self._broken(result, walked, packets, chosen, emit)
        self._packets(result, walked, packets, chosen, filtered)
        self._account(result, packets, chosen, emit, filtered)
        return result

    # Roles may be added between windows.

    @property
    def _stream_names(self) -> Any:
        return pa.array([role.stream.value for role in self.roles], pa.string())

    @property
    def _feed_names(self) -> Any:
        return pa.array([role.feed for role in self.roles], pa.string())

    @property
    def _destinations(self) -> Any:
        return pa.array([role.destination for role in self.roles], pa.string())

    def _filtered(self, packets: Packets) -> npt.NDArray[np.bool_]:
        if self.channels is None:
            return np.zeros(len(packets), np.bool_)
        wanted = np.isin(packets.channel, np.array(sorted(self.channels), np.int16))
        return ~wanted & (packets.channel >= 0)

    # Messages

    def _messages(
        self,
        result: WindowRows,
        walked: Walked,
        kinds: list[Kind],
        packets: Packets,
        chosen: Numbers,
        emit: npt.NDArray[np.bool_],
        events: Numbers,
    ) -> None:
        days = days_of(packets)[chosen]
        roles = packets.role[chosen]
        one_role, one_day, all_emitted = _same(roles), _same(days), emit.all()
        for kind in kinds:
            rows = kind.rows
            if one_role:
                result.evidence[int(roles[0]), kind.template_id] += len(rows)
            else:
                tally = np.bincount(roles[walked.packet[rows]])
                for role in np.flatnonzero(tally).tolist():
                    result.evidence[role, kind.template_id] += int(tally[role])
            if not all_emitted:
                rows = rows[emit[walked.packet[rows]]]
            if not len(rows):
                continue
            result.sums.walked_messages += len(rows)
            parts = [(int(days[0]), rows)]
            if not one_day:
                parts = _by_day(days[walked.packet[rows]], rows)
            for day, part in parts:
                chosen_kind = Kind(kind.schema_id, kind.template_id, kind.version, part)
                self._kind(result, walked, chosen_kind, packets, chosen, events, day)

    def _kind(
        self,
        result: WindowRows,
        walked: Walked,
        kind: Kind,
        packets: Packets,
        chosen: Numbers,
        events: Numbers,
        day: int,
    ) -> None:
        """Decode messages of one kind and day, instrument by instrument."""
        kind.rows = self._by_instrument(walked, kind)
        for item in self._decoder.decode_kind(walked, kind):
            match item:
                case Batch():
                    keys = self._keys(walked, item, packets, chosen, events)
                    self._put(result, self._tables.templates[item.message.id], item, keys, day)
                    result.sums.messages[item.message.name] += len(item.rows)
                    result.sums.versions.add(item.version)
                case Unknown():
                    name = f"{item.template_id} (version {item.version})"
                    result.sums.unknown[name] += len(item.rows)
                case Reject():
                    result.sums.rejected_messages += 1
                    result.sums.reasons[item.reason] += 1
                    packet = int(chosen[item.packet])
                    self._reject(result, walked, item, packets, packet, day)

    def _put(
        self, result: WindowRows, table: TemplateTable, batch: Batch, keys: list[Any], day: int
    ) -> None:
        """Add messages to their table; definitions also to the instruments."""
        name = message_table_name(batch.message.name)
        rows = _message_rows(table, batch, keys)
        result.put(name, day, rows)
        if batch.message.id in SECURITY_DEFINITIONS:
            rows = _message_rows(self._tables.instruments, batch, keys)
            result.put("instruments", day, latest(rows))

    def _by_instrument(self, walked: Walked, kind: Kind) -> Numbers:
        """The rows by security id, each instrument's in the order of the stream."""
        message = self._decoder.template(kind)
        fields = () if message is None else readings(message)
        at = next((reading.offset for reading in fields if reading.name == "securityID"), None)
        if at is None or len(kind.rows) < 2:
            return kind.rows
        values = np.empty(len(kind.rows), np.int64)
        whole = _kernels.gather_field(
            walked.buffer, kind.rows, walked.body, walked.block_length, at, values
        )
        return kind.rows[order_by_value(values)] if whole else kind.rows

    def _keys(
        self, walked: Walked, batch: Batch, packets: Packets, chosen: Numbers, events: Numbers
    ) -> list[Any]:
        rows = batch.rows
        count = len(rows)  # a batch is never empty
        index, packet = np.empty((2, count), np.int32)
        number, event, sending, time = np.empty((4, count), np.int64)
        _kernels.gather_message_keys(
            rows, walked.packet, walked.index_in_packet, events, chosen, packets.number,
            packets.sending_time_ns, packets.time_ns, packet, number, index, event, sending, time,
        )  # fmt: skip

        def of_packets(values: npt.NDArray[Any], *, same: bool) -> npt.NDArray[Any]:
            return np.full(count, values[packet[0]], values.dtype) if same else values[packet]

        same = packets.same
        role = of_packets(packets.role, same=same.role)
        capture = of_packets(packets.capture, same=same.capture)
        difference = pa.nulls(count, pa.int64())
        if not same.difference or packets.difference_ns[packet[0]] >= 0:
            values = packets.difference_ns[packet]
            difference = _null_where(values, values < 0)
        return [
            pa.array(of_packets(packets.channel, same=same.channel)),
            pa.DictionaryArray.from_arrays(pa.array(role), self._stream_names),
            pa.array(of_packets(packets.version, same=same.version)),
            _null_where(number, number == 0),
            pa.array(index),
            _null_where(event, event < 0),
            pa.array(sending),
            pa.array(time),
            pa.DictionaryArray.from_arrays(pa.array(role), self._feed_names),
            difference,
            pa.DictionaryArray.from_arrays(pa.array(capture), self._captures),
            pa.repeat(pa.scalar(batch.version, key_type("schema_version")), count),
        ]

    # Packets and rejects

    def _broken(
        self,
        result: WindowRows,
        walked: Walked,
        packets: Packets,
        chosen: Numbers,
        emit: npt.NDArray[np.bool_],
    ) -> None:
        days = days_of(packets)
        for reject in self._decoder.faults(walked):
            if emit[reject.packet]:
                packet = int(chosen[reject.packet])
                result.sums.reasons[reject.reason] += 1
                self._reject(result, walked, reject, packets, packet, int(days[packet]))

    def _reject(
        self,
        result: WindowRows,
        walked: Walked,
        reject: Reject,
        packets: Packets,
        packet: int,
        day: int,
    ) -> None:
        role = self.roles[int(packets.role[packet])]
        known = int(packets.channel[packet]) >= 0
        row = {
            "capture_id": self._captures[int(packets.capture[packet])].as_py(),
            "position": int(packets.position[packet]),
            "capture_time_ns": int(packets.time_ns[packet]),
            "destination": role.destination,
            "channel": int(packets.channel[packet]) if known else None,
            "stream": role.stream.value,
            "sequence_version": int(packets.version[packet]) if known else None,
            "sequence_number": int(packets.number[packet]) or None,
            "index_in_packet": reject.index_in_packet,
            "offset": reject.start - int(walked.offset[reject.packet]),
            "reason": reject.reason,
            "bytes": walked.buffer[reject.start : reject.end].tobytes(),
        }
        result.put("rejects", day, row)

    def _packets(
        self,
        result: WindowRows,
        walked: Walked,
        packets: Packets,
        chosen: Numbers,
        filtered: npt.NDArray[np.bool_],
    ) -> None:
        """A row for every owned packet, and the coverage of the feeds."""
        counts = np.full(len(packets), -1, np.int32)
        counts[chosen] = walked.message_count
        faulty = np.zeros(len(packets), np.bool_)
        faulty[chosen] = walked.fault != 0
        counts, faulty = counts[packets.leader], faulty[packets.leader]
        outcome = np.full(len(packets), DECODED, np.int8)
        outcome[~packets.first | packets.covered] = DUPLICATE
        outcome[packets.first & ~packets.covered & faulty] = REJECTED
        outcome[packets.channel < 0] = REJECTED
        outcome[filtered] = FILTERED
        owned = packets.owned
        days = days_of(packets)
        for day, found in _by_day(days[owned], np.flatnonzero(owned)):
            rows = _by_number(packets, found)
            headless = packets.channel[rows] < 0
            table = pa.table(
                {
                    "capture_id": _named(packets.capture[rows], self._captures),
                    "position": packets.position[rows],
                    "capture_time_ns": packets.time_ns[rows],
                    "destination": _named(packets.role[rows], self._destinations),
                    "channel": _null_where(packets.channel[rows], headless),
                    "stream": _named(packets.role[rows], self._stream_names),
                    "feed": _named(packets.role[rows], self._feed_names),
                    "sequence_version": _null_where(packets.version[rows], headless),
                    "sequence_number": _null_where(packets.number[rows], packets.number[rows] == 0),
                    "sending_time_ns": _null_where(packets.sending_time_ns[rows], headless),
                    "size": packets.length[rows],
                    "message_count": _null_where(counts[rows], counts[rows] < 0),
                    "outcome": pa.DictionaryArray.from_arrays(
                        pa.array(outcome[rows]), pa.array(_OUTCOMES)
                    ),
                }
            )
            result.put("packets", day, table)
        tally = np.bincount(outcome[owned], minlength=len(_OUTCOMES))
        result.sums.packets.update(dict(zip(_OUTCOMES, tally.tolist(), strict=True)))
        owned = packets.keyed & packets.owned & ~filtered
        self._coverage(result.coverage, result.starts, packets, owned)
        if packets.outside is not None:
            outside = packets.keyed & packets.outside
            self._coverage(result.around, result.starts, packets, outside)

    def _coverage(
        self,
        coverage: FeedCoverage,
        starts: RunStarts,
        packets: Packets,
        which: npt.NDArray[np.bool_],
    ) -> None:
        rows = np.flatnonzero(which)
        if not len(rows):
            return
        days, same_of_all = days_of(packets), packets.same
        one = same_of_all.role and same_of_all.channel and same_of_all.version and _same(days)
        labelled = rows[:1] if one else rows
        label = (
            days[labelled] << 40
            | packets.role[labelled].astype(np.int64) << 24
            | packets.channel[labelled].astype(np.int64) << 16
            | packets.version[labelled]
        )
        for value in distinct(label):
            same = rows if one else rows[label == value]
            role = self.roles[value >> 24 & 0xFFFF]
            key = (value >> 40, value >> 16 & 0xFF, value & 0xFFFF, role.feed)
            runs = runs_and_starts(packets.number[same])
            coverage[key] = joined_runs(coverage.get(key, []), [run[:2] for run in runs])
            # When the first packet of each run came: it is what stands behind a hole.
            times = packets.time_ns[same]
            first_seen(starts, key, ((first, int(times[at])) for first, _, at in runs))

    def _account(
        self,
        result: WindowRows,
        packets: Packets,
        chosen: Numbers,
        emit: npt.NDArray[np.bool_],
        filtered: npt.NDArray[np.bool_],
    ) -> None:
        sums = result.sums
        fresh = packets.keyed & ~packets.covered & ~filtered
        sums.keyed_first += int((fresh & packets.first & packets.owned).sum())
        sums.keyed_mine += int((emit & packets.keyed[chosen]).sum())
        later = packets.keyed & ~packets.first & packets.owned
        leaders = packets.leader[later]
        differs = (packets.length[later] != packets.length[leaders]) | (
            packets.sending_time_ns[later] != packets.sending_time_ns[leaders]
        )
        sums.conflicts += int(differs.sum())


def _message_rows(table: TemplateTable, batch: Batch, keys: list[Any]) -> Any:
    own = table.fit(batch.message, batch.columns, len(batch.rows))
    names = [entry.name for entry in KEY] + [column.column for column in table.columns]
    return pa.Table.from_arrays(keys + own, names=names)


def _by_day(days: Numbers, rows: Numbers) -> list[tuple[int, Numbers]]:
    if not len(days):
        return []
    if days[0] == days[-1] and _same(days):
        return [(int(days[0]), rows)]
    return [(day, rows[days == day]) for day in distinct(days)]


def _same(values: npt.NDArray[Any]) -> bool:
    """Are there values, all of them equal?"""
    return len(values) > 0 and bool((values == values[0]).all())


def _by_number(packets: Packets, rows: Numbers) -> Numbers | slice:
    """Packets by channel and sequence number; those that are so already, as a slice."""
    numbers, channels = packets.number[rows], packets.channel[rows]
    if (channels == channels[0]).all() and (np.diff(numbers) >= 0).all():
        if int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            return slice(int(rows[0]), int(rows[-1]) + 1)
        return rows
    return rows[np.lexsort((numbers, channels))]


def _null_where(values: npt.NDArray[Any], null: npt.NDArray[np.bool_]) -> Any:
    return pa.array(values, mask=null if null.any() else None)


def _named(indexes: npt.NDArray[np.int32], names: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(indexes), names)


def first_seen(
    starts: RunStarts, key: tuple[int, int, int, str], times: Iterable[tuple[int, int]]
) -> None:
    """Add when packets came to what is known of a feed's; of copies, the first counts."""
    known = starts.setdefault(key, {})
    for number, time in times:
        known[number] = min(time, known.get(number, time))
