"""Anything in any order, valid or broken: a session answers or ends, and never more than once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.entrypoint import ConnectionStage, GatewaySettings, SessionAccount, ThrottleLimit
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION, RawPeer
from tests.entrypoint.scripted_gateway import ORDER, Exchange, kinds

SMALL = st.integers(0, 6)
PEER = RawPeer()
TO_GATEWAY = st.one_of(
    st.builds(lambda ver: ("say", PEER.negotiate(ver)), st.integers(0, 3)),
    st.builds(
        lambda ver, number, window: (
            "say",
            PEER.establish(
                ver,
                number,
                cancelOnDisconnectType="CANCEL_ON_DISCONNECT_OR_TERMINATE",
                codTimeoutWindow=window,
            ),
        ),
        st.integers(0, 3), SMALL, st.sampled_from([0, 500]),
    ),
    st.builds(lambda number: ("say", PEER.order(number)), SMALL),
    st.builds(lambda number: ("say", PEER.sequence(number)), SMALL),
    st.builds(lambda first, count: ("say", PEER.retransmit(first, count)), SMALL, SMALL),
    st.just(("say", PEER.terminate())),
    st.builds(lambda data: ("say", data), st.binary(max_size=30)),
    st.builds(lambda time: ("wait", time), st.sampled_from([1, 500, 2500])),
    st.sampled_from([("lose", None), ("report", None), ("connect", None), ("reset", None)]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(TO_GATEWAY, max_size=25))
def test_a_gateway_survives_any_order_of_anything(actions):
    account = SessionAccount(SESSION, FIRM, KEY, throttle=ThrottleLimit(3, 1000))
    desk = Desk(account=account, rules=GatewaySettings(retransmission_part=2))
    lines = [desk.connect()]
    executed = []
    for action, value in actions:
        line = lines[-1]
        match action:
            case "say":
                line.send_data(value)
            case "wait":
                line.wait(value)
                desk.sessions.advance(desk.now)
            case "lose":
                line.lose()
            case "report":
                desk.report()
            case "connect":
                lines.append(desk.connect())
            case "reset":
                executed = []
                desk.sessions.reset_day(desk.now)
                # The owner ends these connections itself: nothing reports their end to it.
                lines = [each for each in lines if not each.gateway.closing] or [desk.connect()]
                line = lines[-1]
        line.gateway.continue_retransmission(desk.now)
        line.read_messages()  # all its bytes are complete messages
        executed += [event.number for event in line.events if hasattr(event, "message")]
        ended = [event for event in line.events if hasattr(event, "graceful")]
        assert len(ended) == int(line.gateway.closing or bool(ended))
        line.events = ended
        assert executed == sorted(set(executed))
        connected = [each for each in lines if desk.session.connection is each.gateway]
        assert len(connected) <= 1
        state = desk.session.state
        assert list(state.sent) == list(range(1, state.next_outgoing))


EXCHANGE = Exchange()
TO_CLIENT = st.one_of(
    st.just(EXCHANGE.response()),
    st.builds(EXCHANGE.ack, SMALL, SMALL),
    st.builds(EXCHANGE.report, SMALL, SMALL, resend=st.booleans()),
    st.builds(EXCHANGE.retransmission, SMALL, SMALL),
    st.builds(EXCHANGE.retransmit_reject, st.sampled_from(["OUT_OF_RANGE", "SYSTEM_BUSY"])),
    st.builds(EXCHANGE.peer.sequence, SMALL),
    st.builds(
        lambda first, count: EXCHANGE.peer.frame("NotApplied", fromSeqNo=first, count=count),
        SMALL,
        SMALL,
    ),
    st.just(EXCHANGE.peer.terminate()),
    st.binary(max_size=30),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TO_CLIENT, max_size=25))
def test_a_client_survives_any_order_of_anything(frames):
    exchange = Exchange()
    exchange.connect()
    received = []
    for frame in frames:
        events = exchange.send_data(frame)
        exchange.read_messages()
        received += [event.number for event in events if hasattr(event, "message")]
        assert received == sorted(set(received))
        if exchange.client.stage is ConnectionStage.ESTABLISHED and len(received) % 2:
            exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
        if exchange.client.closing:
            assert kinds(events).count("ConnectionEnded") <= 1
            exchange.client.lost()
            exchange.connect()
