"""Texts that a spreadsheet would run as formulas get an apostrophe with --safe-csv."""

import csv
import io
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.lake.exports.tabular import row_file
from pregao.lake.storage.lake_store import LakeStore
from pregao.safe_io.csv_cells import FORMULA_BEGINNINGS, safe_cells, safe_table
from tests.cli.market import DEFINITION, Market, definition
from tests.lake.lake_support import ORDERS, TRADES, unit_of

FORMULA = "=cmd|' /C calc'!A0"


@given(st.lists(st.none() | st.text()), st.sampled_from([pa.string(), pa.large_string()]))
def test_texts_that_begin_like_a_formula_are_marked(texts, kind):
    found = safe_cells(pa.array(texts, kind)).to_pylist()
    assert found == [
        text if text is None or not text.startswith(tuple(FORMULA_BEGINNINGS)) else f"'{text}"
        for text in texts
    ]
    assert safe_cells(pa.chunked_array([pa.array(texts, kind)])).to_pylist() == found


@pytest.mark.parametrize("beginning", FORMULA_BEGINNINGS)
def test_every_beginning_of_a_formula_is_marked(beginning):
    names = pa.array([f"{beginning}1", "1"]).dictionary_encode()
    assert safe_cells(names).to_pylist() == [f"'{beginning}1", "1"]


def test_numbers_stay_unchanged():
    for column in (
        pa.array([-1, 2]),
        pa.array([-1.5]),
        pa.array([Decimal("-1.50")]),
        pa.array([True]),
        pa.array([b"=1"]),
    ):
        assert safe_cells(column).equals(column)
    assert safe_table(pa.table({"=1": [-1]})).to_pylist() == [{"'=1": -1}]


@pytest.fixture
def lake(tmp_path):
    store = LakeStore(tmp_path / "lake")
    store.ensure_tables([ORDERS, TRADES])
    store.commit(unit_of(store.location, "u1", ["c1"]))
    return tmp_path / "lake"


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_query(pregao, lake, tmp_path):
    sql = "SELECT -1 AS number, -1.5 AS price, '-1' AS text, '=x' AS formula, 'x' AS \"@name\""
    out = tmp_path / "rows.csv"
    assert pregao("query", sql, "--lake", lake, "-o", out).code == 0
    head = ["number", "price", "text", "formula"]
    assert rows_of(out) == [[*head, "@name"], ["-1", "-1.5", "-1", "=x", "x"]]
    assert pregao("query", sql, "--lake", lake, "-o", out, "--safe-csv", "--force").code == 0
    assert rows_of(out) == [[*head, "'@name"], ["-1", "-1.5", "'-1", "'=x", "x"]]


def test_messages(pregao, tmp_path):
    capture = Market().send(definition(7, FORMULA), to=DEFINITION).write(tmp_path / "d.pcap")
    for options, symbol in (((), FORMULA), (("--safe-csv",), f"'{FORMULA}")):
        result = pregao("decode", capture, "--format", "csv", "-t", "12", *options)
        (row,) = csv.DictReader(io.StringIO(result.out))
        assert row["symbol"] == symbol
        out = tmp_path / f"folder{len(options)}"
        assert pregao("decode", capture, "--format", "csv", "-o", f"{out}/", *options).code == 0
        (path,) = [path for path in out.iterdir() if path.name.startswith("SecurityDefinition")]
        head, row = rows_of(path)
        assert row[head.index("symbol")] == symbol


@pytest.mark.parametrize("safe", [False, True])
def test_exports(safe):
    schema = pa.schema([("price", pa.decimal128(9, 2)), ("symbol", pa.string())])
    sink = io.BytesIO()
    file = row_file(sink, schema, ".csv", safe_csv=safe)
    file.write([pa.array([Decimal("-1.50")]), pa.array(["=x"])])
    file.close()
    assert sink.getvalue().decode() == f"price,symbol\n-1.50,{chr(39) * safe}=x\n"
