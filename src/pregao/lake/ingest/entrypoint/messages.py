"""Decode the messages of EntryPoint streams into rows of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.entrypoint.captured.messages import NO_MESSAGE, other_direction_text
from pregao.entrypoint.captured.frame_columns import templates_of
from pregao.entrypoint.captured.sender_detection import SENDERS, UNKNOWN, SenderDetector
from pregao.lake.ingest.entrypoint.tables import (
    ADDED,
    bundled_message_tables,
    message_table_name,
    message_tables,
)
from pregao.lake.ingest.framed_messages import FramedMessageDecoder, message_rows
from pregao.lake.ingest.payloads import Payloads
from pregao.lake.ingest.protocol import WalkResult
from pregao.lake.ingest.schema_files import sbe_files
from pregao.lake.ingest.schemas import KEY
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, PacketHeaders, Walker

_KEY_NAMES = [entry.name for entry in (*KEY, *ADDED)]


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
