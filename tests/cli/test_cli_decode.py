"""``pregao decode``: outputs that agree with the message codec, options, and bad input."""

import csv
import gzip
import io
import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pregao.capture import PcapWriter, UdpFramer, udp_frame
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.keys import KEY_NAMES
from tests.cli.market import (
    DEFINITION,
    INCREMENTAL,
    START,
    Market,
    as_json,
    as_table,
    definition,
    heartbeat,
    lean,
    order,
    small_market,
    trade,
    wild_market,
)
from tests.schemas.plain_facts import published_file

KEYS = list(KEY_NAMES)


@pytest.fixture
def day(tmp_path):
    return small_market().write(tmp_path / "day.pcap")


def jsonl(text):
    # Texts may hold other characters that ``splitlines`` takes for ends of lines.
    return [json.loads(line) for line in text.split("\n") if line]


def expected_json(rows):
    return [
        {
            "message": row.message.name,
            "template": row.message.id,
            "version": row.version,
            **dict(zip(KEYS, row.key, strict=True)),
            "fields": as_json(row.message, row.values),
        }
        for row in rows
    ]


def expected_tables(rows):
    tables: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        values = lean(dict(zip(KEYS, row.key, strict=True)))
        tables.setdefault(row.message.name, []).append(values | as_table(row.message, row.values))
    return tables


def in_key_order(rows):
    """Versions of a template follow each other within a block of packets."""
    return sorted(rows, key=lambda row: (row["capture_time_ns"], row["index_in_packet"]))


def users_schema(field):
    """A schema of version 3 with one message, template 2."""
    return (
        '<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="mine" id="2" '
        'version="3" byteOrder="littleEndian"><types><composite name="messageHeader">'
        '<type name="blockLength" primitiveType="uint16"/>'
        '<type name="templateId" primitiveType="uint16"/>'
        '<type name="schemaId" primitiveType="uint16"/>'
        '<type name="version" primitiveType="uint16"/></composite></types>'
        f'<sbe:message name="Beat" id="2">{field}</sbe:message></sbe:messageSchema>'
    )


# Text.


def test_text_is_one_line_per_message_in_packet_order(pregao, day):
    result = pregao("decode", day)
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[4] for line in lines] == [
        "SecurityDefinition_12",
        "SecurityDefinition_12",
        "SequenceReset_1",
        "Order_MBO_50",
        "Sequence_2",
        "Order_MBO_50",
        "Trade_53",
        "Sequence_2",
        "Order_MBO_50",
    ]
    assert lines[3] == (
        "2026-05-21T13:00:00.000003000Z 72 incremental 1:1.0 Order_MBO_50 securityID=1001 "
        "matchEventIndicator=EndOfEvent mDUpdateAction=NEW mDEntryType=BID mDEntryPx=20.5000 "
        "mDEntrySize=100 secondaryOrderID=7 rptSeq=1"
    )
    assert lines[4].split()[1:4] == ["72", "incremental", "1:-.0"]
    assert lines[7].split()[2] == "definition"
    assert "mDEntryPx" not in lines[8]  # null
    assert "8 packets, 9 messages, 0 rejected" in result.err


# Files.


