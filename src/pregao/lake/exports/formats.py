"""Export formats: names of their files, and how the flows of instruments are written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from pregao.errors import UsageError
from pregao.lake.books.replay_span import BookInstrument
from pregao.lake.exports import databento, hftbacktest
from pregao.lake.exports.levels import halts_of
from pregao.lake.exports.lobster import file_names, write_lobster
from pregao.lake.exports.nautilus import COLUMNS, InstrumentTerms, catalog_files, terms_of
from pregao.lake.exports.order_events import order_flow
from pregao.lake.exports.tabular import ending_of, row_file
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import MARKET_ZONE


class ExportFormat(StrEnum):
    """Third-party formats of an instrument's day."""

    MBO = "mbo"
    MBP10 = "mbp-10"
    LOBSTER = "lobster"
    HFTBACKTEST = "hftbacktest"
    HFTBACKTEST_L2 = "hftbacktest-l2"
    NAUTILUS = "nautilus"

    @property
    def in_folder(self) -> bool:
        """Whether it is several files in a folder."""
        return self in (ExportFormat.LOBSTER, ExportFormat.NAUTILUS)


@dataclass(frozen=True, slots=True)
class ExportFile:
    """File to write: its path, and a function that writes it and returns the number of rows."""

    path: Path
    write: Callable[[BinaryIO], int]


def check_output(wanted: ExportFormat, output: str) -> None:
    """Raise `UsageError` for a file name that does not match the format."""
    suffix = PurePath(output).suffix
    if wanted in (ExportFormat.HFTBACKTEST, ExportFormat.HFTBACKTEST_L2):
        if suffix != ".npz":
            raise UsageError(f"{output}: the file name must end in .npz for hftbacktest.")
    elif wanted.in_folder:
        if suffix.lower() in (".csv", ".parquet", ".npz", ".arrow", ".feather", ".gz", ".zst"):
            raise UsageError(f"{output}: {wanted} writes several files; give a folder instead.")
    elif output != "-":
        ending_of(output)


def files_of(
    lake: LakeStore,
    wanted: ExportFormat,
    instruments: Sequence[BookInstrument],
    output: str,
    depth: int = 10,
    zone: str = MARKET_ZONE,
    *,
    safe_csv: bool = False,
) -> Iterator[ExportFile]:
    """Yield the files of an export; instruments are read when they are written."""
    check_output(wanted, output)
    if wanted in (ExportFormat.MBO, ExportFormat.MBP10):
        ending = ".csv" if output == "-" else ending_of(output)
        yield ExportFile(
            Path(output),
            lambda sink: _rows(lake, wanted, instruments, sink, ending, safe_csv=safe_csv),
        )
    elif wanted in (ExportFormat.HFTBACKTEST, ExportFormat.HFTBACKTEST_L2):
        if len(instruments) != 1:
            raise UsageError("hftbacktest files have one instrument's day: select one instrument.")
        by_order = wanted is ExportFormat.HFTBACKTEST
        make = hftbacktest.orders_array if by_order else hftbacktest.levels_array
        events = make(order_flow(lake, instruments[0]))
        yield ExportFile(Path(output), lambda sink: hftbacktest.write_npz(events, sink))
    elif wanted is ExportFormat.LOBSTER:
        for instrument in instruments:
            yield from _lobster(lake, instrument, Path(output), depth, zone)
    else:
        for instrument in instruments:
            terms = _terms(lake, instrument)
            files = catalog_files(order_flow(lake, instrument), instrument, terms)
            for name, content in files.items():
                yield ExportFile(Path(output, name), _writing(content))


def _rows(
    lake: LakeStore,
    wanted: ExportFormat,
    instruments: Sequence[BookInstrument],
    sink: BinaryIO,
    ending: str,
    *,
    safe_csv: bool,
) -> int:
    by_order = wanted is ExportFormat.MBO
    schema = databento.MBO_SCHEMA if by_order else databento.MBP_SCHEMA
    make = databento.mbo_columns if by_order else databento.mbp_columns
    writer = row_file(sink, schema, ending, safe_csv=safe_csv)
    for instrument in instruments:
        writer.write(make(order_flow(lake, instrument), instrument))
    writer.close()
    return writer.rows


def _lobster(
    lake: LakeStore, instrument: BookInstrument, folder: Path, depth: int, zone: str
) -> Iterator[ExportFile]:
    flow, halts = order_flow(lake, instrument), halts_of(lake, instrument)
    name = instrument.symbol or str(instrument.security_id)
    books = io.BytesIO()
    messages, levels = file_names(name, instrument.date, flow, depth, zone)
    yield ExportFile(
        folder / messages,
        lambda sink: write_lobster(flow, instrument.date, depth, zone, sink, books, halts),
    )
    yield ExportFile(folder / levels, _writing(books))


def _writing(content: bytes | Any) -> Callable[[BinaryIO], int]:
    def write(sink: BinaryIO) -> int:
        sink.write(content if isinstance(content, bytes) else content.getbuffer())
        return 0

    return write


def _terms(lake: LakeStore, instrument: BookInstrument) -> InstrumentTerms:
    """Return the terms of an instrument's definition; default tick and lot without one."""
    have = set(lake.delta("instruments").schema().to_arrow().names)
    rows = lake.delta("instruments").to_pyarrow_table(
        filters=[("date", "=", instrument.date)],
        columns=[name for name in COLUMNS if name in have],
    )
    for row in rows.to_pylist():
        if (row["security_id"], row["channel"]) == (instrument.security_id, instrument.channel):
            return terms_of(dict.fromkeys(COLUMNS) | row)
    return InstrumentTerms()
