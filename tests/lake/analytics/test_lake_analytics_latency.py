"""Latencies: equal to a plain recomputation from the messages, at old and new versions."""

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from pregao.book.update_rows import NULL
from pregao.clock import MINUTE
from pregao.lake.analytics import _latency_kernels, latency, run
from pregao.lake.analytics.clock_offsets import CLOCK_OFFSETS
from pregao.lake.analytics.latency import latency_minutes
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.reading import (
    DayTables,
    LakeDay,
    incremental_templates,
    message_table,
)
from pregao.lake.analytics.row_groups import GroupBounds, ValueRange, ranges_of
from pregao.lake.analytics.run import analyse
from pregao.lake.analytics.task import JOB
from pregao.lake.ingest.protocols.umdf import message_table_specs
from pregao.lake.ingest.writer import write_rows
from pregao.lake.sql.table_files import TableFiles
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import stored_schema
from pregao.umdf.events import EventNumbers
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.templates import (
    DELETE_ORDER,
    END_OF_EVENT,
    EXECUTION_SUMMARY,
    ORDER,
    SECURITY_GROUP_PHASE,
    TRADE,
)
from pregao.units import day_number
from tests.lake.analytics.test_lake_analytics_orders import OLD, OLD_TABLES
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import (
    DATE,
    analysed,
    in_some_order,
    latency_times,
    messages,
    rows,
)

RECOVERY = 1 << 5
BY_HAND = 1 << 3 | 1 << 6


def happened(row):
    """T5 of a message, or None if it has none."""
    if row["template"] == 50:
        if row["match_event_indicator"] & RECOVERY:
            return None
        inserted = row["md_insert_timestamp_ns"] if row["md_update_action"] == "NEW" else None
        return row["transact_time_ns"] or inserted
    if row["template"] in (53, 54) and row["trade_condition"] & BY_HAND:
        return None
    return row.get("transact_time_ns")


def expected_events(lake):
    events = {}
    for row in messages(lake, *incremental_templates()):
        if row["event"] is not None:
            events.setdefault((row["channel"], row["event"]), []).append(row)

    def least(values):
        return min((value for value in values if value is not None), default=None)

    for (channel, event), own in events.items():
        first, last = own[0], own[-1]
        yield {
            "channel": channel,
            "event": event,
            "security_id": first.get("security_id"),
            "messages": len(own),
            "t1_ns": None,
            "t2_ns": None,
            "t4_ns": None,
            "aggressor_time_ns": least(row.get("aggressor_time_ns") for row in own),
            "t5_ns": least(map(happened, own)),
            "t6_ns": None,
            "t10_ns": least(row.get("md_entry_timestamp_ns") for row in own),
            "t11_ns": first["sending_time_ns"],
            "last_t11_ns": last["sending_time_ns"],
            "capture_time_ns": first["capture_time_ns"],
            "last_capture_time_ns": last["capture_time_ns"],
            "feed": first["feed"],
            "feed_difference_ns": first["feed_difference_ns"],
            "capture_id": first["capture_id"],
            "network_raw_ns": first["capture_time_ns"] - first["sending_time_ns"],
        }


@pytest.mark.parametrize(("tables", "settings"), [(None, SETTINGS), (OLD_TABLES, OLD)])
def test_the_times_of_events_equal_a_plain_recomputation(tables, settings):
    lake, _ = analysed(tables, **settings)
    expected = sorted(expected_events(lake), key=lambda row: (row["channel"], row["event"]))
    found = sorted(latency_times(lake), key=lambda row: (row["channel"], row["event"]))
    assert len(found) == len(expected) > 1000
    for row, wanted in zip(found, expected, strict=True):
        assert {name: row[name] for name in wanted} == wanted


def test_from_version_15_on_orders_alone_have_no_t10():
    for tables, settings, has_t10 in ((None, SETTINGS, False), (OLD_TABLES, OLD, True)):
        lake, _ = analysed(tables, **settings)
        added = [row for row in messages(lake, 50) if row["md_update_action"] == "NEW"]
        alone = {row["event"] for row in rows(lake, "latency", messages=1)}
        events = {row["event"] for row in added} & alone
        times = [row for row in latency_times(lake) if row["event"] in events]
        assert len(times) > 100
        for row in times:
            assert row["t5_ns"] is not None
            assert (row["t10_ns"] is not None) == has_t10


