"""Forwards and spreads of members over TCP, in every version."""

import time

import pytest

from pregao.entrypoint import VERSIONS
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import PETR4, Exchange

OTHER = SESSION + 2  # of firm 127
PARTIES = {"senderLocation": "BVMF", "enteringTrader": "ABC", "executingTrader": "ABC"}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def exchange():
    with Exchange() as running:
        yield running


@pytest.fixture
def forward(exchange):
    """PETR4T, the forward of PETR4."""
    return exchange.call(
        lambda host: next(i.security_id for i in host.engine.instruments if i.symbol == "PETR4T")
    )


def own_id(version, number):
    return str(number) if version <= 2 else number


def send(client, name, **values):
    resend = {"possResend": 0} if client.peer.version < 5 else {"eventIndicator": 0}
    header = client.header() | resend
    client.send_data(client.peer.frame(name, businessHeader=header, **(PARTIES | values)))


def declare(client, forward, number=7, **changes):
    values = {
        "securityID": forward,
        "quoteReqID": own_id(client.peer.version, number),
        "contraBroker": 127,
        "transactTime": time.time_ns(),
        "price": 36,
        "settlType": "BUYERS_DISCRETION",
        "orderQty": 1000,
        "fixedRate": 2,
        "daysToSettlement": 30,
        "noSides": [{"side": "BUY", "account": 5}],
        "memo": "deal",
    }
    send(client, "QuoteRequest", **(values | changes))


def test_003_15_3_6_3_a_forward_is_declared_accepted_and_traded(exchange, forward, version):
    buyer, seller = exchange.trader(version), exchange.trader(version, session_id=OTHER)
    declare(buyer, forward)
    pending = buyer.one("QuoteStatusReport")
    assert (pending["quoteStatus"], pending["memo"]) == ("PENDING", "deal")
    assert pending["quoteReqID"] == own_id(version, 7)
    request = seller.one("QuoteRequest")
    assert (request["quoteID"], request["contraBroker"]) == (pending["quoteID"], 85)
    assert (request["price"], request["fixedRate"], request["orderQty"]) == (36, 2, 1000)
    assert request["noSides"][0]["account"] is None
    send(
        seller, "Quote", securityID=forward, quoteID=request["quoteID"],
        quoteReqID=own_id(version, 9), transactTime=time.time_ns(), price=36, orderQty=1000,
        side="SELL", settlType="BUYERS_DISCRETION", account=6, fixedRate=2, daysToSettlement=30,
    )  # fmt: skip
    for client, side, contra in ((buyer, "BUY", 127), (seller, "SELL", 85)):
        accepted = client.one("QuoteStatusReport")
        assert (accepted["quoteStatus"], accepted["side"]) == ("ACCEPTED", side)
        traded = client.one("ExecutionReport_Forward")
        assert (traded["side"], traded["contraBroker"], traded["lastQty"]) == (side, contra, 1000)
        assert (traded["lastPx"], traded["daysToSettlement"]) == (36, 30)


def test_003_15_3_6_4_a_forward_is_refused(exchange, forward, version):
    buyer, seller = exchange.trader(version), exchange.trader(version, session_id=OTHER)
    declare(buyer, forward)
    number = buyer.one("QuoteStatusReport")["quoteID"]
    seller.one("QuoteRequest")
    send(
        seller, "QuoteRequestReject", securityID=forward, quoteID=number,
        quoteReqID=own_id(version, 9), contraBroker=85, transactTime=time.time_ns(),
        noSides=[{"side": "SELL"}],
    )  # fmt: skip
    for client in (buyer, seller):
        assert client.one("QuoteStatusReport")["quoteStatus"] == "PASS"


def test_003_15_3_6_2_a_forward_is_cancelled_by_its_own_number(exchange, forward, version):
    buyer, seller = exchange.trader(version), exchange.trader(version, session_id=OTHER)
    declare(buyer, forward, 8)
    buyer.one("QuoteStatusReport")
    seller.one("QuoteRequest")
    send(buyer, "QuoteCancel", securityID=forward, quoteReqID=own_id(version, 8))
    for client in (buyer, seller):
        assert client.one("QuoteStatusReport")["quoteStatus"] == "CANCELED"


def test_003_15_3_invalid_requests_are_refused(exchange, forward, version):
    client = exchange.trader(version)
    declare(client, PETR4)
    refused = client.one("QuoteStatusReport")
    assert (refused["quoteStatus"], refused["quoteRejectReason"]) == ("REJECTED", 2047)
    declare(client, forward, daysToSettlement=3)
    assert "days to settlement" in client.one("QuoteStatusReport")["text"]
    send(client, "QuoteCancel", securityID=forward, quoteReqID=own_id(version, 5), quoteID=99)
    assert client.one("QuoteStatusReport")["quoteStatus"] == "QUOTE_NOT_FOUND"
    declare(client, forward, noSides=[])
    assert "noSides" in client.one("BusinessMessageReject")["text"]
    declare(client, forward, orderQty=2**63)
    assert "too large" in client.one("BusinessMessageReject")["text"]


def test_003_15_1_a_member_makes_a_spread_and_trades_it(exchange, version):
    client = exchange.trader(version)
    legs = [
        {"legSymbol": "PETR4", "legRatioQty": 1, "legSide": "BUY"},
        {"legSymbol": "PETR3", "legRatioQty": 1, "legSide": "SELL"},
    ]
    parties = {name: PARTIES[name] for name in ("senderLocation", "enteringTrader")}
    client.request("SecurityDefinitionRequest", securityReqID=5, noLegs=legs, **parties)
    made = client.one("SecurityDefinitionResponse")
    assert made["securityResponseType"] == "ACCEPT_SECURITY_PROPOSAL_AS_IS"
    assert made["securityReqID"] == 5
    assert made["symbol"]
    client.new(1, "BUY", 100, "-3", securityID=made["securityID"])
    new = client.one("ExecutionReport_New")
    assert new["multiLegReportingType"] == "MULTILEG_SECURITY"
    client.new(2, "SELL", 100, "-3", securityID=made["securityID"])
    client.one("ExecutionReport_New")
    kinds = [values["multiLegReportingType"] for _, values in client.read_messages(6)]
    assert kinds.count("INDIVIDUALLEG_OF_MULTILEG_SECURITY") == 4
    assert kinds.count("MULTILEG_SECURITY") == 2


def test_003_15_1_1_a_spread_that_cannot_be_is_refused(exchange, version):
    client = exchange.trader(version)
    legs = [{"legSymbol": "NOBODY", "legRatioQty": 1, "legSide": "BUY"}]
    parties = {name: PARTIES[name] for name in ("senderLocation", "enteringTrader")}
    client.request("SecurityDefinitionRequest", securityReqID=5, noLegs=legs, **parties)
    refused = client.one("SecurityDefinitionResponse")
    assert refused["securityResponseType"] == "REJECT_SECURITY_PROPOSAL"
