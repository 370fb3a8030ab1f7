"""The files of the lake: exact integers underneath, small row groups, page indexes, order."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.writer import order_by_value
from pregao.lake.storage.parquet import without_nulls
from tests.lake.days import day


def files_of(lake, table):
    return [str(path) for path in sorted((lake / table).rglob("*.parquet"))]


def test_decimals_are_integers_and_tables_declare_them(tmp_path):
    ingest([str(day())], str(tmp_path))
    (file,) = files_of(tmp_path, "umdf_trade_53")
    metadata = pq.read_metadata(file)
    column = next(
        metadata.schema.column(number)
        for number in range(len(metadata.schema))
        if metadata.schema.column(number).name == "md_entry_px"
    )
    assert column.physical_type == "INT64"
    assert column.logical_type.type == "DECIMAL"
    declared = pa.schema(DeltaTable(str(tmp_path / "umdf_trade_53")).schema().to_arrow())
    assert declared.field("md_entry_px").type == pa.decimal128(18, 4)
    group = metadata.row_group(0)
    assert all(group.column(number).has_offset_index for number in range(group.num_columns))


ENTRY = pa.struct([("price", pa.int64()), ("firm", pa.int64())])
VALUE = st.none() | st.integers(0, 9)
LISTS = st.lists(st.none() | st.fixed_dictionaries({"price": st.integers(0, 9), "firm": VALUE}))


@given(st.lists(st.tuples(VALUE, st.none() | LISTS), max_size=8), st.integers(0, 3))
def test_columns_without_nulls_are_declared_so_and_read_back_the_same(made, begin):
    schema = pa.schema([("number", pa.int64()), ("entries", pa.list_(ENTRY))])
    given_rows = [{"number": number, "entries": entries} for number, entries in made]
    rows = pa.Table.from_pylist(given_rows, schema)[begin:]
    found = without_nulls(rows)
    assert found.to_pylist() == given_rows[begin:]
    for name in rows.column_names:
        assert found.schema.field(name).nullable == bool(rows[name].null_count)
    content = io.BytesIO()
    pq.write_table(found, content)
    content.seek(0)
    assert pq.read_table(content).to_pylist() == given_rows[begin:]


def test_one_instrument_is_cheap_to_find(tmp_path, monkeypatch):
    """Rows are clustered by instrument: few row groups are read."""
    from pregao.lake.storage import parquet

    monkeypatch.setattr(parquet, "ROW_GROUP", 256)
    ingest([str(day())], str(tmp_path))
    (file,) = files_of(tmp_path, "umdf_order_mbo_50")
    rows = pq.read_table(file, columns=["security_id", "sequence_version", "sequence_number"])
    securities = rows.column("security_id").to_numpy()
    assert (np.diff(securities) >= 0).all()
    numbers = rows.column("sequence_number").to_numpy()
    same = np.diff(securities) == 0
    assert (np.diff(numbers)[same] >= 0).all()
    fragment = next(iter(ds.dataset(file).get_fragments()))
    rare = int(np.bincount(np.unique(securities, return_inverse=True)[1]).argmin())
    wanted = ds.field("security_id") == int(np.unique(securities)[rare])
    read = len(fragment.subset(filter=wanted).row_groups)
    assert read * 4 <= fragment.metadata.num_row_groups


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=300))
def test_ordering_is_stable(values):
    array = np.array(values, np.int64)
    assert order_by_value(array).tolist() == np.argsort(array, kind="stable").tolist()


def test_ordering_of_more_values_than_labels():
    array = np.random.default_rng(1).permutation(70_000).astype(np.int64)
    assert (array[order_by_value(array)] == np.arange(70_000)).all()
