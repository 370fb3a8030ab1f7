"""``pregao decode`` and ``info`` of the legacy feed, detected by content."""

import json
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from pregao.capture import PcapWriter, udp_frame
from tests.cli.market import small_market
from tests.legacy.writing import (
    SENT,
    datagram,
    entry,
    heartbeat,
    incremental,
    news,
    reset,
    snapshot,
)

START = 1_376_308_800_000_000_000


def sent():
    """Datagrams of the incremental and of the recovery stream."""
    for number in range(1, 6):
        bid = entry("0", 0, 1111, number, position=1, size=100, price=Decimal("10.50"))
        yield "233.1.1.1", incremental(number, bid)
    yield "233.1.1.1", news(6) + heartbeat(7)
    yield "233.1.1.1", news(9)  # number 8 is missing
    rows = [("0", size, "10.00") for size in range(1, 200)]
    for each in snapshot(1, 5, 5, *rows):
        yield "233.1.1.2", each
    yield "233.1.1.2", reset()
    yield "233.1.1.2", datagram("SecurityStatus_142", 1, SecurityID=5, TradeDate=1, TransactTime=1)


def capture(path, more=()):
    with PcapWriter(path) as writer:
        for number, (address, payload) in enumerate([*sent(), *more]):
            frame = udp_frame("10.0.0.1", 9, address, 5000, payload)
            writer.write(START + number * 1000, frame)
    return path


@pytest.fixture
def day(tmp_path):
    return capture(tmp_path / "archive.pcap")


def lines(result, *, whole=False):
    assert result.code == 0, result.err
    if whole:
        return json.loads(result.out)
    return [json.loads(line) for line in result.out.splitlines()]


def test_messages_of_a_legacy_capture_as_json_lines(pregao, day, tmp_path):
    result = pregao("decode", day, "-o", tmp_path / "out.jsonl")
    assert result.code == 0
    assert "legacy feed (UMDF FIX/FAST)" in result.err
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [each["sequence_number"] for each in found] == [1, 2, 3, 4, 5, 6, 7, 9, 1, 1, 1]
    assert found[0]["message"] == "IncrementalRefresh_152"
    assert found[0]["flow"] == "233.1.1.1:5000"
    assert found[0]["MDEntries"][0]["MDEntryPx"] == "10.50"
    assert len(found[8]["MDEntries"]) == 199


def test_messages_of_a_legacy_capture_as_text(pregao, day):
    result = pregao("decode", day, "-n", 1)
    assert result.code == 0
    assert "IncrementalRefresh_152 MDEntries=[{" in result.out
    assert "MDEntryPx=10.50" in result.out


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["-t", "IncrementalRefresh"], [1, 2, 3, 4, 5]),
        (["-t", "News_143,129"], [6, 9]),
        (["--security-id", "5"], [1]),
        (["--until", str(START + 2000)], [1, 2]),
        (["--limit", "3"], [1, 2, 3]),
    ],
)
def test_what_is_chosen(pregao, day, arguments, numbers):
    found = lines(pregao("decode", day, "--format", "jsonl", *arguments))
    assert [each["sequence_number"] for each in found] == numbers


def defined(path):
    """A capture that defines DEMO3 first, then has its messages."""
    row = {
        "Symbol": "DEMO3", "SecurityID": 1111, "SecurityExchange": "BVMF", "ApplIDs": [],
        "SecurityUpdateAction": "A", "Product": 5, "SecurityType": "CS",
        "SecuritySubType": "1", "SecurityDesc": "", "CFICode": "", "CountryOfIssue": "",
        "IssueDate": 20130812, "SecurityValidityTimestamp": 1, "SecurityGroup": "01",
    }  # fmt: skip
    head = {"SendingTime": str(SENT), "TotNoRelatedSym": 1, "LastFragment": "Y"}
    own = datagram("SecurityList_149", 1, **head, RelatedSym=[row])
    with PcapWriter(path) as writer:
        frames = [("233.1.1.3", own), *sent()]
        for number, (address, payload) in enumerate(frames):
            writer.write(START + number * 1000, udp_frame("10.0.0.1", 9, address, 5000, payload))
    return path


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_an_unknown_symbol_of_the_legacy_feed_is_an_error(pregao, tmp_path, form):
    day = defined(tmp_path / "archive.pcap")
    result = pregao("decode", day, "--format", form, "--symbol", "DEMO4")
    assert (result.code, result.out) == (2, "")
    assert "No definition of DEMO4 is in the input" in result.err
    assert "Did you mean DEMO3?" in " ".join(result.err.split())
    result = pregao("decode", day, "--symbol", "DEMO3,DEMO4", "-o", tmp_path / "out.jsonl")
    assert result.code == 2
    assert not (tmp_path / "out.jsonl").exists()


