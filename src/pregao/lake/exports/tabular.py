"""Ticks and books as CSV, Parquet or Arrow files, in columns that other tools use for them.

Files are written batch by batch; the ending of the name determines the format.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.lake.books.columns import integers, nulled, prices
from pregao.lake.books.replay_span import HistoricalBook
from pregao.lake.books.schemas import BOOKS, CHECKPOINTS, SIDE_LEVELS, SIDE_ORDERS
from pregao.lake.books.selection import BookSelection, selected
from pregao.lake.storage.lake_store import LakeStore
from pregao.safe_io.csv_cells import safe_table

ENDINGS = (".csv", ".csv.gz", ".csv.zst", ".parquet", ".arrow", ".feather")

SIDES = ("BID", "ASK")
_PRICE = pa.decimal128(18, 4)
_NUMBER = pa.int64()
BOOK_SCHEMA = pa.schema(
    [
        ("updateTime", _NUMBER),
        ("updateNano", _NUMBER),
        ("secondaryOrderID", _NUMBER),
        ("enteringFirm", _NUMBER),
        ("securityID", _NUMBER),
        ("Symbol", pa.string()),
        ("lastMsgSeqNumProcessed", _NUMBER),
        ("totNumBids", _NUMBER),
        ("totNumOffers", _NUMBER),
        ("lastPrice", _PRICE),
        ("tradeVolume", _NUMBER),
        ("highLimitPrice", _PRICE),
        ("lowLimitPrice", _PRICE),
        ("side", pa.string()),
        ("position", _NUMBER),
        ("price", _PRICE),
        ("size", _NUMBER),
    ]
)

LEVELS_SCHEMA = BOOK_SCHEMA.append(pa.field("numberOfOrders", _NUMBER))
"""Schema of books by price level, where the feed publishes no orders."""


# --- Files of rows ---


def ending_of(name: str) -> str:
    """Return the supported extension of a file name; raise `UsageError` for others."""
    small = name.lower()
    found = next((ending for ending in ENDINGS if small.endswith(ending)), None)
    if found is None:
        raise UsageError(f"{name}: the name must end in {', '.join(ENDINGS)}.")
    return found


class RowFile(Protocol):
    """File that accepts rows."""

    rows: int

    def write(self, columns: Sequence[Any]) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Finish the file; the underlying stream stays open."""


def row_file(
    sink: BinaryIO, schema: Any, ending: str = ".csv", *, safe_csv: bool = False
) -> RowFile:
    """Return a file with these columns, in the format of the extension."""
    if ending == ".parquet":
        return _Tables(sink, schema, pq.ParquetWriter(sink, schema, compression="zstd"))
    if ending in (".arrow", ".feather"):
        return _Tables(sink, schema, pa.ipc.new_file(sink, schema))
    if ending == ".csv.gz":
        # Without a time, so that equal rows yield equal bytes.
        return _Csv(sink, schema, gzip.GzipFile(fileobj=sink, mode="wb", mtime=0), safe_csv)
    if ending == ".csv.zst":
        packed = pa.CompressedOutputStream(pa.PythonFile(sink, "w"), "zstd")
        return _Csv(sink, schema, packed, safe_csv)
    return _Csv(sink, schema, None, safe_csv)


class _Tables:
    """Parquet or Arrow file: columns keep their types."""

    def __init__(self, sink: BinaryIO, schema: Any, writer: Any) -> None:
        self._sink = sink
        self._schema = schema
        self._writer = writer
        self.rows = 0

    def write(self, columns: Sequence[Any]) -> None:
        """Write some rows."""
        table = _table(columns, self._schema)
        self._writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class _Csv:
    """CSV file with one header; decimals keep all their digits."""

    def __init__(self, sink: BinaryIO, schema: Any, packed: Any, safe: bool) -> None:
        self._safe = safe
        self._schema = schema
        self._packed = packed
        self._sink = sink if packed is None else packed
        self.rows = 0
        self._sink.write((",".join(schema.names) + "\n").encode())

    def write(self, columns: Sequence[Any]) -> None:
        """Write some rows."""
        table = _table(columns, self._schema)
        if self._safe:
            table = safe_table(table)
        texts = [
            column.cast(pa.string()) if pa.types.is_decimal(column.type) else column
            for column in table.columns
        ]
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        plain = pa.Table.from_arrays(texts, names=self._schema.names)
        pyarrow.csv.write_csv(plain, self._sink, options)
        self.rows += table.num_rows

    def close(self) -> None:
        """Finish the file."""
        if self._packed is not None:
            self._packed.close()


