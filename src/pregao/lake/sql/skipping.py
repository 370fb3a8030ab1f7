"""Which files of a table a query needs: the conditions of its WHERE, held against the log's bounds.

The conditions come from the tree of the parsed query (`parsed`). A row that a SELECT takes from a
table after its FROM meets that SELECT's WHERE, so files of which no row can meet it change nothing.
Understood are comparisons of a column with whole numbers or days, joined by AND and OR, of a table
or view that stands after FROM by itself or in plain joins. Everything else is taken to hold, so
that a part of a query which is not understood costs time and never rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.sql.parsed import Tree, walk
from pregao.lake.store import DATE
from pregao.lake.views import View, key_columns, own_columns

Value = int | date
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LARGEST = 1 << 63
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Of these a row with a table's row depends on no other row of that table; of others (ASOF,
# POSITIONAL, ANTI) it may.
_PLAIN_JOINS = frozenset({"INNER", "LEFT", "RIGHT", "OUTER"})
_PLAIN_REFERENCES = frozenset({"REGULAR", "CROSS", "NATURAL"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with each of some values, one of which is true."""

    column: str
    comparison: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Every:
    """Conditions that all hold; without any, this always holds."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Some:
    """Conditions of which one holds."""

    parts: tuple[Condition, ...]


Condition = Comparison | Every | Some


@dataclass(frozen=True, slots=True)
class Readable:
    """A table or view that a query can name.

    ``columns`` has all its columns by name in small letters, each with the columns of tables that
    are equal to it wherever it is not null; ``tables`` are those that it reads.
    """

    columns: Mapping[str, tuple[tuple[str, str], ...]]
    tables: tuple[str, ...]


def readable_table(name: str, columns: Sequence[str]) -> Readable:
    """A table."""
    return Readable({column.lower(): ((name, column),) for column in columns}, (name,))


def readable_view(view: View) -> Readable:
    """A view; its key is that of the rows which it looks up in other tables."""
    others = [lookup.table for lookup in view.lookups]
    own = own_columns(view)
    columns = {}
    for column in view.columns:
        found = [(view.table, own[column.name])] if column.name in own else []
        if column.name in key_columns() and column.name in own:
            found += [(other, column.name) for other in others]
        columns[column.name.lower()] = tuple(found)
    return Readable(columns, (view.table, *others))


def find_scans(
    tree: Tree,
    readables: Mapping[str, Readable],
    kinds: Mapping[tuple[str, str], type],
    parameters: Sequence[Any] = (),
) -> dict[str, list[Condition]]:
    """How a query reads tables: of each time that it names one, what its rows must meet.

    ``readables`` are the tables and views by name in small letters, ``kinds`` the columns of tables
    that hold whole numbers or days.
    """
    # Also those that WITH gives to something else: a scan too many adds files and takes none away.
    named = [node for node in walk(tree) if node.get("type") == "BASE_TABLE"]
    met: dict[int, list[tuple[str, Condition]]] = {}
    for node in walk(tree):
        if node.get("type") == "SELECT_NODE":
            met.update(_Select(node, readables, kinds, parameters).conditions())
    found: dict[str, list[Condition]] = {}
    for node in named:
        readable = readables.get(str(node["table_name"]).lower())
        if readable is None:
            continue
        for table, condition in met.get(id(node)) or [
            (table, Every()) for table in readable.tables
        ]:
            found.setdefault(table, []).append(condition)
    return found


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A table or anything else that a SELECT reads; ``readable`` if its columns are known."""

    node: Tree
    alias: str
    readable: Readable | None
    plain: bool
    """Whether conditions of WHERE hold for its rows."""


