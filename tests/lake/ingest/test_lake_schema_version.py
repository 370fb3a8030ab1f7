"""Rows of messages have the schema version of each message; older lakes get the column."""

from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pregao.capture import PcapWriter, udp_frame
from pregao.clock import DAY, SECOND, parse_ns
from pregao.exchange.engine.model import events
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    PriceType,
    SecurityUpdateAction,
    SettlPriceType,
    TradingSession,
    TradingStatus,
)
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.lake.analytics.run import analyse
from pregao.lake.books.build import build_books
from pregao.lake.ingest.maintenance import compact
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.spark_tables import table_frame
from pregao.lake.storage.lake_store import LakeStore
from pregao.sbe.codec import MessageCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet
from pregao.umdf.phases import TradingEvent
from pregao.umdf.templates import END_OF_EVENT, IMPLIED
from tests.exchange.floor import share
from tests.lake.days import day, rows
from tests.schemas.plain_facts import published_file

START = parse_ns("2026-05-21T15:00:00Z")
ORDERS = "umdf_order_mbo_50"
NEWEST = 17
SIMULATED = 16


def order(version, order_id, *, stated_version=None, rpt=0):
    """A new order that is marked as implied, or bears that bit's older meaning."""
    schema = bundled("umdf", version)
    values = {
        "securityID": 7, "matchEventIndicator": IMPLIED, "mDUpdateAction": 0, "mDEntryType": 0x30,
        "mDEntryPx": 205_000, "mDEntrySize": 100, "secondaryOrderID": order_id, "rptSeq": rpt,
    }  # fmt: skip
    if version < 15:
        values["mDEntryPositionNo"] = 1
    packed = MessageCodec(schema, schema.by_name["Order_MBO_50"]).packer(*values)
    message = packed(*values.values())
    return (
        message
        if stated_version is None
        else message[:6] + stated_version.to_bytes(2, "little") + message[8:]
    )


def write_capture(path, packets):
    """A capture of packets, a second apart."""
    with PcapWriter(path) as writer:
        for at, messages in enumerate(packets):
            when = START + at * SECOND
            payload = encode_packet(PacketHeader(7, 1, at + 1, when), messages)
            writer.write(when, udp_frame("10.0.0.1", 1, "233.252.14.1", 30001, payload))


def versions(lake, table=ORDERS):
    return {row["secondary_order_id"]: row["schema_version"] for row in rows(lake, table)}


def test_each_row_has_the_version_of_its_message(tmp_path):
    """Two versions in one capture, and in one packet; an unknown one is kept unchanged."""
    packets = [
        [order(9, 1)],
        [order(10, 2), order(9, 3), order(15, 4)],
        [order(NEWEST, 5, stated_version=40_000)],
    ]
    write_capture(tmp_path / "mixed.pcap", packets)
    report = ingest([str(tmp_path / "mixed.pcap")], str(tmp_path / "lake"))
    assert report.json()["schema_versions"] == [9, 10, 15, 40_000]
    assert versions(tmp_path / "lake") == {1: 9, 2: 10, 3: 9, 4: 15, 5: 40_000}


def test_an_order_is_implied_by_the_version_of_its_own_message(tmp_path, spark):
    """000 §18: below version 10 the bit has another meaning."""
    write_capture(tmp_path / "mixed.pcap", [[order(9, 1)], [order(10, 2), order(9, 3)]])
    lake = LakeStore(tmp_path / "lake")
    ingest([str(tmp_path / "mixed.pcap")], lake.location)
    analyse(lake, tables=["orders"])
    found = {row["secondary_order_id"]: row["implied"] for row in rows(tmp_path / "lake", "orders")}
    assert found == {1: None, 2: True, 3: None}


