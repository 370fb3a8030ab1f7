"""Frames of every EntryPoint message that a client sends, with each field at its extremes."""

import re
import struct
from datetime import date
from pathlib import Path

from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.schemas.bundle import bundled
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import ORDER, PETR4, parties

HEADERS = 12
_LAYOUTS = Path(__file__).parents[1] / "schemas" / "layouts_entrypoint.txt"
_NUMBERS = {each.symbol: each.security_id for each in bundled_catalogue()}
_OPTION = next(each.security_id for each in bundled_catalogue() if each.strike_price)
_HEADER_MEMBERS = (("sessionID", 0, 4), ("sendingTime", 8, 8), ("marketSegmentID", 16, 1))


def samples(peer, header):
    """A valid message of every kind that clients send; ``header`` makes a business header."""
    resend = {"possResend": 0} if peer.version < 5 else {"eventIndicator": 0}
    own = "7" if peer.version <= 2 else 7
    order = ORDER | parties(77, "BUY", 100, 12)
    sender = {"senderLocation": "BVMF", "enteringTrader": "ABC"}
    quote = {"securityID": _NUMBERS["PETR4T"], "quoteReqID": own, "executingTrader": "A", **sender}
    deal = {"transactTime": 1, "price": 36, "orderQty": 1000, "fixedRate": 2,
            "daysToSettlement": 30, "settlType": "BUYERS_DISCRETION"}  # fmt: skip
    sides = [{"side": "BUY", "clOrdID": 1}, {"side": "SELL", "clOrdID": 2}]
    legs = [{"legSymbol": each, "legRatioQty": 1, "legSide": "BUY"} for each in ("PETR3", "PETR4")]
    found = {
        "SimpleNewOrder": order,
        "SimpleModifyOrder": order | {"origClOrdID": 5},
        "NewOrderSingle": order,
        "OrderCancelReplaceRequest": order | {"origClOrdID": 5},
        "OrderCancelRequest": {"clOrdID": 5, "securityID": PETR4, "side": "BUY", "origClOrdID": 7,
                               **sender},
        "OrderMassActionRequest": {"clOrdID": 7, "massActionType": "CANCEL_ORDERS"},
        "NewOrderCross": {"crossID": 3, "securityID": PETR4, "orderQty": 1000, "price": 12,
                          "noSides": sides, **sender},
        "SecurityDefinitionRequest": {"securityReqID": 1, "noLegs": legs, **sender},
        "QuoteRequest": {"contraBroker": 127, "noSides": [{"side": "BUY"}], **quote, **deal},
        "Quote": {"quoteID": 1, "side": "SELL", **quote, **deal},
        "QuoteCancel": {"quoteID": 1, **quote},
        "QuoteRequestReject": {"quoteID": 1, "contraBroker": 127, "side": "SELL", **quote, **deal},
        "PositionMaintenanceRequest": {
            "posReqID": 4, "securityID": _OPTION, "posTransType": "EXERCISE", "longQty": 1,
            "clearingBusinessDate": date(2026, 5, 28),
            "contraryInstructionIndicator": "FALSE_VALUE", "account": 7, **sender},
        "PositionMaintenanceCancelRequest": {
            "posReqID": 4, "securityID": _OPTION, "origPosReqRefID": 3, **sender},
        "AllocationInstruction": {
            "allocID": 4, "securityID": _OPTION, "allocTransType": "NEW", "quantity": 1,
            "tradeID": 10, "allocAccount": 7, "allocQty": 1, "tradeDate": date(2026, 5, 28),
            "allocType": "REQUEST_TO_INTERMEDIARY",
            "allocNoOrdersType": "NOT_SPECIFIED", "individualAllocID": 1, **sender},
    }  # fmt: skip
    both = {"QuoteRequest", "Quote", "QuoteCancel", "QuoteRequestReject"}
    for name, values in found.items():
        message = bundled("entrypoint", peer.version).by_name[name]
        known = {each.name for each in (*message.fields, *message.groups, *message.data)}
        made = {key: value for key, value in values.items() if key in known}
        own_header = header() | (resend if name in both else {})
        yield name, peer.frame(name, businessHeader=own_header, **made)


def session_samples(peer, now, ver, number):
    """A valid session message of every kind."""
    yield "Negotiate", peer.negotiate(ver, now=now)
    yield "Establish", peer.establish(ver, number, now=now)
    yield "Sequence", peer.frame("Sequence", nextSeqNo=number)
    yield (
        "RetransmitRequest",
        peer.frame("RetransmitRequest", sessionID=SESSION, timestamp=now, fromSeqNo=1, count=1),
    )
    yield (
        "Terminate",
        peer.frame("Terminate", sessionID=SESSION, sessionVerID=ver, terminationCode="FINISHED"),
    )


def layout(name, version):
    """The fields of a message by name: where each is in the frame, and its size."""
    for line in _LAYOUTS.read_text().splitlines():
        found = re.match(r"\d+ in ([\d,]+): (\w+) \((\d+)\)(.*)", line)
        if found and found[2] == name and str(version) in found[1].split(","):
            root, _, group = found[4].partition("[")
            fields = [(each[1], HEADERS + int(each[2]), int(each[3]))
                      for each in re.finditer(r"(\w+)@(\d+)\+(\d+)", root)]  # fmt: skip
            if group:  # three bytes of its header come before the first entry
                start = HEADERS + int(found[3]) + 3
                fields += [(each[1], start + int(each[2]), int(each[3]))
                           for each in re.finditer(r"(\w+)@(\d+)\+(\d+)", group)]  # fmt: skip
            return fields
    raise AssertionError(f"{name} of version {version} has no layout")


def extremes(size):
    """Numbers at the ends of a field: none, all, the signed ends, the largest decimal."""
    found = {bytes(size), b"\xff" * size, b"\x01" + bytes(size - 1)}
    found |= {b"\xff" * (size - 1) + end for end in (b"\x7f", b"\xfe")}
    found |= {b"\xfe" + b"\xff" * (size - 1), bytes(size - 1) + b"\x80"}
    if size == 8:
        found |= {struct.pack("<q", number) for number in (10**18, -(10**18), 10**18 - 1, 10**12)}
    return sorted(found)


def changed(name, frame, version):
    """A frame with each of its fields at each extreme: the field's name and the bytes."""
    for field, start, size in layout(name, version):
        if field == "businessHeader":
            parts = [(member, start + at, width) for member, at, width in _HEADER_MEMBERS]
        else:
            parts = [(field, start, size)]
        for part, at, width in parts:
            if at + width > len(frame):
                continue  # of a group that has no entries here
            for value in extremes(width):
                yield part, frame[:at] + value + frame[at + width :]
