"""Messages as a followed channel reads them: one without its required fields cannot be used.

A short block leaves fields null, and tables show them so. A book, a counter or a loop cannot be
brought forward by a message that does not carry what it must: it counts as one that could not be
decoded, and its packet as a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pregao.sbe.model import Message
from pregao.sbe.values import readings
from pregao.umdf.packets import DecodedMessage, Frame, PacketDecoder


@dataclass(frozen=True, slots=True)
class _Required:
    """The required fields of a template."""

    message: Message
    """Kept, so that its identity stays its own."""
    fields: tuple[tuple[str, int, int], ...]
    """Name, end in the block, and the version since which a field is there."""
    in_groups: tuple[tuple[str, str, int], ...]
    """Group, name and version of the fields of entries that are never null."""

    @staticmethod
    def of(message: Message) -> _Required:
        """Those of a template."""
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
        """The first required field that is not there; empty if all are."""
        for name, end, since_version in self.fields:
            if end > block_length and since_version <= version:
                return name
        for group, name, since_version in self.in_groups:
            entries = values[group]  # all of the same length: the first one shows it
            if entries and since_version <= version and entries[0][name] is None:
                return f"{group}.{name}"
        return ""


_required: dict[int, _Required] = {}
"""By the identity of templates, whose hash takes longer than decoding one."""


def read_message(decoder: PacketDecoder, payload: Any, part: Frame) -> DecodedMessage:
    """Decode one message of a payload; it is rejected if it lacks required fields."""
    outcome = decoder.outcome(payload, part)
    decoded = outcome.decoded
    if decoded is None:
        return outcome
    message = decoded.message
    if part.block_length >= message.block_length and not message.groups:
        return outcome  # nearly always
    required = _required.get(id(message))
    if required is None:
        required = _required[id(message)] = _Required.of(message)
    missing = required.missing(part.block_length, part.version, decoded.values)
    if missing:
        outcome.decoded = None
        outcome.reason = f"{message.name}: the block ends before the required field {missing}"
    return outcome