class _Select:
    """One SELECT: what is after its FROM, and what its WHERE says of that."""

    def __init__(
        self,
        node: Tree,
        readables: Mapping[str, Readable],
        kinds: Mapping[tuple[str, str], type],
        parameters: Sequence[Any],
    ) -> None:
        self._node = node
        self._readables = readables
        self._kinds = kinds
        self._parameters = parameters
        self._merged: set[str] = set()
        self._merges_unknown = False
        self._leaves = list(self._flattened(node.get("from_table") or {}, True))
        if any(leaf.readable is None for leaf in self._leaves) and self._merges_unknown:
            self._leaves = []
        self._aliases = {
            str(one["alias"]).lower()
            for one in node.get("select_list") or ()
            if one.get("alias") and not _is_column(one, str(one["alias"]))
        }

    def conditions(self) -> Iterator[tuple[int, list[tuple[str, Condition]]]]:
        """Of each table and view after FROM that is understood: what its tables' rows must meet."""
        where = self._node.get("where_clause")
        if where is None or "sample" in self._node:
            return
        for leaf in self._leaves:
            if leaf.plain and leaf.readable is not None:
                tables = leaf.readable.tables
                yield id(leaf.node), [(name, self._read(where, leaf, name)) for name in tables]

    def _flattened(self, node: Tree, plain: bool) -> Iterator[_Leaf]:
        kind = node.get("type")
        plain = plain and "sample" not in node
        if kind == "JOIN":
            self._merged.update(str(name).lower() for name in node.get("using_columns") or ())
            natural = node.get("ref_type") == "NATURAL"
            self._merges_unknown |= natural
            plain = plain and node.get("join_type") in _PLAIN_JOINS
            plain = plain and node.get("ref_type") in _PLAIN_REFERENCES
            yield from self._flattened(node.get("left") or {}, plain)
            yield from self._flattened(node.get("right") or {}, plain)
            return
        name = str(node.get("table_name", "")).lower()
        readable = self._readables.get(name) if kind == "BASE_TABLE" else None
        path = node.get("qualified_name", {}).get("path", ())
        odd = "column_name_alias" in node or "at_clause" in node or len(path) != 1
        if odd:
            readable = None
        yield _Leaf(node, str(node.get("alias") or name).lower(), readable, plain)

    def _read(self, where: Tree, leaf: _Leaf, table: str) -> Condition:
        """The part of a condition that is about a table's rows; the rest is taken to hold."""
        kind, of = where.get("class"), where.get("type")
        if kind == "CONJUNCTION" and of in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            parts = tuple(self._read(part, leaf, table) for part in where.get("children") or ())
            return Some(parts) if parts and of == "CONJUNCTION_OR" else Every(parts)
        if kind == "COMPARISON" and of in _COMPARISONS:
            sign, left, right = _COMPARISONS[of], where["left"], where["right"]
            if left.get("class") != "COLUMN_REF":
                sign, left, right = _FLIPPED[sign], right, left
            return self._compared(left, leaf, table, [(sign, [right])])
        if kind == "BETWEEN" and of == "COMPARE_BETWEEN":
            ends = [(">=", [where["lower"]]), ("<=", [where["upper"]])]
            return self._compared(where["input"], leaf, table, ends)
        if kind == "OPERATOR" and of == "COMPARE_IN" and where.get("children"):
            return self._compared(where["children"][0], leaf, table, [("=", where["children"][1:])])
        return Every()

    def _compared(
        self, column: Tree, leaf: _Leaf, table: str, with_: Sequence[tuple[str, Sequence[Tree]]]
    ) -> Condition:
        source = self._source(column, leaf, table)
        if source is None:
            return Every()
        found = []
        for sign, constants in with_:
            values = [self._value(constant, self._kinds[table, source]) for constant in constants]
            known = tuple(value for value in values if value is not None)
            if not known or len(known) != len(values):
                return Every()
            found.append(Comparison(source, sign, known))
        return Every(tuple(found))

    def _source(self, column: Tree, leaf: _Leaf, table: str) -> str | None:
        """The column of a table that an expression is for certain."""
        names = [str(name).lower() for name in column.get("column_names") or ()]
        if column.get("class") != "COLUMN_REF" or not 1 <= len(names) <= 2:
            return None
        name = names[-1]
        if len(names) == 2:
            holders = [each for each in self._leaves if each.alias == names[0]]
        elif name in self._merged or name in self._aliases:
            return None
        else:
            holders = [
                each
                for each in self._leaves
                if each.readable is not None and name in each.readable.columns
            ]
        if len(holders) != 1 or holders[0] is not leaf or leaf.readable is None:
            return None
        for owner, source in leaf.readable.columns.get(name, ()):
            if owner == table and (table, source) in self._kinds:
                return source
        return None

    def _value(self, node: Tree, kind: type) -> Value | None:
        """A whole number or a day that is the same as the query's; None if it is not understood."""
        if node.get("class") == "PARAMETER":
            return self._parameter(node, kind)
        if node.get("class") == "CAST" and kind is date:
            to = (node.get("type_expr") or {}).get("qualified_name", {}).get("path")
            node = node["child"] if [str(part).upper() for part in to or ()] == ["DATE"] else {}
        literal = node.get("literal") if node.get("class") == "CONSTANT" else None
        if not isinstance(literal, dict):
            return None
        text = str(literal.get("text", ""))
        if literal.get("kind") == "INTEGER" and kind is int:
            return _number(text)
        if literal.get("kind") == "STRING" and kind is date and _DAY.fullmatch(text):
            try:
                return date.fromisoformat(text)
            except ValueError:
                return None
        return None

    def _parameter(self, node: Tree, kind: type) -> Value | None:
        place = str(node.get("identifier", ""))
        if not (place.isascii() and place.isdigit() and 1 <= int(place) <= len(self._parameters)):
            return None
        value = self._parameters[int(place) - 1]
        if kind is int and isinstance(value, int) and not isinstance(value, bool):
            return value if abs(value) < _LARGEST else None
        if kind is date and isinstance(value, date) and not isinstance(value, datetime):
            return value
        return None


