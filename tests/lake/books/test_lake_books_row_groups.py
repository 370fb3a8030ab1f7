"""Reading files of message tables, of any writer and with any encoding of texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pregao.book.update_rows import NULL
from pregao.lake.books.reader import ArrowRows, FlatColumns, open_file
from pregao.lake.storage.fast_parquet.columns import FlatRows
from pregao.lake.storage.filesystem import Location
from tests.lake.storage.test_lake_fast_parquet import table, written

SIDES = "entries.list.element.side"


def listed(count: int, names: int) -> pa.Table:
    """Rows with lists of records, one member of which has this many names."""
    entries = [
        [{"side": f"name {(row * 7 + at) % names}", "size": at} for at in range(row % 4)]
        for row in range(count)
    ]
    kind = pa.list_(pa.field("element", pa.struct({"side": pa.string(), "size": pa.int64()})))
    return pa.table({"row": range(count), "entries": pa.array(entries, kind)})


@pytest.mark.parametrize("names", [2, 900])
def test_names_in_lists_are_read_whether_they_repeat_or_not(tmp_path: Path, names: int) -> None:
    path = tmp_path / "lists.parquet"
    rows = listed(1_000, names)
    # Such a small dictionary cannot have 900 names: most of them are stored plain.
    pq.write_table(rows, path, row_group_size=400, dictionary_pagesize_limit=200)
    opened = open_file(Location.parse(str(path)), {SIDES})
    found = opened.read([0, 2], ["entries"])
    expected = pa.concat_tables([rows.slice(0, 400), rows.slice(800)]).column("entries")
    assert found.table(["entries"], ()).column(0).to_pylist() == expected.to_pylist()
    assert opened.bounds("row", 0, 0)[1].tolist() == [399, 799, 999]
    assert opened.group_rows.tolist() == [400, 400, 200]


def test_our_own_files_and_those_of_others_give_the_same(tmp_path: Path) -> None:
    rows = table(3_000, ["any", "few", "runs", "rising", "few", "few"], [0.2] * 6, 3)
    own, other = tmp_path / "own.parquet", tmp_path / "other.parquet"
    own.write_bytes(written([rows], 1_000))
    pq.write_table(pq.read_table(own), other, row_group_size=1_000)
    files = [open_file(Location.parse(str(path)), {"text"}) for path in (own, other)]
    one, two = (file.read([1, 2], file.names) for file in files)
    assert isinstance(one, FlatRows)
    assert isinstance(two, ArrowRows)
    assert one.count == two.count == 2_000
    for name in ("word", "half", "short", "day", "price"):
        assert one.numbers(name).tolist() == two.numbers(name).tolist()
    columns = FlatColumns(one, [*files[0].names, "gone"])
    texts = two.table(["text"], ()).column(0).to_pylist()
    assert columns.texts("text") == texts
    assert columns.codes("text", {"a": 1}, 9).tolist() == [
        1 if text == "a" else 9 for text in texts
    ]
    assert (
        columns.numbers("word", 7).tolist()
        == np.where(one.numbers("word") == NULL, 7, one.numbers("word")).tolist()
    )
    assert columns.numbers("gone", 5).tolist() == [5] * 2_000
    assert columns.texts("gone") == [None] * 2_000
    assert columns.take(np.array([4, 2])).texts("text") == [texts[4], texts[2]]


def test_a_file_of_ours_that_is_damaged_is_refused_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    content = bytearray(written([table(500, ["any"] * 6, [0.0] * 6, 3)]))
    content[4:2_000] = bytes(1_996)
    path.write_bytes(content)
    opened = open_file(Location.parse(str(path)), ())
    with pytest.raises((OSError, pa.ArrowException)):
        opened.read([0], ["word"])