def without_versions(lake):
    """Make the message tables of a lake those of Pregão 0.1, which did not keep the version."""
    for name in LakeStore(lake).table_names():
        table = DeltaTable(f"{lake}/{name}")
        data = table.to_pyarrow_table()
        if "schema_version" in data.column_names:
            older = data.drop_columns(["schema_version"])
            write_deltalake(
                table, older, mode="overwrite", schema_mode="overwrite", partition_by=["date"]
            )


@pytest.fixture
def old_lake(tmp_path):
    """A lake with a day of feed A that an older Pregão has ingested."""
    captures = [str(path) for path in sorted(day().glob("*.pcap")) if "_B" not in path.name]
    ingest(captures, str(tmp_path / "lake"))
    without_versions(tmp_path / "lake")
    return tmp_path / "lake"


def test_an_older_lake_is_read_without_the_column(old_lake, spark):
    lake = LakeStore(old_lake)
    frame = table_frame(lake, ORDERS, spark)
    assert "schema_version" not in frame.columns
    assert frame.count() == len(rows(old_lake, ORDERS)) > 0
    analyse(lake, tables=["orders"])
    assert {row["implied"] for row in rows(old_lake, "orders")} == {False}


def test_an_older_lake_gets_the_column_with_the_next_ingest(old_lake, spark):
    before = rows(old_lake, ORDERS)
    ingest([str(day())], str(old_lake))  # the other feed: definitions of the same day
    ingest([str(day(seed=2, day="2026-05-22"))], str(old_lake))
    after = rows(old_lake, ORDERS)
    old = [row for row in after if row["date"] == date(2026, 5, 21)]
    new = [row for row in after if row["date"] == date(2026, 5, 22)]
    assert {row["schema_version"] for row in old} == {None}
    assert [row | {"schema_version": None} for row in before] == old
    assert {row["schema_version"] for row in new} == {SIMULATED}
    assert {row["schema_version"] for row in rows(old_lake, "instruments")} == {None, SIMULATED}
    frame = table_frame(LakeStore(old_lake), ORDERS, spark)
    assert frame.where("schema_version IS NULL").count() == len(old)
    assert not check_lake(LakeStore(old_lake)).faults


def test_compaction_keeps_rows_with_and_without_a_version(old_lake):
    ingest([str(day(seed=2, day="2026-05-22"))], str(old_lake))
    write_deltalake(  # more files of the older day, as several ingests would have left
        f"{old_lake}/{ORDERS}",
        pa.table(DeltaTable(f"{old_lake}/{ORDERS}").to_pyarrow_table().slice(0, 1)),
        mode="append",
    )
    before = rows(old_lake, ORDERS)
    assert any(done.table == ORDERS for done in compact(LakeStore(old_lake), [ORDERS]))
    assert rows(old_lake, ORDERS) == before


def spread(path, version, days):
    """A capture of one order a day, each with the bit of implied orders set."""
    with PcapWriter(path) as writer:
        for at in range(days):
            when = START + at * DAY
            header = PacketHeader(7, 1, at + 1, when)
            payload = encode_packet(header, [order(version, at + 1, rpt=1)])
            writer.write(when, udp_frame("10.0.0.1", 1, "233.252.14.1", 30001, payload))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("version", "implied"), [(9, False), (10, True)])
def test_every_day_of_a_capture_that_spans_two_is_judged_by_its_messages(
    tmp_path, version, implied, old
):
    """Once only the day on which a capture begins was judged; lakes of 0.1 by their ingests."""
    spread(tmp_path / "two.pcap", version, 2)
    ingest([str(tmp_path / "two.pcap")], str(tmp_path / "lake"))
    if old:
        without_versions(tmp_path / "lake")
    build_books(str(tmp_path / "lake"))
    books = [row for row in rows(tmp_path / "lake", "book_checkpoints") if row["reason"] == "end"]
    assert [[each["implied"] for each in row["bids"]] for row in books] == [[implied], [implied]]


