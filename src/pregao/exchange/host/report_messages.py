"""Encoding of the engine's reports as execution reports of each schema version.

Each kind of report has the list of its wire fields and a function that returns their values in the
same order; fields that a version does not have are omitted. Codes of one character are passed as
their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from pregao.entrypoint.framing import framed
from pregao.entrypoint.messages import session_schema
from pregao.exchange.engine.model.reports import FillBusted, OrderAccepted, OrderCancelled, OrderFilled, OrderModified, OrderRejected, OrderRestated
from pregao.exchange.engine.model.enums import OrdStatus, TradingSession, TradingStatus
from pregao.exchange.host.requests import CancelRequest, OrderRequest
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.value_specs import readings


class InstrumentContext(NamedTuple):
    """Data of the instrument and the day that reports contain."""

    trade_day: int
    segment: int
    multi_leg: int
    session: TradingSession | None
    phase: TradingStatus
    status: TradingStatus


_NEW: Final = ord(OrdStatus.NEW)
_REPLACED: Final = ord(OrdStatus.REPLACED)
_RESTATED: Final = ord(OrdStatus.RESTATED)
_REJECTED: Final = ord(OrdStatus.REJECTED)
_SIDE: Final = ord("0")
"""The code of a side is a digit."""
_TRADE, _TRADE_CANCEL = ord("F"), ord("H")
SINGLE_SECURITY, LEG, MULTI_LEG = ord("1"), ord("2"), ord("3")

NEW_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "orderID", "account",
    "execID", "transactTime", "marketSegmentReceivedTime", "protectionPrice", "tradeDate",
    "workingIndicator", "multiLegReportingType", "ordType", "timeInForce", "expireDate",
    "orderQty", "price", "stopPx", "minQty", "maxFloor", "crossID", "deskID", "memo",
    "receivedTime", "ordTagID", "investorID.prefix", "investorID.document", "crossType",
    "crossPrioritization", "mmProtectionReset", "strategyID", "tradingSubAccount",
)  # fmt: skip


def new_values(
    r: OrderAccepted, q: OrderRequest, p: InstrumentContext, received_ns: int | None
) -> tuple[Any, ...]:
    """Return the values for an accepted order or a triggered stop order."""
    return (
        _SIDE + r.side, _NEW, r.cl_ord_id, r.secondary_order_id, r.security_id, r.order_id,
        q.account, r.exec_id, r.transact_time_ns, received_ns, r.protection_price, p.trade_day,
        r.working, p.multi_leg, ord(r.ord_type), ord(r.time_in_force), q.expire_date,
        r.quantity, r.price, r.stop_px, r.min_qty, r.max_floor, r.cross_id, q.desk, q.memo,
        received_ns, q.tag, q.investor_prefix, q.investor_document, q.cross_type,
        q.cross_priority, q.mm_reset, q.strategy, q.sub_account,
    )  # fmt: skip


def restated_values(
    r: OrderRestated, q: OrderRequest, p: InstrumentContext, _received_ns: int
) -> tuple[Any, ...]:
    """Return the values for a new displayed part of an order, or an order that became active."""
    return (
        _SIDE + r.side, _RESTATED, r.cl_ord_id, r.secondary_order_id, r.security_id, r.order_id,
        q.account, r.exec_id, r.transact_time_ns, None, None, p.trade_day,
        1, p.multi_leg, ord(r.ord_type), ord(r.time_in_force), q.expire_date,
        r.quantity, r.price, q.stop_px, q.min_qty, r.max_floor, None, q.desk, q.memo,
        None, q.tag, q.investor_prefix, q.investor_document, None,
        None, None, q.strategy, q.sub_account,
    )  # fmt: skip


MODIFY_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "leavesQty", "account",
    "execID", "transactTime", "cumQty", "marketSegmentReceivedTime", "orderID", "origClOrdID",
    "protectionPrice", "tradeDate", "workingIndicator", "multiLegReportingType", "ordType",
    "timeInForce", "expireDate", "orderQty", "price", "stopPx", "minQty", "maxFloor", "deskID",
    "memo", "receivedTime", "ordTagID", "investorID.prefix", "investorID.document",
    "mmProtectionReset", "strategyID", "tradingSubAccount", "execRestatementReason",
)  # fmt: skip


def modify_values(
    r: OrderModified, q: OrderRequest, p: InstrumentContext, received_ns: int | None
) -> tuple[Any, ...]:
    """Return the values for a modified order, or an unsolicited restatement."""
    status = _REPLACED if r.reason is None else _RESTATED
    return (
        _SIDE + r.side, status, r.cl_ord_id, r.secondary_order_id, r.security_id, r.leaves_qty,
        q.account, r.exec_id, r.transact_time_ns, r.cum_qty, received_ns, r.order_id,
        r.orig_cl_ord_id, r.protection_price, p.trade_day, r.working, p.multi_leg,
        ord(r.ord_type), ord(r.time_in_force), q.expire_date, r.quantity, r.price, r.stop_px,
        r.min_qty, r.max_floor, q.desk, q.memo, received_ns, q.tag, q.investor_prefix,
        q.investor_document, q.mm_reset, q.strategy, q.sub_account, r.reason,
    )  # fmt: skip


CANCEL_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "cumQty", "account",
    "execID", "transactTime", "marketSegmentReceivedTime", "orderID", "origClOrdID", "tradeDate",
    "workingIndicator", "execRestatementReason", "massActionReportID", "ordType", "timeInForce",
    "expireDate", "orderQty", "price", "stopPx", "minQty", "maxFloor", "deskID", "memo",
    "receivedTime", "ordTagID", "investorID.prefix", "investorID.document", "strategyID",
    "actionRequestedFromSessionID",
)  # fmt: skip


def cancel_values(
    r: OrderCancelled,
    q: OrderRequest,
    p: InstrumentContext,
    received_ns: int | None,
    request: CancelRequest | OrderRequest | None,
) -> tuple[Any, ...]:
    """Return the values for a canceled order; ``asked`` is its owner's request, if any."""
    echoed: CancelRequest | OrderRequest = q if request is None else request
    return (
        _SIDE + r.side, ord(r.status), r.cl_ord_id, r.secondary_order_id, r.security_id, r.cum_qty,
        q.account, r.exec_id, r.transact_time_ns, received_ns, r.order_id, r.orig_cl_ord_id,
        p.trade_day, 1, r.reason, r.mass_action_id, ord(r.ord_type), ord(r.time_in_force),
        q.expire_date, r.quantity, r.price, r.stop_px, q.min_qty, q.max_floor, echoed.desk,
        echoed.memo, received_ns, q.tag, q.investor_prefix, q.investor_document, q.strategy,
        r.requested_by if request is None else r.session,
    )  # fmt: skip