@pytest.mark.parametrize("seed", range(3))
def test_all_formats_hold_what_the_codec_reads(pregao, tmp_path, seed):
    market = wild_market(seed)
    capture = market.write(tmp_path / "wild.pcap")
    rows = market.rows()
    lines = pregao("decode", capture, "-o", tmp_path / "all.jsonl")
    assert lines.code == (1 if "rejected: " in lines.err else 0)
    assert jsonl((tmp_path / "all.jsonl").read_text()) == expected_json(rows)
    tables = expected_tables(rows)
    for kind in ("parquet", "arrow", "jsonl", "csv"):
        folder = tmp_path / kind
        assert pregao("decode", capture, "-o", f"{folder}/", "--format", kind).code == lines.code
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            f"{name}.{kind}" for name in tables
        )
    for name, expected in tables.items():
        parquet = pq.read_table(tmp_path / "parquet" / f"{name}.parquet")
        arrow = pa.ipc.open_file(tmp_path / "arrow" / f"{name}.arrow").read_all()
        arrow.validate(full=True)
        assert in_key_order(lean(parquet.to_pylist())) == in_key_order(lean(expected))
        assert lean(arrow.to_pylist()) == lean(parquet.to_pylist())
        assert parquet.schema.names == arrow.schema.names
        assert parquet.schema.names[: len(KEYS)] == KEYS
        in_jsonl = jsonl((tmp_path / "jsonl" / f"{name}.jsonl").read_text())
        assert in_jsonl == [each for each in expected_json(rows) if each["message"] == name]
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as file:
            assert len(list(csv.DictReader(file))) == len(expected)


def test_parquet_stores_exact_numbers(pregao, day, tmp_path):
    pregao("decode", day, "-t", "Order_MBO_50", "-o", tmp_path / "orders.parquet")
    file = pq.ParquetFile(tmp_path / "orders.parquet")
    price = next(column for column in file.schema if column.name == "md_entry_px")
    assert (price.physical_type, price.logical_type.type) == ("INT64", "DECIMAL")
    table = file.read()
    assert table["md_entry_px"].to_pylist() == [Decimal("20.5000"), Decimal("20.5000"), None]
    assert table["sequence_number"].to_pylist() == [1, 2, 3]
    assert table["stream"].to_pylist() == ["incremental"] * 3


def test_heartbeats_have_no_sequence_number(pregao, day, tmp_path):
    pregao("decode", day, "-t", "Sequence", "-o", tmp_path / "beats.arrow")
    table = pa.ipc.open_file(tmp_path / "beats.arrow").read_all()
    assert table["sequence_number"].to_pylist() == [None, None]
    assert table["stream"].to_pylist() == ["incremental", "definition"]


def test_csv_of_004_output_formats(pregao, day, tmp_path):
    assert pregao("decode", day, "-t", "50", "-o", tmp_path / "orders.csv").code == 0
    lines = (tmp_path / "orders.csv").read_text().splitlines()
    assert lines[0] == (
        "channel_id,sequence_version,sequence_number,securityID,matchEventIndicator,"
        "mDUpdateAction,mDEntryType,mDEntryPx,mDEntrySize,enteringFirm,mDInsertTimestamp,"
        "secondaryOrderID,rptSeq,transactTime,mDEntryPrevSize"
    )
    assert lines[1] == "72,1,1,1001,128,NEW,BID,20.5000,100,,,7,1,,"
    assert lines[3] == "72,1,3,1001,128,NEW,BID,,100,,,7,4,,"


def test_csv_of_groups_and_months(pregao, tmp_path):
    legs = [{"legSecurityID": 5, "legRatioQty": Decimal("1.0000000"), "legSecurityType": "FUT",
             "legSide": "BUY", "legSymbol": "X"}]  # fmt: skip
    market = Market().send(
        definition(
            7,
            "A,B",
            maturityMonthYear={"year": 2026, "month": 5, "day": 21, "week": None},
            contractSettlMonth={"year": 2026, "month": 5, "day": None, "week": 2},
            noLegs=legs,
        ),
        to=DEFINITION,
    )
    capture = market.write(tmp_path / "d.pcap")
    result = pregao("decode", capture, "--format", "csv", "-t", "12")
    (row,) = csv.DictReader(io.StringIO(result.out))
    assert (row["symbol"], row["maturityMonthYear"]) == ("A,B", "20260521")
    assert row["contractSettlMonth"] == "202605w2"
    (leg,) = json.loads(row["noLegs"])
    assert (leg["legRatioQty"], leg["legSide"], leg["legSecurityID"]) == ("1.0000000", "BUY", 5)
    assert (row["noUnderlyings"], row["securityDesc"]) == ("[]", "")


