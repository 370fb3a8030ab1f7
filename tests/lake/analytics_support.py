"""A simulated day with its analytics, made once per run, and its messages in order."""

import json
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
from deltalake import DeltaTable

from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.reading import LakeDay, LakeFiles
from pregao.lake.analytics.run import analyse
from pregao.lake.books.build import build_books
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.storage.lake_store import LakeStore
from tests.build_once import build_once
from tests.lake.days import day

DATE = date(2026, 5, 21)


def lake_of(**settings):
    """A lake with the captures of a simulated day, and the folder of its truth."""
    folder = day(**settings)
    lake = LakeStore(Path(mkdtemp(prefix="pregao-lake-")) / "lake")
    ingest([str(folder)], lake.location)
    return lake, folder / "truth"


def analysed(tables=None, books=False, **settings):
    """A lake with analytics tables, after books if needed, built once for all tests."""
    truth = day(**settings) / "truth"

    def make(folder):
        lake = LakeStore(folder)
        ingest([str(truth.parent)], lake.location)
        if books:
            build_books(lake.location)
        analyse(lake, tables=tables)

    chosen = {"tables": tables, "books": books, **settings}
    return LakeStore(build_once("analysed", chosen, make)), truth


@contextmanager
def few_partitions(spark):
    """Days this small need no more than one."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "1")
    try:
        yield
    finally:
        spark.conf.set(name, before)


@contextmanager
def the_day(lake):
    """The rows of the day of a lake, of all its channels."""
    with LocalSession(lake.location) as session:
        yield LakeDay(session, LakeFiles(lake).day(DATE))


def rows(lake, table, **only):
    """The rows of a table that have these values."""
    found = DeltaTable(str(lake.location.join(table))).to_pyarrow_table().to_pylist()
    return [row for row in found if all(row[name] == value for name, value in only.items())]


def latency_times(lake, **only):
    """The rows of the table ``latency`` with all their times, as its view gives them."""
    found = DuckdbEngine(lake).query("SELECT * FROM v_latency").rows()
    numbers = [field.name for field in found.schema if not pa.types.is_timestamp(field.type)]
    return [
        row
        for row in found.select(numbers).to_pylist()
        if all(row[name] == value for name, value in only.items())
    ]


def message_key(row):
    return row["sequence_version"], row["sequence_number"], row["index_in_packet"]


def messages(lake, *templates):
    """The incremental messages of templates, each with its template, in the channels' order."""
    names = {int(name.rpartition("_")[2]): name for name in lake.table_names() if "umdf" in name}
    found = [
        row | {"template": template}
        for template in templates
        for row in rows(lake, names[template], stream="incremental")
    ]
    return sorted(found, key=lambda row: (row["channel"], *message_key(row)))


def truth_lines(truth, name):
    return [json.loads(line) for line in (truth / name).read_text().splitlines()]


def in_some_order(lake, table):
    """The rows of a table, exact to the last digit, in an order that is theirs."""
    return sorted(map(repr, rows(lake, table)))
