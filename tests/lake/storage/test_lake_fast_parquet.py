"""Files of the lake's own Parquet writer: every reader finds in them what was written."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import duckdb
import hypothesis.strategies as st
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from pregao.lake.storage.fast_parquet.columns import is_flat
from pregao.lake.storage.fast_parquet.writer import MIN_GROUP, FlatWriter, group_starts

NAMES = pa.array(["a", "", "ção", "x" * 70])
PRICE = pa.decimal64(18, 4)
KINDS = {"word": pa.int64(), "half": pa.int32(), "short": pa.int16(), "day": pa.date32()}
SHAPES = ("constant", "few", "runs", "rising", "any", "extremes")


def numbers(kind: pa.DataType, shape: str, count: int, seed: int) -> np.ndarray:
    """Values of a type that repeat, rise or do neither."""
    rng = np.random.default_rng(seed)
    width = kind.bit_width
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    if pa.types.is_decimal(kind):
        low, high = -(10**18) + 1, 10**18 - 1
    elif pa.types.is_date32(kind):
        low, high = -700_000, 2_900_000  # within the years 1 to 9999
    values = {
        "constant": lambda: np.full(count, rng.integers(low, high)),
        "few": lambda: rng.integers(-3, 3, count),
        "runs": lambda: np.repeat(rng.integers(0, 300, count), rng.integers(1, 40, count))[:count],
        "rising": lambda: np.cumsum(rng.integers(0, 3, count)) % 30_000,
        "any": lambda: rng.integers(low, high, count, endpoint=True),
        "extremes": lambda: rng.choice(np.array([low, high, 0, -1, 1]), count),
    }
    return values[shape]().astype(f"i{width // 8}")


def column(kind: pa.DataType, shape: str, count: int, nulls: float, seed: int) -> pa.Array:
    """Such values as an Arrow array that does not begin where its buffers do."""
    missing = np.random.default_rng(seed + 1).random(count + 3) < nulls
    values = numbers(kind, shape, count + 3, seed)
    if pa.types.is_decimal(kind):
        plain = pa.array(values, mask=missing)
        whole = pa.Array.from_buffers(kind, len(plain), plain.buffers())
    elif pa.types.is_date32(kind):
        whole = pa.array(values, pa.int32(), mask=missing).view(kind)
    else:
        whole = pa.array(values, kind, mask=missing)
    return whole[3:]


def texts(shape: str, count: int, nulls: float, seed: int) -> pa.Array:
    """Texts as a dictionary."""
    codes = np.abs(numbers(pa.int32(), shape, count, seed).astype(np.int64)) % len(NAMES)
    missing = np.random.default_rng(seed + 1).random(count) < nulls
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=missing), NAMES)


def table(count: int, shapes: list[str], nulls: list[float], seed: int) -> pa.Table:
    """A table with a column of each type that is written."""
    kinds = {**KINDS, "price": PRICE}
    arrays = [
        column(kind, shapes[at], count, nulls[at], seed + 10 * at)
        for at, kind in enumerate(kinds.values())
    ]
    arrays.append(texts(shapes[-1], count, nulls[-1], seed))
    fields = [
        pa.field(name, array.type, share > 0)
        for name, array, share in zip([*kinds, "text"], arrays, nulls, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def written(
    parts: list[pa.Table],
    rows: int = 65_536,
    delta: tuple[str, ...] = (),
    plain: str = "",
    *,
    compress: bool = False,
) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    schema = parts[0].schema
    writer = FlatWriter(sink, schema, delta, (plain,), schema.names, compress=compress)
    for part in parts:
        writer.write_table(part, rows)
    writer.close()
    return sink.getvalue()


def read_type(kind: pa.DataType) -> pa.DataType:
    """The type that a Parquet reader returns."""
    if pa.types.is_dictionary(kind):
        return pa.string()
    return pa.decimal128(18, 4) if pa.types.is_decimal(kind) else kind


def as_read(rows: pa.Table) -> pa.Table:
    fields = [entry.with_type(read_type(entry.type)) for entry in rows.schema]
    return rows.cast(pa.schema(fields))


@settings(max_examples=40, deadline=None)
@given(
    count=st.sampled_from([1, 2, 7, 8, 9, 31, 33, 127, 129, 130, 1_000, 16_384, 16_390, 40_000]),
    shapes=st.lists(st.sampled_from(SHAPES), min_size=6, max_size=6),
    nulls=st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.5, 1.0]), min_size=6, max_size=6),
    rows=st.sampled_from([9, 1_000, 20_000, 65_536]),
    delta=st.sets(st.sampled_from([*KINDS, "price", "text"])),
    plain=st.sampled_from([*KINDS, "price"]),
    compress=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_written_rows_are_read_back(
    count, shapes, nulls, rows, delta, plain, compress, seed
) -> None:
    given_rows = table(min(count, 30 * rows), shapes, nulls, seed)
    file = written([given_rows], rows, tuple(delta), plain, compress=compress)
    assert pq.read_table(pa.BufferReader(file)).equals(as_read(given_rows))


def test_compressed_columns_are_smaller_and_state_both_sizes() -> None:
    rows = pa.table({"even": pa.array(range(0, 40_000, 2)), "same": pa.array([7] * 20_000)})
    files = [written([rows], compress=compress) for compress in (False, True)]
    plain, packed = (pq.read_metadata(pa.BufferReader(file)).row_group(0) for file in files)
    assert [packed.column(at).compression for at in (0, 1)] == ["ZSTD", "UNCOMPRESSED"]
    assert packed.column(0).total_compressed_size < plain.column(0).total_compressed_size / 4
    assert packed.column(0).total_uncompressed_size == plain.column(0).total_uncompressed_size
    assert packed.total_byte_size == plain.total_byte_size


@settings(max_examples=20, deadline=None)
@given(
    count=st.integers(1, 50_000),
    shapes=st.lists(st.sampled_from(SHAPES), min_size=6, max_size=6),
    nulls=st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=6, max_size=6),
    seed=st.integers(0, 1 << 30),
)
def test_bounds_are_those_of_the_values(count, shapes, nulls, seed) -> None:
    given_rows = table(count, shapes, nulls, seed)
    metadata = pq.read_metadata(pa.BufferReader(written([given_rows], 20_000, ("word",))))
    assert metadata.num_rows == count
    for group in range(metadata.num_row_groups):
        part = as_read(given_rows).slice(20_000 * group, 20_000)
        for at, name in enumerate(part.column_names):
            statistics = metadata.row_group(group).column(at).statistics
            if name == "text":
                assert statistics is None
                continue
            values = part.column(name).drop_null()
            assert statistics.null_count == part.num_rows - len(values)
            assert statistics.has_min_max == bool(len(values))
            if len(values):
                bounds = pc.min_max(values)
                assert statistics.min == bounds["min"].as_py()
                assert statistics.max == bounds["max"].as_py()


def test_pages_are_found_by_their_bounds(tmp_path: Path) -> None:
    rows = pa.table({"word": np.arange(100_000), "text": texts("few", 100_000, 0.2, 1)})
    path = tmp_path / "rows.parquet"
    path.write_bytes(written([rows], 65_536, ("word",)))
    for group in (0, 1):
        column = pq.read_metadata(path).row_group(group).column(0)
        assert column.has_column_index
        assert column.has_offset_index
    found = duckdb.sql(f"SELECT word, text FROM '{path}' WHERE word BETWEEN 60000 AND 70000")
    wanted = as_read(rows).slice(60_000, 10_001)
    assert found.to_arrow_table().to_pylist() == wanted.to_pylist()
    last = polars.scan_parquet(path).filter(polars.col("word") == 99_999).collect()
    assert last.to_dicts() == as_read(rows).slice(99_999).to_pylist()


@pytest.mark.parametrize("shape", SHAPES)
def test_other_readers_agree(tmp_path: Path, shape: str) -> None:
    rows = table(30_000, [shape] * 6, [0.0, 0.1, 0.9, 0.0, 0.2, 0.5], 7)
    path = tmp_path / "rows.parquet"
    path.write_bytes(written([rows], 20_000, ("half", "price")))
    wanted = as_read(rows)
    assert duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().cast(wanted.schema) == wanted
    assert polars.read_parquet(path).to_arrow().cast(wanted.schema) == wanted


def test_tables_one_after_the_other() -> None:
    parts = [table(count, ["few"] * 6, [0.1] * 6, count) for count in (70_000, 1, 20_000)]
    file = written(parts)
    assert pq.read_metadata(pa.BufferReader(file)).num_row_groups == 4
    found = pq.read_table(pa.BufferReader(file))
    assert found.equals(as_read(pa.concat_tables(parts).combine_chunks()))


def test_columns_in_several_pieces() -> None:
    pieces = [table(count, ["few"] * 6, [0.1] * 6, count) for count in (1_000, 3)]
    others = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int32()), pa.array(["b", "a"]))
    pieces[1] = pieces[1].set_column(5, pieces[1].schema.field(5), others)
    rows = pa.concat_tables(pieces)
    found = pq.read_table(pa.BufferReader(written([rows])))
    assert found.to_pylist() == as_read(rows.unify_dictionaries()).to_pylist()


def test_a_file_without_rows() -> None:
    found = pq.read_table(pa.BufferReader(written([table(0, ["few"] * 6, [0.0] * 6, 1)])))
    assert found.num_rows == 0
    assert found.column_names == [*KINDS, "price", "text"]


def test_nulls_are_refused_where_none_are_declared() -> None:
    schema = pa.schema([pa.field("word", pa.int64(), nullable=False)])
    writer = FlatWriter(pa.BufferOutputStream(), schema, (), (), ())
    with pytest.raises(ValueError, match="word has nulls"):
        writer.write_table(pa.table({"word": pa.array([1, None])}), 10)


def test_days_and_decimals_are_what_they_were() -> None:
    rows = pa.table(
        {
            "day": pa.array([date(2026, 5, 21) + timedelta(days=n) for n in range(3)]),
            "price": pa.array([Decimal("-1.5000"), None, Decimal("12345678901234.5678")]).cast(
                PRICE
            ),
        }
    )
    found = pq.read_table(pa.BufferReader(written([rows])))
    assert found.to_pylist() == rows.to_pylist()


def test_what_is_not_flat() -> None:
    flat = table(3, ["few"] * 6, [0.0] * 6, 1).schema
    assert is_flat(flat)
    others = (pa.list_(pa.int64()), pa.string(), pa.float64(), pa.bool_(), pa.struct([]))
    for kind in (*others, pa.decimal64(9, 2), pa.dictionary(pa.int32(), pa.int64())):
        assert not is_flat(flat.append(pa.field("other", kind)))
    assert not is_flat(pa.schema([]))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30_000)), max_size=12),
    st.sampled_from([10_000, 65_536]),
)
def test_rows_with_a_common_value_are_in_separate_groups(runs, max_rows) -> None:
    values = np.repeat(
        np.cumsum([step for step, _ in runs], dtype=np.int64), [count for _, count in runs]
    )
    starts = [*group_starts(len(values), max_rows, values), len(values)]
    assert starts[0] == 0 or not len(values)
    groups = [values[begin:end] for begin, end in pairwise(starts)]
    assert all(0 < len(group) <= max_rows for group in groups)
    of_value = {value: int((values == value).sum()) for value in np.unique(values).tolist()}
    for group in groups:
        if group[0] != group[-1]:
            assert all(of_value[value] < MIN_GROUP for value in np.unique(group).tolist())
    # The others are not torn into pieces.
    assert len(groups) <= 3 * len(values) // MIN_GROUP + 1


def test_rows_that_are_not_sorted_are_cut_by_number_alone() -> None:
    values = np.tile(np.arange(2), 50_000)
    assert group_starts(len(values), 65_536, values) == [0, 65_536]
    assert group_starts(0, 65_536, values[:0]) == []
