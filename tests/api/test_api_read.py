"""`pregao.read`: what captures hold, message by message and as tables, of every protocol."""

import copy
import gzip
import json
import pickle
import sys
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pytest

import pregao
from pregao.api.message import Protocol
from pregao.book.state import State
from pregao.capture import PcapWriter, udp_frame
from pregao.clock import SECOND
from pregao.errors import CaptureError, NothingFoundError, UsageError
from pregao.events import GapFound, InstrumentChanged, TradeDone
from pregao.exchange.simulation.settings import LegacyDepth, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE
from pregao.sbe.model import snake_case
from tests.cli.market import START, Market, order, small_market, trade, wild_market
from tests.entrypoint.captured_talk import conversation, segments_of, write_capture
from tests.feed.channel_messages import order as new_order
from tests.feed.channel_messages import packet
from tests.legacy.writing import entry, incremental, news


@pytest.fixture
def market():
    return small_market()


@pytest.fixture
def capture(market, tmp_path):
    return market.write(tmp_path / "day.pcap")


def key(message):
    return (
        message.channel, message.stream, message.sequence_version, message.sequence_number,
        message.index_in_packet, message.capture_time_ns, message.sending_time_ns,
    )  # fmt: skip


def test_messages_are_what_the_codec_reads_in_the_order_of_the_capture(capture, market):
    found = list(pregao.read(capture).messages())
    expected = market.rows()
    assert [key(message) for message in found] == [row.key for row in expected]
    assert [message.values for message in found] == [row.values for row in expected]
    assert [message.template for message in found] == [row.message.name for row in expected]


@pytest.mark.parametrize("seed", range(3))
def test_messages_of_every_template_and_version(tmp_path, seed):
    market = wild_market(seed)
    capture = pregao.read(market.write(tmp_path / "wild.pcap"))
    found = {key(message)[4:6]: message for message in capture.messages()}
    streams = dict.fromkeys((where for where, _ in market.packets), None)
    rows = market.rows(streams=streams, whole=True)
    assert rows
    for row in rows:
        assert found[row.key[4:6]].values == row.values
    assert capture.rejects.total() > 0


def test_a_field_has_the_name_of_the_specification_and_that_of_its_column(capture):
    (found,) = pregao.read(capture, template="Trade_53").messages()
    assert found["mDEntryPx"] == found.md_entry_px == Decimal("21.0000")
    assert found.as_dict()["trade_id"] == 10
    assert "md_entry_px" in dir(found)
    with pytest.raises(AttributeError, match="Trade_53 has no 'colour'"):
        _ = found.colour


def test_a_message_can_be_copied_and_sent(capture):
    for message in pregao.read(capture).messages():
        for copied in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
            assert copied == message
            assert copied.as_dict() == message.as_dict()


def test_a_table_has_a_row_for_each_message(capture):
    table = pregao.read(capture).table("Order_MBO_50")
    messages = list(pregao.read(capture, template="order_mbo_50").messages())
    assert table.num_rows == len(messages) == 3
    for name in ("sequence_number", "capture_time_ns", "stream"):
        assert table[name].to_pylist() == [getattr(message, name) for message in messages]
    for name in ("mDEntryPx", "mDEntryType", "rptSeq"):
        expected = [message[name] for message in messages]
        assert table[snake_case(name)].to_pylist() == expected
    assert set(table["schema_version"].to_pylist()) == {16}


def test_a_table_without_rows_has_its_columns(capture):
    table = pregao.read(capture).table("TradeBust_57")
    assert table.num_rows == 0
    assert "trade_id" in table.schema.names


def test_frames_have_the_rows_of_the_table(capture):
    capture = pregao.read(capture)
    table = capture.table("Order_MBO_50")
    assert capture.to_polars("Order_MBO_50").to_dicts() == table.to_pylist()
    frame = capture.to_pandas("Order_MBO_50")
    assert frame["secondary_order_id"].tolist() == table["secondary_order_id"].to_pylist()
    assert pa.Table.from_batches(capture.batches("Order_MBO_50")) == table


