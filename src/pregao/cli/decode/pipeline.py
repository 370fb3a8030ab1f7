"""Decode captures to outputs, after an optional first pass that learns their contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pregao.api.reading.entrypoint import EntryPointReader
from pregao.api.reading.inputs import STANDARD_INPUT, CaptureInputs, ReadStatistics, numbered
from pregao.api.reading.selection import (
    MessageSelection,
    instruments,
    known_schemas,
    learn_symbols,
    limited,
    security_id,
)
from pregao.capture.blocks import PacketBlock
from pregao.capture.layers import Flow
from pregao.cli.console import ReadingProgress
from pregao.cli.decode.outputs import MessageOutput, Versions
from pregao.extras import installed
from pregao.name_matching import folded
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import (
    BulkDecoder,
    MessageBatch,
    MessageKind,
    UnknownMessages,
    WalkedPackets,
    walk,
)
from pregao.umdf.key_columns import key_columns, key_values
from pregao.umdf.survey.lines import STREAMS, LineNumbers, LineTable
from pregao.umdf.survey.rejects import RejectCounts, decode_kinds, walk_faults

_FILE_BLOCK = 1 << 24
"""Block size of runs that write files: large blocks make rare templates cheaper."""
_LIVE_BLOCK = 1 << 16
_SHOWN_BLOCK = 1 << 20
"""Block sizes of runs that print messages while reading, from a pipe and from a file."""


@dataclass(slots=True)
class CaptureContents:
    """Contents of the captures, found in the first pass."""

    lines: LineTable
    versions: Versions
    """Templates of the selected messages, with the schemas that decode them."""


@dataclass(slots=True)
class DecodeAccount:
    """Counts of a decode run."""

    reading: ReadStatistics = field(default_factory=ReadStatistics)
    rejects: RejectCounts = field(default_factory=RejectCounts)
    unknown: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Messages of unknown templates, by template ID and version."""
    withheld: Counter[str] = field(default_factory=Counter)
    """Values that do not fit their column and were replaced by null, by template and column."""
    packets: int = 0
    """UDP packets."""
    sessions: bool = False
    """Whether EntryPoint messages were found."""
    messages: int = 0
    templates: Counter[str] = field(default_factory=Counter)

    @property
    def rejected(self) -> int:
        """Number of packets, messages and files that could not be decoded."""
        return self.rejects.total + self.reading.lost + len(self.reading.damaged)


def learn(
    captures: CaptureInputs,
    selection: MessageSelection,
    symbols: Sequence[str],
    lines: LineTable,
    registry: Registry,
    progress: ReadingProgress,
) -> CaptureContents:
    """Read the captures once, to find the streams of lines, the templates and the symbols.

    Adds the instruments of the symbols to the selection.
    """
    decoder, sessions = BulkDecoder(registry), EntryPointReader(registry)
    wanted = {folded(symbol) for symbol in symbols}
    found: dict[str, set[int]] = {}
    known: set[str] = set()
    kinds: set[tuple[int, int, int]] = set()
    session_kinds: set[tuple[int, int, int]] = set()
    for read, numbers in numbered(captures.read(ReadStatistics(), progress), lines):
        if read.messages is not None and len(read.messages):
            chosen = selection.session_messages(read.messages)
            session_block = sessions.block(chosen, read.reader.tcp_flows).walked
            session_kinds.update(map(_kind_key, session_block.kinds()))
        block = read.block
        walked = walk(block.buffer, block.offset, block.length)
        lines.add(numbers.of(block.flow), walked)
        if wanted:
            learn_symbols(decoder, walked, wanted, found, known)
        if selection.by_packet:
            chosen = selection.packets(block)
            walked = walk(chosen.buffer, chosen.offset, chosen.length)
            kinds.update(map(_kind_key, walked.kinds()))
    if not selection.by_packet:
        kinds = {(seen.schema_id, seen.template_id, seen.version) for seen in lines.messages()}
    if wanted:
        selection.security_ids = instruments(wanted, found, selection.security_ids, known=known)
    versions = _versions(kinds, selection, decoder)
    return CaptureContents(lines, versions | _versions(session_kinds, selection, sessions.decoder))


def _kind_key(kind: MessageKind) -> tuple[int, int, int]:
    return kind.schema_id, kind.template_id, kind.version


def _versions(
    kinds: set[tuple[int, int, int]], selection: MessageSelection, decoder: BulkDecoder
) -> Versions:
    found: Versions = {}
    for schema_id, template_id, version in sorted(kinds):
        message = decoder.template(MessageKind(schema_id, template_id, version, _NO_ROWS))
        if message is None:
            continue
        template = (schema_id, template_id)
        if selection.templates is not None and template not in selection.templates:
            continue
        if selection.security_ids is not None and security_id(message) is None:
            continue
        schema = decoder.schema(schema_id, version)
        pairs = found.setdefault(template, [])
        if all(known is not schema for known, _ in pairs):
            pairs.append((schema, message))
    return found


_NO_ROWS: npt.NDArray[np.int64] = np.empty(0, np.int64)


