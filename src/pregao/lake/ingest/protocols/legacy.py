"""The legacy feed for the ingest: detection, keys, tables and decoder of its datagrams.

A datagram's number is that of its first message. Heartbeats and resets get none, so that they are
never duplicates: a heartbeat has the number of the next message, and after a reset numbers repeat.

The feed has no sequence versions; ten-minute slots of the sending time, equal on feeds A and B,
stand in for them (`slot_of`). Numbers continue from slot to slot until the exchange restarts at 1:
each week (PUMA), each day (MEGABOLSA), or by a SequenceReset at any time (002 §5.3.7, §15.7).

The FAST templates are the bundled ones or those of a user's file; the tables are derived from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.capture.blocks import PacketBlock
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.fast.columns import REASONS, FastColumnDecoder, FastMessageColumns
from pregao.fast.model import Template, Templates
from pregao.fast.xml import load_templates
from pregao.lake.ingest.protocol import (
    UNKNOWN_STREAM,
    IngestProtocol,
    PayloadKeys,
    ProtocolEvidence,
    WalkResult,
    fast_files,
)
from pregao.lake.ingest.protocols.legacy_channels import UNKNOWN, channel_of, known_channel
from pregao.lake.ingest.sbe_rows import Payloads
from pregao.lake.ingest.schemas import DATE_FIELD, KEY, bounded_spec, column_of
from pregao.lake.ingest.sequence_ranges import slot_of
from pregao.lake.ingest.window import by_day
from pregao.lake.ingest.writer import order_by_value
from pregao.lake.storage.commit_unit import DATE, TableSpec
from pregao.legacy.bulk import (
    FAULTS,
    UNNUMBERED,
    ChunkColumns,
    HeadReader,
    MessageHeads,
    WholeMessages,
    chunk_columns,
    whole_messages,
)
from pregao.legacy.messages import MessageReader, MsgType, message_type
from pregao.legacy.streams import LegacyStream, is_legacy, stream_of
from pregao.legacy.tables import LegacyRows, LegacyTable, bundled_tables, rows_of
from pregao.sbe.arrow import widened
from pregao.schemas.fast_templates import bundled_entries, bundled_tags, bundled_templates, renamed
from pregao.umdf.sequencing import PacketKey

PREFIX = "legacy_"

_user_templates: dict[str, TemplateSet] = {}
"""Templates of the user's file in this process; empty without one."""

_ORDINALS = 16
"""Low bits of a row's index in its datagram, which number the entry; the rest is the message."""


# --- Message tables ---

_IF_NULL = {
    "LanguageCode": "Portuguese",
    "MDStreamID": "E, the electronic market,",
    "OpenCloseSettlFlag": "0 for opening, closing and settlement prices",
    "PriceBandType": "0, the oscillation tunnel,",
    "PriceLimitType": "0, prices,",
    "PriceType": "2, per unit,",
}
"""Meaning of fields that are absent (002 §10)."""


def message_table_name(message: str) -> str:
    """Return the table of a message."""
    return f"{PREFIX}{message}"


def message_table_specs() -> list[TableSpec]:
    """Return the specs of the tables of all messages."""
    return [_spec(table) for table in bundled_tables().values()]


def _spec(table: LegacyTable) -> TableSpec:
    tags = {name: tag for tag, names in bundled_tags().items() for name in names}
    tags |= {name: tag for tag, name in bundled_entries().items()}
    reserved = {field.name for field in KEY} | {DATE}
    fields = []
    for name, field, kind in table.columns:
        assert name not in reserved, f"the column {name} of {table.name} is a key column"
        absent = _IF_NULL.get(field)
        meaning = f"{field} (tag {tags[field]}){'' if absent is None else f'; {absent} if null'}."
        fields.append(column_of(name, widened(kind), meaning))
    schema = pa.schema([*KEY, *fields, DATE_FIELD])
    what = table.name.replace("_", " ")
    return bounded_spec(
        message_table_name(table.name), schema, f"Messages of the legacy feed: {what}."
    )


# --- Templates ---


@dataclass(frozen=True)
class TemplateSet:
    """Templates, with what is needed of them for every datagram."""

    templates: Templates
    types: dict[int, MsgType]
    heads: HeadReader
    reader: MessageReader

    def of(self, *kinds: MsgType) -> list[int]:
        """Return the IDs of the templates of message types."""
        return [number for number, kind in self.types.items() if kind in kinds]

    @property
    def without_number(self) -> list[int]:
        """IDs of templates whose messages have no number that identifies duplicates."""
        return self.of(*UNNUMBERED)

    @staticmethod
    def from_sources(templates: Templates) -> TemplateSet:
        """Build from templates."""
        types = {number: message_type(each) for number, each in templates.by_id.items()}
        return TemplateSet(templates, types, HeadReader(templates), MessageReader(templates))


@cache
def _bundled() -> TemplateSet:
    return TemplateSet.from_sources(bundled_templates())


def choose_templates(schema_files: Sequence[str]) -> None:
    """Use the FAST templates among a user's schema files, or the bundled ones if there are none."""
    named = fast_files(schema_files)
    if len(named) > 1:
        raise UsageError(f"Only one file of FAST templates is supported, got {', '.join(named)}.")
    for name in named:
        if name not in _user_templates:
            found = TemplateSet.from_sources(renamed(load_templates(name)))
            _user_templates.clear()
            _user_templates[name] = found
    if not named:
        _user_templates.clear()


def known_templates() -> TemplateSet:
    """Return the templates in use."""
    return next(iter(_user_templates.values()), None) or _bundled()


# --- Decoder ---


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


def _heads(block: PacketBlock) -> tuple[ChunkColumns, Int64Array, MessageHeads]:
    """Return the chunks of a block, the first chunk of each datagram, and its message's head."""
    chunks = chunk_columns(block.buffer, block.offset, block.length)
    first = chunks.firsts
    return (
        chunks,
        first,
        known_templates().heads.read(block.buffer, chunks.start[first], chunks.size[first]),
    )


# --- Protocol ---


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
    there would own packets that it never reads. It does read all packets of its last second.
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
