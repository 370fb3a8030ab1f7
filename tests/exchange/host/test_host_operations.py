"""Market operations of a running exchange, its feed, captures and metrics."""

import asyncio
import json
import time
import urllib.request
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from pregao.clock import HOUR, MINUTE
from pregao.errors import NetworkError, UsageError
from pregao.exchange.engine.model.schedule import parse_schedule
from pregao.exchange.host.admin.control_server import send_request
from pregao.exchange.host.captures import captures_in
from pregao.exchange.host.market_data import MarketData
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import check_operations, parse_settings, read_settings
from pregao.umdf.streams import Stream
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.feed_reader import read
from tests.exchange.host_desk import (
    ORDER,
    PETR4,
    VALE3,
    Exchange,
    parties,
    quiet_settings,
    whole_state,
)
from tests.exchange.host_floor import HostFloor
from tests.exchange.odd_requests import BASE
from tests.waiting import PATIENCE_S

OTHER = SESSION + 2


@pytest.fixture
def exchange():
    with Exchange() as running:
        yield running


def test_phases_and_halts_determine_accepted_orders(exchange):
    client = exchange.trader()
    exchange.control(command="halt", symbol="PETR4")
    client.new(1)
    assert client.one("ExecutionReport_Reject")["ordRejReason"] == 1003
    exchange.control(command="resume", symbol="PETR4")
    exchange.control(command="phase", group="01", phase="close")
    client.new(2)
    assert "closed" in client.one("ExecutionReport_Reject")["text"]
    exchange.control(command="phase", phase="OPEN")
    client.new(3)
    client.one("ExecutionReport_New")
    assert set(exchange.control(command="status")["phases"].values()) == {"OPEN"}


def test_a_bust_is_reported_to_both_sides(exchange):
    buyer, seller = exchange.trader(), exchange.trader(session_id=OTHER)
    buyer.new(1, quantity=300, memo="m")
    buyer.one("ExecutionReport_New")
    seller.new(2, "SELL", 100)
    seller.one("ExecutionReport_New")
    trade = seller.one("ExecutionReport_Trade")
    buyer.one("ExecutionReport_Trade")
    exchange.control(command="bust", symbol="PETR4", trade=trade["tradeID"])
    for client, memo in ((buyer, "m"), (seller, None)):
        busted = client.one("ExecutionReport_Trade")
        assert busted["execType"] == "TRADE_CANCEL"
        assert busted["tradeID"] == trade["tradeID"]
        assert busted["memo"] == memo
    assert busted["execRefID"] == trade["execID"]


def test_operations_cancel_orders_and_take_instruments_off(exchange):
    client = exchange.trader()
    client.new(1)
    client.new(2)
    first, _ = client.read_messages(2)
    exchange.control(command="cancel", order=first[1]["orderID"])
    cancelled = client.one("ExecutionReport_Cancel")
    assert cancelled["execRestatementReason"] == "MARKET_OPTION"
    assert cancelled["clOrdID"] == 1
    exchange.control(command="remove", symbol="PETR4")
    assert client.one("ExecutionReport_Cancel")["clOrdID"] == 2
    client.new(3)
    assert client.one("ExecutionReport_Reject")["ordRejReason"] == 2047


def test_an_auction_ends_automatically(exchange):
    client = exchange.trader()
    exchange.control(command="auction", symbol="PETR4", until_ns=time.time_ns() + 300_000_000)
    client.new(1, "BUY", 100, 12)
    client.new(2, "SELL", 100, 12)
    names = [name for name, _ in client.read_messages(4)]
    assert names == ["ExecutionReport_New"] * 2 + ["ExecutionReport_Trade"] * 2


def test_a_day_begins_with_new_numbers(exchange):
    client = exchange.trader(ver=5)
    client.new(1)
    client.one("ExecutionReport_New")
    exchange.control(command="day", date="2099-01-05")
    found = client.ended()
    assert found[0][1]["ordStatus"] == "EXPIRED"
    assert found[-1] == (
        "Terminate",
        {"sessionID": SESSION, "sessionVerID": 5, "terminationCode": "FINISHED"},
    )
    assert exchange.connect().log_on(6)["nextSeqNo"] == 1


