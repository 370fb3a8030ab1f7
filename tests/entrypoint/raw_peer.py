"""A peer of the tests that frames and reads messages itself: it imports nothing of Pregão."""

import json
import struct

from tests.entrypoint.raw_layouts import layouts

START = 1_780_000_000_000_000_000
MS = 1_000_000
SESSION, FIRM, KEY = 100_000_001, 85, "123456789ABC"


def secret(session_id=SESSION, key=KEY, **other):
    document = {"auth_type": "basic", "username": str(session_id), "access_key": key, **other}
    return json.dumps(document)


class RawPeer:
    """Writes frames of one version, and takes frames apart."""

    def __init__(self, version=2, session_id=SESSION):
        self.layouts = layouts(version)
        self.version = version
        self.session_id = session_id
        self.number = 1

    def frame(self, name, **values):
        return self.layouts.frame(name, values)

    def negotiate(self, ver=1, *, now=START, firm=FIRM, key=KEY, **changes):
        values = {
            "sessionID": self.session_id,
            "sessionVerID": ver,
            "timestamp": now,
            "enteringFirm": firm,
            "credentials": secret(self.session_id, key),
        }
        return self.frame("Negotiate", **(values | changes))

    def establish(self, ver=1, next_number=1, *, now=START, keep_alive=1000, key=KEY, **changes):
        values = {
            "sessionID": self.session_id,
            "sessionVerID": ver,
            "timestamp": now,
            "keepAliveInterval": keep_alive,
            "nextSeqNo": next_number,
            "cancelOnDisconnectType": None,
            "codTimeoutWindow": 0,
            "credentials": secret(self.session_id, key),
        }
        return self.frame("Establish", **(values | changes))

    def order(self, number=None, **changes):
        if number is None:
            number, self.number = self.number, self.number + 1
        header = {
            "sessionID": self.session_id,
            "msgSeqNum": number,
            "sendingTime": START,
            "marketSegmentID": 80,
        }
        values = {
            "businessHeader": header,
            "mmProtectionReset": "FALSE_VALUE",
            "clOrdID": 1000 + number,
            "senderLocation": "SP",
            "enteringTrader": "ABC",
            "selfTradePreventionInstruction": "NONE",
            "securityID": 5,
            "side": "BUY",
            "ordType": "LIMIT",
            "timeInForce": "DAY",
            "orderQty": 100,
            "price": 10,
        }
        return self.frame("SimpleNewOrder", **(values | changes))

    def sequence(self, number):
        return self.frame("Sequence", nextSeqNo=number)

    def retransmit(self, first, count, *, now=START, session_id=None):
        return self.frame(
            "RetransmitRequest",
            sessionID=self.session_id if session_id is None else session_id,
            timestamp=now,
            fromSeqNo=first,
            count=count,
        )

    def terminate(self, code="FINISHED", ver=1):
        return self.frame(
            "Terminate", sessionID=self.session_id, sessionVerID=ver, terminationCode=code
        )

    def read(self, data):
        """The messages in some bytes: their names and values."""
        found = []
        while data:
            length, version = struct.unpack_from("<H8xH", data)
            assert 12 <= length <= len(data)
            # Before a session is agreed a gateway answers in its own version.
            found.append(layouts(version).read(data[:length]))
            data = data[length:]
        return found
