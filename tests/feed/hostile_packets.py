"""Packets that no exchange sends: short blocks, and every field at its extremes."""

from __future__ import annotations

import struct
from functools import cache

from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import bundled
from pregao.umdf.layout import ENCODING_TYPE, FRAMING_HEADER, MESSAGE_HEADER
from pregao.umdf.packets import PacketHeader

VERSIONS = (7, 8, 9, 10, 15, 16, 17)
MESSAGE_BYTES = 12
"""The framing header and the message header."""


def framed(template_id, version, body, block_length):
    """A message with the headers that it is to have, whatever its body is."""
    length = MESSAGE_BYTES + len(body)
    header = MESSAGE_HEADER.pack(block_length, template_id, 2, version)
    return FRAMING_HEADER.pack(length, ENCODING_TYPE) + header + body


def written(header, *messages):
    """A packet of framed messages."""
    channel, version, number, sent = header
    return struct.pack("<BBHIQ", channel, 0, version, number, sent) + b"".join(messages)


def _tail(message):
    """The groups and data of a message, empty."""
    groups = b"".join(bytes(group.dimension.size) for group in message.groups)
    return groups + b"".join(bytes(data.header_size) for data in message.data)


def _extremes(size):
    zero, ones = bytes(size), b"\xff" * size
    return zero, ones, b"\xff" * (size - 1) + b"\x7f", bytes(size - 1) + b"\x80"


@cache
def hostile_messages(version, security_id=0, others=1):
    """Every template with every shorter block, and with every field at its extremes.

    Fields that are not at an extreme are ``others``, or of ``security_id`` if it is not 0.
    """
    found = []
    for message in bundled("umdf", version).messages:
        if not message.id:
            continue
        tail = _tail(message)
        usual = bytearray(message.block_length)
        fields = readings(message)
        for each in fields:
            for leaf in each.leaves:
                usual[leaf.offset] = others
            if each.name == "securityID" and security_id:
                usual[each.offset : each.end] = security_id.to_bytes(each.size, "little")
        for length in range(message.block_length):
            found.append(framed(message.id, version, bytes(usual[:length]) + tail, length))
        for each in fields:
            for leaf in each.leaves:
                end = leaf.offset + leaf.size
                for extreme in _extremes(leaf.size):
                    block = bytearray(usual)
                    block[leaf.offset : end] = extreme
                    found.append(
                        framed(message.id, version, bytes(block) + tail, message.block_length)
                    )
        found += list(_entries(message, version, bytes(usual), others))
    return tuple(found)


def _entries(message, version, block, others):
    """One entry in each group: every shorter block of it, and every field at its extremes."""
    for group in message.groups:
        usual = bytearray(group.block_length)
        for each in readings(group):
            for leaf in each.leaves:
                usual[leaf.offset] = others
        bodies = [(bytes(usual[:length]), length) for length in range(group.block_length + 1)]
        for each in readings(group):
            for leaf in each.leaves:
                for extreme in _extremes(leaf.size):
                    entry = bytearray(usual)
                    entry[leaf.offset : leaf.offset + leaf.size] = extreme
                    bodies.append((bytes(entry), len(entry)))
        for entry, length in bodies:
            parts = b""
            for other in message.groups:
                dimension = bytearray(other.dimension.size)
                for where, number in (
                    (other.dimension.block_length, length), (other.dimension.num_in_group, 1),
                ):  # fmt: skip
                    if other is group:
                        size = where.primitive.size
                        dimension[where.offset : where.offset + size] = number.to_bytes(
                            size, "little"
                        )
                parts += bytes(dimension) + (entry if other is group else b"")
            parts += b"".join(bytes(data.header_size) for data in message.data)
            yield framed(message.id, version, block + parts, message.block_length)


def sequenced(channel, version, number, message, sent=10**18):
    """A packet of one message."""
    return written(PacketHeader(channel, version, number, sent), message)
