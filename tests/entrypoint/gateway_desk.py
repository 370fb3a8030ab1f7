"""A gateway in virtual time, and connections to it that a raw peer speaks over."""

from pregao.entrypoint import (
    GatewayConnection,
    GatewaySessions,
    GatewaySettings,
    SessionAccount,
    SessionStore,
)
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START, RawPeer

REPORT = {
    "side": "BUY", "ordStatus": "NEW", "clOrdID": 1, "secondaryOrderID": 1, "securityID": 5,
    "orderID": 1, "execID": 1, "transactTime": START, "tradeDate": None, "workingIndicator": 1,
    "ordType": "LIMIT", "timeInForce": "DAY", "orderQty": 100,
}  # fmt: skip


class Desk:
    """A gateway with one account, whatever the test asks for."""

    def __init__(self, *, rules=None, store=None, account=None, version=2):
        self.now = START
        self.store = SessionStore() if store is None else store
        self.account = SessionAccount(SESSION, FIRM, KEY) if account is None else account
        self.sessions = GatewaySessions([self.account], self.store, rules or GatewaySettings())
        self.version = version

    @property
    def session(self):
        return self.sessions[SESSION]

    def connect(self, **changes):
        return Line(self, **changes)

    def established(self, ver=1, **changes):
        line = self.connect()
        line.send_data(line.peer.negotiate(ver, now=self.now))
        line.send_data(line.peer.establish(ver, now=self.now, **changes))
        assert line.names() == ["NegotiateResponse", "EstablishAck"]
        return line

    def report(self, **changes):
        return self.session.send("BusinessMessageReject", REJECT | changes, self.now)


REJECT = {"refMsgType": "SimpleNewOrder", "refSeqNum": 1, "businessRejectReason": 0}


class Line:
    """One connection: what the peer says, and what comes back."""

    def __init__(self, desk, version=None, session_id=SESSION, peer=""):
        self.desk = desk
        self.peer = RawPeer(desk.version if version is None else version, session_id)
        self.gateway = GatewayConnection(desk.sessions, desk.now, peer)
        self.events = []

    def send_data(self, data):
        self.events += self.gateway.receive(data, self.desk.now)

    def wait(self, milliseconds):
        """Advance the clock and run everything at its due time."""
        end = self.desk.now + milliseconds * MS
        while (due := self.gateway.next_due_ns) is not None and due <= end:
            self.desk.now = max(self.desk.now, due)
            self.events += self.gateway.advance(self.desk.now)
        self.desk.now = end

    def lose(self):
        self.events += self.gateway.lost(self.desk.now)

    def read_messages(self):
        return self.peer.read(self.gateway.take_output())

    def names(self):
        return [name for name, _ in self.read_messages()]

    def kinds(self):
        """Events of the gateway since the last call, by name."""
        events, self.events = self.events, []
        return [type(event).__name__ for event in events]

    def ends_with(self, code):
        """Whether the gateway's last message ended the connection with that code."""
        name, values = self.read_messages()[-1]
        return name == "Terminate" and values["terminationCode"] == code and self.gateway.closing
