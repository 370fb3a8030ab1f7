"""Binary UMDF for the ingest: detection, keys, tables and decoder of its packets.

Each template has a message table. The table of instruments has one row per instrument and day, with
the latest definition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pregao.capture.blocks import PacketBlock
from pregao.errors import DecodeError
from pregao.lake.ingest.protocol import (
    IngestProtocol,
    PayloadKeys,
    ProtocolEvidence,
    WalkResult,
    sbe_files,
)
from pregao.lake.ingest.sbe_rows import FramedMessageDecoder, Payloads, message_rows
from pregao.lake.ingest.schemas import KEY, bounded_spec, message_schema, template_versions
from pregao.lake.ingest.window import all_same
from pregao.lake.storage.commit_unit import DATE, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.sbe.model import snake_case
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import (
    BulkDecoder,
    MessageBatch,
    MessageKind,
    PacketHeaders,
    WalkedPackets,
    Walker,
    read_headers,
    walk,
)
from pregao.umdf.event_columns import EventColumns
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream, StreamEvidence
from pregao.umdf.tables import TemplateTable
from pregao.umdf.templates import (
    FORWARD_TRADE,
    SECURITY_DEFINITIONS,
    SEQUENCE,
    TRADE,
    TRADE_BUST,
)

INSTRUMENTS = "instruments"
_INSTRUMENT_ORDER = (
    "index_in_packet",
    "sequence_number",
    "capture_time_ns",
    "security_id",
    "channel",
)

_VERSIONED_NAME = re.compile(r"(.+)_v(\d+)")

PREFIX = "umdf_"

_KEY_NAMES = [entry.name for entry in KEY]

_DECODER = PacketDecoder()


# --- Table of instruments ---


def latest(rows: Any) -> Any:
    """Return the row captured last of each channel and instrument, sorted by these."""
    if not rows.num_rows:
        return rows
    columns = [rows.column(name).fill_null(0).to_numpy() for name in _INSTRUMENT_ORDER]
    order = np.lexsort(tuple(columns))
    channel, security = columns[4][order], columns[3][order]
    last = np.append((channel[1:] != channel[:-1]) | (security[1:] != security[:-1]), True)
    return rows.take(pa.array(order[last]))


def instruments_without(
    lake: LakeStore,
    definitions: Iterable[str],
    day: date,
    channels: Collection[int],
    captures: Collection[str],
) -> Any:
    """Return the instruments of channels of a day, from all captures except the given ones.

    ``definitions`` are the tables of the messages that define instruments.
    """
    declared = lake.schema(INSTRUMENTS).remove_metadata()
    schema = pa.schema([field for field in declared if field.name != DATE])
    found = schema.empty_table()
    condition = (pc.field(DATE) == day) & pc.field("channel").isin(sorted(channels))
    condition &= ~pc.field("capture_id").isin(sorted(captures))
    existing = set(lake.table_names())
    for table in (name for name in definitions if name in existing):
        rows = lake.delta(table).to_pyarrow_dataset()
        for batch in rows.to_batches(filter=condition):
            if batch.num_rows:
                own = _as_instruments(pa.Table.from_batches([batch]), schema)
                found = latest(
                    pa.concat_tables([found, own], promote_options="default").combine_chunks()
                )
    return found


def _as_instruments(rows: Any, schema: Any) -> Any:
    """Convert rows of a definition table to the columns of ``instruments``."""
    columns = []
    for field in schema:
        old = _VERSIONED_NAME.fullmatch(field.name)
        values = None
        if field.name in rows.column_names:
            values = _fitted(rows[field.name].combine_chunks(), field.type)
        elif old and old.group(1) in rows.column_names:
            # A field that had another type in this version has a separate column.
            values = _fitted(rows[old.group(1)].combine_chunks(), field.type)
            if values is not None:
                own = pc.equal(rows["schema_version"].combine_chunks(), int(old.group(2)))
                values = pc.if_else(own, values, pa.scalar(None, field.type))
        columns.append(pa.nulls(rows.num_rows, field.type) if values is None else values)
    return pa.Table.from_arrays(columns, schema=schema)


def _fitted(values: Any, kind: Any) -> Any:
    """Convert values to a type that only adds struct members; return None if it does not fit."""
    if values.type == kind:
        return values
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        inner = _fitted(values.values, kind.value_type)
        mask = values.is_null() if values.null_count else None
        if inner is None:
            return None
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=mask)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        indexes = [values.type.get_field_index(member.name) for member in kind]
        members = [
            pa.nulls(len(values), member.type)
            if index < 0
            else _fitted(values.field(index), member.type)
            for index, member in zip(indexes, kind, strict=True)
        ]
        if any(member is None for member in members):
            return None
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    return None


# --- Message tables ---


def message_table_name(message_name: str) -> str:
    """Return the table of a template: ``Order_MBO_50`` → ``umdf_order_mbo_50``."""
    return f"{PREFIX}{snake_case(message_name)}"


@dataclass(frozen=True, slots=True)
class MessageTables:
    """Tables of a registry's UMDF templates, and the table of instruments."""

    templates: Mapping[int, TemplateTable]
    instruments: TemplateTable
    """Definitions of all templates that define instruments."""


def message_tables(registry: Registry) -> MessageTables:
    """Return the tables of all UMDF templates, over every version in the registry."""
    versions = template_versions(registry, UMDF_SCHEMA_ID)
    definitions = [
        pair for template in sorted(SECURITY_DEFINITIONS) for pair in versions.get(template, ())
    ]
    return MessageTables(
        {template: TemplateTable(pairs) for template, pairs in versions.items()},
        TemplateTable(definitions),
    )


OF_TRADES: Final = (TRADE, FORWARD_TRADE, TRADE_BUST)
"""Templates about single trades. They state the trading day of the trade, which may be before that
on which they are sent: their tables have bounds of it."""
TRADE_DATE: Final = "trade_date"


@cache
def bundled_message_tables() -> MessageTables:
    """Return the tables of the bundled schemas."""
    return message_tables(Registry.bundled())


def message_table_specs() -> list[TableSpec]:
    """Return the specs of `instruments` and all template tables, over every bundled version."""
    tables = bundled_message_tables()
    schema = message_schema(tables.instruments)
    meaning = "An instrument of a day: its latest definition."
    specs = [bounded_spec(INSTRUMENTS, schema, meaning)]
    for template, table in tables.templates.items():
        schema = message_schema(table)
        meaning = f"Messages of the template {table.name}."
        name = message_table_name(table.name)
        also = (TRADE_DATE,) if template in OF_TRADES else ()
        specs.append(bounded_spec(name, schema, meaning, also))
    return specs


# --- Decoder ---


class UmdfDecoder(FramedMessageDecoder):
    """Decodes windows of packets; keeps decoders and scratch memory between windows."""

    def __init__(self, schema_files: Sequence[str] = ()) -> None:
        registry = Registry.bundled()
        if own := sbe_files(schema_files):
            registry = Registry.from_environment(own, known_names=True)
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


# --- Protocol ---


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
