"""Analytics in this process: DuckDB with Spark's words says what Spark says."""

import random
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
from pregao.lake.analytics.bars import with_average
from pregao.lake.analytics.engine import F, Window, local_engine, spark_type
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.run import ANALYTICS, analyse
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import DATE, few_partitions, in_some_order, lake_of
from tests.lake.days import day

SMALL = {"seed": 3, "instruments": 2, "duration": "10s"}
ROW_SCHEMA = (
    "team int, place bigint, price decimal(18,4), size bigint, name string, flag boolean, "
    "bits int, notional decimal(34,4)"
)
COUNT = 300


@pytest.fixture(scope="module")
def lake():
    return lake_of(**SMALL)[0]


@pytest.fixture
def local_session(lake):
    with local_engine(), LocalSession(lake) as session:
        yield session


def random_rows():
    """Rows with nulls and ties in every column but the first."""
    chosen = random.Random(7)

    def or_null(value):
        return None if chosen.random() < 0.2 else value

    return [
        (
            chosen.randrange(6),
            or_null(chosen.randrange(-40, 40)),
            or_null(Decimal(chosen.randrange(-(10**17), 10**17)).scaleb(-4)),
            or_null(chosen.randrange(-(10**12), 10**12)),
            or_null(chosen.choice(["", "a", "b'", '"c', "É"])),
            or_null(chosen.random() < 0.5),
            or_null(chosen.randrange(256)),
            or_null(Decimal(chosen.randrange(-(10**24), 10**24)).scaleb(-4)),
        )
        for _ in range(COUNT)
    ]


def grouped(rows):
    struct = F.struct("place", "price", F.col("size").alias("other"))
    at = F.when(F.col("flag"), F.col("place") * 1000 + F.col("number"))
    grouped_rows = rows.groupBy("team", F.col("bits").bitwiseAND(3).alias("kind")).agg(
        F.min_by("price", at).alias("first_price"),
        F.max_by(struct, at).alias("last"),
        F.max_by(F.struct("name"), at)["name"].alias("last_name"),
        F.min("name").alias("lowest"),
        F.max("notional").alias("highest"),
        F.sum("size").cast("bigint").alias("volume"),
        F.sum(F.col("price") * F.col("bits").cast("decimal(19,0)")).alias("amount"),
        F.sum("notional").cast("decimal(34,4)").alias("notional"),
        F.count(F.lit(1)).alias("rows"),
        F.count("flag").alias("flags"),
        F.count_if("flag").alias("true"),
        F.count_distinct("name").alias("names"),
        F.percentile("size", [0.0, 0.1, 0.5, 0.999]).alias("percentiles"),
        F.sort_array(F.collect_list(F.struct("number", "name"))).alias("all"),
        F.sort_array(F.collect_list(F.when(F.col("bits") > 250, F.col("number")))).alias("few"),
    )
    whole = with_average(grouped_rows).select(
        "*",
        "last.*",
        F.get("percentiles", F.lit(1)).alias("tenth"),
        F.get("few", F.lit(0)).alias("one"),
        F.try_element_at("few", F.lit(-1)).alias("newest"),
        F.size(F.filter("all", lambda one: one["number"] > F.col("rows"))).alias("later"),
        F.transform("all", lambda one: F.struct(one["name"])).alias("only_names"),
    )
    return whole.drop("percentiles", "last")


def single(rows):
    price, size = F.col("price"), F.col("size")
    side = F.when(F.col("bits") > 200, "much").when(F.col("bits") > 100, F.col("name"))
    return rows.select(
        "number",
        (price - F.col("notional")).alias("difference"),
        F.abs(price * F.col("bits").cast("decimal(19,0)")).alias("amount"),
        F.pmod("place", F.lit(7)).alias("rest"),
        F.greatest("place", "size", F.lit(5)).alias("most"),
        F.least("place", "size").alias("least"),
        F.coalesce("name", F.lit("none")).alias("called"),
        side.otherwise(F.lit("little")).alias("side"),
        side.alias("or_null"),
        F.col("name").isin("a", "b'", "none").alias("among"),
        F.col("name").eqNullSafe(F.lag("name").over(in_order())).alias("same"),
        (~F.col("flag") & (size > 0) | price.isNull()).alias("logic"),
        (F.col("bits").bitwiseOR(F.lit(6)) != 0).alias("any_bit"),
        F.array_compact(F.array("name", F.lit("x"))).alias("names"),
        (10 * size - 1).alias("tenfold"),
    )


def in_order():
    return Window.partitionBy("team").orderBy("number")


