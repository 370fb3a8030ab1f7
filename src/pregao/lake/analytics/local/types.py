"""DuckDB's types for Spark's type names."""

from __future__ import annotations

from functools import cache

from pregao.lake.sql.duckdb_session import quoted_name

_NAMES = {
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "double": "DOUBLE",
    "binary": "BLOB",
}


@cache
def duckdb_type(kind: str) -> str:
    """Return DuckDB's type for one such as ``array<struct<price:decimal(18,4)>>``."""
    kind = kind.strip()
    if kind.startswith("array<"):
        return f"{duckdb_type(kind[len('array<') : -1])}[]"
    if kind.startswith("struct<"):
        members = (part.partition(":") for part in _parts(kind[len("struct<") : -1]))
        named = (f"{quoted_name(name.strip())} {duckdb_type(of)}" for name, _, of in members)
        return f"STRUCT({', '.join(named)})"
    return kind.upper() if kind.startswith("decimal(") else _NAMES[kind]


def columns_of(schema: str) -> dict[str, str]:
    """Return columns and types of a schema such as ``channel smallint, price decimal(18,4)``."""
    pairs = (part.split(maxsplit=1) for part in _parts(schema))
    return {name: duckdb_type(kind) for name, kind in pairs}


def _parts(text: str) -> list[str]:
    """Split a text at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
