"""Messages of the legacy feed as rows of tables: one table per message type, for all its templates.

A row is an entry of the message's repeating group (MDEntries, RelatedSym) together with the fields
of the message; a message without a group, or without entries, is one row. All decimals have one
scale. Groups nested in entries (legs, underlyings, attributes) are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.fast.arrow import RowColumns
from pregao.fast.columns import FastColumnDecoder, FastMessageColumns
from pregao.fast.model import Template, Templates
from pregao.legacy import _kernels
from pregao.legacy.messages import MsgType, message_type
from pregao.sbe.model import snake_case
from pregao.schemas.fast_templates import bundled_templates

SCALE: Final = 8
"""Digits after the decimal point of every decimal column."""
DIGITS: Final = 28
"""Digits of every decimal column: amounts of money need more than ten before the point."""
DECIMAL = pa.decimal128(DIGITS, SCALE)
NAMES: Final[Mapping[MsgType, str]] = {
    MsgType.INCREMENTAL_REFRESH: "incremental_refresh",
    MsgType.SNAPSHOT: "snapshot_full_refresh",
    MsgType.SECURITY_LIST: "security_list",
    MsgType.SECURITY_STATUS: "security_status",
    MsgType.NEWS: "news",
    MsgType.HEARTBEAT: "heartbeat",
    MsgType.SEQUENCE_RESET: "sequence_reset",
    MsgType.LOGON: "logon",
    MsgType.LOGOUT: "logout",
    MsgType.REQUEST_REJECT: "request_reject",
    MsgType.NON_FIX: "non_fix",
    MsgType.OTHER: "other",
}
"""Table name of each message type."""
REPEATED: Final = ("MDEntries", "RelatedSym")
"""Groups whose entries become rows; RelatedSym of news stays with its message."""
FEW_VALUES: Final = frozenset(
    {"MDEntryType", "MDEntryBuyer", "MDEntrySeller", "QuoteCondition", "TradeCondition"}
)
"""Texts of entries with few distinct values: stored as dictionaries."""


@dataclass(frozen=True, slots=True)
class LegacyTable:
    """The columns of a message type's table."""

    name: str
    columns: tuple[tuple[str, str, Any], ...]
    """Column name, field name, Arrow type."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _, _ in self.columns]


def column_name(field: str) -> str:
    """Return the column of a field: ``MDEntryPx`` → ``md_entry_px``, ``ApplIDs`` → ``appl_ids``."""
    return snake_case(field.replace("IDs", "Ids"))


def repeated_of(template: Template) -> str | None:
    """Return the group whose entries are the rows of a template's messages; None if none."""
    kind = message_type(template)
    if kind in (MsgType.INCREMENTAL_REFRESH, MsgType.SNAPSHOT):
        return REPEATED[0]
    return REPEATED[1] if kind is MsgType.SECURITY_LIST else None


def _fields(decoder: FastColumnDecoder, template: Template) -> dict[str, Any]:
    """Return the fields of a template's rows and their types; an entry's replace the message's."""
    schema, repeated = decoder.schema(template), repeated_of(template)
    types = {field.name: field.type for field in schema if field.name != repeated}
    if repeated is not None:
        types |= {field.name: field.type for field in schema.field(repeated).type.value_type}
    return {name: _held(kind) for name, kind in types.items()}