def _table(columns: Sequence[Any], schema: Any) -> Any:
    """Return columns in their declared types; those that a table lacks are null."""
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


# --- Ticks and books ---


def tick_schema(depth: int) -> Any:
    """Return the columns of tick files."""
    levels = [
        (f"{side}_{part}{level}", kind)
        for side in ("bid", "ask")
        for level in range(1, depth + 1)
        for part, kind in (("px", _PRICE), ("sz", _NUMBER))
    ]
    head = [
        ("updateTime", _NUMBER),
        ("updateNano", _NUMBER),
        ("securityID", _NUMBER),
        ("Symbol", pa.string()),
        ("lastPrice", _PRICE),
        ("tradeVolume", _NUMBER),
    ]
    return pa.schema([*head, *levels])


def export_ticks(
    lake: LakeStore,
    selection: BookSelection,
    depth: int,
    sink: BinaryIO,
    ending: str = ".csv",
    *,
    safe_csv: bool = False,
) -> int:
    """Write ticks, instrument by instrument. Returns their number."""
    levels = [
        f"{side}_{part}_{level}"
        for side in ("bid", "ask")
        for level in range(1, depth + 1)
        for part in ("price", "size")
    ]
    plain = ["channel", "security_id", "symbol", "event_time_ns", "sending_time_ns"]
    writer = row_file(sink, tick_schema(depth), ending, safe_csv=safe_csv)
    for rows in selected(lake, "ticks", [*plain, "last_price", "trade_volume", *levels], selection):
        when = pc.coalesce(rows["event_time_ns"], rows["sending_time_ns"])
        seconds, rest = np.divmod(integers(when), SECOND)
        columns = [
            pa.array(seconds),
            pa.array(rest),
            rows["security_id"],
            rows["symbol"],
            rows["last_price"],
            rows["trade_volume"],
            *(rows[name] for name in levels),
        ]
        writer.write(columns)
    writer.close()
    return writer.rows


def export_checkpoints(
    lake: LakeStore,
    selection: BookSelection,
    sink: BinaryIO,
    ending: str = ".csv",
    *,
    all_of_them: bool,
    safe_csv: bool = False,
) -> int:
    """Write the last book of each instrument's day, or every checkpoint, one order per row.

    In books by price depth a row is a level; if there are any, an additional column has the number
    of orders of each level.
    """
    names = [field.name for field in CHECKPOINTS.schema if field.name != "date"]
    known = ["channel", "security_id", "symbol", "market_depth"]
    some = any(
        rows["market_depth"].null_count < rows.num_rows
        for rows in selected(lake, BOOKS.name, known, selection)
    )
    schema = LEVELS_SCHEMA if some else BOOK_SCHEMA
    writer = row_file(sink, schema, ending, safe_csv=safe_csv)
    for rows in selected(lake, CHECKPOINTS.name, names, selection):
        chosen = rows if all_of_them else rows.filter(pc.equal(rows["reason"], "end"))
        of_levels = pc.is_valid(chosen[SIDE_LEVELS[0]])
        for sides, own in ((SIDE_ORDERS, pc.invert(of_levels)), (SIDE_LEVELS, of_levels)):
            books = chosen.filter(own)
            if books.num_rows:
                writer.write(_checkpoint_columns(books, sides, numbered=some))
    writer.close()
    return writer.rows