def test_unknown_values_of_enumerations_are_kept_in_every_format(pregao, tmp_path):
    odd = bytearray(order())
    odd[8 + 9] = 200  # mDUpdateAction
    market = Market().send(order()).send(bytes(odd)).send(order())
    capture = market.write(tmp_path / "odd.pcap")
    assert "mDUpdateAction=200 " in pregao("decode", capture).out
    pregao("decode", capture, "-o", tmp_path / "o.jsonl")
    found = [row["fields"]["mDUpdateAction"] for row in jsonl((tmp_path / "o.jsonl").read_text())]
    assert found == ["NEW", 200, "NEW"]
    for kind in ("parquet", "arrow"):
        pregao("decode", capture, "-o", tmp_path / f"o.{kind}")
    parquet = pq.read_table(tmp_path / "o.parquet")
    arrow = pa.ipc.open_file(tmp_path / "o.arrow").read_all()
    for table in (parquet, arrow):
        assert table["md_update_action"].to_pylist() == ["NEW", "200", "NEW"]


def test_one_table_for_several_versions(pregao, tmp_path):
    market = wild_market(5, versions=(7, 16), count=200, wild=0)
    capture = market.write(tmp_path / "two.pcap")
    pregao("decode", capture, "-t", "Order_MBO", "-o", tmp_path / "o.parquet")
    table = pq.read_table(tmp_path / "o.parquet")
    names = table.schema.names
    assert "md_entry_prev_size" in names  # 16 only
    assert names[-2:] == ["md_entry_position_no", "md_entry_timestamp_ns"]  # 7 only
    rows = [row for row in market.rows() if row.message.id == 50]
    assert {row.version for row in rows} == {7, 16}
    expected = expected_tables(rows)["Order_MBO_50"]
    assert in_key_order(lean(table.to_pylist())) == in_key_order(lean(expected))


def test_a_file_holds_one_template(pregao, day, tmp_path):
    for name in ("x.csv", "x.parquet", "x.arrow"):
        result = pregao("decode", day, "-o", tmp_path / name)
        assert (result.code, result.out) == (2, "")
        assert "--template" in result.err
        assert "folder" in result.err
        assert "Order_MBO_50" in result.err
    assert list(tmp_path.iterdir()) == [day]
    first = pregao("decode", day, "-o", tmp_path / "x.csv", "--limit", 1)
    assert first.code == 0
    many = pregao("decode", day, "-o", tmp_path / "y.csv", "--limit", 4)
    assert (many.code, (tmp_path / "y.csv").exists()) == (2, False)


def test_a_named_template_without_messages_gives_an_empty_table(pregao, day, tmp_path):
    assert pregao("decode", day, "-t", "News_5", "-o", tmp_path / "n.parquet").code == 0
    table = pq.read_table(tmp_path / "n.parquet")
    assert (table.num_rows, table.schema.names[:2]) == (0, ["channel", "stream"])
    assert "headline" in table.schema.names
    assert pregao("decode", day, "-t", "News_5", "-o", tmp_path / "n.csv").code == 0
    assert (tmp_path / "n.csv").read_text().count("\n") == 1
    nothing = pregao(
        "decode", day, "-t", "News_5,Trade_53", "--channel", 9, "-o", tmp_path / "z.csv"
    )
    assert nothing.code == 2
    assert "pregao info" in nothing.err


def test_rows_are_written_in_groups_of_bounded_size(pregao, tmp_path, monkeypatch):
    from pregao.cli.decode import tables

    monkeypatch.setattr(tables, "ROW_GROUP", 10)
    market = Market()
    for n in range(1, 36):
        market.send(order(rptSeq=n), number=n)
    capture = market.write(tmp_path / "long.pcap")
    pregao("decode", capture, "-o", tmp_path / "o.parquet")
    file = pq.ParquetFile(tmp_path / "o.parquet")
    assert max(file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)) <= 10
    assert file.read()["rpt_seq"].to_pylist() == list(range(1, 36))
    pregao("decode", capture, "-o", tmp_path / "o.arrow")
    read = pa.ipc.open_file(tmp_path / "o.arrow").read_all()
    assert read["rpt_seq"].to_pylist() == list(range(1, 36))