def test_percentiles_of_a_minute_are_those_of_its_events():
    lake, _ = analysed(**SETTINGS)
    spans = {}
    for row in latency_times(lake):
        minute = row["t11_ns"] // MINUTE * MINUTE
        for measure, span in (
            ("engine", None if row["t5_ns"] is None else row["t11_ns"] - row["t5_ns"]),
            ("network", row["network_ns"]),
            ("network_raw", row["capture_time_ns"] - row["t11_ns"]),
            ("feeds", row["feed_difference_ns"]),
        ):
            if span is not None:
                spans.setdefault((row["channel"], minute, measure), []).append(span)
    found = rows(lake, "latency_minutes")
    assert len(found) == len(spans)
    for row in found:
        own = spans[row["channel"], row["minute_ns"], row["measure"]]
        assert row["events"] == len(own)
        assert row["max_ns"] == max(own)
        shares = [row["p50_ns"], row["p90_ns"], row["p99_ns"], row["p999_ns"]]
        assert shares == pytest.approx(np.percentile(own, [50, 90, 99, 99.9]), rel=1e-12)


def test_an_event_counts_in_the_minute_in_which_it_was_sent():
    """Also one that was captured in the next minute, or that lacks some measures."""
    columns = {
        "engine_ns": [20, NULL, NULL],
        "t11_ns": [MINUTE - 10, MINUTE, MINUTE + 1],
        "network_raw_ns": [-5, -17, -16],
        "network_ns": [15, 3, 4],
        "feed_difference_ns": [NULL, 7, 9],
    }
    found = latency_minutes({name: np.array(own, np.int64) for name, own in columns.items()})
    counts = {
        (row["minute_ns"], row["measure"]): (row["events"], row["p50_ns"], row["max_ns"])
        for row in found
    }
    assert counts == {
        (0, "engine"): (1, 20.0, 20),
        (0, "network"): (1, 15.0, 15),
        (0, "network_raw"): (1, -5.0, -5),
        (MINUTE, "network"): (2, 3.5, 4),
        (MINUTE, "network_raw"): (2, -16.5, -16),
        (MINUTE, "feeds"): (2, 8.0, 9),
    }


def test_minutes_in_ranges_equal_those_of_the_whole_day(tmp_path, monkeypatch):
    lake, _ = analysed(**SETTINGS)
    copy = LakeStore(tmp_path / "lake")
    shutil.copytree(lake.location.path, copy.location.path)
    for name in ("MAX_MESSAGES", "MIN_MESSAGES", "MAX_EVENTS"):
        monkeypatch.setattr(latency, name, 100)
    before = {name: in_some_order(copy, name) for name in ("latency", "latency_minutes")}
    assert len(before["latency"]) > 1000
    ranges = []
    monkeypatch.setattr(
        run, "JOB", replace(JOB, work=lambda task: ranges.append(task.span) or JOB.work(task))
    )
    analyse(copy, tables=["latency_minutes"], force=True)
    assert {name: in_some_order(copy, name) for name in before} == before
    assert len(ranges) > 30


def test_times_are_stored_as_differences_and_compressed():
    lake, _ = analysed(**SETTINGS)
    (path,) = Path(lake.location.path, "latency").rglob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    columns = {own.path_in_schema: own for own in map(group.column, range(group.num_columns))}
    for name in ("event", "t11_ns"):
        assert "DELTA_BINARY_PACKED" in columns[name].encodings, name
    for name in ("feed", "capture_id", "security_id", "clock_offset_ns", "messages"):
        assert "RLE_DICTIONARY" in columns[name].encodings, name
    for name in ("event", "t11_ns", "security_id", "messages"):
        assert columns[name].compression == "ZSTD", name
    # Every time in a dictionary took 44 bytes, as differences in its own column 25.
    assert sum(own.total_compressed_size for own in columns.values()) < 14 * group.num_rows


# --- Ranges of events ---

SECURITIES = (100, 200, 300)
TEMPLATES = {
    ORDER: ("security_id", "match_event_indicator", "md_update_action", "md_insert_timestamp_ns"),
    DELETE_ORDER: ("security_id", "md_entry_timestamp_ns"),
    TRADE: ("security_id", "trade_condition", "md_entry_timestamp_ns"),
    SECURITY_GROUP_PHASE: (),
    EXECUTION_SUMMARY: ("security_id", "aggressor_time_ns", "md_entry_timestamp_ns"),
}
OFFSETS = {"x": 40, "y": None}
"""Clock offset of each capture; the third has none."""


