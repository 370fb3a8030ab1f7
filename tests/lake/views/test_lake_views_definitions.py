"""Definitions of views: flag names from the schema, timestamp names, columns of old lakes."""

from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.lake.analytics.run import ANALYTICS
from pregao.lake.data_dictionary import dictionary, own_specs
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.duckdb_script import views_script
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import (
    DURATIONS,
    define_view,
    moment_name,
    moment_unit,
    names_text,
    set_columns,
    view_of,
)
from pregao.lake.views.polars import scan
from pregao.sbe.model import SetType
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from tests.lake.lake_support import ROOT, column, order, write_file
from tests.lake.sql.test_lake_sql_engines import WIDER

VERSIONS = Registry.bundled().versions(UMDF_SCHEMA_ID)


def names_of(name, version, value):
    """The names from the message codec."""
    kind = Registry.bundled().get(UMDF_SCHEMA_ID, version).types[set_columns()[name]]
    assert isinstance(kind, SetType)
    return "|".join(kind.names(value))


def values(name):
    """Every value of a set of one byte; of two bytes, each bit and what is around it."""
    if name == "match_event_indicator":
        return list(range(256))
    return sorted({0, 65535, *(1 << bit for bit in range(16)), *(3 << bit for bit in range(15))})


@pytest.mark.parametrize("name", sorted(set_columns()))
def test_flags_have_the_names_of_their_schema_version(name):
    rows = [(value, version) for version in VERSIONS for value in values(name)]
    flags = pa.table(
        {
            name: pa.array([value for value, _ in rows], pa.int32()),
            "schema_version": pa.array([version for _, version in rows], pa.int32()),
        }
    )
    text = names_text(name, versioned=True)
    expected = [names_of(name, version, value) for value, version in rows]
    assert [row[0] for row in duckdb.sql(f"SELECT {text} FROM flags").fetchall()] == expected
    assert pl.from_arrow(flags).select(pl.sql_expr(text).alias("n"))["n"].to_list() == expected


def test_a_flag_that_changed_its_meaning_is_a_number_where_the_version_is_not_known():
    frame = pl.DataFrame(
        {"match_event_indicator": [16, 128, None], "schema_version": [None, None, 16]},
        schema={"match_event_indicator": pl.Int16, "schema_version": pl.Int32},
    )
    for versioned in (True, False):
        text = names_text("match_event_indicator", versioned=versioned)
        assert frame.select(pl.sql_expr(text).alias("n"))["n"].to_list() == [
            "4",
            "EndOfEvent",
            None,
        ]


def test_every_set_of_the_messages_has_names():
    assert set(set_columns()) == {
        "match_event_indicator", "trade_condition", "original_trade_condition",
        "imbalance_condition",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sending_time_ns", "sending_time"),
        ("md_entry_timestamp_ns", "md_entry_timestamp"),
        ("committed_at_ns", "committed_at"),
        ("t11_ns", "t11"),
        ("last_t11_ns", "last_t11"),
        ("time_ns", "time"),
        ("from_ns", "from_time"),
        ("end_ns", "end_time"),
        ("security_validity_timestamp_s", "security_validity_timestamp"),
    ],
)
def test_moments_have_names_that_no_query_must_quote(name, expected):
    assert moment_name(name) == expected


def test_durations_are_existing_columns():
    known = {field.name for spec in own_specs() for field in spec.schema}
    assert known >= DURATIONS


def test_no_view_has_a_column_twice_and_none_hides_one_of_its_table():
    columns = {spec.name: frozenset(spec.schema.names) for spec in own_specs()}
    for spec in own_specs():
        names = [one.name for one in view_of(spec.name, spec.schema, columns).columns]
        assert len(set(names)) == len(names)
        assert set(spec.schema.names) <= set(names)
        assert all(one.comment for one in view_of(spec.name, spec.schema, columns).columns)


