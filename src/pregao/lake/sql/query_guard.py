"""Checks of a user's SQL: one statement that only reads, or an error that says why not.

`require_query` looks only at the first word, before an engine starts, so that a mistake shows
immediately. The engines check what a statement does, with their own parsers (`parse`,
`spark_plans`).

`parse` uses DuckDB's parser and returns the tree of the query. DuckDB also accepts INSERT, COPY and
the like as members of WITH, inside what it calls a SELECT, so the tree is searched for them. Only
the parser runs here, in a session without file access.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import duckdb

from pregao.errors import UsageError
from pregao.lake.sql.duckdb_session import open_session

_QUERIES = ("select", "with", "from", "values", "table")
_METADATA_STATEMENTS = ("show", "describe", "desc", "summarize", "explain")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_BEGINNING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*(?:(?!/\*).)*?\*/)*", re.DOTALL)
_WORD = re.compile(r"\w+")

Tree = dict[str, Any]
_SELECTS = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
# Table functions that build rows from their arguments or list the session's own tables. Others read
# files, run a text as a query, or write (logs, profiles).
_TABLE_FUNCTIONS = frozenset({
    "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_schemas", "duckdb_tables",
    "duckdb_types", "duckdb_views", "generate_series", "icu_calendar_names", "json_each",
    "json_tree", "pg_timezone_names", "pragma_show", "pragma_table_info", "pragma_version", "range",
    "repeat", "repeat_row", "summary", "unnest",
})  # fmt: skip
_READ_TABLES = ("duckdb_", "pragma_", "pg_", "sqlite_")
_CATALOGS = frozenset({"information_schema", "pg_catalog"})
_MAX_EXPLAIN_WORDS = 60
"""Number of tokens (EXPLAIN and its options) within which the explained query must start."""

_parsers = threading.local()

_SQL_COMMENT = duckdb.token_type.comment


def first_word(sql: str) -> str:
    """Return the first word of a statement in lower case; empty if it starts with no word."""
    word = _WORD.match(_without_prefix(sql))
    return "" if word is None else word.group().lower()


def _without_prefix(sql: str) -> str:
    """Return a statement without the comments, spaces and brackets before its first word."""
    matched = _BEGINNING.match(sql)
    return sql if matched is None else sql[matched.end() :]


def require_query(sql: str) -> None:
    """Refuse a text that is empty or whose first word cannot begin a query."""
    word = first_word(sql)
    if not word and not _COMMENT.sub(" ", sql).strip(" \t\r\n;("):
        raise no_query()
    if word not in (*_QUERIES, *_METADATA_STATEMENTS):
        raise not_a_query(word.upper())


def no_query() -> UsageError:
    """Return the error for a text without a statement."""
    return UsageError("There is no query: write one, such as SELECT count(*) FROM packets.")


def not_a_query(what: str) -> UsageError:
    """Return the error for a statement that is not a query."""
    reason = f"{what} is not one" if what and what.lower() not in _QUERIES else "this is not one"
    return UsageError(
        f"`pregao query` accepts one query (SELECT, WITH, FROM, VALUES, SHOW, DESCRIBE, EXPLAIN), "
        f"and {reason}: nothing was run."
    )


def beyond(what: str) -> UsageError:
    """Return the error for a function or table that reads outside the lake."""
    return UsageError(
        f"{what} accesses more than the tables of the lake (files, Java, programs), so nothing was "
        "run; --unsafe allows it, for queries that you trust."
    )


@dataclass(frozen=True)
class Parsed:
    """A query: DuckDB's statement, which the engine runs, and its syntax tree."""

    statement: Any
    tree: Tree

    @cached_property
    def tables(self) -> frozenset[str]:
        """Lower-case names of the tables, views and members of WITH that it reads."""
        shown = (str(node.get("table_name", "")) for node in _of_type(self.tree, "SHOW_REF"))
        read = (str(node["table_name"]) for node in _of_type(self.tree, "BASE_TABLE"))
        return frozenset(name.lower() for name in (*shown, *read))

    @cached_property
    def lists_tables(self) -> bool:
        """Whether it may list the tables, or read them otherwise than by name after FROM."""
        for node in walk(self.tree):
            kind = node.get("type")
            if kind in ("SHOW_REF", "BASE_TABLE"):
                path = [part.lower() for part in node.get("qualified_name", {}).get("path", ())]
                if node.get("show_type") == "SHOW_SPECIAL" or _CATALOGS.intersection(path):
                    return True
                if path and path[-1].startswith(_READ_TABLES):
                    return True
            elif kind == "TABLE_FUNCTION":
                name = function_name(node["function"])
                if name.startswith(_READ_TABLES) or name not in _TABLE_FUNCTIONS:
                    return True
        return False


