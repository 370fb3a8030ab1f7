"""TCP recovery and historical replay, both sides without sockets (002 §5.1.4, §6.2, §15.4)."""

from __future__ import annotations

import pytest

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.fix.message import Parser
from pregao.fix.session import FixSessionSettings
from pregao.legacy import recovery_messages as wire
from pregao.legacy.incremental_line import IncrementalLine, LineMessage
from pregao.legacy.recovery import (
    BYTES_PER_REPORT,
    MAX_ATTEMPTS,
    GapFiller,
    MessageStore,
    RecoveredMessage,
    RecoveryClient,
    RecoveryServer,
    RecoverySessionEnded,
    RequestFinished,
)
from pregao.legacy.recovery_messages import ApplReportType, ApplRespError, MessageRange
from tests.legacy.writing import message, news, reset

CLIENT = FixSessionSettings("CUSTOMER", "BVMF", 10 * SECOND)
SERVER = FixSessionSettings("BVMF", "CUSTOMER", acceptor=True)


class Recovery:
    """A client and a server, connected."""

    def __init__(self, store):
        self.now = 0
        self.client = RecoveryClient(CLIENT, 0)
        self.server = RecoveryServer(SERVER, store, 0)
        self.kinds = []

    def run(self):
        events = []
        for _ in range(20):
            to_server, to_client = self.client.take_output(), self.server.take_output()
            if not to_server and not to_client:
                break
            self.kinds += [each.type for each in Parser().feed(to_server + to_client)]
            self.server.receive(to_server, self.now)
            events += self.client.receive(to_client, self.now)
        return events


def store_of(numbers, channel="10", **more):
    store = MessageStore([channel, "11"], **more)
    for number in numbers:
        store.add(channel, number, message("News_143", number))
    return store


def test_002_6_2_a_successful_request():
    recovery = Recovery(store_of(range(1, 100)))
    recovery.client.ask(MessageRange("10", 5, 7), 0)
    events = recovery.run()
    assert events == [
        *(RecoveredMessage("10", number, message("News_143", number)) for number in (5, 6, 7)),
        RequestFinished(MessageRange("10", 5, 7), None),
    ]
    assert recovery.kinds == ["A", "A", "BW", "BX", "URDR", "BY"]
    assert not recovery.client.busy


def test_002_6_2_large_requests_are_split_into_several_of_2000():
    recovery = Recovery(store_of(range(1, 5001)))
    recovery.client.ask(MessageRange("10", 1, 5000), 0)
    events = recovery.run()
    numbers = [event.number for event in events if isinstance(event, RecoveredMessage)]
    assert numbers == list(range(1, 5001))
    finished = [event for event in events if isinstance(event, RequestFinished)]
    assert [len(each.wanted) for each in finished] == [2000, 2000, 1000]
    assert recovery.kinds.count("URDR") >= 3


def test_002_15_4_recovery_reaches_10000_messages_back_and_historical_replay_to_the_first():
    for max_messages, expected in ((10_000, ApplRespError.NOT_AVAILABLE), (None, None)):
        recovery = Recovery(store_of(range(1, 10_502), max_messages=max_messages))
        recovery.client.ask(MessageRange("10", 1, 3), 0)
        assert recovery.run()[-1] == RequestFinished(MessageRange("10", 1, 3), expected)


@pytest.mark.parametrize(
    ("channel", "fault"),
    [("99", ApplRespError.NO_SUCH_CHANNEL), ("11", ApplRespError.NOT_AVAILABLE)],
)
def test_002_6_2_a_request_that_is_refused(channel, fault):
    recovery = Recovery(store_of(range(1, 10)))
    recovery.client.ask(MessageRange(channel, 1, 3), 0)
    assert recovery.run() == [RequestFinished(MessageRange(channel, 1, 3), fault)]
    assert recovery.kinds[-1] == "BX"


def test_002_6_2_a_request_of_two_channels_may_be_accepted_in_part():
    recovery = Recovery(store_of(range(1, 10)))
    recovery.run()
    wanted = [MessageRange("10", 1, 2), MessageRange("99", 1, 2)]
    recovery.client.session.send("BW", wire.request_fields("both", wanted), 0)
    recovery.server.receive(recovery.client.take_output(), 0)
    answers = list(Parser().feed(recovery.server.take_output()))
    assert [each.type for each in answers] == ["BX", "URDR", "BY", "BY"]
    request, answer, faults = wire.read_acknowledgement(answers[0])
    assert (request, int(answer), faults) == ("both", 1, {"99": ApplRespError.NO_SUCH_CHANNEL})
    assert wire.read_report(answers[2])[1:] == ("10", None)
    assert wire.read_report(answers[3])[1:] == ("99", ApplRespError.NO_SUCH_CHANNEL)


