"""A client session against a gateway that is broken or means harm, in virtual time.

It ends connections and emits events; it never raises, never repeats a request without end, keeps
its memory bounded, and passes every report on.
"""

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.entrypoint import (
    ConnectionStage,
    MessageReceived,
    OrderTracker,
    RetransmissionRefused,
    retransmission,
)
from pregao.entrypoint.retransmission import FIRST_WAIT_NS, MAX_WAIT_NS, AbandonedNumbers
from tests.entrypoint.raw_layouts import frame, layouts
from tests.entrypoint.raw_peer import MS, SESSION
from tests.entrypoint.scripted_gateway import ORDER, Exchange, kinds, numbers

LAST = 2**32 - 1
SESSION_MESSAGES = (
    "NegotiateResponse", "NegotiateReject", "EstablishAck", "EstablishReject", "Terminate",
    "NotApplied", "Sequence", "Retransmission", "RetransmitReject",
)  # fmt: skip
QUIET = 60_000
"""A keep-alive interval long enough that no heartbeat is due."""


class Peer(Exchange):
    """A scripted gateway that counts what the client asks for, and lets time pass."""

    def __init__(self, **settings):
        super().__init__(**({"keep_alive_ms": QUIET} | settings))
        self.requests = []
        """When the client asked for what."""
        self.other_messages = []
        """Names of its other messages."""
        self.events = []

    def deliver(self, *frames):
        """Send a message; return the resulting events."""
        events = self.send_data(*frames)
        self.events += events
        self.note()
        return events

    def note(self):
        for name, values in self.read_messages():
            if name == "RetransmitRequest":
                self.requests.append((self.now, values["fromSeqNo"], values["count"]))
            else:
                self.other_messages.append(name)

    def begin(self, **ack):
        self.established(**({"keep_alive": QUIET} | ack))
        return self

    def wait(self, milliseconds):
        """Advance the clock and run everything at its due time, with a maximum number of steps."""
        end = self.now + milliseconds * MS
        events = []
        for _ in range(10_000):
            due = self.client.next_due_ns
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            events += self.client.advance(self.now)
            self.note()
        else:
            raise AssertionError("the client is never done")
        self.now = end
        self.events += events
        return events


def given_up(events):
    return [(e.code, e.first, e.count) for e in events if isinstance(e, RetransmissionRefused)]


def test_a_granted_retransmission_that_delivers_nothing_is_not_repeated_without_end():
    peer = Peer().begin()
    peer.deliver(peer.report(4))
    nothing = (peer.retransmission(1, 3), peer.peer.sequence(5))
    for _ in range(5_000):
        peer.deliver(*nothing)
    assert [request[1:] for request in peer.requests] == [(1, 3)]
    while len(peer.requests) < 10:
        peer.wait(5_000)
        peer.deliver(*nothing)
    times = [time for time, _, _ in peer.requests]
    assert all(after - before >= FIRST_WAIT_NS for before, after in pairwise(times))
    assert given_up(peer.events) == [("NOT_DELIVERED", 1, 3)]
    assert numbers(peer.events) == [4]
    peer.wait(60_000)
    peer.deliver(*nothing)
    assert len(peer.requests) == 10
    assert numbers(peer.deliver(peer.report(5))) == [5]


def test_the_wait_before_the_next_request_doubles_up_to_a_limit():
    peer = Peer(retransmission_attempts=9).begin()
    peer.deliver(peer.report(2))
    for attempt in range(1, 9):
        assert len(peer.requests) == attempt
        peer.deliver(peer.retransmit_reject("SYSTEM_BUSY"))
        wait = min(MAX_WAIT_NS, FIRST_WAIT_NS << (attempt - 1)) // MS
        peer.wait(wait - 1)
        assert len(peer.requests) == attempt
        peer.wait(1)
    assert (wait, len(peer.requests)) == (5_000, 9)
    assert given_up(peer.events) == [("SYSTEM_BUSY", 1, 0)] * 8


