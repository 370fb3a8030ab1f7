"""Tables of EntryPoint messages, one per template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import pyarrow as pa

from pregao.lake.ingest.schemas import bounded_spec, column_of
from pregao.lake.ingest.template_tables import message_schema, template_versions
from pregao.lake.store.unit import TableSpec
from pregao.sbe.snake_case import snake_case
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.tables import TemplateTable

PREFIX: Final = "ep_"

ADDED: Final = [
    column_of("flow", pa.string(), "Address and port of sender and receiver, with > between."),
    column_of(
        "sender",
        pa.string(),
        "client or exchange; null until a message on the connection shows which.",
    ),
]
"""Columns after the key."""


def message_table_name(message_name: str) -> str:
    """Return the table of a template: ``ExecutionReport_New`` → ``ep_execution_report_new``."""
    return f"{PREFIX}{snake_case(message_name)}"


def message_tables(registry: Registry) -> Mapping[int, TemplateTable]:
    """Return the tables of all templates, over every version in the registry."""
    versions = template_versions(registry, ENTRYPOINT_SCHEMA_ID)
    return {template: TemplateTable(pairs) for template, pairs in versions.items()}


@cache
def bundled_message_tables() -> Mapping[int, TemplateTable]:
    """Return the tables of the bundled schemas."""
    return message_tables(Registry.bundled())


def message_table_specs() -> list[TableSpec]:
    """Return the specs of the tables of all templates, over every bundled version."""
    return [
        bounded_spec(
            message_table_name(table.name),
            message_schema(table, ADDED),
            f"Messages of EntryPoint's template {table.name}.",
        )
        for table in bundled_message_tables().values()
    ]
