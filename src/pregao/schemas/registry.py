"""The schemas that are known, and the choice of the one that reads a message."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pregao.errors import DecodeError, SchemaError, UsageError
from pregao.sbe.model import Schema
from pregao.sbe.xml import load_schema, schema_from_tree
from pregao.schemas.bundle import PROTOCOLS, bundled, bundled_name, bundled_versions
from pregao.schemas.evolution import derive, evolves, known_versions
from pregao.xml_tree import read_tree

SCHEMA_PATH_VARIABLE = "PREGAO_SCHEMA_PATH"


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema that a registry can give, and the file it comes from."""

    schema_id: int
    version: int
    semantic_version: str
    file_name: str

    def answers(self, version: int | str) -> bool:
        """Whether this is the version meant by a number or a semantic version."""
        return version in (self.version, str(self.version), self.semantic_version)


class Registry:
    """Schemas by id and version: the bundled ones, a user's files, and the one a user named.

    A message is read with the newest version that is not above the one on the wire. A user's
    file takes the place of a bundled schema of its id and version; a schema that was named is
    used for all messages of its id, whatever version they carry.
    """

    def __init__(self, *, named: Iterable[Schema] = ()) -> None:
        """A registry of the bundled schemas, to which files can be added."""
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
        """The one registry of the bundled schemas alone; nothing can be added to it."""
        registry = Registry()
        registry._sealed = True
        return registry

    @classmethod
    def from_environment(cls, schema_files: Iterable[str | Path] = ()) -> Registry:
        """The registry for a command: bundled schemas, those of ``PREGAO_SCHEMA_PATH``,
        and ``schema_files``, which the user named and which are therefore used at any version.
        """
        registry = cls()
        registry.add_path(os.environ.get(SCHEMA_PATH_VARIABLE, ""))
        for path in schema_files:
            registry.name_file(path)
        return registry

    def add_file(self, path: str | Path) -> list[KnownSchema]:
        """Add a user's schema file: a published one as it is, or one of many versions like ours."""
        self._refuse_if_sealed()
        schemas = _load(Path(path))
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
        """Add the files and folders of a list such as ``PREGAO_SCHEMA_PATH`` holds.

        Of a folder, every ``.xml`` file that is an SBE schema is added, in the order of their
        names; other XML files are passed over. A later file takes the place of an earlier one.
        """
        added: list[KnownSchema] = []
        for entry in path.split(os.pathsep):
            if not entry.strip():
                continue
            place = Path(entry.strip()).expanduser()
            if not place.is_dir():
                added += self.add_file(place)
                continue
            for file in sorted(place.glob("*.xml")):
                if read_tree(file).tag == "messageSchema":
                    added += self.add_file(file)
        return added

    def name(self, schema: Schema) -> None:
        """Use a schema for every message of its id, whatever version the message carries."""
        self._refuse_if_sealed()
        other = self._named.setdefault(schema.id, schema)
        if other is not schema:
            raise UsageError(
                f"Two schemas of id {schema.id} were named, {_called(other)} and "
                f"{_called(schema)}: name one of them, or put both in {SCHEMA_PATH_VARIABLE} "
                "to have each message read by the version that it carries."
            )
        self._picked = {}

    def name_file(self, path: str | Path) -> Schema:
        """Load a schema file of one version and use it as ``name`` does."""
        schemas = _load(Path(path))
        if len(schemas) > 1:
            raise UsageError(
                f"{path} states {len(schemas)} versions, so none of them can be used for every "
                f"message: put it in {SCHEMA_PATH_VARIABLE} instead."
            )
        self.name(schemas[0])
        return schemas[0]

    def find(self, schema_id: int, version: int) -> Schema:
        """The schema for a message with this schema id and version in its header.

        Raises DecodeError where no schema fits.
        """
        schema = self._picked.get((schema_id, version))
        if schema is None:
            schema = self._picked[schema_id, version] = self._pick(schema_id, version)
        return schema

    def get(self, schema_id: int, version: int | str) -> Schema:
        """The schema of exactly this version, by its number or its semantic version."""
        known = [each for each in self.schemas() if each.schema_id == schema_id]
        for each in known:
            if each.answers(version):
                return self._schema(each)
        names = ", ".join(f"{each.version} ({each.semantic_version})" for each in known)
        raise SchemaError(
            f"version {version} of schema id {schema_id} is not known; "
            f"known are {names or 'none of this id'}"
        )

    def newest(self, schema_id: int) -> Schema:
        """The schema of the newest version of an id."""
        versions = self.versions(schema_id)
        if not versions:
            raise SchemaError(f"no schema of id {schema_id} is known")
        return self._schema(self._known[schema_id, versions[-1]])

    def versions(self, schema_id: int) -> list[int]:
        """The versions known of a schema id, oldest first."""
        return sorted(version for known_id, version in self._known if known_id == schema_id)

    def schemas(self) -> list[KnownSchema]:
        """What is known, by schema id and version."""
        return [self._known[key] for key in sorted(self._known)]

    def named(self) -> list[Schema]:
        """The schemas that a user named, by schema id."""
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
        """A schema, derived from its bundled file when it is first wanted."""
        key = known.schema_id, known.version
        if key not in self._loaded:
            protocol = next(name for name, number in PROTOCOLS.items() if number == key[0])
            self._loaded[key] = bundled(protocol, known.version)
        return self._loaded[key]

    def _refuse_if_sealed(self) -> None:
        if self._sealed:
            raise UsageError(
                "The registry of the bundled schemas is shared: add schemas to a Registry() "
                "of your own."
            )


def _load(path: Path) -> list[Schema]:
    """The schemas of a file, whole, so that a mistake in it shows now and not in a decoder."""
    tree = read_tree(path)
    if not evolves(tree):
        return [load_schema(path)]
    return [schema_from_tree(derive(tree, each.number)) for each in known_versions(tree)]


def _called(schema: Schema) -> str:
    return schema.file_name or f"version {schema.version}"
