"""Data skipping: which files of a table a query needs, by its WHERE and the log's min/max bounds.

The conditions come from the tree of the parsed query (`query_guard`). A row that a SELECT reads
from a table after its FROM meets that SELECT's WHERE, so files in which no row can meet it are
skipped. Supported are comparisons of a column with integers or dates, combined by AND and OR, on a
table or view that is after FROM alone or in plain joins. Every other condition is assumed to be
true, so an unsupported part of a query costs time and never rows.
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

from pregao.arrays import arrow_numbers
from pregao.lake.sql.query_guard import Tree, walk
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.views.definitions import View, key_columns, own_columns

Value = int | date
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MAX_INT = 1 << 63
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Joins whose result rows depend on one row of each table; in others (ASOF, POSITIONAL, ANTI) they
# may depend on several.
_PLAIN_JOINS = frozenset({"INNER", "LEFT", "RIGHT", "OUTER"})
_PLAIN_REFERENCES = frozenset({"REGULAR", "CROSS", "NATURAL"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with several values, at least one of which must be true."""

    column: str
    comparison: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Every:
    """A conjunction of conditions; an empty one is always true."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Some:
    """A disjunction of conditions."""

    parts: tuple[Condition, ...]


Condition = Comparison | Every | Some


@dataclass(frozen=True, slots=True)
class Readable:
    """A table or view that a query can name.

    ``columns`` maps each column's lower-case name to the table columns that equal it wherever it is
    not null; ``tables`` are the tables it reads.
    """

    columns: Mapping[str, tuple[tuple[str, str], ...]]
    tables: tuple[str, ...]


def readable_table(name: str, columns: Sequence[str]) -> Readable:
    """Return the `Readable` of a table."""
    return Readable({column.lower(): ((name, column),) for column in columns}, (name,))


def readable_view(view: View) -> Readable:
    """Return the `Readable` of a view; its key columns equal those of the rows it looks up."""
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
    """Return, by table, the condition on its rows for each time that a query reads it.

    ``readables`` are the tables and views by lower-case name, ``kinds`` the types of the table
    columns that have integers or dates.
    """
    # Includes names that WITH redefines: an extra scan adds files and never removes any.
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
    """A table, view or other source of a SELECT; ``readable`` if its columns are known."""

    node: Tree
    alias: str
    readable: Readable | None
    plain: bool
    """Whether conditions of WHERE apply to its rows."""


class _Select:
    """One SELECT: the sources after its FROM, and the conditions of its WHERE on them."""

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
        """Yield, by source after FROM that is supported, the conditions on its tables' rows."""
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
        unsupported = "column_name_alias" in node or "at_clause" in node or len(path) != 1
        if unsupported:
            readable = None
        yield _Leaf(node, str(node.get("alias") or name).lower(), readable, plain)

    def _read(self, where: Tree, leaf: _Leaf, table: str) -> Condition:
        """Return the part of a condition on a table's rows; the rest is assumed to be true."""
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
        """Return the table column that an expression certainly refers to; else None."""
        names = [str(name).lower() for name in column.get("column_names") or ()]
        if column.get("class") != "COLUMN_REF" or not 1 <= len(names) <= 2:
            return None
        name = names[-1]
        if len(names) == 2:
            owners = [each for each in self._leaves if each.alias == names[0]]
        elif name in self._merged or name in self._aliases:
            return None
        else:
            owners = [
                each
                for each in self._leaves
                if each.readable is not None and name in each.readable.columns
            ]
        if len(owners) != 1 or owners[0] is not leaf or leaf.readable is None:
            return None
        for owner, source in leaf.readable.columns.get(name, ()):
            if owner == table and (table, source) in self._kinds:
                return source
        return None

    def _value(self, node: Tree, kind: type) -> Value | None:
        """Return the integer or date that a node denotes; None if it is not supported."""
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
        number = str(node.get("identifier", ""))
        if not (
            number.isascii() and number.isdigit() and 1 <= int(number) <= len(self._parameters)
        ):
            return None
        value = self._parameters[int(number) - 1]
        if kind is int and isinstance(value, int) and not isinstance(value, bool):
            return value if abs(value) < _MAX_INT else None
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
    return value if abs(value) < _MAX_INT else None


def admitted(actions: Any, scans: Sequence[Condition]) -> Any:
    """Return the files of a table that may have rows for at least one of the scans."""
    if not scans or not actions.num_rows:
        return actions
    wanted = np.zeros(actions.num_rows, bool)
    for scan in scans:
        wanted |= _may_hold(actions, scan)
    return actions.filter(arrow_numbers(wanted))


def _may_hold(actions: Any, condition: Condition) -> Any:
    """Return, by file, whether the condition may be true for one of its rows."""
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
        possible = _held(condition.comparison, low, high, limit)
        # A file without bounds may contain any value.
        found |= possible.fill_null(True).to_numpy()
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
