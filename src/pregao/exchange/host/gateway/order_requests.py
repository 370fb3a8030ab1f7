"""Frequent requests of clients: fast readers with checks, and conversion to engine commands.

A request is a tuple of integers and bytes in their wire form under our names; one table maps each
name to its wire field. Fields that a version does not have are None. Some requests are rejected
here, before the engine. A new field of a command needs one line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from pregao.entrypoint.framing import HEADERS_SIZE, StreamFrame
from pregao.entrypoint.gateway_sessions import BusinessMessage, Reader, read_frame
from pregao.entrypoint.messages import messages, session_schema
from pregao.errors import DecodeError
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import CancelOrder, ModifyOrder, NewOrder
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    OrderSide,
    OrdType,
    RoutingInstruction,
    SelfTradePreventionInstruction,
    TimeInForce,
)
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import OrderModified
from pregao.exchange.engine.orders.order_cancel import find_order
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.value_specs import ValueSpec as FieldReading
from pregao.sbe.value_specs import readings
from pregao.units import date_of

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
"""Wire field of each request field."""
_PARTIES: Final = ("location", "trader", "executing_trader")
_TEXTS: Final = (*_PARTIES, "desk", "memo")
_MAX_TEXT: Final = {"memo": 40, "deskID": 20, "quoteReqID": 20}
_MAX_CACHED: Final = 10_000
_TOO_LONG: Final = 10**18
"""Prices with more digits exceed their field and are rejected."""

_SIDES: Final = {ord(str(side.value)): side for side in OrderSide}
_ORDER_TYPES: Final = {ord(kind.value): kind for kind in OrdType}
_PREVENTIONS: Final = tuple(SelfTradePreventionInstruction)
_ROUTINGS: Final = tuple(RoutingInstruction)
_VALIDITIES: Final = {ord(validity.value): validity for validity in TimeInForce}
_REMOVE_ACCOUNT: Final = 38
_NOT_DIRECT: Final = frozenset({b"BVMF", b"REPS"})
"""Locations of desk traders and orders conveyors; all others are direct market access (§11)."""
MAX_QUANTITY: Final = 10**12
MAX_PRICE: Final = 10**14
"""Above these limits the totals of a day would not fit the fields of the feed."""

_UNCHANGED_FIELDS: Final = (
    ("account",), ("tag",), ("investor_prefix", "investor_document"), ("memo",), ("desk",),
    ("expire_date",), ("strategy",), ("sub_account",),
    ("custodian", "custody_account", "custody_type"),
    ("cross_type",), ("cross_priority",), ("crossed",), ("cross_id",),
)  # fmt: skip
"""Fields of an order, with their parts, that a modification changes if it names them (§7.4)."""


# --- Readers ---


class OrderRequest(NamedTuple):
    """A new or modified order, as received."""

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


class OrderCancelRequest(NamedTuple):
    """A request to cancel one order, as received."""

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


_REQUESTS: Final[dict[str, type[OrderRequest] | type[OrderCancelRequest]]] = {
    "SimpleNewOrder": OrderRequest,
    "SimpleModifyOrder": OrderRequest,
    "NewOrderSingle": OrderRequest,
    "OrderCancelReplaceRequest": OrderRequest,
    "OrderCancelRequest": OrderCancelRequest,
}


@cache
def request_readers(version: int) -> Mapping[int, Reader]:
    """Return the readers of the frequent requests of a version, by template ID."""
    codec = SchemaCodec(session_schema(version))
    readers = {}
    for name, request in _REQUESTS.items():
        message = codec.schema.by_name[name]
        message_codec = codec.codec(message.id)
        assert message_codec is not None
        readers[message.id] = _reader(version, name, request, message_codec)
    return readers


def _reader(
    version: int,
    name: str,
    request: type[OrderRequest] | type[OrderCancelRequest],
    codec: MessageCodec,
) -> Reader:
    message = codec.message
    present = _present(message)
    known = [field for field in request._fields if ON_THE_WIRE.get(field) in present]
    unpack = codec.unpacker(*(ON_THE_WIRE[field] for field in known))
    # Absent fields are None. In the most frequent messages these are all after the last field.
    absent = (None,) * (len(request._fields) - len(known))
    indices = [known.index(f) if f in known else len(known) for f in request._fields]
    pick = None if known == list(request._fields[: len(known)]) else itemgetter(*indices)
    # ``_make`` without its length check, because this runs for every request.
    make: Any = tuple.__new__
    length = message.block_length
    enumerated = [f for f in known if _of(message, ON_THE_WIRE[f]).enum is not None]
    priced, stops = "price" in known, "stop_px" in known
    plain = messages(version)
    # Few combinations of these values occur, so each is checked only once.
    combination = itemgetter(
        *(request._fields.index(f) for f in (*enumerated, *_PARTIES) if f in known)
    )
    accepted: set[tuple[Any, ...]] = set()

    def fault_of(made: OrderRequest | OrderCancelRequest, frame: StreamFrame) -> str | None:
        # Reject whatever the full decoder rejects; it also resolves names of enumerated values.
        fault = read_frame(plain, name, frame).fault
        fault = fault or _missing(made) or _text_fault(made)
        if (
            fault is None
            and made.memo is None
            and made.desk is None
            and len(accepted) < _MAX_CACHED
        ):
            accepted.add(combination(made))
        return fault

    def read(frame: StreamFrame) -> BusinessMessage:
        data = frame.data
        block = frame.header.block_length
        if block < length:
            raise DecodeError(f"block of {block} bytes is shorter than the {length} of {name}")
        unpacked = unpack(data, HEADERS_SIZE, block, len(data))
        made: Any = make(request, unpacked + absent if pick is None else pick((*unpacked, None)))
        fault = None
        if (
            made.memo
            or made.desk
            or not made.cl_ord_id
            or combination(made) not in accepted
            or (priced and not -_TOO_LONG < (made.price or 0) < _TOO_LONG)
            or (stops and made.stop_px is not None)
        ):
            fault = fault_of(made, frame)
        reading: BusinessMessage = make(
            BusinessMessage, (name, made.session, made.number, fault, made)
        )
        return reading

    return read


def _present(message: Any) -> set[str]:
    """Return the paths of a message's fields and data."""
    paths = {piece.name for piece in message.data}
    for field in readings(message):
        paths.add(field.name)
        paths.update(f"{field.name}.{member.name}" for member in field.members)
    return paths