def test_a_partly_available_range_is_reported():
    recovery = Recovery(store_of([1, 2, 3]))
    recovery.client.ask(MessageRange("10", 2, 6), 0)
    events = recovery.run()
    assert [event.number for event in events if isinstance(event, RecoveredMessage)] == [2, 3]
    assert events[-1] == RequestFinished(MessageRange("10", 2, 6), ApplRespError.NOT_AVAILABLE)


def test_002_6_2_a_partly_available_range_is_answered_as_such():
    recovery = Recovery(store_of([3, 4]))
    recovery.run()
    wanted = [MessageRange("10", 2, 4)]
    recovery.client.session.send("BW", wire.request_fields("part", wanted), 0)
    recovery.server.receive(recovery.client.take_output(), 0)
    acknowledged, sent, reported = list(Parser().feed(recovery.server.take_output()))
    missing = ApplRespError.NOT_AVAILABLE
    assert wire.read_acknowledgement(acknowledged) == ("part", 1, {"10": missing})
    assert [number for number, _ in wire.read_raw_data(sent)[2]] == [3, 4]
    assert wire.read_report(reported) == ("part", "10", missing)
    # What was found has been sent: the report says complete (1426=3), up to message 4.
    assert (reported.number(1426), reported.number(1357)) == (ApplReportType.COMPLETE, 4)
    # The client notices by itself that the first message is missing.
    recovery = Recovery(store_of([3, 4]))
    recovery.client.ask(MessageRange("10", 2, 4), 0)
    assert recovery.run()[-1] == RequestFinished(MessageRange("10", 2, 4), missing)


@pytest.mark.parametrize(("last", "expected"), [(7, [5, 6, 7]), (9000, [5, 6, 7]), (4, [])])
def test_002_6_2_the_last_number_shows_that_numbers_have_restarted(last, expected):
    recovery = Recovery(store_of([]))
    recovery.run()
    recovery.client.ask(MessageRange("10", 5, 7), 0)
    recovery.client.take_output()
    messages = [(number, message("News_143", number)) for number in (5, 6, 7)]
    fields = [
        (tag, last if tag == 1350 else value)
        for tag, value in wire.raw_data_fields("1", "10", messages)
    ]
    recovery.server.session.send("URDR", fields, 0)
    recovery.server.session.send("BY", wire.report_fields("1", "10", 3, 7), 0)
    events = recovery.client.receive(recovery.server.take_output(), 0)
    assert [each.number for each in events if isinstance(each, RecoveredMessage)] == expected
    fault = None if expected else ApplRespError.NOT_AVAILABLE
    assert events[-1] == RequestFinished(MessageRange("10", 5, 7), fault)


def test_002_5_3_7_answers_to_requests_of_before_a_reset_are_dropped():
    recovery = Recovery(store_of(range(1, 10)))
    recovery.run()
    line = IncrementalLine(("A",), max_wait_ns=2 * SECOND, recoverable=True)
    filler = GapFiller("10", recovery.client)
    line.receive("A", news(1), 0)
    line.receive("A", news(4), 0)
    filler.watch(line, 0)
    filler.watch(line, 20 * MILLISECOND)
    # The stream restarts while the answer is on its way, and messages 2 and 3 are missing again.
    line.receive("A", reset(), 21 * MILLISECOND)
    line.receive("A", news(1, "new"), 21 * MILLISECOND)
    line.receive("A", news(4, "new"), 21 * MILLISECOND)
    filler.watch(line, 21 * MILLISECOND)
    events = recovery.run()
    assert [event.number for event in events if isinstance(event, RecoveredMessage)] == [2, 3]
    assert filler.take(events, line, 22 * MILLISECOND) == []
    assert (line.awaited.first, line.awaited.last) == (2, 3)
    filler.watch(line, 40 * MILLISECOND)
    found = filler.take(recovery.run(), line, 41 * MILLISECOND)
    assert [event.packet_key for event in found] == [(2, 2), (2, 3), (2, 4)]


