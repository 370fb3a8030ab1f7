"""The lake on an S3 store: the same promises as on a disk."""

import pickle
from decimal import Decimal

import polars as pl
import pyarrow.compute as pc
import pytest

from pregao.capture import PcapWriter, read_packets
from pregao.errors import UsageError
from pregao.lake.ingest.discovery import find_captures
from pregao.lake.sql.spark_tables import connect
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.lake_support import ORDERS, TRADES, counts, python, unit_of

COMMIT = """
lake = LakeStore("s3://bucket/lake")
lake.ensure_tables([ORDERS, TRADES])
outcome = lake.commit(unit_of(lake.location, sys.argv[1], sys.argv[2:]))
sys.exit(0 if outcome.committed else 10)
"""
DIE_INTENDED = """
lake = LakeStore("s3://bucket/lake")
lake.ensure_tables([ORDERS, TRADES])
die = lambda step: os._exit(9) if step == "intended" else None
lake.commit(unit_of(lake.location, "u1", ["c1"]), watch=die)
"""


@pytest.fixture
def lake(s3_endpoint):
    lake = LakeStore("s3://bucket/lake")
    lake.ensure_tables([ORDERS, TRADES])
    return lake


def test_tables_are_created_committed_to_and_read_by_others(lake):
    assert lake.table_names() == ["ingests", "orders", "trades"]
    assert lake.commit(unit_of(lake.location, "u1", ["c1"])).committed
    again = lake.commit(unit_of(lake.location, "u2", ["c1"]))
    assert again.claimed == {"c1": "u1"}
    assert counts(lake) == {"ingests": 1, "orders": 2, "trades": 2}
    location = lake.table_location("orders")
    frame = pl.scan_delta(location.delta_uri, storage_options=location.storage_options).collect()
    assert frame["price"].to_list() == [Decimal("10.0000")] * 2
    dataset = lake.delta("orders").to_pyarrow_dataset()
    assert dataset.count_rows(filter=pc.field("security_id") == 7) == 2
    (uri,) = lake.file_uris("orders", "2026-05-21")
    assert uri.startswith("s3://bucket/lake/orders/date=2026-05-21/part-")


def test_processes_that_create_and_commit_concurrently_are_distinguished(s3_endpoint):
    processes = [
        python(COMMIT, "u1", "shared", wait=False),
        python(COMMIT, "u2", "shared", wait=False),
        python(COMMIT, "u3", "own", wait=False),
    ]
    codes = [process.wait() for process in processes]
    assert sorted(codes[:2]) == [0, 10]
    assert codes[2] == 0
    assert counts(LakeStore("s3://bucket/lake")) == {"ingests": 2, "orders": 4, "trades": 4}


def test_a_dead_process_is_finished_for(s3_endpoint):
    assert python(DIE_INTENDED) == 9
    lake = LakeStore("s3://bucket/lake")
    assert counts(lake) == {"ingests": 0, "orders": 0, "trades": 0}
    assert lake.roll_forward() == ["u1"]
    assert lake.roll_forward() == []
    assert counts(lake) == {"ingests": 1, "orders": 2, "trades": 2}


def test_spark_reads_it_without_any_jar(lake, spark):
    lake.commit(unit_of(lake.location, "u1", ["c1"]))
    lake.commit(unit_of(lake.location, "u2", ["c2"], day="2026-05-22", first_number=3))
    session = connect("s3://bucket/lake", spark=spark)
    rows = session.sql(
        "SELECT sequence_number, price, date FROM orders "
        "WHERE date = DATE '2026-05-22' ORDER BY sequence_number"
    ).collect()
    assert [(row.sequence_number, str(row.price), str(row.date)) for row in rows] == [
        (3, "10.0000", "2026-05-22"),
        (4, "10.0000", "2026-05-22"),
    ]
    assert session.table("orders").schema["price"].metadata == {"comment": "Price."}


def test_captures_are_found_and_read_there(s3_endpoint, tmp_path):
    with PcapWriter(tmp_path / "x.pcap") as writer:
        writer.write(1, b"frame")
    content = (tmp_path / "x.pcap").read_bytes()
    for name in ("day1/a.pcap", "day1/b.pcap", "day2/c.pcapng", "day2/notes.txt"):
        Location.parse("s3://bucket").join(name).write_bytes(content)
    assert [entry.name for entry in find_captures(["s3://bucket/day1"])] == ["a.pcap", "b.pcap"]
    found = find_captures(["s3://bucket/day*/[bc].*"])
    assert [entry.name for entry in found] == ["b.pcap", "c.pcapng"]
    sent = pickle.loads(pickle.dumps(found[0].location))
    with read_packets(sent.source) as packets:
        assert [bytes(packet.data) for packet in packets] == [b"frame"]
    with pytest.raises(UsageError, match="no captures found"):
        find_captures(["s3://bucket/none/*.pcap"])


def test_a_missing_bucket_is_reported(s3_endpoint):
    with pytest.raises(UsageError, match=r"s3://nowhere/lake/_intents cannot be "):
        LakeStore("s3://nowhere/lake").ensure_tables([ORDERS])