def test_what_waits_in_memory_is_bounded(pregao, tmp_path, monkeypatch):
    from pregao.cli.decode import outputs

    monkeypatch.setattr(outputs, "MAX_PENDING", 3)
    capture = wild_market(1, count=30, wild=0).write(tmp_path / "w.pcap")
    assert pregao("decode", capture, "-o", f"{tmp_path}/t/").code == 0
    total = sum(pq.read_table(path).num_rows for path in (tmp_path / "t").iterdir())
    assert total == len(wild_market(1, count=30, wild=0).rows())


def test_fields_named_like_the_key_are_next_to_it(pregao, tmp_path):
    schema = tmp_path / "mine.xml"
    schema.write_text(users_schema('<field name="channel" id="1" type="uint32"/>'))
    capture = Market().send(heartbeat()).write(tmp_path / "day.pcap")
    path = tmp_path / "beats.parquet"
    assert pregao("decode", capture, "--schema", schema, "-o", path).code == 0
    (row,) = pq.read_table(path).to_pylist()
    assert (row["channel"], row["channel_field"]) == (72, 5)


# Selection.


def decoded(pregao, *arguments):
    result = pregao("decode", *arguments, "--format", "jsonl")
    assert result.code == 0, result.err
    return jsonl(result.out)


def test_by_template(pregao, day):
    for names in (("50", "53"), ("order_mbo,Trade_53",), ("Order_MBO_50", "trade")):
        options = [word for name in names for word in ("-t", name)]
        assert {row["template"] for row in decoded(pregao, day, *options)} == {50, 53}


def test_a_name_without_number_means_all_that_are_called_so(pregao, tmp_path):
    market = wild_market(2, versions=(9,), count=100, wild=0)
    capture = market.write(tmp_path / "nine.pcap")
    result = pregao("decode", capture, "-t", "SecurityDefinition", "--format", "jsonl")
    assert {row["template"] for row in jsonl(result.out)} == {4, 12}


def test_by_instrument(pregao, day):
    rows = decoded(pregao, day, "--security-id", 1002)
    assert [row["message"] for row in rows] == ["SecurityDefinition_12", "Order_MBO_50", "Trade_53"]
    assert len(decoded(pregao, day, "--security-id", "1001,1002")) == 6


def test_by_symbol_according_to_the_definitions(pregao, day):
    rows = decoded(pregao, day, "--symbol", "demo4")
    assert {row["fields"]["securityID"] for row in rows} == {1002}
    assert len(rows) == 3
    text = pregao("decode", day, "--symbol", "DEMO4")
    assert text.out.count("\n") == 3
    unknown = pregao("decode", day, "--symbol", "NONE9")
    assert (unknown.code, unknown.out) == (2, "")
    assert "NONE9" in unknown.err
    assert "--security-id" in unknown.err


def test_a_symbol_may_be_defined_after_its_messages_and_in_another_file(pregao, tmp_path):
    first = Market().send(order(securityID=9)).write(tmp_path / "a.pcap")
    second = Market().send(definition(9, "LATE3"), to=DEFINITION).write(tmp_path / "b.pcap")
    rows = decoded(pregao, first, second, "--symbol", "LATE3")
    assert [row["message"] for row in rows] == ["Order_MBO_50", "SecurityDefinition_12"]