def test_a_session_can_be_disconnected(exchange):
    client = exchange.trader()
    exchange.control(command="disconnect", session=SESSION)
    assert client.ended()[-1][0] == "Terminate"
    reply = exchange.control(command="disconnect", session=SESSION)
    assert reply == {"error": f"session {SESSION} is not connected"}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"command": "dance"}, "unknown command 'dance'"),
        ({}, "unknown command None"),
        ({"command": "halt", "symbol": "PETR9"}, "did you mean PETR4"),
        ({"command": "phase", "phase": "LUNCH"}, "phase: phase must be one of PRE_OPEN, OPEN"),
        ({"command": "phase", "group": "ZZ", "phase": "OPEN"}, "unknown security group 'ZZ'"),
        (
            {"command": "bust", "symbol": "PETR4", "trade": "x"},
            "bust: trade must be an integer",
        ),
        ({"command": "bust", "symbol": "PETR4", "trade": 77}, "77"),
        ({"command": "news"}, "news: headline is missing; it must be a non-empty string"),
        ({"command": "day", "date": "soon"}, "day: date must be a date such as 2026-05-21"),
        ({"command": "day", "date": "2001-01-01"}, "is before the current one"),
        (
            {"command": "band", "symbol": "PETR4", "low": "1.00001"},
            "low must be a price from",
        ),
        ({"command": "band", "symbol": "PETR4", "kind": "RUBBER"}, "band: kind must be one of"),
        ({"command": "add", "text": "= nothing"}, "cannot be read"),
        ({"command": "disconnect"}, "disconnect: session is missing"),
        ({"command": "cancel", "order": 99}, "99"),
        ({"command": "reset", "channel": 1}, "no instrument is on channel 1"),
    ],
)
def test_requests_that_make_no_sense_change_nothing(exchange, request_, words):
    reply = send_request(exchange.server.control_port, request_)
    assert words in reply["error"]
    assert exchange.control(command="status")["orders"] == 0


def test_other_programs_at_the_control_port_are_shown_the_door(exchange):
    import socket

    with socket.create_connection(("127.0.0.1", exchange.server.control_port), 5) as line:
        line.sendall(b'POST / HTTP/1.1\r\nHost: x\r\n\r\n{"command": "failover"}\n')
        with line.makefile("rb") as answers:
            assert b"it must be one line of JSON" in answers.readline()
            assert answers.readline() == b""
    assert exchange.control(command="status")["gateway"] == "primary"


def test_an_exchange_that_does_not_answer_is_reported():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(NetworkError, match="No exchange answers at"):
        send_request(port, {"command": "status"})


def test_metrics_and_health():
    with Exchange(quiet_settings(metrics_port=0)) as exchange:
        client = exchange.trader()
        client.new(1)
        client.one("ExecutionReport_New")
        address = f"http://127.0.0.1:{exchange.server.metrics_port}"
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            text = answer.read().decode()
        with urllib.request.urlopen(f"{address}/health") as answer:
            assert answer.read() == b"serving\n"
    assert "pregao_exchange_requests_total 1\n" in text
    assert "pregao_exchange_connections 1\n" in text
    assert (
        "# HELP pregao_exchange_failures_total Internal failures of requests, commands, timers, "
        "connections and the feed.\n"
    ) in text
    assert "pregao_exchange_active_gateway 1\n" in text
    assert "# TYPE pregao_exchange_loop_iterations_total counter\n" in text


def test_an_address_in_use_is_reported():
    with Exchange() as exchange:
        taken = exchange.server.addresses[1]
        with pytest.raises(NetworkError, match=f"Cannot listen on {taken}: the port is in use"):
            Exchange(quiet_settings(primary=taken)).__enter__()


def test_messages_of_both_sides_are_captured_without_credentials(tmp_path):
    from pregao.capture import read_packets

    folder = tmp_path / "captures"
    settings = quiet_settings(feed="unicast")
    with Exchange(settings, capture=captures_in(folder)) as exchange:
        client = exchange.trader()
        client.new(1)
        client.one("ExecutionReport_New")
    data = (folder / "EntryPoint.pcap").read_bytes()
    assert b"123456789ABC" not in data
    assert data.count(b"\x50\xeb") >= 6
    assert (folder / "051_Incremental_A.pcap").stat().st_size > 24
    assert (folder / "051_Snapshot.pcap").exists()
    assert sum(1 for _ in read_packets(folder / "EntryPoint.pcap")) >= 9
    with pytest.raises(UsageError, match="is not empty"):
        ExchangeServer(settings, capture=captures_in(folder))


def test_the_legacy_feed_is_captured_too(tmp_path):
    from pregao.capture import read_blocks
    from pregao.exchange.simulation.settings import LegacyDepth
    from pregao.legacy.messages import MessageReader
    from pregao.legacy.streams import mostly_legacy

    folder = tmp_path / "captures"
    settings = quiet_settings(feed="unicast", legacy=LegacyDepth.ORDERS)
    with Exchange(settings, capture=captures_in(folder)) as exchange:
        client = exchange.trader()
        client.new(1)
        client.one("ExecutionReport_New")
    for name in ("051_Legacy_Incremental_A", "051_Legacy_Incremental_B"):
        (block,) = read_blocks(folder / f"{name}.pcap")
        payloads = [block.payload(row) for row in range(len(block))]
        assert mostly_legacy(payloads, MessageReader())
    assert (folder / "051_Legacy_Snapshot.pcap").exists()
    assert (folder / "051_Legacy_InstrumentDefinition.pcap").exists()


