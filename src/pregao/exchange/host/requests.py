"""What clients ask for, read fast: the frequent requests as numbers on the wire, checked.

A request is a tuple of plain numbers and bytes under names of ours; one table says which field of
the wire each name is. What a version does not have is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from pregao.entrypoint import Frame, Reader, Reading, messages
from pregao.entrypoint.framing import HEADERS_SIZE
from pregao.entrypoint.gateway_sessions import read_frame
from pregao.entrypoint.messages import session_schema
from pregao.errors import DecodeError
from pregao.sbe import MessageCodec, SchemaCodec, readings
from pregao.sbe import Reading as FieldReading


class OrderRequest(NamedTuple):
    """A new order or a change of one, as it came."""

    session: int
    number: int
    segment: int
    security_id: int
    cl_ord_id: int
    side: int
    ord_type: int
    quantity: int
    price: int | None
    time_in_force: int | None
    account: int | None
    location: bytes | None
    trader: bytes | None
    self_trade: int
    mm_reset: int
    tag: int | None = None
    routing: int | None = None
    investor_prefix: int | None = None
    investor_document: int | None = None
    memo: bytes | None = None
    desk: bytes | None = None
    order_id: int | None = None
    orig_cl_ord_id: int | None = None
    stop_px: int | None = None
    min_qty: int | None = None
    max_floor: int | None = None
    executing_trader: bytes | None = None
    account_type: int | None = None
    expire_date: int | None = None
    strategy: int | None = None
    sub_account: int | None = None
    custodian: int | None = None
    custody_account: int | None = None
    custody_type: int | None = None
    cross_type: int | None = None
    cross_priority: int | None = None
    crossed: int | None = None
    cross_id: int | None = None


class CancelRequest(NamedTuple):
    """A wish to cancel one order, as it came."""

    session: int
    number: int
    segment: int
    security_id: int
    cl_ord_id: int
    side: int
    order_id: int | None
    orig_cl_ord_id: int | None
    reason: int | None
    location: bytes | None
    trader: bytes | None
    executing_trader: bytes | None
    desk: bytes | None
    memo: bytes | None


ON_THE_WIRE: Final = {
    "session": "businessHeader.sessionID",
    "number": "businessHeader.msgSeqNum",
    "segment": "businessHeader.marketSegmentID",
    "security_id": "securityID",
    "cl_ord_id": "clOrdID",
    "side": "side",
    "ord_type": "ordType",
    "quantity": "orderQty",
    "price": "price",
    "time_in_force": "timeInForce",
    "account": "account",
    "location": "senderLocation",
    "trader": "enteringTrader",
    "self_trade": "selfTradePreventionInstruction",
    "mm_reset": "mmProtectionReset",
    "tag": "ordTagID",
    "routing": "routingInstruction",
    "investor_prefix": "investorID.prefix",
    "investor_document": "investorID.document",
    "memo": "memo",
    "desk": "deskID",
    "order_id": "orderID",
    "orig_cl_ord_id": "origClOrdID",
    "stop_px": "stopPx",
    "min_qty": "minQty",
    "max_floor": "maxFloor",
    "executing_trader": "executingTrader",
    "account_type": "accountType",
    "expire_date": "expireDate",
    "strategy": "strategyID",
    "sub_account": "tradingSubAccount",
    "custodian": "custodianInfo.custodian",
    "custody_account": "custodianInfo.custodyAccount",
    "custody_type": "custodianInfo.custodyAllocationType",
    "reason": "execRestatementReason",
}
"""Which field of the wire each name of a request is."""

_REQUESTS: Final[dict[str, type[OrderRequest] | type[CancelRequest]]] = {
    "SimpleNewOrder": OrderRequest,
    "SimpleModifyOrder": OrderRequest,
    "NewOrderSingle": OrderRequest,
    "OrderCancelReplaceRequest": OrderRequest,
    "OrderCancelRequest": CancelRequest,
}
_PARTIES: Final = ("location", "trader", "executing_trader")
_TEXTS: Final = (*_PARTIES, "desk", "memo")
_LONGEST: Final = {"memo": 40, "deskID": 20, "quoteReqID": 20}
_MOST_KEPT: Final = 10_000
_TOO_LONG: Final = 10**18
"""A price of more digits is beyond its field, and rejected."""


@cache
def request_readers(version: int) -> Mapping[int, Reader]:
    """The readers of the frequent requests in a version, by template."""
    codec = SchemaCodec(session_schema(version))
    found = {}
    for name, request in _REQUESTS.items():
        message = codec.schema.by_name[name]
        own = codec.codec(message.id)
        assert own is not None
        found[message.id] = _reader(version, name, request, own)
    return found


def _reader(
    version: int, name: str, request: type[OrderRequest] | type[CancelRequest], codec: MessageCodec
) -> Reader:
    message = codec.message
    present = _present(message)
    known = [field for field in request._fields if ON_THE_WIRE.get(field) in present]
    unpack = codec.unpacker(*(ON_THE_WIRE[field] for field in known))
    # What is not there is None. In the most frequent messages that is all behind the last field.
    nothing = (None,) * (len(request._fields) - len(known))
    places = [known.index(f) if f in known else len(known) for f in request._fields]
    pick = None if known == list(request._fields[: len(known)]) else itemgetter(*places)
    # What ``_make`` does, without its check of the length: there are many of these.
    make: Any = tuple.__new__
    length = message.block_length
    enumerated = [f for f in known if _of(message, ON_THE_WIRE[f]).enum is not None]
    priced, stops = "price" in known, "stop_px" in known
    plain = messages(version)
    # Few combinations of these come again and again: each is looked at once.
    usual = itemgetter(*(request._fields.index(f) for f in (*enumerated, *_PARTIES) if f in known))
    sound: set[tuple[Any, ...]] = set()

    def fault_of(made: OrderRequest | CancelRequest, frame: Frame) -> str | None:
        # What the full decoder refuses is refused here too; it also finds the words for values.
        fault = read_frame(plain, name, frame).fault
        fault = fault or _missing(made) or _text_fault(made)
        if fault is None and made.memo is None and made.desk is None and len(sound) < _MOST_KEPT:
            sound.add(usual(made))
        return fault

    def read(frame: Frame) -> Reading:
        data = frame.data
        block = frame.header.block_length
        if block < length:
            raise DecodeError(f"a block of {block} bytes is shorter than {length}")
        found = unpack(data, HEADERS_SIZE, block, len(data))
        made: Any = make(request, found + nothing if pick is None else pick((*found, None)))
        fault = None
        if (
            made.memo
            or made.desk
            or not made.cl_ord_id
            or usual(made) not in sound
            or (priced and not -_TOO_LONG < (made.price or 0) < _TOO_LONG)
            or (stops and made.stop_px is not None)
        ):
            fault = fault_of(made, frame)
        reading: Reading = make(Reading, (name, made.session, made.number, fault, made))
        return reading

    return read


def _present(message: Any) -> set[str]:
    """The ways of a message's fields, and its data."""
    ways = {piece.name for piece in message.data}
    for field in readings(message):
        ways.add(field.name)
        ways.update(f"{field.name}.{member.name}" for member in field.members)
    return ways


def _of(message: Any, way: str) -> FieldReading:
    """The field of a way; of data and members of records one that has no names for values."""
    for field in readings(message):
        if field.name == way.partition(".")[0]:
            return field
    return next(iter(readings(message)))


def text_fault(name: str, text: str) -> str | None:
    """What is wrong with a text (§12): too long, or characters that nobody could read."""
    if not (text.isascii() and text.isprintable()):
        return f"{name} has characters that cannot be printed"
    if len(text) > _LONGEST.get(name, len(text)):
        return f"{name} is longer than {_LONGEST[name]} characters"
    return None


def _text_fault(request: OrderRequest | CancelRequest) -> str | None:
    """What is wrong with the texts of a request."""
    for field in _TEXTS:
        text = getattr(request, field)
        if text is not None:
            fault = text_fault(ON_THE_WIRE[field], text.decode("latin-1"))
            if fault is not None:
                return fault
    return None


def _missing(request: OrderRequest | CancelRequest) -> str | None:
    """A field that must be there and is empty (§9, §7.6.1)."""
    for field in ("cl_ord_id", "location", "trader"):
        if not getattr(request, field):
            return f"{ON_THE_WIRE[field]} needs a value"
    return None
