"""Decode framed SBE messages of arbitrated payloads into table rows, for protocols that use SBE.

`Payloads` are those of a window to decode, with the key columns of their messages and their
rejects, which are the same for every protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array
from pregao.lake.ingest import _kernels
from pregao.lake.ingest.accounting import WindowRows
from pregao.lake.ingest.window import FlowRole, WindowPackets, all_same, by_day, days_of
from pregao.lake.ingest.writer import order_by_value
from pregao.sbe.value_specs import readings
from pregao.umdf.bulk_decoder import (
    BulkDecoder,
    DecodeReject,
    MessageBatch,
    MessageKind,
    UnknownMessages,
    WalkedPackets,
)
from pregao.umdf.keys import key_type
from pregao.umdf.tables import TemplateTable

NO_EVENT = -1


@dataclass(slots=True)
class RoleNames:
    """Names of roles and captures in tables, by index."""

    roles: list[FlowRole]
    captures: Any
    """Capture IDs, as an Arrow array."""

    # Roles may be added between windows.

    def streams(self, numbers: npt.NDArray[np.int32]) -> Any:
        """Return the streams of roles as a column."""
        return _named_once([role.stream for role in self.roles], numbers)

    def feeds(self, numbers: npt.NDArray[np.int32]) -> Any:
        """Return the feeds of roles as a column."""
        return _named_once([role.feed for role in self.roles], numbers)

    def flows(self, numbers: npt.NDArray[np.int32]) -> Any:
        """Return the flows of roles as a column."""
        return _named_once([role.destination for role in self.roles], numbers)

    def capture_ids(self, numbers: npt.NDArray[np.int32]) -> Any:
        """Return the IDs of captures as a column."""
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self.captures)


def _named_once(names: Sequence[str], numbers: npt.NDArray[np.int32]) -> Any:
    """Return a dictionary column of names without duplicates in the dictionary.

    With a duplicate, Parquet files would store the name of every row in full.
    """
    code_of = {name: code for code, name in enumerate(dict.fromkeys(names))}
    codes = np.array([code_of[name] for name in names], np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes[numbers]), pa.array(list(code_of), pa.string())
    )


@dataclass(slots=True)
class Payloads:
    """The payloads of a window to decode, concatenated in a buffer.

    Those of arbitrated streams come first, by channel and sequence number, without duplicates; then
    all others in capture order.
    """

    buffer: npt.NDArray[np.uint8]
    offset: Int64Array
    length: npt.NDArray[np.int32]
    packets: WindowPackets
    """All packets of the window."""
    chosen: Int64Array
    """Index of each payload in ``packets``."""
    emit: BoolArray
    """Whether the window decodes it; other payloads only show where an event begins."""
    channels: Sequence[int]
    """Number of payloads of each arbitrated channel, in order."""
    names: RoleNames
    result: WindowRows = field(default_factory=WindowRows)
    """Rows and counts."""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def days(self) -> Int64Array:
        """Day of each payload."""
        return days_of(self.packets)[self.chosen]

    def key_columns(
        self,
        rows: Int64Array,
        payload_of: npt.NDArray[np.integer],
        index_of: npt.NDArray[np.integer],
        events: Int64Array | None,
        schema_version: int,
    ) -> list[Any]:
        """Return the columns of `schemas.KEY` of one or more messages.

        ``rows`` are the indexes of the messages in ``payload_of``, ``index_of`` and ``events``.
        """
        packets = self.packets
        count = len(rows)
        index, packet = np.empty((2, count), np.int32)
        number, event, sending, time = np.empty((4, count), np.int64)
        if events is None:
            events = np.full(len(payload_of), NO_EVENT, np.int64)
        _kernels.gather_message_keys(
            rows, payload_of, index_of, events, self.chosen, packets.number,
            packets.sending_time_ns, packets.time_ns, packet, number, index, event, sending, time,
        )  # fmt: skip

        def of_packets(values: npt.NDArray[Any], *, same: bool) -> npt.NDArray[Any]:
            return np.full(count, values[packet[0]], values.dtype) if same else values[packet]

        constant = packets.constant
        role = of_packets(packets.role, same=constant.role)
        capture = of_packets(packets.capture, same=constant.capture)
        difference = pa.nulls(count, pa.int64())
        if not constant.difference or packets.difference_ns[packet[0]] >= 0:
            values = packets.difference_ns[packet]
            difference = null_where(values, values < 0)
        return [
            pa.array(of_packets(packets.channel, same=constant.channel)),
            self.names.streams(role),
            pa.array(of_packets(packets.version, same=constant.version)),
            null_where(number, number == 0),
            pa.array(index),
            null_where(event, event < 0),
            null_where(sending, sending == 0),
            pa.array(time),
            self.names.feeds(role),
            difference,
            self.names.capture_ids(capture),
            pa.repeat(pa.scalar(schema_version, key_type("schema_version")), count),
        ]

    def reject(
        self, payload: int, index_in_packet: int | None, start: int, end: int, reason: str
    ) -> None:
        """Add a reject row with the bytes from ``start`` to ``end`` of the buffer."""
        packets = self.packets
        packet = int(self.chosen[payload])
        role = self.names.roles[int(packets.role[packet])]
        has_header = int(packets.channel[packet]) >= 0
        self.result.sums.reasons[reason] += 1
        row = {
            "capture_id": self.names.captures[int(packets.capture[packet])].as_py(),
            "position": int(packets.position[packet]),
            "capture_time_ns": int(packets.time_ns[packet]),
            "destination": role.destination,
            "channel": int(packets.channel[packet]) if has_header else None,
            "stream": role.stream,
            "sequence_version": int(packets.version[packet]) if has_header else None,
            "sequence_number": int(packets.number[packet]) or None,
            "index_in_packet": index_in_packet,
            "offset": start - int(self.offset[payload]),
            "reason": reason,
            "bytes": self.buffer[start:end].tobytes(),
        }
        day = int(days_of(packets)[packet])
        self.result.rejects.setdefault(day, []).append(row)


def null_where(values: npt.NDArray[Any], null: BoolArray) -> Any:
    """Return values as an Arrow array, null where the mask is set."""
    return pa.array(values, mask=null if null.any() else None)


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
