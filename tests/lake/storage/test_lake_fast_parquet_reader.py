"""Files of the lake's own Parquet writer, read by its own reader: the same as pyarrow reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from pregao.lake.storage.fast_parquet.columns import KNOWN_AT, KNOWN_BYTES
from pregao.lake.storage.fast_parquet.reader import _runs, open_flat
from pregao.lake.storage.fast_parquet.thrift import ThriftStruct, record
from tests.lake.storage.test_lake_fast_parquet import KINDS, SHAPES, table, written

NULL = -(1 << 63)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flat")


def kept(folder: Path, file: pa.Buffer) -> str:
    """The file on disk, under a separate name."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    path.write_bytes(file)
    return str(path)


shapes_of = st.lists(st.sampled_from(SHAPES), min_size=6, max_size=6)
shares_of = st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.5, 1.0]), min_size=6, max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    count=st.sampled_from([1, 2, 7, 8, 9, 33, 129, 130, 1_000, 16_384, 16_390, 40_000]),
    shapes=shapes_of,
    nulls=shares_of,
    rows=st.sampled_from([9, 1_000, 20_000, 65_536]),
    delta=st.sets(st.sampled_from([*KINDS, "price"])),
    plain=st.sampled_from([*KINDS, "price"]),
    seed=st.integers(0, 1 << 30),
    data=st.data(),
)
def test_it_reads_what_pyarrow_reads(
    folder, count, shapes, nulls, rows, delta, plain, seed, data
) -> None:
    whole = table(min(count, 30 * rows), shapes, nulls, seed)
    path = kept(folder, written([whole], rows, tuple(delta), plain))
    file = open_flat(path)
    assert file is not None
    theirs = pq.ParquetFile(path)
    groups = data.draw(
        st.lists(st.integers(0, theirs.num_row_groups - 1), min_size=1, max_size=4, unique=True)
    )
    names = data.draw(
        st.lists(st.sampled_from(whole.column_names), min_size=1, unique=True).map(list)
    )
    found = file.read(groups, names, NULL)
    assert found is not None
    expected = theirs.read_row_groups(groups, columns=names).select(names)
    assert found.table(names, ()).equals(expected)
    assert found.table(names, names).cast(expected.schema).equals(expected)
    first = expected.num_rows // 3
    part = found.take(slice(first, expected.num_rows)).table(names, ())
    assert part.equals(expected.slice(first))
    chosen = np.arange(expected.num_rows)[::-2]
    assert found.take(chosen).table(names, ()).equals(expected.take(chosen))


@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 3_000), shapes=shapes_of, nulls=shares_of, seed=st.integers(0, 99))
def test_it_knows_the_bounds_of_row_groups(folder, count, shapes, nulls, seed) -> None:
    path = kept(folder, written([table(count, shapes, nulls, seed)], 700, ("word",)))
    file, metadata = open_flat(path), pq.read_metadata(path)
    assert file is not None
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    assert file.group_rows.tolist() == [group.num_rows for group in groups]
    for at, name in enumerate(file.names[:3]):
        low, high = file.bounds(name, 5, 6)
        for group, found in zip(groups, zip(low.tolist(), high.tolist(), strict=True), strict=True):
            statistics = group.column(at).statistics
            assert found == ((statistics.min, statistics.max) if statistics.has_min_max else (5, 6))
    assert [ends.tolist() for ends in file.bounds("no such column", 5, 6)] == [
        [5] * len(groups),
        [6] * len(groups),
    ]


def test_files_of_others_are_not_ours(tmp_path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    assert open_flat(str(path)) is None
    for content in (b"", b"PAR1", b"nothing of the kind", b"\xff" * 40 + b"PAR1"):
        path.write_bytes(content)
        assert open_flat(str(path)) is None


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_is_found_or_does_no_harm(folder, data) -> None:
    """Whatever bytes there are, reading ends, and what comes has as many rows as was said."""
    shapes = [data.draw(st.sampled_from(SHAPES)) for _ in range(6)]
    content = bytearray(written([table(300, shapes, [0.0, 0.3] * 3, 5)], 200, ("word", "half")))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(4, len(content) - 9))] = data.draw(st.integers(0, 255))
    path = folder / "damaged.parquet"
    path.write_bytes(content)
    file = open_flat(str(path))
    if file is not None:
        found = file.read(range(len(file.group_rows)), file.names, NULL)
        assert found is None or found.count == file.group_rows.sum()


