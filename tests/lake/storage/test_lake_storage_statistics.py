"""A file's statistics, as Delta keeps them, bound its values."""

import io
import json
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import (
    INDEXED_COLUMNS,
    bounds_of,
    stats_json,
    stored_schema,
    write_table,
)
from tests.lake.lake_support import ORDERS, column, order

NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
PRICES = st.none() | st.decimals(
    -(10**14) + 1, 10**14 - 1, places=4, allow_nan=False, allow_infinity=False
)
TEXTS = st.none() | st.text(max_size=40).filter(lambda text: text.isprintable())
DAYS = st.none() | st.dates()
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("price", pa.decimal128(18, 4)),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "number": NUMBERS,
            "price": PRICES,
            "text": TEXTS,
            "day": DAYS,
            "flag": st.none() | st.booleans(),
        }
    ),
    max_size=12,
)


def file_of(table, **options):
    content = io.BytesIO()
    pq.write_table(table, content, store_schema=False, store_decimal_as_integer=True, **options)
    content.seek(0)
    return pq.read_metadata(content)


def stats_of(table, schema=None, **options):
    text = stats_json(file_of(table, **options), schema or table.schema)
    return json.loads(text, parse_float=Decimal)


@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_bounds_hold_for_every_value_and_nulls_are_counted(rows):
    table = pa.Table.from_pylist(rows, SCHEMA)
    stats = stats_of(table, row_group_size=3)
    assert stats["numRecords"] == len(rows)
    for name in SCHEMA.names:
        values = [row[name] for row in rows if row[name] is not None]
        if rows:
            assert stats["nullCount"][name] == len(rows) - len(values)
        low, high = stats["minValues"].get(name), stats["maxValues"].get(name)
        if not values or name == "flag":
            assert low is None
            assert high is None
        elif name == "text":
            # Code points sort as the bytes of UTF-8 do.
            assert low <= min(values)
            assert high >= max(values)
            assert len(low) <= 32
            assert len(high) <= 33
        elif name == "day":
            assert (low, high) == (min(values).isoformat(), max(values).isoformat())
        else:
            assert (low, high) == (min(values), max(values))


def test_a_long_text_ending_in_the_last_character_has_no_upper_bound():
    table = pa.table({"text": ["a" * 32 + "\U0010ffff" * 2]})
    assert stats_of(table)["maxValues"] == {}


def test_what_has_no_order_in_json_is_left_out():
    table = pa.table(
        {
            "endless": [1.0, float("inf")],
            "bytes": [b"\x00", b"\xff"],
            "parts": [[1], [2]],
            "far": pa.array([5_000_000, 1], pa.int32()).cast(pa.date32()),
            "half": [0.5, 1.5],
        }
    )
    stats = stats_of(table)
    assert stats["minValues"] == {"half": Decimal("0.5")}
    assert stats["maxValues"] == {"half": Decimal("1.5")}
    assert set(stats["nullCount"]) == {"endless", "bytes", "far", "half"}


def test_only_the_leading_columns_are_described():
    table = pa.table({f"c{number}": [number] for number in range(INDEXED_COLUMNS + 3)})
    assert list(stats_of(table)["minValues"]) == [f"c{n}" for n in range(INDEXED_COLUMNS)]


def test_a_column_that_the_file_lacks_is_unknown():
    table = pa.table({"there": [1]})
    schema = pa.schema([("there", pa.int64()), ("later", pa.int64())])
    assert stats_of(table, schema)["nullCount"] == {"there": 0}


def test_days_of_the_year_9999_are_days():
    day = date(9999, 12, 31)
    table = pa.table({"day": [day, day - timedelta(1)]})
    assert stats_of(table)["maxValues"]["day"] == "9999-12-31"


NAMED = TableSpec(
    "named",
    pa.schema(
        [
            column("number", pa.int64()),
            column("name", pa.string()),
            column("nothing", pa.string()),
            column("date", pa.date32()),
        ]
    ),
)


def named_lake(tmp_path):
    """Two files; names are dictionaries, for which Parquet has no statistics."""
    lake = LakeStore(tmp_path)
    lake.ensure_tables([NAMED])
    files = []
    for numbers, names in (([1, 2, 3], ["A", "B", None]), ([4, 5], ["x" * 40, "x" * 40])):
        nothing = pa.nulls(len(numbers), pa.string())
        rows = pa.table(
            {
                "number": numbers,
                "name": pa.array(names).dictionary_encode(),
                "nothing": nothing.dictionary_encode(),
            }
        )
        files.append(write_table(lake.location.filesystem, str(tmp_path), "named", rows, 20_000))
    lake.commit(CommitUnit("u", ("c",), lake.new_files(files)))
    return lake


@pytest.mark.parametrize("ours", [True, False])
def test_filters_on_names_find_their_rows(tmp_path, ours):
    """The table library takes a column without bounds for one without values."""
    lake = named_lake(tmp_path)
    table = lake.delta("named") if ours else DeltaTable(str(tmp_path / "named"))
    dataset = table.to_pyarrow_dataset()
    name, nothing = pc.field("name"), pc.field("nothing")
    for condition, expected in (
        (name == "A", [1]),
        (name.isin(["B", "x" * 40]), [2, 4, 5]),
        (name.is_null(), [3]),
        (name.is_valid() & (pc.field("number") > 1), [2, 4, 5]),
        (name == "C", []),
        (nothing.is_null(), [1, 2, 3, 4, 5]),
        (nothing == "A", []),
    ):
        found = dataset.to_table(filter=condition)["number"].to_pylist()
        assert sorted(found) == expected, condition
    opened = {fragment.path for fragment in dataset.get_fragments(filter=name == "A")}
    assert len(opened) == 1
    frame = pl.scan_delta(str(tmp_path / "named"))
    assert frame.filter(pl.col("name") == "A").collect()["number"].to_list() == [1]


@given(st.lists(st.lists(st.one_of(st.none(), st.decimals(-9, 9, places=4)), max_size=5)))
def test_bounds_of_decimals_are_theirs(chunks):
    kind = pa.decimal64(18, 4)
    column = pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
    values = [value for chunk in chunks for value in chunk if value is not None]
    found = bounds_of(column)
    assert found.nulls == sum(len(chunk) for chunk in chunks) - len(values)
    assert (found.low, found.high) == ((min(values), max(values)) if values else (None, None))


def test_rows_are_found_by_columns_without_bounds_in_the_log(tmp_path):
    """The table library takes a column without bounds for empty, unless the table says better."""
    lake = LakeStore(tmp_path)
    lake.ensure_table(replace(ORDERS, statistics=("security_id", "sequence_number")))
    schema = stored_schema(ORDERS.schema)
    rows = pa.Table.from_pylist(
        [{name: order(7, 1)[name] for name in schema.names}],
        pa.schema([field for field in ORDERS.schema if field.name != "date"]),
    ).cast(schema)
    location = lake.location
    written = write_table(location.filesystem, location.path, "orders", rows, 20_594)
    (file,) = lake.new_files([written])
    assert set(json.loads(file.stats)["minValues"]) == {"security_id", "sequence_number"}
    lake.commit(CommitUnit("u", (), (file,)))
    for _ in range(2):
        dataset = lake.delta("orders").to_pyarrow_dataset()
        assert dataset.to_table(filter=pc.field("side") == "BID").num_rows == 1
        assert dataset.to_table(filter=pc.field("security_id") == 8).num_rows == 0
        lake.delta("orders").create_checkpoint()
