"""Bundled schema files, derivation of their versions, and the registry that selects one."""

from pregao.schemas.bundle import (
    ENTRYPOINT_SCHEMA_ID,
    PROTOCOLS,
    UMDF_SCHEMA_ID,
    bundled,
    bundled_message_ids,
    bundled_versions,
)
from pregao.schemas.evolution import SchemaVersion, derive, known_versions
from pregao.schemas.fast_templates import (
    bundled_entries,
    bundled_tags,
    bundled_templates,
    renamed,
)
from pregao.schemas.registry import SCHEMA_PATH_VARIABLE, KnownSchema, Registry

__all__ = [
    "ENTRYPOINT_SCHEMA_ID",
    "PROTOCOLS",
    "SCHEMA_PATH_VARIABLE",
    "UMDF_SCHEMA_ID",
    "KnownSchema",
    "Registry",
    "SchemaVersion",
    "bundled",
    "bundled_entries",
    "bundled_message_ids",
    "bundled_tags",
    "bundled_templates",
    "bundled_versions",
    "derive",
    "known_versions",
    "renamed",
]
