"""Format decoded messages as lines of text, JSON or CSV, one column at a time.

Text is for people, JSON and CSV for programs. Null values have no text. Decimals have all the
digits of their scale in every dialect, and never an exponent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.api.reading.keys import UMDF_KEYS, MessageKeyFormat, key_form
from pregao.cli import _kernels
from pregao.cli.console import plain
from pregao.cli.decode.rows import FIRST_SECOND, LAST_SECOND, MONTH_YEAR, PER_SECOND, shown
from pregao.safe_io.csv_cells import safe_cells
from pregao.sbe.model import MessageTemplate
from pregao.sbe.value_specs import ValueKind, ValueSpec
from pregao.umdf.bulk_decoder import MessageBatch
from pregao.umdf.tables import TableColumn, TemplateTable, columns_of

_ODD_IN_CSV = r'[",\r\n]'
_ODD_IN_JSON = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"
_ODD_IN_TEXT = r'[^\pL\pN\pP\pS]|["{}\[\]=\\]|^$'


class TextFormat(Enum):
    """Text format."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


@cache
def _columns(message: MessageTemplate) -> tuple[TableColumn, ...]:
    return columns_of(message)


def text_lines(batch: MessageBatch, keys: Sequence[Any]) -> Any:
    """Return a line for each message: time, key, name, and the fields that are not null."""
    form = key_form(batch.schema.id)
    line = pc.binary_join_element_wise(
        pc.coalesce(time_text(keys[form.captured]), "-"),
        *form.text(keys, numbers_text),
        batch.message.name,
        *named_texts(batch.columns.columns, _columns(batch.message)),
        " ",
        null_handling="skip",
    )
    return pc.binary_join_element_wise(line, "\n", "")


def json_lines(batch: MessageBatch, keys: Sequence[Any]) -> Any:
    """Return a JSON object for each message: template, key, and the fields by schema name."""
    head = json.dumps(
        {"message": batch.message.name, "template": batch.message.id, "version": batch.version},
        separators=(",", ":"),
    )
    parts: list[Any] = [head[:-1]]
    for name, key in zip(key_form(batch.schema.id).schema.names, keys, strict=True):
        if pa.types.is_dictionary(key.type):
            quoted = pc.binary_join_element_wise('"', key.cast(pa.string()), '"', "")
            parts += [f',"{name}":', pc.coalesce(quoted, "null")]
        else:
            parts += [f',"{name}":', pc.coalesce(numbers_text(key), "null")]
    fields = objects_text(
        batch.columns.columns, _columns(batch.message), TextFormat.JSON, len(batch.rows)
    )
    return pc.binary_join_element_wise(*parts, ',"fields":', fields, "}\n", "")


def csv_header(table: TemplateTable, form: MessageKeyFormat = UMDF_KEYS) -> bytes:
    """Return the header line of a template's CSV file."""
    names = (*(name for name, _ in form.csv), *(column.name for column in table.columns))
    return (",".join(names) + "\n").encode()


def csv_lines(
    table: TemplateTable,
    fitted: Sequence[Any],
    keys: Sequence[Any],
    form: MessageKeyFormat = UMDF_KEYS,
    *,
    safe: bool = False,
) -> Any:
    """Return a CSV line for each message of arrays in the table's schema.

    ``safe`` escapes formulas of spreadsheets.
    """
    texts = [_key_text(keys[index]) for _, index in form.csv]
    for array, column in zip(fitted, table.columns, strict=True):
        plain = safe_cells(array) if safe else array
        texts.append(column_text(plain, column, TextFormat.CSV))
    filled = [pc.coalesce(text, "") for text in texts]
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*filled, ","), "\n", "")


def _key_text(key: Any) -> Any:
    return key.cast(pa.string()) if pa.types.is_dictionary(key.type) else numbers_text(key)


def column_text(array: Any, column: TableColumn, dialect: TextFormat) -> Any:
    """Return the values of a column as text."""
    if dialect is not TextFormat.CSV:
        return _value(array, column, dialect)
    text = _csv_value(array, column)
    special = pc.match_substring_regex(text, _ODD_IN_CSV)
    if not pc.any(special).as_py():
        return text
    return pc.if_else(special, _quoted(pc.replace_substring(text, '"', '""')), text)