def test_a_symbol_is_known_from_definitions_before_the_time(pregao, tmp_path):
    day = defined(tmp_path / "archive.pcap")
    found = lines(pregao("decode", day, "--format", "jsonl", "--symbol", "demo3"))
    assert [each["message"] for each in found[:2]] == ["SecurityList_149", "IncrementalRefresh_152"]
    chosen = ("--since", str(START + 2500))
    later = lines(pregao("decode", day, "--format", "jsonl", "--symbol", "DEMO3", *chosen))
    assert later == [each for each in found if each["capture_time_ns"] >= START + 2500] != []


def test_a_raw_dump_without_a_capture_around_it(pregao, tmp_path):
    dump = tmp_path / "channel.dump"
    dump.write_bytes(b"".join(payload for _, payload in sent()))
    found = lines(pregao("decode", dump, "--format", "jsonl"))
    assert len(found) == 11
    content = json.loads(pregao("info", dump, "--json").out)
    assert content["messages"] == 11


def test_a_raw_dump_is_ingested_into_a_lake(pregao, tmp_path, monkeypatch):
    dump, lake = tmp_path / "channel.dump", tmp_path / "lake"
    dump.write_bytes(b"".join(data for address, data in sent() if address == "233.1.1.1"))
    command = ("ingest", dump, "--lake", lake, "--engine", "local", "--only", "messages")
    result = pregao(*command)
    assert result.code == 2
    assert "PREGAO_LEGACY_CHANNELS='channel.dump=51'" in " ".join(result.err.split())
    monkeypatch.setenv("PREGAO_LEGACY_CHANNELS", "channel.dump=51")
    result = pregao(*command)
    assert result.code == 0, result.err
    assert "without capture times and addresses" in " ".join(result.err.split())
    (packets,) = lake.glob("legacy_packets/*/*.parquet")
    found = pq.read_table(packets).to_pylist()
    assert len(found) == 8
    assert {row["destination"] for row in found} == {"0.0.0.1:51"}
    assert {row["channel"] for row in found} == {51}
    assert all(row["capture_time_ns"] == row["sending_time_ns"] == START for row in found)
    (news_rows,) = lake.glob("legacy_news/*/*.parquet")
    assert pq.read_table(news_rows).column("msg_seq_num").to_pylist() == [6, 9]
    # It is the same content when it comes again, whatever it is called.
    dump.rename(tmp_path / "again.dump")
    monkeypatch.setenv("PREGAO_LEGACY_CHANNELS", "again.dump=51")
    assert pregao("ingest", tmp_path / "again.dump", *command[2:]).code == 0
    assert len(list(lake.glob("legacy_packets/*/*.parquet"))) == 1
    dump.write_bytes(heartbeat(1) + news(2) + b"noise")
    monkeypatch.setenv("PREGAO_LEGACY_CHANNELS", "channel.dump=51")
    result = pregao(*command)
    assert result.code != 0
    assert f"byte {len(heartbeat(1) + news(2))}: not a complete chunk" in " ".join(
        result.err.split()
    )


def test_the_account_of_a_legacy_capture(pregao, day):
    content = json.loads(pregao("info", day, "--json").out)
    assert content["protocol"] == "UMDF FIX/FAST"
    first, second = content["flows"]
    assert (first["stream"], first["messages"], first["missing"]) == ("incremental", 8, 1)
    assert (second["stream"], second["resets"], second["entries"]) == ("recovery", 1, 199)
    assert {each["template"] for each in content["templates"]} == {122, 142, 143, 144, 152, 153}
    shown = pregao("info", day)
    assert shown.code == 0
    assert "Legacy feed" in shown.out


def test_errors_are_reported_and_cost_nothing_else(pregao, tmp_path):
    broken = bytearray(news(10))
    broken[-1] &= 0x7F
    wrong = [("233.1.1.1", bytes(broken)), ("233.1.1.1", b"\x00\x01")]
    result = pregao("decode", capture(tmp_path / "a.pcap", wrong), "--format", "jsonl")
    assert result.code == 1
    assert len(result.out.splitlines()) == 11
    assert "rejected: " in result.err
    assert "2 rejected" in result.err


