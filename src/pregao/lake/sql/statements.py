"""The first look at a statement, before an engine is started, and the errors for what is refused.

It decides on the first word alone, so that a mistake shows at once. What a statement may do is
decided by the engines, on what their own parsers make of it (`parsed`, `spark_plans`).
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
    """The word that a statement begins with, in small letters; nothing if it begins otherwise."""
    word = _WORD.match(_begun(sql))
    return "" if word is None else word.group().lower()


def _begun(sql: str) -> str:
    """The statement without the comments, spaces and brackets before its first word."""
    matched = _BEGINNING.match(sql)
    return sql if matched is None else sql[matched.end() :]


def require_query(sql: str) -> None:
    """Refuse a text that is empty or whose first word begins no query."""
    word = first_word(sql)
    if not word and not _COMMENT.sub(" ", sql).strip(" \t\r\n;("):
        raise no_query()
    if word not in (*_QUERIES, *_QUESTIONS):
        raise not_a_query(word.upper())


def no_query() -> UsageError:
    """The error for a text without a statement."""
    return UsageError("There is no query: write one, such as SELECT count(*) FROM packets.")


def not_a_query(what: str) -> UsageError:
    """The error for a statement that would change something."""
    began = f"{what} is none" if what and what.lower() not in _QUERIES else "this is none"
    return UsageError(
        f"`pregao query` takes one query (SELECT, WITH, FROM, VALUES, SHOW, DESCRIBE, EXPLAIN), "
        f"and {began}: nothing was run."
    )


def beyond(what: str) -> UsageError:
    """The error for a function or table that reaches beyond the lake."""
    return UsageError(
        f"{what} reaches beyond the tables of the lake (files, Java, programs), so nothing was "
        "run; --unsafe allows it, for queries that you trust."
    )