def _is_column(node: Tree, name: str) -> bool:
    names = node.get("column_names") or [""]
    return node.get("class") == "COLUMN_REF" and str(names[-1]).lower() == name.lower()


def _number(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < _LARGEST else None


def admitted(actions: Any, scans: Sequence[Condition]) -> Any:
    """The files of a table that may have rows for one of some scans, each with its condition."""
    if not scans or not actions.num_rows:
        return actions
    wanted = np.zeros(actions.num_rows, bool)
    for scan in scans:
        wanted |= _may_hold(actions, scan)
    return actions.filter(pa.array(wanted))


def _may_hold(actions: Any, condition: Condition) -> Any:
    """Of each file: may the condition hold for one of its rows?"""
    if isinstance(condition, Comparison):
        return _may_compare(actions, condition)
    parts = [_may_hold(actions, part) for part in condition.parts]
    join = np.logical_and if isinstance(condition, Every) else np.logical_or
    start = np.full(actions.num_rows, isinstance(condition, Every))
    for part in parts:
        start = join(start, part)
    return start


def _may_compare(actions: Any, condition: Comparison) -> Any:
    names = (f"min.{condition.column}", f"max.{condition.column}")
    if condition.column == DATE:
        names = (f"partition.{DATE}", f"partition.{DATE}")
    everything = np.ones(actions.num_rows, bool)
    if not set(names) <= set(actions.column_names):
        return everything
    low, high = (actions[name] for name in names)
    found = np.zeros(actions.num_rows, bool)
    for value in condition.values:
        try:
            limit = pa.scalar(value, low.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return everything
        held = _held(condition.comparison, low, high, limit)
        # A file that does not tell its bounds may hold anything.
        found |= held.fill_null(True).to_numpy()
    return found


def _held(comparison: str, low: Any, high: Any, limit: Any) -> Any:
    match comparison:
        case "<":
            return pc.less(low, limit)
        case "<=":
            return pc.less_equal(low, limit)
        case ">":
            return pc.greater(high, limit)
        case ">=":
            return pc.greater_equal(high, limit)
    return pc.and_(pc.less_equal(low, limit), pc.greater_equal(high, limit))
