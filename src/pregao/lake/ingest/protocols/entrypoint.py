"""EntryPoint for the ingest: messages in TCP streams, their keys, tables and decoder.

Each template has a message table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.capture.blocks import PacketBlock
from pregao.entrypoint.captured.frame_columns import templates_of
from pregao.entrypoint.captured.messages import (
    NO_MESSAGE,
    FrameBlocks,
    business_headers,
    flow_text,
    other_direction_text,
)
from pregao.entrypoint.captured.sender_detection import SENDERS, UNKNOWN, SenderDetector
from pregao.lake.ingest.protocol import (
    IngestProtocol,
    PayloadKeys,
    ProtocolEvidence,
    WalkResult,
    sbe_files,
)
from pregao.lake.ingest.sbe_rows import FramedMessageDecoder, Payloads, message_rows
from pregao.lake.ingest.schemas import (
    KEY,
    bounded_spec,
    column_of,
    message_schema,
    template_versions,
)
from pregao.lake.storage.commit_unit import TableSpec
from pregao.sbe.model import snake_case
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, PacketHeaders, Walker
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.tables import TemplateTable

PREFIX: Final = "ep_"

ADDED: Final = [
    column_of("flow", pa.string(), "Address and port of sender and receiver, with > between."),
    column_of(
        "sender",
        pa.string(),
        "client or exchange; null until a message on the connection shows which.",
    ),
]
"""Columns after the key."""

_KEY_NAMES = [entry.name for entry in (*KEY, *ADDED)]

STREAM: Final = "session"
"""Stream of every flow: both directions of sessions."""


def message_table_name(message_name: str) -> str:
    """Return the table of a template: ``ExecutionReport_New`` → ``ep_execution_report_new``."""
    return f"{PREFIX}{snake_case(message_name)}"


def message_tables(registry: Registry) -> Mapping[int, TemplateTable]:
    """Return the tables of all templates, over every version in the registry."""
    versions = template_versions(registry, ENTRYPOINT_SCHEMA_ID)
    return {template: TemplateTable(pairs) for template, pairs in versions.items()}


@cache
def bundled_message_tables() -> Mapping[int, TemplateTable]:
    """Return the tables of the bundled schemas."""
    return message_tables(Registry.bundled())


def message_table_specs() -> list[TableSpec]:
    """Return the specs of the tables of all templates, over every bundled version."""
    return [
        bounded_spec(
            message_table_name(table.name),
            message_schema(table, ADDED),
            f"Messages of EntryPoint's template {table.name}.",
        )
        for table in bundled_message_tables().values()
    ]


class EntryPointDecoder(FramedMessageDecoder):
    """Decodes windows of messages; keeps decoders and the sender of each flow between windows."""

    def __init__(self, schema_files: Sequence[str] = ()) -> None:
        registry = Registry.bundled()
        if own := sbe_files(schema_files):
            registry = Registry.from_environment(own)
        plain = registry is Registry.bundled()
        self._tables = bundled_message_tables() if plain else message_tables(registry)
        super().__init__(BulkDecoder(registry, ENTRYPOINT_SCHEMA_ID))
        self._walker = Walker(header_size=0)
        self._senders: SenderDetector[str] = SenderDetector([], other_direction_text)
        self._sender = np.empty(0, np.int8)

    def decode(self, payloads: Payloads) -> WalkResult:
        """Add the messages to their tables; payloads that are not messages become rejects."""
        packets, chosen = payloads.packets, payloads.chosen
        headers = PacketHeaders(
            packets.channel[chosen],
            packets.version[chosen],
            packets.number[chosen],
            packets.sending_time_ns[chosen],
        )
        walked = self._walker.walk(payloads.buffer, payloads.offset, payloads.length, headers)
        templates = templates_of(payloads.buffer, payloads.offset, payloads.length)
        self._senders.flows = [role.destination for role in payloads.names.roles]
        self._sender = self._senders.of_messages(packets.role[chosen], templates)
        self.put_messages(payloads, walked, walked.kinds(), None)
        for row in np.flatnonzero((walked.fault != 0) & payloads.emit).tolist():
            start = int(payloads.offset[row])
            payloads.reject(row, None, start, start + int(payloads.length[row]), NO_MESSAGE)
        return WalkResult(walked.message_count, walked.fault != 0)

    def put(
        self,
        payloads: Payloads,
        payload_of: npt.NDArray[np.int32],
        batch: MessageBatch,
        keys: list[Any],
        day: int,
    ) -> None:
        """Add messages to their table, with their sender."""
        payload = payload_of[batch.rows]
        role = payloads.packets.role[payloads.chosen[payload]]
        sender = self._sender[payload]
        unknown = sender == UNKNOWN
        added = [
            payloads.names.flows(role),
            pa.DictionaryArray.from_arrays(
                pa.array(sender, mask=unknown if unknown.any() else None), pa.array(SENDERS)
            ),
        ]
        table = self._tables[batch.message.id]
        rows = message_rows(table, batch, [*keys, *added], _KEY_NAMES)
        payloads.result.put(message_table_name(batch.message.name), day, rows)


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
