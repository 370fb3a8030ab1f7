"""TCP recovery and historical replay, both sides, sans-I/O (002 §5.1.4, §5.1.5, §6.2, §15.4).

A client requests messages of the incremental stream over a FIX 4.4 session; the server sends them
again as raw data. Historical replay is the same with all messages since number 1.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import DecodeError, UsageError
from pregao.fix.message import FixMessage
from pregao.fix.session import (
    ApplicationMessage,
    FixSession,
    FixSessionSettings,
    FixSessionState,
    LoggedOn,
    LoggedOut,
)
from pregao.legacy import recovery_messages as wire
from pregao.legacy.incremental_line import IncrementalLine, LineEvent
from pregao.legacy.messages import LegacyMessage, MessageReader
from pregao.legacy.reassembly import AssembledMessage
from pregao.legacy.recovery_messages import (
    MAX_MESSAGES_PER_REQUEST,
    ApplReportType,
    ApplRespError,
    ApplRespType,
    MessageRange,
)

MIN_WAIT_NS = 15 * MILLISECOND
"""Wait before a missing message is requested: it may only be out of order."""
RETRY_NS = 50 * MILLISECOND
MAX_ATTEMPTS = 8
"""Messages may become available for recovery only after more than 140 ms."""
MAX_RECOVERY_WAIT_NS = 2 * SECOND
"""Maximum wait for a message, whatever the gateway answers."""
BYTES_PER_REPORT = 64 * 1024
"""Approximate raw data per message."""


@dataclass(frozen=True, slots=True)
class RecoveredMessage:
    """A message that was sent again."""

    channel: str
    number: int
    payload: bytes
    sequence_version: int = 0
    """Sequence version of its request."""


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """A request is complete; ``fault`` is the reason if some or all messages were not sent."""

    wanted: MessageRange
    fault: ApplRespError | None


@dataclass(frozen=True, slots=True)
class RecoverySessionEnded:
    """The session is over: the caller must close the connection."""

    reason: str


RecoveryEvent = RecoveredMessage | RequestFinished | RecoverySessionEnded


@dataclass(slots=True)
class _PendingRequest:
    """An outstanding request."""

    wanted: MessageRange
    missing: set[int]
    """Numbers of the messages that were not sent yet."""


class RecoveryClient:
    """Requests messages; splits requests of more than 2,000 messages."""

    def __init__(self, settings: FixSessionSettings, now_ns: int) -> None:
        self.session = FixSession(settings, now_ns)
        self._waiting: deque[MessageRange] = deque()
        self._pending: dict[str, _PendingRequest] = {}
        self._requests = 0

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the caller must call `tick`."""
        return self.session.deadline_ns

    @property
    def busy(self) -> bool:
        """Whether any request is unanswered."""
        return bool(self._waiting or self._pending)

    def take_output(self) -> bytes:
        """Return and clear the bytes to send."""
        return self.session.take_output()

    def ask(self, wanted: MessageRange, now_ns: int) -> None:
        """Request messages now, or when the session is logged on."""
        if not 1 <= wanted.first <= wanted.last:
            raise UsageError(
                f"cannot request messages {wanted.first} to {wanted.last}: numbers start at 1 and"
                " the first must not exceed the last"
            )
        for first in range(wanted.first, wanted.last + 1, MAX_MESSAGES_PER_REQUEST):
            last = min(wanted.last, first + MAX_MESSAGES_PER_REQUEST - 1)
            self._waiting.append(replace(wanted, first=first, last=last))
        self._send(now_ns)

    def receive(self, data: bytes, now_ns: int) -> list[RecoveryEvent]:
        """Process received bytes."""
        events: list[RecoveryEvent] = []
        for event in self.session.receive(data, now_ns):
            match event:
                case LoggedOn():
                    self._send(now_ns)
                case LoggedOut(reason):
                    events += self._lost(reason)
                case ApplicationMessage(message):
                    try:
                        events += self._message(message)
                    except DecodeError as error:
                        self.session.log_out(now_ns, error.reason)
                        events += self._lost(error.reason)
        return events

    def tick(self, now_ns: int) -> list[RecoveryEvent]:
        """Advance the clock."""
        events: list[RecoveryEvent] = []
        for event in self.session.tick(now_ns):
            if isinstance(event, LoggedOut):
                events += self._lost(event.reason)
        return events

    def _send(self, now_ns: int) -> None:
        while self._waiting and self.session.state is FixSessionState.ACTIVE:
            wanted = self._waiting.popleft()
            self._requests += 1
            request_id = str(self._requests)
            numbers = range(wanted.first, wanted.last + 1)
            self._pending[request_id] = _PendingRequest(wanted, set(numbers))
            self.session.send(wire.REQUEST, wire.request_fields(request_id, [wanted]), now_ns)

    def _message(self, message: FixMessage) -> list[RecoveryEvent]:
        match message.type:
            case wire.ACKNOWLEDGEMENT:
                request_id, answer, faults = wire.read_acknowledgement(message)
                request = self._pending.get(request_id)
                if request is None or answer in (ApplRespType.ACCEPTED, ApplRespType.PARTLY):
                    return []  # a report follows for each channel
                del self._pending[request_id]
                fault = faults.get(request.wanted.channel, ApplRespError.NOT_AVAILABLE)
                return [RequestFinished(request.wanted, fault)]
            case wire.RAW_DATA:
                return self._raw_data(*wire.read_raw_data(message))
            case wire.REPORT:
                request_id, _, reported = wire.read_report(message)
                request = self._pending.pop(request_id, None)
                if request is None:
                    return []
                if reported is None and request.missing:
                    reported = ApplRespError.NOT_AVAILABLE
                return [RequestFinished(request.wanted, reported)]
        return []

    def _raw_data(
        self,
        request_id: str,
        channel: str,
        messages: list[tuple[int, bytes]],
        last: int | None,
    ) -> list[RecoveryEvent]:
        request = self._pending.get(request_id)
        if request is None or (last is not None and messages and last < messages[-1][0]):
            return []  # the numbers have restarted since (002 §6.2)
        events: list[RecoveryEvent] = []
        for number, payload in messages:
            if number in request.missing:
                request.missing.discard(number)
                version = request.wanted.sequence_version
                events.append(RecoveredMessage(channel, number, payload, version))
        return events

    def _lost(self, reason: str) -> list[RecoveryEvent]:
        unanswered = [request.wanted for request in self._pending.values()] + list(self._waiting)
        self._pending.clear()
        self._waiting.clear()
        events: list[RecoveryEvent] = [
            RequestFinished(each, ApplRespError.NOT_AVAILABLE) for each in unanswered
        ]
        return [*events, RecoverySessionEnded(reason)]


