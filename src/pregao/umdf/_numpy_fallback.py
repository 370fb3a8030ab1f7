"""NumPy fallback of `_kernels`, without numba: packets and their messages over arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.umdf import _kernels as k
from pregao.umdf import layout

_TIME_LIMIT = np.uint64(1 << 63)


def _at(buffer: Any, offsets: Any, width: int) -> Any:
    """Return the unsigned numbers of the given width at each offset."""
    return buffer[offsets[:, None] + np.arange(width)].view(f"<u{width}")[:, 0]


def _headers(buffer: Any, starts: Any) -> tuple[Any, Any, Any, Any]:
    return (
        buffer[starts + layout.CHANNEL_AT],
        _at(buffer, starts + layout.SEQUENCE_VERSION_AT, 2),
        _at(buffer, starts + layout.SEQUENCE_NUMBER_AT, 4),
        _at(buffer, starts + layout.SENDING_TIME_AT, 8),
    )


def read_headers(
    buffer: Any, offsets: Any, lengths: Any, channels: Any, versions: Any, numbers: Any, times: Any
) -> None:
    """Read the packet headers, as the kernel does."""
    channels[:] = -1
    for column in (versions, numbers, times):
        column[:] = 0
    complete = np.flatnonzero(lengths >= layout.PACKET_HEADER_SIZE)
    found = _headers(buffer, offsets[complete])
    valid = found[3] < _TIME_LIMIT
    for column, values in zip((channels, versions, numbers, times), found, strict=True):
        column[complete[valid]] = values[valid]


def walk_packets(
    header_size: int, known_headers: bool, buffer: Any, offsets: Any, lengths: Any, channels: Any,
    versions: Any, numbers: Any, times: Any, counts: Any, faults: Any, fault_positions: Any,
    packet_of: Any, index_of: Any, bodies: Any, ends: Any, blocks: Any, kinds: Any, labels: Any,
    known: Any, tallies: Any,
) -> tuple[int, int]:  # fmt: skip
    """Walk packets, as the kernel does: the first message of all packets, then the second.

    All packets advance by one message per iteration, so that there are few iterations.
    """
    counts[:] = 0
    faults[:] = k.SOUND
    fault_positions[:] = offsets
    stops = offsets + lengths
    short = lengths < header_size
    faults[short] = k.SHORT_PACKET
    if known_headers:
        faults[~short & (channels < 0)] = k.LATE_TIME
    else:
        for column in (channels, versions, numbers, times):
            column[short] = 0
        complete = np.flatnonzero(~short)
        found = _headers(buffer, offsets[complete])
        late = found[3] >= _TIME_LIMIT
        for column, values in zip((channels, versions, numbers), found[:3], strict=True):
            column[complete] = values
        times[complete] = np.where(late, 0, found[3]).astype(np.int64)
        faults[complete[late]] = k.LATE_TIME
    faults[(faults == k.SOUND) & (offsets + header_size >= stops)] = k.NO_MESSAGES

    walking = np.flatnonzero(faults == k.SOUND)
    position = offsets[walking] + header_size
    parts: list[tuple[Any, ...]] = []
    while len(walking):
        fault, length = _frames(buffer, position, stops[walking])
        valid = fault == k.SOUND
        broken = walking[~valid]
        faults[broken], fault_positions[broken] = fault[~valid], position[~valid]
        counts[broken] = len(parts)
        walking, position, length = walking[valid], position[valid], length[valid]
        parts.append((walking, np.full(len(walking), len(parts)), position, position + length))
        position = position + length
        more = position < stops[walking]
        done = walking[~more]
        fault_positions[done] = position[~more]
        counts[done] = len(parts)
        walking, position = walking[more], position[more]
    if not parts:
        known[0], tallies[0] = -1, 0
        return 0, 0
    packet, index, start, end = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(packet, kind="stable")
    total, start = len(order), start[order]
    packet_of[:total], index_of[:total] = packet[order], index[order]
    bodies[:total], ends[:total] = start + layout.MIN_MESSAGE_SIZE, end[order]
    blocks[:total] = _at(buffer, start + layout.BLOCK_LENGTH_AT, 2)
    schema_id, template_id, version = (
        _at(buffer, start + offset, 2).astype(np.int64)
        for offset in (layout.SCHEMA_ID_AT, layout.TEMPLATE_ID_AT, layout.VERSION_AT)
    )
    kinds[:total] = schema_id << 32 | template_id << 16 | version
    return total, _label(kinds[:total], labels[:total], known, tallies)


def _frames(buffer: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """Return the fault of the message frame at each position, or SOUND, and its length."""
    available = stop - position
    fault = np.full(len(position), k.TRAILING_BYTES)
    length = np.zeros(len(position), np.int64)
    complete = np.flatnonzero(available >= layout.MIN_MESSAGE_SIZE)
    start = position[complete]
    length[complete] = _at(buffer, start + layout.MESSAGE_LENGTH_AT, 2)
    fault[complete] = np.select(
        [
            _at(buffer, start + layout.ENCODING_TYPE_AT, 2) != layout.ENCODING_TYPE,
            length[complete] < layout.MIN_MESSAGE_SIZE,
            length[complete] > available[complete],
        ],
        [k.WRONG_ENCODING, k.SMALL_LENGTH, k.LONG_LENGTH],
        k.SOUND,
    )
    return fault, length


def _label(kinds: Any, labels: Any, known: Any, tallies: Any) -> int:
    """Number the kinds in order of appearance; return their number, -1 if there are too many."""
    known[0], tallies[0] = -1, 0
    found, first, which, count = np.unique(
        kinds, return_index=True, return_inverse=True, return_counts=True
    )
    if len(found) >= len(known):
        return -1
    order = np.argsort(first)
    rank = np.empty(len(found), np.int64)
    rank[order] = np.arange(1, len(found) + 1)
    labels[:] = rank[which.reshape(-1)]
    known[1 : len(found) + 1], tallies[1 : len(found) + 1] = found[order], count[order]
    return len(found)


def sort_by_label(labels: Any, starts: Any, order: Any) -> None:  # noqa: ARG001
    """Sort the messages' indices by label, as the kernel does."""
    order[:] = np.argsort(labels, kind="stable")


def gather_messages(
    rows: Any, bodies: Any, ends: Any, blocks: Any, positions: Any, stops: Any, lengths: Any
) -> None:
    """Gather block offsets, frame ends and block lengths, as the kernel does."""
    positions[:], stops[:], lengths[:] = bodies[rows], ends[rows], blocks[rows]


def gather_keys(
    rows: Any, packet_of: Any, index_of: Any, channels: Any, versions: Any, numbers: Any,
    times: Any, captured: Any, channel: Any, version: Any, number: Any, index: Any, time: Any,
    capture: Any,
) -> None:  # fmt: skip
    """Gather the keys and times of messages, as the kernel does."""
    packets = packet_of[rows]
    channel[:], version[:], number[:] = channels[packets], versions[packets], numbers[packets]
    index[:], time[:], capture[:] = index_of[rows], times[packets], captured[packets]
