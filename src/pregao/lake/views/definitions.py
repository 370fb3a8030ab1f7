"""Definitions of the views: the columns of a table plus derived columns.

The view of a table is named after it, with the prefix ``v_``. It has all rows and columns of the
table, and

- ``symbol`` next to ``security_id``, from the instruments of the day;
- a timestamp next to each time in nanoseconds or seconds;
- ``…_names`` next to each set of flags, with the schema's names;
- in `latency` the times that the table has as durations;
- in `ticks` and `trades` the state of the instrument at that time: phase, status, continuous
  trading.

A flag that other schema versions name differently is named by the version of its message. A flag
without a name, or of an unknown version, is shown as its number.

Definitions follow the columns that the tables of a lake have, so old lakes have views too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow as pa

from pregao.errors import UsageError
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import comment_of, type_name
from pregao.lake.storage.lake_store import LakeStore
from pregao.sbe.model import SetType
from pregao.sbe.value_specs import ValueKind, readings
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION

VERSION = "schema_version"
_COPIES = {"original_trade_condition": "trade_condition"}
"""Analytics columns that copy another column, with that column."""

PREFIX = "v_"
INSTRUMENTS = "instruments"
STATUS = "status"
_KEY = (DATE, "channel", "security_id")
DURATIONS = frozenset({
    "aggressor_ns", "capture_span_ns", "clock_offset_ns", "engine_ns", "feed_difference_ns",
    "lifetime_ns", "max_ns", "median_ns", "min_ns", "network_ns", "network_raw_ns", "offset_ns",
    "publish_ns", "send_span_ns",
})  # fmt: skip
"""Columns in nanoseconds that are durations; all other int64 columns in nanoseconds are times."""
_ENDS_AS_A_TIME = re.compile(r"(time|timestamp|_at|^t\d+|_t\d+)$")
_HELD = {
    "phase": ("STRING", "Phase of the security group at that time."),
    "status": ("STRING", "Status of the instrument at that time: its own state, or the phase."),
    "trades_continuously": ("BOOLEAN", "Whether orders trade immediately then; false in auctions."),
}

_TIMES = {
    "latency": {
        "aggressor_time_ns": (
            "t11_ns - aggressor_ns", "T4 of the aggressor, from the event's summary.",
        ),
        "t5_ns": (
            "t11_ns - engine_ns",
            "T5: the event happened; null where no message states it reliably.",
        ),
        "t10_ns": (
            "t11_ns - publish_ns", "T10: its first message with such a time was written.",
        ),
        "last_t11_ns": ("t11_ns + send_span_ns", "T11 of its last packet."),
        "capture_time_ns": (
            "t11_ns + network_raw_ns", "First capture time of its first packet.",
        ),
        "last_capture_time_ns": (
            "t11_ns + network_raw_ns + capture_span_ns",
            "First capture time of its last packet.",
        ),
    }
}  # fmt: skip
"""Times of a table that it has as durations: their expressions and comments."""

_WORD = re.compile(r"[a-z][a-z0-9_]*")
_FUNCTIONS = frozenset({"coalesce"})


# --- Columns and views ---


class TimeUnit(Enum):
    """Unit of a time column, which counts from 1970."""

    NANOSECONDS = "ns"
    SECONDS = "s"


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """A column of the table."""

    name: str


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """A time column of the table as a timestamp."""

    of: str
    unit: TimeUnit
    sql: str = ""
    """Expression over the table's columns, if ``of`` is no column."""


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """An SQL expression over the table's columns, valid in every engine."""

    sql: str
    kind: str = "string"


@dataclass(frozen=True, slots=True)
class LookupColumn:
    """A looked-up column; null if the lake has no such table or column."""

    name: str
    kind: str
    """SQL name of its type."""
    there: bool


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view, with its comment."""

    name: str
    value: OwnColumn | TimestampColumn | SqlExpression | LookupColumn
    comment: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """A lookup of a row's instrument in another table.

    Without ``order`` it finds the instrument's row of the day. With it, it is an as-of join: it
    finds the last row of the other table whose event key (``theirs``) is not after the row's
    (``ours``).
    """

    table: str
    takes: tuple[str, ...]
    ours: str = ""
    theirs: str = ""
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A view: its table, its columns in order, and the lookups they need."""

    name: str
    table: str
    columns: tuple[ViewColumn, ...]
    lookups: tuple[Lookup, ...]


def _position(index: str) -> str:
    return (
        f"CAST(sequence_version AS BIGINT) * {EVENT_VERSION} + sequence_number * {EVENT_NUMBER} "
        f"+ {index}"
    )


