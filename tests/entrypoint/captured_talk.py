"""Sessions in virtual time, and captures of the bytes on their connections."""

import itertools
from dataclasses import dataclass, field
from datetime import date

from pregao.capture import PcapWriter, tcp_frame
from pregao.entrypoint import (
    ClientSession,
    ClientSettings,
    GatewayConnection,
    GatewaySessions,
    MessageReceived,
    SessionAccount,
    SessionStore,
)
from tests.entrypoint.gateway_desk import REPORT
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START

CLIENT, GATEWAY = ("10.1.0.7", 40_001), ("10.2.0.9", 9_000)
SYN, ACK, PSH, FIN = 2, 16, 8, 1

ORDER = {
    "mmProtectionReset": "FALSE_VALUE", "senderLocation": "SP", "enteringTrader": "ABC",
    "selfTradePreventionInstruction": "NONE", "securityID": 5, "side": "BUY", "ordType": "LIMIT",
    "timeInForce": "DAY", "orderQty": 100, "price": 10, "marketSegmentID": 80,
}  # fmt: skip


@dataclass
class SentData:
    """Bytes that one side sent."""

    time_ns: int
    from_client: bool
    data: bytes


@dataclass
class Conversation:
    """A session on one connection: the data of both sides and the messages in it."""

    sent: list[SentData] = field(default_factory=list)
    frames: list[tuple[bool, bytes]] = field(default_factory=list)

    def side(self, from_client):
        """All the bytes of one side."""
        return b"".join(each.data for each in self.sent if each.from_client == from_client)


def conversation(orders=5, *, version=2, session_id=SESSION, start=START, ids=1):
    """Negotiate, establish, some orders each answered with a report, a heartbeat, terminate."""
    store = SessionStore()
    sessions = GatewaySessions([SessionAccount(session_id, FIRM, KEY)], store)
    client = ClientSession(ClientSettings(session_id, FIRM, KEY, version=version), SessionStore())
    gateway = GatewayConnection(sessions, start)
    talk = Conversation()
    now = start
    client.connect(now)

    def exchange():
        nonlocal now
        for _ in range(10):
            for side, machine, other in ((True, client, gateway), (False, gateway, client)):
                data = machine.take_output()
                if not data:
                    continue
                now += MS
                talk.sent.append(SentData(now, side, data))
                events = other.receive(data, now)
                for event in events:
                    if isinstance(event, MessageReceived) and side:
                        report = REPORT | {
                            "clOrdID": event.message["clOrdID"], "orderID": event.number,
                            "secondaryOrderID": event.number, "execID": event.number,
                            "transactTime": now, "tradeDate": date(2026, 5, 21),
                        }  # fmt: skip
                        sessions[session_id].send("ExecutionReport_New", report, now)

    exchange()
    for number in range(orders):
        client.send("SimpleNewOrder", ORDER | {"clOrdID": ids + number}, now)
        exchange()
    now += 1000 * MS
    client.advance(now)
    gateway.advance(now)
    exchange()
    client.leave(now)
    exchange()
    for part in talk.sent:
        data = part.data
        while data:
            length = int.from_bytes(data[:2], "little")
            talk.frames.append((part.from_client, data[:length]))
            data = data[length:]
    return talk


def segments_of(talk, *, client=CLIENT, gateway=GATEWAY, size=None, first=(1000, 77), syn=True):
    """The TCP segments of a conversation: time, source, destination, sequence, flags, payload."""
    made = []
    numbers = {True: first[0], False: first[1]}
    ends = {True: (client, gateway), False: (gateway, client)}
    if syn:
        for side in (True, False):
            flags = SYN if side else SYN | ACK
            made.append(
                (talk.sent[0].time_ns - 2 + (not side), *ends[side], numbers[side], flags, b"")
            )
            numbers[side] += 1
    for data in talk.sent:
        step = size or len(data.data)
        for at in range(0, len(data.data), step):
            part = data.data[at : at + step]
            made.append(
                (
                    data.time_ns + at,
                    *ends[data.from_client],
                    numbers[data.from_client],
                    PSH | ACK,
                    part,
                )
            )
            numbers[data.from_client] += len(part)
    return made


def write_capture(path, *segments):
    """A capture of segments of one or more conversations, by their times."""
    with PcapWriter(path) as writer:
        for time_ns, source, destination, sequence, flags, payload in sorted(
            itertools.chain(*segments), key=lambda each: each[0]
        ):
            frame = tcp_frame(*source, *destination, payload, sequence=sequence, flags=flags)
            writer.write(time_ns, frame)
    return str(path)


def in_order(segments):
    """The segments with times that rise in their order."""
    return [(START + number, *rest) for number, (_, *rest) in enumerate(segments)]
