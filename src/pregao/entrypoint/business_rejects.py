"""Business messages that a gateway refuses by itself, and the reject that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pregao.entrypoint.messages import Enumerations
from pregao.sbe import Decoded

THROTTLED: Final = (8, "Throttle limit exceeded")
"""The reason that FIX numbers so, and its text (§4.9)."""
_LONGEST_MEMO: Final = 40
OTHER: Final = 0
"""The reason for a value that its field does not have; the text names the field."""


def reject_values(name: str, message: Decoded, reason: int, text: str) -> dict[str, Any]:
    """The values of BusinessMessageReject; a memo that cannot be written again is left out."""
    memo = message.values.get("memo")
    return {
        "refMsgType": name,
        "refSeqNum": message["businessHeader"]["msgSeqNum"],
        "businessRejectReason": reason,
        "businessRejectRefID": message.values.get("clOrdID") or None,
        "memo": memo if memo and memo.isascii() and len(memo) <= _LONGEST_MEMO else None,
        "text": text,
    }


def value_fault(enumerations: Enumerations, values: Mapping[str, Any]) -> str | None:
    """What is wrong with a message that can be decoded: a number that is no value of its field."""
    for name, required in enumerations.fields:
        value = values[name]
        if value is None:
            if required:
                return f"{name} needs a value"
        elif not isinstance(value, str):
            return f"{name} has no value {value}"
    for name, inner in enumerations.groups:
        for number, entry in enumerate(values[name], 1):
            fault = value_fault(inner, entry)
            if fault is not None:
                return f"{name} {number}: {fault}"
    return None