def test_a_request_without_an_answer_is_repeated_and_then_abandoned():
    peer = Peer().begin()
    peer.deliver(peer.report(3))
    for _ in range(20):
        peer.wait(10_000)
        peer.deliver(peer.peer.sequence(4))  # it is alive
    assert given_up(peer.events) == [("NOT_DELIVERED", 1, 2)]
    assert [request[1:] for request in peer.requests] == [(1, 2)] * 10
    assert numbers(peer.events) == [3]


def test_an_endless_retransmission_does_not_hold_reports_back_forever():
    peer = Peer().begin()
    peer.deliver(peer.report(5), peer.retransmission(1, 4), peer.report(1))
    number = 6
    for _ in range(40):
        peer.wait(5_000)
        peer.deliver(peer.report(number))
        number += 1
    assert numbers(peer.events) == [1, *range(5, number)]
    assert given_up(peer.events) == [("NOT_DELIVERED", 2, 3)]


def test_after_out_of_range_no_report_is_discarded():
    peer = Peer().begin(next_number=100)
    assert given_up(peer.deliver(peer.retransmit_reject("OUT_OF_RANGE"))) == [
        ("OUT_OF_RANGE", 1, 99)
    ]
    # The gateway had not sent anything: its reports begin with 1.
    assert numbers(peer.deliver(peer.report(1), peer.report(2))) == [1, 2]
    assert kinds(peer.deliver(peer.report(2))) == ["DuplicateIgnored"]
    assert numbers(peer.deliver(peer.report(100))) == [100]


def test_a_lower_sequence_of_the_gateway_wins():
    peer = Peer().begin(next_number=100)
    peer.deliver(peer.retransmit_reject("OUT_OF_RANGE"))
    (lowered,) = peer.deliver(peer.peer.sequence(1))
    assert (lowered.expected, lowered.next_number) == (100, 1)
    assert numbers(peer.deliver(*(peer.report(number) for number in (1, 2, 3)))) == [1, 2, 3]
    assert len(peer.requests) == 0  # it was made before this peer listened


def test_held_reports_are_passed_on_if_the_gateway_confirms_that_none_precede_them():
    peer = Peer().begin()
    peer.deliver(peer.report(8), peer.report(9))
    assert numbers(peer.deliver(peer.peer.sequence(1))) == [8, 9]
    assert numbers(peer.deliver(peer.report(1), peer.report(2))) == [1, 2]


def test_an_establishment_with_a_lower_number_wins_and_nothing_is_discarded():
    peer = Peer(keep_reports=True).begin()
    peer.deliver(*(peer.report(number) for number in range(1, 6)))
    peer.client.lost()
    peer.connect()
    assert kinds(peer.deliver(peer.ack(next_number=2, keep_alive=QUIET))) == [
        "SessionEstablished", "SequenceLowered",
    ]  # fmt: skip
    assert numbers(peer.deliver(peer.report(2, exec_id=92))) == [2]
    # A restarted client knows both reports that had this number.
    found = [(number, message["execID"]) for number, _, message in peer.client.kept()]
    assert found == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (2, 92)]


def test_a_report_with_the_highest_number_does_not_lock_the_session_out():
    peer = Peer().begin()
    peer.deliver(peer.report(LAST))
    for _ in range(30):
        peer.deliver(peer.retransmit_reject("OUT_OF_RANGE"))
        peer.wait(5_000)
    assert numbers(peer.events) == [LAST]
    assert len(peer.requests) <= 11
    assert sum(count for _, _, count in given_up(peer.events)) == LAST - 1
    assert numbers(peer.deliver(peer.report(1), peer.report(2))) == [1, 2]
    peer.client.lost()
    ((name, values),) = peer.connect()
    assert (name, values["nextSeqNo"]) == ("Establish", 1)
    assert peer.client.state.next_incoming == 2**32
    peer.deliver(peer.ack(next_number=3, keep_alive=QUIET))
    assert peer.client.stage is ConnectionStage.ESTABLISHED
    assert numbers(peer.deliver(peer.report(3), peer.report(4))) == [3, 4]