CONFIG = """
phases = "schedule"
date = 2026-05-28
metrics = 0

[gateway]
primary = "127.0.0.1:7001"
max_unread_bytes = 100000
max_message_bytes = 16384

[feed]
address = "127.0.0.1:40000"
schema_version = 16

[[session]]
id = 7
firm = 8
access_key = "k"
throttle_messages = 10
throttle_ms = 1000
"""


def test_a_configuration_sets_everything(tmp_path):
    path = tmp_path / "exchange.toml"
    path.write_text(CONFIG)
    settings = read_settings(path)
    assert settings.primary.port == 7001
    assert settings.max_unread_bytes == 100_000
    assert settings.rules.max_message == 16_384
    assert settings.schedule is not None
    assert settings.feed == "unicast"
    assert settings.sessions[0].throttle.messages == 10
    assert "127.0.0.1:40511" in settings.live_config()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"sesion": []}, "sesion is not a known entry. Did you mean session"),
        ({"phases": "sometimes"}, "phases must be 'open' or 'schedule', was 'sometimes'"),
        ({"gateway": {"primary": "here"}}, "gateway.primary takes ADDRESS:PORT"),
        ({"gateway": 5}, "gateway must be a table"),
        ({"gateway": {"max_message_bytes": 16_385}}, "max_message_bytes must be an integer from"),
        (
            {"gateway": {"slow_reader_bytes": 1}},
            "slow_reader_bytes is not a known entry. .* max_unread_b",
        ),
        ({"session": []}, "tables with id, firm and access_key"),
        ({"session": [{"id": 0}]}, "session 1.access_key must be a non-empty string"),
        ({"session": [{"id": 0, "firm": 1, "access_key": "k"}]}, "session 1.id must be an integer"),
        *(
            (
                {"session": [{"id": 1, "firm": 1, "access_key": "k", "blocked": value}]},
                f"session 1.blocked must be true or false, was {value!r}",
            )
            for value in ("no", 0, 1)
        ),
        ({"implied_orders": "no"}, "implied_orders must be true or false, was 'no'"),
        ({"gateway": {"primary": 5}}, "toml: gateway.primary must be a non-empty string"),
        *(
            ({"feed": {entry: ""}}, f"toml: feed.{entry} must be a non-empty string")
            for entry in ("mode", "address", "interface", "legacy", "recovery")
        ),
        ({"instruments": 5}, "toml: instruments must be a non-empty string"),
        ({"control_token": ""}, "toml: control_token must be a non-empty string"),
        ({"schedule": ""}, "toml: schedule must be a non-empty string"),
        ({"feed": {"mode": "smoke"}}, "feed.mode must be multicast, unicast or none"),
        ({"date": "tomorrow"}, "date must be a date such as 2026-05-21, was 'tomorrow'"),
        ({"control": 70_000}, "control must be an integer from 0 to 65535"),
    ],
)
def test_errors_in_a_configuration_name_their_location(data, words):
    with pytest.raises(UsageError, match=words):
        parse_settings(data, "exchange.toml")


@pytest.mark.parametrize("blocked", [True, False])
def test_a_session_is_blocked_by_a_boolean(blocked):
    row = {"id": 1, "firm": 1, "access_key": "k", "blocked": blocked}
    assert parse_settings({"session": [row]}).sessions[0].blocked is blocked


def test_the_schedule_moves_the_phases():
    settings = parse_settings({"phases": "schedule"})
    with Exchange(quiet_settings(schedule=settings.schedule)) as exchange:
        phases = exchange.control(command="status")["phases"]
    assert len(phases) > 10


NEWCOMER = """
[[instrument]]
security_id = 999
symbol = "ACME3"
security_group = "01"
security_type = "CS"
security_sub_type = 1003
product = "EQUITY"
asset = "ACME"
cfi_code = "ESVUFR"
min_price_increment = 0.01
market_segment_id = 80
channel = {channel}
"""


def test_instruments_come_and_change_during_the_day(exchange):
    client = exchange.trader()
    client.new(1, securityID=999)
    assert client.one("ExecutionReport_Reject")["ordRejReason"] == 2047
    wrong = exchange.control(command="add", text=NEWCOMER.format(channel=9))
    assert "channel 9 is not published; published channels: 51, 53, 72" in wrong["error"]
    assert exchange.control(command="add", text=NEWCOMER.format(channel=51)) == {"done": "add"}
    client.new(2, securityID=999, quantity=7)
    client.one("ExecutionReport_New")
    larger = NEWCOMER.format(channel=51) + "min_lot_size = 10\nmin_order_qty = 10\n"
    assert exchange.control(command="change", text=larger) == {"done": "change"}
    client.new(3, securityID=999, quantity=17)
    assert client.one("ExecutionReport_Reject")["ordRejReason"] == 5006


