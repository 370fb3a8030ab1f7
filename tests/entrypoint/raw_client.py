"""A raw client of EntryPoint on a TCP socket: it imports nothing of Pregão."""

import contextlib
import socket
import time
from decimal import Decimal

from tests.entrypoint.raw_peer import SESSION, RawPeer
from tests.waiting import PATIENCE_S

PETR4 = 100_000_010_014
VALE3 = 100_000_010_021
DOL = "D1"


class Client:
    """A client on a blocking socket."""

    def __init__(self, port, version=2, session_id=SESSION):
        self.peer = RawPeer(version, session_id)
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = 1
        self._rest = b""

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.close()

    def send_data(self, data):
        self.socket.sendall(data)

    def read_messages(self, count=1):
        """The next messages: their names and values."""
        found = []
        while len(found) < count:
            while len(found) < count and (message := self._message()):
                found += self.peer.read(message)
            if len(found) < count:
                data = self.socket.recv(1 << 16)
                if not data:
                    raise EOFError(f"the exchange closed after {[name for name, _ in found]}")
                self._rest += data
        return found

    def _message(self):
        if len(self._rest) < 4:
            return b""
        length = int.from_bytes(self._rest[:2], "little")
        if len(self._rest) < length:
            return b""
        message, self._rest = self._rest[:length], self._rest[length:]
        return message

    def one(self, name):
        """The next message, which must be of that name."""
        (found,) = self.read_messages()
        assert found[0] == name, found
        return found[1]

    def ended(self):
        """The messages until the exchange closes."""
        found = []
        try:
            while True:
                found += self.read_messages()
        except (EOFError, ConnectionError):
            return found

    # Sessions.

    def log_on(self, ver=1, next_number=1, **establish):
        firm = 85 if self.peer.session_id < SESSION + 2 else 127
        self.send_data(self.peer.negotiate(ver, now=time.time_ns(), firm=firm))
        self.one("NegotiateResponse")
        return self.establish(ver, next_number, **establish)

    def establish(self, ver=1, next_number=1, keep_alive=30_000, **changes):
        now = time.time_ns()
        self.send_data(
            self.peer.establish(ver, next_number, now=now, keep_alive=keep_alive, **changes)
        )
        self.number = next_number
        return self.one("EstablishAck")

    # Requests.

    def header(self, segment=80):
        number, self.number = self.number, self.number + 1
        return {
            "sessionID": self.peer.session_id,
            "msgSeqNum": number,
            "sendingTime": time.time_ns(),
            "marketSegmentID": segment,
        }

    def request(self, name, segment=80, **values):
        self.send_data(self.peer.frame(name, businessHeader=self.header(segment), **values))

    def new(self, cl_ord_id, side="BUY", quantity=1000, price=12, **changes):
        """SimpleNewOrder."""
        self.request(
            "SimpleNewOrder", **(ORDER | parties(cl_ord_id, side, quantity, price) | changes)
        )

    def single(self, cl_ord_id, side="BUY", quantity=1000, price=12, **changes):
        """NewOrderSingle."""
        self.request(
            "NewOrderSingle", **(ORDER | parties(cl_ord_id, side, quantity, price) | changes)
        )

    def modify(self, cl_ord_id, original, side="BUY", quantity=1000, price=12, **changes):
        """SimpleModifyOrder."""
        values = ORDER | parties(cl_ord_id, side, quantity, price) | {"origClOrdID": original}
        self.request("SimpleModifyOrder", **(values | changes))

    def replace(self, cl_ord_id, original, side="BUY", quantity=1000, price=12, **changes):
        """OrderCancelReplaceRequest."""
        values = ORDER | parties(cl_ord_id, side, quantity, price) | {"origClOrdID": original}
        self.request("OrderCancelReplaceRequest", **(values | changes))

    def cancel(self, cl_ord_id, original, side="BUY", **changes):
        values = {
            "clOrdID": cl_ord_id,
            "securityID": PETR4,
            "origClOrdID": original,
            "side": side,
            "senderLocation": "BVMF",
            "enteringTrader": "ABC",
        }
        self.request("OrderCancelRequest", **(values | changes))

    def mass_cancel(self, cl_ord_id, **changes):
        values = {"clOrdID": cl_ord_id, "massActionType": "CANCEL_ORDERS"}
        self.request("OrderMassActionRequest", **(values | changes))

    def cross(self, cross_id, buyer, seller, quantity=1000, price=12, **changes):
        values = {
            "crossID": cross_id,
            "securityID": PETR4,
            "orderQty": quantity,
            "price": Decimal(price),
            "senderLocation": "BVMF",
            "enteringTrader": "ABC",
            "noSides": [{"side": "BUY", "clOrdID": buyer}, {"side": "SELL", "clOrdID": seller}],
        }
        self.request("NewOrderCross", **(values | changes))


ORDER = {
    "mmProtectionReset": "FALSE_VALUE",
    "senderLocation": "BVMF",
    "enteringTrader": "ABC",
    "selfTradePreventionInstruction": "NONE",
    "securityID": PETR4,
    "ordType": "LIMIT",
    "timeInForce": "DAY",
}


def parties(cl_ord_id, side, quantity, price):
    number = None if price is None else Decimal(price)
    return {"clOrdID": cl_ord_id, "side": side, "orderQty": quantity, "price": number}


def row(message, *names):
    """The name of a message and some of its values, prices as integers."""
    name, values = message
    return (name.removeprefix("ExecutionReport_"), *(values.get(each) for each in names))