@st.composite
def days_of_events(draw):
    """Messages of events over several instruments and packets, with gaps and restarts."""
    events, rows, time = EventNumbers(), [], 0
    version, number = 1, draw(st.integers(1, 5))
    for _ in range(draw(st.integers(1, 25))):
        jump = draw(st.sampled_from((0, 0, 0, 1, 2)))
        if jump == 2:
            version, number = version + 1, 1
        number += 1 + jump
        key, time = PacketKey(version, number), time + draw(st.integers(0, 60))
        packet = {
            "sending_time_ns": time,
            "capture_time_ns": time + draw(st.integers(0, 90)),
            "feed": draw(st.sampled_from("AB")),
            "capture_id": draw(st.sampled_from("xyz")),
            "feed_difference_ns": draw(st.none() | st.integers(0, 9)),
        }
        for index in range(1, 1 + draw(st.integers(1, 4))):
            template = draw(st.sampled_from(sorted(TEMPLATES)))
            ends = END_OF_EVENT if draw(st.booleans()) else 0
            row = {
                "template": template, "channel": 7, "stream": "incremental",
                "sequence_version": version, "sequence_number": number, "index_in_packet": index,
                "event": events.number(key, index, template, ends), **packet,
                "transact_time_ns": draw(st.none() | st.integers(0, 2000)),
            }  # fmt: skip
            values = {
                "security_id": st.sampled_from(SECURITIES),
                "match_event_indicator": st.sampled_from((ends, ends | RECOVERY)),
                "md_update_action": st.sampled_from(("NEW", "CHANGE")),
                "trade_condition": st.sampled_from((None, 0, BY_HAND & 8, 1)),
            }
            for name in TEMPLATES[template]:
                row[name] = draw(values.get(name, st.none() | st.integers(0, 2000)))
            rows.append(row)
    return rows