def test_002_5_3_7_the_end_of_a_request_of_before_a_reset_ends_no_later_one():
    client = RecoveryClient(CLIENT, 0)
    line = IncrementalLine(("A",), max_wait_ns=2 * SECOND, recoverable=True)
    filler = GapFiller("10", client)
    for payload in (news(1), news(4), reset(), news(1, "new"), news(4, "new")):
        line.receive("A", payload, 0)
    filler.watch(line, 0)
    filler.watch(line, 20 * MILLISECOND)
    assert filler.deadline_ns is None  # it is asked for
    for version, expected in ((1, None), (2, 70 * MILLISECOND)):
        ended = RequestFinished(MessageRange("10", 2, 3, version), ApplRespError.NOT_AVAILABLE)
        assert filler.take([ended], line, 21 * MILLISECOND) == []
        assert filler.deadline_ns == expected


def test_002_6_2_each_gap_has_its_own_attempts():
    client = RecoveryClient(CLIENT, 0)
    line = IncrementalLine(("A",), max_wait_ns=60 * SECOND, recoverable=True)
    filler = GapFiller("10", client)
    now_ns = 0
    for last in (3, 5, 7):
        for number in (last - 2, last):
            line.receive("A", news(number), now_ns)
        requests = 0
        filler.watch(line, now_ns)
        while not filler.hopeless(now_ns):
            now_ns = filler.deadline_ns
            filler.watch(line, now_ns)
            requests += filler.deadline_ns is None
            wanted = MessageRange("10", last - 1, last - 1, 1)
            filler.take([RequestFinished(wanted, ApplRespError.NOT_AVAILABLE)], line, now_ns)
            now_ns += SECOND
        assert requests == MAX_ATTEMPTS
        line.give_up(now_ns)


def test_002_6_2_only_what_was_requested_is_taken_and_once():
    recovery = Recovery(store_of([]))
    recovery.run()
    recovery.client.ask(MessageRange("10", 5, 6), 0)
    recovery.client.take_output()
    messages = [(number, message("News_143", number)) for number in (4, 5, 5, 6, 7)]
    fields = wire.raw_data_fields("1", "10", messages)
    recovery.server.session.send(wire.RAW_DATA, fields, 0)
    events = recovery.client.receive(recovery.server.take_output(), 0)
    assert [event.number for event in events] == [5, 6]


def test_002_5_3_7_nothing_before_a_reset_is_available():
    store = store_of(range(1, 50))
    store.reset("10")
    store.add("10", 1, message("News_143", 1))
    recovery = Recovery(store)
    recovery.client.ask(MessageRange("10", 40, 41), 0)
    assert recovery.run() == [
        RequestFinished(MessageRange("10", 40, 41), ApplRespError.NOT_AVAILABLE)
    ]


def test_requests_wait_for_the_logon_and_end_with_the_session():
    client = RecoveryClient(CLIENT, 0)
    client.ask(MessageRange("10", 1, 2), 0)
    assert [each.type for each in Parser().feed(client.take_output())] == ["A"]
    assert client.tick(16 * SECOND) == [
        RequestFinished(MessageRange("10", 1, 2), ApplRespError.NOT_AVAILABLE),
        RecoverySessionEnded("no logon received in time"),
    ]
    with pytest.raises(UsageError):
        client.ask(MessageRange("10", 3, 2), 0)


def test_invalid_raw_data_ends_the_session():
    recovery = Recovery(store_of([1]))
    recovery.run()
    wrong = [(1346, "1"), (1180, "10"), (10054, 1), (1181, 1), (10055, 5), (95, 9), (95, 2)]
    recovery.server.session.send("URDR", [*wrong, (96, b"ab")], 0)
    assert recovery.run() == [
        RecoverySessionEnded("a message is empty or extends past the raw data")
    ]