TRADE_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "account", "lastQty",
    "lastPx", "execID", "transactTime", "leavesQty", "cumQty", "aggressorIndicator", "execType",
    "multiLegReportingType", "tradeID", "contraBroker", "orderID", "tradeDate", "execRefID",
    "crossID", "crossedIndicator", "orderQty", "deskID", "memo", "tradingSessionID",
    "tradingSessionSubID", "securityTradingStatus", "crossType", "crossPrioritization",
    "strategyID", "tradingSubAccount",
)  # fmt: skip


def trade_values(r: OrderFilled, q: OrderRequest, p: InstrumentContext) -> tuple[Any, ...]:
    """Return the values for a trade of an order."""
    return (
        _SIDE + r.side, ord(r.status), r.cl_ord_id, r.secondary_order_id, r.security_id, q.account,
        r.last_qty, r.last_px, r.exec_id, r.transact_time_ns, r.leaves_qty, r.cum_qty,
        r.aggressor, _TRADE, LEG if r.leg_of else p.multi_leg, r.trade_id, r.contra_firm,
        r.order_id, p.trade_day,
        None, r.cross_id, q.crossed, r.quantity, q.desk, q.memo, p.session, p.phase, p.status,
        q.cross_type, q.cross_priority, q.strategy, q.sub_account,
    )  # fmt: skip


def bust_values(r: FillBusted, q: OrderRequest, p: InstrumentContext) -> tuple[Any, ...]:
    """Return the values for a busted trade of an order."""
    status = OrdStatus.PARTIALLY_FILLED if r.cum_qty else OrdStatus.NEW
    return (
        _SIDE + r.side, ord(status if r.leaves_qty else OrdStatus.CANCELED), r.cl_ord_id,
        r.secondary_order_id, r.security_id, q.account,
        r.last_qty, r.last_px, r.exec_id, r.transact_time_ns, r.leaves_qty, r.cum_qty,
        0, _TRADE_CANCEL, p.multi_leg, r.trade_id, r.contra_firm, r.order_id, p.trade_day,
        r.exec_ref_id, None, q.crossed, r.quantity, q.desk, q.memo, p.session, p.phase, p.status,
        q.cross_type, q.cross_priority, q.strategy, q.sub_account,
    )  # fmt: skip