@pytest.mark.parametrize(("name", "call"), [("polars", "to_polars"), ("pandas", "to_pandas")])
def test_a_missing_package_is_named(capture, monkeypatch, name, call):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=rf"{name}.*pip install .pregao\[frames\]"):
        getattr(pregao.read(capture), call)("Trade_53")


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ({"template": ["Trade_53", 50]}, lambda row: row.message.id in (53, 50)),
        ({"symbol": "demo4"}, lambda row: row.values.get("securityID") == 1002),
        ({"security_id": "1001"}, lambda row: row.values.get("securityID") == 1001),
        ({"security_id": 1001}, lambda row: row.values.get("securityID") == 1001),
        ({"channel": 72}, lambda row: True),
        ({"channel": [1]}, lambda row: False),
        ({"since": START + 5000}, lambda row: row.key[5] >= START + 5000),
        ({"until": START + 5000}, lambda row: row.key[5] < START + 5000),
        (
            {"symbol": ["DEMO3", "DEMO4"], "template": "Order"},
            lambda row: row.message.id == 50,
        ),
    ],
)
def test_filters_choose_messages(capture, market, wanted, chosen):
    wanted = {**wanted}
    if wanted.get("template") == "Order":
        wanted["template"] = "Order_MBO_50"
    if isinstance(wanted.get("template"), list):
        wanted["template"] = list(map(str, wanted["template"]))
    expected = [row.key for row in market.rows() if chosen(row)]
    assert [key(message) for message in pregao.read(capture, **wanted).messages()] == expected
    assert [key(each) for each in pregao.read(capture).only(**wanted).messages()] == expected


def test_filters_hold_for_tables(capture):
    table = pregao.read(capture, symbol="DEMO3").table("Order_MBO_50")
    assert set(table["security_id"].to_pylist()) == {1001}


def test_several_files_patterns_and_compression(tmp_path):
    names = []
    for number in (1, 2):
        market = Market().send(order(rptSeq=number), trade())
        names.append(market.write(tmp_path / f"part{number}.pcap"))
    packed = tmp_path / "part3.pcap.gz"
    packed.write_bytes(gzip.compress(names[0].read_bytes()))
    both = [message.rpt_seq for message in pregao.read(*names, template="Order_MBO_50").messages()]
    assert both == [1, 2]
    for named in (tmp_path / "part*", tmp_path, [*names, packed]):
        orders = pregao.read(named, template="Order_MBO_50").messages()
        assert [message.rpt_seq for message in orders] == [1, 2, 1]


def test_info_equals_the_output_of_the_command(capture):
    found = pregao.read(capture).info()
    assert found["channels"] == [72]
    assert json.loads(json.dumps(found)) == found


def test_orders_of_entrypoint(tmp_path):
    path = write_capture(tmp_path / "orders.pcap", segments_of(conversation(3)))
    capture = pregao.read(path)
    orders = list(capture.only(template="SimpleNewOrder").messages())
    assert [message.cl_ord_id for message in orders] == [1, 2, 3]
    assert {(message.protocol, message.sender) for message in orders} == {
        (Protocol.ENTRYPOINT, "client")
    }
    assert [message.sequence_number for message in orders] == [1, 2, 3]
    table = capture.table("SimpleNewOrder")
    assert table["cl_ord_id"].to_pylist() == [1, 2, 3]
    assert table["flow"].to_pylist() == [message.flow for message in orders]
    assert len(capture.info()["entrypoint"]["connections"]) == 2


def legacy(path):
    market = Market()
    for number in range(1, 4):
        bid = entry("0", 0, 1111, number, position=1, size=100, price=Decimal("10.50"))
        market.raw(incremental(number, bid))
    return market.raw(news(4)).write(path)


def test_messages_of_the_legacy_feed(tmp_path):
    capture = pregao.read(legacy(tmp_path / "archive.pcap"))
    found = list(capture.messages())
    assert [message.sequence_number for message in found] == [1, 2, 3, 4]
    assert {message.protocol for message in found} == {Protocol.LEGACY}
    assert found[0]["MDEntries"][0]["MDEntryPx"] == Decimal("10.50")
    assert capture.info()["messages"] == 4
    name = found[0].template
    chosen = capture.only(template=name, since=found[1].capture_time_ns).messages()
    assert [message.sequence_number for message in chosen] == [2, 3]
    with pytest.raises(UsageError, match="pregao decode FILE -o FOLDER"):
        capture.table(name)
    with pytest.raises(UsageError, match="entries of many instruments"):
        capture.only(symbol="PETR4").messages()


def test_intact_records_before_damage_are_read(capture, market):
    data = bytearray(capture.read_bytes())
    capture.write_bytes(data + b"\xff" * 64)
    found = pregao.read(capture).messages()
    expected = [row.key for row in market.rows()]
    assert [key(message) for message in islice(found, len(expected))] == expected
    with pytest.raises(CaptureError, match=r"day\.pcap"):
        next(found)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda _: pregao.read(), UsageError, "No capture is named"),
        (lambda _: pregao.read("no.pcap").info(), CaptureError, "no such file"),
        (lambda path: pregao.read(path.parent / "*.x"), NothingFoundError, "no captures found"),
        (lambda path: pregao.read(path, template="Trad"), UsageError, "Did you mean Trade_53"),
        (
            lambda path: list(pregao.read(path, symbol="DEMO9").messages()),
            UsageError,
            "No definition of DEMO9",
        ),
        (lambda path: pregao.read(path, since="noon"), UsageError, "'noon' is not a valid time"),
        (lambda path: pregao.read([]), UsageError, "No capture is named"),
        (lambda path: pregao.read(path, security_id="PETR4"), UsageError, "an integer"),
        (lambda path: pregao.read(path).table("Nothing_1"), UsageError, "no template 'Nothing_1'"),
    ],
)
def test_an_error_message_states_what_to_do(capture, ask, error, words):
    with pytest.raises(error, match=words):
        ask(capture)


