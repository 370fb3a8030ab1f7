"""The parts of a build of books, each against a plain twin."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.update_rows import NULL, UpdateKind
from pregao.feed.messages import BookColumns
from pregao.feed.packet_keys import AFTER_PACKET, in_order, message_serial, packet_of, ranked
from pregao.feed.replay import _kernels
from pregao.feed.replay.snapshots import CompactOrders, LoopRows, owners
from pregao.lake.books import reader as inputs
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.checkpoints import BY_UPDATES, END, INTERVAL, PHASE, checkpoint_rows
from pregao.lake.books.columns import codes, integers, named, nulled, prices
from pregao.lake.books.reader import SecurityRange, _together, open_reader
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.sequence_ranges import first_version
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.sequencing import serial_of
from pregao.umdf.templates import ORDER, SNAPSHOT_ORDERS
from tests.lake.days import day

MANY = settings(max_examples=150, deadline=None)

ranked_keys = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20).map(sorted)


def column(values):
    return np.array(values, np.int64)


def both(pairs):
    return column([rank for rank, _ in pairs]), column([key for _, key in pairs])


@MANY
@given(ranked_keys, ranked_keys)
def test_the_last_row_before_an_event_key(rows, wanted):
    found = np.empty(len(wanted), np.int64)
    _kernels.last_before(*both(rows), *both(wanted), found)
    for at, (rank, key) in enumerate(wanted):
        before = [i for i, row in enumerate(rows) if row[0] == rank and row[1] <= key]
        assert found[at] == (before[-1] if before else -1)


@st.composite
def statistics(draw):
    rows = []
    for rank, key in draw(ranked_keys):
        kind = draw(st.integers(0, 4))
        rows.append((rank, key, key // 2, kind, draw(st.integers(1, 99)), draw(st.integers(0, 5))))
    return rows


def plain_statistics(rows, rank, key, event):
    last = number = volume = None
    for own, at, its_event, kind, value, order in rows:
        if own != rank or not (at <= key or its_event == event):
            continue
        if kind == _kernels.TRADE:
            if number is None or order >= number:
                last, number = value, order
        elif kind == _kernels.LAST_TRADE:
            last, number = value, order
        elif kind == _kernels.SESSION:
            last = number = volume = None
        else:
            volume = value
            if kind == _kernels.NO_VOLUME:
                last = number = None
    return last, volume


@MANY
@given(statistics(), ranked_keys, st.integers(0, 20))
def test_last_price_and_volume_at_an_event_key(rows, wanted, cut):
    columns = [column([row[at] for row in rows]) for at in range(6)]
    columns[3] = columns[3].astype(np.uint8)
    state = np.full(5, NULL, np.int64)
    state[0], state[4] = -1, 0
    found = []
    for part in (wanted[:cut], wanted[cut:]):  # state is kept from call to call
        rank, key = both(part)
        price, volume = np.empty(len(part), np.int64), np.empty(len(part), np.int64)
        _kernels.statistics_at(*columns, rank, key, key // 2, state, price, volume)
        found += zip(price.tolist(), volume.tolist(), strict=True)
    for (rank, key), (price, volume) in zip(wanted, found, strict=True):
        last, total = plain_statistics(rows, rank, key, key // 2)
        assert (price, volume) == (NULL if last is None else last, NULL if total is None else total)


@MANY
@given(st.lists(st.one_of(st.none(), st.integers(-(10**17), 10**17)), max_size=30))
def test_prices_go_to_arrow_and_back(values):
    numbers = column([NULL if value is None else value for value in values])
    array = prices(numbers)
    assert array.to_pylist() == [
        None if value is None else Decimal(value).scaleb(-4) for value in values
    ]
    assert integers(array).tolist() == numbers.tolist()
    wide = array.cast(pa.decimal128(18, 4))
    assert integers(wide).tolist() == numbers.tolist()
    chunked = pa.chunked_array([wide.slice(2), wide.slice(0, 2)])
    assert integers(chunked).tolist() == [*numbers[2:].tolist(), *numbers[:2].tolist()]


def test_numbers_of_all_kinds_with_and_without_nulls():
    assert integers(pa.array([1, None, 3], pa.int16()), 0).tolist() == [1, 0, 3]
    assert integers(pa.array([None, None], pa.int64())).tolist() == [NULL, NULL]
    assert integers(pa.array([20_000], pa.int32()).cast(pa.date32())).tolist() == [20_000]
    assert integers(pa.chunked_array([], pa.int64())).tolist() == []
    assert nulled(column([1, NULL])).to_pylist() == [1, None]


def test_names_become_numbers_and_numbers_names():
    texts = pa.array(["BID", "OFFER", None, "TRADE"])
    for form in (texts, texts.dictionary_encode(), pa.chunked_array([texts])):
        assert codes(form, {"BID": 0, "OFFER": 1}, 9).tolist() == [0, 1, 9, 9]
    assert named(column([1, 0, 2]), ["a", None, "b"]).to_pylist() == [None, "a", "b"]


@MANY
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 2**32 - 1), st.integers(0, 5000)), max_size=20
    )
)
def test_message_serials_sort_like_the_stream_and_give_their_packet(keys):
    versions, numbers, index = (column([key[at] for key in keys]) for at in range(3))
    serial = message_serial(serial_of(versions, numbers, 1), index)
    order = in_order(np.zeros(len(keys), np.int64), serial)
    assert [keys[at] for at in order] == sorted(keys)
    version, number = packet_of(serial, 1)
    assert list(zip(version.tolist(), number.tolist(), strict=True)) == [key[:2] for key in keys]


def test_versions_go_round():
    serial = serial_of(column([65534, 1]), column([9, 1]), 65534)
    assert serial[0] < serial[1]
    version, number = packet_of(message_serial(serial, AFTER_PACKET), 65534)
    assert version.tolist() == [65534, 1]
    assert number.tolist() == [9, 1]
    assert first_version([1, 2, 65534]) == 65534
    assert first_version([3, 4]) == 3


@MANY
@given(st.lists(st.integers(0, 4), max_size=20), st.lists(st.integers(0, 4), max_size=20))
def test_ranks_are_indices_among_the_distinct_instruments(one, other):
    known, (ranks, others) = ranked(column(one), column(other))
    assert known.tolist() == sorted({*one, *other})
    assert known[ranks].tolist() == one
    assert known[others].tolist() == other


@MANY
@given(
    st.sets(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 4)), max_size=8),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 6)), max_size=12),
)
def test_parts_of_a_snapshot_belong_to_the_header_before_them(heads, parts):
    """Instrument, loop and packet; a loop is sent after the one before."""

    def rows(keys):
        security, version, number = (column([key[at] for key in keys]) for at in range(3))
        return LoopRows(security, version, number, np.zeros(len(keys), np.int64), version * 100)

    headers = sorted(heads)
    found = owners(rows(headers), rows(parts))
    for at, (security, version, number) in enumerate(parts):
        before = [
            i
            for i, head in enumerate(headers)
            if head[:2] == (security, version) and head[2] <= number
        ]
        assert found[at] == (before[-1] if before else -1)


def test_rows_of_the_snapshot_stream_come_once_and_in_order():
    rows = LoopRows(*(column(values) for values in ([7, 7, 7], [1, 1, 1], [3, 2, 3], [0, 0, 0],
                                                      [9, 8, 9])))  # fmt: skip
    assert rows.order().tolist() == [1, 0]


def test_checkpoints_are_at_intervals_phases_many_updates_and_ends():
    rank = column([0, 0, 0, 0, 1, 1])
    key = column([10, 20, 30, 40, 10, 50])
    sending = column([1, 2, 11, 12, 5, 6])
    rows, reasons = checkpoint_rows(
        rank, key, sending, 10, column([0, 1]), column([20, 5]), 0, finish=True
    )
    assert rows.tolist() == [0, 1, 3, 5]
    assert reasons.tolist() == [PHASE, INTERVAL, END, END]
    rows, reasons = checkpoint_rows(
        column([0, 0]), column([1, 2]), column([1, 1]), 10, column([]), column([]), 49_999,
        finish=False,
    )  # fmt: skip
    assert rows.tolist() == [0, 1]
    assert reasons.tolist() == [BY_UPDATES, INTERVAL]


def test_only_requested_columns_are_read(tmp_path):
    """Whether rows of a file are selected, or its row groups are read completely."""
    ingest([str(day())], str(tmp_path))
    catalog = FileCatalog(LakeStore(str(tmp_path)))
    date = catalog.dates()[0]
    inputs = catalog.inputs(date, catalog.channels(date)[0])
    reader = open_reader(catalog.lake.location, inputs)
    securities = sorted(reader.rows_by_security(ORDER))
    names = ["sequence_number", "md_entry_px"]
    for part in (
        SecurityRange(),
        SecurityRange(securities[0], securities[0]),
        SecurityRange(securities[-1]),
    ):
        found = reader.read(ORDER, names, part)
        assert found
        assert all(rows.column_names == names for rows in found)


def test_rows_in_pieces_are_the_same_rows(tmp_path, monkeypatch):
    ingest([str(day())], str(tmp_path))
    catalog = FileCatalog(LakeStore(str(tmp_path)))
    (when,) = catalog.dates()
    channel = catalog.channels(when)[0]
    reader = open_reader(catalog.lake.location, catalog.inputs(when, channel))
    columns = ["security_id", "sequence_number", "no_md_entries"]
    whole = pa.concat_tables(reader.read(SNAPSHOT_ORDERS, columns, SecurityRange()))
    for max_rows in (1, len(whole) // 3, len(whole)):
        monkeypatch.setattr(inputs, "ROWS_PER_PIECE", max_rows)
        pieces = list(reader.pieces(SNAPSHOT_ORDERS, columns, SecurityRange()))
        assert pa.concat_tables(pieces).equals(whole)
    assert list(_together([0, 2, 3], column([5, 9, 5, 5]), 10)) == [[0, 2], [3]]
    assert list(_together([1, 2], column([5, 9, 5, 5]), 1)) == [[1], [2]]
    assert list(_together([], column([5]), None)) == []


wide = st.one_of(st.integers(-9, 9), st.sampled_from([NULL, 2**31 - 1, 2**31, -(2**31), 2**62]))


@MANY
@given(st.lists(st.lists(st.tuples(wide, wide), max_size=4), min_size=1, max_size=4))
def test_columns_that_are_given_away_are_those_joined(parts):
    def book_columns():
        columns = []
        for rows in parts:
            own = BookColumns.empty(len(rows), UpdateKind.SNAPSHOT_ORDER)
            own.price, own.firm = column([one for one, _ in rows]), column([two for _, two in rows])
            own.previous = np.broadcast_to(np.int64(NULL), len(rows))
            columns.append(own)
        return columns

    joined, given_away = BookColumns.concat(book_columns()), BookColumns.given_away(book_columns())
    kept = CompactOrders.from_books(given_away).some(slice(None))
    for each in fields(BookColumns):
        assert getattr(given_away, each.name).tolist() == getattr(joined, each.name).tolist()
        if each.name in kept:
            assert kept[each.name].tolist() == getattr(joined, each.name).tolist()
            assert kept[each.name].dtype == getattr(joined, each.name).dtype