def _csv_value(array: Any, column: TableColumn) -> Any:
    """Format a CSV value: groups and records as JSON, but MaturityMonthYear as in FIX."""
    if is_month_year(column):
        return _month_year(array)
    if column.repeats or column.children:
        return _value(array, column, TextFormat.JSON)
    if pa.types.is_string(array.type):
        return array
    if pa.types.is_binary(array.type):
        return _hexadecimal(array)
    reading = column.reading
    match None if reading is None else reading.kind:
        case ValueKind.ENUM | ValueKind.DATE | ValueKind.FLOAT:
            return array.cast(pa.string())
        case ValueKind.NUMBERS:
            return _numbers(array, TextFormat.JSON)
        case _:
            return numbers_text(array, 0 if reading is None else reading.scale)


def _value(array: Any, column: TableColumn, dialect: TextFormat) -> Any:
    if column.repeats:
        return _group(array, column, dialect)
    reading = column.reading
    if reading is None:
        return _words(array, dialect)
    match reading.kind:
        case ValueKind.RECORD:
            return _record(array, column, dialect)
        case ValueKind.ENUM:
            return _enumeration(array, column, dialect)
        case ValueKind.SET if dialect is TextFormat.TEXT:
            return _set_names(array, reading)
        case ValueKind.TIME if dialect is TextFormat.TEXT:
            if reading.duration:
                return pc.binary_join_element_wise(numbers_text(array), reading.unit, "")
            return time_text(array, reading.unit)
        case ValueKind.DECIMAL:
            text = numbers_text(array, reading.scale)
            return _quoted(text) if dialect is TextFormat.JSON else text
        case ValueKind.DATE:
            text = array.cast(pa.string())
            return _quoted(text) if dialect is TextFormat.JSON else text
        case ValueKind.FLOAT:
            return changed(array.cast(pa.string()), "[a-df-z]", lambda value: f'"{value}"')
        case ValueKind.NUMBERS:
            return _numbers(array, dialect)
        case ValueKind.TEXT | ValueKind.BYTES:
            return _words(array, dialect)
        case _:
            return numbers_text(array)


def numbers_text(array: Any, scale: int = 0) -> Any:
    """Format integers or 64-bit decimals with `scale` digits after the point."""
    if pa.types.is_decimal(array.type):
        array = pa.Array.from_buffers(
            pa.int64(), len(array), array.buffers(), array.null_count, array.offset
        )
    else:
        array = array.cast(pa.int64())
    valid = array.buffers()[0]
    values = np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)
    sizes = np.empty(len(values), np.int64)
    _kernels.number_sizes(values, scale, sizes)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    _kernels.write_numbers(values, scale, offsets, out)
    if array.offset and valid is not None:
        packed = np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        valid = pa.py_buffer(packed)
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(array), buffers, array.null_count)


def time_text(array: Any, unit: str = "ns") -> Any:
    """Format times as ``2026-05-21T13:00:00.000000001Z``; outside years 1 to 9999, as numbers."""
    factor = PER_SECOND[unit]
    low, high = FIRST_SECOND * factor, (LAST_SECOND + 1) * factor - 1
    if unit != "ns":
        outside = pc.or_(pc.less(array, low), pc.greater(array, high))
        if pc.any(outside).as_py():
            inside = time_text(pc.if_else(outside, pa.scalar(None, pa.int64()), array), unit)
            return pc.coalesce(inside, numbers_text(array))
    text = array.cast(pa.timestamp(unit)).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", "")


def is_month_year(column: TableColumn) -> bool:
    """Whether a column is a record of year, month, day and week."""
    return tuple(child.column for child in column.children) == MONTH_YEAR


def _month_year(array: Any) -> Any:
    """Format records of year, month, day and week as FIX does: 202605, 20260521, 202605w2."""
    parts = [
        pc.utf8_lpad(numbers_text(part), width, "0")
        for part, width in zip(array.flatten(), (4, 2, 2, 1), strict=True)
    ]
    year, month, day, week = parts
    week = pc.coalesce(pc.binary_join_element_wise("w", week, ""), "")
    text = pc.binary_join_element_wise(
        pc.coalesce(year, "0000"), pc.coalesce(month, "00"), pc.coalesce(day, ""), week, ""
    )
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _record(array: Any, column: TableColumn, dialect: TextFormat) -> Any:
    if dialect is TextFormat.TEXT and is_month_year(column):
        return _month_year(array)
    text = objects_text(array.flatten(), column.children, dialect, len(array))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _group(array: Any, column: TableColumn, dialect: TextFormat) -> Any:
    entries = array.values
    parts = [entries.field(index) for index in range(len(column.children))]
    text = objects_text(parts, column.children, dialect, len(entries))
    joined = _joined(array.offsets, text, dialect)
    if dialect is TextFormat.TEXT:  # omit empty groups
        empty = pc.equal(pc.list_value_length(array), 0)
        return pc.if_else(empty, pa.scalar(None, pa.string()), joined)
    return joined


