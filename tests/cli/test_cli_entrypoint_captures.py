"""``pregao decode`` and ``pregao info`` on captures of EntryPoint, alone and with market data."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pregao.capture import PcapWriter, read_packets, tcp_frame
from tests.cli.market import small_market
from tests.entrypoint.captured_talk import conversation, segments_of, write_capture
from tests.entrypoint.raw_peer import KEY, SESSION

TALK = conversation(3)
OTHER = conversation(2, version=6, session_id=SESSION + 1, ids=100)


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Two connections; the second without its first segments."""
    late = segments_of(OTHER, client=("10.1.0.8", 40_002), size=60, syn=False)[2:]
    path = tmp_path_factory.mktemp("sessions") / "orders.pcap"
    return write_capture(path, segments_of(TALK), late)


def test_messages_of_both_sides_in_their_order(pregao, capture):
    """The exit code shows that bytes were skipped."""
    done = pregao("decode", capture)
    assert done.code == 1
    assert "1 rejected" in done.err
    assert "bytes that are not a message; decoding resumed at the next message" in done.err
    lines = done.out.splitlines()
    assert [line.split()[4] for line in lines[:2]] == ["Negotiate", "NegotiateResponse"]
    assert " client 10.1.0.7:40001>10.2.0.9:9000 2 SimpleNewOrder " in done.out
    assert " exchange 10.2.0.9:9000>10.1.0.8:40002 1 ExecutionReport_New " in done.out
    times = [line.split()[0] for line in lines]
    assert times == sorted(times)
    assert KEY not in done.out


def test_durations_are_no_dates_of_1970(pregao, capture):
    text = pregao("decode", capture, "--template", "Establish").out
    assert "keepAliveInterval=1000ms" in text
    assert "1970" not in text
    rows = pregao("decode", capture, "--template", "Establish", "--format", "jsonl").out
    assert json.loads(rows.splitlines()[0])["fields"]["keepAliveInterval"] == 1000


def test_chosen_messages_in_every_form(pregao, capture, tmp_path):
    done = pregao("decode", capture, "--template", "SimpleNewOrder", "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["fields"]["clOrdID"] for row in rows] == [1, 100, 2, 101, 3]
    assert {row["sender"] for row in rows} == {"client"}
    assert all(row["sequence_number"] == row["fields"]["businessHeader"]["msgSeqNum"]
               for row in rows)  # fmt: skip
    done = pregao("decode", capture, "--template", "SimpleNewOrder", "--format", "csv")
    head, first, *_ = done.out.splitlines()
    assert head.startswith("sender,flow,sequence_number,businessHeader,")
    assert first.startswith("client,10.1.0.7:40001>10.2.0.9:9000,1,")
    pregao("decode", capture, "-o", f"{tmp_path}/tables/")
    orders = pq.read_table(tmp_path / "tables" / "SimpleNewOrder.parquet")
    assert sorted(orders.column("cl_ord_id").to_pylist()) == [1, 2, 3, 100, 101]
    assert orders.column_names[:3] == ["sender", "flow", "sequence_number"]
    assert pregao("decode", capture, "--security-id", "6", "-n", "5").out == ""
    assert len(pregao("decode", capture, "-n", "5").out.splitlines()) == 5
    assert pregao("decode", capture, "--until", "2020-01-01").out == ""


def test_the_account_of_sessions(pregao, capture):
    found = json.loads(pregao("info", capture, "--json").out)["entrypoint"]
    by_flow = {each["flow"]: each for each in found["connections"]}
    assert len(by_flow) == 4
    first = by_flow["10.1.0.7:40001>10.2.0.9:9000"]
    assert first["sender"] == "client"
    assert first["sessions"] == [{"session": SESSION, "first": 1, "last": 3, "messages": 3}]
    assert first["messages"] == sum(side for side, _ in TALK.frames)
    assert found["skipped_bytes"] == sum(each["skipped_bytes"] for each in by_flow.values()) > 0
    templates = {each["message"]: each for each in found["templates"]}
    assert templates["SimpleNewOrder"] == {
        "message": "SimpleNewOrder", "versions": [2, 6], "messages": 5,
    }  # fmt: skip
    shown = pregao("info", capture).out
    assert "10.2.0.9:9000>10.1.0.8:40002" in shown
    assert "ExecutionReport_New" in shown


def test_from_a_pipe(pregao, capture):
    done = pregao("decode", "-", stdin=Path(capture).read_bytes())
    assert done.out == pregao("decode", capture).out


def test_market_data_next_to_sessions(pregao, capture, tmp_path):
    """Both are decoded from one capture, each with its own key."""
    market = small_market().write(tmp_path / "market.pcap")
    with PcapWriter(tmp_path / "both.pcap") as writer:
        for path in (market, capture):
            with read_packets(path) as reader:
                for each in reader:
                    writer.write(each.time_ns, each.data)
    alone = pregao("decode", market).out.splitlines()
    sessions = pregao("decode", capture).out.splitlines()
    lines = pregao("decode", tmp_path / "both.pcap").out.splitlines()
    assert sorted(lines) == sorted(alone + sessions)


def test_a_pasted_message(pregao):
    """Its bytes alone, or the frame that a network tool shows; credentials are blanked."""
    negotiate, order = TALK.frames[0][1], next(d for s, d in TALK.frames if s and d[6] == 100)
    done = pregao("decode", "--hex", (negotiate + order).hex())
    assert done.code == 0
    assert [line.split()[4] for line in done.out.splitlines()] == ["Negotiate", "SimpleNewOrder"]
    assert KEY not in done.out
    framed = tcp_frame("10.0.0.1", 1, "10.0.0.2", 2, order)
    assert " SimpleNewOrder " in pregao("decode", "--hex", framed.hex()).out
    cut = pregao("decode", "--hex", (order + order[:20]).hex())
    assert cut.code == 1
    assert len(cut.out.splitlines()) == 1