def test_a_definition_is_shown_without_an_issue_date_that_is_no_date(pregao, tmp_path):
    market = Market()
    for number, day in enumerate((-719163, date(1970, 1, 1), 2932897), 1):
        market.send(definition(number, f"DEMO{number}", issueDate=day), to=DEFINITION)
    capture = market.write(tmp_path / "d.pcap")
    result = pregao("decode", capture, "--format", "jsonl")
    shown = [(row["fields"]["symbol"], row["fields"]["issueDate"]) for row in jsonl(result.out)]
    assert (result.code, shown) == (0, [("DEMO1", None), ("DEMO2", "1970-01-01"), ("DEMO3", None)])
    assert "2 values of SecurityDefinition_12.issue_date do not fit the column" in result.err
    text = pregao("decode", capture).out.splitlines()
    assert ["issueDate=1970-01-01" in line for line in text] == [False, True, False]
    assert ["issueDate=" in line for line in text] == [False, True, False]


def test_by_channel(pregao, tmp_path):
    market = Market().send(order(), channel=1).send(order(), channel=2).raw(b"short")
    capture = market.write(tmp_path / "c.pcap")
    assert [row["channel"] for row in decoded(pregao, capture, "--channel", "2")] == [2]
    assert pregao("decode", capture).code == 1  # the short one is of no channel


def test_by_time_of_capture(pregao, day):
    times = [row["capture_time_ns"] for row in decoded(pregao, day)]
    cut = START + 3000
    since = decoded(pregao, day, "--since", cut)
    until = decoded(pregao, day, "--until", "2026-05-21T13:00:00.000003")
    assert [row["capture_time_ns"] for row in since] == [t for t in times if t >= cut]
    assert [row["capture_time_ns"] for row in until] == [t for t in times if t < cut]
    assert decoded(pregao, day, "--since", "2026-05-21T10:00:00-03:00") == decoded(pregao, day)


def test_the_stream_is_detected_also_from_unselected_packets(pregao, day):
    rows = decoded(pregao, day, "--since", START + 6000, "--until", START + 7000)
    assert [(row["message"], row["stream"]) for row in rows] == [("Sequence_2", "definition")]


@pytest.mark.parametrize("limit", range(1, 11))
def test_the_first_messages(pregao, day, tmp_path, limit):
    everything = decoded(pregao, day)
    assert decoded(pregao, day, "--limit", limit) == everything[:limit]
    assert pregao("decode", day, "-n", limit).out.count("\n") == min(limit, 9)
    pregao("decode", day, "-n", limit, "-o", f"{tmp_path}/t/", "-f")
    total = sum(pq.read_table(path).num_rows for path in (tmp_path / "t").iterdir())
    assert total == min(limit, 9)


def test_a_limit_counts_what_could_be_decoded(pregao, tmp_path):
    bad = bytearray(order())
    bad[8 + 12 : 8 + 20] = b"\xff" * 7 + b"\x7f"
    market = Market().send(bytes(bad), order(rptSeq=8)).send(bytes(bad)).send(order(rptSeq=9))
    capture = market.write(tmp_path / "bad.pcap")
    result = pregao("decode", capture, "-n", 2, "--format", "jsonl")
    assert [row["fields"]["rptSeq"] for row in jsonl(result.out)] == [8, 9]
    assert (result.code, "2 rejected" in result.err) == (1, True)


def test_a_stream_can_be_named(pregao, day):
    where = f"{INCREMENTAL[0]}:{INCREMENTAL[1]}"
    rows = decoded(pregao, day, "--stream", f"{where}=snapshot", "-t", "50")
    assert {row["stream"] for row in rows} == {"snapshot"}


# Inputs.


