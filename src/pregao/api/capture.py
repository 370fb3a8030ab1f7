"""Captures: their content, their messages one by one, and their tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import glob
from typing import TYPE_CHECKING, Any

import numpy as np

from pregao.api.arguments import (
    UTC,
    Path,
    Time,
    listed,
    moment_ns,
    numbers,
    pandas_frame,
    paths,
)
from pregao.api.message import Message, Protocol
from pregao.api.reading.entrypoint import EntryPointReader
from pregao.api.reading.inputs import CaptureInputs, NullProgress, ReadStatistics
from pregao.api.reading.keys import key_form
from pregao.api.reading.selection import (
    MessageSelection,
    instruments,
    known_schemas,
    learn_symbols,
    named_templates,
)
from pregao.arrays import Int64Array
from pregao.capture.layers import Flow
from pregao.entrypoint.captured.messages import NO_MESSAGE
from pregao.errors import UsageError
from pregao.extras import imported, installed
from pregao.notebook import Report
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID, UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import (
    BulkDecoder,
    DecodeReject,
    MessageBatch,
    MessageKind,
    WalkedPackets,
    walk,
)
from pregao.umdf.key_columns import key_columns, key_values
from pregao.umdf.layout import MIN_MESSAGE_SIZE
from pregao.umdf.packets import PacketDecoder, PacketFrame
from pregao.umdf.survey.lines import STREAMS, Destination, streams_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_BLOCK_BYTES = 1 << 20
"""Small, so that messages appear soon and few of them are in memory."""
_MAGIC = re.compile(r"[*?\[]")


@dataclass(slots=True)
class _Part:
    """Selected messages of one protocol in a block of a capture, by kind."""

    protocol: Protocol
    schema_id: int
    walked: WalkedPackets
    kinds: list[MessageKind]
    keys: Callable[[Int64Array], list[Any]]
    """Returns the key columns of some of them."""
    key_values: Callable[[Int64Array], list[list[Any]]]
    """Returns the key columns as plain values."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """Filters as given by the caller; an empty one selects everything."""

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
    """Open captures: files (pcap or pcapng, plain, gzip or zstd), folders, patterns or URIs.

    Binary UMDF, EntryPoint and the legacy feed are detected by content. Files are read only when
    the result is used.

    Args:
        captures: Paths, folders, glob patterns, or URIs such as ``s3://bucket/day.pcap``.
        template: Select templates by name or number, as in `Capture.only`.
        symbol: Select instruments by symbol, from the definitions in the captures.
        security_id: Select instruments by security id.
        channel: Select channels.
        since: Select messages captured at or after this time.
        until: Select messages captured before this time.
        tz: Time zone of times without an offset.
        schema: An SBE schema file to decode all messages with, instead of the bundled ones.

    Returns:
        The captures, with the filters applied.

    Raises:
        UsageError: No capture is named, or a filter is invalid.

    Example:
        >>> capture = pregao.read("day/051_*.pcap", symbol="PETR4")
        >>> capture.table("Trade_53").num_rows > 0
        True
    """
    if not any(captures):
        raise UsageError(
            "No capture is named; pass at least one path, such as pregao.read('day.pcap')."
        )
    named = [name for each in captures for name in paths(each)]
    names = [found for name in named for found in _expanded(name)]
    registry = Registry.from_environment([] if schema is None else [os.fspath(schema)])
    return Capture(CaptureInputs(names).names, registry, _Filter()).only(
        template=template,
        symbol=symbol,
        security_id=security_id,
        channel=channel,
        since=since,
        until=until,
        tz=tz,
    )


def _expanded(name: str) -> list[str]:
    """Return the captures that match a pattern; any other name is returned unchanged."""
    if not _MAGIC.search(name) or os.path.exists(name):  # noqa: PTH110 - it may be no path
        return [name]
    if "://" not in name and not (installed("pyarrow") and installed("deltalake")):
        # A pattern may start anywhere, so that Path.glob cannot be used.
        return sorted(glob(name, recursive=True)) or [name]  # noqa: PTH207
    with imported():
        from pregao.lake.ingest.discovery import find_captures

    return [str(entry.location) for entry in find_captures([name])]


@dataclass(frozen=True)
class Capture:
    """Captures that are read on demand, as often as needed. Created by `pregao.read`."""

    names: Sequence[str]
    """The files."""
    registry: Registry
    _wanted: _Filter
    rejects: Counter[str] = field(default_factory=Counter, compare=False)
    """Messages and packets that the last read could not decode, by reason."""

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
        """Return the same captures with additional filters.

        A filter that is given replaces the earlier one of its kind; others are kept.

        Args:
            template: Templates by name (with or without the number) or number.
            symbol: Symbols, resolved with the definitions in the captures.
            security_id: Security ids.
            channel: Channel numbers.
            since: Earliest capture time, inclusive.
            until: Latest capture time, exclusive.
            tz: Time zone of times without an offset.

        Returns:
            The filtered captures.

        Raises:
            UsageError: A template is unknown, or a time or number is invalid.

        Example:
            >>> trades = capture.only(template="Trade_53", since="2026-05-21 12:00")
            >>> {message.template for message in trades.messages()}
            {'Trade_53'}
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
            named_templates(wanted.templates, self.registry)  # raise for unknown names now
        return replace(self, _wanted=wanted, rejects=Counter())

    def info(self) -> Report:
        """Return a summary of the captures, ignoring filters, as ``pregao info --json`` does.

        Returns:
            The summary, a dictionary that notebooks display as a table.

        Raises:
            CaptureError: A capture is damaged.

        Example:
            >>> capture.info()["channels"]
            [51]
        """
        if self._legacy:
            from pregao.api.reading.legacy import legacy_report

            return Report(legacy_report(self.names, None))
        from pregao.api.reading.report import surveyed

        return Report(surveyed(self.names, self.registry, {}, NullProgress()))

    def messages(self) -> Iterator[Message]:
        """Iterate over the decoded messages, in the order of the captures.

        Messages that cannot be decoded are counted in ``rejects``. A damaged capture is read up to
        the damage; the error is raised after the intact part.

        Returns:
            An iterator over the messages.

        Raises:
            UsageError: The captures are of the legacy feed and filtered by instrument or channel.
            CaptureError: A capture is damaged; raised after the messages before the damage.

        Example:
            >>> message = next(capture.only(template="Trade_53").messages())
            >>> message.md_entry_px == message["mDEntryPx"]
            True
        """
        if self._legacy:
            from pregao.api.reading.legacy import legacy_messages

            wanted = self._wanted
            if wanted.symbols or wanted.security_ids or wanted.channels:
                raise UsageError(
                    "Messages of the legacy feed have entries of many instruments: filter by "
                    "template and time, and then filter the entries in your code."
                )
            since, until = wanted.since_ns, wanted.until_ns
            return legacy_messages(self.names, wanted.templates, since, until, self.rejects)
        return self._messages()

    def batches(self, template: str) -> Iterator[pa.RecordBatch]:
        """Iterate over the messages of a template as Arrow record batches, in bounded memory.

        Args:
            template: Name or number of the template, such as ``Trade_53``.

        Returns:
            An iterator over ``pyarrow.RecordBatch``.

        Raises:
            UsageError: The template is unknown or ambiguous, or the captures are of the legacy
                feed.
            CaptureError: A capture is damaged; raised after the batches before the damage.

        Example:
            >>> all(batch.num_rows for batch in capture.batches("Trade_53"))
            True
        """
        if self._legacy:
            raise UsageError(
                "Tables are available for Binary UMDF and EntryPoint; for the legacy feed use "
                "`pregao decode FILE -o FOLDER`, or pregao.Lake(…).ingest(…)."
            )
        return self._batches(_Rows(template, self.registry))

    def table(self, template: str) -> pa.Table:
        """Return the messages of a template as an Arrow table.

        Its columns are those of the lake's tables: key, times, fields.

        Args:
            template: Name or number of the template, such as ``Trade_53``.

        Returns:
            The messages, a row each.

        Raises:
            UsageError: As in `batches`.
            CaptureError: A capture is damaged.

        Example:
            >>> "md_entry_px" in capture.table("Trade_53").column_names
            True
        """
        batches = list(self.batches(template))
        import pyarrow as pa

        return pa.Table.from_batches(batches, _Rows(template, self.registry).schema)

    def to_polars(self, template: str) -> pl.DataFrame:
        """Return the messages of a template as a Polars DataFrame.

        Args:
            template: Name or number of the template, such as ``Trade_53``.

        Returns:
            The messages, a row each.

        Raises:
            UsageError: As in `batches`.
            CaptureError: A capture is damaged.

        Example:
            >>> capture.to_polars("Trade_53").height == capture.table("Trade_53").num_rows
            True
        """
        with imported():
            import polars
        return polars.DataFrame(self.table(template))

    def to_pandas(self, template: str) -> pd.DataFrame:
        """Return the messages of a template as a pandas DataFrame.

        Args:
            template: Name or number of the template, such as ``Trade_53``.

        Returns:
            The messages, a row each; integers and booleans may be missing (``Int64``).

        Raises:
            UsageError: As in `batches`.
            CaptureError: A capture is damaged.

        Example:
            >>> str(capture.to_pandas("Trade_53")["sending_time_ns"].dtype)
            'Int64'
        """
        return pandas_frame(self.table(template))

    @cached_property
    def _legacy(self) -> bool:
        from pregao.api.reading.legacy import are_legacy

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
            starts, ends = walked.body[rows] - MIN_MESSAGE_SIZE, walked.end[rows]
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
                frame = PacketFrame(0, start, end, length, template_id, kind >> 32, version)
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
                    if isinstance(found, MessageBatch):
                        yield rows.batch(found, part.keys(found.rows))
                    elif isinstance(found, DecodeReject):
                        self.rejects[found.reason] += 1

    def _parts(self, templates: Iterable[str]) -> Iterator[_Part]:
        """Yield the selected messages of the captures, block by block."""
        decoder, sessions = BulkDecoder(self.registry), EntryPointReader(self.registry)
        selection, streams = self._selection(templates), self._streams
        account = ReadStatistics()
        for read in CaptureInputs(self.names).read(account, NullProgress(), _BLOCK_BYTES):
            if len(read.block):
                block = selection.packets(read.block)
                walked = walk(block.buffer, block.offset, block.length)
                numbers = _stream_numbers(read.reader.flows, streams)[block.flow]

                def keys(
                    rows: Int64Array,
                    walked: WalkedPackets = walked,
                    times: Int64Array = block.time_ns,
                    numbers: Any = numbers,
                ) -> list[Any]:
                    return key_columns(walked, rows, times, numbers)

                def values(
                    rows: Int64Array,
                    walked: WalkedPackets = walked,
                    times: Int64Array = block.time_ns,
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
        """The selected instruments; symbols are resolved with all definitions in the captures."""
        numbers = frozenset(self._wanted.security_ids) or None
        if not self._wanted.symbols:
            return numbers
        wanted = {symbol.upper() for symbol in self._wanted.symbols}
        found: dict[str, set[int]] = {}
        decoder = BulkDecoder(self.registry)
        for read in CaptureInputs(self.names).read(ReadStatistics(), NullProgress()):
            block = read.block
            walked = walk(block.buffer, block.offset, block.length)
            learn_symbols(decoder, walked, wanted, found)
        return instruments(wanted, found, numbers, "security_id")

    @cached_property
    def _streams(self) -> dict[str, str]:
        """The stream of each destination, from samples of the captures."""
        return streams_of(self.names, self.registry)


class _Rows:
    """The rows of a template: key, schema version, fields, in the types of the lake's tables."""

    def __init__(self, template: str, registry: Registry) -> None:
        with imported():
            import pyarrow as pa
        from pregao.lake.ingest.schemas import message_fields
        from pregao.umdf.keys import key_field
        from pregao.umdf.tables import TemplateTable

        found = named_templates([template], registry)
        if len(found) > 1:
            raise UsageError(
                f"{template!r} matches several templates; use the full name, such as Trade_53."
            )
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

    def batch(self, found: MessageBatch, keys: list[Any]) -> Any:
        """Return the rows of some messages."""
        import pyarrow as pa

        from pregao.lake.datasource.range_reader import as_declared

        count = len(found.rows)
        version = pa.repeat(pa.scalar(found.version, pa.int32()), count)
        arrays = [*keys, version, *self._table.fit(found.message, found.columns, count)]
        return pa.RecordBatch.from_arrays(
            [as_declared(each, of.type) for each, of in zip(arrays, self.schema, strict=True)],
            schema=self.schema,
        )


def _stream_numbers(flows: Sequence[Flow], streams: dict[str, str]) -> Any:
    """Return the stream number of each flow."""
    values = [stream.value for stream in STREAMS]
    unknown = values.index("unknown")
    found = [streams.get(str(Destination(flow.dst, flow.dst_port))) for flow in flows]
    return np.array([unknown if each is None else values.index(each) for each in found], np.int8)