FAR = 1 << 40
"""A position that is in no file."""


def confused(case: str, far: int) -> bytes:
    """A file with one column and one row, in which a number is where a position is looked for."""
    header = ThriftStruct().number(1, 0).number(2, 9).number(3, 9)
    if case == "page":
        header.number(5, far, wide=True)
    else:
        header.inner(5, ThriftStruct().number(1, 1).number(2, 0).number(3, 3).number(4, 3).end())
    page = header.end() + bytes(9)
    statistics = ThriftStruct()
    if case == "bounds":
        statistics.number(5, far, wide=True).number(6, far, wide=True)
    own = ThriftStruct().number(1, 2).records(2, []).records(3, []).number(4, 0)
    for number, value in ((5, 1), (6, len(page)), (7, len(page)), (9, 4)):
        own.number(number, value, wide=True)
    if case == "statistics":
        own.number(12, far, wide=True)
    else:
        own.inner(12, statistics.end())
    chunk = ThriftStruct().number(2, 4, wide=True)
    chunk = chunk.number(3, far, wide=True) if case == "column" else chunk.inner(3, own.end())
    group = ThriftStruct()
    if case == "columns":
        group.number(1, far, wide=True)
    else:
        group.records(1, [chunk.end()])
    group.number(2, len(page), wide=True).number(3, 1, wide=True)
    root = ThriftStruct().number(3, 0).text(4, "schema").number(5, 1).end()
    element = ThriftStruct().number(1, 2).number(3, 0).text(4, "word").end()
    footer = ThriftStruct().number(1, 2)
    if case == "schema":
        footer.number(2, far, wide=True)
    else:
        footer.records(2, [root, element])
    footer.number(3, 1, wide=True)
    if case == "groups":
        footer.number(4, far, wide=True)
    else:
        footer.records(4, [group.end()])
    footer.text(6, "pregao version 0").records(7, [record(1)])
    end = footer.end()
    return b"PAR1" + page + end + len(end).to_bytes(4, "little") + b"PAR1"


READ = """
import sys
from pregao.lake.storage.fast_parquet.reader import open_flat
for path in sys.argv[1:]:
    file = open_flat(path)
    rows = None if file is None else file.read([0], ["word"], 0)
    print(None if rows is None else rows.numbers("word").tolist(), flush=True)
"""


def test_a_number_is_not_mistaken_for_a_position(tmp_path: Path) -> None:
    """Run in a separate process, which it would end."""
    cases = ("", "schema", "groups", "columns", "column", "statistics", "bounds", "page")
    answers = []
    for far in (FAR, 30):  # outside of the file, and inside
        paths = [tmp_path / f"{far}{case}.parquet" for case in cases]
        for path, case in zip(paths, cases, strict=True):
            path.write_bytes(confused(case, far))
        done = subprocess.run(
            [sys.executable, "-c", READ, *map(str, paths)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.splitlines())
    expected = ["[0]", *["None"] * 5, "[0]", "None"]  # without bounds, rows are still rows
    assert answers == [expected, expected]


def test_columns_that_overlap_are_read_within_their_own_bytes(tmp_path: Path) -> None:
    """A long column that begins before a short one ends after it."""
    begins, sizes = np.array([4, 10, 200_000]), np.array([900, 20, 5])
    assert _runs(begins, sizes) == [[0, 1], [2]]
    begins, sizes = np.array([4, 10, 200_000]), np.array([900_000, 20, 5])
    assert _runs(begins, sizes) == [[0, 1, 2]]
    content = written([table(3_000, ["any"] * 6, [0.0] * 6, 5)], 4_000, ("word",)).to_pybytes()
    path = tmp_path / "overlapping.parquet"
    path.write_bytes(content)
    file = open_flat(str(path))
    assert file is not None
    whole = file.read([0], file.names, NULL)
    # As if the second column began within the first one, and were short.
    file._chunks[0, 1, KNOWN_AT], file._chunks[0, 1, KNOWN_BYTES] = file._chunks[0, 0, KNOWN_AT], 1
    assert file.read([0], file.names[:2], NULL) is None
    again = file.read([0], file.names[:1], NULL)
    assert whole is not None
    assert again is not None
    assert np.array_equal(again.numbers("word"), whole.numbers("word"))
