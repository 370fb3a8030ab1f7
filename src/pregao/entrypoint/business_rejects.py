"""Business messages that the gateway itself rejects, and the values of the reject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pregao.entrypoint.messages import Enumerations
from pregao.sbe.codec import SbeMessage

THROTTLED: Final = (8, "Throttle limit exceeded")
"""FIX reason code and text (§4.9)."""
_MAX_MEMO: Final = 40
OTHER: Final = 0
"""Reason for an invalid field value; the text names the field."""


def reject_values(name: str, message: SbeMessage, reason: int, text: str) -> dict[str, Any]:
    """Return the values of BusinessMessageReject; omits a memo that cannot be encoded."""
    memo = message.values.get("memo")
    return {
        "refMsgType": name,
        "refSeqNum": message["businessHeader"]["msgSeqNum"],
        "businessRejectReason": reason,
        "businessRejectRefID": message.values.get("clOrdID") or None,
        "memo": memo if memo and memo.isascii() and len(memo) <= _MAX_MEMO else None,
        "text": text,
    }


def value_fault(enumerations: Enumerations, values: Mapping[str, Any]) -> str | None:
    """Return the fault of a decodable message with an invalid enumeration value, or None."""
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
