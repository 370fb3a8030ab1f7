"""The messages of settled payloads to rows of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.lake.ingest.accounts import WindowRows
from pregao.lake.ingest.files import order_by_value
from pregao.lake.ingest.payloads import Payloads
from pregao.lake.ingest.protocol import Walk
from pregao.lake.ingest.schemas import KEY
from pregao.lake.ingest.umdf import _kernels
from pregao.lake.ingest.umdf.instruments import INSTRUMENTS, latest
from pregao.lake.ingest.umdf.tables import (
    bundled_message_tables,
    message_table_name,
    message_tables,
)
from pregao.lake.ingest.window import Numbers, all_same, by_day
from pregao.sbe.values import readings
from pregao.schemas import Registry
from pregao.umdf.bulk import (
    Batch,
    BulkDecoder,
    Headers,
    MessageKind,
    Reject,
    Unknown,
    Walked,
    Walker,
)
from pregao.umdf.event_columns import EventColumns
from pregao.umdf.tables import TemplateTable
from pregao.umdf.templates import SECURITY_DEFINITIONS


class MessageDecoder:
    """Decodes windows of packets; it keeps decoders and scratch memory between them."""

    def __init__(self, schema_files: Sequence[str] = ()) -> None:
        registry = Registry.bundled()
        if schema_files:
            registry = Registry.from_environment(schema_files)
        plain = registry is Registry.bundled()
        self._tables = bundled_message_tables() if plain else message_tables(registry)
        self._decoder = BulkDecoder(registry)
        self._walker = Walker()
        self._events = EventColumns(self._decoder)

    def decode(self, payloads: Payloads) -> Walk:
        """Walk the packets and put the rows of their messages into their tables."""
        packets, chosen = payloads.packets, payloads.chosen
        headers = Headers(
            packets.channel[chosen],
            packets.version[chosen],
            packets.number[chosen],
            packets.sending_time_ns[chosen],
        )
        walked = self._walker.walk(payloads.buffer, payloads.offset, payloads.length, headers)
        kinds = walked.kinds()
        events = self._events.number(walked, payloads.channels)
        self._messages(payloads, walked, kinds, events)
        for reject in self._decoder.faults(walked):
            if payloads.emit[reject.packet]:
                payloads.reject(reject.packet, None, reject.start, reject.end, reject.reason)
        return Walk(walked.message_count, walked.fault != 0)

    def _messages(
        self, payloads: Payloads, walked: Walked, kinds: list[MessageKind], events: Numbers
    ) -> None:
        emit, result, days = payloads.emit, payloads.result, payloads.days
        roles = payloads.packets.role[payloads.chosen]
        one_role, one_day, all_emitted = all_same(roles), all_same(days), emit.all()
        for kind in kinds:
            rows = kind.rows
            if one_role:
                result.evidence[int(roles[0]), kind.template_id] += len(rows)
            else:
                tally = np.bincount(roles[walked.packet[rows]])
                for role in np.flatnonzero(tally).tolist():
                    result.evidence[role, kind.template_id] += int(tally[role])
            if not all_emitted:
                rows = rows[emit[walked.packet[rows]]]
            if not len(rows):
                continue
            result.sums.walked_messages += len(rows)
            parts = [(int(days[0]), rows)]
            if not one_day:
                parts = by_day(days[walked.packet[rows]], rows)
            for day, part in parts:
                chosen_kind = MessageKind(kind.schema_id, kind.template_id, kind.version, part)
                self._kind(payloads, walked, chosen_kind, events, day)

    def _kind(
        self, payloads: Payloads, walked: Walked, kind: MessageKind, events: Numbers, day: int
    ) -> None:
        """Decode messages of one kind and day, instrument by instrument."""
        result = payloads.result
        kind.rows = self._by_instrument(walked, kind)
        for item in self._decoder.decode_kind(walked, kind):
            match item:
                case Batch():
                    keys = payloads.key_columns(
                        item.rows, walked.packet, walked.index_in_packet, events, item.version
                    )
                    self._put(result, self._tables.templates[item.message.id], item, keys, day)
                    result.sums.messages[item.message.name] += len(item.rows)
                    result.sums.versions.add(item.version)
                case Unknown():
                    name = f"{item.template_id} (version {item.version})"
                    result.sums.unknown[name] += len(item.rows)
                case Reject():
                    result.sums.rejected_messages += 1
                    payloads.reject(
                        item.packet, item.index_in_packet, item.start, item.end, item.reason
                    )

    def _put(
        self, result: WindowRows, table: TemplateTable, batch: Batch, keys: list[Any], day: int
    ) -> None:
        """Add messages to their table; definitions also to the instruments."""
        name = message_table_name(batch.message.name)
        rows = _message_rows(table, batch, keys)
        result.put(name, day, rows)
        if batch.message.id in SECURITY_DEFINITIONS:
            rows = _message_rows(self._tables.instruments, batch, keys)
            result.put(INSTRUMENTS, day, latest(rows))

    def _by_instrument(self, walked: Walked, kind: MessageKind) -> Numbers:
        """The rows by security id, each instrument's in the order of the stream."""
        message = self._decoder.template(kind)
        fields = () if message is None else readings(message)
        at = next((reading.offset for reading in fields if reading.name == "securityID"), None)
        if at is None or len(kind.rows) < 2:
            return kind.rows
        values = np.empty(len(kind.rows), np.int64)
        whole = _kernels.gather_field(
            walked.buffer, kind.rows, walked.body, walked.block_length, at, values
        )
        return kind.rows[order_by_value(values)] if whole else kind.rows


def _message_rows(table: TemplateTable, batch: Batch, keys: list[Any]) -> Any:
    own = table.fit(batch.message, batch.columns, len(batch.rows))
    names = [entry.name for entry in KEY] + [column.column for column in table.columns]
    return pa.Table.from_arrays(keys + own, names=names)
