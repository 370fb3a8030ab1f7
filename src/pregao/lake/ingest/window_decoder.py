"""Arbitrate, decode and account for a window of packets of one protocol."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array
from pregao.lake.ingest.accounting import (
    DECODED,
    DUPLICATE,
    FILTERED,
    PACKET_OUTCOMES,
    REJECTED,
    FeedCoverage,
    RunStarts,
    WindowRows,
    merge_first_times,
)
from pregao.lake.ingest.growing_file import FAR_REASON as FAR
from pregao.lake.ingest.protocol import IngestProtocol, WalkResult
from pregao.lake.ingest.sbe_rows import Payloads, RoleNames, null_where
from pregao.lake.ingest.sequence_ranges import Coverage, joined_runs
from pregao.lake.ingest.window import (
    FlowRole,
    KeyBounds,
    PacketChunk,
    WindowPackets,
    all_same,
    arbitrate_window,
    by_day,
    days_of,
    distinct,
    packed,
    packets_of,
    runs_and_starts,
    spans_and_starts,
)


class WindowDecoder:
    """Decodes windows of one protocol; keeps decoders and scratch memory between windows."""

    def __init__(
        self,
        protocol: IngestProtocol,
        roles: list[FlowRole],
        captures: list[str],
        schema_files: tuple[str, ...] = (),
        channels: frozenset[int] | None = None,
    ) -> None:
        self.protocol = protocol
        self.channels = channels
        self.names = RoleNames(roles, pa.array(captures, pa.string()))
        self._decoder = protocol.decoder(schema_files)

    def decode(
        self, chunks: list[PacketChunk], bounds: dict[int, KeyBounds], covered: Coverage
    ) -> WindowRows:
        """Decode the packets that a window owns.

        Clears ``chunks`` once the needed payloads are packed, to free their memory.
        """
        packets = packets_of(chunks)
        if not len(packets):
            return WindowRows()
        arbitrated = self.protocol.arbitrated
        accepted, rest = arbitrate_window(
            packets, self.names.roles, arbitrated, bounds, covered,
            timed_versions=self.protocol.timed_versions,
        )  # fmt: skip
        indices = np.concatenate([*accepted, rest]).astype(np.int64)
        filtered = self._filtered(packets)
        buffer, offsets = packed(chunks, packets, indices)
        chunks.clear()
        emit = (packets.owns_key & ~packets.covered & ~filtered)[indices]
        if packets.far is not None:
            emit &= ~packets.far[indices]
        channels = [len(rows) for rows in accepted]
        payloads = Payloads(
            buffer, offsets, packets.length[indices], packets, indices, emit, channels, self.names
        )
        walk = self._decoder.decode(payloads)
        if packets.far is not None:
            for payload in np.flatnonzero((packets.far & packets.owned)[indices]).tolist():
                start = int(offsets[payload])
                payloads.reject(payload, None, start, start + int(payloads.length[payload]), FAR)
        self._add_packet_rows(payloads, walk, filtered)
        self._count_keys(payloads, filtered)
        return payloads.result

    def _filtered(self, packets: WindowPackets) -> BoolArray:
        """Return a mask of the packets of channels that are not ingested."""
        if self.channels is None:
            return np.zeros(len(packets), np.bool_)
        selected = np.isin(packets.channel, np.array(sorted(self.channels), np.int16))
        return ~selected & (packets.channel >= 0)

    def _add_packet_rows(self, payloads: Payloads, walk: WalkResult, filtered: BoolArray) -> None:
        """Add a row for every owned packet, and the coverage of the feeds."""
        packets, chosen, result = payloads.packets, payloads.chosen, payloads.result
        names, account = self.names, self.protocol.account_table("packets")
        counts = np.full(len(packets), -1, np.int32)
        counts[chosen] = walk.message_count
        faulty = np.zeros(len(packets), np.bool_)
        faulty[chosen] = walk.faulty
        if packets.far is not None:
            counts[packets.far] = -1
        counts, faulty = counts[packets.leader], faulty[packets.leader]
        outcome = np.full(len(packets), DECODED, np.int8)
        outcome[~packets.first | packets.covered] = DUPLICATE
        outcome[packets.first & ~packets.covered & faulty] = REJECTED
        outcome[packets.channel < 0] = REJECTED
        outcome[filtered] = FILTERED
        owned = packets.owned
        days = days_of(packets)
        for day, found in by_day(days[owned], np.flatnonzero(owned)):
            rows = _by_number(packets, found)
            headless, sending = packets.channel[rows] < 0, packets.sending_time_ns[rows]
            table = pa.table(
                {
                    "capture_id": names.capture_ids(packets.capture[rows]),
                    "position": packets.position[rows],
                    "capture_time_ns": packets.time_ns[rows],
                    "destination": names.flows(packets.role[rows]),
                    "channel": null_where(packets.channel[rows], headless),
                    "stream": names.streams(packets.role[rows]),
                    "feed": names.feeds(packets.role[rows]),
                    "sequence_version": null_where(packets.version[rows], headless),
                    "sequence_number": null_where(packets.number[rows], packets.number[rows] == 0),
                    "sending_time_ns": null_where(sending, headless | (sending == 0)),
                    "size": packets.length[rows],
                    "message_count": null_where(counts[rows], counts[rows] < 0),
                    "outcome": pa.DictionaryArray.from_arrays(
                        pa.array(outcome[rows]), pa.array(PACKET_OUTCOMES)
                    ),
                }
            )
            result.put(account, day, table)
        tally = np.bincount(outcome[owned], minlength=len(PACKET_OUTCOMES))
        result.sums.packets.update(dict(zip(PACKET_OUTCOMES, tally.tolist(), strict=True)))
        numbered = self._numbered(packets)
        owned = numbered & packets.owned & ~filtered
        self._add_coverage(result.coverage, result.starts, packets, owned)
        if packets.outside is not None:
            outside = numbered & packets.outside
            self._add_coverage(result.around, result.starts, packets, outside)

    def _numbered(self, packets: WindowPackets) -> BoolArray:
        """Return a mask of the packets that use sequence numbers of an arbitrated stream."""
        if packets.last is None:
            return packets.keyed
        arbitrated = self.protocol.arbitrated
        of_feeds = np.array([role.stream in arbitrated for role in self.names.roles], np.bool_)
        uses_one: BoolArray = (packets.last > 0) & of_feeds[packets.role] & (packets.channel >= 0)
        return packets.keyed | uses_one

    def _add_coverage(
        self,
        coverage: FeedCoverage,
        starts: RunStarts,
        packets: WindowPackets,
        mask: BoolArray,
    ) -> None:
        """Add the runs of numbers of some packets, and when each run started."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return
        days, constant = days_of(packets), packets.constant
        one_label = constant.role and constant.channel and constant.version and all_same(days)
        labelled = rows[:1] if one_label else rows
        label = (
            days[labelled] << 40
            | packets.role[labelled].astype(np.int64) << 24
            | packets.channel[labelled].astype(np.int64) << 16
            | packets.version[labelled]
        )
        for value in distinct(label):
            same = rows if one_label else rows[label == value]
            role = self.names.roles[value >> 24 & 0xFFFF]
            key = (value >> 40, value >> 16 & 0xFF, value & 0xFFFF, role.feed)
            runs = _runs(packets, same)
            coverage[key] = joined_runs(coverage.get(key, []), [run[:2] for run in runs])
            # Capture time of each run's first packet, mask is the packet after a gap.
            times = packets.time_ns[same]
            merge_first_times(starts, key, ((first, int(times[at])) for first, _, at in runs))

    def _count_keys(self, payloads: Payloads, filtered: BoolArray) -> None:
        """Count the keys received and decoded, and duplicates that differ from the first copy."""
        packets, sums = payloads.packets, payloads.result.sums
        fresh = packets.keyed & ~packets.covered & ~filtered
        sums.keyed_first += int((fresh & packets.first & packets.owned).sum())
        sums.keyed_mine += int((payloads.emit & packets.keyed[payloads.chosen]).sum())
        later = packets.keyed & ~packets.first & packets.owned
        leaders = packets.leader[later]
        differs = (packets.length[later] != packets.length[leaders]) | (
            packets.sending_time_ns[later] != packets.sending_time_ns[leaders]
        )
        sums.conflicts += int(differs.sum())


def _runs(packets: WindowPackets, rows: Int64Array) -> list[tuple[int, int, int]]:
    """Return the runs of numbers of packets, each with the index of its first packet."""
    numbers = packets.number[rows]
    if packets.last is None:
        return runs_and_starts(numbers)
    last = packets.last[rows]
    return spans_and_starts(np.where(numbers > 0, numbers, last), np.maximum(last, numbers))


def _by_number(packets: WindowPackets, rows: Int64Array) -> Int64Array | slice:
    """Sort packets by channel and sequence number; return a slice if they are already sorted."""
    numbers, channels = packets.number[rows], packets.channel[rows]
    if (channels == channels[0]).all() and (np.diff(numbers) >= 0).all():
        if int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            return slice(int(rows[0]), int(rows[-1]) + 1)
        return rows
    return rows[np.lexsort((numbers, channels))]
