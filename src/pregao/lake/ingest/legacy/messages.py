"""Decode messages of arbitrated datagrams of the legacy feed into rows of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.fast.columns import REASONS, FastColumnDecoder, FastMessageColumns
from pregao.fast.model import Template
from pregao.lake.ingest.files import order_by_value
from pregao.lake.ingest.legacy.tables import message_table_name
from pregao.lake.ingest.legacy.templates import known_templates
from pregao.lake.ingest.payloads import Payloads
from pregao.lake.ingest.protocol import WalkResult
from pregao.lake.ingest.schemas import KEY
from pregao.lake.ingest.window import by_day
from pregao.legacy.bulk import (
    FAULTS,
    ChunkColumns,
    WholeMessages,
    chunk_columns,
    whole_messages,
)
from pregao.legacy.messages import message_type
from pregao.legacy.tables import LegacyRows, bundled_tables, rows_of

_ORDINALS = 16
"""Low bits of a row's index in its datagram, which number the entry; the rest is the message."""


class LegacyDecoder:
    """Decodes windows of datagrams of the legacy feed."""

    def __init__(self, _schema_files: Sequence[str] = ()) -> None:
        templates = known_templates().templates
        self._columns = FastColumnDecoder(templates, reset_each_message=True, reuse=True)
        self._tables = bundled_tables()

    def decode(self, payloads: Payloads) -> WalkResult:
        """Add the datagrams' messages to their tables and count them."""
        chunks = chunk_columns(payloads.buffer, payloads.offset, payloads.length)
        for row in np.flatnonzero((chunks.fault != 0) & payloads.emit).tolist():
            start = int(payloads.offset[row])
            end = start + int(payloads.length[row])
            payloads.reject(row, None, start, end, FAULTS[int(chunks.fault[row])])
        reassembled = list(self._joined(payloads, chunks))
        messages = whole_messages(payloads.buffer, chunks, reassembled)
        owners = chunks.datagram[messages.chunk]
        count = np.bincount(owners, minlength=len(payloads)).astype(np.int32)
        columns = self._columns.decode(messages.buffer, messages.start, messages.end)
        misaligned = columns.end != messages.end
        self._refuse(
            payloads, chunks, messages, np.flatnonzero((columns.status != 0) | misaligned), columns
        )
        for template in columns.templates:
            if columns.count(template):
                self._template(payloads, chunks, messages, columns, template, misaligned)
        return WalkResult(count, chunks.fault != 0)

    def _joined(self, payloads: Payloads, chunks: ChunkColumns) -> Iterator[tuple[int, bytes]]:
        """Yield reassembled messages of several chunks, each chunk from either feed."""
        packets = payloads.packets
        pending: dict[tuple[int, str, int, int], dict[int, int]] = {}
        for row in np.flatnonzero(chunks.count > 1).tolist():
            packet = int(payloads.chosen[chunks.datagram[row]])
            stream = payloads.names.roles[int(packets.role[packet])].stream
            key = (
                int(packets.channel[packet]), stream, int(chunks.number[row]),
                int(chunks.count[row]),
            )  # fmt: skip
            pieces = pending.setdefault(key, {})
            pieces.setdefault(int(chunks.index[row]), row)
            if len(pieces) == key[-1]:
                rows = [pieces[index] for index in range(1, key[-1] + 1)]
                del pending[key]
                yield (
                    rows[0],
                    b"".join(
                        payloads.buffer[
                            chunks.start[each] : chunks.start[each] + chunks.size[each]
                        ].tobytes()
                        for each in rows
                    ),
                )
        for key, pieces in pending.items():
            first = pieces.get(1)
            if first is not None and payloads.emit[chunks.datagram[first]]:
                self._reject(payloads, chunks, first, f"only {len(pieces)} of {key[-1]} chunks")
                payloads.result.sums.walked_messages += 1
                payloads.result.sums.rejected_messages += 1

    def _reject(self, payloads: Payloads, chunks: ChunkColumns, chunk: int, reason: str) -> None:
        start = int(chunks.start[chunk])
        datagram = int(chunks.datagram[chunk])
        end = start + int(chunks.size[chunk])
        payloads.reject(datagram, int(chunks.ordinal[chunk]), start, end, reason)

    def _refuse(
        self,
        payloads: Payloads,
        chunks: ChunkColumns,
        messages: WholeMessages,
        rows: Int64Array,
        found: FastMessageColumns,
    ) -> None:
        sums = payloads.result.sums
        for row in rows.tolist():
            chunk = int(messages.chunk[row])
            if payloads.emit[chunks.datagram[chunk]]:
                code = int(found.status[row])
                reason = REASONS.get(code, "bytes after the end of the message")
                self._reject(payloads, chunks, chunk, reason)
                sums.walked_messages += 1
                sums.rejected_messages += 1

    def _template(
        self,
        payloads: Payloads,
        chunks: ChunkColumns,
        messages: WholeMessages,
        found: FastMessageColumns,
        template: Template,
        wrong: npt.NDArray[np.bool_],
    ) -> None:
        """Add the rows of a template's messages, by day."""
        own = found.messages(template)
        chunk = messages.chunk[own]
        datagram = chunks.datagram[chunk]
        table = self._tables.get(message_type(template))
        if table is None:  # a message type that is not in the bundled templates
            count = int(payloads.emit[datagram].sum())
            payloads.result.sums.unknown[template.name] += count
            payloads.result.sums.walked_messages += count
            return
        rows = rows_of(table, template, found)
        numbers = found.rows(template).numbers("MsgSeqNum")
        emitted = payloads.emit[datagram]
        good = ~wrong[own]
        sums = payloads.result.sums
        for reason, bad in (
            ("tag 34 is not the number in the header", good & (numbers != chunks.number[chunk])),
            ("a number is out of its column's range", _marked(len(own), rows.unfit) & good),
        ):
            for at in np.flatnonzero(bad & good & emitted).tolist():
                self._reject(payloads, chunks, int(chunk[at]), reason)
                sums.walked_messages += 1
                sums.rejected_messages += 1
            good &= ~bad
        roles = payloads.packets.role[payloads.chosen[datagram]]
        for role, seen in enumerate(np.bincount(roles).tolist()):
            if seen:
                payloads.result.evidence[role, template.id or 0] += seen
        kept = np.flatnonzero((good & emitted)[rows.message])
        name = message_table_name(table.name)
        sums.walked_messages += len(kept)
        sums.messages[table.name] += len(kept)
        sums.versions.add(template.id or 0)
        if not len(kept):
            return
        owner = datagram[rows.message]
        filled = rows.filled()  # most columns have no values and are omitted from the files
        index = chunks.ordinal[chunk][rows.message] << _ORDINALS | rows.entry
        for day, part in by_day(payloads.days[owner[kept]], kept):
            own_rows = self._by_instrument(rows, table.names, part)
            keys = payloads.key_columns(
                own_rows, owner.astype(np.int32), index.astype(np.int32), None, template.id or 0
            )
            names = [*(entry.name for entry in KEY), *(table.names[at] for at in filled)]
            columns = keys + rows.some(filled, own_rows)
            payloads.result.put(name, day, pa.Table.from_arrays(columns, names=names))

    def _by_instrument(self, rows: LegacyRows, names: list[str], part: Int64Array) -> Int64Array:
        """Return the rows sorted by security ID, then in stream order."""
        if "security_id" not in names or len(part) < 2:
            return part
        column = rows.column(names.index("security_id"), part)
        return part[order_by_value(column.fill_null(0).to_numpy())]


def _marked(count: int, which: Int64Array) -> npt.NDArray[np.bool_]:
    marked = np.zeros(count, np.bool_)
    marked[which] = True
    return marked