class MessageStore:
    """Messages of channels that clients can request again.

    PUMA's recovery keeps the last 10,000 messages, historical replay (None) all of them. A
    SequenceReset makes all messages before it unavailable.
    """

    def __init__(self, channels: Sequence[str], max_messages: int | None = 10_000) -> None:
        self._max_messages = max_messages
        self._messages: dict[str, OrderedDict[int, bytes]] = {
            channel: OrderedDict() for channel in channels
        }

    def add(self, channel: str, number: int, payload: bytes) -> None:
        """Store a message that was sent."""
        own = self._messages[channel]
        own[number] = payload
        if self._max_messages is not None and len(own) > self._max_messages:
            own.popitem(last=False)

    def reset(self, channel: str) -> None:
        """Remove all messages of a channel, whose numbers restart."""
        self._messages[channel].clear()

    def find(self, wanted: MessageRange) -> list[tuple[int, bytes]] | ApplRespError:
        """Return the available messages, in order, or the reason why there are none."""
        own = self._messages.get(wanted.channel)
        if own is None:
            return ApplRespError.NO_SUCH_CHANNEL
        numbers = range(wanted.first, wanted.last + 1)
        found = [(number, own[number]) for number in numbers if number in own]
        return found or ApplRespError.NOT_AVAILABLE


