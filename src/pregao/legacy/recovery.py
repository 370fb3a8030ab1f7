"""TCP recovery and historical replay, of both sides, sans-I/O (002 §5.1.4, §5.1.5, §6.2, §15.4).

A client asks over a FIX 4.4 session for messages of the incremental stream; the server sends them
again as raw data. Historical replay is the same with all messages since number 1.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import DecodeError, UsageError
from pregao.fix import (
    Application,
    FixMessage,
    LoggedOn,
    LoggedOut,
    Session,
    SessionSettings,
    SessionState,
)
from pregao.legacy import recovery_messages as wire
from pregao.legacy.assembly import Message
from pregao.legacy.lines import IncrementalLine, LineEvent
from pregao.legacy.messages import LegacyMessage, MessageReader
from pregao.legacy.recovery_messages import MOST_PER_REQUEST, Answer, Fault, Report, Wanted

LEAST_WAIT_NS = 15 * MILLISECOND
"""So long a missing message is waited for before it is asked for: it may only be out of order."""
RETRY_NS = 50 * MILLISECOND
MOST_TRIES = 8
"""Messages may take more than 140 ms until they can be asked for."""
MOST_ASKING_NS = 2 * SECOND
"""No message is waited for longer than this, whatever a gateway says of it."""
BYTES_PER_REPORT = 64 * 1024
"""About so much raw data a message holds."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A message that came again."""

    channel: str
    number: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """All of a request that can come has come; ``fault`` says why some, or all, did not."""

    wanted: Wanted
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over: the connection is to be closed."""

    reason: str


RecoveryEvent = Recovered | Finished | Ended


@dataclass(slots=True)
class _Asked:
    """A request that is under way."""

    wanted: Wanted
    next_number: int


class RecoveryClient:
    """Asks for messages; requests of more than 2,000 are made of several."""

    def __init__(self, settings: SessionSettings, now_ns: int) -> None:
        self.session = Session(settings, now_ns)
        self._waiting: deque[Wanted] = deque()
        self._asked: dict[str, _Asked] = {}
        self._requests = 0

    @property
    def deadline_ns(self) -> int | None:
        """When `tick` is to be called."""
        return self.session.deadline_ns

    @property
    def busy(self) -> bool:
        """Is something asked for that has not come?"""
        return bool(self._waiting or self._asked)

    def take_output(self) -> bytes:
        """The bytes that are to be sent."""
        return self.session.take_output()

    def ask(self, wanted: Wanted, now_ns: int) -> None:
        """Ask for messages now, or as soon as the session is logged on."""
        if not 1 <= wanted.first <= wanted.last:
            raise UsageError(f"messages {wanted.first} to {wanted.last} cannot be asked for")
        for first in range(wanted.first, wanted.last + 1, MOST_PER_REQUEST):
            last = min(wanted.last, first + MOST_PER_REQUEST - 1)
            self._waiting.append(Wanted(wanted.channel, first, last))
        self._send(now_ns)

    def receive(self, data: bytes, now_ns: int) -> list[RecoveryEvent]:
        """Take bytes in that came."""
        events: list[RecoveryEvent] = []
        for event in self.session.receive(data, now_ns):
            match event:
                case LoggedOn():
                    self._send(now_ns)
                case LoggedOut(reason):
                    events += self._lost(reason)
                case Application(message):
                    try:
                        events += self._message(message)
                    except DecodeError as error:
                        self.session.log_out(now_ns, error.reason)
                        events += self._lost(error.reason)
        return events

    def tick(self, now_ns: int) -> list[RecoveryEvent]:
        """Let time pass."""
        events: list[RecoveryEvent] = []
        for event in self.session.tick(now_ns):
            if isinstance(event, LoggedOut):
                events += self._lost(event.reason)
        return events

    def _send(self, now_ns: int) -> None:
        while self._waiting and self.session.state is SessionState.ACTIVE:
            wanted = self._waiting.popleft()
            self._requests += 1
            request_id = str(self._requests)
            self._asked[request_id] = _Asked(wanted, wanted.first)
            self.session.send(wire.REQUEST, wire.request_fields(request_id, [wanted]), now_ns)

    def _message(self, message: FixMessage) -> list[RecoveryEvent]:
        match message.type:
            case wire.ACKNOWLEDGEMENT:
                request_id, answer, faults = wire.read_acknowledgement(message)
                asked = self._asked.get(request_id)
                if asked is None or answer in (Answer.ACCEPTED, Answer.PARTLY):
                    return []  # a report follows, of each channel
                del self._asked[request_id]
                fault = faults.get(asked.wanted.channel, Fault.NOT_AVAILABLE)
                return [Finished(asked.wanted, fault)]
            case wire.RAW_DATA:
                request_id, channel, found = wire.read_raw_data(message)
                asked = self._asked.get(request_id)
                if asked is not None and found:
                    asked.next_number = found[-1][0] + 1
                return [Recovered(channel, number, payload) for number, payload in found]
            case wire.REPORT:
                request_id, _, told = wire.read_report(message)
                asked = self._asked.pop(request_id, None)
                if asked is None:
                    return []
                if told is None and asked.next_number <= asked.wanted.last:
                    told = Fault.NOT_AVAILABLE
                return [Finished(asked.wanted, told)]
        return []

    def _lost(self, reason: str) -> list[RecoveryEvent]:
        unanswered = [asked.wanted for asked in self._asked.values()] + list(self._waiting)
        self._asked.clear()
        self._waiting.clear()
        done: list[RecoveryEvent] = [Finished(each, Fault.NOT_AVAILABLE) for each in unanswered]
        return [*done, Ended(reason)]


class MessageStore:
    """The messages of channels that can be asked for again.

    PUMA's recovery reaches 10,000 messages back, historical replay (None) to the first one. A
    SequenceReset makes all before it unavailable.
    """

    def __init__(self, channels: Sequence[str], most: int | None = 10_000) -> None:
        self._most = most
        self._messages: dict[str, OrderedDict[int, bytes]] = {
            channel: OrderedDict() for channel in channels
        }

    def add(self, channel: str, number: int, payload: bytes) -> None:
        """Keep a message that was sent."""
        own = self._messages[channel]
        own[number] = payload
        if self._most is not None and len(own) > self._most:
            own.popitem(last=False)

    def reset(self, channel: str) -> None:
        """The numbers of a channel begin anew."""
        self._messages[channel].clear()

    def find(self, wanted: Wanted) -> list[tuple[int, bytes]] | Fault:
        """Those that there are, in order; or why there are none."""
        own = self._messages.get(wanted.channel)
        if own is None:
            return Fault.NO_SUCH_CHANNEL
        numbers = range(wanted.first, wanted.last + 1)
        found = [(number, own[number]) for number in numbers if number in own]
        return found or Fault.NOT_AVAILABLE


class RecoveryServer:
    """Serves one connection from a store of messages."""

    def __init__(self, settings: SessionSettings, store: MessageStore, now_ns: int) -> None:
        self.session = Session(settings, now_ns)
        self._store = store

    @property
    def deadline_ns(self) -> int | None:
        """When `tick` is to be called."""
        return self.session.deadline_ns

    def take_output(self) -> bytes:
        """The bytes that are to be sent."""
        return self.session.take_output()

    def receive(self, data: bytes, now_ns: int) -> list[Ended]:
        """Take bytes in that came, and write all answers at once."""
        return [event for events in self.answers(data, now_ns) for event in events]

    def answers(self, data: bytes, now_ns: int) -> Iterator[list[Ended]]:
        """Take bytes in that came, and write the answers in steps.

        After each step `take_output` gives about `BYTES_PER_REPORT` bytes at most: the answers to
        a piece full of requests are many times as large as the piece.
        """
        for event in self.session.receive(data, now_ns):
            match event:
                case Application(message) if message.type == wire.REQUEST:
                    if self.session.ended:
                        continue  # the client does not wait for the answer
                    try:
                        request_id, wanted = wire.read_request(message)
                    except DecodeError as error:
                        self.session.log_out(now_ns, error.reason)
                        yield [Ended(error.reason)]
                        return
                    for _ in self._answer(request_id, wanted, now_ns):
                        yield []
                case LoggedOut(reason):
                    yield [Ended(reason)]
        yield []

    def tick(self, now_ns: int) -> list[Ended]:
        """Let time pass."""
        ended = self.session.tick(now_ns)
        return [Ended(event.reason) for event in ended if isinstance(event, LoggedOut)]

    def _answer(self, request_id: str, wanted: list[Wanted], now_ns: int) -> Iterator[None]:
        """Acknowledge, send what there is, and report, channel by channel; yield between."""
        found = self._find(wanted)
        faults = [(each, result if isinstance(result, Fault) else None) for each, result in found]
        wrong = sum(fault is not None for _, fault in faults)
        answer = Answer.ACCEPTED
        if wrong:
            answer = Answer.REFUSED if wrong == len(found) else Answer.PARTLY
        if not found:
            answer = Answer.REFUSED
        total = sum(0 if isinstance(result, Fault) else len(result) for _, result in found)
        fields = wire.acknowledgement_fields(request_id, answer, faults, total)
        self.session.send(wire.ACKNOWLEDGEMENT, fields, now_ns)
        if answer is Answer.REFUSED:
            return
        for each, result in found:
            if isinstance(result, Fault):
                report = wire.report_fields(request_id, each.channel, Report.ERROR, 0, result)
            else:
                yield from self._send(request_id, each.channel, result, now_ns)
                last = result[-1][0]
                report = wire.report_fields(request_id, each.channel, Report.COMPLETE, last)
            self.session.send(wire.REPORT, report, now_ns)

    def _find(self, wanted: list[Wanted]) -> list[tuple[Wanted, list[tuple[int, bytes]] | Fault]]:
        """Find what a request wants; all its channels together are within its limit."""
        found: list[tuple[Wanted, list[tuple[int, bytes]] | Fault]] = []
        left = MOST_PER_REQUEST
        for each in wanted:
            count = each.last - each.first + 1
            if 0 < count <= left:
                left -= count
                found.append((each, self._store.find(each)))
            else:
                found.append((each, Fault.NOT_AVAILABLE))
        return found

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


@dataclass(slots=True)
class GapFiller:
    """Asks for what a line misses: after a while, several times, and not for too much."""

    channel: str
    client: RecoveryClient
    reader: MessageReader = field(default_factory=MessageReader)
    _since: tuple[int, int, int] | None = None
    """Version and first number of what is missing, and since when."""
    _tries: int = 0
    _next_ns: int = 0
    _pending: bool = False
    _many: bool = False

    @property
    def deadline_ns(self) -> int | None:
        """When `watch` is to be called, if something is to be asked for then."""
        waits = self._since is not None and not self._pending and not self._many
        return self._next_ns if waits else None

    def hopeless(self, now_ns: int) -> bool:
        """Is something missing that will not come from here?"""
        if self._since is None:
            return False
        over = self._tries >= MOST_TRIES and not self._pending and now_ns >= self._next_ns
        return self._many or over

    def watch(self, line: IncrementalLine, now_ns: int) -> None:
        """Look what is missing, and ask for it when its time has come (002 §6.2)."""
        missing = line.awaited
        if missing is None or missing.last is None:
            self._since = None
            return
        if self._since is None or self._since[:2] != (missing.sequence_version, missing.first):
            self._since = (missing.sequence_version, missing.first, now_ns)
            self._tries, self._pending = 0, False
            self._next_ns = now_ns + LEAST_WAIT_NS
        wanted = Wanted(self.channel, missing.first, missing.last)
        # What is more, the market recovery stream is for.
        self._many = len(wanted) > MOST_PER_REQUEST
        if self._many or self._pending or self._tries >= MOST_TRIES or now_ns < self._next_ns:
            return
        self._tries += 1
        self._pending = True
        self._next_ns = now_ns + RETRY_NS
        self.client.ask(wanted, now_ns)

    def take(
        self, events: Sequence[RecoveryEvent], line: IncrementalLine, now_ns: int
    ) -> list[LineEvent]:
        """Give what came to the line; what could not be had is asked for again later."""
        found: list[LineEvent] = []
        for event in events:
            match event:
                case Recovered(channel, number, payload) if channel == self.channel:
                    message = self._read(number, payload)
                    if message is not None:
                        found += line.recovered(line.version, message, now_ns)
                case Finished(wanted) if wanted.channel == self.channel:
                    self._pending = False
        return found

    def _read(self, number: int, payload: bytes) -> LegacyMessage | None:
        try:
            return self.reader.read(Message(number, payload))
        except DecodeError:
            return None
