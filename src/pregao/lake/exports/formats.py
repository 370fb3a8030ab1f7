"""Exports of a lake to files: ticks, books, and instrument days in the formats of other tools."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple

from pregao.errors import UsageError
from pregao.lake.books.book_at import book_at, find_instrument
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.replay_span import BookInstrument
from pregao.lake.books.selection import BookSelection
from pregao.lake.exports import databento, hftbacktest
from pregao.lake.exports.levels import halts_of
from pregao.lake.exports.lobster import file_names, write_lobster
from pregao.lake.exports.nautilus import COLUMNS, InstrumentTerms, catalog_files, terms_of
from pregao.lake.exports.order_events import order_flow
from pregao.lake.exports.tabular import (
    ending_of,
    export_checkpoints,
    export_moments,
    export_ticks,
    row_file,
)
from pregao.lake.storage.lake_store import LakeStore
from pregao.safe_io.output_files import NewFiles
from pregao.units import MARKET_ZONE

TABLES = ("ticks", "book")
"""Exports that are tables of rows of any instruments."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """Selection, format and destination of an export."""

    what: str
    """One of `TABLES`, or a format."""
    selection: BookSelection
    output: str
    depth: int = 10
    """Levels per side of ticks and LOBSTER files."""
    at_ns: int | None = None
    """Time of the books; None for the end of the day."""
    checkpoints: bool = False
    """Write all checkpoints of books, not only the last of a day."""
    zone: str | None = None
    """Time zone of LOBSTER files; None for the market's."""
    safe_csv: bool = False
    force: bool = False
    """Replace existing files."""


class ExportResult(NamedTuple):
    """Files that an export wrote, and the number of rows of those that have rows."""

    paths: list[Path]
    rows: int


def check_request(request: ExportRequest) -> None:
    """Raise `UsageError` for a request whose parts do not fit, or whose output is invalid."""
    what, selection = request.what, request.selection
    at_a_time = request.at_ns is not None
    if at_a_time and (what != "book" or request.checkpoints or not selection.symbols):
        raise UsageError("--at requires `export book` with --symbol and without --checkpoints.")
    if request.checkpoints and what != "book":
        raise UsageError(f"--checkpoints is for `export book`, not `export {what}`.")
    if what in TABLES:
        if request.output != "-":
            ending_of(request.output)
            NewFiles(force=request.force).check(Path(request.output))
        return
    check_output(ExportFormat(what), request.output)
    if not selection.symbols:
        raise UsageError(f"`export {what}` requires --symbol.")
    if len(selection.channels) > 1:
        raise UsageError(
            f"`export {what}` accepts one --channel, was {len(selection.channels)}. Use it "
            "if a symbol is on several channels."
        )


def write_export(
    lake: LakeStore, request: ExportRequest, stream: BinaryIO | None = None
) -> ExportResult:
    """Write an export; the output ``-`` is the stream.

    Raises:
        UsageError: The request is invalid, or the lake does not have what it selects.
    """
    check_request(request)
    lake.require()
    found = _files(lake, request)
    if stream is not None:
        return ExportResult([], sum(each.write(stream) for each in found))
    rows = 0
    with NewFiles(force=request.force) as files:
        for each in found:
            if request.what not in TABLES:
                each.path.parent.mkdir(parents=True, exist_ok=True)
            rows += each.write(files.create(each.path))
        paths = files.paths
    return ExportResult(paths, rows)


def _files(lake: LakeStore, request: ExportRequest) -> Iterator[ExportFile]:
    selection = request.selection
    if request.what in TABLES:
        yield ExportFile(Path(request.output), lambda sink: _write_table(lake, request, sink))
        return
    catalog = FileCatalog(lake)
    channel = selection.channels[0] if selection.channels else None
    instruments = [
        find_instrument(catalog, name, day, channel)
        for name in selection.symbols
        for day in selection.dates or (None,)
    ]
    zone = request.zone or MARKET_ZONE
    wanted = ExportFormat(request.what)
    yield from files_of(
        lake, wanted, instruments, request.output, request.depth, zone, safe_csv=request.safe_csv
    )


def _write_table(lake: LakeStore, request: ExportRequest, sink: BinaryIO) -> int:
    ending = ".csv" if request.output == "-" else ending_of(request.output)
    selection, safe = request.selection, request.safe_csv
    if request.what == "ticks":
        return export_ticks(lake, selection, request.depth, sink, ending, safe_csv=safe)
    if request.at_ns is None:
        every = request.checkpoints
        return export_checkpoints(lake, selection, sink, ending, all_of_them=every, safe_csv=safe)
    day = selection.dates[0] if selection.dates else None
    channel = selection.channels[0] if selection.channels else None
    moments = (book_at(lake, name, request.at_ns, day, channel) for name in selection.symbols)
    return export_moments(moments, sink, ending, safe_csv=safe)


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
