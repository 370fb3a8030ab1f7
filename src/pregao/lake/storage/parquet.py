"""Parquet files of the lake: small row groups, page indexes, suitable encodings, statistics.

The statistics have the format of Delta logs.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pregao.extras import kernels_compiled
from pregao.lake.storage.commit_unit import DATE, NewFile
from pregao.lake.storage.fast_parquet.columns import is_flat
from pregao.lake.storage.filesystem import Location
from pregao.units import MAX_DAY, MIN_DAY, day_number, iso_day

INDEXED_COLUMNS = 32
"""Number of leading columns with statistics in Delta; readers use no more."""

_MAX_BOUND_CHARACTERS = 32
_LAST_CHARACTER = "\U0010ffff"

_ORDERED = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_decimal,
    pa.types.is_integer,
)

ROW_GROUP = 65_536
LIST_ROW_GROUP = 2_048
"""Rows per row group of tables with lists, such as the orders of snapshots."""

_DELTA = "DELTA_BINARY_PACKED"
_BATCH = 8_192
"""Rows per write batch; with the smaller default, writing takes a tenth longer."""
_NAMES, _REPEATED = 64, 16
"""Maximum number of distinct strings stored as names; with more, minimum rows of each."""


# --- Statistics ---


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Null count, minimum and maximum of a column."""

    nulls: int
    low: Any = None
    high: Any = None

    def with_more(self, more: ColumnBounds) -> ColumnBounds:
        """Merge with the bounds of more rows."""
        ends = [end for end in (self.low, self.high, more.low, more.high) if end is not None]
        nulls = self.nulls + more.nulls
        return ColumnBounds(nulls, min(ends), max(ends)) if ends else ColumnBounds(nulls)


def bounds_of(column: Any) -> ColumnBounds:
    """Return the bounds of a column of integers, or of decimals stored as integers."""
    scale = column.type.scale if pa.types.is_decimal(column.type) else None
    found = ColumnBounds(0)
    for chunk in column.chunks:
        ends = pc.min_max(chunk if scale is None else chunk.view(pa.int64()))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if scale is not None and low is not None:
            low, high = (Decimal(end).scaleb(-scale) for end in (low, high))
        found = found.with_more(ColumnBounds(chunk.null_count, low, high))
    return found


def name_bounds(rows: Any) -> dict[str, ColumnBounds]:
    """Return the bounds of dictionary-encoded string columns, from the dictionaries alone.

    Some readers of Delta tables treat a column without bounds as one without values.
    """
    found = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            texts = {text for chunk in column.chunks for text in chunk.dictionary.to_pylist()}
            texts.discard(None)
            if column.null_count == len(column) or not texts:
                found[name] = ColumnBounds(column.null_count)
            else:
                found[name] = ColumnBounds(column.null_count, min(texts), max(texts))
    return found


def stats_json(metadata: Any, schema: Any, known: Mapping[str, ColumnBounds] | None = None) -> str:
    """Return Delta's statistics of a file: rows; minima, maxima and null counts of leading columns.

    ``metadata`` is the file's pyarrow ``FileMetaData``, ``schema`` the table's declared schema,
    ``known`` has bounds of columns without statistics in the file. Decimals are written as exact
    numbers. Columns without exact bounds are omitted.
    """
    index_of = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    minima: list[str] = []
    maxima: list[str] = []
    nulls: list[str] = []
    for column in list(schema)[:INDEXED_COLUMNS]:
        index = index_of.get(column.name)
        if index is None or pa.types.is_nested(column.type):
            continue
        chunks = [
            metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)
        ]
        statistics = [chunk.statistics for chunk in chunks]
        name = json.dumps(column.name)
        if any(found is None or not found.has_null_count for found in statistics):
            given = (known or {}).get(column.name)
            if given is not None:
                nulls.append(f"{name}:{given.nulls}")
                bounds = None if given.low is None else _as_json(given.low, given.high, column.type)
                if bounds is not None:
                    minima.append(f"{name}:{bounds[0]}")
                    maxima.append(f"{name}:{bounds[1]}")
            continue
        nulls.append(f"{name}:{sum(found.null_count for found in statistics)}")
        # A row group of only nulls has no bounds and needs none.
        valued = [found for found in statistics if found.num_values]
        if not valued or not all(found.has_min_max for found in valued):
            continue
        bounds = _bounds(valued, column.type)
        if bounds is not None:
            minima.append(f"{name}:{bounds[0]}")
            maxima.append(f"{name}:{bounds[1]}")
    return (
        f'{{"numRecords":{metadata.num_rows},"minValues":{{{",".join(minima)}}},'
        f'"maxValues":{{{",".join(maxima)}}},"nullCount":{{{",".join(nulls)}}}}}'
    )