class RecoveryServer:
    """Serves one connection from a message store."""

    def __init__(self, settings: FixSessionSettings, store: MessageStore, now_ns: int) -> None:
        self.session = FixSession(settings, now_ns)
        self._store = store

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the caller must call `tick`."""
        return self.session.deadline_ns

    def take_output(self) -> bytes:
        """Return and clear the bytes to send."""
        return self.session.take_output()

    def receive(self, data: bytes, now_ns: int) -> list[RecoverySessionEnded]:
        """Process received bytes and write all answers."""
        return [event for events in self.answers(data, now_ns) for event in events]

    def answers(self, data: bytes, now_ns: int) -> Iterator[list[RecoverySessionEnded]]:
        """Process received bytes and write the answers in steps.

        After each step `take_output` returns at most about `BYTES_PER_REPORT` bytes: the answers to
        one read full of requests are many times its size.
        """
        for event in self.session.receive(data, now_ns):
            match event:
                case ApplicationMessage(message) if message.type == wire.REQUEST:
                    if self.session.ended:
                        continue  # the client no longer waits for the answer
                    try:
                        request_id, wanted = wire.read_request(message)
                    except DecodeError as error:
                        self.session.log_out(now_ns, error.reason)
                        yield [RecoverySessionEnded(error.reason)]
                        return
                    for _ in self._answer(request_id, wanted, now_ns):
                        yield []
                case LoggedOut(reason):
                    yield [RecoverySessionEnded(reason)]
        yield []

    def tick(self, now_ns: int) -> list[RecoverySessionEnded]:
        """Advance the clock."""
        ended = self.session.tick(now_ns)
        return [
            RecoverySessionEnded(event.reason) for event in ended if isinstance(event, LoggedOut)
        ]

    def _answer(self, request_id: str, wanted: list[MessageRange], now_ns: int) -> Iterator[None]:
        """Acknowledge, then send messages and a report per channel; yield between steps."""
        results = self._find(wanted)
        faults = [(each, _fault_of(each, result)) for each, result in results]
        answer = ApplRespType.ACCEPTED
        if all(isinstance(result, ApplRespError) for _, result in results):
            answer = ApplRespType.REFUSED
        elif any(fault is not None for _, fault in faults):
            answer = ApplRespType.PARTLY
        total = sum(
            0 if isinstance(result, ApplRespError) else len(result) for _, result in results
        )
        fields = wire.acknowledgement_fields(request_id, answer, faults, total)
        self.session.send(wire.ACKNOWLEDGEMENT, fields, now_ns)
        if answer is ApplRespType.REFUSED:
            return
        for each, result in results:
            if isinstance(result, ApplRespError):
                report = wire.report_fields(
                    request_id, each.channel, ApplReportType.ERROR, 0, result
                )
            else:
                yield from self._send(request_id, each.channel, result, now_ns)
                report = wire.report_fields(
                    request_id, each.channel, ApplReportType.COMPLETE, result[-1][0],
                    _fault_of(each, result),
                )  # fmt: skip
            self.session.send(wire.REPORT, report, now_ns)

    def _find(
        self, wanted: list[MessageRange]
    ) -> list[tuple[MessageRange, list[tuple[int, bytes]] | ApplRespError]]:
        """Look up the requested messages; the limit applies to all channels of a request."""
        results: list[tuple[MessageRange, list[tuple[int, bytes]] | ApplRespError]] = []
        left = MAX_MESSAGES_PER_REQUEST
        for each in wanted:
            count = each.last - each.first + 1
            if 0 < count <= left:
                left -= count
                results.append((each, self._store.find(each)))
            else:
                results.append((each, ApplRespError.NOT_AVAILABLE))
        return results

    def _send(
        self, request_id: str, channel: str, messages: list[tuple[int, bytes]], now_ns: int
    ) -> Iterator[None]:
        part: list[tuple[int, bytes]] = []
        size = 0
        for number, payload in messages:
            part.append((number, payload))
            size += len(payload)
            if size >= BYTES_PER_REPORT:
                fields = wire.raw_data_fields(request_id, channel, part)
                self.session.send(wire.RAW_DATA, fields, now_ns)
                part, size = [], 0
                yield
        if part:
            fields = wire.raw_data_fields(request_id, channel, part)
            self.session.send(wire.RAW_DATA, fields, now_ns)
            yield


def _fault_of(
    wanted: MessageRange, result: list[tuple[int, bytes]] | ApplRespError
) -> ApplRespError | None:
    """Return why some or all of the requested messages are not sent; None if all are."""
    if isinstance(result, ApplRespError):
        return result
    return None if len(result) == len(wanted) else ApplRespError.NOT_AVAILABLE


@dataclass(slots=True)
class GapFiller:
    """Requests what a line is missing: after a delay, with retries, and up to a limit."""

    channel: str
    client: RecoveryClient
    reader: MessageReader = field(default_factory=MessageReader)
    _since: tuple[int, int, int] | None = None
    """Sequence version and first number of the gap, and the time it was found."""
    _tries: int = 0
    _next_ns: int = 0
    _pending: bool = False
    _many: bool = False

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the caller must call `watch`, if a request is due then."""
        due = self._since is not None and not self._pending and not self._many
        return self._next_ns if due else None

    def hopeless(self, now_ns: int) -> bool:
        """Whether recovery cannot deliver what is missing."""
        if self._since is None:
            return False
        exhausted = self._tries >= MAX_ATTEMPTS and not self._pending and now_ns >= self._next_ns
        return self._many or exhausted

    def watch(self, line: IncrementalLine, now_ns: int) -> None:
        """Check the line for a gap, and request it when the delay is over (002 §6.2)."""
        missing = line.awaited
        if missing is None or missing.last is None:
            self._since = None
            return
        if self._since is None or self._since[:2] != (missing.sequence_version, missing.first):
            self._since = (missing.sequence_version, missing.first, now_ns)
            self._tries, self._pending = 0, False
            self._next_ns = now_ns + MIN_WAIT_NS
        version = missing.sequence_version
        wanted = MessageRange(self.channel, missing.first, missing.last, version)
        # Larger gaps are left to the market recovery stream.
        self._many = len(wanted) > MAX_MESSAGES_PER_REQUEST
        if self._many or self._pending or self._tries >= MAX_ATTEMPTS or now_ns < self._next_ns:
            return
        self._tries += 1
        self._pending = True
        self._next_ns = now_ns + RETRY_NS
        self.client.ask(wanted, now_ns)

    def take(
        self, events: Sequence[RecoveryEvent], line: IncrementalLine, now_ns: int
    ) -> list[LineEvent]:
        """Pass recovered messages to the line; `watch` requests the others again later.

        Messages that were requested before the numbers restarted are dropped (002 §5.3.7).
        """
        line_events: list[LineEvent] = []
        for event in events:
            match event:
                case RecoveredMessage(channel, number, payload, version) if (
                    channel == self.channel and version == line.version
                ):
                    message = self._read(number, payload)
                    if message is not None:
                        line_events += line.recovered(version, message, now_ns)
                case RequestFinished(wanted) if wanted.channel == self.channel:
                    if self._since is None or wanted.sequence_version == self._since[0]:
                        self._pending = False
        return line_events

    def _read(self, number: int, payload: bytes) -> LegacyMessage | None:
        try:
            return self.reader.read(AssembledMessage(number, payload))
        except DecodeError:
            return None