REJECT_FIELDS: Final = (
    "side", "ordStatus", "cxlRejResponseTo", "clOrdID", "securityID", "ordRejReason",
    "transactTime", "execID", "orderID", "origClOrdID", "account", "ordType", "timeInForce",
    "expireDate", "orderQty", "price", "stopPx", "minQty", "maxFloor", "crossID",
    "crossedIndicator", "deskID", "memo", "text", "receivedTime", "ordTagID",
    "investorID.prefix", "investorID.document", "strategyID", "tradingSubAccount",
)  # fmt: skip


def reject_values(
    r: OrderRejected, q: OrderRequest | CancelRequest, received_ns: int
) -> tuple[Any, ...]:
    """Return the values for a rejected request, which echo the request (§7.6.1.3)."""
    head = (
        q.side, _REJECTED, r.response_to, r.cl_ord_id, r.security_id, r.code,
        r.transact_time_ns, r.exec_id, r.order_id, r.orig_cl_ord_id,
    )  # fmt: skip
    text = r.text.encode("ascii", "replace")[:250]
    if isinstance(q, CancelRequest):
        empty = (None,) * 9
        return (*head, *empty, None, None, q.desk, q.memo, text, received_ns, *empty[:5])
    return (
        *head, q.account, q.ord_type, q.time_in_force, q.expire_date, q.quantity, q.price,
        q.stop_px, q.min_qty, q.max_floor, q.cross_id, q.crossed, q.desk, q.memo, text,
        received_ns, q.tag, q.investor_prefix, q.investor_document, q.strategy, q.sub_account,
    )  # fmt: skip


WriteReport = Callable[[int, int, int, int, tuple[Any, ...]], bytes]
"""Returns a framed message from session, number, sending time, market segment and values."""

NEW, MODIFY, CANCEL, TRADE, REJECT = range(5)
"""Kinds of execution reports, as indices into the writers of a version."""
_LAYOUTS: Final = (
    ("ExecutionReport_New", NEW_FIELDS),
    ("ExecutionReport_Modify", MODIFY_FIELDS),
    ("ExecutionReport_Cancel", CANCEL_FIELDS),
    ("ExecutionReport_Trade", TRADE_FIELDS),
    ("ExecutionReport_Reject", REJECT_FIELDS),
)


@cache
def report_messages(version: int) -> tuple[WriteReport, ...]:
    """Return the writers of a version's execution reports, by kind."""
    codec = SchemaCodec(session_schema(version))
    return tuple(_writer(codec, *layout) for layout in _LAYOUTS)


def _writer(codec: SchemaCodec, name: str, fields: tuple[str, ...]) -> WriteReport:
    message = codec.schema.by_name[name]
    known = codec.codec(message.id)
    assert known is not None
    paths = {piece.name for piece in message.data}
    header: list[str] = []
    for field in readings(message):
        paths.add(field.name)
        members = [f"{field.name}.{member.name}" for member in field.members]
        paths.update(members)
        if field.name == "businessHeader":
            header = members
    present = [index for index, field in enumerate(fields) if field in paths]
    pick = itemgetter(*present)
    names = [fields[index] for index in present]
    head = ["businessHeader.sessionID", "businessHeader.msgSeqNum", "businessHeader.sendingTime"]
    segment, resend = "businessHeader.marketSegmentID", "businessHeader.possResend"
    if segment in header:  # from version 5 on, where the header flags default to 0
        pack = known.packer(*head, segment, *names)

        def write_with_segment(
            session: int, number: int, now_ns: int, where: int, values: tuple[Any, ...]
        ) -> bytes:
            return framed(pack(session, number, now_ns, where, *pick(values)))

        return write_with_segment
    pack_without = known.packer(*head, resend, *names)

    def write(
        session: int, number: int, now_ns: int, _where: int, values: tuple[Any, ...]
    ) -> bytes:
        return framed(pack_without(session, number, now_ns, 0, *pick(values)))

    return write