def _checkpoint_columns(rows: Any, names: tuple[str, str], *, numbered: bool) -> list[Any]:
    sides = [rows[name].combine_chunks() for name in names]
    counts = [np.diff(side.offsets.to_numpy()) for side in sides]
    owner = np.concatenate([np.repeat(np.arange(rows.num_rows), count) for count in counts])
    which = np.repeat([0, 1], [count.sum() for count in counts])
    position = np.concatenate(
        [np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) for count in counts]
    )
    order = np.lexsort((position, which, owner))
    orders = pa.concat_arrays([side.flatten() for side in sides]).take(pa.array(order))
    owner, which, position = owner[order], which[order], position[order]
    when = integers(pc.coalesce(rows["event_time_ns"], rows["sending_time_ns"]))[owner]
    of = pa.array(owner)

    def repeated(name: str) -> Any:
        return rows[name].take(of)

    unknown = pa.nulls(len(orders), _NUMBER)
    levels = names is SIDE_LEVELS
    columns = _book_columns(
        when,
        unknown if levels else orders.field("order_id"),
        unknown if levels else orders.field("firm"),
        [repeated(name) for name in ("security_id", "symbol", "sequence_number")],
        [pa.array(count[owner]) for count in counts],
        [repeated(name) for name in
         ("last_price", "trade_volume", "high_limit_price", "low_limit_price")],
        which,
        position,
        orders.field("price"),
        orders.field("size"),
    )  # fmt: skip
    number = [orders.field("orders") if levels else unknown]
    return [*columns, *number] if numbered else columns


def export_moments(
    moments: Iterable[HistoricalBook],
    sink: BinaryIO,
    ending: str = ".csv",
    *,
    safe_csv: bool = False,
) -> int:
    """Write books at a time, one order per row; one level per row where the feed has levels."""
    books = list(moments)
    some = any(moment.book.of_levels for moment in books)
    schema = LEVELS_SCHEMA if some else BOOK_SCHEMA
    writer = row_file(sink, schema, ending, safe_csv=safe_csv)
    for moment in books:
        book, count = moment.book, len(moment.book)
        bids = int((book.side == 0).sum())

        def same(value: Any, kind: Any, rows: int = count) -> Any:
            return (
                pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
            )

        def price(value: int | None, rows: int = count) -> Any:
            return prices(np.full(rows, NULL if value is None else value, np.int64))

        when = moment.event_time_ns or moment.sending_time_ns or 0
        unknown = np.full(count, NULL, np.int64)
        number = [nulled(unknown if book.level_orders is None else book.level_orders)]
        writer.write(
            _book_columns(
                np.full(count, when, np.int64),
                nulled(book.order_id),
                nulled(book.firm),
                [
                    same(moment.instrument.security_id, pa.int64()),
                    same(moment.instrument.symbol, pa.string()),
                    same(moment.sequence_number, pa.int64()),
                ],
                [same(bids, pa.int64()), same(count - bids, pa.int64())],
                [
                    price(moment.last_price),
                    same(moment.trade_volume, pa.int64()),
                    price(moment.high_limit_price),
                    price(moment.low_limit_price),
                ],
                book.side,
                np.where(book.side == 0, np.arange(count), np.arange(count) - bids),
                prices(book.price),
                nulled(book.size),
            )
            + (number if some else [])
        )
    writer.close()
    return writer.rows


def _book_columns(
    when: Int64Array,
    order_id: Any,
    firm: Any,
    instrument: list[Any],
    totals: list[Any],
    statistics: list[Any],
    side: Any,
    position: Int64Array,
    price: Any,
    size: Any,
) -> list[Any]:
    seconds, rest = np.divmod(when, SECOND)
    names = pa.DictionaryArray.from_arrays(pa.array(side.astype(np.int32)), pa.array(SIDES))
    return [
        pa.array(seconds), pa.array(rest), order_id, firm, *instrument, *totals, *statistics,
        names, pa.array(position + 1), price, size,
    ]  # fmt: skip
