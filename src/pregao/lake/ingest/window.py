"""A window of packets: arbitration of the feeds, order of packets, and ownership.

A window has packets of one or more captures. For each channel of an arbitrated stream it owns the
packet keys (sequence version and number) from ``low`` up to, not including, ``high``; packets
outside these bounds are context and are owned by another window. Packets of other streams,
heartbeats and noise have no key that could be on two feeds: the window that reads them owns them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import BoolArray, Int64Array
from pregao.capture.blocks import PacketBlock
from pregao.clock import SECOND
from pregao.lake.ingest import _kernels
from pregao.lake.ingest.protocol import PayloadKeys
from pregao.lake.ingest.sequence_ranges import Coverage
from pregao.umdf.arbitration_columns import NO_OTHER, arbitrate
from pregao.umdf.phases import day_of_packets
from pregao.umdf.sequencing import PacketKey, precedes, serial_of

_FEW = 16
_NUMBER_BITS = 32

FIRST_FEED = "A"
"""Feed of streams that have only one."""


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The packet keys of a channel that a window owns; None is unbounded.

    With timed versions, a bound has the second of sending instead of the version.
    """

    low: PacketKey | None = None
    high: PacketKey | None = None


@dataclass(frozen=True, slots=True)
class FlowRole:
    """Stream, feed and protocol of a flow."""

    destination: str
    stream: str
    feed: str
    protocol: str


@dataclass(slots=True)
class PacketChunk:
    """Packets of one block of a capture, with the keys from their headers."""

    block: PacketBlock
    capture: int
    owned: BoolArray
    """Mask of packets that the window owns; the others are context."""
    role: npt.NDArray[np.int32]
    keys: PayloadKeys
    time_ns: Int64Array
    """Capture times without outliers, by which windows are split."""
    outside: BoolArray | None = None
    """Mask of packets that belong to a unit before or after this one."""
    far: BoolArray | None = None
    """Mask of packets whose sending time is too far from the capture time; None if none is."""


@dataclass(frozen=True, slots=True)
class WindowConstants:
    """Whether columns are constant over the packets of a window; false means unknown."""

    role: bool
    capture: bool
    channel: bool
    version: bool
    difference: bool


@dataclass(slots=True)
class WindowPackets:
    """The packets of a window as flat arrays, in order of capture time."""

    chunk: npt.NDArray[np.int32]
    row: Int64Array
    capture: npt.NDArray[np.int32]
    owned: BoolArray
    role: npt.NDArray[np.int32]
    time_ns: Int64Array
    position: Int64Array
    length: npt.NDArray[np.int32]
    channel: npt.NDArray[np.int16]
    version: npt.NDArray[np.int32]
    number: Int64Array
    sending_time_ns: Int64Array
    last: Int64Array | None = None
    """Last sequence numbers of packets that may have several; see `PayloadKeys`."""
    first: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether the packet is the first with its key; always true without a key."""
    owns_key: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether the window owns its key, or the packet itself if it has no key."""
    covered: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether an earlier ingest has received its key."""
    difference_ns: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    leader: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Index of the first packet with its key."""
    keyed: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether it is a packet of an arbitrated stream with a key."""
    outside: BoolArray | None = None
    """Whether it belongs to a unit before or after this one; None if no packet does."""
    far: BoolArray | None = None
    """Whether its sending time is too far from its capture time; None if no packet's is."""
    days: Int64Array | None = None
    """Cached result of `days_of`."""

    _constant: WindowConstants | None = None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def constant(self) -> WindowConstants:
        """Constant columns; valid after `arbitrate_window`."""
        if self._constant is None:
            columns = (self.role, self.capture, self.channel, self.version, self.difference_ns)
            self._constant = WindowConstants(
                *(bool((column == column[:1]).all()) for column in columns)
            )
        return self._constant