def _bounds(statistics: list[Any], kind: Any) -> tuple[str, str] | None:
    """Return the bounds over all row groups as JSON; None if there are none."""
    if pa.types.is_date32(kind):
        low = min(found.min_raw for found in statistics)
        high = max(found.max_raw for found in statistics)
        days = _day(low), _day(high)
        return None if days[0] is None or days[1] is None else (days[0], days[1])
    if pa.types.is_floating(kind):
        values = [value for found in statistics for value in (found.min, found.max)]
        if not all(math.isfinite(value) for value in values):
            return None
        return repr(float(min(values))), repr(float(max(values)))
    if not any(is_kind(kind) for is_kind in _ORDERED):
        return None
    low = min(found.min for found in statistics)
    high = max(found.max for found in statistics)
    return _as_json(low, high, kind)


def _as_json(low: Any, high: Any, kind: Any) -> tuple[str, str] | None:
    """Return bounds of strings, decimals and integers as JSON."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_bounds(low, high)
    if pa.types.is_decimal(kind):
        if not (isinstance(low, Decimal) and isinstance(high, Decimal)):
            return None
        return f"{low:f}", f"{high:f}"
    return str(low), str(high)


def _day(days: int) -> str | None:
    """Return a day in ISO format; None outside the years that ISO format supports."""
    if not MIN_DAY <= days <= MAX_DAY:
        return None
    return json.dumps(iso_day(days))


def _text_bounds(low: str, high: str) -> tuple[str, str] | None:
    """Return truncated bounds of strings; a truncated maximum is raised above its prefix."""
    if len(high) > _MAX_BOUND_CHARACTERS:
        if high[_MAX_BOUND_CHARACTERS] == _LAST_CHARACTER:
            return None
        high = high[:_MAX_BOUND_CHARACTERS] + _LAST_CHARACTER
    return json.dumps(low[:_MAX_BOUND_CHARACTERS]), json.dumps(high)


# --- Files ---


def stored_type(kind: Any) -> Any:
    """Return the type in files of a declared type: decimals up to 18 digits as 64-bit integers."""
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return pa.decimal64(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(member.name, stored_type(member.type)) for member in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", stored_type(kind.value_type)))
    return kind


def stored_schema(declared: Any) -> Any:
    """Return the schema of a table's files, without the partition column."""
    fields = [field for field in declared if field.name != DATE]
    return pa.schema([pa.field(field.name, stored_type(field.type)) for field in fields])


def _leaves(schema: Any) -> list[str]:
    """Return the paths of a table's leaf columns in Parquet."""
    names: list[str] = []

    def visit(path: str, kind: Any) -> None:
        if pa.types.is_struct(kind):
            for inner in kind:
                visit(f"{path}.{inner.name}", inner.type)
        elif pa.types.is_list(kind):
            visit(f"{path}.list.element", kind.value_type)
        else:
            names.append(path)

    for entry in schema:
        visit(entry.name, entry.type)
    return names


def _bounded_columns(schema: Any) -> list[str]:
    """Return the columns with minima and maxima: all except dictionary-encoded names."""
    return [entry.name for entry in schema if not pa.types.is_dictionary(entry.type)]


