"""``pregao decode`` of the legacy feed into a folder: one table per message type, in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

from pregao.api.reading.inputs import CaptureInputs
from pregao.api.reading.legacy import (
    LegacyReadResult,
    LegacyReadStatistics,
    is_dump,
)
from pregao.arrays import Int64Array
from pregao.capture.block_reader import read_blocks
from pregao.errors import CaptureError, UsageError
from pregao.fast.columns import REASONS, FastColumnDecoder
from pregao.fast.model import Template, Templates
from pregao.legacy.bulk import (
    FAULTS,
    ChunkColumns,
    WholeMessages,
    chunk_columns,
    whole_messages,
)
from pregao.legacy.messages import MsgType, message_type
from pregao.legacy.reassembly import Assembler, Chunk
from pregao.legacy.tables import LegacyTable, rows_of, tables_of
from pregao.safe_io.csv_cells import safe_table
from pregao.safe_io.output_files import NewFiles
from pregao.umdf.survey.lines import Destination

KEY = pa.schema(
    [
        ("capture_time_ns", pa.int64()),
        ("flow", pa.string()),
        ("sequence_number", pa.int64()),
        ("index_in_message", pa.int64()),
        ("template_id", pa.int64()),
    ]
)
"""Key columns, which precede the columns of the message."""


@dataclass(slots=True)
class _Block:
    """Datagrams as flat arrays."""

    name: str
    buffer: npt.NDArray[np.uint8]
    offset: Int64Array
    length: npt.NDArray[np.int32]
    time_ns: Int64Array
    position: Int64Array
    flow: npt.NDArray[np.int32]
    flows: list[str]


@dataclass(slots=True)
class LegacyTableWriter:
    """Writer of message rows to the files of a folder."""

    folder: Path
    kind: str
    files: NewFiles
    templates: Templates
    wanted: frozenset[int] | None = None
    security_ids: frozenset[int] | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    safe_csv: bool = False
    _writers: dict[MsgType, Any] = field(default_factory=dict)
    _waiting: dict[str, Assembler] = field(default_factory=dict)

    def write(self, names: Sequence[str], account: LegacyReadStatistics) -> None:
        """Read captures and raw dumps, and write their messages."""
        decoder = FastColumnDecoder(self.templates, reset_each_message=True)
        tables = tables_of(self.templates)
        try:
            for name in CaptureInputs(names).names:
                try:
                    for block in _blocks(name):
                        self._block(block, decoder, tables, account)
                except CaptureError as error:
                    account.damaged.append(str(error))
            account.abandoned += sum(
                each.abandoned + each.waiting for each in self._waiting.values()
            )
            for writer in self._writers.values():
                writer.close()
        except BaseException:
            for writer in self._writers.values():
                with suppress(Exception):
                    writer.close()
            raise

    def _block(
        self,
        block: _Block,
        decoder: FastColumnDecoder,
        tables: dict[MsgType, LegacyTable],
        account: LegacyReadStatistics,
    ) -> None:
        chunks = chunk_columns(block.buffer, block.offset, block.length)
        account.datagrams += len(block.offset)
        for row in np.flatnonzero(chunks.fault).tolist():
            account.reject(_reject(block, row, 0, FAULTS[int(chunks.fault[row])]))
        messages = self._whole(block, chunks)
        owner = messages.chunk
        found = decoder.decode(messages.buffer, messages.start, messages.end)
        bad = (found.status != 0) | (found.end != messages.end)
        for row in np.flatnonzero(bad).tolist():
            reason = REASONS.get(int(found.status[row]), "bytes after the end of the message")
            chunk = owner[row]
            number = int(chunks.number[chunk])
            account.reject(_reject(block, int(chunks.datagram[chunk]), number, reason))
        for template in found.templates:
            if not found.count(template):
                continue
            own = found.messages(template)
            rows = rows_of(tables[message_type(template)], template, found)
            chunk = owner[own]
            numbers = found.rows(template).numbers("MsgSeqNum")
            good = ~bad[own]
            wrong = good & (numbers != chunks.number[chunk])
            wrong[rows.unfit] |= good[rows.unfit]
            for row_ in np.flatnonzero(wrong).tolist():
                reason = "tag 34 differs from the chunk header, or a number exceeds its column"
                datagram_row = int(chunks.datagram[chunk[row_]])
                account.reject(_reject(block, datagram_row, int(numbers[row_]), reason))
            good &= ~wrong
            account.messages += int(good.sum())
            datagram = chunks.datagram[chunk]
            good &= self._in_time(block.time_ns[datagram])
            if self.wanted is not None and template.id not in self.wanted:
                continue
            selected = np.flatnonzero(good[rows.message])
            keys = [
                pa.array(block.time_ns[datagram][rows.message]),
                pa.array(block.flows).take(pa.array(block.flow[datagram][rows.message])),
                pa.array(numbers[rows.message]),
                pa.array(rows.entry),
                pa.array(np.full(len(rows.message), template.id, np.int64)),
            ]
            every = np.arange(len(rows.message))
            self._put(template, tables, [*keys, *rows.columns(every)], selected)

    def _in_time(self, times: Int64Array) -> npt.NDArray[np.bool_]:
        since = times >= (0 if self.since_ns is None else self.since_ns)
        if self.until_ns is None:
            return since
        both: npt.NDArray[np.bool_] = since & (times < self.until_ns)
        return both

    def _whole(self, block: _Block, chunks: ChunkColumns) -> WholeMessages:
        """Return the complete messages of a block, reassembled from chunks where needed."""
        joined: list[tuple[int, bytes]] = []
        for row in np.flatnonzero(chunks.count > 1).tolist():
            datagram = int(chunks.datagram[row])
            flow = block.flows[int(block.flow[datagram])]
            start = int(chunks.start[row])
            piece = block.buffer[start : start + int(chunks.size[row])].tobytes()
            chunk = Chunk(
                int(chunks.number[row]), int(chunks.count[row]), int(chunks.index[row]), piece
            )
            assembler = self._waiting.setdefault(flow, Assembler())
            message = assembler.add(chunk, int(block.time_ns[datagram]))
            if message is not None:
                joined.append((row, message.payload))
        return whole_messages(block.buffer, chunks, joined)

    def _put(
        self,
        template: Template,
        tables: dict[MsgType, LegacyTable],
        columns: list[Any],
        kept: Int64Array,
    ) -> None:
        kind = message_type(template)
        table = tables[kind]
        fields = [pa.field(name, kind_) for name, _, kind_ in table.columns]
        schema = pa.schema([*KEY, *fields])
        rows = pa.Table.from_arrays(columns, schema=schema).take(pa.array(kept))
        if self.security_ids is not None:
            if "security_id" not in rows.column_names:
                return
            wanted = pa.array(sorted(self.security_ids), pa.int64())
            rows = rows.filter(pa.compute.is_in(rows.column("security_id"), wanted))
        if not rows.num_rows:
            return
        writer = self._writers.get(kind)
        if writer is None:
            stream = self.files.create(self.folder / f"{table.name}.{self.kind}")
            writer = self._writers[kind] = _WRITERS[self.kind](stream, schema)
        if self.safe_csv and self.kind == "csv":
            rows = safe_table(rows).cast(schema)
        writer.write_table(rows)


def _parquet(stream: BinaryIO, schema: Any) -> Any:
    return pq.ParquetWriter(stream, schema, compression="zstd")


def _csv(stream: BinaryIO, schema: Any) -> Any:
    return pyarrow.csv.CSVWriter(stream, schema)


def _arrow(stream: BinaryIO, schema: Any) -> Any:
    return pa.ipc.new_file(stream, schema)


_WRITERS: dict[str, Callable[[BinaryIO, Any], Any]] = {
    "parquet": _parquet,
    "csv": _csv,
    "arrow": _arrow,
}


def prepare(folder: Path, kind: str) -> None:
    """Create the folder; raise `UsageError` if the format is not one of tables."""
    if kind not in _WRITERS:
        raise UsageError(
            f"--format for a folder of the legacy feed must be {', '.join(_WRITERS)}, was {kind}."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot create folder {folder}: {error.strerror}.") from None


def _reject(block: _Block, datagram: int, number: int, reason: str) -> LegacyReadResult:
    time, position = int(block.time_ns[datagram]), int(block.position[datagram])
    flow = block.flows[int(block.flow[datagram])]
    return LegacyReadResult(block.name, time, position, flow, number, None, reason)


def _blocks(name: str) -> Iterator[_Block]:
    if is_dump(name):
        data = np.frombuffer(Path(name).read_bytes() + bytes(8), np.uint8)
        zero = np.zeros(1, np.int64)
        length = np.array([len(data) - 8], np.int32)
        yield _Block(name, data, zero, length, zero, zero, zero.astype(np.int32), [name])
        return
    with read_blocks(name) as reader:
        for block in reader:
            flows = [str(Destination(flow.dst, flow.dst_port)) for flow in reader.flows]
            yield _Block(
                name, block.buffer, block.offset, block.length, block.time_ns, block.position,
                block.flow, flows,
            )  # fmt: skip
