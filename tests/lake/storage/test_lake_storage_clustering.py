"""Compaction by value: which files are merged, where they are split, and the benefit of it."""

from collections import Counter
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.lake.ingest.maintenance import compact, layout_of
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage import optimize
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.delta import visible_files
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.optimize import (
    FileSizeLimits,
    SmallFile,
    ValueCounts,
    compact_table,
    cut,
    groups_by_size,
    groups_by_value,
    sort_order,
    spans,
)
from pregao.units import day_number
from tests.lake.lake_support import ORDERS, TRADES, column, ingest_row, order, write_file

LIMITS = FileSizeLimits(60, 50)
DAY = date(2026, 5, 21)


@st.composite
def files(draw):
    """Small and large files of two days; some have no bounds."""
    found = []
    for index in range(draw(st.integers(0, 12))):
        low = draw(st.one_of(st.none(), st.integers(0, 20)))
        high = None if low is None else low + draw(st.integers(0, 8))
        size = draw(st.integers(1, 80))
        day = DAY + timedelta(days=draw(st.integers(0, 1)))
        found.append(SmallFile(f"{index}", size, size, day, low, high))
    return found


@settings(max_examples=50, deadline=None)
@given(files())
def test_groups_by_size_hold_small_files_of_one_day_and_no_more_than_fits(given_files):
    groups = list(groups_by_size(given_files, LIMITS))
    taken = [file.path for group in groups for file in group]
    assert len(taken) == len(set(taken))
    for group in groups:
        assert len(group) > 1
        assert len({file.day for file in group}) == 1
        assert all(file.size < LIMITS.size // 2 for file in group)
        assert sum(file.rows for file in group) <= LIMITS.rows


@settings(max_examples=100, deadline=None)
@given(files())
def test_files_that_overlap_are_in_one_group_and_others_stay(given_files):
    groups = list(groups_by_value(given_files, LIMITS))
    taken = [file.path for group in groups for file in group]
    assert len(taken) == len(set(taken))
    home = {file.path: number for number, group in enumerate(groups) for file in group}
    for group in groups:
        assert len(group) > 1
        assert len({file.day for file in group}) == 1
    bounded = [file for file in given_files if file.low is not None]
    for one in bounded:
        for other in bounded:
            separate = one.day != other.day or one.high <= other.low or other.high <= one.low
            if one is not other and not separate:
                assert home[one.path] == home[other.path]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.integers(-5, 30), st.integers(1, 130), min_size=1),
    st.integers(0, 20),
    st.integers(1, 500),
)
@example({3: 130}, 0, 1)
def test_every_row_is_in_one_piece_and_a_value_that_fits_in_one_too(rows, nulls, size):
    values = np.array(sorted(rows), np.int64)
    counts = ValueCounts(values, np.array([rows[value] for value in values.tolist()]), nulls)
    pieces = cut(counts, size, LIMITS, lambda value: np.arange(rows[value], dtype=np.int64))
    assert sum(piece.nulls for piece in pieces) == (1 if nulls else 0)
    for value, count in rows.items():
        own = [piece for piece in pieces if piece.low <= value <= piece.high]
        if count <= LIMITS.rows:
            assert len(own) == 1
            assert own[0].part is None
            continue
        numbers = [number for piece in own for number in range(piece.part[0], piece.part[1] + 1)]
        assert sorted(numbers) == list(range(count))
        assert all(piece.part[1] - piece.part[0] < LIMITS.rows for piece in own)
    total = sum(rows.values()) + nulls
    assert sum(piece.rows for piece in pieces) >= total
    together = [piece for span in spans(pieces, LIMITS.rows) for piece in span]
    assert together == pieces
    for span in spans(pieces, LIMITS.rows):
        assert len(span) == 1 or sum(piece.rows for piece in span) <= LIMITS.rows
    assert pieces == sorted(pieces, key=lambda piece: (piece.low, piece.part or (0, 0)))


def test_counts_are_over_all_columns():
    counts = ValueCounts.from_columns(
        [pa.chunked_array([[1, 2, None]]), pa.chunked_array([[2], [7, 7]])]
    )
    assert counts.values.tolist() == [1, 2, 7]
    assert counts.counts.tolist() == [1, 2, 2]
    assert counts.nulls == 1


@pytest.fixture
def crowded(tmp_path, monkeypatch):
    """Two days of nine files each, every one with rows of all forty instruments."""
    monkeypatch.setattr(optimize, "TARGET_ROWS", 60)
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    for number in range(18):
        day = "2026-05-21" if number < 9 else "2026-05-22"
        rows = [order(security, 100 * number) for security in range(40)]
        # An instrument that exceeds the capacity of a file.
        rows += [order(40, 100 * number + index) for index in range(20)]
        file = write_file(tmp_path, ORDERS, rows, day)
        name = f"c{number}"
        lake.commit(CommitUnit(f"u{number}", (name,), (file,), (ingest_row(name, day),)))
    return lake