@settings(max_examples=40)
@given(st.data())
def test_any_table_that_lacks_columns_has_a_view(data):
    """Lakes of earlier versions have fewer columns, and fewer other tables."""
    specs = own_specs()
    spec = data.draw(st.sampled_from(specs), label="table")
    kept = data.draw(st.sets(st.sampled_from(spec.schema.names), min_size=1), label="columns")
    schema = pa.schema([field for field in spec.schema if field.name in kept])
    others = {
        one.name: frozenset(data.draw(st.sets(st.sampled_from(one.schema.names))))
        for one in specs
        if one.name in ("instruments", "status") and data.draw(st.booleans())
    }
    view = view_of(spec.name, schema, others)
    assert [one.name for one in view.columns if one.name in schema.names] == schema.names
    for lookup in view.lookups:
        assert set(lookup.takes) <= others[lookup.table]
    for field in schema:
        if moment_unit(field) is not None:
            assert moment_name(field.name) in [one.name for one in view.columns]


OLD_TICKS = TableSpec(
    "ticks",
    pa.schema(
        [
            column("channel", pa.int16()),
            column("security_id", pa.int64()),
            column("sending_time_ns", pa.int64()),
            column("match_event_indicator", pa.int16()),
            column("date", pa.date32()),
        ]
    ),
)


def test_a_lake_without_instruments_states_and_versions_has_views(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([OLD_TICKS])
    row = {"channel": 1, "security_id": 7, "sending_time_ns": 1, "match_event_indicator": 144}
    lake.commit(CommitUnit("u", ("c",), (write_file(tmp_path, OLD_TICKS, [row]),)))
    view = define_view(lake, "v_ticks")
    assert view.lookups == ()
    sql = (
        "SELECT symbol, epoch_ns(sending_time) AS t, match_event_indicator_names AS n FROM v_ticks"
    )
    (found,) = DuckdbEngine(lake).query(sql).rows().to_pylist()
    assert found == {"symbol": None, "t": 1, "n": "4|EndOfEvent"}
    (found,) = (
        scan(lake, "v_ticks").select("symbol", "match_event_indicator_names").collect().rows()
    )
    assert found == (None, "4|EndOfEvent")
    with pytest.raises(UsageError, match="has no view v_nope; it has v_ingests, v_ticks"):
        define_view(lake, "v_nope")


def test_columns_and_members_that_came_later_are_null_before(small_lake):
    """In Polars, and in the file for any DuckDB; `pregao query` is tested with its engines."""
    small_lake.ensure_tables([WIDER])
    row = order(7, 9, legs=[{"leg_id": 1, "ratio": 2}], memo="new", fee=Decimal("0.00000001"))
    file = write_file(small_lake.location, WIDER, [row])
    small_lake.commit(CommitUnit("u3", ("c3",), (file,), ()))
    frame = scan(small_lake, "v_orders").sort("sequence_number").collect().to_arrow()
    plain = duckdb.connect(":memory:")
    plain.execute(views_script(small_lake))
    found = plain.sql("SELECT * FROM v_orders ORDER BY sequence_number").to_arrow_table()
    assert found.column_names == frame.column_names
    assert found.to_pylist() == frame.to_pylist()
    assert [one["memo"] for one in found.to_pylist()] == [None] * 4 + ["new"]
    assert found.to_pylist()[4]["legs"] == [{"leg_id": 1, "ratio": 2}]


def test_a_table_keeps_its_name_even_if_it_is_that_of_a_view(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([OLD_TICKS, TableSpec("v_ticks", OLD_TICKS.schema)])
    assert DuckdbEngine(lake).query("SELECT count(*) AS n FROM v_ticks").rows()[
        "n"
    ].to_pylist() == [0]
    with pytest.raises(UsageError, match="has no view"):
        define_view(lake, "v_ticks")


def test_the_dictionary_is_that_of_this_version():
    assert (ROOT / "docs" / "dictionary.md").read_text() == dictionary(own_specs()), (
        "generate it again with: pregao lake dictionary -o docs/dictionary.md --force"
    )


def test_every_column_has_a_comment():
    for spec in own_specs():
        assert spec.description
        for field in spec.schema:
            assert (field.metadata or {}).get(b"comment"), (spec.name, field.name)
    assert {spec.name for spec in own_specs()} >= set(ANALYTICS)