@dataclass(slots=True)
class WrittenFile:
    """A written Parquet file: path, size and contents."""

    table: str
    path: str
    size: int
    rows: int
    day: int
    metadata: Any = field(repr=False)
    bounds: dict[str, ColumnBounds] = field(default_factory=dict, repr=False)
    """Bounds of columns that have none in the file."""


def new_file(written: WrittenFile, declared: Any) -> NewFile:
    """Convert a written file to a `NewFile`; ``declared`` is its table's schema."""
    return NewFile(
        written.table,
        written.path,
        written.size,
        written.rows,
        ((DATE, iso_day(written.day)),),
        stats_json(written.metadata, declared, written.bounds),
    )


def write_table(
    filesystem: Any,
    root: str,
    table: str,
    data: Any,
    day: int,
    delta_coded: Collection[str] = (),
    plain: Collection[str] = (),
    separate: str | None = None,
    *,
    compress: bool = False,
) -> WrittenFile:
    """Write rows of one day as a file of a table, under a unique name.

    ``delta_coded`` are columns, or members of a column's lists, stored with delta encoding;
    ``plain`` are columns whose values rarely repeat; all others are dictionary-encoded. Rows sorted
    by the column ``separate`` get row groups by its values, if the table has no lists. With
    ``compress`` all columns are compressed that get smaller by it.
    """
    folder = f"{DATE}={iso_day(day)}"
    path = f"{folder}/part-{uuid.uuid4().hex}.parquet"
    filesystem.create_dir(f"{root}/{table}/{folder}", recursive=True)
    full = f"{root}/{table}/{path}"
    data = without_nulls(data)
    lists = any(pa.types.is_list(entry.type) for entry in data.schema)
    leaves = _leaves(data.schema)
    with filesystem.open_output_stream(full) as sink:
        writer = table_writer(
            sink,
            data.schema,
            delta_coded=[leaf for leaf in leaves if leaf.rpartition(".")[2] in delta_coded],
            plain=plain,
            bounded=_bounded_columns(data.schema),
            separate=separate,
            compress=compress,
        )
        writer.write_table(data, LIST_ROW_GROUP if lists else ROW_GROUP)
        writer.close()
        size = sink.tell()
    metadata = pq.read_metadata(full, filesystem=filesystem)
    return WrittenFile(table, path, int(size), data.num_rows, day, metadata, name_bounds(data))


def table_writer(
    sink: Any,
    schema: Any,
    *,
    delta_coded: Collection[str],
    plain: Collection[str] = (),
    bounded: Collection[str],
    separate: str | None = None,
    compress: bool = False,
) -> Any:
    """Return a writer of row groups to a file, with ``write_table`` and ``close``.

    Columns are Parquet paths; ``bounded`` are those with minima and maxima. ``separate`` is ignored
    for tables with lists. Without ``compress``, numbers and names are not compressed: differences
    and dictionaries already remove most of their size.
    """
    if is_flat(schema) and kernels_compiled():
        from pregao.lake.storage.fast_parquet.writer import FlatWriter

        return FlatWriter(sink, schema, delta_coded, plain, bounded, separate, compress=compress)
    leaves = _leaves(schema)
    delta = set(delta_coded)
    return pq.ParquetWriter(
        sink,
        schema,
        compression={leaf: _codec(compress=compress, delta=leaf in delta) for leaf in leaves},
        use_dictionary=[leaf for leaf in leaves if leaf not in delta and leaf not in plain],
        column_encoding=dict.fromkeys(delta_coded, _DELTA) or None,
        write_page_index=True,
        write_batch_size=_BATCH,
        write_statistics=list(bounded),
        store_schema=False,
        store_decimal_as_integer=True,
        version="2.6",
    )


def _codec(*, compress: bool, delta: bool) -> str:
    if compress:
        return "ZSTD"
    # Fast compression of delta-encoded columns gains almost nothing.
    return "NONE" if delta else "SNAPPY"


