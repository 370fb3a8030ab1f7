"""An exchange without sockets, in virtual time, with two clients and a journal."""

import contextlib
from dataclasses import replace
from datetime import date

from pregao.errors import UsageError
from pregao.exchange.host.host import PRIMARY, ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.settings import ExchangeSettings
from tests.entrypoint.raw_peer import MS, SESSION, START, RawPeer
from tests.exchange.host_desk import ORDER, PETR4, VALE3, parties

SETTINGS = replace(ExchangeSettings(), first_date=date(2026, 5, 28))
SESSIONS = (SESSION, SESSION + 1)


class HostFloor:
    """A host in virtual time with two clients; it notes what the exchange is after each step."""

    def __init__(self, folder, settings=SETTINGS, version=6):
        self.settings = settings
        self.folder = folder
        self.journal = Journal(folder)
        self.host = ExchangeHost(settings, self.journal)
        self.now = START
        self.host.begin(self.now)
        self.host.control({"command": "day", "date": "2026-05-28"}, self.now)
        self.host.control({"command": "phase", "phase": "OPEN"}, self.now)
        self.lines = {}
        self.peers = {session: RawPeer(version, session) for session in SESSIONS}
        self.numbers = dict.fromkeys(SESSIONS, 1)
        for session in SESSIONS:
            self.connect(session, first=True)

    def connect(self, session, first=False):
        peer = self.peers[session]
        line = self.lines[session] = self.host.connect(PRIMARY, self.now)
        if first:
            self.host.receive(line, peer.negotiate(now=self.now), self.now)
        wish = "CANCEL_ON_DISCONNECT_ONLY"
        number = self.numbers[session]
        self.host.receive(
            line,
            peer.establish(1, number, now=self.now, keep_alive=60_000, cancelOnDisconnectType=wish),
            self.now,
        )
        assert line.established

    def do(self, step):
        kind, session, number, side, price, quantity, original = step
        self.now += 7 * MS
        line = self.lines.get(session)
        if kind == "leave":
            if line is not None:
                self.host.lost(self.lines.pop(session), self.now)
        elif kind == "wait":
            self.host.advance(self.now)
        elif kind == "halt":
            with contextlib.suppress(UsageError):
                command = "halt" if price % 2 else "resume"
                self.host.control({"command": command, "symbol": "PETR4"}, self.now)
        else:
            if line is None:
                self.connect(session)
            self.request(kind, session, number, side, price, quantity, original)

    def request(self, kind, session, number, side, price, quantity, original):
        header = {
            "sessionID": session,
            "msgSeqNum": self.numbers[session],
            "sendingTime": self.now,
            "marketSegmentID": 80,
        }
        self.numbers[session] += 1
        values = ORDER | parties(number, side, quantity, price) | {"businessHeader": header}
        values["securityID"] = VALE3 if number % 3 == 0 else PETR4
        peer = self.peers[session]
        match kind:
            case "new":
                frame = peer.frame("SimpleNewOrder", **values)
            case "single":
                frame = peer.frame("NewOrderSingle", **values, maxFloor=100, memo="m")
            case "modify":
                frame = peer.frame("SimpleModifyOrder", **values, origClOrdID=original)
            case "cancel":
                names = ("businessHeader", "clOrdID", "securityID", "side")
                chosen = {name: values[name] for name in names}
                frame = peer.frame(
                    "OrderCancelRequest", **chosen, origClOrdID=original,
                    senderLocation="BVMF", enteringTrader="A",
                )  # fmt: skip
            case "mass":
                frame = peer.frame(
                    "OrderMassActionRequest", businessHeader=header, clOrdID=number,
                    massActionType="CANCEL_ORDERS",
                )  # fmt: skip
            case _:
                frame = peer.frame("SimpleNewOrder", **(values | {"side": 7}))
        self.host.receive(self.lines[session], frame, self.now)

    def send(self, session, name, segment=80, **values):
        """Send any message of a client; return the exchange's immediate replies."""
        header = {
            "sessionID": session,
            "msgSeqNum": self.numbers[session],
            "sendingTime": self.now,
            "marketSegmentID": segment,
        }
        self.numbers[session] += 1
        frame = self.peers[session].frame(name, businessHeader=header, **values)
        self.host.receive(self.lines[session], frame, self.now)
        return self.read_messages(session)

    def read_messages(self, session):
        """Messages of the exchange to a client since the last call."""
        return self.peers[session].read(self.lines[session].take_output())

    def again(self):
        """The exchange that the journal makes."""
        self.end()
        journal = Journal(self.folder)
        host = ExchangeHost(self.settings, journal)
        host.replay()
        journal.close()
        return host

    def end(self):
        self.host.commit()
        self.journal.close()
