"""The layout of every message as lines of text: names, offsets and sizes in bytes, no prose."""

from __future__ import annotations

from pregao.sbe.model import Data, Field, Group, MessageTemplate, Presence, Schema


def layout_lines(schemas: dict[int, Schema]) -> list[str]:
    """A line per message and run of versions with the same layout, by template id."""
    lines = []
    for template in sorted(
        {message.id for schema in schemas.values() for message in schema.messages}
    ):
        layouts: dict[str, list[str]] = {}
        for version, schema in schemas.items():
            message = schema.by_id.get(template)
            if message is not None:
                layouts.setdefault(_of_message(message), []).append(str(version))
        lines += [
            f"{template} in {','.join(versions)}: {layout}" for layout, versions in layouts.items()
        ]
    return lines


def _of_message(message: MessageTemplate) -> str:
    return f"{message.name} {_of_block(message)}"


def _of_block(block: MessageTemplate | Group) -> str:
    parts = [f"({block.block_length})"]
    for field in block.fields:
        parts.append(_of_field(field))
    parts += [f"[{group.name} {_of_block(group)}]" for group in block.groups]
    parts += [_of_data(data) for data in block.data]
    return " ".join(parts)


def _of_field(field: Field) -> str:
    if field.presence is Presence.CONSTANT:
        return f"{field.name}=constant"
    return f"{field.name}@{field.offset}+{field.size}"


def _of_data(data: Data) -> str:
    return f"{data.name}:{data.header_size}+{data.length.maximum}"