def _of(message: Any, way: str) -> FieldReading:
    """Return the field at a path; for data and composite members, a field without an enum."""
    for field in readings(message):
        if field.name == way.partition(".")[0]:
            return field
    return next(iter(readings(message)))


def text_fault(name: str, text: str) -> str | None:
    """Return what is wrong with a text (§12): too long, or non-printable characters; or None."""
    if not (text.isascii() and text.isprintable()):
        return f"{name} has non-printable characters"
    if len(text) > _MAX_TEXT.get(name, len(text)):
        return f"{name} is longer than {_MAX_TEXT[name]} characters"
    return None


def _text_fault(request: OrderRequest | OrderCancelRequest) -> str | None:
    """Return what is wrong with the texts of a request, or None."""
    for field in _TEXTS:
        text = getattr(request, field)
        if text is not None:
            fault = text_fault(ON_THE_WIRE[field], text.decode("latin-1"))
            if fault is not None:
                return fault
    return None


def _missing(request: OrderRequest | OrderCancelRequest) -> str | None:
    """Return the error for a required field without a value, or None (§9, §7.6.1)."""
    for field in ("cl_ord_id", "location", "trader"):
        if not getattr(request, field):
            return f"{ON_THE_WIRE[field]} needs a value"
    return None


# --- Commands ---


def side_of(code: int) -> OrderSide:
    """Return the side of a wire code."""
    return _SIDES[code]


def is_direct_access(location: bytes | None) -> bool:
    """Whether a sender location is one of the four categories of direct market access.

    That of DMA2 is a provider's code, which can be any other.
    """
    return bool(location) and location not in _NOT_DIRECT


def refusal(
    market: Market,
    request: OrderRequest | OrderCancelRequest,
    described: Mapping[int, OrderRequest],
    *,
    new: bool,
) -> Reject | None:
    """Return why a request is rejected before it reaches the engine, or None.

    ``described`` has the open orders by order ID, as their owners last described them.
    """
    listing = market.listings.get(request.security_id)
    if listing is None or listing.instrument.market_segment_id != request.segment:
        return reject_codes.UNKNOWN_INSTRUMENT
    if isinstance(request, OrderRequest):
        if not 0 < request.quantity <= MAX_QUANTITY:
            return reject_codes.QUANTITY_OUTSIDE_RANGE
        for price in (request.price, request.stop_px):
            if price is not None and not -MAX_PRICE <= price <= MAX_PRICE:
                return reject_codes.PRICE_OUTSIDE_LIMITS
    if new:
        return None
    order = find_order(
        market,
        request.session,
        request.security_id,
        request.order_id or 0,
        request.orig_cl_ord_id or 0,
    )
    if order is None:
        return None
    if order.side != _SIDES[request.side]:
        return reject_codes.UNKNOWN_ORDER.because("it is on the other side")
    if isinstance(request, OrderRequest) and request.account_type == _REMOVE_ACCOUNT:
        # No change alters the location of an order (§7.4), so that its own decides.
        known = described.get(order.order_id)
        if known is not None and is_direct_access(known.location):
            return reject_codes.ACCOUNT_KEPT
    return None