def test_several_files_and_folders(pregao, day, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    Market().send(order(rptSeq=2)).write(folder / "b.pcap.gz")
    Market().send(order(rptSeq=1)).write(folder / "a.pcap.zst")
    Market().send(order(rptSeq=3)).write(folder / "c.rolled")  # known by its content
    (folder / "notes.txt").write_text("not a capture")
    (folder / "empty.pcap").touch()
    assert [row["fields"]["rptSeq"] for row in decoded(pregao, folder)] == [1, 2, 3]
    assert len(decoded(pregao, folder, day)) == 3 + 9


def test_a_folder_without_captures(pregao, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    result = pregao("decode", tmp_path)
    assert (result.code, "no capture in this folder" in result.err) == (2, True)


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_standard_input(pregao, day, packed):
    data = packed(day.read_bytes())
    assert pregao("decode", "-", stdin=data).out == pregao("decode", day).out
    twice = pregao("decode", "-", "--symbol", "DEMO3", stdin=data)
    assert twice.out == pregao("decode", day, "--symbol", "DEMO3").out
    assert pregao("decode", "-", "-", stdin=data).code == 2


def test_streams_of_standard_input_are_detected_from_the_packets_so_far(pregao, day):
    lines = pregao("decode", "-", stdin=day.read_bytes()).out.splitlines()
    assert lines[0].split()[2] == "definition"


# Bad input.


def test_a_file_that_is_not_there(pregao, tmp_path):
    result = pregao("decode", tmp_path / "none.pcap", "-o", tmp_path / "x.jsonl")
    assert result.code == 2
    assert result.err == f"pregao: {tmp_path}/none.pcap: there is no such file\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\xd4", "not a capture"),
        (b"These are words, not packets, and there are many.\n", "not a capture"),
        (b"PK\x03\x04" + bytes(40), "zip"),
    ],
)
def test_a_file_that_is_no_capture(pregao, day, tmp_path, content, reason):
    path = tmp_path / "file"
    path.write_bytes(content)
    for command in ("decode", "info"):
        result = pregao(command, day, path)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"pregao: {path}: at byte 0: ")
        assert reason in result.err
        assert result.err.count("\n") == 1


def test_a_capture_cut_at_any_byte_is_decoded_up_to_its_last_complete_packet(pregao, day, tmp_path):
    data = day.read_bytes()
    everything = pregao("decode", day).out.splitlines()
    path = tmp_path / "cut.pcap"
    for size in range(24, len(data), 61):
        path.write_bytes(data[:size])
        result = pregao("decode", path)
        lines = result.out.splitlines()
        assert result.code == 0
        assert [line.split()[4:] for line in lines] == [
            line.split()[4:] for line in everything[: len(lines)]
        ]
        whole = size == 24 or not len(data[:size]) - _whole(data, size)
        assert ("ends early" in result.err) == (not whole)


def _whole(data, size):
    """End of the last complete record."""
    at = 24
    while at + 16 <= size:
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        if at + 16 + length > size:
            break
        at += 16 + length
    return at


def test_a_capture_that_is_being_written(pregao, tmp_path):
    path = tmp_path / "growing.pcap"
    frame = udp_frame("10.0.0.1", 1, *INCREMENTAL, small_market().packets[3][1])
    with PcapWriter(path) as writer:
        writer.write(START, frame)
        writer.flush()
        assert pregao("decode", path).out.count("\n") == 1
        writer.write(START, frame)
        writer.flush()
        assert pregao("decode", path).out.count("\n") == 2


def test_a_damaged_capture_yields_the_packets_before_the_damage(pregao, day, tmp_path):
    data = bytearray(day.read_bytes())
    second = 24 + 16 + int.from_bytes(data[32:36], "little")
    data[second + 8 : second + 12] = b"\xff\xff\xff\x7f"
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    result = pregao("decode", path, day, "-o", tmp_path / "out.jsonl")
    assert result.code == 1
    assert f"damaged.pcap: at byte {second}" in result.err
    assert len(jsonl((tmp_path / "out.jsonl").read_text())) == 1 + 9


def test_rejects_are_counted_and_reported(pregao, tmp_path):
    old = b"\4\0\2\0\2\0\3\0" + bytes(4)  # version 3
    market = Market().send(order(), old).raw(small_market().packets[0][1][:-3]).send(order())
    for n in range(20):
        market.raw(bytes(n))
    capture = market.write(tmp_path / "bad.pcap")
    result = pregao("decode", capture, "-o", tmp_path / "out.jsonl")
    assert result.code == 1
    assert len(jsonl((tmp_path / "out.jsonl").read_text())) == 2
    assert "2 messages, 22 rejected" in result.err
    assert result.err.count("pregao: rejected: ") == 10
    assert f"{capture}: packet 1 at byte 24, byte" in result.err
    assert "… and 12 more, by reason:" in result.err
    assert "a packet too short for its header" in result.err