# Market operations and what they publish and report

PETRF360, PETR4T = 100_000_020_014, 100_000_010_196
BUYER, SELLER = SESSION, SESSION + 1  # both of firm 85


class Desk:
    """A host in virtual time, its control requests, and its incremental streams decoded."""

    def __init__(self, folder, version=16):
        self.floor = HostFloor(folder)
        self.version = version
        host = self.floor.host
        settings = replace(self.floor.settings, schema_version=version)
        self.data = MarketData(settings, host.engine, host.starts, self.floor.now)
        self.data.begin(self.floor.now)
        host.take_units()
        host.publish = self.data.stage
        self.number = 0
        for session in (BUYER, SELLER):
            self.floor.read_messages(session)

    def control(self, command, **fields):
        """Run a command; return the messages of the incremental streams."""
        self.floor.now += 1_000
        self.floor.host.control({"command": command, **fields}, self.floor.now)
        return [(m.message.name.split("_")[0], m.values) for p in self.packets() for m in p]

    def packets(self):
        sent = self.data.flush(self.floor.now)
        found = [
            read(each.payload, self.version) for each in sent if each.stream is Stream.INCREMENTAL
        ]
        self.headers = [(each.channel, each.version, each.number) for each in found]
        return [each.messages for each in found]

    def one(self, command, **fields):
        """Run a command that publishes one message; return its name and values."""
        (message,) = self.control(command, **fields)
        return message

    def order(self, session, side, price, quantity=100, security_id=PETR4, account=7):
        """Enter an order; return the answers to it."""
        self.number += 1
        values = ORDER | parties(self.number, side, quantity, price)
        values |= {"securityID": security_id, "account": account}
        segment = 81 if security_id == PETRF360 else 80
        answers = self.floor.send(session, "SimpleNewOrder", segment, **values)
        self.published = [
            (m.message.name.split("_")[0], m.values) for p in self.packets() for m in p
        ]
        return answers

    def code(self, *order, **fields):
        """The reject code of an order, or None."""
        name, values = self.order(*order, **fields)[0]
        return values["ordRejReason"] if name == "ExecutionReport_Reject" else None

    def reports(self, session):
        return self.floor.read_messages(session)


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    state = whole_state(made.floor.host)
    again = made.floor.again()  # everything above is in the journal
    assert not again.faults.skipped_records
    assert whole_state(again) == state


def chosen(values, *names):
    return tuple(values[name] for name in names)


@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        ("ENTRY_FROM_PREVIOUS_BUSINESS_DAY", "FINAL"),
        ("ENTRY_FROM_PREVIOUS_BUSINESS_DAY", "UPDATED"),
        ("DAILY", "UPDATED"),
        ("DAILY", "FINAL"),
    ],
)
def test_000_13_11_3_a_settlement_price_is_published_by_command(desk, flag, kind):
    name, values = desk.one("settlement", symbol="DOLM26", price="5012.5", flag=flag, kind=kind)
    assert name == "SettlementPrice"
    assert chosen(
        values, "mDEntryPx", "openCloseSettlFlag", "settlPriceType", "priceType", "tradeDate"
    ) == (Decimal("5012.5"), flag, kind, "FIXED_AMOUNT", date(2026, 5, 28))
    _, values = desk.one("settlement", symbol="DOLM26", price=1, price_type="pu")
    assert chosen(values, "openCloseSettlFlag", "settlPriceType", "priceType") == (
        "DAILY", "FINAL", "PU",
    )  # fmt: skip


def test_000_13_11_3_a_settlement_price_by_command_has_its_date_at_version_17(tmp_path):
    desk = Desk(tmp_path, version=17)
    previous = "ENTRY_FROM_PREVIOUS_BUSINESS_DAY"
    for fields, settles in (
        ({}, date(2026, 5, 28)),
        ({"flag": previous}, None),
        ({"date": "2026-06-01"}, date(2026, 6, 1)),
        ({"flag": previous, "date": "2026-05-27"}, date(2026, 5, 27)),
    ):
        _, values = desk.one("settlement", symbol="DOLM26", price=5000, **fields)
        assert chosen(values, "settlDate", "tradeDate") == (settles, date(2026, 5, 28))
    with pytest.raises(UsageError, match=r"settlement: date must be a date"):
        desk.control("settlement", symbol="DOLM26", price=5000, date="June")


def test_000_13_9_3_a_closing_price_is_published_by_command(desk):
    name, values = desk.one("closing", symbol="PETR4", price="36.12345678")
    assert (name, *chosen(values, "mDEntryPx", "openCloseSettlFlag", "lastTradeDate")) == (
        "ClosingPrice", Decimal("36.12345678"), "DAILY", None,
    )  # fmt: skip
    _, values = desk.one(
        "closing", symbol="PETR4", price=30, previous=True, last_trade="2026-05-27"
    )
    assert chosen(values, "mDEntryPx", "openCloseSettlFlag", "lastTradeDate") == (
        Decimal(30), "ENTRY_FROM_PREVIOUS_BUSINESS_DAY", date(2026, 5, 27),
    )  # fmt: skip
    statistics = dict(desk.control("trade", symbol="PETR4", price=31, quantity=100))
    assert statistics["ExecutionStatistics"]["netChgPrevDay"] == Decimal(1)


