"""The messages of one version of EntryPoint: framed bytes of names and values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pregao.entrypoint.framing import HEADERS_SIZE, Frame, framed
from pregao.errors import DecodeError, FieldRangeError, UsageError
from pregao.sbe import Block, Decoded, Schema, SchemaCodec, readings
from pregao.schemas import ENTRYPOINT_SCHEMA_ID, Registry, bundled, bundled_versions

VERSIONS: Final = tuple(version.number for version in bundled_versions("entrypoint"))
"""The schema versions that sessions can be held in, oldest first."""

FROM_CLIENT: Final = frozenset({
    "SimpleNewOrder", "SimpleModifyOrder", "NewOrderSingle", "OrderCancelReplaceRequest",
    "OrderCancelRequest", "NewOrderCross", "SecurityDefinitionRequest", "QuoteRequest", "Quote",
    "QuoteCancel", "QuoteRequestReject", "PositionMaintenanceCancelRequest",
    "PositionMaintenanceRequest", "AllocationInstruction", "OrderMassActionRequest",
})  # fmt: skip
"""The business messages that a client may send (§4.6.1)."""
FROM_EXCHANGE: Final = frozenset({
    "BusinessMessageReject", "ExecutionReport_New", "ExecutionReport_Modify",
    "ExecutionReport_Cancel", "ExecutionReport_Reject", "ExecutionReport_Trade",
    "ExecutionReport_Forward", "SecurityDefinitionResponse", "QuoteRequest", "QuoteStatusReport",
    "Quote", "QuoteCancel", "QuoteRequestReject", "PositionMaintenanceReport", "AllocationReport",
    "OrderMassActionReport",
})  # fmt: skip
"""The business messages that the exchange may send (§4.6.1)."""
BUSINESS: Final = FROM_CLIENT | FROM_EXCHANGE

SESSION_MESSAGES: Final = frozenset({
    "Negotiate", "NegotiateResponse", "NegotiateReject", "Establish", "EstablishAck",
    "EstablishReject", "Terminate", "NotApplied", "Sequence", "RetransmitRequest",
    "Retransmission", "RetransmitReject",
})  # fmt: skip
"""The messages that a session is held with (§4.5)."""

_HEADER = "businessHeader"
_SAMPLE = "ExecutionReport_New"


class Enumerations(NamedTuple):
    """The fields of a message or group whose values have names; and its groups that have some."""

    fields: tuple[tuple[str, bool], ...]
    """Name, and whether there must be a value."""
    groups: tuple[tuple[str, Enumerations], ...]


def _enumerations(block: Block) -> Enumerations:
    fields = [(each.name, each.required) for each in readings(block) if each.enum is not None]
    groups = [(group.name, _enumerations(group)) for group in block.groups]
    return Enumerations(tuple(fields), tuple(each for each in groups if any(each[1])))


def _semantic_versions(schema: Schema) -> dict[str, dict[str, Any]]:
    """What the messages with a field for the schema's semantic version have in it."""
    names = ("majorNumber", "minorNumber", "patchNumber", "buildNumber")
    parts = [int(part) if part.isdecimal() else 0 for part in schema.semantic_version.split(".")]
    numbers = [*parts, 0, 0, 0, 0][: len(names)]
    told = {"semanticVersion": dict(zip(names, numbers, strict=True))}
    return {
        message.name: told
        for message in schema.messages
        if any(field.name in told for field in message.fields)
    }


