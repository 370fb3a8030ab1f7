"""Quick check of a statement before an engine starts, and the errors for refused statements.

It looks only at the first word, so that a mistake shows immediately. The engines check what a
statement does, with their own parsers (`parsed`, `spark_plans`).
"""

from __future__ import annotations

import re

from pregao.errors import UsageError

_QUERIES = ("select", "with", "from", "values", "table")
_QUESTIONS = ("show", "describe", "desc", "summarize", "explain")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_BEGINNING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*(?:(?!/\*).)*?\*/)*", re.DOTALL)
_WORD = re.compile(r"\w+")


def first_word(sql: str) -> str:
    """Return the first word of a statement in lower case; empty if it starts with no word."""
    word = _WORD.match(_begun(sql))
    return "" if word is None else word.group().lower()


def _begun(sql: str) -> str:
    """Return a statement without the comments, spaces and brackets before its first word."""
    matched = _BEGINNING.match(sql)
    return sql if matched is None else sql[matched.end() :]


def require_query(sql: str) -> None:
    """Refuse a text that is empty or whose first word cannot begin a query."""
    word = first_word(sql)
    if not word and not _COMMENT.sub(" ", sql).strip(" \t\r\n;("):
        raise no_query()
    if word not in (*_QUERIES, *_QUESTIONS):
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
