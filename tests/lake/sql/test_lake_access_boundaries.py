"""The smallest and largest value of every type, and null, are the same in every engine."""

from datetime import date
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pregao.lake.sql.spark_tables import connect
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.lake_support import column, ingest_row, write_file

SCALES = (4, 7, 8, 9)
COLUMNS = {
    "short": (pa.int16(), [-(2**15), 2**15 - 1, 0]),
    "unsigned_32": (pa.int64(), [0, 2**32 - 1, 1]),
    "number": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "time_ns": (pa.int64(), [0, 2**63 - 1, 1_779_364_800_000_000_001]),
    "day": (pa.date32(), [date(1970, 1, 1), date(9999, 12, 31), date(2026, 5, 21)]),
    "word": (pa.string(), ["", "é" * 40, 'with "quotes", and\nlines']),
    **{
        f"price_{scale}": (
            pa.decimal128(18, scale),
            [
                Decimal(-(10**18 - 1)).scaleb(-scale),
                Decimal(10**18 - 1).scaleb(-scale),
                Decimal(1).scaleb(-scale),
            ],
        )
        for scale in SCALES
    },
}
SPEC = TableSpec(
    "edges",
    pa.schema(
        [
            column("row", pa.int32()),
            *(column(name, kind) for name, (kind, _) in COLUMNS.items()),
            column("date", pa.date32()),
        ]
    ),
)
ROWS = [
    {"row": number, **{name: values[number] for name, (_, values) in COLUMNS.items()}}
    for number in range(3)
] + [{"row": 3, **dict.fromkeys(COLUMNS)}]


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    lake = LakeStore(tmp_path_factory.mktemp("edges") / "lake")
    lake.ensure_table(SPEC)
    files = tuple(write_file(lake.location, SPEC, [row]) for row in ROWS)
    lake.commit(CommitUnit("u", ("c",), files, (ingest_row("c"),)))
    return lake


def without_date(rows):
    return [{name: row[name] for name in ROWS[0]} for row in rows]


def test_spark(spark, edges):
    session = connect(edges.location, spark=spark)
    rows = session.sql("SELECT * FROM edges ORDER BY row").collect()
    assert without_date([row.asDict() for row in rows]) == ROWS
    for number, value in enumerate(COLUMNS["price_4"][1]):
        found = session.sql(f"SELECT row FROM edges WHERE price_4 = {value:f}BD")
        assert [row.row for row in found.collect()] == [number]


def test_polars(edges):
    frame = pl.scan_delta(edges.table_location("edges").delta_uri)
    assert without_date(frame.sort("row").collect().to_dicts()) == ROWS
    for name, (kind, values) in COLUMNS.items():
        for number, value in enumerate(values):
            wanted = pl.lit(value)
            if pa.types.is_decimal(kind):
                wanted = pl.lit(value, pl.Decimal(18, kind.scale))
            found = frame.filter(pl.col(name) == wanted).collect()
            assert found["row"].to_list() == [number]


def test_duckdb(edges):
    dataset = edges.delta("edges").to_pyarrow_dataset()
    with duckdb.connect() as database:
        database.register("edges", dataset)
        rows = database.sql("SELECT * FROM edges ORDER BY row").to_arrow_table().to_pylist()
        assert without_date(rows) == ROWS
        for name, (_, values) in COLUMNS.items():
            for number, value in enumerate(values):
                found = database.execute(f"SELECT row FROM edges WHERE {name} = ?", [value])
                assert found.fetchall() == [(number,)]


def test_pyarrow_and_pandas(edges):
    table = edges.delta("edges")
    dataset = table.to_pyarrow_dataset()
    assert without_date(dataset.to_table().sort_by("row").to_pylist()) == ROWS
    for name, (kind, values) in COLUMNS.items():
        for number, value in enumerate(values):
            wanted = pc.field(name) == pa.scalar(value, kind)
            assert dataset.to_table(filter=wanted)["row"].to_pylist() == [number]
    frame = table.to_pandas(columns=["row", "price_4", "day"]).sort_values("row")
    assert frame["price_4"].tolist() == [*COLUMNS["price_4"][1], None]
    assert frame["day"].tolist()[:3] == COLUMNS["day"][1]
