"""A gateway of the tests that says what a test wants to a client session in virtual time."""

from datetime import date

from pregao.entrypoint import ClientSession, ClientSettings, SessionStore
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START, RawPeer

ORDER = {
    "mmProtectionReset": "FALSE_VALUE", "clOrdID": 2**63 + 5, "senderLocation": "SP",
    "enteringTrader": "ABC", "selfTradePreventionInstruction": "NONE", "securityID": 5,
    "side": "BUY", "ordType": "LIMIT", "timeInForce": "DAY", "orderQty": 100, "price": 10,
    "marketSegmentID": 80,
}  # fmt: skip


def report_values(version, number, exec_id=None, *, resend=False):
    """The values of an ExecutionReport_New with a sequence number."""
    mark = "eventIndicator" if version >= 5 else "possResend"
    header = {
        "sessionID": SESSION, "msgSeqNum": number, "sendingTime": START, mark: int(resend),
    }  # fmt: skip
    return {
        "businessHeader": header, "side": "BUY", "ordStatus": "NEW", "clOrdID": 1,
        "secondaryOrderID": 1, "securityID": 5, "orderID": 1,
        "execID": number if exec_id is None else exec_id, "transactTime": START,
        "tradeDate": date(2026, 5, 29), "workingIndicator": 1, "ordType": "LIMIT",
        "timeInForce": "DAY", "orderQty": 100,
    }  # fmt: skip


class Exchange:
    """A scripted gateway, and the client that receives its messages."""

    def __init__(self, *, store=None, version=2, **settings):
        self.now = START
        self.peer = RawPeer(version)
        self.store = SessionStore() if store is None else store
        chosen = ClientSettings(SESSION, FIRM, KEY, version=version, **settings)
        self.client = ClientSession(chosen, self.store)

    def connect(self, gateway=1):
        self.client.connect(self.now, gateway)
        return self.read_messages()

    def send_data(self, *frames):
        return self.client.receive(b"".join(frames), self.now)

    def read_messages(self):
        return self.peer.read(self.client.take_output())

    @property
    def ver(self):
        return START // MS

    def common(self, ver=None):
        return {
            "sessionID": SESSION,
            "sessionVerID": self.ver if ver is None else ver,
            "requestTimestamp": START,
        }

    def response(self, ver=None):
        return self.peer.frame("NegotiateResponse", **self.common(ver), enteringFirm=FIRM)

    def ack(self, next_number=1, last=0, keep_alive=1000):
        return self.peer.frame(
            "EstablishAck", **self.common(), keepAliveInterval=keep_alive, nextSeqNo=next_number,
            lastIncomingSeqNo=last,
        )  # fmt: skip

    def report(self, number, exec_id=None, *, resend=False):
        values = report_values(self.peer.version, number, exec_id, resend=resend)
        return self.peer.frame("ExecutionReport_New", **values)

    def retransmission(self, first, count):
        values = {"sessionID": SESSION, "requestTimestamp": START}
        return self.peer.frame("Retransmission", **values, nextSeqNo=first, count=count)

    def retransmit_reject(self, code):
        values = {"sessionID": SESSION, "requestTimestamp": START, "retransmitRejectCode": code}
        return self.peer.frame("RetransmitReject", **values)

    def established(self, **ack):
        self.connect()
        self.send_data(self.response(), self.ack(**ack))
        self.read_messages()
        return self


def kinds(events):
    return [type(event).__name__ for event in events]


def numbers(events):
    return [event.number for event in events if hasattr(event, "message")]