def new_order(request: OrderRequest, firm: int) -> NewOrder:
    """Return the command that enters an order."""
    validity = request.time_in_force
    return NewOrder(
        request.session,
        firm,
        request.cl_ord_id,
        request.security_id,
        _SIDES[request.side],
        request.quantity,
        request.price,
        _ORDER_TYPES[request.ord_type],
        TimeInForce.DAY if validity is None else _VALIDITIES[validity],
        request.max_floor or 0,
        request.min_qty or 0,
        request.stop_px,
        _date(request.expire_date),
        request.account or 0,
        _investor(request) or 0,
        request.tag or 0,
        None,
        _PREVENTIONS[request.self_trade],
        _ROUTINGS[request.routing or 0],
        bool(request.mm_reset),
    )


def modify_order(request: OrderRequest, *, simple: bool) -> ModifyOrder:
    """Return the command that modifies an order.

    The simple message changes only price and quantity (§7.3.2). In the other, fields without a
    value stay unchanged (§7.4), except ``maxFloor``: its null is the 0 that removes it.
    """
    if simple:
        return ModifyOrder(
            request.session,
            request.cl_ord_id,
            request.security_id,
            request.quantity,
            request.price,
            request.order_id or 0,
            request.orig_cl_ord_id or 0,
            mm_protection_reset=bool(request.mm_reset),
        )
    validity = request.time_in_force
    account = 0 if request.account_type == _REMOVE_ACCOUNT else request.account
    return ModifyOrder(
        request.session,
        request.cl_ord_id,
        request.security_id,
        request.quantity,
        request.price,
        request.order_id or 0,
        request.orig_cl_ord_id or 0,
        _ORDER_TYPES[request.ord_type],
        None if validity is None else _VALIDITIES[validity],
        _date(request.expire_date),
        request.max_floor or 0,
        request.min_qty,
        account,
        None,
        request.stop_px,
        _investor(request),
        _PREVENTIONS[request.self_trade] or None,
        None if request.routing is None else _ROUTINGS[request.routing],
        bool(request.mm_reset),
        request.tag,
    )


def cancel_order(request: OrderCancelRequest) -> CancelOrder:
    """Return the command that cancels an order."""
    return CancelOrder(
        request.session,
        request.cl_ord_id,
        request.security_id,
        request.order_id or 0,
        request.orig_cl_ord_id or 0,
        None if request.reason is None else ExecRestatementReason(request.reason),
    )


def changed(
    before: OrderRequest, request: OrderRequest, done: OrderModified, *, simple: bool
) -> OrderRequest:
    """Return the description of an order after a modification, as the engine applied it."""
    if simple:
        return before._replace(max_floor=done.max_floor or None)
    kept: dict[str, Any] = {
        "stop_px": done.stop_px,
        "min_qty": done.min_qty or None,
        "max_floor": done.max_floor or None,
    }
    for names in _UNCHANGED_FIELDS:
        if all(getattr(request, name) is None for name in names):
            kept.update((name, getattr(before, name)) for name in names)
    if request.account_type == _REMOVE_ACCOUNT:
        kept["account"] = None
    if done.time_in_force != TimeInForce.GOOD_TILL_DATE:
        kept["expire_date"] = None
    if before.trader is not None:
        # The entering trader never changes; an executing trader can be added, but not replaced.
        kept |= {"trader": before.trader, "location": before.location}
        kept["executing_trader"] = before.executing_trader or request.executing_trader
    return request._replace(**kept)


def _investor(request: OrderRequest) -> int | None:
    """Return the engine's number of the investor, or None if the request names none."""
    prefix, document = request.investor_prefix, request.investor_document
    if prefix is None and document is None:
        return None
    return investor_number(prefix or 0, document or 0)


def _date(days: int | None) -> date | None:
    return None if days is None else date_of(days)