def without_nulls(rows: Any) -> Any:
    """Return the rows with columns without nulls declared as not nullable.

    Such columns have no definition levels, which makes them faster to write and to read. Tables
    declare all columns nullable; their readers accept such files.
    """
    columns = [_declared(column) for column in rows.columns]
    entries = [
        pa.field(name, column.type, bool(column.null_count))
        for name, column in zip(rows.column_names, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(entries))


def _declared(column: Any) -> Any:
    """Return a column of lists of structs with members without nulls declared as not nullable."""
    kind = column.type
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or column.null_count:
        return column
    found = column.combine_chunks()
    values = found.values
    if values.null_count:
        return column
    members = [values.field(number) for number in range(values.type.num_fields)]
    entries = [
        member.with_nullable(bool(own.null_count))
        for member, own in zip(values.type, members, strict=True)
    ]
    element = pa.StructArray.from_arrays(members, fields=entries)
    listed = pa.list_(pa.field(kind.value_field.name, element.type, nullable=False))
    return pa.ListArray.from_arrays(found.offsets, element, type=listed)


@dataclass(frozen=True, slots=True)
class FileCoding:
    """Columns of a file, or members of their lists, by encoding; all others have dictionaries."""

    delta_coded: frozenset[str]
    plain: frozenset[str]
    compressed: bool = False
    """Whether the file was written with ``compress``."""


def file_coding(file: Location) -> FileCoding:
    """Return the encodings of a file's columns."""
    metadata = pq.read_metadata(file.path, filesystem=file.filesystem)
    if not metadata.num_row_groups:
        return FileCoding(frozenset(), frozenset())
    group = metadata.row_group(0)
    delta_coded, plain = set(), set()
    columns = [group.column(number) for number in range(group.num_columns)]
    for column in columns:
        name = column.path_in_schema.rpartition(".")[2]
        if _DELTA in column.encodings:
            delta_coded.add(name)
        elif not any("DICTIONARY" in encoding for encoding in column.encodings):
            plain.add(name)
    compressed = any(column.compression == "ZSTD" for column in columns)
    return FileCoding(frozenset(delta_coded), frozenset(plain), compressed)


def rows_of(folder: Location, paths: Sequence[str], declared: Any) -> Any:
    """Return the rows of a table's files as a dataset, without the partition column.

    Strings of tables without lists are dictionaries, in which form files are written.
    """
    # Imported lazily: it imports pandas, which commands that only read do not need.
    import pyarrow.dataset as ds

    fields = [field.remove_metadata() for field in declared if field.name != DATE]
    texts = []
    if not any(pa.types.is_nested(field.type) for field in fields):
        texts = [field.name for field in fields if pa.types.is_string(field.type)]
    names = pa.dictionary(pa.int32(), pa.string())
    return ds.dataset(
        [folder.join(path).path for path in paths],
        schema=pa.schema([f.with_type(names) if f.name in texts else f for f in fields]),
        filesystem=folder.filesystem,
        format=ds.ParquetFileFormat(dictionary_columns=texts),
    )


def rewrite(
    folder: Location,
    coding: FileCoding,
    rows: Any,
    day: date,
    declared: Any,
    separate: str | None = None,
) -> NewFile:
    """Write rows of a table's files, read by `rows_of`, as one file.

    For ``separate`` see `write_table`.
    """
    stored = stored_schema(declared)
    for number, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type) and _repeat(column):
            stored = stored.set(number, stored.field(number).with_type(column.type))
    written = write_table(
        folder.filesystem,
        folder.parent.path,
        folder.name,
        rows.cast(stored),
        day_number(day),
        coding.delta_coded,
        coding.plain,
        separate,
        compress=coding.compressed,
    )
    return new_file(written, declared)


def _repeat(column: Any) -> bool:
    """Whether the strings of a dictionary column repeat enough to be stored uncompressed."""
    distinct = max((len(chunk.dictionary) for chunk in column.chunks), default=0)
    return distinct <= max(_NAMES, len(column) // _REPEATED)
