"""Reports have every field of the schemas, except those without a known value."""

import pytest

from pregao.entrypoint import VERSIONS, FrameReader
from pregao.exchange.engine.model.enums import OrderSide, OrdType, TimeInForce
from pregao.exchange.engine.model.reports import OrderModified
from pregao.exchange.host.gateway import execution_reports as wire
from pregao.exchange.host.gateway.order_requests import (
    ON_THE_WIRE,
    OrderRequest,
    changed,
    request_readers,
)
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import bundled
from tests.entrypoint.raw_peer import RawPeer
from tests.exchange.host_desk import ORDER, parties

FIELDS = {
    "ExecutionReport_New": wire.NEW_FIELDS,
    "ExecutionReport_Modify": wire.MODIFY_FIELDS,
    "ExecutionReport_Cancel": wire.CANCEL_FIELDS,
    "ExecutionReport_Trade": wire.TRADE_FIELDS,
    "ExecutionReport_Reject": wire.REJECT_FIELDS,
}
UNKNOWN = {
    # Options that are exercised, legs of strategies, implied orders.
    "orderCategory", "totNoRelatedSym", "secondaryExecID", "impliedEventID.eventID",
    "impliedEventID.noRelatedTrades",
    # Of a refused change: the order's public number; of a restated good-till order: why.
    "secondaryOrderID", "execRestatementReason",
}  # fmt: skip


def ways(message):
    found = {piece.name for piece in message.data}
    for field in readings(message):
        members = {f"{field.name}.{member.name}" for member in field.members}
        found |= members or {field.name}
    return {name for name in found if not name.startswith("businessHeader.")}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FIELDS)
def test_a_report_has_every_field_of_its_version(name, version):
    message = SchemaCodec(bundled("entrypoint", version)).schema.by_name[name]
    missing = ways(message) - set(FIELDS[name])
    assert missing <= UNKNOWN
    assert len(set(FIELDS[name])) == len(FIELDS[name])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["SimpleNewOrder", "SimpleModifyOrder", "NewOrderSingle",
                                  "OrderCancelReplaceRequest", "OrderCancelRequest"])  # fmt: skip
def test_a_request_is_read_with_every_field_of_its_version(name, version):
    message = SchemaCodec(bundled("entrypoint", version)).schema.by_name[name]
    assert ways(message) <= set(ON_THE_WIRE.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_fast_reading_equals_the_decoder(version):
    peer = RawPeer(version)
    header = {"sessionID": 7, "msgSeqNum": 8, "sendingTime": 9, "marketSegmentID": 80}
    values = ORDER | parties(77, "SELL", 300, 12) | {"businessHeader": header}
    values |= {"account": 5, "ordTagID": 3, "memo": "note", "deskID": "desk", "maxFloor": 100,
               "minQty": 200, "stopPx": 11,
               "investorID": {"prefix": 200, "document": 123}}  # fmt: skip
    (frame,) = FrameReader().receive(peer.frame("NewOrderSingle", **values))
    reading = request_readers(version)[frame.header.template_id](frame)
    request = reading.content
    assert isinstance(request, OrderRequest)
    assert (reading.session_id, reading.number, reading.fault) == (7, 8, None)
    assert (request.cl_ord_id, request.side, request.quantity) == (77, ord("2"), 300)
    assert (request.price, request.stop_px) == (120_000, 110_000)
    assert (request.account, request.tag, request.max_floor, request.min_qty) == (5, 3, 100, 200)
    assert (request.memo, request.desk) == (b"note", b"desk")
    assert (request.investor_prefix, request.investor_document) == (200, 123)


def test_003_7_4_the_entering_trader_stays_and_an_executing_trader_can_be_added():
    order = OrderRequest(1, 1, 80, 5, 1, 49, 50, 100, 1, 48, None, b"BVMF", b"ABC", 0, 0)
    done = OrderModified(
        1, 1, 85, 2, 7, 8, 5, OrderSide.BUY, OrdType.LIMIT, TimeInForce.DAY, 1, 100, 1, 100, 0, 0,
        0, None, 0,
    )  # fmt: skip
    asked = order._replace(trader=b"XYZ", location=b"DMA1", executing_trader=b"E1")
    first = changed(order, asked, done, simple=False)
    assert (first.trader, first.location, first.executing_trader) == (b"ABC", b"BVMF", b"E1")
    second = changed(first, order._replace(executing_trader=b"E2"), done, simple=False)
    assert second.executing_trader == b"E1"