def test_a_version_that_is_too_old_needs_a_named_schema(pregao, tmp_path):
    old = bytearray(heartbeat())
    old[6] = 3
    capture = Market().send(bytes(old)).write(tmp_path / "old.pcap")
    result = pregao("decode", capture)
    assert (result.code, result.out) == (1, "")
    assert "version 3 of schema id 2 is older than 7" in result.err
    schema = tmp_path / "mine.xml"
    schema.write_text(users_schema('<field name="next" id="1" type="uint32"/>'))
    named = pregao("decode", capture, "--schema", schema)
    assert (named.code, named.out.split()[4:]) == (0, ["Beat", "next=5"])
    missing = pregao("decode", capture, "--schema", tmp_path / "none.xml")
    assert (missing.code, "none.xml" in missing.err) == (2, True)


def settlement(version, day=date(2026, 5, 20)):
    """A settlement price of a version; the version 18 has the layout of 17."""
    known = min(version, 17)
    message = SchemaCodec(bundled("umdf", known)).codec(28).encode(
        {"securityID": 7, "matchEventIndicator": 0, "tradeDate": date(2026, 5, 21), "mDEntryPx": 1,
         "mDEntryTimestamp": 1, "openCloseSettlFlag": 0, "priceType": 2, "settlPriceType": 1,
         "rptSeq": 1, **({"settlDate": day} if known == 17 else {})}
    )  # fmt: skip
    return message[:6] + version.to_bytes(2, "little") + message[8:]


def test_a_named_schema_replaces_the_bundled_one_of_its_version(pregao, tmp_path):
    """And every other of its id, up to the end of what the wire's block has."""
    messages = [settlement(version) for version in (16, 17, 18)]
    capture = Market().send(*messages).write(tmp_path / "s.pcap")
    own = tmp_path / "own.xml"
    own.write_bytes(published_file(17, settlDate="dayOfPrice"))

    def dates(*more):
        result = pregao("decode", capture, "--format", "jsonl", *more)
        assert result.code == 0, result.err
        fields = [row["fields"] for row in jsonl(result.out)]
        return [(each.get("settlDate"), each.get("dayOfPrice")) for each in fields]

    day = "2026-05-20"
    assert dates() == [(None, None), (day, None), (day, None)]
    assert dates("--schema", own) == [(None, None), (None, day), (None, day)]
    # A file of version 16 reads version 17 up to the end of its own layout.
    own.write_bytes(published_file(16))
    assert dates("--schema", own) == [(None, None)] * 3


def test_unknown_templates_are_skipped_and_reported(pregao, tmp_path):
    strange = b"\4\0\x31\0\2\0\x10\0" + bytes(4)
    capture = Market().send(strange, order(), strange).write(tmp_path / "s.pcap")
    result = pregao("decode", capture)
    assert (result.code, result.out.count("\n")) == (0, 1)
    assert "2 messages of unknown template 49 (version 16) were skipped" in result.err


def test_packets_cut_by_the_snap_length_are_rejected(pregao, tmp_path):
    path = tmp_path / "snap.pcap"
    framer = UdpFramer("10.0.0.1", 1, *INCREMENTAL)
    with PcapWriter(path, snaplen=80) as writer:
        for _, payload in small_market().packets:
            writer.write(START, framer.frame(payload))
    result = pregao("decode", path)
    assert result.code == 1
    assert "packets were truncated by the snap length" in result.err


def test_a_schema_version_newer_than_known_is_read_with_the_newest(pregao, tmp_path):
    new = bytearray(order())
    new[6] = 99
    capture = Market().send(bytes(new)).write(tmp_path / "n.pcap")
    (row,) = decoded(pregao, capture)
    assert (row["version"], row["fields"]["mDEntryPx"]) == (99, "20.5000")


