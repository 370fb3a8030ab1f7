"""Market operations of a running exchange, its feed, captures and metrics."""

import time
import urllib.request

import pytest

from pregao.errors import NetworkError, UsageError
from pregao.exchange.host.admin.control_server import send_request
from pregao.exchange.host.captures import captures_in
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import parse_settings, read_settings
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import Exchange, quiet_settings

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
        time.sleep(0.5)
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
        time.sleep(0.5)
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
        ({"sesion": []}, "sesion is unknown; allowed are"),
        ({"phases": "sometimes"}, "phases must be 'open' or 'schedule', was 'sometimes'"),
        ({"gateway": {"primary": "here"}}, "gateway.primary takes ADDRESS:PORT"),
        ({"gateway": 5}, "gateway must be a table"),
        ({"gateway": {"max_message_bytes": 16_385}}, "max_message_bytes must be an integer from"),
        (
            {"gateway": {"slow_reader_bytes": 1}},
            "slow_reader_bytes is unknown; .* max_unread_b",
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
