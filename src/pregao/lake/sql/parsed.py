"""A user's text as DuckDB's own parser reads it: one statement, and the tree of its query.

DuckDB also takes INSERT, COPY and the like as members of WITH, within what it calls a SELECT: the
tree is searched for them. Nothing is run here but the parser, in a session that opens no file.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb

from pregao.errors import UsageError
from pregao.lake.sql.duckdb_session import open_session
from pregao.lake.sql.statements import beyond, no_query, not_a_query

Tree = dict[str, Any]
_SELECTS = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
# Functions after FROM that make rows of their arguments or tell of the session's own tables. Others
# read files, run a text as a query, or write (logs, profiles).
_TABLE_FUNCTIONS = frozenset({
    "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_schemas", "duckdb_tables",
    "duckdb_types", "duckdb_views", "generate_series", "icu_calendar_names", "json_each",
    "json_tree", "pg_timezone_names", "pragma_show", "pragma_table_info", "pragma_version", "range",
    "repeat", "repeat_row", "summary", "unnest",
})  # fmt: skip
_TELL_TABLES = ("duckdb_", "pragma_", "pg_", "sqlite_")
_CATALOGUES = frozenset({"information_schema", "pg_catalog"})
_MAX_EXPLAIN_WORDS = 60
"""The words of EXPLAIN and its options, in which the beginning of the query is looked for."""


@dataclass(frozen=True)
class Parsed:
    """A query: DuckDB's statement, which engines run, and its tree, which says what it reads."""

    statement: Any
    tree: Tree

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names of tables, views and members of WITH that it reads, in small letters."""
        shown = (str(node.get("table_name", "")) for node in _of_type(self.tree, "SHOW_REF"))
        read = (str(node["table_name"]) for node in _of_type(self.tree, "BASE_TABLE"))
        return frozenset(name.lower() for name in (*shown, *read))

    @cached_property
    def lists_tables(self) -> bool:
        """Whether it may ask which tables there are, or names them by other means than FROM."""
        for node in walk(self.tree):
            kind = node.get("type")
            if kind in ("SHOW_REF", "BASE_TABLE"):
                path = [part.lower() for part in node.get("qualified_name", {}).get("path", ())]
                if node.get("show_type") == "SHOW_SPECIAL" or _CATALOGUES.intersection(path):
                    return True
                if path and path[-1].startswith(_TELL_TABLES):
                    return True
            elif kind == "TABLE_FUNCTION":
                name = function_name(node["function"])
                if name.startswith(_TELL_TABLES) or name not in _TABLE_FUNCTIONS:
                    return True
        return False


def parse(sql: str, *, unsafe: bool = False) -> Parsed:
    """Parse a text that is to be one query; all else is an error, and so is reaching for files.

    ``unsafe`` allows the functions that read files.
    """
    connection = _parser()
    statement = _one_statement(connection, sql)
    tree = _query_tree(connection, statement)
    try:
        for node in walk(tree):
            _require_reading(node, unsafe)
    except RecursionError:
        raise _too_deep() from None
    return Parsed(statement, tree)


_parsers = threading.local()


def _parser() -> Any:
    """A session that parses and runs nothing; to open one takes longer than all it does."""
    if getattr(_parsers, "owner", None) != os.getpid():
        _parsers.session, _parsers.owner = open_session(), os.getpid()
    return _parsers.session


def walk(tree: Any) -> Iterator[Tree]:
    """Every object of a tree."""
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from walk(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from walk(value)


def _of_type(tree: Tree, kind: str) -> Iterator[Tree]:
    return (node for node in walk(tree) if node.get("type") == kind)


def function_name(function: Tree) -> str:
    """The name of a function, in small letters, without its schema."""
    return str(function.get("function_name", "")).lower()


def _one_statement(connection: Any, sql: str) -> Any:
    statements = connection.extract_statements(sql)
    if not statements:
        raise no_query()
    kinds = [statement.type for statement in statements]
    readable = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    other = next((kind for kind in kinds if kind not in readable), None)
    if other is not None:
        raise not_a_query(_name_of(other))
    if len(statements) > 1:
        raise not_a_query("more than one")
    return statements[0]


def _name_of(kind: Any) -> str:
    name = str(kind.name)
    return "" if name in ("MULTI", "INVALID", "EXTENSION") else name.replace("_", " ")


def _query_tree(connection: Any, statement: Any) -> Tree:
    """The tree of a query, or of the query that a statement explains."""
    if statement.type == duckdb.StatementType.SELECT:
        return _tree(connection, statement.query)
    text = statement.query.encode()
    places = [place for place, kind in duckdb.tokenize(statement.query) if kind != _COMMENT]
    for place in places[1:_MAX_EXPLAIN_WORDS]:
        rest = text[place:].decode()
        try:
            statements = connection.extract_statements(rest)
        except duckdb.Error:
            continue  # an option of EXPLAIN, not yet the statement
        if len(statements) != 1:
            break
        if statements[0].type == duckdb.StatementType.SELECT:
            return _tree(connection, rest)
        if rest[:7].lower() != "analyze":  # which is a statement too
            raise not_a_query(_name_of(statements[0].type))
    raise not_a_query("what it explains")


_COMMENT = duckdb.token_type.comment


def _tree(connection: Any, query: str) -> Tree:
    text = "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true)"
    (answer,) = connection.execute(text, [query]).fetchone()
    try:
        found = json.loads(answer)
    except RecursionError:
        raise _too_deep() from None
    statements = found.get("statements") or []
    if found.get("error") or len(statements) != 1:
        raise not_a_query("")
    node: Tree = statements[0]["node"]
    return node


def _require_reading(node: Tree, unsafe: bool) -> None:
    """Refuse a part of a query that writes, or reads anything but tables."""
    kind = str(node.get("type", ""))
    if "cte_map" in node or kind.endswith("_NODE"):
        if kind not in _SELECTS:
            raise not_a_query(kind.partition("_")[0])
    elif "info_type" in node:
        raise not_a_query("")
    if kind == "TABLE_FUNCTION" and not unsafe:
        name = function_name(node["function"])
        if name not in _TABLE_FUNCTIONS:
            raise beyond(name)


def _too_deep() -> UsageError:
    return UsageError("The query is nested too deeply, so nothing was run: write it in parts.")
