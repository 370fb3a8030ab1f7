"""Analytics tables that an earlier version built with other columns: rebuilt, or refused."""

import dataclasses
import datetime
import shutil

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pregao.errors import PregaoError, UsageError
from pregao.lake.analytics.run import ANALYTICS, analyse
from pregao.lake.sql.duckdb_engine import DuckdbEngine, bound_rows
from pregao.lake.sql.engines import RENAMED
from pregao.lake.storage.delta import arrow_schema, replace_columns
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import DATE, analysed, rows

SMALL = {"seed": 3, "instruments": 2, "duration": "10s"}
OLD = {new: old for old, new in RENAMED.items()}
CHANGED = ("auctions", "clock_offsets", "orders", "session_stats", "status")


@pytest.fixture
def lake(tmp_path):
    whole, _ = analysed(CHANGED, **SMALL)
    shutil.copytree(whole.location.path, tmp_path / "lake")
    return LakeStore(tmp_path / "lake")


def outdated(lake, name, *days):
    """Rewrite a table with the columns of version 0.1 and its rows on some days."""
    spec, before = ANALYTICS[name].spec, lake.delta(name).to_pyarrow_table()
    schema = pa.schema([field.with_name(OLD.get(field.name, field.name)) for field in spec.schema])
    location = lake.table_location(name)
    replace_columns(location, dataclasses.replace(spec, schema=schema), {})
    data = before.rename_columns([OLD.get(column, column) for column in before.column_names])
    for day in days:
        dates = pa.array([day] * len(data), pa.date32())
        shown = data.set_column(data.column_names.index("date"), "date", dates)
        write_deltalake(lake.delta(name), shown.select(schema.names), mode="append")
    return schema


def columns(lake, name):
    return arrow_schema(lake.delta(name)).names


def by_text(found):
    return sorted(map(str, found))


@pytest.mark.parametrize("name", CHANGED)
def test_a_table_with_the_columns_of_version_0_1_is_rebuilt(lake, name):
    expected = rows(lake, name)
    assert set(outdated(lake, name, DATE).names) & set(RENAMED)
    made = {one.table: one.rows for one in analyse(lake, tables=[name])}
    assert made[name] == len(expected)
    assert columns(lake, name) == ANALYTICS[name].spec.schema.names
    assert by_text(rows(lake, name)) == by_text(expected)
    # It is up to date now, and its settings and partitions are those of a new table.
    assert {one.rows for one in analyse(lake, tables=[name])} == {None}
    metadata = lake.delta(name).metadata()
    assert metadata.partition_columns == ["date"]
    assert "delta.dataSkippingStatsColumns" in metadata.configuration


def test_days_that_are_not_rebuilt_are_not_lost(lake):
    later = DATE + datetime.timedelta(1)
    outdated(lake, "status", DATE, later)
    version = lake.delta("status").version()
    words = (
        r"the table status was built by an earlier version of Pregão \(it has the columns "
        r"separate, told_by\); rebuild all its days first: pregao analytics "
        r"without --date\."
    )
    with pytest.raises(UsageError, match=words):
        analyse(lake, tables=["status"], dates=[DATE])
    assert lake.delta("status").version() == version


def test_one_day_is_rebuilt_where_there_is_no_other(lake):
    expected = rows(lake, "status")
    outdated(lake, "status", DATE)
    analyse(lake, tables=["status"], dates=[DATE])
    assert by_text(rows(lake, "status")) == by_text(expected)


def test_days_count_as_unbuilt_until_they_are_rebuilt(lake, monkeypatch):
    """Also where an interrupted run has removed the rows, and the inputs are the same."""
    expected = rows(lake, "status")
    outdated(lake, "status", DATE)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LakeStore, "ensure_tables", interrupted)
        with pytest.raises(KeyboardInterrupt):
            analyse(lake, tables=["status"])
    assert rows(lake, "status") == []
    analyse(lake, tables=["status"])
    assert by_text(rows(lake, "status")) == by_text(expected)


def test_errors_of_queries_name_the_other_column(lake):
    engine = DuckdbEngine(lake)
    with pytest.raises(UsageError, match=r"told_by is called source since version 0\.2\.$"):
        engine.query("SELECT told_by FROM status")
    with pytest.raises(UsageError, match=r'"source" not found') as failed:
        engine.query("SELECT source FROM orders")
    assert "version 0.1" not in str(failed.value)
    outdated(lake, "status", DATE)
    words = r"Tables of version 0\.1 have told_by instead of source: rebuild them with pregao anal"
    with pytest.raises(UsageError, match=words):
        DuckdbEngine(lake).query("SELECT s.source FROM status s")
    with pytest.raises(PregaoError, match=words):
        bound_rows(lake, ["status"], "SELECT source FROM status")
