"""Selection of messages by time, channel, template and instrument, and lookup of the names.

Templates are found by name or number, instruments by the symbols of the definitions in the
captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pregao.capture.blocks import PacketBlock
from pregao.errors import SchemaError, UsageError
from pregao.name_matching import did_you_mean
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings
from pregao.sbe.xml import template
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID, UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, MessageKind, WalkedPackets
from pregao.umdf.layout import CHANNEL_AT, PACKET_HEADER_SIZE
from pregao.umdf.survey.lines import message_of, words


@dataclass(slots=True)
class MessageSelection:
    """The selection; None selects everything."""

    templates: frozenset[tuple[int, int]] | None = None
    """By schema id and template id."""
    security_ids: frozenset[int] | None = None
    channels: frozenset[int] | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def by_packet(self) -> bool:
        """Whether complete packets are excluded."""
        return (self.channels, self.since_ns, self.until_ns) != (None, None, None)

    def packets(self, block: PacketBlock) -> PacketBlock:
        """Return the packets of a block within the time range and on the selected channels."""
        if not self.by_packet:
            return block
        wanted = self._in_time(block)
        if self.channels is not None:
            complete = block.length >= PACKET_HEADER_SIZE
            channels = np.where(complete, block.buffer[block.offset + CHANNEL_AT], 0)
            wanted &= complete & np.isin(channels, list(self.channels))
        return _chosen(block, wanted)

    def session_messages(self, block: PacketBlock) -> PacketBlock:
        """Return the EntryPoint messages within the time range; they have no channel."""
        if not self.by_packet:
            return block
        wanted = np.full(len(block), self.channels is None, np.bool_)
        return _chosen(block, wanted & self._in_time(block))

    def _in_time(self, block: PacketBlock) -> npt.NDArray[np.bool_]:
        wanted = np.ones(len(block), np.bool_)
        if self.since_ns is not None:
            wanted &= block.time_ns >= self.since_ns
        if self.until_ns is not None:
            wanted &= block.time_ns < self.until_ns
        return wanted

    def kinds(
        self, walked: WalkedPackets, template_of: Callable[[MessageKind], MessageTemplate | None]
    ) -> list[MessageKind]:
        """Return the selected messages, by kind."""
        kinds = walked.kinds()
        if self.templates is not None:
            kinds = [each for each in kinds if (each.schema_id, each.template_id) in self.templates]
        if self.security_ids is None:
            return kinds
        wanted = np.array(sorted(self.security_ids), np.int64)
        chosen = []
        for kind in kinds:
            message = template_of(kind)
            reading = None if message is None else security_id(message)
            if reading is not None:
                present, values = words(walked, kind.rows, reading)
                rows = kind.rows[present & np.isin(values, wanted)]
                if len(rows):
                    chosen.append(MessageKind(kind.schema_id, kind.template_id, kind.version, rows))
        return chosen


def _chosen(block: PacketBlock, wanted: npt.NDArray[np.bool_]) -> PacketBlock:
    rows = np.flatnonzero(wanted)
    columns = [getattr(block, each.name)[rows] for each in fields(block)[1:]]
    return PacketBlock(block.buffer, *columns)


def security_id(message: MessageTemplate) -> ValueSpec | None:
    """Return the field of a message with its instrument, or None."""
    for reading in readings(message):
        if reading.name == "securityID" and reading.kind is ValueKind.INTEGER and reading.size == 8:
            return reading
    return None


def limited(kinds: list[MessageKind], after: int, count: int) -> tuple[list[MessageKind], int]:
    """Return the first ``count`` messages after one, and the last of them (-1 if none)."""
    rows = (
        np.sort(np.concatenate([kind.rows for kind in kinds])) if kinds else np.empty(0, np.int64)
    )
    rows = rows[rows > after][:count]
    if not len(rows):
        return [], -1
    last = int(rows[-1])
    chosen = []
    for kind in kinds:
        part = kind.rows[(kind.rows > after) & (kind.rows <= last)]
        if len(part):
            chosen.append(MessageKind(kind.schema_id, kind.template_id, kind.version, part))
    return chosen, last


def learn_symbols(
    decoder: BulkDecoder,
    walked: WalkedPackets,
    wanted: set[str],
    found: dict[str, set[int]],
    known: set[str] | None = None,
) -> None:
    """Add the instruments of the requested symbols, and all known names, from definitions."""
    for kind in walked.kinds():
        message = message_of(decoder.registry, kind.schema_id, kind.template_id, kind.version)
        if message is None or not _defines(message):
            continue
        for outcome in decoder.decode_kind(walked, kind):
            if not isinstance(outcome, MessageBatch):
                continue
            # Definitions repeat in loops: few of them are new.
            for symbol, number in set(_pairs(outcome)):
                if symbol is None:
                    continue
                upper = symbol.upper()
                if known is not None:
                    known.add(upper)
                if upper in wanted:
                    found.setdefault(upper, set()).add(number)


def _pairs(outcome: MessageBatch) -> Iterator[tuple[str | None, int]]:
    """Return the symbols and numbers of defined instruments."""
    columns = outcome.columns
    if isinstance(columns, list):
        return ((values["symbol"], values["securityID"]) for values in columns)
    symbols, numbers = (columns.column(name).to_pylist() for name in ("symbol", "security_id"))
    return zip(symbols, numbers, strict=True)


def _defines(message: MessageTemplate) -> bool:
    names = {each.name for each in message.fields}
    return "symbol" in names and security_id(message) is not None


def instruments(
    wanted: set[str],
    found: dict[str, set[int]],
    numbers: frozenset[int] | None,
    option: str = "--security-id",
    known: Iterable[str] = (),
) -> frozenset[int]:
    """Return the instruments of symbols, and those given by number.

    For an unknown symbol, the error suggests similar ``known`` ones, and ``option``, with which an
    instrument is given by number.
    """
    missing = sorted(wanted - set(found))
    if missing:
        hints = "".join(did_you_mean(name, sorted(known)) for name in missing)
        raise UsageError(
            f"No definition of {', '.join(missing)} is in the input, so its messages cannot be "
            f"identified. Add the capture of the definition stream, or use {option}.{hints}"
        )
    return frozenset(number for each in found.values() for number in each) | (
        numbers or frozenset()
    )


def named_templates(names: Iterable[str], registry: Registry) -> frozenset[tuple[int, int]]:
    """Return the templates with these names (with or without the number) or numbers.

    Each is a pair of schema id and template id.
    """
    schemas = known_schemas(registry)
    found: set[tuple[int, int]] = set()
    for name in names:
        ids = _ids_of(name, schemas)
        if not ids:
            known = [m.name for schema in schemas for m in schema.messages]
            hint = did_you_mean(name, known, 1, 0.4)
            raise UsageError(
                f"There is no template {name!r}.{hint} `pregao schema` lists the templates."
            )
        found |= ids
    return frozenset(found)


def known_schemas(registry: Registry) -> list[Schema]:
    """Return every schema that may decode messages: market data first, newest first."""
    named = registry.named()
    found = list(named)
    for schema_id in (UMDF_SCHEMA_ID, ENTRYPOINT_SCHEMA_ID):
        if all(schema.id != schema_id for schema in named):
            versions = reversed(registry.versions(schema_id))
            found += [registry.get(schema_id, version) for version in versions]
    return found


def _ids_of(name: str, schemas: Sequence[Schema]) -> set[tuple[int, int]]:
    found = set()
    for schema in schemas:
        try:
            found.add((schema.id, template(schema, name).id))
        except SchemaError:
            continue
    return found