def packets_of(chunks: list[PacketChunk]) -> WindowPackets:
    """Concatenate the packets of chunks and sort them stably by capture time."""

    def joined(parts: list[Any], kind: Any) -> Any:
        return np.concatenate(parts) if parts else np.empty(0, kind)

    sizes = [len(chunk.block) for chunk in chunks]
    packets = WindowPackets(
        chunk=np.repeat(np.arange(len(chunks), dtype=np.int32), sizes),
        row=joined([np.arange(size) for size in sizes], np.int64),
        capture=np.repeat(np.array([c.capture for c in chunks], np.int32), sizes),
        owned=joined([c.owned for c in chunks], np.bool_),
        role=joined([c.role for c in chunks], np.int32),
        time_ns=joined([c.block.time_ns for c in chunks], np.int64),
        position=joined([c.block.position for c in chunks], np.int64),
        length=joined([c.block.length for c in chunks], np.int32),
        channel=joined([c.keys.channel for c in chunks], np.int16),
        version=joined([c.keys.version for c in chunks], np.int32),
        number=joined([c.keys.number for c in chunks], np.int64),
        sending_time_ns=joined([c.keys.sending_time_ns for c in chunks], np.int64),
    )
    if any(c.keys.last is not None for c in chunks):
        packets.last = np.concatenate(
            [c.keys.number if c.keys.last is None else c.keys.last for c in chunks]
        )
    if any(c.outside is not None for c in chunks):
        parts = [
            np.zeros(len(c.block), np.bool_) if c.outside is None else c.outside for c in chunks
        ]
        packets.outside = np.concatenate(parts)
    if any(c.far is not None for c in chunks):
        packets.far = np.concatenate(
            [np.zeros(len(c.block), np.bool_) if c.far is None else c.far for c in chunks]
        )
    if len(packets) and (np.diff(packets.time_ns) < 0).any():
        order = np.argsort(packets.time_ns, kind="stable")
        for name in (
            "chunk", "row", "capture", "owned", "role", "time_ns", "position", "length",
            "channel", "version", "number", "sending_time_ns",
        ):  # fmt: skip
            setattr(packets, name, getattr(packets, name)[order])
        if packets.outside is not None:
            packets.outside = packets.outside[order]
        if packets.far is not None:
            packets.far = packets.far[order]
        if packets.last is not None:
            packets.last = packets.last[order]
    return packets


def days_of(packets: WindowPackets) -> Int64Array:
    """Return the day in São Paulo of each packet, by its sending time if it has one."""
    if packets.days is None:
        packets.days = day_of_packets(packets.sending_time_ns, packets.time_ns)
    return packets.days


def arbitrate_window(
    packets: WindowPackets,
    roles: list[FlowRole],
    arbitrated: frozenset[str],
    bounds: dict[int, KeyBounds],
    covered: Coverage,
    *,
    timed_versions: bool = False,
) -> tuple[list[Int64Array], Int64Array]:
    """Arbitrate the packets; return those to walk, in the order of their messages.

    These are, for each arbitrated channel in sequence order, the first packets of its keys
    (including keys that the window does not own, which show where an event begins); and all other
    owned packets in capture order. With ``timed_versions``, duplicates have the same second of
    sending, and the same sending time in a second in which numbers restart.
    """
    count = len(packets)
    packets.first = np.ones(count, np.bool_)
    packets.owns_key = packets.owned.copy()
    packets.covered = np.zeros(count, np.bool_)
    packets.difference_ns = np.full(count, NO_OTHER, np.int64)
    packets.leader = np.arange(count)
    of_feeds = np.array([role.stream in arbitrated for role in roles], np.bool_)
    feeds = _feed_numbers(roles)
    keyed = (
        of_feeds[packets.role] & (packets.channel >= 0) & (packets.number > 0)
        if count
        else np.zeros(0, np.bool_)
    )
    packets.keyed = keyed
    accepted: list[Int64Array] = []
    for channel in distinct(packets.channel[keyed]):
        rows = np.flatnonzero(keyed & (packets.channel == channel))
        limits = bounds.get(channel, KeyBounds())
        base = limits.low.sequence_version if limits.low else int(packets.version[rows[0]])
        keys = serial_of(packets.version[rows], packets.number[rows], base)
        # A packet of another unit never leads: this unit decodes every key of which it has a
        # packet, unless an earlier ingest has.
        outside = None if packets.outside is None else packets.outside[rows]
        if timed_versions:
            streams = of_feeds[packets.role] & (packets.channel == channel)
            restarted = _restarted_seconds(packets, rows, np.flatnonzero(streams), feeds)
            arbitration_keys = _sent_keys(packets, rows, restarted)
        else:
            arbitration_keys = keys
        found = arbitrate(
            arbitration_keys, packets.time_ns[rows], feeds[packets.role[rows]], outside
        )
        accepted.append(rows[found.order])
        if not found.no_duplicates:
            packets.first[rows] = found.first
            packets.difference_ns[rows] = found.difference_ns
            packets.leader[rows] = rows[found.leader]
        own_keys = np.ones(len(rows), np.bool_)
        bounded = keys
        if timed_versions:
            sending, time = packets.sending_time_ns[rows], packets.time_ns[rows]
            bounded, base = timed_keys(packets.number[rows], sending, time), TIMED
        if limits.low is not None:
            own_keys &= bounded >= bound_of(limits.low, base)
        if limits.high is not None:
            own_keys &= bounded < bound_of(limits.high, base)
        if outside is not None:
            own_keys &= ~outside[found.leader]
        packets.owns_key[rows] = own_keys
        packets.covered[rows] = _covered(packets, rows, channel, covered)
    return accepted, np.flatnonzero(~keyed & packets.owned)