def test_000_13_11_4_open_interest_is_published_by_command(desk):
    name, values = desk.one("open-interest", symbol="DOLM26", quantity=125_000)
    assert (name, values["mDEntrySize"]) == ("OpenInterest", 125_000)
    assert values["tradeDate"] == date(2026, 5, 28)


def test_000_13_11_2_a_quantity_band_is_set_by_command(desk):
    name, values = desk.one("quantity-band", symbol="PETR4", maximum=1_000, average=50_000)
    assert (name, *chosen(values, "maxTradeVol", "avgDailyTradedQty")) == (
        "QuantityBand", 1_000, 50_000,
    )  # fmt: skip
    assert desk.code(BUYER, "BUY", 30, 1_100) == 2115
    assert desk.code(BUYER, "BUY", 30, 1_000) is None
    _, values = desk.one("quantity-band", symbol="PETR4")
    assert values["maxTradeVol"] is None
    assert desk.code(BUYER, "BUY", 30, 1_100) is None
    with pytest.raises(UsageError, match="DOLM26 is a derivative"):
        desk.control("quantity-band", symbol="DOLM26", maximum=5)


def test_000_13_11_5_a_band_in_percent_is_set_by_command(desk):
    desk.control("closing", symbol="PETR4", price=30, previous=True)
    desk.control("trade", symbol="PETR4", price=30, quantity=100)
    name, values = desk.one(
        "band", symbol="PETR4", kind="rejection-band", limits="percentage", low=-10, high="10",
        midpoint="last_traded_price",
    )  # fmt: skip
    assert (name, *chosen(values, "priceBandType", "priceLimitType")) == (
        "PriceBand", "REJECTION_BAND", "PERCENTAGE",
    )  # fmt: skip
    assert chosen(
        values, "priceBandMidpointPriceType", "lowLimitPrice", "highLimitPrice"
    ) == ("LAST_TRADED_PRICE", Decimal(-10), Decimal(10))  # fmt: skip
    assert desk.code(BUYER, "BUY", "26.99") == 2179
    assert desk.code(BUYER, "BUY", 27) is None
    desk.control(
        "band", symbol="PETR4", kind="AUCTION_LIMITS", limits="PERCENTAGE", low=-5, high=5,
        midpoint="LAST_TRADED_PRICE",
    )  # fmt: skip
    desk.order(SELLER, "SELL", "31.51")
    desk.order(BUYER, "BUY", "31.51")
    assert ("SecurityStatus", "RESERVED") in [
        (name, values.get("securityTradingStatus")) for name, values in desk.published
    ]


INDICATOR = """
[[instrument]]
security_id = 998
symbol = "ECON"
security_group = "01"
security_type = "INDEX"
security_sub_type = 1003
product = "ECONOMIC_INDICATOR"
asset = "ECON"
cfi_code = "MRIXXX"
min_price_increment = 0.01
market_segment_id = 80
channel = 51
"""


def test_001_9_2_13_a_reference_price_is_set_by_command(desk):
    desk.control("add", text=INDICATOR)
    name, values = desk.one("reference", symbol="ECON", price="123.45")
    assert (name, *chosen(values, "tradingReferencePrice", "priceBandType", "lowLimitPrice")) == (
        "PriceBand", Decimal("123.45"), None, None,
    )  # fmt: skip
    assert desk.control("reference", symbol="PETR4", price=40) == []  # only indicators show it
    desk.control("band", symbol="PETR4", limits="PERCENTAGE", low=-5, high=5,
                 midpoint="LAST_TRADED_PRICE")  # fmt: skip
    assert desk.code(BUYER, "BUY", "37.99") == 2179
    assert desk.code(BUYER, "BUY", 38) is None