def test_books_of_an_older_lake_with_mixed_versions_do_not_flag_implied_orders(tmp_path):
    write_capture(tmp_path / "mixed.pcap", [[order(10, 1, rpt=1)], [order(9, 2, rpt=2)]])
    ingest([str(tmp_path / "mixed.pcap")], str(tmp_path / "lake"))
    without_versions(tmp_path / "lake")
    build_books(str(tmp_path / "lake"))
    (book,) = [row for row in rows(tmp_path / "lake", "book_checkpoints") if row["reason"] == "end"]
    assert [each["implied"] for each in book["bids"]] == [False, False]


# Version 17 renamed phases and gave settlement prices a date.

SETTLEMENTS, PHASES = "umdf_settlement_price_28", "umdf_security_group_phase_10"


def phase(version, status, when, event=None):
    item = events.SecurityGroupPhase(
        "XX", TradingSession.REGULAR, status, event, days_of(when), None, when
    )
    return FeedEncoder(version).write(item, END_OF_EVENT)


def days_of(when):
    return when // DAY


def trading_day(path, version, day, *, stated_version=None):
    """An auction of the group, trading, a pause, PRE-CLOSE; and a settlement price."""
    encoder, start = FeedEncoder(version), START + day * DAY
    today, share_id = days_of(start), 7
    theoretical = events.TheoreticalOpeningPrice(share_id, 205_000, 100, today, start)
    settlement = events.SettlementPrice(
        share_id, 204_000, OpenCloseSettlFlag.DAILY, PriceType.PU, SettlPriceType.FINAL, today,
        start, today - 1,
    )  # fmt: skip
    opens = TradingEvent.TRADING_SESSION_CHANGE
    packets = [
        encoder.definitions.message(share(share_id), SecurityUpdateAction.ADD, 1, True),
        phase(version, TradingStatus.RESERVED, start, opens),
        encoder.write(theoretical, END_OF_EVENT, 1),
        phase(version, TradingStatus.OPEN, start + 2 * SECOND),
        encoder.write(settlement, END_OF_EVENT, 2),
        phase(version, TradingStatus.PAUSE, start + 4 * SECOND),
        phase(version, TradingStatus.FORBIDDEN, start + 5 * SECOND),
    ]
    with PcapWriter(path) as writer:
        for at, message in enumerate(packets):
            if stated_version is not None:
                message = message[:6] + stated_version.to_bytes(2, "little") + message[8:]
            when = start + at * SECOND
            payload = encode_packet(PacketHeader(7, 1, at + 1, when), [message])
            writer.write(when, udp_frame("10.0.0.1", 1, "233.252.14.1", 30001, payload))
    return str(path)


def asked(lake, sql):
    return DuckdbEngine(LakeStore(lake)).query(sql).rows().to_pylist()


def test_000_14_2_a_query_over_days_of_versions_16_and_17(tmp_path):
    """Tables of messages have the wire's names, derived tables one name for all versions."""
    lake = tmp_path / "lake"
    for at, version in enumerate((16, 17, 18)):  # 18 is unknown: it is read with 17
        stated = version if version > NEWEST else None
        path = tmp_path / f"{version}.pcap"
        trading_day(path, min(version, NEWEST), at, stated_version=stated)
        ingest([str(path)], str(lake))
    analyse(LakeStore(lake), tables=["status", "auctions"])
    sql = f"SELECT schema_version, trading_session_sub_id AS phase FROM {PHASES} ORDER BY date, "
    found = {}
    for row in asked(lake, sql + "sequence_number"):
        found.setdefault(row["schema_version"], []).append(row["phase"])
    assert found == {
        16: ["RESERVED", "OPEN", "PAUSE", "FORBIDDEN"],
        17: ["PRE_OPEN", "OPEN", "PAUSE", "PRE_CLOSE"],
        18: ["PRE_OPEN", "OPEN", "PAUSE", "PRE_CLOSE"],
    }
    sql = (
        "SELECT status, security_id IS NULL AS of_group, count(*) AS rows, count(DISTINCT date) AS "
        "days FROM status GROUP BY ALL ORDER BY 1, 2"
    )
    each = ("OPEN", "PAUSE", "PRE_CLOSE", "RESERVED")
    assert asked(lake, sql) == [
        {"status": status, "of_group": of_group, "rows": 3, "days": 3}
        for status in each
        for of_group in (False, True)
    ]
    sql = "SELECT kind, count(*) AS auctions, max(len(theoretical)) AS prices FROM auctions "
    sql += "GROUP BY kind"
    assert asked(lake, sql) == [{"kind": "RESERVED", "auctions": 3, "prices": 1}]
    sql = f"SELECT schema_version, trade_date - settl_date AS age FROM {SETTLEMENTS} ORDER BY 1"
    ages = [row["age"] for row in asked(lake, sql)]
    assert ages == [None, 1, 1]


