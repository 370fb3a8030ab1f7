"""Registry of schemas, and selection of the one that decodes a message."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pregao.errors import DecodeError, SchemaError, UsageError
from pregao.sbe.model import Schema
from pregao.sbe.xml import schema_from_tree, schema_tree
from pregao.schemas.bundle import (
    PROTOCOLS,
    UMDF_SCHEMA_ID,
    bundled,
    bundled_name,
    bundled_versions,
    with_known_names,
)
from pregao.schemas.evolution import derive, evolves, known_versions
from pregao.xml_tree import read_tree

SCHEMA_PATH_VARIABLE = "PREGAO_SCHEMA_PATH"


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema of a registry, and the file it comes from."""

    schema_id: int
    version: int
    semantic_version: str
    file_name: str

    def answers(self, version: int | str) -> bool:
        """Whether this schema has the given version number or semantic version."""
        return version in (self.version, str(self.version), self.semantic_version)


class Registry:
    """Schemas by id and version: the bundled ones, a user's files, and the one a user named.

    A message is decoded with the newest version that is not newer than the one on the wire. A
    user's file replaces the bundled schema of its id and version; a named schema is used for all
    messages of its id, whatever version they have.
    """

    def __init__(self, *, named: Iterable[Schema] = (), known_names: bool = False) -> None:
        """Create a registry of the bundled schemas, to which files can be added.

        With ``known_names``, values of UMDF that a file renames have the names of the bundled
        schemas: rules and tables need them.
        """
        self._known_names = known_names
        self._known: dict[tuple[int, int], KnownSchema] = {}
        self._loaded: dict[tuple[int, int], Schema] = {}
        self._named: dict[int, Schema] = {}
        self._picked: dict[tuple[int, int], Schema] = {}
        self._sealed = False
        for protocol, schema_id in PROTOCOLS.items():
            for version in bundled_versions(protocol):
                self._known[schema_id, version.number] = KnownSchema(
                    schema_id, version.number, version.semantic_version, bundled_name(protocol)
                )
        for schema in named:
            self.name(schema)

    @staticmethod
    @cache
    def bundled() -> Registry:
        """Return the shared, read-only registry of the bundled schemas."""
        registry = Registry()
        registry._sealed = True
        return registry

    @classmethod
    def from_environment(
        cls, schema_files: Iterable[str | Path] = (), *, known_names: bool = False
    ) -> Registry:
        """Return the registry for a command.

        It has the bundled schemas, those of ``PREGAO_SCHEMA_PATH``, and ``schema_files``, which the
        user named and which are therefore used for messages of any version.
        """
        registry = cls(known_names=known_names)
        registry.add_path(os.environ.get(SCHEMA_PATH_VARIABLE, ""))
        for path in schema_files:
            registry.name_file(path)
        return registry

    def add_file(self, path: str | Path) -> list[KnownSchema]:
        """Add a user's schema file: a published one, or one that defines several versions."""
        self._refuse_if_sealed()
        schemas = _load(Path(path), known_names=self._known_names)
        added: list[KnownSchema] = []
        for schema in schemas:
            key = schema.id, schema.version
            known = KnownSchema(*key, schema.semantic_version, str(path))
            self._known[key] = known
            self._loaded[key] = schema
            added.append(known)
        self._picked = {}
        return added

    def add_path(self, path: str) -> list[KnownSchema]:
        """Add the files and folders of a path list such as ``PREGAO_SCHEMA_PATH``.

        For a folder, every ``.xml`` file that is an SBE schema is added, in the order of their
        names; other XML files are ignored. A later file replaces an earlier one.
        """
        added: list[KnownSchema] = []
        for entry in path.split(os.pathsep):
            if not entry.strip():
                continue
            location = Path(entry.strip()).expanduser()
            if not location.is_dir():
                added += self.add_file(location)
                continue
            for file in sorted(location.glob("*.xml")):
                if read_tree(file).tag == "messageSchema":
                    added += self.add_file(file)
        return added

    def name(self, schema: Schema) -> None:
        """Use a schema for every message of its id, whatever version the message has."""
        self._refuse_if_sealed()
        other = self._named.setdefault(schema.id, schema)
        if other is not schema:
            raise UsageError(
                f"Two schemas of id {schema.id} were named, {_called(other)} and "
                f"{_called(schema)}: name one of them, or put both in {SCHEMA_PATH_VARIABLE} "
                "to decode each message with its own version."
            )
        self._picked = {}

    def name_file(self, path: str | Path) -> Schema:
        """Load a schema file of one version and use it for every message of its id."""
        schemas = _load(Path(path), known_names=self._known_names)
        if len(schemas) > 1:
            raise UsageError(
                f"{path} defines {len(schemas)} versions, so none of them can be used for every "
                f"message: put it in {SCHEMA_PATH_VARIABLE} instead."
            )
        self.name(schemas[0])
        return schemas[0]

    def find(self, schema_id: int, version: int) -> Schema:
        """Return the schema for a message with this schema id and version in its header.

        Raises:
            DecodeError: No schema fits.
        """
        schema = self._picked.get((schema_id, version))
        if schema is None:
            schema = self._picked[schema_id, version] = self._pick(schema_id, version)
        return schema

    def get(self, schema_id: int, version: int | str) -> Schema:
        """Return the schema of exactly this version, by its number or semantic version."""
        known = [each for each in self.schemas() if each.schema_id == schema_id]
        for each in known:
            if each.answers(version):
                return self._schema(each)
        names = ", ".join(f"{each.version} ({each.semantic_version})" for each in known)
        raise SchemaError(
            f"version {version} of schema id {schema_id} is unknown; "
            f"known versions: {names or 'none of this id'}"
        )

    def newest(self, schema_id: int) -> Schema:
        """Return the schema of the newest version of an id."""
        versions = self.versions(schema_id)
        if not versions:
            raise SchemaError(f"unknown schema id {schema_id}")
        return self._schema(self._known[schema_id, versions[-1]])

    def versions(self, schema_id: int) -> list[int]:
        """Return the known versions of a schema id, oldest first."""
        return sorted(version for known_id, version in self._known if known_id == schema_id)

    def schemas(self) -> list[KnownSchema]:
        """Return all schemas of the registry, sorted by schema id and version."""
        return [self._known[key] for key in sorted(self._known)]

    def named(self) -> list[Schema]:
        """Return the schemas that a user named, sorted by schema id."""
        return [self._named[schema_id] for schema_id in sorted(self._named)]

    def _pick(self, schema_id: int, version: int) -> Schema:
        named = self._named.get(schema_id)
        if named is not None:
            return named
        versions = self.versions(schema_id)
        if not versions:
            raise DecodeError(f"unknown schema id {schema_id}")
        if version < versions[0]:
            raise DecodeError(
                f"version {version} of schema id {schema_id} is older than {versions[0]}, "
                "the oldest known"
            )
        newest = max(known for known in versions if known <= version)
        return self._schema(self._known[schema_id, newest])

    def _schema(self, known: KnownSchema) -> Schema:
        """Return a schema, derived from its bundled file on first use."""
        key = known.schema_id, known.version
        if key not in self._loaded:
            protocol = next(name for name, number in PROTOCOLS.items() if number == key[0])
            self._loaded[key] = bundled(protocol, known.version)
        return self._loaded[key]

    def _refuse_if_sealed(self) -> None:
        if self._sealed:
            raise UsageError(
                "The registry of the bundled schemas is shared and read-only: add schemas to "
                "your own Registry()."
            )


def _load(path: Path, *, known_names: bool) -> list[Schema]:
    """Load all schemas of a file completely, so that errors show now and not in a decoder."""
    tree = read_tree(path)
    if not evolves(tree):
        trees = [schema_tree(path)]
    else:
        trees = [derive(tree, each.number) for each in known_versions(tree)]
    if known_names and tree.get("id") == str(UMDF_SCHEMA_ID):
        trees = [with_known_names(each, "umdf") for each in trees]
    return [schema_from_tree(each) for each in trees]


def _called(schema: Schema) -> str:
    return schema.file_name or f"version {schema.version}"
