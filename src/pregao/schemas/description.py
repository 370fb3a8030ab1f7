"""Describe the messages, fields and types of a schema as JSON-compatible data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pregao.errors import SchemaError, UsageError
from pregao.name_matching import did_you_mean
from pregao.sbe.model import (
    Block,
    Composite,
    EncodedType,
    EnumType,
    Field,
    MessageTemplate,
    Presence,
    Schema,
    SetType,
    Type,
)
from pregao.sbe.value_specs import ValueSpec, readings
from pregao.sbe.xml import template
from pregao.schemas.bundle import PROTOCOLS
from pregao.schemas.registry import Registry

_VERSION_OF = "id {0.id}, version {0.version} ({0.semantic_version})"


def choose(protocol: str, version: str | None, file: Path | None) -> tuple[Schema, list[str]]:
    """Return the selected schema and the names of all available versions."""
    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol must be one of {', '.join(PROTOCOLS)}; was {protocol!r}.")
    registry = Registry.from_environment()
    if file is None:
        schema_id = PROTOCOLS[protocol]
    else:
        added = registry.add_file(file)
        schema_id = added[-1].schema_id
        version = version or str(added[-1].version)
    known = [each for each in registry.schemas() if each.schema_id == schema_id]
    names = [f"{each.version} ({each.semantic_version})" for each in known]
    if version is None:
        return registry.newest(schema_id), names
    return registry.get(schema_id, version), names


def contents(schema: Schema, versions: list[str]) -> dict[str, Any]:
    """Describe the messages of a schema."""
    return {
        "kind": "schema",
        **_origin(schema),
        "package": schema.package,
        "byte_order": "big-endian" if schema.big_endian else "little-endian",
        "versions": versions,
        "messages": [
            {
                "template": message.id,
                "name": message.name,
                "block_length": message.block_length,
                "fields": len(message.fields),
                "groups": [group.name for group in message.groups],
                "data": [data.name for data in message.data],
                "since": message.since_version,
                "description": message.description,
            }
            for message in sorted(schema.messages, key=lambda each: each.id)
        ],
        "types": sorted(schema.types),
    }


def _origin(schema: Schema) -> dict[str, Any]:
    return {
        "schema_id": schema.id,
        "version": schema.version,
        "semantic_version": schema.semantic_version,
    }


def described(schema: Schema, name: str) -> dict[str, Any]:
    """Describe the message or type of that name; raise `SchemaError` if there is none."""
    message = _message(schema, name)
    if message is not None:
        return {
            "kind": "message",
            **_origin(schema),
            "name": message.name,
            "template": message.id,
            "block_length": message.block_length,
            "since": message.since_version,
            "description": message.description,
            **_parts(message),
        }
    kinds = [kind for known, kind in schema.types.items() if known.lower() == name.lower()]
    if kinds:
        # Names may differ in case only: prefer the exact one.
        return {**_type(schema.types.get(name, kinds[0])), **_origin(schema)}
    names = (*schema.by_name, *schema.types)
    hint = did_you_mean(name, names, 1, 0.5, " `pregao schema` lists all names.")
    raise SchemaError(
        f"{name!r} is neither a message nor a type of schema {_VERSION_OF.format(schema)}.{hint}"
    )


def _message(schema: Schema, name: str) -> MessageTemplate | None:
    try:
        return template(schema, name)
    except SchemaError:
        return None


def _parts(block: Block) -> dict[str, Any]:
    """Describe the fields, groups and data of a message or group."""
    known = {reading.name: reading for reading in readings(block)}
    return {
        "fields": [_field(field, known.get(field.name)) for field in block.fields],
        "groups": [
            {
                "name": group.name,
                "id": group.id,
                "type": group.dimension.type.name,
                "header_size": group.dimension.size,
                "block_length": group.block_length,
                "since": group.since_version,
                "description": group.description,
                **_parts(group),
            }
            for group in block.groups
        ],
        "data": [
            {
                "name": data.name,
                "id": data.id,
                "type": data.type.name,
                "length": data.length.primitive.name,
                "encoding": data.character_encoding,
                "since": data.since_version,
                "description": data.description,
            }
            for data in block.data
        ],
    }


def _field(field: Field, reading: ValueSpec | None) -> dict[str, Any]:
    return {
        "name": field.name,
        "id": field.id,
        "column": None if reading is None else reading.column,
        "offset": None if field.presence is Presence.CONSTANT else field.offset,
        "size": field.size,
        "type": field.type.name,
        "encoding": _encoding(field.type),
        "presence": _presence(field, reading),
        "null": None if reading is None else _null(reading),
        "constant": field.constant,
        "since": field.since_version,
        "description": field.description,
    }


def _presence(field: Field, reading: ValueSpec | None) -> str:
    """Return the presence of a field: its own, or optional if its type is."""
    optional = reading is not None and not reading.required
    return Presence.OPTIONAL.value if optional else field.presence.value


def _null(reading: ValueSpec) -> int | float | str | None:
    if reading.null is None or reading.null == reading.null:
        return reading.null
    return "NaN"


def _encoding(kind: Type) -> str:
    """Return the encoding of a type: ``int64``, ``char[3]``, or the members of a composite."""
    if isinstance(kind, EncodedType):
        if kind.presence is Presence.CONSTANT:
            return f"= {kind.constant}"
        length = f"[{kind.length}]" if kind.length != 1 else ""
        return f"{kind.primitive.name}{length}"
    if isinstance(kind, Composite):
        return ", ".join(f"{member.name} {_encoding(member.type)}" for member in kind.members)
    return kind.encoding.primitive.name


def _type(kind: Type) -> dict[str, Any]:
    result: dict[str, Any] = {
        "kind": "type",
        "name": kind.name,
        "size": kind.size,
        "encoding": _encoding(kind),
        "since": kind.since_version,
        "description": kind.description,
    }
    match kind:
        case EnumType():
            result |= {
                "kind": "enum",
                "null": kind.null,
                "members": [
                    {
                        "name": member.name,
                        "value": member.value,
                        "since": member.since_version,
                        "description": member.description,
                    }
                    for member in kind.members
                ],
            }
        case SetType():
            result |= {
                "kind": "set",
                "members": [
                    {
                        "name": choice.name,
                        "bit": choice.bit,
                        "since": choice.since_version,
                        "description": choice.description,
                    }
                    for choice in kind.choices
                ],
            }
        case Composite():
            result |= {
                "kind": "composite",
                "members": [
                    {"offset": member.offset, **_type(member.type), "name": member.name}
                    for member in kind.members
                ],
            }
        case EncodedType():
            result |= {
                "presence": kind.presence.value,
                "null": kind.null if kind.presence is Presence.OPTIONAL else None,
                "constant": kind.constant,
                "character_encoding": kind.character_encoding,
            }
    return result
