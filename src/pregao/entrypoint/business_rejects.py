"""Business messages that a gateway refuses by itself, and the reject that says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pregao.sbe import Block, Decoded, ValueKind, readings

THROTTLED: Final = (8, "Throttle limit exceeded")
"""The reason that FIX numbers so, and its text (§4.9)."""
OTHER: Final = 0
"""The reason for a value that its field does not have; the text names the field."""


def reject_values(name: str, message: Decoded, reason: int, text: str) -> dict[str, Any]:
    """The values of BusinessMessageReject."""
    return {
        "refMsgType": name,
        "refSeqNum": message["businessHeader"]["msgSeqNum"],
        "businessRejectReason": reason,
        "businessRejectRefID": message.values.get("clOrdID") or None,
        "memo": message.values.get("memo"),
        "text": text,
    }


def value_fault(block: Block, values: Mapping[str, Any]) -> str | None:
    """What is wrong with a message that can be decoded: a number that is no value of its field."""
    return next(_faults(block, values), None)


def _faults(block: Block, values: Mapping[str, Any]) -> Iterator[str]:
    for field in readings(block):
        value = values[field.name]
        if field.kind is not ValueKind.ENUM:
            continue
        if isinstance(value, int):
            yield f"{field.name} has no value {value}"
        elif field.required and value is None:
            yield f"{field.name} needs a value"
    for group in block.groups:
        for number, entry in enumerate(values[group.name], 1):
            yield from (f"{group.name} {number}: {fault}" for fault in _faults(group, entry))