_MESSAGE = _position("index_in_packet")
_AFTER = _position(str(EVENT_NUMBER - 1))
"""Event key after the last message of a packet, where a snapshot was loaded."""
_IN_ORDER = (f"coalesce({_MESSAGE}, 0)", "coalesce(from_ns, 0)")
_PHASES = {
    # A tick is the book after its event, so a change of phase at the event's end applies to it.
    "ticks": Lookup(
        STATUS, tuple(_HELD), f"coalesce(event, {_AFTER})", "coalesce(event, 0)", _IN_ORDER
    ),
    # The trades that end an auction precede the message that publishes its end.
    "trades": Lookup(STATUS, tuple(_HELD), _MESSAGE, f"coalesce({_MESSAGE}, 0)", _IN_ORDER),
}
_SYMBOL = Lookup(INSTRUMENTS, ("symbol",))


# --- Definition ---


def view_names(tables: Iterable[str]) -> dict[str, str]:
    """Return the view names over some tables, mapped to their tables."""
    known = set(tables)
    return {name: table for table in sorted(known) if (name := f"{PREFIX}{table}") not in known}


def define_view(lake: LakeStore, name: str) -> View:
    """Return a view by name (``v_trades``), according to the lake's current tables."""
    return define_views(lake, [name])[0]


def define_views(
    lake: LakeStore, names: Iterable[str], tables: Collection[str] | None = None
) -> list[View]:
    """Return views by name; ``tables`` are the lake's tables, if already listed."""
    known = view_names(lake.table_names() if tables is None else tables)
    others: dict[str, frozenset[str]] | None = None
    found = []
    for name in names:
        if name not in known:
            raise UsageError(
                f"{lake.location} has no view {name}; it has {', '.join(known) or 'no views'}."
            )
        if others is None:
            available = {INSTRUMENTS, STATUS}.intersection(known.values())
            others = {other: frozenset(lake.schema(other).names) for other in available}
        found.append(view_of(known[name], lake.schema(known[name]), others))
    return found


def view_of(table: str, schema: Any, others: Mapping[str, frozenset[str]]) -> View:
    """Return the view of a table with this schema; ``others`` are columns of other tables."""
    names = frozenset(schema.names)
    lookups: list[Lookup] = []
    columns: list[ViewColumn] = []

    def add(column: ViewColumn) -> None:
        # A column of the table takes precedence over a derived one of the same name.
        if column.name not in names:
            columns.append(column)

    for field in schema:
        columns.append(ViewColumn(field.name, OwnColumn(field.name), comment_of(field)))
        if field.name == "security_id" and "symbol" not in names and names.issuperset(_KEY):
            there = _answers(_SYMBOL, others)
            lookups += [_SYMBOL] if there else []
            add(
                ViewColumn(
                    "symbol", LookupColumn("symbol", "STRING", there), "Symbol of the instrument."
                )
            )
        if (unit := moment_unit(field)) is not None:
            comment = f"{comment_of(field)} As a timestamp, UTC."
            add(ViewColumn(moment_name(field.name), TimestampColumn(field.name, unit), comment))
        if field.name in set_columns() and pa.types.is_integer(field.type):
            text = names_text(field.name, versioned=VERSION in names)
            comment = f"Names of the flags of {field.name}, separated by |."
            add(ViewColumn(f"{field.name}_names", SqlExpression(text), comment))
    for name, (sql, comment) in _TIMES.get(table, {}).items():
        if names.issuperset(_needed(sql)) and name not in names:
            add(ViewColumn(name, SqlExpression(sql, "bigint"), comment))
            time = TimestampColumn(name, TimeUnit.NANOSECONDS, sql)
            add(ViewColumn(moment_name(name), time, f"{comment} As a timestamp, UTC."))
    phases = _PHASES.get(table)
    if phases is not None and names.issuperset((*_KEY, "symbol", *_needed(phases.ours))):
        there = _answers(phases, others)
        lookups += [phases] if there else []
        after_symbol = schema.names.index("symbol") + 1
        columns[after_symbol:after_symbol] = [
            ViewColumn(name, LookupColumn(name, kind, there), comment)
            for name, (kind, comment) in _HELD.items()
            if name not in names
        ]
    return View(f"{PREFIX}{table}", table, tuple(columns), tuple(lookups))


def own_columns(view: View) -> dict[str, str]:
    """Return the view columns that are table columns, mapped to their table names."""
    return {one.name: one.value.name for one in view.columns if isinstance(one.value, OwnColumn)}