def parse(sql: str, *, unsafe: bool = False) -> Parsed:
    """Parse a text that must be one query and must not access files.

    ``unsafe`` allows functions that read files.

    Raises:
        UsageError: The text is anything else.
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


def lists_rows(tree: Tree) -> bool:
    """Whether a query only lists rows of one table or view and does not order them itself."""
    source = tree.get("from_table") or {}
    modifiers = {modifier.get("type") for modifier in tree.get("modifiers") or ()}
    return (
        tree.get("type") == "SELECT_NODE"
        and source.get("type") == "BASE_TABLE"
        and not (tree.keys() & {"group_expressions", "having", "sample"})
        and tree.get("aggregate_handling", "STANDARD_HANDLING") == "STANDARD_HANDLING"
        and not modifiers & {"ORDER_MODIFIER", "DISTINCT_MODIFIER"}
        and not any(
            node.get("class") == "WINDOW" or function_name(node) in _aggregates()
            for node in walk(tree.get("select_list"))
        )
    )


@cache
def _aggregates() -> frozenset[str]:
    """Return the lower-case names of DuckDB's aggregate functions."""
    text = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = ?"
    return frozenset(name.lower() for (name,) in _parser().execute(text, ["aggregate"]).fetchall())


def _parser() -> Any:
    """Return the thread's session for parsing; opening one takes longer than parsing."""
    if getattr(_parsers, "owner", None) != os.getpid():
        _parsers.session, _parsers.owner = open_session(), os.getpid()
    return _parsers.session


def walk(tree: Any) -> Iterator[Tree]:
    """Yield every object of a tree, parents first."""
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
    """Return the lower-case name of a function, without its schema."""
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
    """Return the tree of a query, or of the query that an EXPLAIN statement explains."""
    if statement.type == duckdb.StatementType.SELECT:
        return _tree(connection, statement.query)
    text = statement.query.encode()
    offsets = [offset for offset, kind in duckdb.tokenize(statement.query) if kind != _SQL_COMMENT]
    for offset in offsets[1:_MAX_EXPLAIN_WORDS]:
        rest = text[offset:].decode()
        try:
            statements = connection.extract_statements(rest)
        except duckdb.Error:
            continue  # still an option of EXPLAIN
        if len(statements) != 1:
            break
        if statements[0].type == duckdb.StatementType.SELECT:
            return _tree(connection, rest)
        if rest[:7].lower() != "analyze":  # ANALYZE is a statement too
            raise not_a_query(_name_of(statements[0].type))
    raise not_a_query("what it explains")


def _tree(connection: Any, query: str) -> Tree:
    text = "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true)"
    (serialized,) = connection.execute(text, [query]).fetchone()
    try:
        parsed = json.loads(serialized)
    except RecursionError:
        raise _too_deep() from None
    statements = parsed.get("statements") or []
    if parsed.get("error") or len(statements) != 1:
        raise not_a_query("")
    node: Tree = statements[0]["node"]
    return node


def _require_reading(node: Tree, unsafe: bool) -> None:
    """Refuse a part of a query that writes, or that reads anything except tables."""
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
    return UsageError("The query is nested too deeply, so nothing was run: split it.")