def test_captures_of_the_legacy_feed_are_followed_as_those_of_the_binary_one(tmp_path):
    Simulation(
        SimulationSettings(
            "derivatives", tmp_path, duration_ns=6 * SECOND, rate=100.0, instruments=4,
            truth_books=1, legacy=LegacyDepth.ORDERS,
        )
    ).run()  # fmt: skip
    kinds = (TradeDone, InstrumentChanged)
    results = {}
    for feed, names in (
        ("legacy", sorted(tmp_path.glob("*Legacy*.pcap"))),
        ("binary", [path for path in tmp_path.glob("*.pcap") if "Legacy" not in path.name]),
    ):
        found = list(pregao.follow(*names, kinds=kinds, from_the_start=True))
        results[feed] = (
            [
                (each.channel, each.symbol, event.trade_id, event.price, event.size)
                for each in found
                if isinstance(event := each.event, TradeDone)
            ],
            {each.symbol for each in found if isinstance(each.event, InstrumentChanged)},
        )
    assert results["legacy"] == results["binary"]
    assert results["legacy"][0]


def test_more_lines_of_a_legacy_channel_than_letters_are_followed(tmp_path, monkeypatch):
    # The lines of channel 51 carry the same trades, the last of them 80 messages later: its feed
    # must not be taken for one of the others, whose numbers would seem to have restarted.
    ports, late = range(5001, 5029), 80
    named = [f"233.1.1.1:{port}=51" for port in ports] + ["233.1.1.1:6001=52"] * 2
    monkeypatch.setenv(VARIABLE, ",".join(named))
    sent = []
    for number in range(1, 101):
        own = entry("2", 0, 1111, number, size=number, price="10", TradeID=str(number))
        payload = incremental(number, own)
        sent += [(number, port, payload) for port in ports[:-1]]
        sent.append((number + late, ports[-1], payload))
    other = entry("2", 0, 1111, 1, size=7, price="11", TradeID="1")
    sent.append((50, 6001, incremental(1, other)))
    with PcapWriter(tmp_path / "a.pcap") as writer:
        for at, port, payload in sorted(sent):
            frame = udp_frame("10.0.0.1", 9, "233.1.1.1", port, payload)
            writer.write(START + at * 1_000_000, frame)
    found = list(pregao.follow(tmp_path / "a.pcap", from_the_start=True))
    trades = [
        (each.channel, each.event.trade_id, each.event.size)
        for each in found
        if isinstance(each.event, TradeDone)
    ]
    assert [trade[1:] for trade in trades if trade[0] == 51] == [
        (number, number) for number in range(1, 101)
    ]
    assert [trade for trade in trades if trade[0] == 52] == [(52, 1, 7)]
    assert not [each for each in found if isinstance(each.event, GapFound)]


def test_more_lines_of_a_channel_than_letters_are_followed(tmp_path):
    # 27 lines of the channel lose packet 10; the last one sends it, later than all others.
    ports, late, lost = range(5001, 5029), 20, 10
    sent = []
    for number in range(1, 61):
        payload = packet(number, new_order(number, number))
        sent += [(number, port, payload) for port in ports[:-1] if number != lost]
        sent.append((number + late, ports[-1], payload))
    with PcapWriter(tmp_path / "a.pcap") as writer:
        for at, port, payload in sorted(sent):
            frame = udp_frame("10.0.0.1", 9, "233.1.1.1", port, payload)
            writer.write(START + at * 100_000, frame)
    found = list(pregao.follow(tmp_path / "a.pcap", from_the_start=True))
    assert not [each for each in found if isinstance(each.event, GapFound)]
    last = found[-1].book
    assert (last.state, last.packet_key.sequence_number) == (State.VALID, 60)
    assert last.bids == ((Decimal(10), 6000, 60),)


def test_a_legacy_destination_with_two_channels_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        writer.write(START, udp_frame("10.0.0.1", 9, "233.1.1.1", 5001, news(1)))
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51, 233.1.1.1:5001=52")
    with pytest.raises(UsageError, match=r"two channels of 233\.1\.1\.1:5001, 51 and 52"):
        next(pregao.follow(path))
