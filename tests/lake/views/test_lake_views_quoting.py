"""Names and texts of a lake are names and texts in every statement, whatever is in them."""

import duckdb
import pyarrow as pa
import pytest

from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.duckdb_script import views_script
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import define_views
from pregao.lake.views.sql import SPARK, catalog_ddl, select_text
from tests.lake.lake_support import write_file

HOSTILE = (
    'a" FROM x; DROP TABLE y; --',
    "it's",
    "back`tick",
    "semi;colon",
    "-- comment",
    "/* c */_ns",
    'q"_time_ns',
)
MEMBER = "m'\"`; --"
TABLE = "odd\"'; --`table"


@pytest.fixture
def lake(tmp_path):
    columns = [pa.field(name, pa.int64()) for name in HOSTILE]
    columns.append(pa.field("s", pa.struct([pa.field(MEMBER, pa.int64())])))
    schema = pa.schema([*columns, pa.field("date", pa.date32())])
    spec = TableSpec(TABLE, schema, description="It's; DROP TABLE x; --")
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_tables([spec])
    row = dict.fromkeys(HOSTILE, 1) | {"s": {MEMBER: 1}}
    lake.commit(CommitUnit("u", (), (write_file(lake.location, spec, [row]),)))
    return lake


def quoted(name):
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def test_tables_and_views_have_their_columns(lake):
    for name in (TABLE, f"v_{TABLE}"):
        (row,) = DuckdbEngine(lake).query(f"SELECT * FROM {quoted(name)}").rows().to_pylist()
        assert [row[column] for column in HOSTILE] == [1] * len(HOSTILE)
        assert row["s"] == {MEMBER: 1}
    names = {row["name"] for row in DuckdbEngine(lake).query("SHOW TABLES").rows().to_pylist()}
    assert names == {TABLE, f"v_{TABLE}", "ingests", "v_ingests"}


def test_a_script_makes_the_same_views(lake):
    session = duckdb.connect(":memory:")
    session.execute(views_script(lake))
    (row,) = session.sql(f"SELECT * FROM {quoted(f'v_{TABLE}')}").to_arrow_table().to_pylist()
    assert [row[column] for column in HOSTILE] == [1] * len(HOSTILE)
    (comment,) = session.execute(
        "SELECT comment FROM duckdb_views() WHERE view_name = ?", [TABLE]
    ).fetchone()
    assert comment == "It's; DROP TABLE x; --"


def test_statements_for_spark_quote_names_and_texts(lake):
    script = catalog_ddl(lake)
    (view,) = define_views(lake, [f"v_{TABLE}"])
    for name in HOSTILE:
        escaped = name.replace("`", "``")
        assert f"`{escaped}`" in select_text(view, SPARK)
        assert f"`{escaped}`" in script
    text = TABLE.replace("'", "\\'")
    assert f"{text}';" in script
