"""`pregao lake views`, `sql`, `drop`, `dictionary` and `query --example`, as a user runs them."""

import json
import shutil

import duckdb
import pytest

from tests.cli.test_cli_messages import sound_lake


@pytest.fixture
def lake(tmp_path):
    return shutil.copytree(sound_lake(), tmp_path / "lake")


def ran(result):
    assert result.code == 0, result.err
    return result.out


def test_a_file_of_views_opens_in_duckdb(pregao, lake, tmp_path):
    file = tmp_path / "lake.sql"
    ran(pregao("lake", "views", "--lake", lake, "-o", file))
    assert pregao("lake", "views", "--lake", lake, "-o", file).code == 2  # it is there already
    ran(pregao("lake", "views", "--lake", lake, "-o", file, "--force"))
    opened = duckdb.connect(":memory:")
    opened.execute(file.read_text())
    sql = "SELECT count(*), count(symbol) FROM v_umdf_order_mbo_50"
    ((orders, with_symbol),) = opened.sql(sql).fetchall()
    assert orders == with_symbol > 100
    ((ticks,),) = opened.sql("SELECT count(*) FROM v_ticks").fetchall()
    assert ticks > 100


def test_statements_for_a_catalog(pregao, lake):
    text = ran(pregao("lake", "ddl", "--lake", lake, "--schema", "b3", "--root", "s3a://x/lake"))
    assert "LOCATION 's3a://x/lake/packets';" in text
    assert "CREATE OR REPLACE VIEW `b3`.`v_packets`" in text


def test_columns_of_a_view(pregao, lake):
    described = json.loads(ran(pregao("lake", "tables", "v_packets", "--lake", lake, "--json")))
    types = {row["name"]: row["type"] for row in described}
    assert types["sending_time_ns"] == "bigint"
    assert types["sending_time"] == "timestamp"
    assert all(row["comment"] for row in described)


def test_bundled_queries(pregao, lake):
    assert "vwap_by_minute" in ran(pregao("query", "--examples"))
    assert "messages" in ran(pregao("query", "--example", "busiest-seconds", "--lake", lake))


def test_a_dictionary_of_a_lake(pregao, lake):
    page = ran(pregao("lake", "dictionary", "--lake", lake))
    assert "## packets" in page
    assert "`sending_time_ns` | bigint | " in page


def test_a_channel_is_dropped_after_a_preview(pregao, lake):
    looked = ran(pregao("lake", "drop", "--lake", lake, "--channel", "51", "--dry-run"))
    assert "would be dropped" in looked
    assert "The lake is consistent." in ran(pregao("lake", "check", "--lake", lake))
    unconfirmed = pregao("lake", "drop", "--lake", lake, "--channel", "51")
    assert unconfirmed.code == 2
    assert "add --yes" in unconfirmed.err
    done = ran(pregao("lake", "drop", "--lake", lake, "--channel", "51", "--yes"))
    assert "umdf_order_mbo_50" in done
    assert "The lake is consistent." in ran(pregao("lake", "check", "--lake", lake))
    counted = ran(pregao("query", "SELECT count(*) AS n FROM packets", "--lake", lake))
    assert counted.split()[-1] == "0"


def test_rows_of_a_query_as_json(pregao, lake):
    sql = "SELECT symbol, price FROM ticks, (SELECT 1.50::DECIMAL(5,2) AS price) ORDER BY symbol"
    result = pregao("query", sql, "--lake", lake, "--json", "-n", 2)
    rows = json.loads(ran(result))
    assert [set(row) for row in rows] == [{"symbol", "price"}] * 2
    assert [row["price"] for row in rows] == ["1.50"] * 2  # a string, with all its digits
    assert "more rows; use --limit or -o" in result.err
    assert json.loads(ran(pregao("query", "SELECT 1 WHERE false", "--lake", lake, "--json"))) == []
    names = [each["name"] for each in json.loads(ran(pregao("query", "--examples", "--json")))]
    assert "vwap_by_minute" in names
    done = pregao("query", "SELECT 1", "--lake", lake, "--json", "-o", "x.csv")
    assert (done.code, "--json is for standard output" in done.err) == (2, True)


def test_upkeep_as_json(pregao, lake):
    checked = json.loads(ran(pregao("lake", "check", "--lake", lake, "--json")))
    assert (checked["units"], checked["faults"], checked["counted"]) == (1, [], True)
    assert checked["messages"] > 100
    compacted = json.loads(ran(pregao("lake", "compact", "--lake", lake, "--json")))
    assert all(each["files"] >= each["into"] for each in compacted)
    orphan = f"packets/part-{'0' * 32}.parquet"
    (lake / orphan).write_bytes(b"left")
    (lake / "packets" / "notes.parquet").write_bytes(b"of someone else")
    arguments = ("lake", "vacuum", "--lake", lake, "--older-than", "0s", "--json")
    would, done = (json.loads(ran(pregao(*arguments, *more))) for more in (["--dry-run"], []))
    assert {"file": orphan, "bytes": 4} in would["files"]
    assert would["unknown"] == done["unknown"] == ["packets/notes.parquet"]
    assert (would["removed"], done["removed"]) == (False, True)
    assert would["files"] == done["files"]
    for file in (lake / "packets").rglob("*.parquet"):
        file.unlink()
    broken = pregao("lake", "check", "--lake", lake, "--json")
    assert (broken.code, "is inconsistent" in broken.err) == (2, True)
    found = json.loads(broken.out)
    assert (found["counted"], len(found["faults"]) > 0) == (False, True)