def test_000_14_1_an_instrument_is_forbidden_until_it_is_resumed(desk):
    assert desk.code(BUYER, "BUY", 30) is None
    for _ in range(2):  # it may be repeated
        name, values = desk.one("forbid", symbol="PETR4")
        assert (name, *chosen(values, "securityID", "securityTradingStatus")) == (
            "SecurityStatus", PETR4, "FORBIDDEN",
        )  # fmt: skip
    assert desk.code(BUYER, "BUY", 30) == 7029
    cancel = {"clOrdID": 90, "origClOrdID": 1, "securityID": PETR4, "side": "BUY",
              "senderLocation": "BVMF", "enteringTrader": "A"}  # fmt: skip
    ((name, values),) = desk.floor.send(BUYER, "OrderCancelRequest", **cancel)
    assert (name, values["ordRejReason"]) == ("ExecutionReport_Reject", 7029)
    for phase in ("CLOSE", "PRE_OPEN", "OPEN"):
        changed = desk.control("phase", group="01", phase=phase)
        assert PETR4 not in [values.get("securityID") for _, values in changed]
        assert desk.code(BUYER, "BUY", 30) == 7029
    name, values = desk.one("resume", symbol="PETR4")
    assert chosen(values, "securityTradingStatus", "securityTradingEvent") == (
        "OPEN", "SECURITY_REJOINS_SECURITY_GROUP_STATUS",
    )  # fmt: skip
    assert desk.code(BUYER, "BUY", 30) is None


def test_000_12_1_2_a_side_is_deleted_by_command(desk):
    for price in (30, 31):
        desk.order(BUYER, "BUY", price)
    desk.order(SELLER, "SELL", 40)
    name, values = desk.one("delete-side", symbol="PETR4", side="buy")
    assert name == "MassDeleteOrders"
    assert chosen(values, "securityID", "mDEntryType", "mDUpdateAction") == (
        PETR4, "BID", "DELETE_THRU",
    )  # fmt: skip
    gone = [
        (name, values["clOrdID"], values["execRestatementReason"])
        for name, values in desk.reports(BUYER)
    ]
    assert gone == [("ExecutionReport_Cancel", number, "MARKET_OPTION") for number in (2, 1)]
    assert desk.reports(SELLER) == []
    assert desk.control("delete-side", symbol="PETR4", side="buy") == []


def test_000_6_5_13_a_book_is_reset_by_command(desk):
    desk.order(BUYER, "BUY", 30)
    desk.order(SELLER, "SELL", 40, security_id=VALE3)
    found = desk.control("reset-book", symbol="PETR4")
    assert [(name, values["securityID"]) for name, values in found] == [
        ("EmptyBook", PETR4), ("Order", PETR4),
    ]  # fmt: skip
    _, order = found[1]
    assert order["matchEventIndicator"] & 0x20
    assert chosen(order, "mDEntryPx", "mDEntrySize", "rptSeq") == (Decimal(30), 100, 1)


def test_000_6_5_11_a_stream_is_reset_by_command(desk):
    desk.order(BUYER, "BUY", 30)
    desk.control("halt", symbol="VALE3")
    before = desk.headers[-1]
    found = desk.control("reset-stream", channel=51)
    assert [name for name, _ in found] == ["SequenceReset", "EmptyBook", "Order"]
    assert found[2][1]["matchEventIndicator"] & 0x20
    assert [version for _, version, _ in desk.headers] == [before[1], before[1] + 1]
    assert desk.headers[1] == (51, before[1] + 1, 1)
    with pytest.raises(UsageError, match="no instrument is on channel 1; choose from 51, 53, 72"):
        desk.control("reset-stream", channel=1)


TRADE_FIELDS = ("tradeID", "mDEntryPx", "mDEntrySize", "mDEntryBuyer", "mDEntrySeller")


def test_000_13_3_a_trade_is_entered_and_amended_by_command(desk):
    found = desk.control(
        "trade", symbol="PETR4", price="36.5", quantity=300, buyer=85, seller=127, time_ns=5
    )
    assert [name for name, _ in found] == [
        "Trade", "OpeningPrice", "HighPrice", "LowPrice", "ExecutionStatistics",
    ]  # fmt: skip
    trade = found[0][1]
    assert chosen(trade, *TRADE_FIELDS) == (10, Decimal("36.5"), 300, 85, 127)
    assert trade["transactTime"] == 5
    assert chosen(found[-1][1], "tradeVolume", "numberOfTrades", "vwapPx") == (
        300, 1, Decimal("36.5"),
    )  # fmt: skip
    late = desk.control(
        "trade", symbol="PETR4", price=40, quantity=100, kind="BLOCK_BOOK_TRADE",
        out_of_sequence=True,
    )  # fmt: skip
    assert chosen(late[0][1], "tradeID", "trdSubType", "mDEntryBuyer") == (
        20, "BLOCK_BOOK_TRADE", None,
    )  # fmt: skip
    out_of_sequence, same_price = 1 << 3, 1 << 4
    assert late[0][1]["tradeCondition"] & out_of_sequence
    amended = desk.control(
        "amend-trade", symbol="PETR4", trade=10, price="36.6", quantity=200, seller=3
    )
    trade = amended[0][1]
    assert chosen(trade, *TRADE_FIELDS) == (10, Decimal("36.6"), 200, 85, 3)
    assert not trade["tradeCondition"] & (out_of_sequence | same_price)
    assert chosen(amended[-1][1], "tradeVolume", "numberOfTrades") == (300, 2)
    ((_, trade), *_) = desk.control("amend-trade", symbol="PETR4", trade=10, buyer=86, time_ns=7)
    assert chosen(trade, *TRADE_FIELDS) == (10, Decimal("36.6"), 200, 86, 3)
    assert trade["transactTime"] == 7
    with pytest.raises(UsageError, match="amend-trade: nothing to change"):
        desk.control("amend-trade", symbol="PETR4", trade=10)
    with pytest.raises(UsageError, match="PETR4 has no trade 30 on record today"):
        desk.control("amend-trade", symbol="PETR4", trade=30, price=1)
    with pytest.raises(UsageError, match="PETR4 is not a forward"):
        desk.control("trade", symbol="PETR4", price=1, quantity=1, days=30)