class Messages:
    """Reads and writes the messages of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.version = schema.version
        self.schema = schema
        self._codec = SchemaCodec(schema)
        self._names = {message.id: message.name for message in self._codec.schema.messages}
        self._enumerations: dict[str, Enumerations] = {}
        self._names.pop(0, None)  # the framing header as the schema states it; no message is one
        self._telling = _semantic_versions(self._codec.schema)
        sample = self._codec.schema.by_name[_SAMPLE]
        header = next(field for field in readings(sample) if field.name == _HEADER)
        members = {member.name: member for member in header.members}
        self._resend = "possResend" if "possResend" in members else "eventIndicator"

    def enumerations(self, name: str) -> Enumerations:
        """Which fields of a message have values with names."""
        found = self._enumerations.get(name)
        if found is None:
            found = _enumerations(self._codec.schema.by_name[name])
            self._enumerations[name] = found
        return found

    def name(self, frame: Frame) -> str | None:
        """The name of a frame's message, if this version has it."""
        if frame.header.schema_id != ENTRYPOINT_SCHEMA_ID:
            return None
        return self.named(frame.header.template_id)

    def named(self, template_id: int) -> str | None:
        """The name of the message with a template's number, if this version has it."""
        return self._names.get(template_id)

    def decode(self, frame: Frame) -> Decoded:
        """The message of a frame; DecodeError where its body is not one."""
        codec = self._codec.codec(frame.header.template_id)
        if codec is None:
            raise DecodeError(f"template {frame.header.template_id} is not known")
        length, data = frame.header.block_length, frame.data
        if length < codec.message.block_length:
            raise DecodeError(
                f"a block of {length} bytes is shorter than {codec.message.block_length}"
            )
        return codec.decode_body(data, HEADERS_SIZE, length, self.version, len(data))

    def readable(self, frame: Frame) -> Decoded:
        """The business message of a frame, or its header alone where a number is beyond its field.

        That is enough to reject it; DecodeError where the body is not a message.
        """
        try:
            return self.decode(frame)
        except FieldRangeError:
            codec = self._codec.codec(frame.header.template_id)
            assert codec is not None
            members = ("sessionID", "msgSeqNum")
            unpack = codec.unpacker(*(f"{_HEADER}.{member}" for member in members))
            data = frame.data
            found = unpack(data, HEADERS_SIZE, frame.header.block_length, len(data))
            header = dict(zip(members, found, strict=True))
            return Decoded(codec.message, self.version, {_HEADER: header}, len(data))

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """A message, framed; where it can tell the schema's semantic version, it does."""
        if name in self._telling:
            values = {**self._telling[name], **values}
        return framed(self._codec.encode(name, values))

    def from_client(
        self, name: str, values: Mapping[str, Any], session_id: int, number: int, now_ns: int
    ) -> bytes:
        """A business message of a client; its market segment is among the values."""
        filled = dict(values)
        header = {
            "sessionID": session_id,
            "msgSeqNum": number,
            "sendingTime": now_ns,
            "marketSegmentID": filled.pop("marketSegmentID", None),
        }
        if name in FROM_EXCHANGE:  # a header for both directions
            header[self._resend] = 0
        filled[_HEADER] = header
        return self.encode(name, filled)

    def from_exchange(
        self,
        name: str,
        values: Mapping[str, Any],
        session_id: int,
        number: int,
        now_ns: int,
        *,
        resend: bool = False,
    ) -> bytes:
        """A business message of the exchange; ``resend`` says that it may have been sent before."""
        header = {"sessionID": session_id, "msgSeqNum": number, "sendingTime": now_ns}
        return self.encode(name, {**values, _HEADER: {**header, self._resend: int(resend)}})

    def resent(self, message: Decoded) -> bool:
        """Does a message of the exchange say that it may have been sent before?"""
        mark = message[_HEADER][self._resend]
        return mark == "TRUE_VALUE" or (isinstance(mark, int) and bool(mark & 1))


_NAMED: dict[int, Schema] = {}
"""Schemas that the process of a gateway uses instead of bundled ones, by version."""


def read_schema(path: str | Path) -> Schema:
    """Load a schema file of one version for sessions; UsageError if these cannot be held with it.

    A file is named for peers whose version is not bundled, or has the number of another one: 5.6
    and 8.3.3 both have id 1 and version 5.
    """
    schema = Registry().name_file(path)
    if schema.id != ENTRYPOINT_SCHEMA_ID:
        raise UsageError(
            f"{path} has schema id {schema.id}; an EntryPoint schema has id {ENTRYPOINT_SCHEMA_ID}."
        )
    missing = sorted((SESSION_MESSAGES | {_SAMPLE}) - schema.by_name.keys())
    if missing:
        raise UsageError(f"{path} has no message {missing[0]}: sessions cannot be held with it.")
    return schema


def use_schema(schema: Schema) -> None:
    """Use a schema for all sessions of its version in this process, as a gateway does.

    It is called before the first session: codecs are kept by version.
    """
    _NAMED[schema.version] = schema
    messages.cache_clear()


def session_schema(version: int) -> Schema:
    """The schema that sessions of a version are held with; SchemaError if there is none."""
    return _NAMED[version] if version in _NAMED else bundled("entrypoint", version)


@cache
def messages(version: int) -> Messages:
    """The messages of a version; SchemaError if it is not bundled and was not named."""
    return Messages(session_schema(version))


def nearest_version(version: int) -> int:
    """The version in which to answer a peer that speaks another one."""
    known = (*VERSIONS, *_NAMED)
    return max((each for each in known if each <= version), default=min(known))
