"""EntryPoint for the ingest: messages in TCP streams, their keys and their decoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from pregao.capture.blocks import PacketBlock
from pregao.entrypoint.captured.messages import FrameBlocks, business_headers, flow_text
from pregao.lake.ingest.entrypoint.messages import EntryPointDecoder
from pregao.lake.ingest.entrypoint.tables import message_table_name, message_table_specs
from pregao.lake.ingest.protocol import IngestProtocol, PayloadKeys, ProtocolEvidence
from pregao.umdf.sequencing import PacketKey

STREAM: Final = "session"
"""Stream of every flow: both directions of sessions."""


def look(block: PacketBlock, flows: Sequence[str]) -> dict[str, ProtocolEvidence]:
    """Return the evidence of EntryPoint messages in a block, by flow."""
    headers = business_headers(block)
    found: dict[str, ProtocolEvidence] = {}
    for flow in np.unique(block.flow).tolist():
        own = headers.template_id[(block.flow == flow) & headers.sound]
        found[flows[flow]] = ProtocolEvidence(len(own), Counter(own.tolist()))
    return found


def stream_of(_kinds: Mapping[int, int]) -> str:
    """Return the only stream."""
    return STREAM


def keys(block: PacketBlock, _flows: Sequence[str]) -> PayloadKeys:
    """Return the keys of a block's messages; session messages have no number or sending time."""
    headers = business_headers(block)
    return PayloadKeys(
        headers.channels(),
        np.zeros(len(block), np.int32),
        headers.number,
        headers.sending_time_ns,
    )


def packet_key(_payload: bytes, _flow: str) -> tuple[int, PacketKey] | None:
    """Return None: TCP streams are not split."""
    return None


ENTRYPOINT = IngestProtocol(
    name="entrypoint",
    account_prefix="ep_",
    look=look,
    stream_of=stream_of,
    arbitrated=frozenset(),
    keys=keys,
    packet_key=packet_key,
    decoder=EntryPointDecoder,
    tables=message_table_specs,
    table_of=message_table_name,
    read=FrameBlocks,
    transport="tcp",
    flow_name=flow_text,
)
