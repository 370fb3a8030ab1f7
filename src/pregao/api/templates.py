"""Lookup of templates by name or number."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from pregao.errors import SchemaError, UsageError
from pregao.sbe.model import Schema
from pregao.sbe.xml import template
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID, UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry


def named_templates(names: Iterable[str], registry: Registry) -> frozenset[tuple[int, int]]:
    """Return the templates with these names (with or without the number) or numbers.

    Each is a pair of schema id and template id.
    """
    schemas = known_schemas(registry)
    found: set[tuple[int, int]] = set()
    for name in names:
        ids = _ids_of(name, schemas)
        if not ids:
            known = {m.name.lower(): m.name for schema in schemas for m in schema.messages}
            near = difflib.get_close_matches(name.lower(), known, 1, 0.4)
            hint = f" Did you mean {known[near[0]]}?" if near else ""
            raise UsageError(
                f"There is no template {name!r}.{hint} `pregao schema` lists the templates."
            )
        found |= ids
    return frozenset(found)


def known_schemas(registry: Registry) -> list[Schema]:
    """Return every schema that may decode messages: market data first, newest first."""
    named = registry.named()
    found = list(named)
    for schema_id in (UMDF_SCHEMA_ID, ENTRYPOINT_SCHEMA_ID):
        if all(schema.id != schema_id for schema in named):
            versions = reversed(registry.versions(schema_id))
            found += [registry.get(schema_id, version) for version in versions]
    return found


def _ids_of(name: str, schemas: Sequence[Schema]) -> set[tuple[int, int]]:
    found = set()
    for schema in schemas:
        try:
            found.add((schema.id, template(schema, name).id))
        except SchemaError:
            continue
    return found
