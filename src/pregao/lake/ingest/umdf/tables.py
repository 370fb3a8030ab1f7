"""Tables of Binary UMDF messages, and the table of instruments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pregao.lake.ingest.schemas import bounded_spec
from pregao.lake.ingest.template_tables import message_schema, template_versions
from pregao.lake.ingest.umdf.instruments import INSTRUMENTS
from pregao.lake.store.unit import TableSpec
from pregao.sbe.snake_case import snake_case
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.tables import TemplateTable
from pregao.umdf.templates import SECURITY_DEFINITIONS

PREFIX = "umdf_"


def message_table_name(message_name: str) -> str:
    """Return the table of a template: ``Order_MBO_50`` → ``umdf_order_mbo_50``."""
    return f"{PREFIX}{snake_case(message_name)}"


@dataclass(frozen=True, slots=True)
class MessageTables:
    """Tables of a registry's UMDF templates, and the table of instruments."""

    templates: Mapping[int, TemplateTable]
    instruments: TemplateTable
    """Definitions of all templates that define instruments."""


def message_tables(registry: Registry) -> MessageTables:
    """Return the tables of all UMDF templates, over every version in the registry."""
    versions = template_versions(registry, UMDF_SCHEMA_ID)
    definitions = [
        pair for template in sorted(SECURITY_DEFINITIONS) for pair in versions.get(template, ())
    ]
    return MessageTables(
        {template: TemplateTable(pairs) for template, pairs in versions.items()},
        TemplateTable(definitions),
    )


@cache
def bundled_message_tables() -> MessageTables:
    """Return the tables of the bundled schemas."""
    return message_tables(Registry.bundled())


def message_table_specs() -> list[TableSpec]:
    """Return the specs of `instruments` and all template tables, over every bundled version."""
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
