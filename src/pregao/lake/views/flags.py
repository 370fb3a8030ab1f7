"""Names of the flags of a set, as SQL for every engine; the names are the schema's.

A bit that other schema versions name differently is named by the version of its message. A bit
without a name, or of an unknown version, is shown as its number.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby

from pregao.lake.ingest.umdf.tables import bundled_message_tables
from pregao.sbe.model import SetType
from pregao.sbe.value_specs import ValueKind
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry

VERSION = "schema_version"
_COPIES = {"original_trade_condition": "trade_condition"}
"""Analytics columns that copy another column, with that column."""


@cache
def set_columns() -> dict[str, str]:
    """Return the columns that contain sets, with the names of their types."""
    found: dict[str, str] = {}
    for table in bundled_message_tables().templates.values():
        for column in table.columns:
            reading = column.reading
            if reading is not None and reading.kind is ValueKind.SET and reading.set is not None:
                found[column.column] = reading.set.name
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
