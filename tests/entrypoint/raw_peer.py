"""A peer of the tests that frames and reads messages by itself: it shares no code with sessions."""

import json
import struct

from pregao.sbe import SchemaCodec
from pregao.schemas import bundled

START = 1_780_000_000_000_000_000
MS = 1_000_000
SESSION, FIRM, KEY = 100_000_001, 85, "123456789ABC"


def secret(session_id=SESSION, key=KEY, **other):
    document = {"auth_type": "basic", "username": str(session_id), "access_key": key, **other}
    return json.dumps(document)


class RawPeer:
    """Writes frames of one version, and takes frames apart."""

    def __init__(self, version=2, session_id=SESSION):
        self.codec = SchemaCodec(bundled("entrypoint", version))
        self.version = version
        self.session_id = session_id
        self.number = 1

    def frame(self, name, **values):
        body = self.codec.encode(name, values)
        return struct.pack("<HH", len(body) + 4, 0xEB50) + body

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
            length, encoding = struct.unpack_from("<HH", data)
            assert encoding == 0xEB50
            assert 12 <= length <= len(data)
            decoded = self.codec.decode(data[4:length])
            assert decoded.end == length - 4
            found.append((decoded.message.name, decoded.values))
            data = data[length:]
        return found