class DecodePipeline:
    """Decoder of captures into an output."""

    def __init__(
        self,
        registry: Registry,
        selection: MessageSelection,
        lines: LineTable,
        *,
        learned: bool,
        limit: int | None,
        rows: bool = False,
    ) -> None:
        """``learned`` states that a first pass has seen all lines, which are not counted again.

        ``rows`` selects message by message, without Arrow.
        """
        self._decoder = BulkDecoder(registry, rows=rows)
        self._sessions = EntryPointReader(registry, rows=rows)
        self._selection = selection
        self._lines = lines
        self._learned = learned
        self._left = limit
        self._streams: npt.NDArray[np.int8] | None = None
        self._columns = installed("pyarrow") and not rows
        self._keys = key_columns if self._columns else key_values
        self.account = DecodeAccount()

    def run(
        self, captures: CaptureInputs, output: MessageOutput, progress: ReadingProgress
    ) -> DecodeAccount:
        """Decode the captures, to their end or to the limit."""
        account = self.account
        size = _FILE_BLOCK
        if not self._learned:
            size = _LIVE_BLOCK if STANDARD_INPUT in captures.names else _SHOWN_BLOCK
        with closing(captures.read(account.reading, progress, size)) as blocks:
            for read, numbers in numbered(blocks, self._lines):
                if len(read.block):
                    self.block(read.name, read.block, numbers, output)
                if self._left != 0 and read.messages is not None and len(read.messages):
                    self.messages(read.name, read.messages, read.reader.tcp_flows, output)
                if self._left == 0:
                    break
        return account

    def block(
        self, name: str, block: PacketBlock, numbers: LineNumbers, output: MessageOutput
    ) -> None:
        """Decode one block of packets."""
        chosen = self._selection.packets(block)
        walked = walk(chosen.buffer, chosen.offset, chosen.length)
        lines = numbers.of(chosen.flow)
        if not self._learned:
            # Packets that are not selected also help to detect the stream of a line.
            all_packets = walked
            if chosen is not block:
                all_packets = walk(block.buffer, block.offset, block.length)
            self._lines.add(numbers.of(block.flow), all_packets)
            self._streams = None
        self.account.packets += len(chosen)
        streams = self._stream_numbers()[lines]
        walk_faults(self._decoder, walked, name, chosen, self.account.rejects)
        for batch in self._batches(self._decoder, walked, name, chosen):
            output.write(batch, self._keys(walked, batch.rows, chosen.time_ns, streams))
        output.end_block()

    def messages(
        self, name: str, block: PacketBlock, flows: Sequence[Flow], output: MessageOutput
    ) -> None:
        """Decode a block of EntryPoint messages."""
        chosen = self._selection.session_messages(block)
        found = self._sessions.block(chosen, flows)
        found.count_stretches(name, self.account.rejects)
        self.account.sessions = True
        for batch in self._batches(self._sessions.decoder, found.walked, name, chosen):
            keys = found.keys if self._columns else found.key_values
            output.write(batch, keys(batch.rows))
        output.end_block()

    def _batches(
        self, decoder: BulkDecoder, walked: WalkedPackets, name: str, block: PacketBlock
    ) -> Iterator[MessageBatch]:
        """Yield the selected messages, up to the limit."""
        kinds = self._selection.kinds(walked, decoder.template)
        after = -1
        while kinds and self._left != 0:
            part = kinds
            if self._left is not None:
                part, after = limited(kinds, after, self._left)
            if not part:
                break
            yield from self._decoded(decoder, walked, part, name, block)
            if self._left is None:
                break

    def _decoded(
        self,
        decoder: BulkDecoder,
        walked: WalkedPackets,
        kinds: list[MessageKind],
        name: str,
        block: PacketBlock,
    ) -> Iterator[MessageBatch]:
        account = self.account
        for outcome in decode_kinds(decoder, walked, kinds, name, block, account.rejects):
            if isinstance(outcome, UnknownMessages):
                account.unknown[outcome.template_id, outcome.version] += len(outcome.rows)
                continue
            count = len(outcome.rows)
            account.messages += count
            account.templates[outcome.message.name] += count
            for column, values in outcome.withheld.items():
                account.withheld[f"{outcome.message.name}.{column}"] += values
            if self._left is not None:
                self._left -= count
            yield outcome

    def _stream_numbers(self) -> npt.NDArray[np.int8]:
        """Return the stream number of each line."""
        if self._streams is None or len(self._streams) < len(self._lines.destinations):
            streams = self._lines.streams(self._decoder.registry)
            self._streams = np.array([STREAMS.index(stream) for stream in streams], np.int8)
        return self._streams


def expected_versions(
    selection: MessageSelection, learned: CaptureContents, registry: Registry
) -> Versions:
    """Return the templates to write: those found, or the selected one if none was found."""
    if learned.versions or selection.templates is None or len(selection.templates) != 1:
        return learned.versions
    (wanted,) = selection.templates
    for schema in known_schemas(registry):
        if schema.id == wanted[0] and wanted[1] in schema.by_id:
            return {wanted: [(schema, schema.by_id[wanted[1]])]}
    return {}
