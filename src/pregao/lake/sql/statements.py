"""Which statements are queries, and which functions reach beyond the lake.

This looks at the text alone, before an engine is started; the engines look again at what their own
parsers make of it (`duckdb_engine`, `spark_engine`), so that no way of writing gets past both.
"""

from __future__ import annotations

import re

from pregao.errors import UsageError

_QUERIES = ("select", "with", "from", "values", "table")
_QUESTIONS = ("show", "describe", "desc", "summarize")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_BEGINNING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*(?:(?!/\*).)*?\*/)*", re.DOTALL)
_EXPLAIN = re.compile(
    r"explain\b\s*(?:(?:analyze|extended|formatted|codegen|cost)\b\s*)?(?:\([^()]*\)\s*)?",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_WRITES_BEHIND = re.compile(r"\binsert\s+(?:into|overwrite)\b", re.IGNORECASE)
# Of both engines: those that open files or addresses, call into Java, or start a program.
_BEYOND = frozenset({
    "reflect", "try_reflect", "java_method", "read_files", "glob", "read_csv", "read_csv_auto",
    "sniff_csv", "read_json", "read_json_auto", "read_json_objects", "read_json_objects_auto",
    "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text", "read_blob",
    "read_parquet", "parquet_scan", "parquet_metadata", "parquet_file_metadata",
    "parquet_kv_metadata", "parquet_schema", "parquet_bloom_probe", "parquet_full_metadata",
    "arrow_scan", "arrow_scan_dumb", "pandas_scan", "python_map_function", "read_duckdb",
    "delta_scan", "iceberg_scan", "sqlite_scan", "postgres_scan", "mysql_scan", "read_xlsx",
    "read_avro",
})  # fmt: skip
_PROGRAM = re.compile(r"\busing\s+r?['\"]", re.IGNORECASE)
_FILE_TABLE = re.compile(
    r"\b(parquet|orc|csv|json|text|xml|avro|binaryfile|delta|jdbc|b3)`?\s*\.\s*`", re.IGNORECASE
)


def first_word(sql: str) -> str:
    """The word that a statement begins with, in small letters; nothing if it begins otherwise."""
    word = _WORD.match(_begun(sql))
    return "" if word is None else word.group().lower()


def explained(sql: str) -> str:
    """What a statement explains, or the statement itself."""
    rest = _begun(sql)
    matched = _EXPLAIN.match(rest)
    return sql if matched is None else rest[matched.end() :]


def _begun(sql: str) -> str:
    """The statement without the comments, spaces and brackets before its first word."""
    matched = _BEGINNING.match(sql)
    return sql if matched is None else sql[matched.end() :]


def require_query(sql: str, *, unsafe: bool = False) -> None:
    """Refuse what is no query, and functions that reach beyond the lake unless that is wanted."""
    body = explained(sql)
    word = first_word(body)
    if not word and not _COMMENT.sub(" ", body).strip(" \t\r\n;("):
        raise UsageError("There is no query: write one, such as SELECT count(*) FROM packets.")
    if word not in (*_QUERIES, *_QUESTIONS) or _WRITES_BEHIND.search(_COMMENT.sub(" ", body)):
        raise not_a_query(word.upper())
    if not unsafe:
        refuse_beyond(body)


def not_a_query(what: str) -> UsageError:
    """The error for a statement that would change something."""
    began = f"{what} is none" if what and what.lower() not in _QUERIES else "this is none"
    return UsageError(
        f"`pregao query` takes one query (SELECT, WITH, FROM, VALUES, SHOW, DESCRIBE, EXPLAIN), "
        f"and {began}: nothing was run."
    )


def refuse_beyond(sql: str) -> None:
    """Refuse functions that read files, call into Java or start programs, wherever they are named.

    A name is enough, even within a text: a lexer of ours could be led to take code for a text.
    """
    text = _COMMENT.sub(" ", sql)
    for either in (sql.lower(), text.lower()):
        if found := sorted(_BEYOND & set(_WORD.findall(either))):
            raise _beyond(found[0])
    if matched := _FILE_TABLE.search(text):
        raise _beyond(f"{matched.group(1)}.`…`")
    if _PROGRAM.search(text):
        raise _beyond("USING '…'")


def _beyond(what: str) -> UsageError:
    return UsageError(
        f"{what} reaches beyond the tables of the lake (files, Java, programs), so nothing was "
        "run; --unsafe allows it, for queries that you trust."
    )
