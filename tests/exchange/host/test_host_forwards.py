"""Forwards over TCP (003 §15.3): both sides of a deal, in every version."""

from decimal import Decimal

import pytest

from pregao.entrypoint import VERSIONS
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import PETR4, Exchange

OTHER = SESSION + 2  # of firm 127
PETR4T = 100_000_010_196
DESK = {"senderLocation": "BVMF", "enteringTrader": "ABC", "executingTrader": "ABC"}


@pytest.fixture
def exchange():
    with Exchange() as running:
        yield running


def send_quote_message(client, name, **values):
    """A quote message; its header goes in both directions."""
    header = client.header()
    flag = "eventIndicator" if client.peer.version >= 5 else "possResend"
    header[flag] = 0 if client.peer.version >= 5 else "FALSE_VALUE"
    client.send_data(client.peer.frame(name, businessHeader=header, **(DESK | values)))


def request_id(client):
    return {"quoteReqID": 5 if client.peer.version > 2 else "5"}


def declare(client, **changes):
    values = {
        "securityID": PETR4T,
        "contraBroker": 127,
        "transactTime": 0,
        "price": Decimal("36.5"),
        "settlType": "MUTUAL",
        "executeUnderlyingTrade": "NO_UNDERLYING_TRADE",
        "orderQty": 500,
        "fixedRate": Decimal("0.0125"),
        "daysToSettlement": 30,
        "noSides": [{"side": "BUY", "account": 77}],
        **request_id(client),
    }
    send_quote_message(client, "QuoteRequest", **(values | changes))
    return client.one("QuoteStatusReport")


def answer(client, name, quote_id, **changes):
    values = {"securityID": PETR4T, "quoteID": quote_id, **request_id(client)}
    if name == "Quote":
        values |= {
            "transactTime": 0,
            "orderQty": 500,
            "side": "SELL",
            "settlType": "MUTUAL",
            "fixedRate": Decimal("0.0125"),
            "daysToSettlement": 30,
        }
    if name == "QuoteRequestReject":
        values |= {"contraBroker": 85, "transactTime": 0, "noSides": []}
    send_quote_message(client, name, **(values | changes))


@pytest.mark.parametrize("version", VERSIONS)
def test_003_15_3_a_forward_is_declared_and_accepted(exchange, version):
    initiator, respondent = exchange.trader(version), exchange.trader(version, session_id=OTHER)
    pending = declare(initiator)
    assert (pending["quoteStatus"], pending["account"]) == ("PENDING", 77)
    assert pending["quoteReqID"] == request_id(initiator)["quoteReqID"]
    offered = respondent.one("QuoteRequest")
    assert (offered["quoteID"], offered["contraBroker"]) == (pending["quoteID"], 85)
    assert (offered["price"], offered["orderQty"]) == (Decimal("36.5"), 500)
    assert (offered["fixedRate"], offered["daysToSettlement"]) == (Decimal("0.0125"), 30)
    assert [side["side"] for side in offered["noSides"]] == ["BUY"]  # as it was declared
    answer(respondent, "Quote", offered["quoteID"])
    for client, side, contra in ((initiator, "BUY", 127), (respondent, "SELL", 85)):
        report = client.one("QuoteStatusReport")
        assert (report["quoteStatus"], report["contraBroker"]) == ("ACCEPTED", contra)
        fill = client.one("ExecutionReport_Forward")
        assert (fill["side"], fill["contraBroker"]) == (side, contra)
        assert (fill["lastPx"], fill["lastQty"]) == (Decimal("36.5"), 500)


def test_003_15_3_2_with_cash_there_are_two_trades(exchange):
    initiator, respondent = exchange.trader(6), exchange.trader(6, session_id=OTHER)
    declare(initiator, executeUnderlyingTrade="UNDERLYING_OPPOSING_TRADE")
    answer(respondent, "Quote", respondent.one("QuoteRequest")["quoteID"])
    initiator.one("QuoteStatusReport")
    fills = [values for _, values in initiator.read_messages(2)]
    legs = [(fill["securityID"], fill["side"]) for fill in fills]
    assert legs == [(PETR4T, "BUY"), (PETR4, "SELL")]


