"""Kernels of the ingest: packing payloads, keys and fields of messages, rows put in order."""

from __future__ import annotations

import numpy as np

from pregao._njit import load_i64, njit


@njit
def pack_payloads(buffer, offsets, lengths, places, out):
    """Copy payloads to their places in another buffer."""
    for p in range(np.uint64(len(offsets))):
        source = offsets[p]
        place = places[p]
        for k in range(np.uint64(lengths[p])):
            out[np.uint64(place) + k] = buffer[np.uint64(source) + k]


@njit
def gather_message_keys(
    rows, packet_of, index_of, events, packets, numbers, sendings, times,
    packet, number, index, event, sending, time,
):  # fmt: skip
    """The key columns of messages; ``packets`` tells which packet each walked one is."""
    for r in range(np.uint64(len(rows))):
        m = np.uint64(rows[r])
        p = np.uint64(packets[np.uint64(packet_of[m])])
        packet[r] = p
        number[r] = numbers[p]
        index[r] = index_of[m]
        event[r] = events[m]
        sending[r] = sendings[p]
        time[r] = times[p]


@njit
def gather_field(buffer, rows, bodies, blocks, at, values):
    """The 64-bit numbers at an offset of the messages' blocks; False if one does not reach it."""
    for r in range(np.uint64(len(rows))):
        m = np.uint64(rows[r])
        if blocks[m] < at + 8:
            return False
        values[r] = load_i64(buffer, bodies[m] + at)
    return True


@njit
def label_values(values, slots, known, labels):
    """Give every value the number of its first appearance; -1 if there are too many of them."""
    mask = len(slots) - 1
    found = 0
    last = np.int64(0)
    label = -1
    for m in range(np.uint64(len(values))):
        value = values[m]
        if value != last or label < 0:
            last = value
            slot = ((value * 2654435761) >> 12) & mask
            label = slots[slot]
            while label >= 0 and known[label] != value:
                slot = (slot + 1) & mask
                label = slots[slot]
            if label < 0:
                if found == len(known):
                    return -1
                label = found
                slots[slot] = label
                known[label] = value
                found += 1
        labels[m] = label
    return found


@njit
def sort_by_rank(labels, ranks, starts, order):
    """The indexes of values by rank, each rank's in the order they came."""
    places = starts.copy()
    for m in range(np.uint64(len(labels))):
        rank = ranks[labels[m]]
        order[places[rank]] = m
        places[rank] += 1
