"""The legacy feed for the ingest: detection, keys and decoder of its datagrams.

A datagram's number is that of its first message. Heartbeats and resets get none, so that they are
never duplicates: a heartbeat has the number of the next message, and after a reset numbers repeat.
The feed has no sequence versions; ten-minute slots of the sending time, equal on feeds A and B,
stand in for them (`slots`). Numbers continue over slots, for a week or a day (002 §15.7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from pregao.arrays import Int64Array
from pregao.capture.blocks import PacketBlock
from pregao.clock import SECOND
from pregao.lake.ingest.legacy.channels import UNKNOWN, channel_of, known_channel
from pregao.lake.ingest.legacy.messages import LegacyDecoder
from pregao.lake.ingest.legacy.slots import slot_of
from pregao.lake.ingest.legacy.tables import message_table_name, message_table_specs
from pregao.lake.ingest.legacy.templates import choose_templates, known_templates
from pregao.lake.ingest.protocol import (
    UNKNOWN_STREAM,
    IngestProtocol,
    PayloadKeys,
    ProtocolEvidence,
)
from pregao.legacy.bulk import ChunkColumns, MessageHeads, chunk_columns
from pregao.legacy.messages import MsgType
from pregao.legacy.streams import is_legacy
from pregao.legacy.streams import LegacyStream, stream_of
from pregao.umdf.sequencing import PacketKey


def _heads(block: PacketBlock) -> tuple[ChunkColumns, Int64Array, MessageHeads]:
    """Return the chunks of a block, the first chunk of each datagram, and its message's head."""
    chunks = chunk_columns(block.buffer, block.offset, block.length)
    first = chunks.firsts
    return (
        chunks,
        first,
        known_templates().heads.read(block.buffer, chunks.start[first], chunks.size[first]),
    )


def look(block: PacketBlock, flows: Sequence[str]) -> dict[str, ProtocolEvidence]:
    """Return the evidence of the legacy feed in a block, by flow."""
    found = {flows[flow]: ProtocolEvidence() for flow in np.unique(block.flow).tolist()}
    chunks, first, heads = _heads(block)
    begins = (heads.template >= 0) & (heads.number == chunks.number[first])
    sound = (chunks.fault[chunks.datagram[first]] == 0) & (begins | (chunks.index[first] > 1))
    flow_of = block.flow[chunks.datagram[first]]
    for flow in np.unique(flow_of).tolist():
        own = sound & (flow_of == flow)
        if not (own & begins).any():
            continue  # continuation chunks alone are too weak as evidence
        seen = found[flows[flow]]
        seen.sound += int(own.sum())
        seen.channels[channel_of(flows[flow])] += int(own.sum())
        kinds, counts = np.unique(heads.template[own & begins], return_counts=True)
        seen.kinds.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    return found


def stream_name(kinds: Mapping[int, int]) -> str:
    """Return the stream to which the templates belong."""
    types = known_templates().types
    counts = Counter(types.get(number, MsgType.OTHER) for number in kinds)
    stream = stream_of(counts)
    return UNKNOWN_STREAM if stream is None else stream.value


def keys(block: PacketBlock, flows: Sequence[str]) -> PayloadKeys:
    """Return the keys of a block's datagrams."""
    found = known_templates().heads.keys(block.buffer, block.offset, block.length)
    channels = np.array([known_channel(flow) for flow in flows], np.int16)
    channel = np.where(found.sound, channels[block.flow], np.int16(UNKNOWN))
    sending = found.sending_time_ns
    versions = slot_of(np.where(sending > 0, sending, block.time_ns))
    return PayloadKeys(channel, versions.astype(np.int32), found.number, sending, found.last)


def packet_key(payload: bytes, flow: str) -> tuple[int, PacketKey] | None:
    """Return the channel of a datagram, and the second and number that delimit tasks.

    The second is used instead of the slot: numbers may restart within a slot, and a task that ends
    there would own packets that it never reads.
    """
    data = np.frombuffer(payload + bytes(8), np.uint8)
    chunks = chunk_columns(data, np.zeros(1, np.int64), np.array([len(payload)], np.int32))
    first = chunks.firsts
    if not len(first) or not is_legacy(payload, known_templates().reader) or chunks.index[0] != 1:
        return None
    heads = known_templates().heads.read(data, chunks.start[first], chunks.size[first])
    sending, template = int(heads.sending_time_ns[0]), int(heads.template[0])
    if not sending or template in known_templates().without_number:
        return None
    return channel_of(flow), PacketKey(sending // SECOND, int(chunks.number[0]))


LEGACY = IngestProtocol(
    name="legacy",
    account_prefix="legacy_",
    look=look,
    stream_of=stream_name,
    arbitrated=frozenset({LegacyStream.INCREMENTAL.value}),
    keys=keys,
    packet_key=packet_key,
    decoder=LegacyDecoder,
    tables=message_table_specs,
    table_of=message_table_name,
    timed_versions=True,
    prepare=choose_templates,
)
