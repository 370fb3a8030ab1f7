"""Datagrams of the legacy feed in bulk: the same chunks, heads and rows as one by one."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.errors import DecodeError
from pregao.fast.columns import FastColumnDecoder
from pregao.legacy.bulk import FAULTS, HeadReader, chunk_columns, moments_of, times_of
from pregao.legacy.messages import MessageReader, message_type
from pregao.legacy.reassembly import AssembledMessage, read_chunks, write_chunks
from pregao.legacy.streams import is_legacy, is_raw_dump, mostly_legacy
from pregao.legacy.tables import bundled_tables, rows_of, tables_of
from pregao.legacy.times import moment_ns, timestamp_ns
from pregao.schemas.fast_templates import bundled_templates
from tests.legacy.writing import SENT, entry, heartbeat, incremental, message, news, snapshot

READER = MessageReader()
ALL_DAYS = [
    year * 10_000 + month * 100 + day
    for year in range(1969, 2263)
    for month in range(14)
    for day in range(33)
]
"""Dates of the years that fit into nanoseconds and their neighbors, and impossible dates."""
EDGES = st.sampled_from([-(1 << 40), -1000, -1, 0, 1, 235_959, 240_000, 999_999, 1_000_000])


def columns_of(datagrams):
    buffer = np.frombuffer(b"".join(datagrams) + bytes(16), np.uint8)
    length = np.array([len(each) for each in datagrams], np.int32)
    offset = np.cumsum(length, dtype=np.int64) - length
    return buffer, chunk_columns(buffer, offset, length)


def one_by_one(datagram):
    """The chunks that the plain reader gives, and what it says at the end."""
    found = []
    try:
        for chunk in read_chunks(datagram):
            found.append(chunk)
    except DecodeError as error:
        return found, error.reason
    return found, ""


def sound(draw):
    number = draw.randrange(1 << 32)
    return b"".join(
        write_chunks(number, draw.randbytes(draw.randrange(1, 40)), draw.randrange(12, 40))
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30))
@example(0)
def test_chunks_in_bulk_are_those_of_the_plain_reader(seed):
    draw = random.Random(seed)
    datagrams = []
    for _ in range(12):
        data = bytearray(sound(draw) if draw.random() < 0.8 else draw.randbytes(draw.randrange(30)))
        for _ in range(draw.randrange(3) if data else 0):
            data[draw.randrange(len(data))] = draw.randrange(256)
        datagrams.append(bytes(data))
    buffer, found = columns_of(datagrams)
    row = 0
    for at, datagram in enumerate(datagrams):
        chunks, reason = one_by_one(datagram)
        assert found.chunks[at] == len(chunks)
        assert FAULTS.get(int(found.fault[at]), "") == reason
        for ordinal, chunk in enumerate(chunks):
            own = (found.datagram[row], found.ordinal[row], found.number[row], found.count[row],
                   found.index[row])  # fmt: skip
            assert own == (at, ordinal, chunk.number, chunk.count, chunk.index)
            start = found.start[row]
            assert buffer[start : start + found.size[row]].tobytes() == chunk.payload
            row += 1
    assert row == len(found.number)


BODIES = {
    "IncrementalRefresh_152": ({"MDEntries": []}, True, True),
    "News_143": ({}, True, True),
    "Heartbeat_144": ({}, False, True),
    "SequenceReset_122": ({"NewSeqNo": 1}, False, False),
}
"""Messages: their fields, whether they number a datagram, whether they use a number up."""


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30))
def test_datagrams_in_bulk_have_the_keys_of_what_they_begin_with(seed):
    draw = random.Random(seed)
    datagrams, expected = [], []
    for _ in range(8):
        number = draw.randrange(1, 1 << 32)
        name = draw.choice([*BODIES])
        fields, numbered, using = BODIES[name]
        body = message(name, number, **fields)
        first, *more = write_chunks(number, body, draw.choice([1420, 18]))
        last = draw.randrange(1, 1 << 32)
        rest = draw.choice([b"", *write_chunks(last, message("News_143", last), 1420), b"noise"])
        keys = (
            True,
            number if numbered else 0,
            0 if more else timestamp_ns(SENT),
            max(number, last if len(rest) > 5 else 0) if using else 0,
        )
        if more and draw.random() < 0.5:
            first, keys = more[0], (True, 0, 0, 0)
        elif draw.random() < 0.2:
            first, rest, keys = b"", b"noise", (False, 0, 0, 0)
        datagrams.append(first + rest)
        expected.append(keys)
    buffer = np.frombuffer(b"".join(datagrams) + bytes(16), np.uint8)
    length = np.array([len(each) for each in datagrams], np.int32)
    offset = np.cumsum(length, dtype=np.int64) - length
    found = HeadReader(bundled_templates()).keys(buffer, offset, length)
    columns = (found.sound, found.number, found.sending_time_ns, found.last)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 99_999_999_999_999_999))
@example(20081007091208008)
@example(20240229235960999)
@example(20230229000000000)
def test_times_in_bulk_are_those_of_the_plain_reader(digits):
    (found,) = times_of(np.array([digits], np.int64))
    expected = timestamp_ns(digits) or 0
    year, month, day = digits // 10**13, digits // 10**11 % 100, digits // 10**9 % 100
    if 1970 <= year < 2262 and not (month in (2, 4, 6, 9, 11) and day > 28):
        assert found == expected


def test_heads_have_template_number_and_time():
    bodies = [message("News_143", 7), message("IncrementalRefresh_152", 8, MDEntries=[]),
              message("SecurityList_149", 9, TotNoRelatedSym=0, LastFragment="Y", RelatedSym=[],
                      SendingTime=str(SENT)), b"\x80\x81", b"\xc0\x07\x07"]  # fmt: skip
    buffer = np.frombuffer(b"".join(bodies) + bytes(16), np.uint8)
    size = np.array([len(each) for each in bodies], np.int64)
    heads = HeadReader(bundled_templates()).read(buffer, np.cumsum(size) - size, size)
    assert heads.template.tolist() == [143, 152, 149, -1, -1]
    assert heads.number.tolist() == [7, 8, 9, -1, -1]
    assert heads.sending_time_ns.tolist() == [timestamp_ns(SENT)] * 3 + [0, 0]


def rows(*bodies):
    buffer = np.frombuffer(b"".join(bodies) + bytes(16), np.uint8)
    size = np.array([len(each) for each in bodies], np.int64)
    end = np.cumsum(size)
    found = FastColumnDecoder(bundled_templates(), reset_each_message=True).decode(
        buffer, end - size, end
    )
    assert not len(found.refused)
    (template,) = [each for each in found.templates if found.count(each)]
    table = bundled_tables()[message_type(template)]
    made = rows_of(table, template, found)
    columns = made.columns(np.arange(len(made.message)))
    return made, pa.table(columns, names=table.names).to_pylist()


def test_a_row_for_each_entry_with_the_fields_of_its_message():
    entries = [
        entry("0", 0, 5, 1, position=1, size=100, price="10.5"),
        entry("1", 2, 5, 2, position=3),
        entry("2", 0, 6, 1, size=7, price="-0.00000001"),
    ]
    first, second = (
        message(
            "IncrementalRefresh_152", at, MDEntries=[{**each, "MDEntryTime": 1} for each in own]
        )
        for at, own in ((1, entries), (2, entries[:1]))
    )
    made, found = rows(first, second)
    assert made.message.tolist() == [0, 0, 0, 1]
    assert made.entry.tolist() == [0, 1, 2, 0]
    assert [row["msg_seq_num"] for row in found] == [1, 1, 1, 2]
    prices = [row["md_entry_px"] for row in found]
    assert prices == [Decimal("10.5"), None, Decimal("-0.00000001"), Decimal("10.5")]
    assert [row["md_entry_position_no"] for row in found] == [1, 3, None, 1]


@pytest.mark.parametrize(
    ("price", "fits"),
    [("12345678901", True), ("1234567890.12345678", True), ("0.000000001", False),
     ("1.200000000", True), ("9E+9", True), ("9E+12", True),
     ("-92233720368547758.08", True), ("-9E+18", True), ("9E+20", False), ("1E-30", False)],
)  # fmt: skip
def test_decimals_have_one_scale_or_are_refused(price, fits):
    own = entry("2", 0, 6, 1, size=7, price=price)
    made, found = rows(message("IncrementalRefresh_152", 1, MDEntries=[{**own, "MDEntryTime": 1}]))
    assert made.unfit.tolist() == ([] if fits else [0])
    if fits:
        assert found[0]["md_entry_px"] == Decimal(price)


def test_a_field_that_templates_hold_in_different_types_is_a_text():
    tables = tables_of(bundled_templates())
    kinds = {
        name: held
        for table in tables.values()
        for name, _, held in table.columns
        if table.name == "incremental_refresh"
    }
    assert kinds["open_close_settl_flag"] == pa.string()
    assert kinds["md_entry_size"] == pa.int64()
    assert kinds["underlyings"] == pa.string()


def test_the_feed_is_detected_from_its_content():
    bid = entry("0", 0, 5, 1, position=1, size=100, price="10.5")
    own = [news(1), heartbeat(2), incremental(3, bid), *snapshot(1, 3, 1, ("0", 5, "1.00"))]
    assert all(is_legacy(each, READER) for each in own)
    assert not is_legacy(b"", READER)
    assert not is_legacy(b"\x00" * 40, READER)
    assert mostly_legacy([*own, b"noise"], READER)
    assert not mostly_legacy([], READER)
    assert is_raw_dump(b"".join(own), READER)
    assert is_raw_dump(b"".join(own)[:-3], READER)
    assert not is_raw_dump(b"\xd4\xc3\xb2\xa1" + bytes(40), READER)
    assert READER.read(AssembledMessage(1, message("News_143", 1))).number == 1


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-1, 100_000_000), st.sampled_from(ALL_DAYS)),
            st.one_of(st.none(), st.integers(-240_000_000, 240_000_000), EDGES),
        ),
        min_size=1,
    )
)
def test_moments_of_columns_are_those_of_single_ones(pairs):
    nothing = -(1 << 63)
    days, times = (
        np.array([nothing if pair[at] is None else pair[at] for pair in pairs], np.int64)
        for at in range(2)
    )
    expected = [moment_ns(*pair) for pair in pairs]
    # In columns, 0 is no time: the first moment of 1970 is null.
    assert moments_of(days, times, nothing).tolist() == [own or nothing for own in expected]


def test_days_of_columns_are_those_of_single_ones_over_all_dates():
    """Every combination of a year, a month from 0 to 13 and a day from 0 to 32."""
    nothing = -(1 << 63)
    days = np.array(ALL_DAYS, np.int64)
    times = np.full(len(days), 1, np.int64)
    expected = [moment_ns(day, 1) for day in ALL_DAYS]
    found = moments_of(days, times, nothing).tolist()
    assert found == [nothing if own is None else own for own in expected]
    dates = (date(2262, 1, 1) - date(1970, 1, 1)).days
    assert (len(days) - dates, dates) == (found.count(nothing), len(set(found)) - 1)


@pytest.mark.parametrize("day", [20260231, 20250229, 21000229, 20260431, 20261131, 20260100])
def test_dates_that_do_not_exist_are_no_times(day):
    assert moment_ns(day, 120000) is None
    assert times_of(np.array([day * 1_000_000_000 + 120_000_000])).tolist() == [0]


def test_a_message_without_entries_has_a_row_all_the_same():
    whole, empty = (
        message("SnapshotFullRefresh_153", number, LastMsgSeqNumProcessed=9, RptSeq=4,
                SecurityID=7, TotNumReports=2, MDEntries=own)
        for number, own in ((1, [{"MDEntryType": "0", "MDEntrySize": 5}]), (2, []))
    )  # fmt: skip
    _, found = rows(whole, empty)
    assert [(row["msg_seq_num"], row["md_entry_type"], row["last_msg_seq_num_processed"])
            for row in found] == [(1, "0", 9), (2, None, 9)]  # fmt: skip
