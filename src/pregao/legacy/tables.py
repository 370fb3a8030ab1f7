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

from pregao.fast import ColumnDecoder, MessageColumns, Template, Templates
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
    """Rows of a table: which message each is of, which of its entries, and the columns."""

    message: Numbers
    """Among the messages of the template."""
    entry: Numbers
    columns: list[Any]
    unfit: Numbers
    """Messages with a number that no column holds."""


def rows_of(table: LegacyTable, template: Template, found: MessageColumns) -> Rows:
    """The rows of a template's messages."""
    batch = found.batch(template)
    repeated = repeated_of(template)
    count = batch.num_rows
    message = np.arange(count, dtype=np.int64)
    entry = np.zeros(count, np.int64)
    own: dict[str, Any] = {
        field.name: column
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if field.name != repeated
    }
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
        own = {name: column.take(pa.array(message)) for name, column in own.items()}
        own |= dict(zip(entries.type.names, entries.flatten(), strict=True))
    unfit = np.zeros(len(message), np.bool_)
    columns = [_column(own.get(name), held, len(message), unfit) for _, name, held in table.columns]
    return Rows(message, entry, columns, np.unique(message[unfit]))


def _with_nothing(sizes: Numbers) -> Any:
    """Which entry each row has; none where a message has no entries."""
    rows = np.maximum(sizes, 1)
    nothing = np.repeat(sizes == 0, rows)
    return pa.array(np.cumsum(~nothing) - 1, mask=nothing)


def _column(values: Any, held: Any, count: int, unfit: npt.NDArray[np.bool_]) -> Any:
    if values is None or values.null_count == count:
        return pa.nulls(count, held)
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
