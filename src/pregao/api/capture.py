"""Captures for programs: what is in them, their messages one by one, their tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import glob
from typing import Any

import numpy as np

from pregao.api.input_captures import Captures, ReadAccount, Silent
from pregao.api.message_keys import key_form
from pregao.api.message_selection import MessageSelection
from pregao.api.messages import Message, Protocol
from pregao.api.session_messages import Sessions
from pregao.api.symbols import instruments, learn_symbols
from pregao.api.templates import known_schemas, named_templates
from pregao.api.values import UTC, Path, Time, listed, moment_ns, numbers, paths
from pregao.capture import Flow
from pregao.entrypoint.captured import NO_MESSAGE
from pregao.errors import UsageError
from pregao.extras import imported, installed, require
from pregao.schemas import ENTRYPOINT_SCHEMA_ID, UMDF_SCHEMA_ID, Registry
from pregao.umdf.bulk import Batch, BulkDecoder, MessageKind, Numbers, Reject, Walked, walk
from pregao.umdf.key_columns import key_columns, key_values
from pregao.umdf.layout import SMALLEST_MESSAGE
from pregao.umdf.packets import Frame, PacketDecoder
from pregao.umdf.survey import STREAMS, Destination, streams_of

_BLOCK_BYTES = 1 << 20
"""Messages should appear soon, and few of them be in memory."""
_MAGIC = re.compile(r"[*?\[]")


@dataclass(slots=True)
class _Part:
    """Messages of one protocol in a block of a capture: those that are wanted, by kind."""

    protocol: Protocol
    schema_id: int
    walked: Walked
    kinds: list[MessageKind]
    keys: Callable[[Numbers], list[Any]]
    """The key columns of some of them."""
    key_values: Callable[[Numbers], list[list[Any]]]
    """The same as plain values."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """What is wanted, as it was asked for; nothing given means everything."""

    templates: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    security_ids: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None


def read(
    *captures: Path | Iterable[Path],
    template: str | Iterable[str] | None = None,
    symbol: str | Iterable[str] | None = None,
    security_id: int | Iterable[int] | None = None,
    channel: int | Iterable[int] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    tz: str = UTC,
    schema: str | os.PathLike[str] | None = None,
) -> Capture:
    """Captures to be read: files (pcap or pcapng, plain, gzip or zstd), folders, patterns, s3://….

    Binary UMDF, EntryPoint and the legacy feed are told by their content. The filters are those of
    `Capture.only`. ``schema`` names an SBE schema file to read all messages with.
    """
    if not any(captures):
        raise UsageError("Name a capture to read, such as pregao.read('day.pcap').")
    named = [name for each in captures for name in paths(each)]
    names = [found for name in named for found in _expanded(name)]
    registry = Registry.from_environment([] if schema is None else [os.fspath(schema)])
    return Capture(Captures(names).names, registry, _Filter()).only(
        template=template,
        symbol=symbol,
        security_id=security_id,
        channel=channel,
        since=since,
        until=until,
        tz=tz,
    )


def _expanded(name: str) -> list[str]:
    """The captures that a pattern means; any other name is left as it is."""
    if not _MAGIC.search(name) or os.path.exists(name):  # noqa: PTH110 - it may be no path
        return [name]
    if "://" not in name and not (installed("pyarrow") and installed("deltalake")):
        # A pattern may begin anywhere, so that no Path can look for it.
        return sorted(glob(name, recursive=True)) or [name]  # noqa: PTH207
    with imported():
        from pregao.lake.ingest import find_captures

    return [str(entry.location) for entry in find_captures([name])]


@dataclass(frozen=True)
class Capture:
    """Captures that are read when they are asked for something, as often as that is."""

    names: Sequence[str]
    """The files."""
    registry: Registry
    _wanted: _Filter
    rejects: Counter[str] = field(default_factory=Counter, compare=False)
    """Messages and packets that the last reading could not decode, by the reason."""

    def __repr__(self) -> str:
        more = f", and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"Capture({self.names[0]!r}{more})"

    def only(
        self,
        *,
        template: str | Iterable[str] | None = None,
        symbol: str | Iterable[str] | None = None,
        security_id: int | Iterable[int] | None = None,
        channel: int | Iterable[int] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: str = UTC,
    ) -> Capture:
        """The same captures, of which only some messages are wanted.

        By template (name or number), symbol (as definitions in the captures tell), number of the
        instrument, channel, and time of capture: from ``since`` on and before ``until``.
        """
        before = self._wanted
        wanted = _Filter(
            tuple(map(str, listed(template))) or before.templates,
            listed(symbol) or before.symbols,
            numbers(security_id, "security_id") or before.security_ids,
            numbers(channel, "channel") or before.channels,
            before.since_ns if since is None else moment_ns(since, tz),
            before.until_ns if until is None else moment_ns(until, tz),
        )
        if wanted.templates and not self._legacy:
            named_templates(wanted.templates, self.registry)  # a mistake shows at once
        return replace(self, _wanted=wanted, rejects=Counter())

    def info(self) -> dict[str, Any]:
        """What the captures hold, filters aside: what ``pregao info --json`` writes."""
        if self._legacy:
            from pregao.api.legacy_report import legacy_report

            return legacy_report(self.names, None)
        from pregao.api.capture_report import surveyed

        return surveyed(self.names, self.registry, {}, Silent())

    def messages(self) -> Iterator[Message]:
        """The messages, decoded one by one, in the order of the captures.

        Messages that cannot be decoded are counted in ``rejects``. A damaged capture is read up to
        the damage, and the error comes behind what is sound.
        """
        if self._legacy:
            from pregao.api.legacy_messages import legacy_messages

            wanted = self._wanted
            if wanted.symbols or wanted.security_ids or wanted.channels:
                raise UsageError(
                    "Messages of the legacy feed hold entries of many instruments: filter them by "
                    "template and time, and the entries yourself."
                )
            since, until = wanted.since_ns, wanted.until_ns
            return legacy_messages(self.names, wanted.templates, since, until, self.rejects)
        return self._messages()

    def batches(self, template: str) -> Iterator[Any]:
        """The messages of a template as Arrow record batches, in bounded memory."""
        if self._legacy:
            raise UsageError(
                "Tables are made of Binary UMDF and EntryPoint; for the legacy feed use "
                "`pregao decode FILE -o FOLDER`, or pregao.Lake(…).ingest(…)."
            )
        return self._batches(_Rows(template, self.registry))

    def table(self, template: str) -> Any:
        """The messages of a template, such as ``Trade_53``, as an Arrow table.

        Its columns are those of the lake's tables: the key, the times, the fields.
        """
        batches = list(self.batches(template))
        import pyarrow as pa

        return pa.Table.from_batches(batches, _Rows(template, self.registry).schema)

    def to_polars(self, template: str) -> Any:
        """The messages of a template as a DataFrame of Polars."""
        with imported():
            import polars
        return polars.from_arrow(self.table(template))

    def to_pandas(self, template: str) -> Any:
        """The messages of a template as a DataFrame of pandas."""
        require("pandas")  # Arrow imports it
        return self.table(template).to_pandas()

    @cached_property
    def _legacy(self) -> bool:
        from pregao.api.legacy_captures import are_legacy

        return are_legacy(self.names)

    def _messages(self) -> Iterator[Message]:
        decoders = {
            Protocol.UMDF: PacketDecoder(self.registry),
            Protocol.ENTRYPOINT: PacketDecoder(self.registry, ENTRYPOINT_SCHEMA_ID),
        }
        self.rejects.clear()
        for part in self._parts(self._wanted.templates):
            if not part.kinds:
                continue
            walked, decoder = part.walked, decoders[part.protocol]
            rows = np.sort(np.concatenate([kind.rows for kind in part.kinds]))
            names = key_form(part.schema_id).names
            keys = zip(*part.key_values(rows), strict=True)
            data = walked.buffer.tobytes()
            starts, ends = walked.body[rows] - SMALLEST_MESSAGE, walked.end[rows]
            heads = zip(
                starts.tolist(),
                ends.tolist(),
                walked.block_length[rows].tolist(),
                walked.kind[rows].tolist(),
                keys,
                strict=True,
            )
            for start, end, length, kind, key in heads:
                template_id, version = kind >> 16 & 0xFFFF, kind & 0xFFFF
                frame = Frame(0, start, end, length, template_id, kind >> 32, version)
                found = decoder.outcome(data, frame)
                if found.reason:
                    self.rejects[found.reason] += 1
                elif found.decoded is not None:
                    layout = found.decoded.message
                    yield Message(
                        part.protocol,
                        layout.name,
                        template_id,
                        version,
                        found.decoded.values,
                        **dict(zip(names, key, strict=True)),
                        layout=layout,
                    )

    def _batches(self, rows: _Rows) -> Iterator[Any]:
        decoders = {
            Protocol.UMDF: BulkDecoder(self.registry),
            Protocol.ENTRYPOINT: BulkDecoder(self.registry, ENTRYPOINT_SCHEMA_ID),
        }
        self.rejects.clear()
        for part in self._parts([rows.name]):
            for kind in part.kinds:
                for found in decoders[part.protocol].decode_kind(part.walked, kind):
                    if isinstance(found, Batch):
                        yield rows.batch(found, part.keys(found.rows))
                    elif isinstance(found, Reject):
                        self.rejects[found.reason] += 1

    def _parts(self, templates: Iterable[str]) -> Iterator[_Part]:
        """The captures, block by block."""
        decoder, sessions = BulkDecoder(self.registry), Sessions(self.registry)
        selection, streams = self._selection(templates), self._streams
        account = ReadAccount()
        for read in Captures(self.names).read(account, Silent(), _BLOCK_BYTES):
            if len(read.block):
                block = selection.packets(read.block)
                walked = walk(block.buffer, block.offset, block.length)
                numbers = _stream_numbers(read.reader.flows, streams)[block.flow]

                def keys(
                    rows: Numbers,
                    walked: Walked = walked,
                    times: Numbers = block.time_ns,
                    numbers: Any = numbers,
                ) -> list[Any]:
                    return key_columns(walked, rows, times, numbers)

                def values(
                    rows: Numbers,
                    walked: Walked = walked,
                    times: Numbers = block.time_ns,
                    numbers: Any = numbers,
                ) -> list[list[Any]]:
                    return key_values(walked, rows, times, numbers)

                self.rejects.update(fault.reason for fault in decoder.faults(walked))
                kinds = selection.kinds(walked, decoder.template)
                yield _Part(Protocol.UMDF, UMDF_SCHEMA_ID, walked, kinds, keys, values)
            if read.messages is not None and len(read.messages):
                chosen = selection.session_messages(read.messages)
                found = sessions.block(chosen, read.reader.tcp_flows)
                if broken := int(np.count_nonzero(found.walked.fault)):
                    self.rejects[NO_MESSAGE] += broken
                kinds = selection.kinds(found.walked, sessions.decoder.template)
                yield _Part(
                    Protocol.ENTRYPOINT, ENTRYPOINT_SCHEMA_ID, found.walked, kinds, found.keys,
                    found.key_values,
                )  # fmt: skip
        if account.damaged:
            raise account.damaged[0]

    def _selection(self, templates: Iterable[str]) -> MessageSelection:
        wanted, named = self._wanted, list(templates)
        return MessageSelection(
            templates=named_templates(named, self.registry) if named else None,
            security_ids=self._security_ids,
            channels=frozenset(wanted.channels) or None,
            since_ns=wanted.since_ns,
            until_ns=wanted.until_ns,
        )

    @cached_property
    def _security_ids(self) -> frozenset[int] | None:
        """The instruments that are wanted; their symbols are looked up in all definitions."""
        numbers = frozenset(self._wanted.security_ids) or None
        if not self._wanted.symbols:
            return numbers
        wanted = {symbol.upper() for symbol in self._wanted.symbols}
        found: dict[str, set[int]] = {}
        decoder = BulkDecoder(self.registry)
        for read in Captures(self.names).read(ReadAccount(), Silent()):
            block = read.block
            walked = walk(block.buffer, block.offset, block.length)
            learn_symbols(decoder, walked, wanted, found)
        return instruments(wanted, found, numbers, "security_id")

    @cached_property
    def _streams(self) -> dict[str, str]:
        """What each destination carries, from looks into the captures."""
        return streams_of(self.names, self.registry)


class _Rows:
    """The rows of a template: key, schema version, fields, in the types of the lake's tables."""

    def __init__(self, template: str, registry: Registry) -> None:
        with imported():
            import pyarrow as pa
        from pregao.lake.ingest import message_fields
        from pregao.umdf.keys import key_field
        from pregao.umdf.tables import TemplateTable

        found = named_templates([template], registry)
        if len(found) > 1:
            raise UsageError(f"{template!r} names several templates: use the whole name.")
        ((schema_id, template_id),) = found
        schemas = [each for each in known_schemas(registry) if each.id == schema_id]
        table = TemplateTable(
            [(each, each.by_id[template_id]) for each in schemas if template_id in each.by_id]
        )
        keys = [
            pa.field(each.name, pa.string() if pa.types.is_dictionary(each.type) else each.type)
            for each in key_form(schema_id).schema
        ]
        fields = [*keys, key_field("schema_version"), *message_fields(table.columns)]
        self.name = table.name
        self.schema = pa.schema(fields).remove_metadata()
        self._table = table

    def batch(self, found: Batch, keys: list[Any]) -> Any:
        """The rows of some messages."""
        import pyarrow as pa

        from pregao.lake.source.rows import as_declared

        count = len(found.rows)
        version = pa.repeat(pa.scalar(found.version, pa.int32()), count)
        arrays = [*keys, version, *self._table.fit(found.message, found.columns, count)]
        return pa.RecordBatch.from_arrays(
            [as_declared(each, of.type) for each, of in zip(arrays, self.schema, strict=True)],
            schema=self.schema,
        )


def _stream_numbers(flows: Sequence[Flow], streams: dict[str, str]) -> Any:
    """The number of each flow's stream."""
    values = [stream.value for stream in STREAMS]
    unknown = values.index("unknown")
    found = [streams.get(str(Destination(flow.dst, flow.dst_port))) for flow in flows]
    return np.array([unknown if each is None else values.index(each) for each in found], np.int8)
