"""A table's log names files of the table and no others, whatever is written into it."""

import json
from pathlib import Path
from urllib.parse import quote

import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.lake.analytics.reading import LakeFiles
from pregao.lake.books.catalog import FileLog
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.duckdb_script import views_script
from pregao.lake.storage.delta import dataset, visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_files import check_links, check_paths
from pregao.lake.views.polars import scan

HOSTILE = [
    "../trades/x.parquet",
    "date=2026-05-21/../../../x.parquet",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "a//b.parquet",
    "./x.parquet",
    "date=2026-05-21/./x.parquet",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "s3://bucket/x.parquet",
    "S3A://bucket/x.parquet",
    "C:\\x.parquet",
    "date=2026-05-21\\..\\x.parquet",
    "date=2026-05-21/*.parquet",
    "date=2026-05-2?/x.parquet",
    "date=2026-05-2[12]/x.parquet",
    "{a,b}.parquet",
    "%2e%2e/x.parquet",
    "%2E./x.parquet",
    "%252e%252e/x.parquet",
    "%25252525252e/x.parquet",
    "%2fetc/passwd",
    "file%3a///etc/passwd",
    "date=2026-05-21%2f..%2f..%2fx.parquet",
    "%2a.parquet",
    "x\n.parquet",
    "",
]
READERS = {
    "files": lambda lake: lake.files("orders"),
    "paths": lambda lake: lake.paths("orders"),
    "actions": lambda lake: visible_files(lake.delta("orders")),
    "a dataset": lambda lake: lake.delta("orders").to_pyarrow_dataset(),
    "Arrow": lambda lake: lake.delta("orders").to_pyarrow_table(columns=["price"]),
    "a filter": lambda lake: lake.delta("orders").to_pyarrow_table(
        filters=[("security_id", "=", 7)]
    ),
    "Polars": lambda lake: scan(lake, "orders"),
    "Polars' view": lambda lake: scan(lake, "v_orders"),
    "a query": lambda lake: DuckdbEngine(lake).query("SELECT * FROM orders"),
    "a script": views_script,
    "books": lambda lake: FileLog(lake.delta("orders")),
    "analytics": lambda lake: LakeFiles(lake).paths("orders"),
}


def rewrite(lake, path):
    """Make the log name another file instead of the table's own."""
    folder = Path(lake.location.uri) / "orders" / "_delta_log"
    for log in sorted(folder.glob("*.json")):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["path"] = path
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leads_out_of_its_table_is_refused(path):
    location = Location.parse("/lake/orders")
    with pytest.raises(UsageError) as caught:
        check_paths(location, pa.chunked_array([["date=2026-05-21/a.parquet", path]]))
    assert str(caught.value).startswith("/lake/orders: the table's log names the file ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_it_and_names_table_and_path(small_lake, reader):
    rewrite(small_lake, "%2e%2e/trades/secret.parquet")
    with pytest.raises(UsageError, match=r"/orders: .*(\.\.|%2e%2e)/trades/secret\.parquet"):
        READERS[reader](LakeStore(small_lake.location))


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_takes_our_own_names(small_lake, reader):
    assert READERS[reader](small_lake) is not None


@given(
    st.lists(
        st.text(
            st.characters(codec="ascii", categories=["L", "N"]) | st.sampled_from("=-_ .,")
        ).filter(lambda part: part.strip(".")),
        min_size=1,
    )
)
def test_plain_names_pass_encoded_or_not(parts):
    location = Location.parse("/lake/orders")
    for path in ("/".join(parts), quote("/".join(parts), safe="/=")):
        check_paths(location, pa.chunked_array([[path]]))


LINKED = ["a dataset", "Arrow", "a filter", "Polars", "a query"]


@pytest.mark.parametrize("reader", LINKED)
@pytest.mark.parametrize("what", ["file", "folder"])
def test_links_within_a_table_are_refused(small_lake, tmp_path, reader, what):
    (file, *_) = [Path(path.uri) for path in small_lake.files("orders")]
    linked = file if what == "file" else file.parent
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"):
        READERS[reader](small_lake)


@pytest.mark.parametrize("reader", READERS)
def test_a_table_that_is_a_link_is_refused_by_every_reader(small_lake, tmp_path, reader):
    folder = Path(small_lake.location.uri) / "orders"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="/orders: this folder is a link"):
        READERS[reader](LakeStore(small_lake.location))


def test_a_lake_may_be_reached_by_a_link(small_lake, tmp_path):
    (tmp_path / "link").symlink_to(small_lake.location.uri)
    lake = LakeStore(tmp_path / "link")
    answer = DuckdbEngine(lake).query("SELECT count(*) AS n FROM orders")
    assert answer.rows().to_pylist() == [{"n": 4}]
    assert scan(lake, "orders").select(polars.len()).collect().item() == 4
    table = lake.delta("orders")
    location = lake.table_location("orders")
    check_links(location, visible_files(table)["path"].to_pylist())
    assert dataset(location, lake.schema("orders"), visible_files(table)).count_rows() == 4
