"""Kernels of the ingest: pack payloads, gather keys and fields of messages, order rows."""

from __future__ import annotations

import numpy as np

from pregao._njit import load_i64, njit


@njit
def pack_payloads(buffer, offsets, lengths, targets, out):
    """Copy payloads to their offsets in another buffer."""
    for p in range(np.uint64(len(offsets))):
        source = offsets[p]
        target = targets[p]
        for k in range(np.uint64(lengths[p])):
            out[np.uint64(target) + k] = buffer[np.uint64(source) + k]


@njit
def gather_message_keys(
    rows, packet_of, index_of, events, packets, numbers, sendings, times,
    packet, number, index, event, sending, time,
):  # fmt: skip
    """Gather the key columns of messages; ``packets`` maps walked packets to rows of packets."""
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
    """Gather the int64 at an offset of messages' blocks; return False if a block is too short."""
    for r in range(np.uint64(len(rows))):
        m = np.uint64(rows[r])
        if blocks[m] < at + 8:
            return False
        values[r] = load_i64(buffer, bodies[m] + at)
    return True


@njit
def label_values(values, slots, known, labels):
    """Label values in order of first appearance; return their number, -1 if ``known`` is full."""
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
    """Sort the indexes of values by rank, stably."""
    targets = starts.copy()
    for m in range(np.uint64(len(labels))):
        rank = ranks[labels[m]]
        order[targets[rank]] = m
        targets[rank] += 1
