"""Kernels over packets: the walk from packets to messages, and grouping messages by template."""

from __future__ import annotations

import numpy as np

from pregao._njit import load_u8, load_u16, load_u32, load_u64, njit, njit_or, part, prefetch
from pregao.umdf.layout import (
    BLOCK_LENGTH_AT,
    CHANNEL_AT,
    ENCODING_TYPE,
    ENCODING_TYPE_AT,
    MESSAGE_LENGTH_AT,
    MIN_MESSAGE_SIZE,
    PACKET_HEADER_SIZE,
    SCHEMA_ID_AT,
    SENDING_TIME_AT,
    SEQUENCE_NUMBER_AT,
    SEQUENCE_VERSION_AT,
    TEMPLATE_ID_AT,
    VERSION_AT,
)

# Faults of a packet.
SOUND = 0
SHORT_PACKET = 1
LATE_TIME = 2
NO_MESSAGES = 3
TRAILING_BYTES = 4
WRONG_ENCODING = 5
SMALL_LENGTH = 6
LONG_LENGTH = 7

_FALLBACK = "pregao.umdf._numpy_fallback"

_TIME_LIMIT = np.uint64(1 << 63)
_SLOTS = 4096
_SPREAD = 2654435761
_AHEAD = np.uint64(16)


@njit
def _other_label(slots, known, tallies, kind, slot, found):
    """Return the label of a kind that is not in its first slot: from a later slot, or new."""
    if found < 0:
        return np.int32(0), found
    while slots[slot] != 0 and known[slots[slot]] != kind:
        slot = (slot + 1) & (_SLOTS - 1)
    label = slots[slot]
    if label == 0:
        if found == len(known) - 1:  # noise
            return np.int32(0), -1
        found += 1
        label = np.int32(found)
        slots[slot] = label
        known[label] = kind
        tallies[label] = 0
    return label, found


@part
def frame_fault(buffer, position, end):
    """Return the fault of the message frame at a position, or SOUND."""
    available = end - position
    if available < MIN_MESSAGE_SIZE:
        return TRAILING_BYTES
    if load_u16(buffer, position + ENCODING_TYPE_AT) != ENCODING_TYPE:
        return WRONG_ENCODING
    length = np.int64(load_u16(buffer, position + MESSAGE_LENGTH_AT))
    if length < MIN_MESSAGE_SIZE:
        return SMALL_LENGTH
    return LONG_LENGTH if length > available else SOUND


@njit_or(_FALLBACK)
def read_headers(buffer, offsets, lengths, channels, versions, numbers, times):
    """Read the packet headers; a packet without a valid one gets channel -1."""
    for p in range(np.uint64(len(offsets))):
        start = offsets[p]
        time = np.uint64(0)
        if lengths[p] >= PACKET_HEADER_SIZE:
            time = load_u64(buffer, start + SENDING_TIME_AT)
        if lengths[p] < PACKET_HEADER_SIZE or time >= _TIME_LIMIT:
            channels[p] = -1
            versions[p] = 0
            numbers[p] = 0
            times[p] = 0
            continue
        channels[p] = load_u8(buffer, start + CHANNEL_AT)
        versions[p] = load_u16(buffer, start + SEQUENCE_VERSION_AT)
        numbers[p] = load_u32(buffer, start + SEQUENCE_NUMBER_AT)
        times[p] = time


