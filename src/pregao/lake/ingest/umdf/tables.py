"""The tables of Binary UMDF's messages: their columns, derived from the schema files.

A table is created with the columns of every bundled schema version. Files hold decimals as
64-bit integers; tables declare them as decimals of 18 digits, enumerations as strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.schemas import DATE_FIELD, KEY, bounded_spec, column_of
from pregao.lake.ingest.umdf.instruments import INSTRUMENTS
from pregao.lake.store import DATE, TableSpec
from pregao.sbe.arrow import widened
from pregao.sbe.names import snake_case
from pregao.schemas import UMDF_SCHEMA_ID, Registry
from pregao.umdf.tables import Column, TemplateTable
from pregao.umdf.templates import SECURITY_DEFINITIONS

PREFIX = "umdf_"


def message_table_name(message_name: str) -> str:
    """The table of a template: ``Order_MBO_50`` → ``umdf_order_mbo_50``."""
    return f"{PREFIX}{snake_case(message_name)}"


@dataclass(frozen=True, slots=True)
class MessageTables:
    """The tables of a registry's UMDF templates, and that of the instruments."""

    templates: Mapping[int, TemplateTable]
    instruments: TemplateTable
    """The definitions of both templates that they came in."""


def message_tables(registry: Registry) -> MessageTables:
    """The tables of all UMDF templates, over every version that the registry knows."""
    versions: dict[int, list[Any]] = {}
    known = [registry.get(UMDF_SCHEMA_ID, n) for n in registry.versions(UMDF_SCHEMA_ID)]
    known += [schema for schema in registry.named() if schema not in known]
    for schema in known:
        for message in schema.messages:
            if message.id:
                versions.setdefault(message.id, []).append((schema, message))
    definitions = [
        pair for template in sorted(SECURITY_DEFINITIONS) for pair in versions.get(template, ())
    ]
    return MessageTables(
        {template: TemplateTable(pairs) for template, pairs in versions.items()},
        TemplateTable(definitions),
    )


@cache
def bundled_message_tables() -> MessageTables:
    """The tables of the bundled schemas."""
    return message_tables(Registry.bundled())


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


def message_schema(table: TemplateTable) -> Any:
    """The declared schema of a message table."""
    own = message_fields(table.columns)
    names = {field.name for field in KEY} | {DATE}
    clash = next((field.name for field in own if field.name in names), None)
    assert clash is None, f"the column {clash} of {table.name} is taken by the key"
    return pa.schema([*KEY, *own, DATE_FIELD])


def message_table_specs() -> list[TableSpec]:
    """The tables of all templates and that of the instruments, for every bundled version."""
    tables = bundled_message_tables()
    schema = message_schema(tables.instruments)
    meaning = "An instrument of a day: its latest definition."
    specs = [bounded_spec(INSTRUMENTS, schema, meaning)]
    for table in tables.templates.values():
        schema = message_schema(table)
        meaning = f"Messages of the template {table.name}."
        name = message_table_name(table.name)
        specs.append(bounded_spec(name, schema, meaning))
    return specs