def test_000_13_5_a_forward_is_entered_by_command(desk):
    found = desk.control(
        "trade", symbol="PETR4T", price="36.5", quantity=300, buyer=85, seller=127, days=30,
        rate="0.0125",
    )  # fmt: skip
    name, trade = found[0]
    assert (name, *chosen(trade, "securityID", "sellerDays", "mDEntryInterestRate")) == (
        "ForwardTrade", PETR4T, 30, Decimal("0.0125"),
    )  # fmt: skip


def test_003_15_5_1_5_deltas_are_set_by_command(desk):
    """A call of delta 0.5: 100 bought count 50, 200 more reach the limit of 150."""
    desk.control("delta", symbol="PETRF360", delta="0.5")
    desk.control("protect", id=3, firm=85, account=7, watch=["PETR4"], interval_ms=60_000,
                 delta=150 * 10_000)  # fmt: skip
    option = {"security_id": PETRF360}
    desk.order(SELLER, "SELL", 2, 100, account=8, **option)
    desk.order(SELLER, "SELL", 2, 200, account=8, **option)
    desk.order(BUYER, "BUY", 2, 100, **option)
    desk.order(BUYER, "BUY", 1, 100)
    desk.reports(BUYER)
    answers = desk.order(BUYER, "BUY", 2, 200, **option)
    cancel = [values for name, values in answers if name == "ExecutionReport_Cancel"]
    assert [chosen(each, "securityID", "execRestatementReason") for each in cancel] == [
        (PETR4, "MARKET_MAKER_PROTECTION")
    ]
    assert desk.code(BUYER, "BUY", 1) == 2600


def test_003_15_5_2_1_scopes_are_set_by_command(desk):
    """Only PETR4 itself counts, and only its options are canceled."""
    only = {"watch": "PETR4", "counts": "instrument", "cancels": "options"}
    desk.control("protect", id=3, firm=85, account=7, interval_ms=60_000, executions=1,
                 references=[only])  # fmt: skip
    option = {"security_id": PETRF360}
    for side, account in (("SELL", 8), ("BUY", 7)):
        desk.order(SELLER if side == "SELL" else BUYER, side, 2, account=account, **option)
    desk.order(BUYER, "BUY", 1, **option)
    desk.order(BUYER, "BUY", 29)
    assert desk.code(BUYER, "BUY", 30) is None  # the trade of the option did not count
    desk.reports(BUYER)
    desk.order(SELLER, "SELL", 30, account=8)
    cancel = [values for name, values in desk.reports(BUYER) if name == "ExecutionReport_Cancel"]
    assert [chosen(each, "securityID", "execRestatementReason") for each in cancel] == [
        (PETRF360, "MARKET_MAKER_PROTECTION")
    ]
    with pytest.raises(UsageError, match="protect references 1: counts must be one of INSTRUMENT"):
        desk.control("protect", id=3, firm=85, account=7, interval_ms=1, executions=1,
                     references=[{"watch": "PETR4", "counts": "some"}])  # fmt: skip
    with pytest.raises(UsageError, match="protect: watch and references are missing"):
        desk.control("protect", id=3, firm=85, account=7, interval_ms=1, executions=1)
    with pytest.raises(UsageError, match="has an instrument or asset twice"):
        desk.control("protect", id=3, firm=85, account=7, interval_ms=1, executions=1,
                     watch=["PETR4"], references=[{"watch": "PETR4"}])  # fmt: skip


def propose(desk, number):
    legs = [
        {"legSymbol": "PETR4", "legRatioQty": 1, "legSide": "BUY"},
        {"legSymbol": "PETR3", "legRatioQty": 1, "legSide": "SELL"},
    ]
    ((_, values),) = desk.floor.send(
        BUYER, "SecurityDefinitionRequest", securityReqID=number, noLegs=legs,
        senderLocation="BVMF", enteringTrader="ABC",
    )  # fmt: skip
    return values["securityResponseType"]