@njit_or(_FALLBACK)
def walk_packets(
    header_size, known_headers, buffer, offsets, lengths, channels, versions, numbers, times,
    counts, faults, fault_positions, packet_of, index_of, bodies, ends, blocks, kinds, labels,
    known, tallies,
):  # fmt: skip
    """Walk packets: set each packet's header and fault, and each message's offsets and header.

    Messages start after ``header_size`` bytes. With ``known_headers``, the packet headers are given
    as returned by `read_headers` and not read again. ``kinds`` has schema id, template id and
    version as one number; ``labels`` the number of that kind, from 1; ``known`` and ``tallies`` the
    kinds and their message counts. Returns the numbers of messages and kinds; -1 kinds means too
    many.
    """
    slots = np.zeros(_SLOTS, np.int32)
    known[0] = -1
    tallies[0] = 0
    found = 0
    total = np.uint64(0)
    last = np.uint64(max(len(offsets), 1) - 1)
    for p in range(np.uint64(len(offsets))):
        start = offsets[p]
        end = start + lengths[p]
        ahead = offsets[min(p + _AHEAD, last)]
        prefetch(buffer, ahead)
        prefetch(buffer, ahead + 64)
        counts[p] = 0
        faults[p] = SOUND
        fault_positions[p] = start
        if lengths[p] < header_size:
            faults[p] = SHORT_PACKET
            if not known_headers:
                channels[p] = 0
                versions[p] = 0
                numbers[p] = 0
                times[p] = 0
            continue
        if known_headers:
            if channels[p] < 0:
                faults[p] = LATE_TIME
                continue
        else:
            channels[p] = load_u8(buffer, start + CHANNEL_AT)
            versions[p] = load_u16(buffer, start + SEQUENCE_VERSION_AT)
            numbers[p] = load_u32(buffer, start + SEQUENCE_NUMBER_AT)
            time = load_u64(buffer, start + SENDING_TIME_AT)
            if time >= _TIME_LIMIT:
                faults[p] = LATE_TIME
                times[p] = 0
                continue
            times[p] = time
        position = start + header_size
        if position >= end:
            faults[p] = NO_MESSAGES
            continue
        index = 0
        while position < end:
            fault = frame_fault(buffer, position, end)
            if fault != SOUND:
                faults[p] = fault
                break
            length = np.int64(load_u16(buffer, position + MESSAGE_LENGTH_AT))
            packet_of[total] = p
            index_of[total] = index
            bodies[total] = position + MIN_MESSAGE_SIZE
            ends[total] = position + length
            blocks[total] = load_u16(buffer, position + BLOCK_LENGTH_AT)
            kind = (
                (np.int64(load_u16(buffer, position + SCHEMA_ID_AT)) << 32)
                | (np.int64(load_u16(buffer, position + TEMPLATE_ID_AT)) << 16)
                | np.int64(load_u16(buffer, position + VERSION_AT))
            )
            kinds[total] = kind
            # Usually it is in the first slot, and no branch here depends on the kind.
            slot = (kind * _SPREAD >> 8) & (_SLOTS - 1)
            label = slots[slot]
            if known[label] != kind:
                label, found = _other_label(slots, known, tallies, kind, slot, found)
            labels[total] = label
            tallies[label] += 1
            total += np.uint64(1)
            index += 1
            position += length
        counts[p] = index
        fault_positions[p] = position
    return np.int64(total), found


@njit_or(_FALLBACK)
def sort_by_label(labels, starts, order):
    """Sort the messages' indices by label, stable within each label."""
    next_index = starts.copy()
    for m in range(np.uint64(len(labels))):
        label = labels[m]
        order[next_index[label]] = m
        next_index[label] += 1


@njit_or(_FALLBACK)
def gather_messages(rows, bodies, ends, blocks, positions, stops, lengths):
    """Gather block offsets, block lengths and frame ends of the chosen messages."""
    for r in range(np.uint64(len(rows))):
        m = np.uint64(rows[r])
        positions[r] = bodies[m]
        stops[r] = ends[m]
        lengths[r] = blocks[m]


@njit_or(_FALLBACK)
def gather_keys(
    rows, packet_of, index_of, channels, versions, numbers, times, captured,
    channel, version, number, index, time, capture,
):  # fmt: skip
    """Gather the keys and times of the chosen messages from their packets."""
    for r in range(np.uint64(len(rows))):
        m = np.uint64(rows[r])
        p = np.uint64(packet_of[m])
        channel[r] = channels[p]
        version[r] = versions[p]
        number[r] = numbers[p]
        index[r] = index_of[m]
        time[r] = times[p]
        capture[r] = captured[p]
