"""Tables of SBE messages: their columns, derived from the schemas of a protocol.

A table is created with the columns of every bundled schema version. Files hold decimals as
64-bit integers; tables declare them as decimals of 18 digits, enumerations as strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.schemas import DATE_FIELD, KEY, column_of
from pregao.lake.store import DATE
from pregao.sbe import Message, Schema
from pregao.sbe.arrow import widened
from pregao.schemas import PROTOCOLS, Registry
from pregao.umdf.tables import Column, TemplateTable

Versions = dict[int, list[tuple[Schema, Message]]]
"""By template id: its form in every version."""


def template_versions(registry: Registry, schema_id: int) -> Versions:
    """The templates of a protocol in every version that a registry knows.

    A schema of an id that is no protocol's may have been named for this one.
    """
    versions: Versions = {}
    known = [registry.get(schema_id, number) for number in registry.versions(schema_id)]
    others = set(PROTOCOLS.values()) - {schema_id}
    known += [each for each in registry.named() if each not in known and each.id not in others]
    for schema in known:
        for message in schema.messages:
            if message.id:
                versions.setdefault(message.id, []).append((schema, message))
    return versions


def declared(kind: Any) -> Any:
    """What a table declares for a column that files hold in that type."""
    if pa.types.is_dictionary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(declared(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(declared(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", declared(kind.value_type)))
    return widened(kind)


def message_fields(columns: Iterable[Column]) -> list[Any]:
    """The declared fields of a template's own columns, with what they mean."""
    fields = []
    for column in columns:
        meaning = column.reading.description if column.reading is not None else ""
        fields.append(column_of(column.column, declared(column.type), meaning or column.name))
    return fields


def message_schema(table: TemplateTable, added: Sequence[Any] = ()) -> Any:
    """The declared schema of a message table; ``added`` comes behind the columns of the key."""
    own = message_fields(table.columns)
    names = {field.name for field in (*KEY, *added)} | {DATE}
    clash = next((field.name for field in own if field.name in names), None)
    assert clash is None, f"the column {clash} of {table.name} is taken by the key"
    return pa.schema([*KEY, *added, *own, DATE_FIELD])
