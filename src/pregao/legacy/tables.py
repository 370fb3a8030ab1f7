"""Messages of the legacy feed as rows of tables: one table for each message, over its templates.

A row is an entry of what the message repeats (MDEntries, RelatedSym), with the message's own fields
beside it; a message that repeats nothing, or has no entry, is one row. Decimals have one scale.
What entries repeat themselves (legs, underlyings, attributes) is JSON.
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

from pregao.fast import ColumnDecoder, Template, Templates
from pregao.legacy import _kernels
from pregao.legacy.messages import MsgType, message_type
from pregao.sbe.names import snake_case
from pregao.schemas import bundled_templates

SCALE: Final = 8
"""Digits behind the point of every decimal column."""
DIGITS: Final = 28
"""Digits of every decimal column: volumes in money go beyond ten before the point."""
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
"""What each message is called in tables."""
REPEATED: Final = ("MDEntries", "RelatedSym")
"""What a row is one of; RelatedSym of news stays with its message."""
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LegacyTable:
    """The columns of a message's table."""

    name: str
    columns: tuple[tuple[str, str, Any], ...]
    """Name, name of the field, Arrow type."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _, _ in self.columns]


def column_name(field: str) -> str:
    """The column of a field: ``MDEntryPx`` → ``md_entry_px``, ``ApplIDs`` → ``appl_ids``."""
    return snake_case(field.replace("IDs", "Ids"))


def repeated_of(template: Template) -> str | None:
    """What the rows of a template's messages are one of."""
    kind = message_type(template)
    if kind in (MsgType.INCREMENTAL_REFRESH, MsgType.SNAPSHOT):
        return REPEATED[0]
    return REPEATED[1] if kind is MsgType.SECURITY_LIST else None


def _fields(decoder: ColumnDecoder, template: Template) -> dict[str, Any]:
    """The fields of a template's rows and what they hold; the entry's replace the message's."""
    schema, repeated = decoder.schema(template), repeated_of(template)
    found = {field.name: field.type for field in schema if field.name != repeated}
    if repeated is not None:
        found |= {field.name: field.type for field in schema.field(repeated).type.value_type}
    return {name: _held(kind) for name, kind in found.items()}


