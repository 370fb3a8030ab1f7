"""Codec of one EntryPoint version: framed bytes from names and values, and back.

It also has the values of the rejects that the gateway itself sends for business messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pregao.entrypoint.framing import HEADERS_SIZE, StreamFrame, framed
from pregao.errors import DecodeError, FieldRangeError, UsageError
from pregao.sbe.codec import SbeMessage, SchemaCodec
from pregao.sbe.model import Block, Schema
from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID, bundled, bundled_versions
from pregao.schemas.registry import Registry

VERSIONS: Final = tuple(version.number for version in bundled_versions("entrypoint"))
"""Schema versions supported for sessions, oldest first."""

FROM_CLIENT: Final = frozenset({
    "SimpleNewOrder", "SimpleModifyOrder", "NewOrderSingle", "OrderCancelReplaceRequest",
    "OrderCancelRequest", "NewOrderCross", "SecurityDefinitionRequest", "QuoteRequest", "Quote",
    "QuoteCancel", "QuoteRequestReject", "PositionMaintenanceCancelRequest",
    "PositionMaintenanceRequest", "AllocationInstruction", "OrderMassActionRequest",
})  # fmt: skip
"""Business messages that a client may send (§4.6.1)."""
FROM_EXCHANGE: Final = frozenset({
    "BusinessMessageReject", "ExecutionReport_New", "ExecutionReport_Modify",
    "ExecutionReport_Cancel", "ExecutionReport_Reject", "ExecutionReport_Trade",
    "ExecutionReport_Forward", "SecurityDefinitionResponse", "QuoteRequest", "QuoteStatusReport",
    "Quote", "QuoteCancel", "QuoteRequestReject", "PositionMaintenanceReport", "AllocationReport",
    "OrderMassActionReport",
})  # fmt: skip
"""Business messages that the exchange may send (§4.6.1)."""
BUSINESS: Final = FROM_CLIENT | FROM_EXCHANGE

SESSION_MESSAGES: Final = frozenset({
    "Negotiate", "NegotiateResponse", "NegotiateReject", "Establish", "EstablishAck",
    "EstablishReject", "Terminate", "NotApplied", "Sequence", "RetransmitRequest",
    "Retransmission", "RetransmitReject",
})  # fmt: skip
"""Session layer messages (§4.5)."""

_DEFAULTED: Final = frozenset({"timeInForce"})
"""Fields that the schema requires, but whose absence means a value: DAY (§7.1.8)."""
_HEADER = "businessHeader"
_SAMPLE = "ExecutionReport_New"

_USED_SCHEMAS: dict[int, Schema] = {}
"""Schemas that a gateway process uses instead of the bundled ones, by version."""

THROTTLED: Final = (8, "Throttle limit exceeded")
"""FIX reason code and text (§4.9)."""
_MAX_MEMO: Final = 40
OTHER: Final = 0
"""Reason for an invalid field value; the text names the field."""


class Enumerations(NamedTuple):
    """Enumerated fields of a message or group, and its groups that have such fields."""

    fields: tuple[tuple[str, bool], ...]
    """Name, and whether a value is required."""
    groups: tuple[tuple[str, Enumerations], ...]


def _enumerations(block: Block) -> Enumerations:
    fields = [
        (each.name, each.required and each.name not in _DEFAULTED)
        for each in readings(block)
        if each.enum is not None
    ]
    groups = [(group.name, _enumerations(group)) for group in block.groups]
    return Enumerations(tuple(fields), tuple(each for each in groups if any(each[1])))


def _semantic_versions(schema: Schema) -> dict[str, dict[str, Any]]:
    """Return, for each message with a field for it, the semantic version of the schema."""
    names = ("majorNumber", "minorNumber", "patchNumber", "buildNumber")
    parts = [int(part) if part.isdecimal() else 0 for part in schema.semantic_version.split(".")]
    numbers = [*parts, 0, 0, 0, 0][: len(names)]
    value = {"semanticVersion": dict(zip(names, numbers, strict=True))}
    return {
        message.name: value
        for message in schema.messages
        if any(field.name in value for field in message.fields)
    }


class EntryPointCodec:
    """Encodes and decodes the messages of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.version = schema.version
        self.schema = schema
        self._codec = SchemaCodec(schema)
        self._names = {message.id: message.name for message in self._codec.schema.messages}
        self._enumerations: dict[str, Enumerations] = {}
        self._names.pop(0, None)  # the framing header, which the schema declares as a message
        self._reporting = _semantic_versions(self._codec.schema)
        sample = self._codec.schema.by_name[_SAMPLE]
        header = next(field for field in readings(sample) if field.name == _HEADER)
        members = {member.name: member for member in header.members}
        self._resend = "possResend" if "possResend" in members else "eventIndicator"

    def enumerations(self, name: str) -> Enumerations:
        """Return the enumerated fields of a message."""
        found = self._enumerations.get(name)
        if found is None:
            found = _enumerations(self._codec.schema.by_name[name])
            self._enumerations[name] = found
        return found

    def name(self, frame: StreamFrame) -> str | None:
        """Return the name of a frame's message, or None if this version does not have it."""
        if frame.header.schema_id != ENTRYPOINT_SCHEMA_ID:
            return None
        return self.named(frame.header.template_id)

    def named(self, template_id: int) -> str | None:
        """Return the name of the message with a template id, or None if this version does not have
        it.
        """
        return self._names.get(template_id)

    def decode(self, frame: StreamFrame) -> SbeMessage:
        """Decode the message of a frame.

        Raises:
            DecodeError: The template is unknown or the body is malformed.
        """
        codec = self._codec.codec(frame.header.template_id)
        if codec is None:
            raise DecodeError(f"template {frame.header.template_id} is not known")
        length, data = frame.header.block_length, frame.data
        if length < codec.message.block_length:
            raise DecodeError(
                f"a block of {length} bytes is shorter than {codec.message.block_length}"
            )
        return codec.decode_body(data, HEADERS_SIZE, length, self.version, len(data))

    def readable(self, frame: StreamFrame) -> SbeMessage:
        """Decode the business message of a frame, or only its header if a field is out of range.

        The header is sufficient to reject the message.

        Raises:
            DecodeError: The body is malformed.
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
            return SbeMessage(codec.message, self.version, {_HEADER: header}, len(data))

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """Encode and frame a message; adds the schema's semantic version if it has the field."""
        if name in self._reporting:
            values = {**self._reporting[name], **values}
        return framed(self._codec.encode(name, values))

    def from_client(
        self, name: str, values: Mapping[str, Any], session_id: int, number: int, now_ns: int
    ) -> bytes:
        """Encode a business message of a client; ``values`` includes its market segment."""
        filled = dict(values)
        header = {
            "sessionID": session_id,
            "msgSeqNum": number,
            "sendingTime": now_ns,
            "marketSegmentID": filled.pop("marketSegmentID", None),
        }
        if name in FROM_EXCHANGE:  # this message has the header of both directions
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
        """Encode a business message of the exchange; ``resend`` marks it as a possible resend."""
        header = {"sessionID": session_id, "msgSeqNum": number, "sendingTime": now_ns}
        return self.encode(name, {**values, _HEADER: {**header, self._resend: int(resend)}})

    def resent(self, message: SbeMessage) -> bool:
        """Whether a message of the exchange is marked as a possible resend."""
        mark = message[_HEADER][self._resend]
        return mark == "TRUE_VALUE" or (isinstance(mark, int) and bool(mark & 1))