def _joined(offsets: Any, text: Any, dialect: TextFormat) -> Any:
    """Join lists of strings, in brackets."""
    lists = pa.ListArray.from_arrays(offsets, text)
    joined = pc.binary_join(lists, " " if dialect is TextFormat.TEXT else ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def objects_text(
    arrays: list[Any], columns: tuple[TableColumn, ...], dialect: TextFormat, count: int
) -> Any:
    """Format named values in braces; nulls are omitted in the text dialect."""
    if not columns:
        return pa.array(["{}"] * count, pa.string())
    if dialect is TextFormat.TEXT:
        # The join drops rows in which everything is null: the leading empty string prevents it.
        inner = pc.binary_join_element_wise(
            "", *named_texts(arrays, columns), " ", null_handling="skip"
        )
        inner = pc.ascii_ltrim_whitespace(inner)
        return pc.binary_join_element_wise("{", inner, "}", "")
    parts: list[Any] = []
    sign = "{"
    for array, column in zip(arrays, columns, strict=True):
        value = column_text(array, column, TextFormat.JSON)
        parts += [f"{sign}{json.dumps(column.name)}:", pc.coalesce(value, "null")]
        sign = ","
    return pc.binary_join_element_wise(*parts, "}", "")


def named_texts(arrays: list[Any], columns: tuple[TableColumn, ...]) -> list[Any]:
    """Return columns of ``name=value``, null where the value is null."""
    return [
        pc.binary_join_element_wise(
            f"{column.name}=", column_text(array, column, TextFormat.TEXT), ""
        )
        for array, column in zip(arrays, columns, strict=True)
    ]


def _enumeration(array: Any, column: TableColumn, dialect: TextFormat) -> Any:
    if dialect is TextFormat.TEXT:
        return array.cast(pa.string())
    # Values without a name are numbers, which are not quoted.
    known = set(column.names)
    names = [n if n not in known else json.dumps(n) for n in array.dictionary.to_pylist()]
    quoted = pa.DictionaryArray.from_arrays(array.indices, pa.array(names, pa.string()))
    return quoted.cast(pa.string())


def _set_names(array: Any, reading: ValueSpec) -> Any:
    """Return the names of set bits; formatted once per distinct value, as there are few."""
    assert reading.set is not None
    encoded = array.dictionary_encode()
    names = [
        "|".join(reading.set.names(number)) or "0" for number in encoded.dictionary.to_pylist()
    ]
    texts = pa.array(names, pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, texts).cast(pa.string())


def _numbers(array: Any, dialect: TextFormat) -> Any:
    width = array.type.list_size
    offsets = pa.array(np.arange(0, len(array) * width + 1, width, dtype=np.int32))
    flat = array.values.slice(array.offset * width, len(array) * width)
    text = flat.cast(pa.string()) if pa.types.is_floating(flat.type) else numbers_text(flat)
    return _joined(offsets, text, dialect)


def _hexadecimal(array: Any) -> Any:
    values = [None if value is None else value.hex() for value in array.to_pylist()]
    return pa.array(values, pa.string())


def _words(array: Any, dialect: TextFormat) -> Any:
    """Format text, and bytes as hexadecimal digits."""
    if pa.types.is_binary(array.type):
        array = _hexadecimal(array)
    if dialect is TextFormat.TEXT:
        return changed(array, _ODD_IN_TEXT, shown)
    if pc.any(pc.match_substring_regex(array, _ODD_IN_JSON)).as_py():
        return changed(array, "", lambda value: plain(json.dumps(value, ensure_ascii=False)))
    if pc.any(pc.match_substring_regex(array, r'["\\]')).as_py():
        array = pc.replace_substring(pc.replace_substring(array, "\\", r"\\"), '"', r"\"")
    return _quoted(array)


def _quoted(array: Any) -> Any:
    return pc.binary_join_element_wise('"', array, '"', "")


def changed(array: Any, pattern: str, change: Callable[[str], str]) -> Any:
    """Apply `change` to the strings that match `pattern`."""
    matching = pc.match_substring_regex(array, pattern)
    if not pc.any(matching).as_py():
        return array
    values = [
        change(value) if matches else value
        for value, matches in zip(array.to_pylist(), matching.to_pylist(), strict=True)
    ]
    return pa.array(values, pa.string())