def test_a_lake_of_version_16_gets_the_settlement_date_with_the_next_ingest(tmp_path):
    lake = tmp_path / "lake"
    ingest([trading_day(tmp_path / "16.pcap", 16, 0)], str(lake))
    table = DeltaTable(f"{lake}/{SETTLEMENTS}")
    older = table.to_pyarrow_table().drop_columns(["settl_date"])
    write_deltalake(table, older, mode="overwrite", schema_mode="overwrite", partition_by=["date"])
    assert "settl_date" not in rows(lake, SETTLEMENTS)[0]
    assert [row["settl_price_type"] for row in asked(lake, f"FROM {SETTLEMENTS}")] == ["FINAL"]
    ingest([trading_day(tmp_path / "17.pcap", 17, 1)], str(lake))
    dates = [(row["trade_date"], row["settl_date"]) for row in rows(lake, SETTLEMENTS)]
    assert sorted(dates, key=str) == [
        (date(2026, 5, 21), None),
        (date(2026, 5, 22), date(2026, 5, 21)),
    ]
    assert not check_lake(LakeStore(lake)).faults


def test_a_named_schema_replaces_the_bundled_one_of_its_version_in_an_ingest(tmp_path):
    """Also for other versions; values that it renames keep the names that rules know."""
    own = tmp_path / "umdf-17.xml"
    own.write_bytes(published_file(17, PRE_OPEN="GATHERING", OPEN="RUNNING"))
    for version in (17, 16):
        path = trading_day(tmp_path / f"{version}.pcap", version, 0)
        lake = tmp_path / f"lake{version}"
        ingest([path], str(lake), IngestOptions(schema_files=(str(own),)))
        found = [row["trading_session_sub_id"] for row in rows(lake, PHASES)]
        assert found == ["PRE_OPEN", "OPEN", "PAUSE", "PRE_CLOSE"]
        (row,) = rows(lake, SETTLEMENTS)
        # The block of version 16 ends before the date.
        assert row["settl_date"] == (date(2026, 5, 20) if version == 17 else None)
    analyse(LakeStore(lake), tables=["status"])
    sql = "SELECT phase FROM status WHERE security_id IS NULL ORDER BY from_ns"
    phases = [row["phase"] for row in asked(lake, sql)]
    assert phases == ["RESERVED", "OPEN", "PAUSE", "PRE_CLOSE"]


@pytest.mark.parametrize("version", [16, 17])
def test_books_are_built_from_messages_of_a_named_schema(tmp_path, version):
    """The file has the number of a bundled version, and other names of sides and actions."""
    own = tmp_path / "own.xml"
    own.write_bytes(published_file(17, BID="BUYING", CHANGE="ALTERED"))
    write_capture(tmp_path / "day.pcap", [[order(version, at, rpt=at)] for at in (1, 2)])
    lake = tmp_path / "lake"
    options = IngestOptions(schema_files=(str(own),))
    ingest([str(tmp_path / "day.pcap")], str(lake), options)
    build_books(str(lake))
    (book,) = [row for row in rows(lake, "book_checkpoints") if row["reason"] == "end"]
    assert [each["order_id"] for each in book["bids"]] == [1, 2]