def read_schema(path: str | Path) -> Schema:
    """Load the schema file of one version for sessions.

    A file is needed for peers whose version is not bundled, or whose version number is ambiguous:
    5.6 and 8.3.3 both have id 1 and version 5.

    Raises:
        UsageError: The file is not an EntryPoint schema, or lacks a message that sessions need.
    """
    schema = Registry().name_file(path)
    if schema.id != ENTRYPOINT_SCHEMA_ID:
        raise UsageError(
            f"{path} has schema id {schema.id}; an EntryPoint schema has id {ENTRYPOINT_SCHEMA_ID}."
        )
    missing = sorted((SESSION_MESSAGES | {_SAMPLE}) - schema.by_name.keys())
    if missing:
        raise UsageError(f"{path} has no message {missing[0]}, which sessions need.")
    return schema


def use_schema(schema: Schema) -> None:
    """Use a schema for all sessions of its version in this process, as a gateway does.

    Call it before the first session: codecs are cached by version.
    """
    _USED_SCHEMAS[schema.version] = schema
    messages.cache_clear()


def session_schema(version: int) -> Schema:
    """Return the schema for sessions of a version.

    Raises:
        SchemaError: The version is neither bundled nor set with `use_schema`.
    """
    return _USED_SCHEMAS[version] if version in _USED_SCHEMAS else bundled("entrypoint", version)


@cache
def messages(version: int) -> EntryPointCodec:
    """Return the codec of a version.

    Args:
        version: A schema version, such as those in `VERSIONS`.

    Returns:
        The codec, the same one for every call.

    Raises:
        SchemaError: The version is neither bundled nor set with `use_schema`.

    Example:
        >>> messages(6).version
        6
    """
    return EntryPointCodec(session_schema(version))


def nearest_version(version: int) -> int:
    """Return the version in which to answer a peer with an unsupported version."""
    known = (*VERSIONS, *_USED_SCHEMAS)
    return max((each for each in known if each <= version), default=min(known))


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
