"""Binary UMDF for the ingest: detection, keys and decoder of its packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from pregao.capture.blocks import PacketBlock
from pregao.errors import DecodeError
from pregao.lake.ingest.protocol import IngestProtocol, PayloadKeys, ProtocolEvidence
from pregao.lake.ingest.umdf.instruments import INSTRUMENTS, latest
from pregao.lake.ingest.umdf.messages import UmdfDecoder
from pregao.lake.ingest.umdf.tables import message_table_name, message_table_specs
from pregao.umdf.bulk_decoder import read_headers, walk
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream, StreamEvidence
from pregao.umdf.templates import SEQUENCE


def look(block: PacketBlock, flows: Sequence[str]) -> dict[str, ProtocolEvidence]:
    """Return the evidence of Binary UMDF in a block, by flow."""
    found: dict[str, ProtocolEvidence] = {}
    walked = walk(block.buffer, block.offset, block.length)
    sound = walked.fault == 0
    for flow in np.unique(block.flow).tolist():
        channels = walked.channel[sound & (block.flow == flow)]
        seen = found.setdefault(flows[flow], ProtocolEvidence())
        seen.sound += len(channels)
        for channel, count in zip(*np.unique(channels, return_counts=True), strict=True):
            seen.channels[int(channel)] += int(count)
    for kind in walked.kinds():
        of_kind = block.flow[walked.packet[kind.rows]]
        for flow, count in zip(*np.unique(of_kind, return_counts=True), strict=True):
            found[flows[flow]].kinds[kind.template_id] += int(count)
    return found


def stream_of(kinds: Mapping[int, int]) -> str:
    """Return the stream to which the templates belong."""
    evidence = StreamEvidence()
    evidence.templates = Counter(kinds)
    return evidence.decide().value


def keys(block: PacketBlock, _flows: Sequence[str]) -> PayloadKeys:
    """Return the keys of a block's packets, from their headers."""
    return PayloadKeys(*read_headers(block.buffer, block.offset, block.length))


def packet_key(payload: bytes, _flow: str) -> tuple[int, PacketKey] | None:
    """Return the channel and packet key of a packet; of a heartbeat, the key it announces."""
    try:
        packet = _DECODER.decode(payload)
    except DecodeError:
        return None
    header = packet.header
    if header.sequenced:
        return header.channel, PacketKey(header.sequence_version, header.sequence_number)
    for message in packet.messages:
        if message.message.id == SEQUENCE:
            return header.channel, PacketKey(header.sequence_version, message["nextSeqNo"])
    return None


_DECODER = PacketDecoder()

UMDF = IngestProtocol(
    name="umdf",
    account_prefix="",
    look=look,
    stream_of=stream_of,
    arbitrated=frozenset({Stream.INCREMENTAL.value}),
    keys=keys,
    packet_key=packet_key,
    decoder=UmdfDecoder,
    tables=message_table_specs,
    table_of=message_table_name,
    latest={INSTRUMENTS: latest},
)