def test_a_template_file_can_be_named(pregao, day, tmp_path):
    own = tmp_path / "own.xml"
    own.write_text(
        '<templates><template name="Alive" id="144" dictionary="144">'
        '<string name="MessageType" id="35"><constant value="0"/></string>'
        '<uInt32 name="N" id="34"/><uInt64 name="T" id="52"/></template>'
        "</templates>"
    )
    with PcapWriter(tmp_path / "quiet.pcap") as writer:
        writer.write(START, udp_frame("10.0.0.1", 9, "233.1.1.1", 5000, heartbeat(3)))
    found = lines(pregao("decode", tmp_path / "quiet.pcap", "--schema", own, "--format", "jsonl"))
    assert [(each["message"], each["sequence_number"]) for each in found] == [("Alive", 3)]
    assert found[0]["sending_time_ns"] is not None
    assert SENT > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "tables.parquet"], "a folder of tables (-o folder/)"),
        (["-o", "tables/", "--limit", "3"], "require text or JSON lines"),
        (["-o", "tables/", "--format", "jsonl"], "must be parquet, csv, arrow"),
        (["-t", "Order_MBO_50"], "has no template Order_MBO_50"),
    ],
)
def test_what_cannot_be_done_is_reported(pregao, day, arguments, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = pregao("decode", day, *arguments)
    assert result.code == 2
    assert sentence in result.err


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_a_folder_gets_a_table_for_each_message(pregao, day, tmp_path, kind):
    result = pregao("decode", day, "-o", tmp_path / "tables", "--format", kind)
    assert result.code == 0, result.err
    made = {path.stem for path in (tmp_path / "tables").iterdir()}
    assert made == {
        "incremental_refresh", "snapshot_full_refresh", "news", "heartbeat", "sequence_reset",
        "security_status",
    }  # fmt: skip
    if kind == "csv":
        safe = pregao("decode", day, "-o", tmp_path / "safe", "--format", kind, "--safe-csv")
        assert safe.code == 0, safe.err
        for name in made:  # nothing in them begins like a formula but numbers, which stay
            written = (tmp_path / f"{folder}/{name}.csv" for folder in ("tables", "safe"))
            assert next(written).read_text() == next(written).read_text()
    if kind == "parquet":
        entries = pq.read_table(tmp_path / "tables/incremental_refresh.parquet").to_pylist()
        assert [row["sequence_number"] for row in entries] == [1, 2, 3, 4, 5]
        assert {row["md_entry_px"] for row in entries} == {Decimal("10.5")}
        assert entries[0]["flow"] == "233.1.1.1:5000"
        book = pq.read_table(tmp_path / "tables/snapshot_full_refresh.parquet")
        assert book.num_rows == 199


def test_rejects_and_choices_of_a_folder(pregao, tmp_path):
    broken = bytearray(news(10))
    broken[-1] &= 0x7F
    own = capture(tmp_path / "a.pcap", [("233.1.1.1", bytes(broken)), ("233.1.1.1", b"\x00")])
    result = pregao("decode", own, "-o", tmp_path / "out", "-t", "152", "--security-id", "1111")
    assert result.code == 1
    assert "2 rejected" in result.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["incremental_refresh.parquet"]


def test_captures_of_both_feeds_are_decoded_separately(pregao, day, tmp_path):
    other = small_market().write(tmp_path / "binary.pcap")
    for command in ("decode", "info"):
        result = pregao(command, day, other)
        assert result.code == 2
        assert "archive.pcap" in result.err
        assert "cannot be mixed with others" in result.err
    assert pregao("info", other, "--json").code == 0


def test_books_of_price_levels_are_shown_as_levels(pregao, tmp_path):
    day, lake = tmp_path / "day", tmp_path / "lake"
    made = pregao(
        "simulate", "--legacy", "prices", "--instruments", 2, "--duration", "8s", "--rate", 80,
        "-o", day, "-q",
    )  # fmt: skip
    assert made.code == 0, made.err
    captures = sorted(day.glob("*Legacy*.pcap"))
    taken = pregao("ingest", *captures, "--lake", lake, "--engine", "local")
    assert taken.code == 0, taken.err
    (listed,) = lines(pregao("lake", "symbol", "petr4", "--lake", lake, "--json"), whole=True)
    assert (listed["symbol"], listed["days"], listed["channel"]) == ("PETR4", 1, 51)
    assert listed["security_group"] == "01"
    shown = pregao("book", "PETR4", "--lake", lake)
    assert shown.code == 0, shown.err
    assert f"PETR4 ({listed['security_id']})" in shown.out
    assert "the feed publishes the best 5 prices of each side, and no orders" in shown.out
    content = json.loads(pregao("book", "PETR4", "--lake", lake, "--json").out)
    assert content["market_depth"] == 5
    assert 1 <= len(content["bids"]) <= 5
    assert set(content["bids"][0]) == {"price", "size", "orders"}
    refused = pregao("book", "PETR4", "--lake", lake, "--orders")
    assert refused.code == 2
    assert "Omit --orders" in refused.err
    analysed = pregao(
        "analytics", "--engine", "local", "--lake", lake, "--table", "orders", "--force"
    )
    assert "the feed publishes price levels, not orders" in analysed.out
