"""Queries read the files that may have rows for them, and give the same answers as with all."""

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.lake.ingest import compact
from pregao.lake.sql import duckdb_engine
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.skipping import Condition, admitted, conditions
from pregao.lake.store import Lake, Unit, compaction
from tests.lake.lake_support import ORDERS, TRADES, order, write_file

DAYS = ("2026-05-20", "2026-05-21", "2026-05-22")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Three days of forty instruments, in files of a few instruments each."""
    lake = Lake(tmp_path_factory.mktemp("skipping"))
    lake.ensure_tables([ORDERS, TRADES])
    for number, day in enumerate(DAYS):
        rows = [
            order(security, 10 * security + place, side="BID" if place else None)
            for security in range(40)
            for place in range(2)
        ]
        trades = [{"security_id": security} for security in (None, *range(0, 40, 3))]
        files = (
            write_file(lake.location, ORDERS, rows, day),
            write_file(lake.location, ORDERS, rows[:4], day),
            write_file(lake.location, TRADES, trades, day),
        )
        lake.commit(Unit(f"u{number}", (), files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "TARGET_ROWS", 12)
        compact(lake, ["orders"])
    return lake


@pytest.fixture
def read(monkeypatch):
    """The files that were opened, by table, as a query was planned."""
    found: dict[str, int] = {}
    opened = duckdb_engine._open

    def count(connection, table):
        found[table.name] = table.actions.num_rows
        return opened(connection, table)

    monkeypatch.setattr(duckdb_engine, "_open", count)
    return found


def answer(lake, sql):
    rows = DuckdbEngine(lake).ask(sql).rows().to_pylist()
    return sorted(map(str, rows))


def answer_of_all(lake, sql):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb_engine, "_scans", lambda *_: {})
        return answer(lake, sql)


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("security_id = 7", 3),
        ("security_id = 7 AND date = '2026-05-21'", 1),
        ("date = DATE '2026-05-21'", 7),
        ("date BETWEEN '2026-05-21' AND '2026-05-29' AND security_id < 3", 2),
        ("security_id IN (1, 2, 39)", 6),
        ("security_id = 7 OR security_id = 39", 21),
        ("sequence_number = 71", 3),
        ("security_id = 99", 0),
        ("security_id = 7 OR side = 'BID'", 21),
        ("security_id <> 7", 21),
        ("length(side) = 3", 21),
    ],
)
def test_conditions_choose_files(lake, read, where, files):
    sql = f"SELECT count(*) AS n FROM orders WHERE {where}"
    found = answer(lake, sql)
    assert read == {"orders": files}
    assert found == answer_of_all(lake, sql)


QUERIES = (
    # Read twice, each with conditions of its own.
    "SELECT count(*) FROM orders a, orders b WHERE a.security_id = 7 AND b.security_id = 39",
    "SELECT * FROM orders WHERE security_id = 7 UNION ALL SELECT * FROM orders WHERE price > 9",
    "SELECT * FROM orders WHERE security_id = 7 UNION ALL SELECT * FROM orders WHERE price < -9",
    "SELECT * FROM orders WHERE security_id = (SELECT max(security_id) FROM orders)",
    "SELECT * FROM orders o WHERE security_id = 9 AND NOT EXISTS "
    "(SELECT 1 FROM trades t WHERE t.security_id = o.security_id + 1)",
    "SELECT count(*) FROM orders LEFT JOIN trades USING (security_id) WHERE date_part('day', "
    "orders.date) = 21",
    "SELECT count(*) FROM orders o LEFT JOIN trades t ON t.security_id = o.security_id "
    "AND t.security_id = 3",
    "SELECT count(*) FROM trades WHERE security_id IS NULL",
    "WITH few AS (SELECT * FROM orders WHERE security_id < 4) SELECT count(*) FROM few, orders",
    "SELECT security_id, sum(sequence_number) OVER (ORDER BY security_id, date, sequence_number) "
    "FROM orders QUALIFY security_id = 30",
    "SELECT * FROM orders WHERE security_id = 7 ORDER BY date, sequence_number DESC LIMIT 1",
    "SELECT count(*) FROM orders WHERE security_id = 7 AND security_id = 8",
    "SELECT count(*) FILTER (WHERE security_id = 7) FROM orders",
    "EXPLAIN SELECT count(*) AS n FROM orders WHERE security_id = 99",
    "DESCRIBE SELECT * FROM orders WHERE security_id = 7",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_the_same_with_fewer_files(lake, sql):
    found = answer(lake, sql)
    if not sql.startswith("EXPLAIN"):
        assert found == answer_of_all(lake, sql)
    assert found


ATOMS = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["security_id", "sequence_number", "sequence_version"]),
        st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]),
        st.integers(-1, 41),
    ),
    st.builds("date {} '{}'".format, st.sampled_from("=<>"), st.sampled_from(DAYS)),
    st.builds("security_id IN ({}, {}, {})".format, *[st.integers(0, 40)] * 3),
    st.builds("security_id BETWEEN {} AND {}".format, *[st.integers(0, 40)] * 2),
    st.sampled_from(["side IS NULL", "side = 'BID'", "expiry > date", "price = 10.0"]),
)
WHERES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=15, deadline=None)
@given(WHERES, WHERES)
def test_whatever_is_asked_the_answer_is_that_of_all_files(lake, first, second):
    sql = f"""SELECT count(*), sum(security_id), sum(sequence_number) FROM orders WHERE {first}
        UNION ALL SELECT count(*), sum(security_id), max(sequence_number) FROM orders WHERE {second}
    """
    assert answer(lake, sql) == answer_of_all(lake, sql)


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("(security_id = 5)", [("security_id", "=", (5,))]),
        ("((a >= -3) AND (a < 7::SMALLINT))", [("a", ">=", (-3,)), ("a", "<", (7,))]),
        ("(\"date\" = '2026-05-21'::DATE)", [("date", "=", (date(2026, 5, 21),))]),
        ("optional: (a IN (1, 2))", [("a", "=", (1, 2))]),
        ("((a = 1) OR (b = 2))", []),
        ("(a = 1) OR (b = 2)", []),
        ("(s = 'x) AND (a = 1')", []),
        ("(a = 1.5)", []),
        ("(a IS NOT NULL)", []),
        ("(CAST(a AS VARCHAR) = '5')", []),
        ("optional: (a IN (1, 'x'))", []),
        ("optional: Dynamic Filter (a)", []),
        ("(a = ", []),
    ],
)
def test_only_plain_comparisons_are_understood(text, understood):
    found = [(each.column, each.comparison, each.values) for each in conditions(text)]
    assert found == understood


def test_a_file_without_bounds_may_have_anything():
    actions = pa.table(
        {
            "path": ["a", "b", "c"],
            "min.x": pa.array([1, None, 5], pa.int16()),
            "max.x": pa.array([2, None, 9], pa.int16()),
        }
    )

    def paths(*wanted):
        return admitted(actions, [[Condition(*each) for each in wanted]])["path"].to_pylist()

    assert paths(("x", "=", (6,))) == ["b", "c"]
    assert paths(("x", "=", (6, 1))) == ["a", "b", "c"]
    assert paths(("x", "<", (5,)), ("x", ">=", (2,))) == ["a", "b"]
    assert paths(("y", "=", (6,))) == ["a", "b", "c"]
    assert paths(("x", "=", (1 << 40,))) == ["a", "b", "c"]
    assert admitted(actions, [])["path"].to_pylist() == ["a", "b", "c"]
