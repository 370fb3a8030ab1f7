"""Queries read the files that may have rows for them, and give the same answers as with all."""

import os
from datetime import date, datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.lake.ingest.maintenance import compact
from pregao.lake.sql import duckdb_engine
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.duckdb_session import open_session
from pregao.lake.sql.file_pruning import (
    Comparison,
    Every,
    Some,
    admitted,
    find_scans,
    readable_table,
)
from pregao.lake.sql.query_guard import parse
from pregao.lake.storage import optimize
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import define_views, view_names
from tests.lake.lake_support import ORDERS, TRADES, order, write_file

DAYS = ("2026-05-20", "2026-05-21", "2026-05-22")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Three days of forty instruments, in files of a few instruments each."""
    lake = LakeStore(tmp_path_factory.mktemp("skipping"))
    lake.ensure_tables([ORDERS, TRADES])
    for number, day in enumerate(DAYS):
        rows = [
            order(security, 10 * security + index, side="BID" if index else None)
            for security in range(40)
            for index in range(2)
        ]
        trades = [{"security_id": security} for security in (None, *range(0, 40, 3))]
        files = (
            write_file(lake.location, ORDERS, rows, day),
            write_file(lake.location, ORDERS, rows[:4], day),
            write_file(lake.location, TRADES, trades, day),
        )
        lake.commit(CommitUnit(f"u{number}", (), files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimize, "TARGET_ROWS", 12)
        compact(lake, ["orders"])
    return lake


@pytest.fixture
def read(monkeypatch):
    """The files that were opened, by table, as a query was planned."""
    found: dict[str, int] = {}
    opened = duckdb_engine.open_files

    def count(connection, view, table):
        found[view] = table.actions.num_rows
        return opened(connection, view, table)

    monkeypatch.setattr(duckdb_engine, "open_files", count)
    return found


def answer(lake, sql):
    return sorted(map(str, DuckdbEngine(lake).query(sql).relation.fetchall()))


@pytest.fixture(scope="module")
def everything(lake):
    """DuckDB over all files of the lake: what a query is to give."""
    tables = [duckdb_engine.TableFiles.from_lake(lake, name) for name in lake.table_names()]
    session = open_session(file for table in tables for file in table.local_files())
    for table in tables:
        duckdb_engine.open_files(session, table.name, table)
    duckdb_engine._make_views(session, define_views(lake, view_names(lake.table_names())))
    yield session
    session.close()


def answer_of_all(session, sql):
    return sorted(map(str, session.sql(sql).fetchall()))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("security_id = 7", 3),
        ("security_id = 7 AND date = '2026-05-21'", 1),
        ("date = DATE '2026-05-21'", 7),
        ("date BETWEEN '2026-05-21' AND '2026-05-29' AND security_id < 3", 2),
        ("security_id IN (1, 2, 39)", 6),
        ("security_id = 7 OR security_id = 39", 6),
        ("7 = security_id AND 1 <= sequence_version", 3),
        ("(security_id = 7 OR security_id = 39) AND date = '2026-05-21'", 2),
        ("sequence_number = 71", 3),
        ("security_id = 99", 0),
        ("security_id = 7 OR side = 'BID'", 21),
        ("security_id <> 7", 21),
        ("length(side) = 3", 21),
    ],
)
def test_conditions_choose_files(lake, everything, read, where, files):
    sql = f"SELECT count(*) AS n FROM orders WHERE {where}"
    found = answer(lake, sql)
    assert read == {"orders": files}
    assert found == answer_of_all(everything, sql)


QUERIES = (
    # Read twice, each with separate conditions.
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
def test_answers_are_the_same_with_fewer_files(lake, everything, sql):
    found = answer(lake, sql)
    if not sql.startswith("EXPLAIN"):
        assert found == answer_of_all(everything, sql)
    assert found


COLUMNS = st.sampled_from(["security_id", "sequence_number", "sequence_version"])
SIGNS = st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM"])
NUMBERS = st.one_of(
    st.integers(-1, 41).map(str),
    st.integers(3, 9).map(str),
    st.sampled_from(["NULL", "7.0", "6.5", "'7'", "CAST(7 AS SMALLINT)", "- 3", "1e1", "3 + 4",
                     "9223372036854775808", "(SELECT 7)", "security_id"]),
)  # fmt: skip
DATES = st.one_of(
    st.sampled_from(DAYS).map("'{}'".format),
    st.sampled_from(["DATE '2026-05-21'", "CAST('2026-05-21' AS DATE)", "NULL", "'2026-5-21'",
                     "TIMESTAMP '2026-05-21 12:00:00'", "'2026-05-21'::DATE + 1"]),
)  # fmt: skip


def atoms(prefix):
    column = COLUMNS.map(prefix.__add__)
    return st.one_of(
        st.builds("{} {} {}".format, column, SIGNS, NUMBERS),
        st.builds("{} {} {}".format, NUMBERS, SIGNS, column),
        st.builds((prefix + "date {} {}").format, SIGNS, DATES),
        st.builds("{} {}IN ({}, {})".format, column, st.sampled_from(["", "NOT "]), NUMBERS,
                  NUMBERS),
        st.builds((prefix + "date IN ({}, {})").format, DATES, DATES),
        st.builds("{} {}BETWEEN {} AND {}".format, column, st.sampled_from(["", "NOT "]), NUMBERS,
                  NUMBERS),
        st.builds((prefix + "date BETWEEN {} AND {}").format, DATES, DATES),
        st.sampled_from([f"{prefix}security_id IS NULL", f"{prefix}security_id::VARCHAR LIKE '1%'",
                         f"EXISTS (SELECT 1 FROM trades x WHERE x.security_id = "
                         f"{prefix}security_id AND x.security_id < 9)",
                         f"{prefix}security_id IN (SELECT security_id FROM trades "
                         "WHERE security_id > 20)"]),
    )  # fmt: skip


def wheres(prefix=""):
    chosen = st.builds((prefix + "security_id {} {}").format, SIGNS, st.integers(0, 40))
    return st.one_of(anything(prefix), st.builds("{} AND {}".format, chosen, anything(prefix)))


def anything(prefix):
    return st.recursive(
        atoms(prefix),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
            st.builds("({}) IS TRUE".format, inner),
        ),
        max_leaves=5,
    )


SUMS = "count(*), sum(security_id), sum(sequence_number)"
JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
ALIASED = "count(*), sum(a.security_id), sum(a.sequence_number)"
BOTH = f"{ALIASED}, sum(b.security_id), sum(b.sequence_number)"
NAMES = st.sampled_from(["orders", '"Orders"', "v_orders", "temp.orders", "ORDERS"])
SHAPES = st.one_of(
    st.builds(f"SELECT {SUMS} FROM {{}} WHERE {{}}".format, NAMES, wheres()),
    st.builds(f"SELECT {SUMS} FROM orders WHERE {{}} UNION ALL SELECT {SUMS} FROM v_orders "
              "WHERE {}".format, wheres(), wheres()),
    st.builds("SELECT count(*), sum(a.security_id) FROM {} a {} {} b ON a.security_id = "
              "b.security_id AND a.date = b.date WHERE {}".format,
              NAMES, JOINS, NAMES, wheres("a.")),
    st.builds(f"SELECT {BOTH} FROM orders a {{}} JOIN orders b ON a.sequence_number = "
              "b.sequence_number + 10 AND a.date = b.date WHERE {}".format,
              st.sampled_from(["", "LEFT", "RIGHT", "FULL"]), wheres("b.")),
    st.builds(f"SELECT {BOTH} FROM orders a, orders b WHERE a.sequence_number = b.sequence_number "
              "AND {} AND {}".format, wheres("a."), wheres("b.")),
    st.builds("SELECT count(*), sum(security_id) FROM orders {} trades USING (security_id) WHERE "
              "{} AND orders.security_id > -5".format,
              st.sampled_from(["JOIN", "LEFT JOIN", "SEMI JOIN"]),
              st.sampled_from(["security_id = 9", "orders.date = '2026-05-21'", "1 = 1"])),
    st.builds(f"WITH orders AS (SELECT * FROM orders WHERE {{}}) SELECT {SUMS} FROM orders "
              "WHERE {}".format, wheres(), wheres()),
    st.builds(f"WITH few AS (SELECT * FROM orders WHERE {{}}), trades AS (FROM few) SELECT {SUMS} "
              "FROM trades WHERE {}".format, wheres(), wheres()),
    st.builds(f"SELECT {SUMS} FROM (SELECT * REPLACE (security_id + 1 AS security_id) FROM orders) "
              "AS orders WHERE {}".format, wheres()),
    st.builds(f"SELECT {SUMS} FROM orders GROUP BY date HAVING sum(security_id) > 5 AND {{}}"
              .format, st.sampled_from(["date = '2026-05-21'", "date < '2026-05-22'"])),
    st.builds("SELECT security_id + 1 AS security_id, sequence_number FROM orders WHERE {}".format,
              wheres()),
    st.builds("SELECT security_id, row_number() OVER (ORDER BY date, sequence_number) FROM orders "
              "QUALIFY {}".format, wheres()),
    st.builds("SELECT a.security_id, b.sequence_number FROM orders a ASOF JOIN orders b ON "
              "a.date = b.date AND a.sequence_number >= b.sequence_number + 15 WHERE {}".format,
              wheres("b.")),
    st.builds("SELECT o.security_id, (SELECT max(sequence_number) FROM orders i WHERE "
              "i.security_id = o.security_id AND {}) FROM orders o WHERE {}".format,
              wheres("i."), wheres("o.")),
    st.builds("SELECT a.x, a.date FROM orders AS a(x, security_id, sequence_version) WHERE {}"
              .format, st.sampled_from(["a.security_id = 7", "security_id < 100", "x = 1"])),
    st.builds("SELECT o.security_id, l.n FROM orders o, LATERAL (SELECT count(*) AS n FROM "
              "orders i WHERE i.sequence_number < o.sequence_number AND {}) l WHERE {}".format,
              wheres("i."), wheres("o.")),
)  # fmt: skip
CASES = int(os.environ.get("PREGAO_QUERY_CASES", "40"))


def test_every_query_has_the_rows_that_all_files_give(lake, everything, read):
    pruned = []

    @settings(max_examples=CASES, deadline=None)
    @given(SHAPES)
    def compare(sql):
        try:
            wanted = answer_of_all(everything, sql)
        except duckdb.Error:
            return  # it compares types that cannot be: which files there are does not matter
        read.clear()
        assert answer(lake, sql) == wanted
        pruned.append(read["orders"] < 21)

    compare()
    # Else a scan of all files was compared with itself.
    assert sum(pruned) > len(pruned) // 10


NUMBERS_AND_DAYS = {("t", "a"): int, ("t", "b"): int, ("t", "date"): date, ("u", "a"): int}
READABLES = {
    "t": readable_table("t", ["a", "b", "date", "s"]),
    "u": readable_table("u", ["a", "c"]),
}


def understood(sql, *parameters):
    tree = parse(sql).tree
    return find_scans(tree, READABLES, NUMBERS_AND_DAYS, parameters)


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("a = 5", Every((Comparison("a", "=", (5,)),))),
        ("5 > a", Every((Comparison("a", "<", (5,)),))),
        ('"A" = -5', Every((Comparison("a", "=", (-5,)),))),
        ("a BETWEEN 1 AND 2", Every((Comparison("a", ">=", (1,)), Comparison("a", "<=", (2,))))),
        ("a IN (1, 2)", Every((Comparison("a", "=", (1, 2)),))),
        ("date = '2026-05-21'", Every((Comparison("date", "=", (date(2026, 5, 21),)),))),
        ("t.date < DATE '2026-05-21'", Every((Comparison("date", "<", (date(2026, 5, 21),)),))),
        ("a = 1 OR b = 2", Some((Every((Comparison("a", "=", (1,)),)),
                                 Every((Comparison("b", "=", (2,)),))))),
        ("a = 1 OR s = 'x'", Some((Every((Comparison("a", "=", (1,)),)), Every()))),
        ("a = 1.0", Every()),
        ("a = '1'", Every()),
        ("a = NULL", Every()),
        ("a IN (1, NULL)", Every()),
        ("a BETWEEN 1 AND 2.5", Every()),
        ("NOT a = 1", Every()),
        ("a <> 1", Every()),
        ("a NOT IN (1)", Every()),
        ("a = 9223372036854775808", Every()),
        ("date = '2026-5-21'", Every()),
        ("date = '2026-02-30'", Every()),
        ("date = TIMESTAMP '2026-05-21 00:00:00'", Every()),
        ("date = 5", Every()),
        ("s = 1", Every()),
        ("a + 0 = 1", Every()),
        ("x.a = 1", Every()),
        ("a = b", Every()),
    ],
)  # fmt: skip
def test_only_plain_comparisons_are_understood(where, condition):
    assert understood(f"SELECT s FROM t WHERE {where}") == {"t": [condition]}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s FROM t, u WHERE a = 1",
        "SELECT s FROM t JOIN u USING (a) WHERE a = 1",
        "SELECT s FROM t NATURAL JOIN u WHERE a = 1",
        "SELECT s FROM t NATURAL JOIN (SELECT 1 AS b) AS x WHERE b = 1",
        "SELECT b + 1 AS a FROM t WHERE a = 1",
        "SELECT s FROM t AS x(b, a) WHERE a = 1",
        "SELECT s FROM t TABLESAMPLE 10% WHERE a = 1",
        "SELECT s FROM t WHERE a = 1 USING SAMPLE 10",
        "SELECT s FROM main.t WHERE a = 1",
        "SELECT s FROM t ASOF JOIN u ON t.b >= u.c WHERE b = 1",
        "SELECT s FROM t POSITIONAL JOIN u WHERE t.b = 1",
        "SELECT s FROM u ANTI JOIN t ON u.c = t.b WHERE b = 1",
        "WITH t AS (SELECT * FROM t) SELECT s FROM t WHERE a = 1",
        "SELECT s FROM (SELECT * FROM t) WHERE a = 1",
        "SELECT s FROM t GROUP BY s HAVING max(a) = 1",
        "SELECT s FROM t QUALIFY a = 1",
        "SELECT * FROM (PIVOT t ON a IN (1, 2) USING sum(b)) WHERE date = '2026-05-21'",
        "SUMMARIZE t",
        "SELECT s FROM t WHERE a = 1 UNION SELECT s FROM t",
        "SELECT s FROM t WHERE a = 1 AND EXISTS (SELECT 1 FROM t)",
    ],
)  # fmt: skip
def test_a_table_that_may_be_read_in_another_way_is_read_whole(sql):
    """One of the ways in which it is read has no condition."""
    assert Every() in [_flat(one) for one in understood(sql)["t"]]


def _flat(condition):
    """A condition without the parts that always hold."""
    if isinstance(condition, Every):
        parts = tuple(part for part in map(_flat, condition.parts) if part != Every())
        return parts[0] if len(parts) == 1 else Every(parts)
    return condition


def test_parameters_choose_files_too():
    sql = "SELECT s FROM t WHERE a = ? AND date = ?"
    both = (Every((Comparison("a", "=", (3,)),)),
            Every((Comparison("date", "=", (date(2026, 5, 21),)),)))  # fmt: skip
    assert understood(sql, 3, date(2026, 5, 21)) == {"t": [Every(both)]}
    for odd in (True, 3.0, "3", None, 1 << 63):
        assert understood(sql, odd, date(2026, 5, 21)) == {"t": [Every((Every(), both[1]))]}
    assert understood(sql, 3, datetime(2026, 5, 21)) == {"t": [Every((both[0], Every()))]}


def test_values_are_bound(lake, read):
    sql = "SELECT count(*) AS n FROM orders WHERE security_id = ? AND date = ? AND side = ?"
    day = date(2026, 5, 21)
    (row,) = DuckdbEngine(lake).query(sql, [7, day, "BID"]).rows().to_pylist()
    assert row == {"n": 1}
    assert read == {"orders": 1}
    (row,) = DuckdbEngine(lake).query(sql, [7, day, "' OR '' = '"]).rows().to_pylist()
    assert row == {"n": 0}


def test_a_file_without_bounds_may_have_anything():
    actions = pa.table(
        {
            "path": ["a", "b", "c"],
            "min.x": pa.array([1, None, 5], pa.int16()),
            "max.x": pa.array([2, None, 9], pa.int16()),
        }
    )

    def paths(*wanted):
        conditions = tuple(Comparison(*each) for each in wanted)
        return admitted(actions, [Every(conditions)])["path"].to_pylist()

    assert paths(("x", "=", (6,))) == ["b", "c"]
    assert paths(("x", "=", (6, 1))) == ["a", "b", "c"]
    assert paths(("x", "<", (5,)), ("x", ">=", (2,))) == ["a", "b"]
    assert paths(("x", "<=", (1,))) == ["a", "b"]
    assert paths(("x", "<", (1,))) == ["b"]
    assert paths(("x", ">", (8,))) == ["b", "c"]
    assert paths(("x", ">", (9,))) == ["b"]
    assert paths(("x", ">=", (9,))) == ["b", "c"]
    assert paths(("y", "=", (6,))) == ["a", "b", "c"]
    assert paths(("x", "=", (1 << 40,))) == ["a", "b", "c"]
    assert admitted(actions, [])["path"].to_pylist() == ["a", "b", "c"]
    either = Some((Comparison("x", "=", (1,)), Comparison("x", "=", (6,))))
    assert admitted(actions, [either])["path"].to_pylist() == ["a", "b", "c"]
    assert admitted(actions, [Some((Comparison("x", "=", (1,)),))])["path"].to_pylist() == [
        "a",
        "b",
    ]
