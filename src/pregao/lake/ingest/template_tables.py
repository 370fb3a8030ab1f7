"""Tables of SBE messages, with columns derived from the schemas of a protocol.

A table is created with the columns of every bundled schema version. Files store decimals as
64-bit integers; tables declare them as decimals of 18 digits, enumerations as strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.schemas import DATE_FIELD, KEY, column_of
from pregao.lake.store.unit import DATE
from pregao.sbe.arrow import widened
from pregao.sbe.model import MessageTemplate, Schema
from pregao.schemas.bundle import PROTOCOLS
from pregao.schemas.registry import Registry
from pregao.umdf.tables import TableColumn, TemplateTable

Versions = dict[int, list[tuple[Schema, MessageTemplate]]]
"""Definitions of a template in every version, by template ID."""


def template_versions(registry: Registry, schema_id: int) -> Versions:
    """Return the templates of a protocol in every version of a registry.

    User schemas whose ID is not that of another protocol are included.
    """
    versions: Versions = {}
    schemas = [registry.get(schema_id, number) for number in registry.versions(schema_id)]
    others = set(PROTOCOLS.values()) - {schema_id}
    schemas += [each for each in registry.named() if each not in schemas and each.id not in others]
    for schema in schemas:
        for message in schema.messages:
            if message.id:
                versions.setdefault(message.id, []).append((schema, message))
    return versions


def declared(kind: Any) -> Any:
    """Return the declared type of a column that files store in the given type."""
    if pa.types.is_dictionary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(declared(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(declared(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", declared(kind.value_type)))
    return widened(kind)


def message_fields(columns: Iterable[TableColumn]) -> list[Any]:
    """Return the declared fields of a template's own columns, with comments."""
    fields = []
    for column in columns:
        meaning = column.reading.description if column.reading is not None else ""
        fields.append(column_of(column.column, declared(column.type), meaning or column.name))
    return fields


def message_schema(table: TemplateTable, added: Sequence[Any] = ()) -> Any:
    """Return the declared schema of a message table; ``added`` follows the key columns."""
    own = message_fields(table.columns)
    names = {field.name for field in (*KEY, *added)} | {DATE}
    clash = next((field.name for field in own if field.name in names), None)
    assert clash is None, f"the column {clash} of {table.name} is a key column"
    return pa.schema([*KEY, *added, *own, DATE_FIELD])
