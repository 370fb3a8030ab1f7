"""Messages of TCP recovery and historical replay (002 §5.1.4, §6.2): fields to data and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from pregao.errors import DecodeError
from pregao.fix.message import FixMessage

REQUEST, ACKNOWLEDGEMENT, RAW_DATA, REPORT = "BW", "BX", "URDR", "BY"
"""Message types (tag 35)."""
MAX_MESSAGES_PER_REQUEST = 2000
"""Maximum number of messages per request."""

_REQ_ID, _RESP_ID, _REPORT_ID = 1346, 1353, 1356
_REQ_TYPE, _RESP_TYPE, _REPORT_TYPE = 1347, 1348, 1426
_IDS, _REF_ID, _APPL_ID = 1351, 1355, 1180
_BEGIN, _END, _LAST, _REF_LAST = 1182, 1183, 1350, 1357
_TOTAL, _ERROR, _TEXT = 1349, 1354, 58
_RESEND, _NUMBERS, _NUMBER, _OFFSET = 1352, 10054, 1181, 10055
_LENGTH, _DATA = 95, 96
_RETRANSMISSION = 0

Field = tuple[int, bytes | str | int]


class ApplRespType(IntEnum):
    """Answer to a request (ApplRespType, tag 1348); values above PARTLY mean refusal."""

    ACCEPTED = 0
    PARTLY = 1
    REFUSED = 2


class ApplRespError(IntEnum):
    """Why messages of a channel are not sent (ApplRespError, tag 1354)."""

    NO_SUCH_CHANNEL = 0
    NOT_AVAILABLE = 1
    NOT_AUTHORIZED = 2


class ApplReportType(IntEnum):
    """Outcome of a retransmission (ApplReportType, tag 1426)."""

    COMPLETE = 3
    ERROR = 4


@dataclass(frozen=True, slots=True)
class MessageRange:
    """A range of messages of a channel, both ends included."""

    channel: str
    first: int
    last: int
    sequence_version: int = 0
    """Sequence version of the numbers at the client; it is not sent."""

    def __len__(self) -> int:
        return self.last - self.first + 1


def request_fields(request_id: str, wanted: Sequence[MessageRange]) -> list[Field]:
    """Return the fields of an ApplicationMessageRequest."""
    fields: list[Field] = [(_REQ_ID, request_id), (_REQ_TYPE, _RETRANSMISSION)]
    fields.append((_IDS, len(wanted)))
    for each in wanted:
        fields += [(_REF_ID, each.channel), (_BEGIN, each.first), (_END, each.last)]
    return fields


def read_request(message: FixMessage) -> tuple[str, list[MessageRange]]:
    """Return the ID of a request and the requested ranges."""
    wanted = [
        MessageRange(each.text(_REF_ID), _required(each, _BEGIN), _required(each, _END))
        for each in message.groups(_IDS, _REF_ID)
    ]
    return message.text(_REQ_ID), wanted


def acknowledgement_fields(
    request_id: str,
    answer: ApplRespType,
    channels: Iterable[tuple[MessageRange, ApplRespError | None]],
    total: int,
) -> list[Field]:
    """Return the fields of an ApplicationMessageRequestAck."""
    own = list(channels)
    fields: list[Field] = [
        (_RESP_ID, request_id), (_REQ_ID, request_id), (_REQ_TYPE, _RETRANSMISSION),
        (_RESP_TYPE, int(answer)), (_TOTAL, total), (_IDS, len(own)),
    ]  # fmt: skip
    for wanted, fault in own:
        fields += [(_REF_ID, wanted.channel), (_BEGIN, wanted.first), (_END, wanted.last)]
        if fault is not None:
            fields.append((_ERROR, int(fault)))
    return fields


def read_acknowledgement(message: FixMessage) -> tuple[str, ApplRespType, dict[str, ApplRespError]]:
    """Return the ID of the request, its answer, and the faults by channel."""
    answer = min(_required(message, _RESP_TYPE), int(ApplRespType.REFUSED))
    faults = {}
    for each in message.groups(_IDS, _REF_ID):
        error = each.number(_ERROR)
        if error is not None:
            faults[each.text(_REF_ID)] = _fault(error)
    return message.text(_REQ_ID), ApplRespType(answer), faults


def raw_data_fields(
    request_id: str, channel: str, messages: Sequence[tuple[int, bytes]]
) -> list[Field]:
    """Return the fields of an ApplicationRawDataReporting: FAST messages and their offsets.

    The messages have no technical header in the raw data (002 §6.2, point 5).
    """
    fields: list[Field] = [
        (_REQ_ID, request_id), (_APPL_ID, channel), (_LAST, messages[-1][0]), (_RESEND, "Y"),
        (_NUMBERS, len(messages)),
    ]  # fmt: skip
    offset = 0
    for number, payload in messages:
        fields += [(_NUMBER, number), (_OFFSET, offset), (_LENGTH, len(payload))]
        offset += len(payload)
    data = b"".join(payload for _, payload in messages)
    return [*fields, (_LENGTH, len(data)), (_DATA, data)]


def read_raw_data(message: FixMessage) -> tuple[str, str, list[tuple[int, bytes]], int | None]:
    """Return the request ID, the channel, the messages with their numbers, and the last number.

    The last number (ApplLastSeqNum) is below those of the messages if numbers have restarted.
    """
    data = message.get(_DATA) or b""
    messages = []
    for each in message.groups(_NUMBERS, _NUMBER):
        start = _required(each, _OFFSET)
        end = start + _required(each, _LENGTH)
        if end > len(data) or start == end:
            raise DecodeError("a message is empty or extends past the raw data")
        messages.append((_required(each, _NUMBER), data[start:end]))
    return message.text(_REQ_ID), message.text(_APPL_ID), messages, message.number(_LAST)


def report_fields(
    request_id: str,
    channel: str,
    report: ApplReportType,
    last: int,
    fault: ApplRespError | None = None,
) -> list[Field]:
    """Return the fields of an ApplicationMessageReport for one channel."""
    fields: list[Field] = [
        (_REPORT_ID, request_id), (_REQ_ID, request_id), (_REPORT_TYPE, int(report)), (_IDS, 1),
        (_REF_ID, channel), (_REF_LAST, last),
    ]  # fmt: skip
    if fault is not None:
        fields.append((_ERROR, int(fault)))
    return fields


def read_report(message: FixMessage) -> tuple[str, str, ApplRespError | None]:
    """Return the request ID, the channel, and the fault."""
    error = message.number(_ERROR)
    fault = None if error is None else _fault(error)
    if fault is None and message.number(_REPORT_TYPE) == ApplReportType.ERROR:
        fault = ApplRespError.NOT_AVAILABLE
    return message.text(_REQ_ID), message.text(_REF_ID), fault


def _fault(number: int) -> ApplRespError:
    return (
        ApplRespError(number)
        if number in ApplRespError._value2member_map_
        else ApplRespError.NOT_AVAILABLE
    )


def _required(message: FixMessage, tag: int) -> int:
    number = message.number(tag)
    if number is None:
        raise DecodeError(f"tag {tag} is missing")
    return number
