"""Decoding of messages for a followed channel, which rejects those without required fields.

A short block leaves fields null, and tables show them as null. But a message without its required
fields cannot update a book, a counter or a loop: it counts as one that could not be decoded, and
its packet as a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pregao.sbe.model import MessageTemplate
from pregao.sbe.value_specs import readings
from pregao.umdf.packets import DecodedMessage, PacketDecoder, PacketFrame


@dataclass(frozen=True, slots=True)
class _Required:
    """The required fields of a template."""

    message: MessageTemplate
    """Referenced, so that its ``id`` is not reused."""
    fields: tuple[tuple[str, int, int], ...]
    """Name, end in the block, and the version that added the field."""
    in_groups: tuple[tuple[str, str, int], ...]
    """Group, name and version of the fields of entries that are never null."""

    @staticmethod
    def from_template(message: MessageTemplate) -> _Required:
        """Return the required fields of a template."""
        fields = [each for each in readings(message) if each.required]
        return _Required(
            message,
            tuple((each.name, each.end, each.since_version) for each in fields),
            tuple(
                (group.name, each.name, each.since_version)
                for group in message.groups
                for each in readings(group)
                if each.required and each.null is None
            ),
        )

    def missing(self, block_length: int, version: int, values: dict[str, Any]) -> str:
        """Return the name of the first missing required field, or an empty string."""
        for name, end, since_version in self.fields:
            if end > block_length and since_version <= version:
                return name
        for group, name, since_version in self.in_groups:
            entries = values[group]  # all have the same length: check the first
            if entries and since_version <= version and entries[0][name] is None:
                return f"{group}.{name}"
        return ""


_required: dict[int, _Required] = {}
"""By ``id`` of a template, whose hash takes longer than decoding a message."""


def read_message(decoder: PacketDecoder, payload: Any, part: PacketFrame) -> DecodedMessage:
    """Decode one message of a payload; reject it if it lacks required fields."""
    outcome = decoder.outcome(payload, part)
    decoded = outcome.decoded
    if decoded is None:
        return outcome
    message = decoded.message
    if part.block_length >= message.block_length and not message.groups:
        return outcome  # nearly always
    required = _required.get(id(message))
    if required is None:
        required = _required[id(message)] = _Required.from_template(message)
    missing = required.missing(part.block_length, part.version, decoded.values)
    if missing:
        outcome.decoded = None
        outcome.reason = f"{message.name}: the block ends before the required field {missing}"
    return outcome