@pytest.mark.parametrize("last", [LAST - 1, LAST])
def test_a_refusal_that_names_the_highest_number_does_not_lock_the_session_out(last):
    peer = Peer().begin()
    peer.client.send("SimpleNewOrder", ORDER, peer.now)
    peer.client.lost()
    for _ in range(3):
        peer.connect()
        peer.deliver(peer.peer.frame(
            "EstablishReject", **peer.common(), establishmentRejectCode="INVALID_NEXTSEQNO",
            lastIncomingSeqNo=last,
        ))  # fmt: skip
        peer.client.lost()
    ((name, values),) = peer.connect()
    assert (name, values["nextSeqNo"]) == ("Establish", 2)
    peer.deliver(peer.ack(last=1, keep_alive=QUIET))
    assert peer.client.send("SimpleNewOrder", ORDER, peer.now) == 2


def test_the_highest_session_version_does_not_lock_the_session_out():
    peer = Peer()
    peer.connect()
    already = peer.peer.frame(
        "NegotiateReject", **peer.common(), negotiationRejectCode="ALREADY_NEGOTIATED",
        currentSessionVerID=2**64 - 1,
    )  # fmt: skip
    assert kinds(peer.deliver(already)) == ["SessionRefused"]
    peer.client.lost()
    assert [name for name, _ in peer.connect()] == ["Establish"]
    peer.deliver(peer.peer.frame(
        "EstablishReject", **peer.common(), establishmentRejectCode="UNNEGOTIATED",
    ))  # fmt: skip
    peer.client.lost()
    ((name, values),) = peer.connect()
    assert (name, values["sessionVerID"]) == ("Negotiate", 2**64 - 1)
    peer.deliver(peer.peer.frame(
        "NegotiateReject", **peer.common(), negotiationRejectCode="INVALID_SESSIONVERID",
    ))  # fmt: skip
    peer.client.lost()
    ((name, values),) = peer.connect()
    assert (name, values["sessionVerID"]) == ("Negotiate", peer.now // MS)


def test_a_not_applied_of_any_size_names_only_sent_messages():
    peer = Peer(keep_reports=True).begin()
    tracker = OrderTracker()
    for client_id in (1, 2, 3):
        values = ORDER | {"clOrdID": client_id}
        number = peer.client.send("SimpleNewOrder", values, peer.now)
        tracker.sent(number, "SimpleNewOrder", values)
    (gap,) = peer.deliver(peer.peer.frame("NotApplied", fromSeqNo=2, count=LAST))
    assert (gap.first, gap.count) == (2, 2)
    assert [each.number for each in tracker.not_applied(2, LAST)] == [2, 3]
    assert peer.client.send("SimpleNewOrder", ORDER, peer.now) == 4
    (gap,) = peer.deliver(peer.peer.frame("NotApplied", fromSeqNo=4, count=LAST))
    assert (gap.first, gap.count) == (4, 1)


@pytest.mark.parametrize("interval", [0, 60_001, 2**63, 2**64 - 1])
def test_a_forbidden_interval_is_replaced_by_the_own(interval):
    peer = Peer(keep_alive_ms=1_000).established(keep_alive=interval)
    peer.now += 1_999 * MS
    peer.client.advance(peer.now)
    assert peer.client.stage is ConnectionStage.ESTABLISHED
    peer.now += MS
    (ended,) = peer.client.advance(peer.now)
    assert ended.code == "KEEPALIVE_INTERVAL_LAPSED"


@pytest.mark.parametrize("reject", ["NegotiateReject", "EstablishReject"])
@pytest.mark.parametrize(("session", "ver"), [(SESSION, None), (0, 0), (LAST, 2**64 - 1), (7, 9)])
def test_003_4_5_7_a_terminate_after_a_reject_may_name_any_session(reject, session, ver):
    peer = Peer()
    if reject == "EstablishReject":
        peer.begin()
        peer.client.lost()
    peer.connect()
    code = {"negotiationRejectCode": "CREDENTIALS", "establishmentRejectCode": "CREDENTIALS"}
    version = peer.ver if ver is None else ver
    events = peer.deliver(
        peer.peer.frame(reject, **peer.common(), **code),
        peer.peer.frame(
            "Terminate", sessionID=session, sessionVerID=version, terminationCode="UNSPECIFIED"
        ),
    )
    assert [(e.code) for e in events] == ["CREDENTIALS", "UNSPECIFIED"]
    assert peer.client.closing


def test_terminates_without_end_are_answered_once():
    peer = Peer().begin()
    events = peer.deliver(*(peer.peer.terminate() for _ in range(1_000)))
    assert kinds(events) == ["ConnectionEnded"]
    assert peer.other_messages == ["Terminate"]
    assert kinds(peer.deliver(peer.peer.terminate() * 1_000)) == []
    assert peer.other_messages == ["Terminate"]


def test_held_packets_are_bounded_in_number_and_in_bytes(monkeypatch):
    monkeypatch.setattr(retransmission, "HOLD_LIMIT", 50)
    peer = Peer().begin()
    peer.deliver(*(peer.report(number) for number in range(2, 500)))
    assert len(peer.client._missing._held) == 50
    monkeypatch.setattr(retransmission, "HOLD_BYTES", 10 * len(peer.report(2)))
    peer = Peer().begin()
    peer.deliver(*(peer.report(number) for number in range(2, 500)))
    assert len(peer.client._missing._held) == 10
    # What was not held is asked for when the gap is closed.
    peer.deliver(peer.retransmission(1, 1), peer.report(1), peer.peer.sequence(500))
    assert numbers(peer.events) == list(range(1, 12))
    assert peer.requests[-1][1:] == (12, 488)


def test_abandoned_numbers_are_bounded_and_each_is_accepted_once():
    given = AbandonedNumbers()
    given.add(range(1, 6))
    assert [given.take(number) for number in (3, 3, 1, 5, 6, 2, 4, 4)] == [
        True, False, True, True, False, True, True, False,
    ]  # fmt: skip
    for number in range(30_000):
        given.add(range(3 * number, 3 * number + 2))
    assert len(given._ranges) == retransmission.ABANDONED_LIMIT
    given.forget_from(3 * 29_999 + 1)
    assert given.take(3 * 29_999)
    assert not given.take(3 * 29_999 + 1)


# Anything at all.

NUMBERS = st.one_of(
    st.integers(0, 12), st.sampled_from([1000, 1001, 2**31, LAST - 1, LAST]), st.integers(0, LAST)
)


def at_an_extreme(version, name, dice):
    """A session message whose fields have extremes, or small numbers."""
    layout = layouts(version).by_name[name]
    block = bytearray(layout.size)
    for field in layout.fields:
        size = field.struct.size
        value = dice.choice([0, 1, 2, 5, 256**size - 1, 256**size - 2, dice.randrange(256**size)])
        block[field.offset : field.end] = value.to_bytes(size, "little")
    short = dice.choice([0, 0, 0, 1, layout.size])
    size = layout.size - short
    return frame(layout.template, size, bytes(block[:size]), version)


@st.composite
def hostile(draw):
    """Something that a gateway may say or do."""
    kind = draw(st.sampled_from(
        ["report", "report", "sequence", "grant", "refuse", "extreme", "random", "half", "wait"]
    ))  # fmt: skip
    return kind, draw(NUMBERS), draw(st.integers(0, 2**32))


@settings(max_examples=150, deadline=None)
@given(script=st.lists(hostile(), max_size=25), data=st.data())
def test_whatever_a_gateway_does_the_client_ends_or_continues(script, data):
    version = data.draw(st.sampled_from([2, 6]))
    peer = Peer(version=version, keep_reports=True)
    peer.connect()
    for kind, number, seed in script:
        dice = random.Random(seed)
        if peer.client.closing or dice.random() < 0.05:
            peer.client.lost()
            peer.client.connect(peer.now, dice.choice([1, 1, 2]))
            peer.note()
        if dice.random() < 0.7 and peer.client.stage is ConnectionStage.NEGOTIATING:
            peer.deliver(peer.response())
        if dice.random() < 0.7 and peer.client.stage is ConnectionStage.ESTABLISHING:
            peer.deliver(peer.ack(number, keep_alive=QUIET))
        before = len(peer.requests)
        act(peer, kind, number, dice)
        assert len(peer.requests) - before <= 1 + (kind == "wait") * 20
        if peer.client.stage is ConnectionStage.ESTABLISHED:
            peer.client.send("SimpleNewOrder", ORDER, peer.now)
            peer.note()
    assert len(peer.client._missing._held) <= len(script)


def act(peer, kind, number, dice):
    version = peer.peer.version
    match kind:
        case "report":
            peer.deliver(peer.report(number, exec_id=dice.randrange(1, 2**63)))
        case "sequence":
            peer.deliver(peer.peer.sequence(number))
        case "grant":
            peer.deliver(peer.retransmission(number, dice.choice([0, 1, 5, LAST])))
        case "refuse":
            codes = ("OUT_OF_RANGE", "THROTTLE_REJECT", "SYSTEM_BUSY", "INVALID_COUNT")
            peer.deliver(peer.retransmit_reject(dice.choice(codes)))
        case "extreme":
            peer.deliver(at_an_extreme(version, dice.choice(SESSION_MESSAGES), dice))
        case "random":
            template = dice.choice([*layouts(version).by_template, dice.randrange(2**16)])
            body = dice.randbytes(dice.randrange(300))
            peer.deliver(
                frame(template, dice.randrange(300), body, dice.choice([version, 3, 65535]))
            )
        case "half":
            peer.deliver(peer.report(number)[: dice.randrange(1, 100)])
        case "wait":
            peer.wait(dice.choice([1, 100, 5_000, 50_000]))


@settings(max_examples=200, deadline=None)
@example([("report", 3, 0), ("report", 2, 0), ("refuse", 0, 2)])  # 2 is held when 1–2 is refused
@given(
    script=st.lists(
        st.tuples(st.sampled_from(["report", "report", "sequence", "grant", "refuse", "wait"]),
                  NUMBERS, st.integers(0, 2**32)),
        max_size=30,
    )
)  # fmt: skip
def test_no_report_is_lost_and_no_request_hurried(script):
    """Each report with a distinct number is passed on, whatever else the gateway sends."""
    peer = Peer(silent_intervals=1_000).begin()
    sent, used = [], set()
    for exec_id, (kind, number, seed) in enumerate(script, 1):
        if kind == "report":
            if not number or number in used:
                continue
            used.add(number)
            sent.append(exec_id)
            peer.deliver(peer.report(number, exec_id=exec_id))
        else:
            act(peer, kind, number, random.Random(seed))
    for _ in range(40):
        peer.deliver(struct.pack("<6HI", 16, 0xEB50, 4, 9, 1, 2, max(used, default=0) % LAST + 1))
        peer.wait(20_000)
    passed = [
        event.message["execID"] for event in peer.events if isinstance(event, MessageReceived)
    ]
    assert sorted(passed) == sent
    assert peer.client.stage is ConnectionStage.ESTABLISHED
    times = [time for time, _, _ in peer.requests]
    hurried = sum(b - a < FIRST_WAIT_NS for a, b in pairwise(times))
    assert hurried <= len(passed)