def _held(kind: Any) -> Any:
    if pa.types.is_list(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return DECIMAL
    return pa.int64() if pa.types.is_integer(kind) else kind


def tables_of(templates: Templates) -> dict[MsgType, LegacyTable]:
    """Return the tables of templates; a field with different types in them is a string."""
    decoder = FastColumnDecoder(templates, reset_each_message=True)
    by_type: dict[MsgType, dict[str, Any]] = {}
    for template in sorted(templates.by_id.values(), key=lambda each: -(each.id or 0)):
        columns = by_type.setdefault(message_type(template), {})
        for name, kind in _fields(decoder, template).items():
            present = columns.get(name)
            columns[name] = kind if present in (None, kind) else pa.string()
    return {
        kind: LegacyTable(
            NAMES[kind],
            tuple((column_name(name), name, held) for name, held in columns.items()),
        )
        for kind, columns in by_type.items()
    }


@cache
def bundled_tables() -> dict[MsgType, LegacyTable]:
    """The tables of the bundled templates."""
    return tables_of(bundled_templates())


@dataclass(slots=True)
class _Column:
    """Source of the values of a column."""

    field: str
    held: Any
    of_messages: bool = True
    empty: bool = False
    """No row has a value."""
    scaled: tuple[Int64Array, npt.NDArray[np.bool_]] | None = None
    """Decimals at the common scale, and which ones are present."""
    made: Any = None
    """Converted values of all messages or entries; None if they are read unconverted."""


@dataclass(slots=True)
class LegacyRows:
    """Rows of a table: the message and entry index of each row, and access to their values."""

    message: Int64Array
    """Index among the messages of the template."""
    entry: Int64Array
    unfit: Int64Array
    """Messages with a number that does not fit its column."""
    _messages: RowColumns
    _entries: RowColumns | None
    _entry_of: Int64Array | None
    """Index of each row among all entries; -1 for a message without entries. None if each row is
    one entry, in order."""
    _columns: list[_Column]

    def column(self, at: int, chosen: Int64Array) -> Any:
        """Return one column of the selected rows."""
        return self._values([self._columns[at]], chosen)[0]

    def columns(self, chosen: Int64Array) -> list[Any]:
        """Return all columns of the selected rows."""
        return self._values(self._columns, chosen)

    def filled(self) -> list[int]:
        """Return the indices of the columns that have values in any row."""
        return [at for at, column in enumerate(self._columns) if not column.empty]

    def some(self, indices: list[int], chosen: Int64Array) -> list[Any]:
        """Return some columns of the selected rows; texts of `FEW_VALUES` as dictionaries."""
        return self._values([self._columns[at] for at in indices], chosen, in_dictionaries=True)

    def _values(
        self, columns: list[_Column], chosen: Int64Array, *, in_dictionaries: bool = False
    ) -> list[Any]:
        entries = chosen if self._entry_of is None else self._entry_of[chosen]
        indices = {True: self.message[chosen], False: entries}
        sources: dict[bool, RowColumns] = {}

        def source(*, of_messages: bool) -> RowColumns:
            if of_messages not in sources:
                all_rows = self._messages if of_messages else self._entries
                assert all_rows is not None
                sources[of_messages] = all_rows.chosen(indices[of_messages])
            return sources[of_messages]

        arrays = []
        for column in columns:
            rows = indices[column.of_messages]
            with_nulls = self._entry_of is not None and not column.of_messages
            few = in_dictionaries and column.field in FEW_VALUES and column.held == pa.string()
            if column.empty:
                arrays.append(nulls(len(chosen), column.held))
                continue
            if column.made is not None:
                values = _take(column.made, rows)
            elif column.scaled is not None:
                values = _decimals(*column.scaled, rows)
            elif with_nulls:
                assert self._entries is not None
                values = _take(_as_type(self._entries.array(column.field), column.held), rows)
            elif few:
                arrays.append(source(of_messages=column.of_messages).dictionary(column.field))
                continue
            else:
                values = source(of_messages=column.of_messages).array(column.field)
            arrays.append(values.dictionary_encode() if few else _as_type(values, column.held))
        return arrays


def rows_of(table: LegacyTable, template: Template, found: FastMessageColumns) -> LegacyRows:
    """Return the rows of a template's messages among those that were decoded."""
    repeated = repeated_of(template)
    messages, entries = found.rows(template), None
    count = messages.count
    message = np.arange(count, dtype=np.int64)
    entry, entry_of = np.zeros(count, np.int64), None
    if repeated is not None:
        entries = messages.entries(repeated)
        sizes = messages.sizes(repeated)
        if len(sizes) and not sizes.all():  # a message without entries still has a row
            rows = np.maximum(sizes, 1)
            without_entries = np.repeat(sizes == 0, rows)
            entry_of = np.where(without_entries, -1, np.cumsum(~without_entries) - 1)
            sizes = rows
        if sizes.max(initial=1) > 1:
            message = np.repeat(message, sizes)
            entry = np.arange(len(message)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    unfit = np.zeros(count, np.bool_)
    unfit_entries = np.zeros(0 if entries is None else entries.count, np.bool_)
    columns = [
        _column(_Column(name, held, of_messages=False), entries, unfit_entries)
        if entries is not None and name in entries
        else _column(_Column(name, held), messages, unfit)
        for _, name, held in table.columns
    ]
    bad = np.flatnonzero(unfit_entries)
    if len(bad):
        own = bad if entry_of is None else np.flatnonzero(entry_of >= 0)[bad]
        unfit[message[own]] = True
    return LegacyRows(message, entry, np.flatnonzero(unfit), messages, entries, entry_of, columns)


_NULLS: dict[Any, Any] = {}


def nulls(count: int, kind: Any) -> Any:
    """Return a column of nulls, cached: most columns are null, and allocating each is slow."""
    cached = _NULLS.get(kind)
    if cached is None or len(cached) < count:
        cached = _NULLS[kind] = pa.nulls(max(count, 1024), kind)
    return cached.slice(0, count)


def _column(column: _Column, values: RowColumns, unfit: npt.NDArray[np.bool_]) -> _Column:
    """Prepare a column; mark the messages or entries with a number that does not fit."""
    field, held = column.field, column.held
    if not values.has(field):
        column.empty = True
        return column
    kind = values.kind(field)
    if pa.types.is_list(kind):
        column.made = _as_json(values.array(field))
    elif pa.types.is_struct(kind):
        _scale(column, values, unfit)
    elif pa.types.is_uint64(kind) and held == pa.int64():
        if values.numbers(field).min() < 0:  # above 63 bits, or garbage of a rejected message
            unfit |= values.array(field).fill_null(0).to_numpy() >> np.uint64(63) != 0
    elif kind != held:
        column.made = values.array(field).cast(held)
    return column


def _as_type(values: Any, held: Any) -> Any:
    """Reinterpret numbers that are known to fit as the type of their column."""
    return values if values.type == held else values.view(held)


def _take(values: Any, rows: Int64Array) -> Any:
    """Select values by index; null where the index is -1."""
    absent = rows < 0
    return values.take(pa.array(rows, mask=absent if absent.any() else None))


def _scale(column: _Column, values: RowColumns, unfit: npt.NDArray[np.bool_]) -> None:
    """Rescale decimals, each with its own exponent, to the common scale."""
    exponents, mantissas, there = values.decimals(column.field)
    out, failed = np.empty(len(there), np.int64), np.zeros(len(there), np.bool_)
    if not _kernels.scale_decimals(exponents, mantissas, there, SCALE, out, failed):
        column.scaled = out, there
        if column.held == DECIMAL:
            return
    words = np.stack([out, out >> 63], axis=1)
    for row in np.flatnonzero(failed).tolist():
        large = _large(int(mantissas[row]), int(exponents[row]))
        unfit[row] |= large is None
        words[row] = (0, 0) if large is None else large
    valid = pa.array(out, mask=None if there.all() else ~there)
    buffers = [valid.buffers()[0], pa.py_buffer(words)]
    decimals = pa.Array.from_buffers(DECIMAL, len(out), buffers, valid.null_count)
    column.made = decimals if column.held == DECIMAL else decimals.cast(column.held)


def _decimals(scaled: Int64Array, there: npt.NDArray[np.bool_], rows: Int64Array) -> Any:
    """Select scaled decimals by index, as a column."""
    words = np.empty((len(rows), 2), np.int64)
    bitmap = np.empty(len(rows) + 7 >> 3, np.uint8)
    missing = int(_kernels.chosen_decimals(scaled, there, rows, words, bitmap))
    buffers = [pa.py_buffer(bitmap) if missing else None, pa.py_buffer(words)]
    return pa.Array.from_buffers(DECIMAL, len(rows), buffers, missing)


def _large(mantissa: int, exponent: int) -> tuple[int, int] | None:
    """Return a decimal beyond 64 bits as two words; None if it does not fit the columns."""
    number = Decimal(mantissa).scaleb(exponent + SCALE, _WIDE)
    whole = int(number)
    if whole != number or abs(whole) >= 10**DIGITS:
        return None
    low, high = whole & ((1 << 64) - 1), whole >> 64
    return low - (1 << 64) if low >> 63 else low, high


_WIDE = Context(prec=128)


def _as_json(values: Any) -> Any:
    return pa.array(
        [None if each is None else json.dumps(_plain(each)) for each in values.to_pylist()],
        pa.string(),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        if value.keys() == {"exponent", "mantissa"}:
            return str(Decimal(value["mantissa"]).scaleb(value["exponent"]))
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return value
