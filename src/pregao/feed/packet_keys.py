"""A message's position in its channel as one number, which sorts in stream order.

The message serial combines the serial of the packet (see `umdf.sequencing`) and the index of the
message in it. The highest index is after all messages of a packet: there a snapshot, or the loss of
the next packets, takes effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.arrays import Int64Array
from pregao.feed.columns import MessageColumns
from pregao.umdf.sequencing import keys_of_serials, serial_of

INDEX_BITS = 13
"""Bits of the message index: a packet of 64 kB has fewer messages."""
AFTER_PACKET = (1 << INDEX_BITS) - 1
"""Message index after all messages of a packet."""
_BITS = 63
"""Bits of a number without its sign."""


def message_serial(serial: Int64Array, index: Int64Array | int) -> Int64Array:
    """Return message serials from the serials of packets and the index in them."""
    return (serial << INDEX_BITS) | index


def packet_of(message_serial: Int64Array, base: int) -> tuple[Any, Int64Array]:
    """Return the sequence versions and numbers of the packets of message serials."""
    return keys_of_serials(message_serial >> INDEX_BITS, base)


def message_serials(rows: MessageColumns, base: int) -> Int64Array:
    """Return the message serials of messages of the incremental stream."""
    serial = serial_of(rows.numbers("sequence_version"), rows.numbers("sequence_number", 0), base)
    return message_serial(serial, rows.numbers("index_in_packet"))


def serial_text(serial: int, base: int) -> str:
    """Describe the position of a message in words."""
    version, number = packet_of(np.array([serial], np.int64), base)
    index = serial & AFTER_PACKET
    return f"message {index} of packet {int(number[0])}, sequence version {int(version[0])}"


def ranked(*several: Int64Array) -> tuple[Int64Array, list[Int64Array]]:
    """Return the sorted distinct instruments of some columns, and each column as ranks in them.

    Rows of an instrument are adjacent, so only the first of each run is looked up.
    """
    heads = [np.flatnonzero(np.append(True, one[1:] != one[:-1])[: len(one)]) for one in several]
    securities = np.unique(
        np.concatenate([one[at] for one, at in zip(several, heads, strict=True)])
    )
    ranks = []
    for one, at in zip(several, heads, strict=True):
        lengths = np.diff(np.append(at, len(one)))
        ranks.append(np.repeat(np.searchsorted(securities, one[at]), lengths))
    return securities, ranks


def in_order(rank: Int64Array, message_serial: Int64Array) -> Int64Array:
    """Return the indices that sort by instrument and message serial, stably."""
    bits = int(message_serial.max(initial=0)).bit_length()
    if int(rank.max(initial=0)).bit_length() + bits <= _BITS:
        # The rows consist of a few sorted runs, which a stable sort merges.
        return np.argsort((rank << bits) | message_serial, kind="stable")
    return np.lexsort((message_serial, rank))