TIMED = -1
"""Base of timed bounds, instead of a version."""


def timed_keys(numbers: Int64Array, sending_time_ns: Int64Array, time_ns: Int64Array) -> Int64Array:
    """Return the keys of packets with timed versions: the second of sending and the number.

    Numbers may restart within a version. If they do so within a second, packets of both numberings
    with the same number have one key, and so one owner. Packets without a sending time use the
    capture time.
    """
    sent = np.where(sending_time_ns > 0, sending_time_ns, time_ns)
    timed_keys: Int64Array = (sent // SECOND) << _NUMBER_BITS | numbers
    return timed_keys


def timed_key(value: int) -> PacketKey:
    """Convert one of `timed_keys` to a packet key with the second instead of the version."""
    return PacketKey(value >> _NUMBER_BITS, value & ((1 << _NUMBER_BITS) - 1))


def bound_of(packet_key: PacketKey, base: int) -> int:
    """Return a bound as one number, relative to a version or `TIMED`."""
    if base == TIMED:
        return packet_key.sequence_version << _NUMBER_BITS | packet_key.sequence_number
    return packet_key.serial(base)


def comes_before(one: PacketKey, other: PacketKey, *, timed_versions: bool) -> bool:
    """Whether a bound is before another."""
    return one < other if timed_versions else precedes(one, other)


def _restarted_seconds(
    packets: WindowPackets, rows: Int64Array, channel_rows: Int64Array, feeds: npt.NDArray[np.int32]
) -> Int64Array:
    """Return the seconds of sending in which the numbers of a channel restart.

    A SequenceReset shows it (it has a sending time, but neither uses nor announces a number), and
    a feed that sends a number again or a smaller one later in the same second.
    """
    sent = packets.sending_time_ns[channel_rows]
    last = packets.number if packets.last is None else packets.last
    resets = (packets.number[channel_rows] == 0) & (last[channel_rows] == 0) & (sent > 0)
    found = [sent[resets] // SECOND]
    own_feeds = feeds[packets.role[rows]]
    for feed in distinct(own_feeds):
        own = rows[own_feeds == feed]
        times, numbers = packets.sending_time_ns[own], packets.number[own]
        if bool(((np.diff(times) >= 0) & (np.diff(numbers) > 0)).all()):
            continue
        order = np.lexsort((numbers, times))
        times, numbers = times[order], numbers[order]
        back = (np.diff(numbers) <= 0) & (np.diff(times) > 0)
        seconds = times // SECOND
        found.append(seconds[1:][back & (np.diff(seconds) == 0)])
    return np.unique(np.concatenate(found))


def _sent_keys(packets: WindowPackets, rows: Int64Array, restarted: Int64Array) -> Int64Array:
    """Return second of sending and sequence number as one number, ordered by time.

    In ``restarted`` seconds the sending time itself distinguishes equal numbers. In others it does
    not, since a site may state its own.
    """
    sent, numbers = packets.sending_time_ns[rows], packets.number[rows]
    seconds = sent // SECOND
    exact = np.isin(seconds, restarted)
    if not exact.any():
        sent_keys: Int64Array = (seconds - seconds.min()) << _NUMBER_BITS | numbers
        return sent_keys
    times = np.where(exact, sent, seconds * SECOND)
    order = np.lexsort((numbers, times))
    times, numbers = times[order], numbers[order]
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.cumsum(
        np.append(False, (np.diff(times) != 0) | (np.diff(numbers) != 0)), dtype=np.int64
    )
    return ranks


def _feed_numbers(roles: list[FlowRole]) -> npt.NDArray[np.int32]:
    names = sorted({role.feed for role in roles})
    return np.array([names.index(role.feed) for role in roles], np.int32)


def _covered(
    packets: WindowPackets, rows: Int64Array, channel: int, covered: Coverage
) -> BoolArray:
    """Return a mask of the packets that an earlier ingest has received."""
    if not len(covered):
        return np.zeros(len(rows), np.bool_)
    days = days_of(packets)[rows]
    return covered.has(channel, days, packets.version[rows], packets.number[rows])


def by_day(days: Int64Array, rows: Int64Array) -> list[tuple[int, Int64Array]]:
    """Group rows by day."""
    if not len(days):
        return []
    if days[0] == days[-1] and all_same(days):
        return [(int(days[0]), rows)]
    return [(day, rows[days == day]) for day in distinct(days)]


def all_same(values: npt.NDArray[Any]) -> bool:
    """Whether there are values and all are equal."""
    return len(values) > 0 and bool((values == values[0]).all())


def spans_and_starts(first: Int64Array, last: Int64Array) -> list[tuple[int, int, int]]:
    """Return `runs_and_starts` for payloads that have several numbers each."""
    order = np.lexsort((last, first))
    reached = np.maximum.accumulate(last[order])
    breaks = np.flatnonzero(first[order][1:] > reached[:-1] + 1)
    starts = np.concatenate(([0], breaks + 1))
    stops = np.concatenate((breaks, [len(order) - 1]))
    indexes = order[starts]
    found = zip(first[indexes].tolist(), reached[stops].tolist(), indexes.tolist(), strict=True)
    return list(found)


def runs_and_starts(numbers: Int64Array) -> list[tuple[int, int, int]]:
    """Return runs of consecutive numbers: first, last, and the index of the first one."""
    if not len(numbers):
        return []
    order = None
    steps = np.diff(numbers)
    if steps.min(initial=0) < 0:
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        steps = np.diff(numbers)
    breaks = np.flatnonzero(steps > 1)
    starts = np.concatenate(([0], breaks + 1))
    stops = np.concatenate((breaks, [len(numbers) - 1]))
    indexes = starts if order is None else order[starts]
    found = zip(numbers[starts].tolist(), numbers[stops].tolist(), indexes.tolist(), strict=True)
    return list(found)


def distinct(values: npt.NDArray[Any]) -> list[int]:
    """Return the distinct values, sorted; fast if there are few."""
    found: list[int] = []
    while len(values) and len(found) < _FEW:
        found.append(int(values[0]))
        values = values[values != values[0]]
    return sorted({*found, *np.unique(values).tolist()})


def _scratch(size: int) -> npt.NDArray[np.uint8]:
    """Return a reused buffer of ``size`` bytes: allocating one costs more than filling it."""
    buffer: npt.NDArray[np.uint8] | None = getattr(_SCRATCH, "buffer", None)
    if buffer is None or len(buffer) < size:
        buffer = _SCRATCH.buffer = np.empty(size + size // 8, np.uint8)
    return buffer[:size]


_SCRATCH = threading.local()


def forget_scratch() -> None:
    """Release the buffer that this thread keeps for the next window."""
    _SCRATCH.buffer = None


def packed(
    chunks: list[PacketChunk], packets: WindowPackets, chosen: Int64Array
) -> tuple[Any, Int64Array]:
    """Concatenate the payloads of packets; return the buffer and the offset of each payload.

    The next window of the same thread reuses the buffer.
    """
    lengths = packets.length[chosen].astype(np.int64)
    offsets = np.cumsum(lengths) - lengths
    out = _scratch(int(lengths.sum()) + 64)
    out[-64:] = 0
    chunk_of_packet = packets.chunk[chosen]
    in_order = bool((np.diff(chunk_of_packet) >= 0).all())
    for number, chunk in enumerate(chunks):
        if in_order:
            first, last = np.searchsorted(chunk_of_packet, (number, number + 1))
            rows = np.arange(first, last)
        else:
            rows = np.flatnonzero(chunk_of_packet == number)
        if not len(rows):
            continue
        inner = packets.row[chosen[rows]]
        _kernels.pack_payloads(
            chunk.block.buffer, chunk.block.offset[inner], chunk.block.length[inner],
            offsets[rows], out,
        )  # fmt: skip
    return out, offsets