def test_003_15_3_6_a_forward_is_refused_or_cancelled(exchange):
    initiator, respondent = exchange.trader(2), exchange.trader(6, session_id=OTHER)
    declare(initiator)
    answer(respondent, "QuoteRequestReject", respondent.one("QuoteRequest")["quoteID"])
    assert initiator.one("QuoteStatusReport")["quoteStatus"] == "PASS"
    assert respondent.one("QuoteStatusReport")["quoteStatus"] == "PASS"
    number = declare(initiator)["quoteID"]
    respondent.one("QuoteRequest")
    answer(initiator, "QuoteCancel", number)
    assert initiator.one("QuoteStatusReport")["quoteStatus"] == "CANCELED"
    assert respondent.one("QuoteStatusReport")["quoteStatus"] == "CANCELED"
    answer(respondent, "Quote", number)
    missing = respondent.one("QuoteStatusReport")
    assert missing["quoteStatus"] == "QUOTE_NOT_FOUND"
    assert "no longer pending" in missing["text"]


@pytest.mark.parametrize("symbol", ["PETR4T", "PETR4"])
def test_003_15_3_6_3_both_sides_are_told_that_the_instrument_is_delisted(exchange, symbol):
    initiator, respondent = exchange.trader(6), exchange.trader(6, session_id=OTHER)
    number = declare(initiator, executeUnderlyingTrade="UNDERLYING_OPPOSING_TRADE")["quoteID"]
    respondent.one("QuoteRequest")
    assert exchange.control(command="remove", symbol=symbol) == {"done": "remove"}
    for client in (initiator, respondent):
        report = client.one("QuoteStatusReport")
        assert (report["quoteStatus"], report["quoteID"]) == ("CANCELED", number)
    answer(respondent, "Quote", number)
    assert respondent.one("QuoteStatusReport")["quoteStatus"] == "QUOTE_NOT_FOUND"


@pytest.mark.parametrize("location", ["DMA1", "XYZ", "DMA3", "COLO0"])
def test_003_15_3_direct_access_declares_but_does_not_accept(exchange, location):
    initiator, respondent = exchange.trader(6), exchange.trader(6, session_id=OTHER)
    declare(initiator, senderLocation=location)
    number = respondent.one("QuoteRequest")["quoteID"]
    answer(respondent, "Quote", number, senderLocation=location)
    refused = respondent.one("QuoteStatusReport")
    assert (refused["quoteStatus"], refused["quoteRejectReason"]) == ("REJECTED", 2311)
    answer(respondent, "Quote", number, senderLocation="REPS")
    assert respondent.one("QuoteStatusReport")["quoteStatus"] == "ACCEPTED"


@pytest.mark.parametrize("version", VERSIONS)
def test_003_4_6_3_3_the_segment_of_a_quote_is_that_of_its_inbound_flow(exchange, version):
    initiator, respondent = exchange.trader(version), exchange.trader(version, session_id=OTHER)
    pending = declare(initiator)
    offered = respondent.one("QuoteRequest")
    for message in (pending, offered):
        header = message["businessHeader"]
        assert header["marketSegmentID"] is None
        assert header.get("possResend", "FALSE_VALUE") == "FALSE_VALUE"
        assert header["msgSeqNum"] == 1
    header = respondent.header(segment=99)
    flag = "eventIndicator" if version >= 5 else "possResend"
    header[flag] = 0 if version >= 5 else "FALSE_VALUE"
    values = {"securityID": PETR4T, "quoteID": offered["quoteID"], **request_id(respondent)}
    frame = respondent.peer.frame("QuoteCancel", businessHeader=header, **(DESK | values))
    respondent.send_data(frame)
    assert "99 is not a segment" in respondent.one("BusinessMessageReject")["text"]


def test_003_15_3_7_invalid_requests_are_rejected_with_a_reason(exchange):
    client = exchange.trader(6)
    refused = declare(client, daysToSettlement=5)
    assert refused["quoteStatus"] == "REJECTED"
    assert "16 to 999" in refused["text"]
    send_quote_message(client, "QuoteRequest", securityID=PETR4T, contraBroker=127, transactTime=0,
        price=Decimal(1), settlType="MUTUAL", orderQty=100, fixedRate=Decimal(0),
        daysToSettlement=30, quoteReqID=1, noSides=[])  # fmt: skip
    assert client.one("BusinessMessageReject")["refMsgType"] == "QuoteRequest"
