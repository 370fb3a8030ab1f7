"""Decode messages of arbitrated packets into rows of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.lake.ingest.framed_messages import FramedMessageDecoder, message_rows
from pregao.lake.ingest.payloads import Payloads
from pregao.lake.ingest.protocol import WalkResult
from pregao.lake.ingest.schema_files import sbe_files
from pregao.lake.ingest.schemas import KEY
from pregao.lake.ingest.umdf.instruments import INSTRUMENTS, latest
from pregao.lake.ingest.umdf.tables import (
    bundled_message_tables,
    message_table_name,
    message_tables,
)
from pregao.lake.ingest.window import all_same
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, MessageKind, PacketHeaders, WalkedPackets, Walker
from pregao.umdf.event_columns import EventColumns
from pregao.umdf.templates import SECURITY_DEFINITIONS

_KEY_NAMES = [entry.name for entry in KEY]


class UmdfDecoder(FramedMessageDecoder):
    """Decodes windows of packets; keeps decoders and scratch memory between windows."""

    def __init__(self, schema_files: Sequence[str] = ()) -> None:
        registry = Registry.bundled()
        if own := sbe_files(schema_files):
            registry = Registry.from_environment(own)
        plain = registry is Registry.bundled()
        self._tables = bundled_message_tables() if plain else message_tables(registry)
        super().__init__(BulkDecoder(registry))
        self._walker = Walker()
        self._events = EventColumns(self._decoder)

    def decode(self, payloads: Payloads) -> WalkResult:
        """Walk the packets and add their messages to their tables."""
        packets, chosen = payloads.packets, payloads.chosen
        headers = PacketHeaders(
            packets.channel[chosen],
            packets.version[chosen],
            packets.number[chosen],
            packets.sending_time_ns[chosen],
        )
        walked = self._walker.walk(payloads.buffer, payloads.offset, payloads.length, headers)
        kinds = walked.kinds()
        events = self._events.number(walked, payloads.channels)
        _count_evidence(payloads, walked, kinds)
        self.put_messages(payloads, walked, kinds, events)
        for reject in self._decoder.faults(walked):
            if payloads.emit[reject.packet]:
                payloads.reject(reject.packet, None, reject.start, reject.end, reject.reason)
        return WalkResult(walked.message_count, walked.fault != 0)

    def put(
        self,
        payloads: Payloads,
        payload_of: npt.NDArray[np.int32],  # noqa: ARG002 - events need no payload
        batch: MessageBatch,
        keys: list[Any],
        day: int,
    ) -> None:
        """Add messages to their table, and definitions to ``instruments`` too."""
        table = self._tables.templates[batch.message.id]
        rows = message_rows(table, batch, keys, _KEY_NAMES)
        payloads.result.put(message_table_name(batch.message.name), day, rows)
        if batch.message.id in SECURITY_DEFINITIONS:
            rows = message_rows(self._tables.instruments, batch, keys, _KEY_NAMES)
            payloads.result.put(INSTRUMENTS, day, latest(rows))


def _count_evidence(payloads: Payloads, walked: WalkedPackets, kinds: list[MessageKind]) -> None:
    """Count the messages of each kind by role, from which a flow's stream is detected."""
    evidence = payloads.result.evidence
    roles = payloads.packets.role[payloads.chosen]
    one_role = all_same(roles)
    for kind in kinds:
        if one_role:
            evidence[int(roles[0]), kind.template_id] += len(kind.rows)
            continue
        tally = np.bincount(roles[walked.packet[kind.rows]])
        for role in np.flatnonzero(tally).tolist():
            evidence[role, kind.template_id] += int(tally[role])
