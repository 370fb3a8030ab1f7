"""Tables of the legacy feed's messages, derived from its templates."""

from __future__ import annotations

import pyarrow as pa

from pregao.lake.ingest.schemas import DATE_FIELD, KEY, bounded_spec, column_of
from pregao.lake.store.unit import DATE, TableSpec
from pregao.legacy.tables import LegacyTable, bundled_tables
from pregao.sbe.arrow import widened
from pregao.schemas.fast_templates import bundled_entries, bundled_tags

PREFIX = "legacy_"


def message_table_name(message: str) -> str:
    """Return the table of a message."""
    return f"{PREFIX}{message}"


def message_table_specs() -> list[TableSpec]:
    """Return the specs of the tables of all messages."""
    return [_spec(table) for table in bundled_tables().values()]


def _spec(table: LegacyTable) -> TableSpec:
    tags = {name: tag for tag, names in bundled_tags().items() for name in names}
    tags |= {name: tag for tag, name in bundled_entries().items()}
    reserved = {field.name for field in KEY} | {DATE}
    fields = []
    for name, field, kind in table.columns:
        assert name not in reserved, f"the column {name} of {table.name} is a key column"
        meaning = f"{field} (tag {tags[field]})."
        fields.append(column_of(name, widened(kind), meaning))
    schema = pa.schema([*KEY, *fields, DATE_FIELD])
    what = table.name.replace("_", " ")
    return bounded_spec(
        message_table_name(table.name), schema, f"Messages of the legacy feed: {what}."
    )
