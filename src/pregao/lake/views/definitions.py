"""What each view shows: the columns of its table, and beside them what people look for.

A view of a table is its name with ``v_`` before it. It has all rows and columns of the table, and

- ``symbol`` beside ``security_id``, from the instruments of the day;
- a timestamp beside each time in nanoseconds or seconds;
- ``…_names`` beside each set of flags;
- in `ticks` and `trades`, what held for the instrument then: phase, status, continuous trading.

Definitions are made from what the tables of a lake have, so that old lakes have views too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from pregao.errors import UsageError
from pregao.lake.ingest import type_name
from pregao.lake.store import DATE, Lake, comment_of
from pregao.lake.views.flags import VERSION, names_text, set_columns
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION

PREFIX = "v_"
INSTRUMENTS = "instruments"
STATUS = "status"
_KEY = (DATE, "channel", "security_id")
DURATIONS = frozenset({
    "feed_difference_ns", "clock_offset_ns", "lifetime_ns", "max_ns", "median_ns", "network_ns",
    "network_raw_ns", "offset_ns", "smallest_ns",
})  # fmt: skip
"""Columns in nanoseconds that are no moments; all other whole numbers of nanoseconds are."""
_ENDS_AS_A_TIME = re.compile(r"(time|timestamp|_at|^t\d+|_t\d+)$")


class Unit(Enum):
    """In what a moment is counted, from 1970 on."""

    NANOSECONDS = "ns"
    SECONDS = "s"


@dataclass(frozen=True, slots=True)
class Own:
    """A column of the table."""

    name: str


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment of the table as a timestamp."""

    of: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Text:
    """An expression of SQL over the table's columns that every engine reads."""

    sql: str


@dataclass(frozen=True, slots=True)
class Found:
    """A column that a lookup finds, or null where the lake has no such table or column."""

    name: str
    kind: str
    """How SQL names its type."""
    there: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view, and what it means."""

    name: str
    value: Own | Timestamp | Text | Found
    comment: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """What another table says of the instrument of a row.

    Without ``order``: what it says of the day. With it: what held at the row, which is the last one
    of the other table's rows whose place (``theirs``) is not behind the row's (``ours``).
    """

    table: str
    takes: tuple[str, ...]
    ours: str = ""
    theirs: str = ""
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A view: its table, its columns in order, and what is looked up for them."""

    name: str
    table: str
    columns: tuple[Column, ...]
    lookups: tuple[Lookup, ...]


def _place(index: str) -> str:
    return (
        f"CAST(sequence_version AS BIGINT) * {EVENT_VERSION} + sequence_number * {EVENT_NUMBER} "
        f"+ {index}"
    )


_MESSAGE = _place("index_in_packet")
_BEHIND = _place(str(EVENT_NUMBER - 1))
"""Behind the last message of a packet, where a snapshot was loaded."""
_HELD = {
    "phase": ("STRING", "Phase of the group then."),
    "status": ("STRING", "What held for the instrument then: its own state, or that phase."),
    "trades_continuously": ("BOOLEAN", "Would orders have traded at once? Not so in auctions."),
}
_IN_ORDER = (f"coalesce({_MESSAGE}, 0)", "coalesce(from_ns, 0)")
_PHASES = {
    # A tick tells the book after its event, and with it a change of phase at the event's end.
    "ticks": Lookup(
        STATUS, tuple(_HELD), f"coalesce(event, {_BEHIND})", "coalesce(event, 0)", _IN_ORDER
    ),
    # The trades that end an auction are ahead of the message that tells its end.
    "trades": Lookup(STATUS, tuple(_HELD), _MESSAGE, f"coalesce({_MESSAGE}, 0)", _IN_ORDER),
}
_SYMBOL = Lookup(INSTRUMENTS, ("symbol",))


def view_names(tables: Iterable[str]) -> dict[str, str]:
    """The views over some tables, each with its table."""
    known = set(tables)
    return {name: table for table in sorted(known) if (name := f"{PREFIX}{table}") not in known}


def define_view(lake: Lake, name: str) -> View:
    """A view by its name (``v_trades``), as the tables of the lake are now."""
    return define_views(lake, [name])[0]