def windowed(rows):
    # The frame is Spark's: up to the last row that is equal in the order.
    by_position = Window.partitionBy("team").orderBy("place")
    backwards = Window.partitionBy("team").orderBy(F.desc("place"), F.desc("number"))
    return rows.select(
        "number",
        F.sum("bits").over(by_position).cast("bigint").alias("so_far"),
        F.count_if("flag").over(by_position).alias("flags"),
        F.max("price").over(Window.partitionBy("name")).alias("most"),
        F.last("size", ignorenulls=True).over(backwards).alias("next_size"),
        F.last(F.when(F.col("flag"), F.struct("name")), ignorenulls=True)
        .over(in_order())["name"]
        .alias("flagged"),
        F.lag("place").over(in_order()).alias("before"),
        F.lead("name").over(in_order()).alias("behind"),
    )


def joined(rows):
    some = rows.where(F.col("bits") < 100).select("name", "place", F.lit(1).alias("seen"))
    pairs = rows.select("number", "name", "place").join(some, ["name", "place"], "left")
    both = pairs.unionByName(
        rows.where("flag").select("number", "name", "price", F.lit(2).alias("seen")),
        allowMissingColumns=True,
    )
    wide = both.join(some.select("name").distinct(), "name", "left_semi").withColumn(
        "seen", F.explode(F.array("seen", "number"))
    )
    spans = F.array(
        F.struct(F.lit("a").alias("what"), F.expr("number - place").alias("span")),
        F.struct(F.lit("b").alias("what"), F.col("seen").alias("span")),
    )
    return wide.select("number", F.inline(spans), "price").unionByName(
        rows.dropna()
        .select("number", "price", F.col("name").alias("what"), "size")
        .withColumn("span", F.col("size"))
        .drop("size")
    )


QUESTIONS = {question.__name__: question for question in (grouped, single, windowed, joined)}


@pytest.mark.parametrize("name", QUESTIONS)
def test_columns_mean_what_they_mean_in_spark(spark, lake, name):
    numbered = [(*row, number) for number, row in enumerate(random_rows())]
    schema = f"{ROW_SCHEMA}, number bigint"
    with local_engine(), LocalSession(lake) as session:
        ours = plain(QUESTIONS[name](session.createDataFrame(numbered, schema)).collect())
    with few_partitions(spark):
        collected = QUESTIONS[name](spark.createDataFrame(numbered, schema)).collect()
        theirs = plain(row.asDict(recursive=True) for row in collected)
    assert ours == theirs
    assert ours


def plain(rows):
    """Rows in an order that is theirs, exact to the last digit."""
    return sorted(repr(list(row.items())) for row in rows)


amounts = st.decimals(1 - 10**14, 10**14 - 1, places=4)
volumes = st.integers(-(10**12), 10**12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(amounts, volumes), min_size=1, max_size=200))
@example([(Decimal("0.0001"), 20_000), (Decimal("-0.0001"), 20_000), (Decimal(1), 3)])
@example([(Decimal(7), 0), (Decimal(0), 5), (Decimal("99999999999999.9999"), 1)])
def test_an_average_is_rounded_once_half_away_from_zero(lake, pairs):
    with local_engine(), LocalSession(lake) as session:
        sums = session.createDataFrame(pairs, "notional decimal(34,4), volume bigint")
        found = [row["vwap"] for row in with_average(sums.withColumn("n", F.lit(1))).collect()]
    exact = [
        (amount / volume).quantize(Decimal("1e-8"), ROUND_HALF_UP) if volume else None
        for amount, volume in pairs
    ]
    assert Counter(found) == Counter(exact)


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
    with local_engine(), LocalSession(lake, 64 << 20) as session:
        numbers = "SELECT range AS number, hash(range) AS value FROM range(8000000)"
        kept = session.stored(type(session.table("packets"))(session, numbers, ["number", "value"]))
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
    with pytest.raises(
        PregaoError, match=r"^trades of 2026-05-21 could not be built: .*'x'"
    ) as error_info:
        writing.replace_day(lake, table, frame, DATE, 1)
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize(
    "error", [duckdb.InterruptException("x"), RuntimeError("Query interrupted")]
)
def test_an_interrupt_is_one_whatever_class_it_comes_in(local_session, monkeypatch, error):
    def interrupted(*_arguments, **_options):
        raise error

    monkeypatch.setattr("pregao.lake.analytics.local.session.open_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        local_session.table("packets")


def test_a_lake_on_s3_gives_the_same_rows(s3_endpoint, tmp_path):
    lakes = LakeStore("s3://bucket/lake"), LakeStore(tmp_path / "lake")
    for store in lakes:
        ingest([str(day(**SMALL))], store.location)
        (made,) = analyse(None, store, tables=["trades"])
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
    assert "up to date" in run("--lake", lake.location, "--table", "trades")
    assert run(*options, "--table", "trades", "--quiet") == ""
    assert "up to date" in run(*options, "--table", "trades")
