"""Escaping of CSV cells that a spreadsheet would run as formulas.

A spreadsheet interprets a cell that starts with one of these characters as a formula, and names and
texts in captures come from third parties. With ``--safe-csv`` such cells get a leading apostrophe,
which spreadsheets read as "this is text". It is not the default: other programs would read the
apostrophe as part of the value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

FORMULA_BEGINNINGS = "=+-@\t\r"
_FORMULA = r"^[=+\-@\t\r]"


def safe_cells(column: Any) -> Any:
    """Return a column with an apostrophe before each text that starts like a formula."""
    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        column = column.cast(kind.value_type)
    if not _is_text(column.type):
        return column
    formulas = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(formulas).as_py():
        return column
    marked = pc.binary_join_element_wise(
        pa.scalar("'", column.type), column, pa.scalar("", column.type)
    )
    return pc.if_else(formulas, marked, column)


def safe_table(rows: Any) -> Any:
    """Return a table whose texts and column names are no formulas to a spreadsheet."""
    names = safe_cells(pa.array(rows.schema.names, pa.string())).to_pylist()
    return pa.table([safe_cells(column) for column in rows.columns], names=names)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
