"""Decodes messages from FAST to named values, and checks them against their headers."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from pregao.errors import DecodeError
from pregao.fast.codec import Decoder
from pregao.fast.model import FastField, Operator, Template, Templates
from pregao.legacy.reassembly import AssembledMessage
from pregao.legacy.times import timestamp_ns
from pregao.schemas.fast_templates import bundled_templates, renamed

_MSG_TYPE = 35


class MsgType(StrEnum):
    """Type of a message: tag 35, which is a constant of its template."""

    INCREMENTAL_REFRESH = "X"
    SNAPSHOT = "W"
    SECURITY_LIST = "y"
    SECURITY_STATUS = "f"
    NEWS = "B"
    HEARTBEAT = "0"
    SEQUENCE_RESET = "4"
    LOGON = "A"
    LOGOUT = "5"
    REQUEST_REJECT = "Y"
    NON_FIX = "n"
    OTHER = ""
    """Of a template in a newer file."""


class LegacyMessage(NamedTuple):
    """A decoded message."""

    type: MsgType
    number: int
    """Sequence number, tag 34."""
    sending_time_ns: int | None
    template_id: int
    values: dict[str, Any]
    """Values by the field names of the bundled templates, whichever file is used."""

    @property
    def new_number(self) -> int:
        """The sequence number that a SequenceReset sets (tag 36)."""
        return int(self.values.get("NewSeqNo") or 1)


def message_type(template: Template) -> MsgType:
    """Return the message type of a template."""
    for part in template.parts:
        if (
            isinstance(part, FastField)
            and part.id == _MSG_TYPE
            and part.operation.operator is Operator.CONSTANT
        ):
            try:
                return MsgType(str(part.operation.initial))
            except ValueError:
                return MsgType.OTHER
    return MsgType.OTHER


class MessageReader:
    """Decodes complete messages, each independently of those before (002 §3.1.15)."""

    def __init__(self, templates: Templates | None = None) -> None:
        """Use ``templates`` from `pregao.fast.xml.load_templates` instead of the bundled ones."""
        self.templates = bundled_templates() if templates is None else renamed(templates)
        self._decoder = Decoder(self.templates, reset_each_message=True)

    @cached_property
    def types(self) -> dict[int, MsgType]:
        """Message type of each template, by template ID."""
        return {number: message_type(each) for number, each in self.templates.by_id.items()}

    def read(self, message: AssembledMessage) -> LegacyMessage:
        """Decode a message; raise DecodeError if it contradicts its header.

        FAST has no checksum, and many damaged messages still decode: only the sequence number and
        leftover bytes reveal the damage.
        """
        decoded = self._decoder.decode(message.payload)
        if decoded.end != len(message.payload):
            raise DecodeError("bytes after the end of the message", decoded.end)
        values = decoded.values
        number = values.get("MsgSeqNum")
        if number is not None and number != message.number:
            raise DecodeError("tag 34 is not the number in the header", 0)
        template_id = decoded.template.id or 0
        sent = timestamp_ns(values.get("SendingTime"))
        return LegacyMessage(self.types[template_id], message.number, sent, template_id, values)