def test_002_6_2_missing_messages_are_requested_after_a_while_and_again_if_needed():
    store = store_of([])
    recovery = Recovery(store)
    recovery.run()
    line = IncrementalLine(max_wait_ns=SECOND)
    filler = GapFiller("10", recovery.client)
    now = 0
    received = line.receive("A", news(1), now) + line.receive("A", news(4), now)
    request_times, requests = [], 0
    while line.awaited is not None and now < SECOND:
        filler.watch(line, now)
        recovery.now = now
        before = recovery.kinds.count("BW")
        events = recovery.run()
        if recovery.kinds.count("BW") > before:
            request_times.append(now // MILLISECOND)
            requests += 1
        received += filler.take(events, line, now)
        if now == 140 * MILLISECOND:  # only now are they available
            for number in (2, 3):
                store.add("10", number, message("News_143", number))
        now += 5 * MILLISECOND
    assert [event.message.number for event in received if isinstance(event, LineMessage)] == [
        1,
        2,
        3,
        4,
    ]
    assert request_times == [15, 65, 115, 165]


def test_002_5_1_4_too_much_is_left_to_the_market_recovery_stream():
    recovery = Recovery(store_of([]))
    recovery.run()
    line = IncrementalLine(max_wait_ns=SECOND)
    filler = GapFiller("10", recovery.client)
    line.receive("A", news(1), 0)
    line.receive("A", news(2003), 0)
    filler.watch(line, 0)
    filler.watch(line, 100 * MILLISECOND)
    assert not recovery.client.busy


def logged_on(store):
    recovery = Recovery(store)
    recovery.run()
    return recovery


def request_data(recovery, requests):
    for number, wanted in enumerate(requests):
        recovery.client.session.send("BW", wire.request_fields(f"r{number}", wanted), 0)
    return recovery.client.take_output()


def test_answers_are_written_in_steps_of_bounded_size():
    store = MessageStore(["10"])
    for number in range(1, 2001):
        store.add("10", number, bytes(200))
    recovery = logged_on(store)
    data = request_data(recovery, [[MessageRange("10", 1, 2000)]] * 12)
    assert len(data) < 1 << 16
    sizes, whole = [], b""
    for events in recovery.server.answers(data, 0):
        assert events == []
        whole += (piece := recovery.server.take_output())
        sizes.append(len(piece))
    assert len(whole) > 12 * 2000 * 200
    assert max(sizes) < 2 * BYTES_PER_REPORT
    kinds = [each.type for each in Parser(1 << 20).feed(whole)]
    assert (kinds.count("BX"), kinds.count("BY")) == (12, 12)


def test_002_6_2_the_channels_of_a_request_share_its_limit():
    recovery = logged_on(store_of(range(1, 2001)))
    data = request_data(
        recovery, [[MessageRange("10", 1, 1500)] * 3 + [MessageRange("10", 1, 500)]]
    )
    recovery.server.receive(data, 0)
    answers = list(Parser(1 << 20).feed(recovery.server.take_output()))
    sent = [wire.read_raw_data(each)[2] for each in answers if each.type == "URDR"]
    assert sum(map(len, sent)) == 2000
    reports = [wire.read_report(each)[2] for each in answers if each.type == "BY"]
    assert reports == [None, ApplRespError.NOT_AVAILABLE, ApplRespError.NOT_AVAILABLE, None]


def test_a_request_of_any_bytes_is_refused_with_the_same_bytes():
    recovery = logged_on(store_of(range(1, 10)))
    name, channel = b"pedido n\xba 1 \xff", b"a\xe7\xf5es"
    fields = [(1346, name), (1351, 1), (1355, channel), (1182, 1), (1183, 2)]
    recovery.client.session.send(wire.REQUEST, fields, 0)
    assert recovery.server.receive(recovery.client.take_output(), 0) == []
    (answer,) = Parser().feed(recovery.server.take_output())
    assert (answer.get(1346), answer.get(1355)) == (name, channel)
    assert wire.read_acknowledgement(answer)[1] is wire.ApplRespType.REFUSED


def test_a_request_with_a_count_of_thousands_of_digits_is_refused():
    recovery = logged_on(store_of(range(1, 10)))
    fields = [(1346, "1"), (1351, b"9" * 5000), (1355, "10"), (1182, 1), (1183, 2)]
    recovery.client.session.send(wire.REQUEST, fields, 0)
    assert recovery.server.receive(recovery.client.take_output(), 0) == []
    (answer,) = Parser().feed(recovery.server.take_output())
    assert wire.read_acknowledgement(answer)[1] is wire.ApplRespType.REFUSED


def test_a_request_before_a_logout_in_the_same_piece_ends_the_session_alone():
    recovery = logged_on(store_of(range(1, 10)))
    data = request_data(recovery, [[MessageRange("10", 1, 2)]])
    recovery.client.session.log_out(0)
    (ended,) = recovery.server.receive(data + recovery.client.take_output(), 0)
    assert isinstance(ended, RecoverySessionEnded)
    assert [each.type for each in Parser().feed(recovery.server.take_output())] == ["5"]