def stored(folder, rows, files):
    """The tables of a day with these messages, each in so many files in order of instruments."""
    location = Location.parse(folder)
    specs = {spec.name: spec for spec in (*message_table_specs(), CLOCK_OFFSETS.spec)}
    offsets = [
        {"channel": 7, "stream": "incremental", "feed": feed, "capture_id": own, "offset_ns": known}
        for own, known in OFFSETS.items()
        for feed in "AB"
    ]
    contents = {message_table(template): [] for template in TEMPLATES}
    for row in rows:
        contents[message_table(row["template"])].append(row)
    tables = {}
    for name, content in [*contents.items(), (CLOCK_OFFSETS.name, offsets)]:
        kinds = stored_schema(specs[name].schema)
        paths = []
        for part in range(files):
            share = content[part * len(content) // files : (part + 1) * len(content) // files]
            share.sort(key=lambda row: row.get("security_id") or 0)
            if share:
                table = pa.Table.from_pylist(share, kinds)
                for at, kind in enumerate(kinds):
                    if pa.types.is_string(kind.type):
                        coded = table.column(at).dictionary_encode()
                        table = table.set_column(at, kind.name, coded)
                paths.append(write_rows(location, name, table, day_number(DATE)).path)
        declared = specs[name].schema.remove_metadata()
        actions = pa.table({"path": pa.array(paths, pa.string())})
        tables[name] = TableFiles(name, location.join(name), declared, True, actions)
    return DayTables(location, DATE, tables, {}, None)


def plain_events(rows):
    """The events of messages in order, with their times."""

    def least(values):
        return min((value for value in values if value is not None), default=None)

    events = {}
    for row in rows:
        events.setdefault(row["event"], []).append(row)
    for event, own in sorted(events.items()):
        first, last = own[0], own[-1]
        raw, offset = first["capture_time_ns"] - first["sending_time_ns"], None
        offset = OFFSETS.get(first["capture_id"])
        yield {
            "event": event,
            "security_id": first.get("security_id"),
            "messages": len(own),
            "aggressor_time_ns": least(row.get("aggressor_time_ns") for row in own),
            "t5_ns": least(map(plain_time, own)),
            "t10_ns": least(row.get("md_entry_timestamp_ns") for row in own),
            "t11_ns": first["sending_time_ns"],
            "last_t11_ns": last["sending_time_ns"],
            "capture_time_ns": first["capture_time_ns"],
            "last_capture_time_ns": last["capture_time_ns"],
            "network_raw_ns": raw,
            "clock_offset_ns": offset,
            "network_ns": None if offset is None or raw < offset else raw - offset,
            "feed": first["feed"],
            "capture_id": first["capture_id"],
            "feed_difference_ns": first["feed_difference_ns"],
        }


def as_stored(row):
    """The times of an event as the durations that the table has."""

    def span(start, end):
        return None if row[start] is None or row[end] is None else row[end] - row[start]

    times = ("aggressor_time_ns", "t5_ns", "t10_ns", "last_t11_ns", "last_capture_time_ns")
    return {
        **{name: value for name, value in row.items() if name not in (*times, "capture_time_ns")},
        "aggressor_ns": span("aggressor_time_ns", "t11_ns"),
        "engine_ns": span("t5_ns", "t11_ns"),
        "publish_ns": span("t10_ns", "t11_ns"),
        "send_span_ns": span("t11_ns", "last_t11_ns"),
        "capture_span_ns": span("capture_time_ns", "last_capture_time_ns"),
    }


def plain_time(row):
    """T5 of a message: `happened`, but with an unknown condition a trade has none."""
    if row["template"] == TRADE and row["trade_condition"] is None:
        return None
    if row["template"] == ORDER and row["transact_time_ns"] is not None:
        return None if row["match_event_indicator"] & RECOVERY else row["transact_time_ns"]
    return happened(row)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with LocalSession(Location.parse(tmp_path_factory.mktemp("events"))) as opened:
        yield opened


@profile(deadline=None, max_examples=60)
@given(st.data())
def test_events_of_random_ranges_equal_those_of_the_whole(session, data):
    """Each event is in exactly one range, wherever its other instruments and packets are."""
    rows = data.draw(days_of_events())
    cuts = data.draw(st.lists(st.sampled_from([row["event"] for row in rows]), max_size=4))
    cuts = sorted({cut + data.draw(st.sampled_from((0, 1))) for cut in cuts})
    with TemporaryDirectory(dir=session.lake.path) as folder:
        tables = stored(folder, rows, data.draw(st.integers(1, 3)))
        found = []
        for span in map(ValueRange, [NULL, *cuts], [*(cut - 1 for cut in cuts), (1 << 63) - 1]):
            day = LakeDay(session, tables, 7)
            day.span = span
            part = latency.latency(day).to_pylist()
            assert all(span.first <= row["event"] <= span.last for row in part)
            found += part
        session.release()
    expected = list(map(as_stored, plain_events(rows)))
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert all(row["channel"] == 7 and row["t1_ns"] is None for row in found)


def gather_events(order, event, place, times, first, last, messages, least):
    """Plain twin of the kernel."""
    groups = {}
    for row in sorted(order.tolist(), key=lambda row: place[row]):
        groups.setdefault(int(event[row]), []).append(row)
    for at, (_, own) in enumerate(sorted(groups.items())):
        first[at], last[at], messages[at] = own[0], own[-1], len(own)
        for kind, values in enumerate(times):
            known = [int(values[row]) for row in own if values[row] != NULL]
            least[kind, at] = min(known, default=NULL)
    return len(groups)


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(-5, 5)), max_size=40))
def test_the_kernel_gathers_the_messages_of_events(pairs):
    event = np.array([event for event, _ in pairs], np.int64)
    place = np.random.default_rng(len(pairs)).permutation(len(pairs)).astype(np.int64)
    times = np.array([[NULL if time is None else time for _, time in pairs]], np.int64)
    results = []
    for gather in (_latency_kernels.gather_events, gather_events):
        rows = [np.full(len(pairs), -1, np.int64) for _ in range(3)]
        least = np.full(times.shape, -1, np.int64)
        count = gather(np.argsort(event), event, place, times, *rows, least)
        results.append([count, *(own.tolist() for own in rows), least.tolist()])
    assert results[0] == results[1]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 90), st.integers(1, 40)), max_size=12),
    st.integers(1, 60),
    st.sampled_from((1, 7)),
)
def test_ranges_cover_every_value_once_and_have_about_equal_rows(groups, max_rows, step):
    bounds = [GroupBounds(low, low + width, rows, low) for low, width, rows in groups]
    found = ranges_of(bounds, max_rows, 2, 3, step)
    firsts = [span.first for span, _ in found]
    assert firsts == sorted(set(firsts))
    assert firsts[0] == NULL
    assert [span.last for span, _ in found] == [*(each - 1 for each in firsts[1:]), (1 << 63) - 1]
    assert all(first % step == 0 for first in firsts[1:])
    total = sum(rows for *_, rows in groups)
    assert abs(sum(rows for _, rows in found) - total) <= len(found)
    if step == 1 and groups and all(width == 0 and rows == 1 for _, width, rows in groups):
        assert max(rows for _, rows in found) <= max(2 * max_rows, total)


def test_a_day_of_many_messages_has_ranges_of_about_equal_rows():
    bounds = [GroupBounds(file * 1000, file * 1000 + 999, 100, file * 1000) for file in range(40)]
    found = ranges_of(bounds, 400, 2, 10)
    assert len(found) == 10
    assert {rows for _, rows in found} == {400}
    # A cut moves to the start of a file.
    assert [span.first for span, _ in found[1:]] == [4000 * number for number in range(1, 10)]
