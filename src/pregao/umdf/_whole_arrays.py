"""Packets and their messages without numba: the kernels of `_kernels`, over whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.umdf import _kernels as k
from pregao.umdf import layout

_TIME_LIMIT = np.uint64(1 << 63)


def _at(buffer: Any, places: Any, width: int) -> Any:
    """An unsigned number of some bytes at each of the places."""
    return buffer[places[:, None] + np.arange(width)].view(f"<u{width}")[:, 0]


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
    """What the kernel of this name does."""
    channels[:] = -1
    for column in (versions, numbers, times):
        column[:] = 0
    whole = np.flatnonzero(lengths >= layout.PACKET_HEADER_SIZE)
    found = _headers(buffer, offsets[whole])
    sound = found[3] < _TIME_LIMIT
    for column, values in zip((channels, versions, numbers, times), found, strict=True):
        column[whole[sound]] = values[sound]


def walk_packets(
    header_size: int, known_headers: bool, buffer: Any, offsets: Any, lengths: Any, channels: Any,
    versions: Any, numbers: Any, times: Any, counts: Any, faults: Any, fault_positions: Any,
    packet_of: Any, index_of: Any, bodies: Any, ends: Any, blocks: Any, kinds: Any, labels: Any,
    known: Any, tallies: Any,
) -> tuple[int, int]:  # fmt: skip
    """What the kernel of this name does: the first messages of all packets, then the second ones.

    All packets go on by a message at a time, so that there are few turns.
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
        whole = np.flatnonzero(~short)
        found = _headers(buffer, offsets[whole])
        late = found[3] >= _TIME_LIMIT
        for column, values in zip((channels, versions, numbers), found[:3], strict=True):
            column[whole] = values
        times[whole] = np.where(late, 0, found[3]).astype(np.int64)
        faults[whole[late]] = k.LATE_TIME
    faults[(faults == k.SOUND) & (offsets + header_size >= stops)] = k.NO_MESSAGES

    walking = np.flatnonzero(faults == k.SOUND)
    position = offsets[walking] + header_size
    parts: list[tuple[Any, ...]] = []
    while len(walking):
        fault, length = _frames(buffer, position, stops[walking])
        sound = fault == k.SOUND
        broken = walking[~sound]
        faults[broken], fault_positions[broken] = fault[~sound], position[~sound]
        counts[broken] = len(parts)
        walking, position, length = walking[sound], position[sound], length[sound]
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
    bodies[:total], ends[:total] = start + layout.SMALLEST_MESSAGE, end[order]
    blocks[:total] = _at(buffer, start + layout.BLOCK_LENGTH_AT, 2)
    schema_id, template_id, version = (
        _at(buffer, start + place, 2).astype(np.int64)
        for place in (layout.SCHEMA_ID_AT, layout.TEMPLATE_ID_AT, layout.VERSION_AT)
    )
    kinds[:total] = schema_id << 32 | template_id << 16 | version
    return total, _label(kinds[:total], labels[:total], known, tallies)


def _frames(buffer: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """What is wrong with the frame of a message at each position, if anything; and its length."""
    room = stop - position
    fault = np.full(len(position), k.TRAILING_BYTES)
    length = np.zeros(len(position), np.int64)
    whole = np.flatnonzero(room >= layout.SMALLEST_MESSAGE)
    at = position[whole]
    length[whole] = _at(buffer, at + layout.MESSAGE_LENGTH_AT, 2)
    fault[whole] = np.select(
        [
            _at(buffer, at + layout.ENCODING_TYPE_AT, 2) != layout.ENCODING_TYPE,
            length[whole] < layout.SMALLEST_MESSAGE,
            length[whole] > room[whole],
        ],
        [k.WRONG_ENCODING, k.SMALL_LENGTH, k.LONG_LENGTH],
        k.SOUND,
    )
    return fault, length


def _label(kinds: Any, labels: Any, known: Any, tallies: Any) -> int:
    """Number the kinds in the order in which they come; gives how many, -1 if they are too many."""
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
    """What the kernel of this name does."""
    order[:] = np.argsort(labels, kind="stable")


def gather_messages(
    rows: Any, bodies: Any, ends: Any, blocks: Any, positions: Any, stops: Any, lengths: Any
) -> None:
    """What the kernel of this name does."""
    positions[:], stops[:], lengths[:] = bodies[rows], ends[rows], blocks[rows]


def gather_keys(
    rows: Any, packet_of: Any, index_of: Any, channels: Any, versions: Any, numbers: Any,
    times: Any, captured: Any, channel: Any, version: Any, number: Any, index: Any, time: Any,
    capture: Any,
) -> None:  # fmt: skip
    """What the kernel of this name does."""
    packets = packet_of[rows]
    channel[:], version[:], number[:] = channels[packets], versions[packets], numbers[packets]
    index[:], time[:], capture[:] = index_of[rows], times[packets], captured[packets]
