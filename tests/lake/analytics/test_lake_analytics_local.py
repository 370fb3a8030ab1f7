"""Sessions of DuckDB: the files they can read, their memory, their errors."""

from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain

import duckdb
import pytest
import typer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pregao.cli.analytics import analytics
from pregao.errors import PregaoError, UsageError
from pregao.lake.analytics import writing
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.columns import spark_type
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.analytics.run import analyse
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.sql.table_files import TableFiles
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import DATE, in_some_order, lake_of
from tests.lake.days import day

SMALL = {"seed": 3, "instruments": 2, "duration": "10s"}


@pytest.fixture(scope="module")
def lake():
    return lake_of(**SMALL)[0]


@pytest.fixture
def local_session(lake):
    with LocalSession(lake.location) as session:
        yield session


amounts = st.decimals(1 - 10**14, 10**14 - 1, places=4)
volumes = st.integers(-(10**12), 10**12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(amounts, volumes), min_size=1, max_size=200))
@example([(Decimal("0.0001"), 20_000), (Decimal("-0.0001"), 20_000), (Decimal(1), 3)])
@example([(Decimal(7), 0), (Decimal(0), 5), (Decimal("99999999999999.9999"), 1)])
def test_an_average_is_rounded_once_half_away_from_zero(lake, pairs):
    with LocalSession(lake.location) as session:
        sums = session.createDataFrame(pairs, "notional decimal(34,4), volume bigint")
        statement = "SELECT average_price(notional, volume) AS vwap FROM sums"
        found = [row["vwap"] for row in session.query(statement, {"sums": sums}, {}).collect()]
    exact = [
        (amount / volume).quantize(Decimal("1e-8"), ROUND_HALF_UP) if volume else None
        for amount, volume in pairs
    ]
    assert Counter(found) == Counter(exact)


def packets(session, lake):
    return session.table(TableFiles.from_lake(lake, "packets"))


def test_every_type_of_the_tables_has_a_name_in_duckdb(local_session):
    columns = list(chain.from_iterable(table.columns for table in ANALYTICS.values()))
    for column in columns:
        named = f"{column.name} {spark_type(column.type)}"
        assert local_session.createDataFrame([], named).collect() == []


def test_only_the_files_of_the_lake_can_be_read(local_session, tmp_path):
    (tmp_path / "other.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"SELECT * FROM '{tmp_path}/other.csv'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(PregaoError):
            list(local_session.batches(sql))


def test_little_memory_is_enough_and_the_disk_is_left_clean(lake, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LocalSession(lake.location, 64 << 20) as session:
        numbers = "SELECT range AS number, hash(range) AS value FROM range(8000000)"
        kept = session.stored(type(packets(session, lake))(session, numbers, ["number", "value"]))
        assert any(tmp_path.rglob("*.tmp"))
        assert len(kept.where("number % 1000000 = 0").collect()) == 8
    # The folder of the process stays until its end: empty, and its owner's alone.
    (left,) = tmp_path.rglob("*")
    assert left.stat().st_mode & 0o777 == 0o700


def test_names_that_would_hide_each_other_are_refused(local_session):
    frame = local_session.createDataFrame([(1, 2)], "a int, b int")
    with pytest.raises(ValueError, match="different names"):
        frame.select("*", F.lit(1).alias("a"))
    with pytest.raises(ValueError, match="needs a name"):
        frame.select(F.col("a") + 1)
    with pytest.raises(ValueError, match="not in both frames: b"):
        frame.unionByName(frame.select("a"))
    with pytest.raises(TypeError, match="cannot be converted to bool"):
        assert F.col("a") == 1


def test_a_failure_is_one_line(lake, local_session):
    table = ANALYTICS["trades"]
    lake.ensure_tables([table.spec])
    frame = local_session.createDataFrame([("x",)], "channel string").select(
        F.col("channel").cast("int").alias("channel"),
        *[F.lit(1).alias(name) for name in table.sort_by if name != "channel"],
    )
    with (
        pytest.raises(
            PregaoError, match=r"^trades of 2026-05-21 could not be built: .*'x'"
        ) as error_info,
        writing.describe_failure(["trades"], DATE),
    ):
        writing.write_frame(lake.location, table, frame, DATE, "_staging/x", "0")
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize(
    "error", [duckdb.InterruptException("x"), RuntimeError("Query interrupted")]
)
def test_an_interrupt_is_one_whatever_class_it_comes_in(lake, local_session, monkeypatch, error):
    def interrupted(*_arguments, **_options):
        raise error

    monkeypatch.setattr("pregao.lake.analytics.local.session.open_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        packets(local_session, lake)


def test_a_lake_on_s3_gives_the_same_rows(s3_endpoint, tmp_path):
    lakes = LakeStore("s3://bucket/lake"), LakeStore(tmp_path / "lake")
    for store in lakes:
        ingest([str(day(**SMALL))], store.location)
        (made,) = analyse(store, tables=["trades"])
        assert made.rows
    remote, local = (
        sorted(map(repr, store.delta("trades").to_pyarrow_table().to_pylist())) for store in lakes
    )
    assert remote == local


app = typer.Typer(pretty_exceptions_enable=False)
app.command()(analytics)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_needs_no_java(tmp_path, monkeypatch):
    from pregao.lake.execution import spark_session

    def none(*_arguments):
        raise UsageError("Spark needs Java.")

    monkeypatch.setattr(spark_session, "find_java", none)
    monkeypatch.setattr("pregao.lake.execution.spark_session.spark_session", none)
    lake = LakeStore(tmp_path / "lake")
    ingest([str(day(**SMALL))], lake.location)
    options = ("--lake", lake.location, "--engine", "local")
    assert "trades" in run(*options, "--table", "bars", "--interval", "1m")
    made = in_some_order(lake, "bars")
    assert made
    # A day is identified by its inputs, whichever engine built it.
    assert "up to date" in run("--lake", lake.location, "--engine", "local", "--table", "trades")
    assert run(*options, "--table", "trades", "--quiet") == ""
    assert "up to date" in run(*options, "--table", "trades")