def _held(kind: Any) -> Any:
    if pa.types.is_list(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return DECIMAL
    return pa.int64() if pa.types.is_integer(kind) else kind


def tables_of(templates: Templates) -> dict[MsgType, LegacyTable]:
    """The tables of templates; a field that templates hold in different types is a text."""
    decoder = ColumnDecoder(templates, reset_each_message=True)
    found: dict[MsgType, dict[str, Any]] = {}
    for template in sorted(templates.by_id.values(), key=lambda each: -(each.id or 0)):
        columns = found.setdefault(message_type(template), {})
        for name, kind in _fields(decoder, template).items():
            known = columns.get(name)
            columns[name] = kind if known in (None, kind) else pa.string()
    return {
        kind: LegacyTable(
            NAMES[kind],
            tuple((column_name(name), name, held) for name, held in columns.items()),
        )
        for kind, columns in found.items()
    }


@cache
def bundled_tables() -> dict[MsgType, LegacyTable]:
    """The tables of the bundled templates."""
    return tables_of(bundled_templates())


@dataclass(slots=True)
class Rows:
    """Rows of a table: which message each is of, which of its entries, and what they hold."""

    message: Numbers
    """Among the messages of the template."""
    entry: Numbers
    unfit: Numbers
    """Messages with a number that no column holds."""
    _columns: list[tuple[Any, bool, Any]]
    """Of each column: its values (None if there are none), whether they are of messages, its
    type."""

    def column(self, at: int, chosen: Numbers) -> Any:
        """One column of some rows."""
        values, of_messages, held = self._columns[at]
        if values is None:
            return nulls(len(chosen), held)
        return values.take(pa.array(self.message[chosen] if of_messages else chosen))

    def columns(self, chosen: Numbers) -> list[Any]:
        """All columns of some rows."""
        of_messages, of_entries = pa.array(self.message[chosen]), pa.array(chosen)
        return [
            nulls(len(chosen), held)
            if values is None
            else values.take(of_messages if told else of_entries)
            for values, told, held in self._columns
        ]


def rows_of(table: LegacyTable, template: Template, batch: Any) -> Rows:
    """The rows of a template's messages, which are a record batch of `MessageColumns`."""
    repeated = repeated_of(template)
    count = batch.num_rows
    message = np.arange(count, dtype=np.int64)
    entry = np.zeros(count, np.int64)
    own: dict[str, Any] = {
        field.name: column
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if field.name != repeated
    }
    inner: dict[str, Any] = {}
    if repeated is not None:
        lists = batch.column(repeated)
        offsets = np.asarray(lists.offsets).astype(np.int64)
        sizes = np.diff(offsets)
        entries = lists.flatten()
        if len(sizes) and not sizes.all():  # a message without entries has a row all the same
            entries = entries.take(_with_nothing(sizes))
            sizes = np.maximum(sizes, 1)
        message = np.repeat(message, sizes)
        entry = np.arange(len(message)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        inner = dict(zip(entries.type.names, entries.flatten(), strict=True))
    unfit = np.zeros(count, np.bool_)
    unfit_rows = np.zeros(len(message), np.bool_)
    columns = [
        (_column(inner[name], held, unfit_rows), False, held)
        if name in inner
        else (_column(own.get(name), held, unfit), True, held)
        for _, name, held in table.columns
    ]
    unfit[message[unfit_rows]] = True
    return Rows(message, entry, np.flatnonzero(unfit), columns)


_NULLS: dict[Any, Any] = {}


def nulls(count: int, kind: Any) -> Any:
    """A column without values; most columns are, and making each anew would take long."""
    known = _NULLS.get(kind)
    if known is None or len(known) < count:
        known = _NULLS[kind] = pa.nulls(max(count, 1024), kind)
    return known.slice(0, count)


def _with_nothing(sizes: Numbers) -> Any:
    """Which entry each row has; none where a message has no entries."""
    rows = np.maximum(sizes, 1)
    nothing = np.repeat(sizes == 0, rows)
    return pa.array(np.cumsum(~nothing) - 1, mask=nothing)


def _column(values: Any, held: Any, unfit: npt.NDArray[np.bool_]) -> Any | None:
    """The values of a column as its type has them; None if there are none."""
    if values is None or values.null_count == len(values):
        return None
    if pa.types.is_list(values.type):
        return _as_json(values)
    if pa.types.is_struct(values.type):
        scaled = _scaled(values, unfit)
        return scaled if held == DECIMAL else scaled.cast(held)
    if pa.types.is_uint64(values.type) and held == pa.int64():
        large = values.fill_null(0).to_numpy() >> np.uint64(63)
        unfit |= large != 0
        return values.view(pa.int64())
    return values if values.type == held else values.cast(held)


def _scaled(values: Any, unfit: npt.NDArray[np.bool_]) -> Any:
    """Decimals with exponents of their own at one scale."""
    exponent, mantissa = values.field(0).fill_null(0), values.field(1).fill_null(0)
    exponents = np.array(exponent.to_numpy(zero_copy_only=False), np.int16)
    out = np.empty(len(values), np.int64)
    mantissas = mantissa.to_numpy(zero_copy_only=False).astype(np.int64)
    null = values.is_null().to_numpy(zero_copy_only=False)
    mantissas[null] = 0
    failed = _kernels.scale_decimals(exponents, mantissas, SCALE, out)
    words = np.stack([out, out >> 63], axis=1)
    if failed:
        for row in np.flatnonzero(exponents == _FAILED).tolist():
            large = _large(values[row].as_py())
            unfit[row] |= large is None
            words[row] = (0, 0) if large is None else large
    valid = pa.array(out, mask=null if null.any() else None)
    buffers = [valid.buffers()[0], pa.py_buffer(words)]
    return pa.Array.from_buffers(DECIMAL, len(out), buffers, valid.null_count)


_FAILED = 127


def _large(value: Mapping[str, int]) -> tuple[int, int] | None:
    """A decimal beyond 64 bits as two words; None if no column holds it."""
    number = Decimal(value["mantissa"]).scaleb(value["exponent"] + SCALE, _WIDE)
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