def define_views(
    lake: Lake, names: Iterable[str], tables: Collection[str] | None = None
) -> list[View]:
    """Views by their names; ``tables`` are those of the lake, if they were listed before."""
    known = view_names(lake.table_names() if tables is None else tables)
    others: dict[str, frozenset[str]] | None = None
    found = []
    for name in names:
        if name not in known:
            raise UsageError(
                f"{lake.location} has no view {name}; it has {', '.join(known) or 'none at all'}."
            )
        if others is None:
            there = {INSTRUMENTS, STATUS}.intersection(known.values())
            others = {other: frozenset(lake.schema(other).names) for other in there}
        found.append(view_of(known[name], lake.schema(known[name]), others))
    return found


def view_of(table: str, schema: Any, others: Mapping[str, frozenset[str]]) -> View:
    """The view of a table with these columns; ``others`` are the columns of the other tables."""
    names = frozenset(schema.names)
    lookups: list[Lookup] = []
    columns: list[Column] = []

    def add(column: Column) -> None:
        # What a table has under that name already is the better answer.
        if column.name not in names:
            columns.append(column)

    for field in schema:
        columns.append(Column(field.name, Own(field.name), comment_of(field)))
        if field.name == "security_id" and "symbol" not in names and names.issuperset(_KEY):
            there = _answers(_SYMBOL, others)
            lookups += [_SYMBOL] if there else []
            add(Column("symbol", Found("symbol", "STRING", there), "Symbol of the instrument."))
        if (unit := moment_unit(field)) is not None:
            comment = f"{comment_of(field)} As a timestamp, UTC."
            add(Column(moment_name(field.name), Timestamp(field.name, unit), comment))
        if field.name in set_columns() and pa.types.is_integer(field.type):
            text = names_text(field.name, versioned=VERSION in names)
            comment = f"The flags of {field.name} by name, with | between them."
            add(Column(f"{field.name}_names", Text(text), comment))
    held = _PHASES.get(table)
    if held is not None and names.issuperset((*_KEY, "symbol", *_needed(held.ours))):
        there = _answers(held, others)
        lookups += [held] if there else []
        beside = schema.names.index("symbol") + 1
        columns[beside:beside] = [
            Column(name, Found(name, kind, there), comment)
            for name, (kind, comment) in _HELD.items()
            if name not in names
        ]
    return View(f"{PREFIX}{table}", table, tuple(columns), tuple(lookups))


def own_columns(view: View) -> dict[str, str]:
    """The columns of a view that are columns of its table, with their names there."""
    return {one.name: one.value.name for one in view.columns if isinstance(one.value, Own)}


def needed_tables(view: View) -> list[str]:
    """The tables that a view reads."""
    return [view.table, *(lookup.table for lookup in view.lookups)]


def moment_unit(field: Any) -> Unit | None:
    """In what the moments of a column are counted; None if it holds none."""
    if not pa.types.is_int64(field.type) or field.name in DURATIONS:
        return None
    return next((unit for unit in Unit if field.name.endswith(f"_{unit.value}")), None)


def moment_name(column: str) -> str:
    """The name of a moment's timestamp: ``sending_time_ns`` → ``sending_time``."""
    stem = column.rpartition("_")[0]
    return stem if _ENDS_AS_A_TIME.search(stem) else f"{stem}_time"


def view_columns(lake: Lake, name: str) -> list[tuple[str, str, str]]:
    """A view's columns: name, type, meaning."""
    view = define_view(lake, name)
    schema = lake.schema(view.table)
    return [(column.name, column_type(column, schema), column.comment) for column in view.columns]


def column_type(column: Column, schema: Any) -> str:
    """A view's column's type as SQL names it; ``schema`` is that of its table."""
    match column.value:
        case Own(name):
            return type_name(schema.field(name).type)
        case Timestamp():
            return "timestamp"
        case Text():
            return "string"
        case Found(_, kind, _):
            return kind.lower()


def key_columns() -> tuple[str, ...]:
    """The columns by which rows find what is looked up: an instrument of a day."""
    return _KEY


def _answers(lookup: Lookup, others: Mapping[str, frozenset[str]]) -> bool:
    """Has the other table all that the lookup asks of it?"""
    columns = others.get(lookup.table)
    if columns is None:
        return False
    asked = {*_KEY, *lookup.takes}
    for text in (lookup.theirs, *lookup.order):
        asked |= _needed(text)
    return columns.issuperset(asked)


_WORD = re.compile(r"[a-z][a-z_]*")
_FUNCTIONS = frozenset({"coalesce"})


def _needed(text: str) -> set[str]:
    """The columns that an expression names."""
    return set(_WORD.findall(text)) - _FUNCTIONS
