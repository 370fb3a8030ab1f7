"""Decode framed SBE messages of arbitrated payloads into table rows, for protocols that use SBE."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.lake.ingest import _kernels
from pregao.lake.ingest.files import order_by_value
from pregao.lake.ingest.payloads import Payloads
from pregao.lake.ingest.window import all_same, by_day
from pregao.sbe.value_specs import readings
from pregao.umdf.bulk_decoder import BulkDecoder, DecodeReject, MessageBatch, MessageKind, UnknownMessages, WalkedPackets
from pregao.umdf.tables import TemplateTable


class FramedMessageDecoder(ABC):
    """Decodes walked messages kind by kind, and counts their outcomes."""

    def __init__(self, decoder: BulkDecoder) -> None:
        self._decoder = decoder

    @abstractmethod
    def put(
        self,
        payloads: Payloads,
        payload_of: npt.NDArray[np.int32],
        batch: MessageBatch,
        keys: list[Any],
        day: int,
    ) -> None:
        """Add the rows of decoded messages to their table.

        ``keys`` are their key columns; ``payload_of`` has the payload of every walked message.
        """

    def put_messages(
        self,
        payloads: Payloads,
        walked: WalkedPackets,
        kinds: list[MessageKind],
        events: Int64Array | None,
    ) -> None:
        """Decode the messages of the payloads to emit."""
        emit, result, days = payloads.emit, payloads.result, payloads.days
        all_emitted, one_day = emit.all(), all_same(days)
        for kind in kinds:
            rows = kind.rows
            if not all_emitted:
                rows = rows[emit[walked.packet[rows]]]
            if not len(rows):
                continue
            result.sums.walked_messages += len(rows)
            parts = [(int(days[0]), rows)]
            if not one_day:
                parts = by_day(days[walked.packet[rows]], rows)
            for day, part in parts:
                of_day = MessageKind(kind.schema_id, kind.template_id, kind.version, part)
                self._put_kind(payloads, walked, of_day, events, day)

    def _put_kind(
        self,
        payloads: Payloads,
        walked: WalkedPackets,
        kind: MessageKind,
        events: Int64Array | None,
        day: int,
    ) -> None:
        """Decode messages of one kind and day, instrument by instrument."""
        result = payloads.result
        kind.rows = self._by_instrument(walked, kind)
        for item in self._decoder.decode_kind(walked, kind):
            match item:
                case MessageBatch():
                    keys = payloads.key_columns(
                        item.rows, walked.packet, walked.index_in_packet, events, item.version
                    )
                    self.put(payloads, walked.packet, item, keys, day)
                    result.sums.messages[item.message.name] += len(item.rows)
                    result.sums.versions.add(item.version)
                    for column, count in item.withheld.items():
                        result.sums.withheld[f"{item.message.name}.{column}"] += count
                case UnknownMessages():
                    name = f"{item.template_id} (version {item.version})"
                    result.sums.unknown[name] += len(item.rows)
                case DecodeReject():
                    result.sums.rejected_messages += 1
                    payloads.reject(
                        item.packet, item.index_in_packet, item.start, item.end, item.reason
                    )

    def _by_instrument(self, walked: WalkedPackets, kind: MessageKind) -> Int64Array:
        """Return the rows sorted by security ID, then in stream order."""
        message = self._decoder.template(kind)
        fields = () if message is None else readings(message)
        offset = next((reading.offset for reading in fields if reading.name == "securityID"), None)
        if offset is None or len(kind.rows) < 2:
            return kind.rows
        values = np.empty(len(kind.rows), np.int64)
        complete = _kernels.gather_field(
            walked.buffer, kind.rows, walked.body, walked.block_length, offset, values
        )
        return kind.rows[order_by_value(values)] if complete else kind.rows


def message_rows(
    table: TemplateTable, batch: MessageBatch, keys: list[Any], key_names: list[str]
) -> Any:
    """Return decoded messages as rows of a table: key columns, then the table's own."""
    own = table.fit(batch.message, batch.columns, len(batch.rows))
    names = key_names + [column.column for column in table.columns]
    return pa.Table.from_arrays(keys + own, names=names)