def needed_tables(view: View) -> list[str]:
    """Return the tables that a view reads."""
    return [view.table, *(lookup.table for lookup in view.lookups)]


def moment_unit(field: Any) -> TimeUnit | None:
    """Return the unit of a time column; None if the column has no times."""
    if not pa.types.is_int64(field.type) or field.name in DURATIONS:
        return None
    return next((unit for unit in TimeUnit if field.name.endswith(f"_{unit.value}")), None)


def moment_name(column: str) -> str:
    """Return the name of a time column's timestamp: ``sending_time_ns`` → ``sending_time``."""
    stem = column.rpartition("_")[0]
    return stem if _ENDS_AS_A_TIME.search(stem) else f"{stem}_time"


def view_columns(lake: LakeStore, name: str) -> list[tuple[str, str, str]]:
    """Return a view's columns: name, type, comment."""
    view = define_view(lake, name)
    schema = lake.schema(view.table)
    return [(column.name, column_type(column, schema), column.comment) for column in view.columns]


def column_type(column: ViewColumn, schema: Any) -> str:
    """Return the SQL type of a view's column; ``schema`` is that of the view's table."""
    match column.value:
        case OwnColumn(name):
            return type_name(schema.field(name).type)
        case TimestampColumn():
            return "timestamp"
        case SqlExpression(_, kind):
            return kind
        case LookupColumn(_, kind, _):
            return kind.lower()


def key_columns() -> tuple[str, ...]:
    """Return the join columns of lookups, which identify an instrument on a day."""
    return _KEY


def _answers(lookup: Lookup, others: Mapping[str, frozenset[str]]) -> bool:
    """Whether the other table has all columns that the lookup needs."""
    columns = others.get(lookup.table)
    if columns is None:
        return False
    needed = {*_KEY, *lookup.takes}
    for text in (lookup.theirs, *lookup.order):
        needed |= _needed(text)
    return columns.issuperset(needed)


def _needed(text: str) -> set[str]:
    """Return the columns that an expression uses."""
    return set(_WORD.findall(text)) - _FUNCTIONS


# --- Names of flags ---


@cache
def set_columns() -> dict[str, str]:
    """Return the columns that contain sets, with the names of their types."""
    found: dict[str, str] = {}
    registry = Registry.bundled()
    for version in registry.versions(UMDF_SCHEMA_ID):
        for message in registry.get(UMDF_SCHEMA_ID, version).messages:
            for reading in readings(message):
                if reading.kind is ValueKind.SET and reading.set is not None:
                    found[reading.column] = reading.set.name
    return found | {copy: found[of] for copy, of in _COPIES.items()}


def names_text(column: str, *, versioned: bool) -> str:
    """Return an SQL expression for the names of a column's flags, separated by a bar.

    ``versioned`` is whether the table has the schema version of each row.
    """
    parts = [
        f"CASE WHEN ({column} & {1 << bit}) <> 0 THEN {_name_text(bit, names, versioned)} END"
        for bit, names in enumerate(_names_by_bit(set_columns()[column]))
    ]
    return f"CASE WHEN {column} IS NOT NULL THEN concat_ws('|', {', '.join(parts)}) END"


def _name_text(bit: int, names: list[tuple[int, str]], versioned: bool) -> str:
    """Return the SQL for one flag's name; if the name changed, by the row's version."""
    if len(names) == 1:
        return f"'{names[0][1]}'"
    if not versioned:
        return f"'{bit}'"
    *newer, oldest = reversed(names)
    cases = "".join(f" WHEN {VERSION} >= {since} THEN '{name}'" for since, name in newer)
    # Without a version the name is ambiguous.
    return f"CASE{cases} WHEN {VERSION} IS NOT NULL THEN '{oldest[1]}' ELSE '{bit}' END"


@cache
def _names_by_bit(set_name: str) -> list[list[tuple[int, str]]]:
    """Return, for each bit of a set, its names and the version since which each is valid."""
    registry = Registry.bundled()
    versions = sorted(registry.versions(UMDF_SCHEMA_ID))
    found = [registry.get(UMDF_SCHEMA_ID, version).types[set_name] for version in versions]
    sets = [kind for kind in found if isinstance(kind, SetType)]
    width = 8 * max(kind.size for kind in sets)
    result = []
    for bit in range(width):
        named = [
            (next((choice.name for choice in kind.choices if choice.bit == bit), str(bit)), version)
            for kind, version in zip(sets, versions, strict=True)
        ]
        runs = groupby(named, key=lambda pair: pair[0])
        result.append([(min(version for _, version in run), name) for name, run in runs])
    return result
