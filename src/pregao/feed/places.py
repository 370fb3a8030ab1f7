"""A message's place in its channel as one number, which sorts like the stream goes.

It is the serial of the packet (see `umdf.sequencing`) and the index of the message in it. Behind
all messages of a packet is a place too: there stands what a snapshot or a lost packet says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.feed.columns import MessageColumns, Numbers
from pregao.umdf.sequencing import place_of_serial, serial_of

INDEX_BITS = 13
"""A packet of 64 kB has fewer messages than this many bits can count."""
BEHIND_PACKET = (1 << INDEX_BITS) - 1
"""The index of the place behind all messages of a packet."""
_BITS = 63
"""A number has so many, without its sign."""


def place_of(serial: Numbers, index: Numbers | int) -> Numbers:
    """The places of messages from their packets' serials and their index."""
    return (serial << INDEX_BITS) | index


def packet_of(place: Numbers, base: int) -> tuple[Any, Numbers]:
    """The sequence versions and numbers of the packets at places."""
    return place_of_serial(place >> INDEX_BITS, base)


def places_in(rows: MessageColumns, base: int) -> Numbers:
    """The places of messages of the incremental stream."""
    serial = serial_of(rows.numbers("sequence_version"), rows.numbers("sequence_number", 0), base)
    return place_of(serial, rows.numbers("index_in_packet"))


def place_text(place: int, base: int) -> str:
    """A message's place, as people read it."""
    version, number = packet_of(np.array([place], np.int64), base)
    index = place & BEHIND_PACKET
    return f"message {index} of packet {int(number[0])}, sequence version {int(version[0])}"


def ranked(*several: Numbers) -> tuple[Numbers, list[Numbers]]:
    """The distinct instruments of some columns, in order, and each column as places among them.

    Rows of an instrument are together, so only the first of each run is looked up.
    """
    heads = [np.flatnonzero(np.append(True, one[1:] != one[:-1])[: len(one)]) for one in several]
    known = np.unique(np.concatenate([one[at] for one, at in zip(several, heads, strict=True)]))
    ranks = []
    for one, at in zip(several, heads, strict=True):
        lengths = np.diff(np.append(at, len(one)))
        ranks.append(np.repeat(np.searchsorted(known, one[at]), lengths))
    return known, ranks


def in_order(rank: Numbers, place: Numbers) -> Numbers:
    """The indexes that sort by instrument and place, equal ones kept in order."""
    bits = int(place.max(initial=0)).bit_length()
    if int(rank.max(initial=0)).bit_length() + bits <= _BITS:
        # Rows come sorted, so this is a merge of a few runs.
        return np.argsort((rank << bits) | place, kind="stable")
    return np.lexsort((place, rank))