# Writing.


def test_existing_files_are_kept_unless_forced(pregao, day, tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious")
    refused = pregao("decode", day, "-o", path)
    assert (refused.code, path.read_text()) == (2, "precious")
    assert "--force" in refused.err
    assert pregao("decode", day, "-o", path, "--force").code == 0
    assert len(jsonl(path.read_text())) == 9


def test_existing_folders_are_kept_unless_forced(pregao, day, tmp_path):
    folder = tmp_path / "tables"
    assert pregao("decode", day, "-o", folder).code == 0  # no suffix: a folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "Trade_53.parquet" in before
    again = pregao("decode", day, "-o", folder)
    assert (again.code, "--force" in again.err) == (2, True)
    other = pregao("decode", day, "-t", "50", "-o", f"{folder}/")
    assert (other.code, "--force" in other.err) == (2, True)
    assert pregao("decode", day, "-o", f"{folder}/", "--force").code == 0
    assert sorted(before) == sorted(path.name for path in folder.iterdir())
    assert pregao("decode", day, "-o", f"{folder}/", "--format", "csv").code == 0


def test_nothing_is_left_when_the_command_fails(pregao, day, tmp_path, monkeypatch):
    from pregao.cli.decode import tables

    def fails(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.TableOutput, "flush", fails)
    result = pregao("decode", day, "-o", f"{tmp_path}/tables/")
    assert result.code == 2
    assert result.err == "pregao: Cannot write the output: No space left on device.\n"
    assert list((tmp_path / "tables").iterdir()) == []


def test_the_capture_itself_is_not_written_over(pregao, day, tmp_path):
    capture = day.rename(tmp_path / "day.csv")
    result = pregao("decode", capture, "-o", capture, "--force", "-t", "50")
    assert (result.code, "an input capture" in result.err) == (2, True)
    assert pregao("decode", capture).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "x.xlsx"], ".jsonl, .csv, .parquet or .arrow"),
        (["-o", "x.csv", "--format", "parquet"], "omit --format"),
        (["--format", "parquet"], "add -o PATH"),
        (["--format", "xml"], "--format must be one of"),
        (["-o", "folder/", "--format", "text"], "parquet, csv, arrow or jsonl"),
        (["-o", "nowhere/x.jsonl"], "no folder"),
        (["-t", "Ordr_MBO"], "Did you mean Order_MBO_50?"),
        (["-t", "49"], "There is no template '49'"),
        (["--channel", "256"], "from 0 to 255"),
        (["--security-id", "PETR4"], "an integer"),
        (["--since", "yesterday"], "2026-05-21T13:00:00.5"),
        (["--until", "12"], "--until must be a time"),
        (["--stream", "10.0.0.1=incremental"], "ADDRESS:PORT=STREAM"),
        (["--stream", "10.0.0.1:5=main"], "incremental, snapshot, definition"),
        (["--limit", "0"], "--limit"),
        (["--hex", "00"], "give either"),
    ],
)
def test_likely_mistakes_have_an_error_message(
    pregao, day, arguments, words, monkeypatch, tmp_path_factory
):
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.chdir(empty)
    result = pregao("decode", day, *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert list(empty.iterdir()) == []


def test_no_capture_named(pregao):
    result = pregao("decode")
    assert (result.code, "No capture given" in result.err) == (2, True)


def test_trades_can_be_found_with_any_tool(pregao, tmp_path):
    market = Market().send(trade()).send(trade(mDEntryPx=Decimal("-0.0001")))
    capture = market.write(tmp_path / "t.pcap")
    pregao("decode", capture, "-o", tmp_path / "t.csv")
    table = pa.csv.read_csv(tmp_path / "t.csv")
    assert table["mDEntryPx"].to_pylist() == [21.0, -0.0001]
    assert (tmp_path / "t.csv").read_text().splitlines()[2].split(",")[7] == "-0.0001"
