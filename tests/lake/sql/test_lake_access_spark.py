"""A lake in Spark: every table is a view with exactly the visible rows, columns and types."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import pregao
from pregao.errors import UsageError
from pregao.lake.sql.spark_tables import connect, s3a_settings
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.lake_support import (
    ORDERS,
    column,
    compiling,
    ingest_row,
    order,
    unit_of,
    write_file,
)


def numbers(session, text="SELECT sequence_number AS n FROM orders ORDER BY n"):
    return [row.n for row in session.sql(text).collect()]


def test_every_table_is_a_view_with_types_and_comments(spark, small_lake):
    session = connect(small_lake.location, spark=spark)
    frame = session.table("orders")
    fields = {field.name: field for field in frame.schema}
    assert list(fields) == ORDERS.schema.names
    assert fields["price"].dataType.simpleString() == "decimal(18,4)"
    assert fields["date"].dataType.simpleString() == "date"
    assert fields["security_id"].metadata["comment"] == "Instrument."
    described = {row.col_name: row.comment for row in session.sql("DESCRIBE orders").collect()}
    assert described["security_id"] == "Instrument."
    assert numbers(session) == [1, 2, 3, 4]
    days = session.sql("SELECT date, count(*) n FROM orders GROUP BY date ORDER BY date")
    assert [tuple(row) for row in days.collect()] == [
        (date(2026, 5, 21), 2),
        (date(2026, 5, 22), 2),
    ]
    assert session.read.table("ingests").count() == 2
    with compiling(session):
        listed = {table.name for table in session.catalog.listTables()}
    assert listed >= {"orders", "trades", "ingests"}


def test_programs_get_a_data_frame_of_a_table_or_its_view(spark, small_lake):
    lake = pregao.Lake(small_lake.location.path)
    wanted = {"where": "date = DATE '2026-05-22'", "columns": ["sequence_number"]}
    frame = lake.table("orders", engine="spark", spark=spark, raw=True, **wanted)
    rows = lake.table("orders", raw=True, **wanted)
    assert frame.columns == ["sequence_number"]
    assert sorted(row[0] for row in frame.collect()) == sorted(rows["sequence_number"].to_pylist())
    view = lake.table("orders", engine="spark", spark=spark)
    assert view.columns == lake.table("orders").schema.names
    assert lake.sql("SELECT count(*) AS n FROM orders", engine="local")["n"][0].as_py() == 4


def test_only_the_files_of_a_date_are_opened(spark, small_lake):
    session = connect(small_lake.location, spark=spark)
    frame = session.sql("SELECT * FROM orders WHERE date = DATE '2026-05-22'")
    assert len(frame.inputFiles()) == 2  # what the view holds
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [isnotnull(date" in plan
    assert frame.count() == 2


def test_an_empty_table_is_an_empty_view(spark, tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_table(ORDERS)
    session = connect(tmp_path, spark=spark)
    assert session.sql("SELECT * FROM orders").collect() == []
    assert session.table("orders").columns == ORDERS.schema.names


def test_uncommitted_files_are_not_read_and_columns_added_later_are_null(spark, small_lake):
    location = small_lake.location
    write_file(location, ORDERS, [order(1, 99)])
    legs = pa.struct([column("leg_id", pa.int64()), column("ratio", pa.int32())])
    fields = {field.name: field for field in ORDERS.schema}
    fields["legs"] = column("legs", pa.list_(pa.field("element", legs)))
    later = TableSpec("orders", pa.schema([*fields.values(), column("trader", pa.string())]))
    small_lake.ensure_table(later)
    row = order(8, 5, "-0.0001", legs=[{"leg_id": 1, "ratio": 2}], trader="X")
    file = write_file(location, later, [row])
    small_lake.commit(CommitUnit("u3", ("c3",), (file,), (ingest_row("c3"),)))
    session = connect(location, spark=spark)
    assert session.table("orders").columns == later.schema.names
    rows = session.sql(
        "SELECT sequence_number, trader, price, legs.ratio AS r FROM orders ORDER BY 1"
    ).collect()
    assert [row.sequence_number for row in rows] == [1, 2, 3, 4, 5]
    assert [row.trader for row in rows] == [None] * 4 + ["X"]
    assert rows[4].price == Decimal("-0.0001")
    assert rows[4].r == [2]


def test_a_view_shows_later_rows_after_a_refresh(spark, small_lake):
    session = connect(small_lake.location, spark=spark)
    assert numbers(session) == [1, 2, 3, 4]
    small_lake.commit(unit_of(small_lake.location, "u3", ["c3"], first_number=5))
    assert numbers(session) == [1, 2, 3, 4]
    session.refresh()
    assert numbers(session) == [1, 2, 3, 4, 5, 6]


def test_what_a_dead_process_left_is_finished_first(spark, small_lake):
    def die(step):
        if step == "intended":
            raise KeyboardInterrupt

    unit = unit_of(small_lake.location, "u3", ["c3"], first_number=5)
    with pytest.raises(KeyboardInterrupt):
        small_lake.commit(unit, watch=die)
    assert numbers(connect(small_lake.location, spark=spark)) == [1, 2, 3, 4, 5, 6]


def test_a_path_with_odd_characters_is_used_unchanged(spark, tmp_path):
    lake = LakeStore(tmp_path / "we[ir]d {a,b} % *?#é")
    lake.ensure_tables([ORDERS, TableSpec("trades", ORDERS.schema)])
    file = write_file(lake.location, ORDERS, [order(1, 7)])
    lake.commit(CommitUnit("u", ("c",), (file,), (ingest_row("c"),)))
    assert numbers(connect(lake.location, spark=spark)) == [7]


def test_a_path_that_reads_differently_when_decoded_is_refused(tmp_path):
    with pytest.raises(UsageError, match="must not have %"):
        LakeStore(tmp_path / "a%20b")


def test_a_folder_that_is_no_lake_is_refused_before_spark_starts(tmp_path):
    with pytest.raises(UsageError, match="is not a lake"):
        connect(tmp_path)


def test_the_settings_of_a_location_are_those_of_hadoops_client():
    location = Location.parse(
        "s3://bucket/lake",
        {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        },
    )
    assert s3a_settings(location) == {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.path.style.access": "true",
    }
    anonymous = Location.parse("s3://bucket", {"AWS_SKIP_SIGNATURE": "1", "AWS_REGION": "x"})
    assert s3a_settings(anonymous)["fs.s3a.aws.credentials.provider"].endswith("Provider")