def test_003_15_1_1_the_blacklist_is_set_by_command(desk):
    for _ in range(2):  # it may be repeated
        desk.control("blacklist", symbol="PETR3")
    assert propose(desk, 1) == "REJECT_SECURITY_PROPOSAL"
    for _ in range(2):
        desk.control("blacklist", symbol="PETR3", remove=True)
    assert propose(desk, 2) == "ACCEPT_SECURITY_PROPOSAL_AS_IS"


def test_the_status_names_the_blacklist(exchange):
    assert exchange.control(command="status")["blacklist"] == []
    exchange.control(command="blacklist", symbol="VALE3")
    exchange.control(command="blacklist", symbol="PETR4")
    assert exchange.control(command="status")["blacklist"] == ["PETR4", "VALE3"]


# Operations of a schedule

OPERATIONS = {
    "schedule": {"default": [{"time": "00:00", "phase": "OPEN"}]},
    "operation": [
        {"time": "11:00", "command": "open-interest", "symbol": "DOLM26", "quantity": 9},
        {"time": "10:00", "command": "settlement", "symbol": "DOLM26", "price": Decimal("5012.5")},
        {"time": "10:00", "command": "halt", "symbol": "NONE3"},
        {"time": "09:00", "command": "blacklist", "symbol": "PETR4"},
        {"time": "11:00", "command": "closing", "symbol": "PETR4", "price": "30",
         "last_trade": date(2026, 5, 27)},
    ],
}  # fmt: skip


def shown_figures(host):
    dol, petr4 = (
        next(each for each in host.engine.instruments if each.symbol == symbol)
        for symbol in ("DOLM26", "PETR4")
    )
    figures = [
        *host.engine.book(dol.security_id).statistics,
        *host.engine.book(petr4.security_id).statistics,
    ]
    kinds = ("SettlementPrice", "OpenInterest")
    return [type(each).__name__ for each in figures if type(each).__name__ in kinds] + [
        each.price8 for each in figures if type(each).__name__ == "ClosingPrice" and not each.flag
    ]


def test_a_schedule_runs_operations_once(tmp_path):
    schedule = parse_schedule(OPERATIONS, "day.toml")
    check_operations(schedule, "day.toml")
    day = date(2026, 5, 28)
    midnight = schedule.requests(day)[0][0] - 9 * HOUR
    settings = quiet_settings(schedule=schedule, first_date=day)

    async def run(start, end):
        now = [midnight + start]
        server = ExchangeServer(settings, journal=tmp_path, clock=lambda: now[0])
        await server.start()
        try:
            first = shown_figures(server.host), server.status()["blacklist"]
            now[0] = midnight + end
            async with asyncio.timeout(PATIENCE_S):
                while server._plan and server._plan[0][0] <= now[0]:
                    await asyncio.sleep(0.01)
            return first, shown_figures(server.host), server.host.faults.count
        finally:
            server.stop()
            await server.close()

    # Of the times before the start, what was missed is done at once.
    early = asyncio.run(run(9 * HOUR + MINUTE, 10 * HOUR + MINUTE))
    assert early == (([], ["PETR4"]), ["SettlementPrice"], 1)  # NONE3 is not listed
    late = asyncio.run(run(10 * HOUR + 2 * MINUTE, 11 * HOUR))
    both = ["SettlementPrice", "OpenInterest", 30 * 10**8]
    assert late == ((["SettlementPrice"], ["PETR4"]), both, 0)


def test_a_schedule_can_run_every_command_of_its_day(tmp_path):
    rows = ['[[schedule.default]]\ntime = "10:00"\nphase = "OPEN"']
    for name, given in BASE.items():
        if name != "day":
            fields = "\n".join(f"{field} = {json.dumps(value)}" for field, value in given.items())
            rows.append(f'[[operation]]\ntime = "11:00"\ncommand = "{name}"\n{fields}')
    (tmp_path / "day.toml").write_text("\n".join(rows))
    settings = parse_settings({"schedule": "day.toml"}, "exchange.toml", tmp_path)
    found = [request for _, request in settings.schedule.requests(date(2026, 5, 28))]
    assert found == [{"command": name, **BASE[name]} for name in BASE if name != "day"]


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"command": "dance"}, "operation 1: unknown command 'dance'"),
        ({"command": "settlement", "symbol": "DOLM26"}, "1: settlement: price is missing"),
        ({"command": "day", "date": "2026-05-29"}, "operation 1: a schedule is of one day"),
    ],
)  # fmt: skip
def test_operations_of_a_schedule_are_checked_when_it_is_read(tmp_path, operation, words):
    fields = "\n".join(f'{name} = "{value}"' for name, value in operation.items())
    (tmp_path / "day.toml").write_text(
        f'[[schedule.default]]\ntime = "10:00"\nphase = "OPEN"\n'
        f'[[operation]]\ntime = "10:00"\n{fields}\n'
    )
    with pytest.raises(UsageError, match=words):
        parse_settings({"schedule": "day.toml"}, "exchange.toml", tmp_path)