def admitting(lake, security, day="2026-05-21"):
    """Return the number of files of a day that may have rows of an instrument, and of all files."""
    actions = visible_files(lake.delta("orders")).to_pylist()
    own = [one for one in actions if one["partition.date"].isoformat() == day]
    touched = [one for one in own if one["min.security_id"] <= security <= one["max.security_id"]]
    return len(touched), len(own)


def rows_of(lake):
    rows = lake.delta("orders").to_pyarrow_table().to_pylist()
    return Counter((row["security_id"], row["sequence_number"], row["date"]) for row in rows)


def test_after_compaction_an_instrument_is_in_few_files_of_a_day(crowded):
    before = rows_of(crowded)
    assert admitting(crowded, 7) == (9, 9)
    done = compact(crowded, ["orders"])
    assert [(each.date, each.files, each.rows) for each in done] == [
        ("2026-05-21", 9, 540),
        ("2026-05-22", 9, 540),
    ]
    assert rows_of(crowded) == before
    touched, there = admitting(crowded, 7)
    assert touched == 1
    assert there == done[0].into >= 9
    assert admitting(crowded, 40)[0] == 3  # 180 rows, 60 of which fit a file
    assert compact(crowded, ["orders"]) == []


def test_a_file_that_comes_later_is_put_among_the_others(crowded):
    compact(crowded)
    late = write_file(crowded.location, ORDERS, [order(number, 5_000) for number in range(12)])
    crowded.commit(CommitUnit("late", ("late",), (late,), (ingest_row("late"),)))
    before = rows_of(crowded)
    (done,) = compact(crowded, ["orders"])
    assert done.date == "2026-05-21"
    assert done.files < 9  # files of other instruments are left alone
    assert rows_of(crowded) == before
    assert admitting(crowded, 7)[0] == 1


def test_files_that_are_too_large_are_cut_and_one_instrument_alone_is_not(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    many = [order(security, 10 * security) for security in range(1, 400)]
    one = [order(999, number) for number in range(400)]
    files = (write_file(tmp_path, ORDERS, many), write_file(tmp_path, ORDERS, one))
    lake.commit(CommitUnit("u", (), files))
    before = rows_of(lake)
    size = min(file.size for file in files) // 5
    layout = layout_of(ORDERS.schema.names)
    (done,) = compact_table(lake, "orders", layout, size)
    assert done.files == 1
    assert done.into > 4
    assert rows_of(lake) == before
    assert admitting(lake, 200) == (1, done.into + 1)
    assert admitting(lake, 999) == (1, done.into + 1)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["b", "a", "ç", "aa"]),
            st.one_of(st.none(), st.integers(-3, 3)),
            st.integers(0, 2),
        )
    )
)
def test_rows_are_sorted_stably_with_nulls_last(rows):
    texts, numbers, last = ([row[index] for row in rows] for index in range(3))
    columns = [
        pa.array(texts, pa.string()).dictionary_encode(),
        pa.array(numbers, pa.int64()),
        pa.array(last, pa.int32()),
    ]
    order = sort_order(columns)
    expected = sorted(
        range(len(rows)),
        key=lambda row: (texts[row], numbers[row] is None, numbers[row] or 0, last[row]),
    )
    assert (list(range(len(rows))) if order is None else order.to_pylist()) == expected


def test_compacted_files_have_the_encodings_and_row_groups_of_an_ingest(tmp_path):
    spec = TableSpec(
        "numbers",
        pa.schema(
            [
                column("security_id", pa.int64()),
                column("sequence_number", pa.int64()),
                column("order_id", pa.int64()),
                column("side", pa.string()),
                column("date", pa.date32()),
            ]
        ),
    )
    lake = LakeStore(tmp_path)
    lake.ensure_tables([spec])
    count = 10_000
    for number in range(2):
        rows = pa.table(
            {
                "security_id": np.repeat([1, 2], count // 2),
                "sequence_number": np.arange(count) + count * number,
                "order_id": np.arange(count) * 7,
                "side": pa.array(["BUY", "SELL"] * (count // 2)).dictionary_encode(),
            }
        )
        file = write_rows(lake.location, "numbers", rows, day_number(DAY))
        lake.commit(CommitUnit(f"u{number}", (), lake.new_files([file])))
    (done,) = compact(lake, ["numbers"])
    assert (done.files, done.into) == (2, 1)
    (file,) = lake.files("numbers")
    metadata = pq.read_metadata(file.path)
    assert metadata.created_by.startswith("pregao")
    assert [metadata.row_group(group).num_rows for group in (0, 1)] == [count, count]
    columns = [metadata.row_group(0).column(number) for number in range(4)]
    assert columns[0].statistics.max == 1
    assert ["DELTA_BINARY_PACKED" in column.encodings for column in columns] == [
        False,
        True,
        False,
        False,
    ]
    assert "PLAIN" in columns[2].encodings
    assert "RLE_DICTIONARY" not in columns[2].encodings
    assert "RLE_DICTIONARY" in columns[3].encodings
    stored = pq.read_table(file.path, partitioning=None)
    assert stored["sequence_number"].to_pylist() == [
        *range(count // 2), *range(count, count + count // 2),
        *range(count // 2, count), *range(count + count // 2, 2 * count),
    ]  # fmt: skip
