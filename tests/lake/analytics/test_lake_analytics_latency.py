"""Latencies: equal to a plain recomputation from the messages, at old and new versions."""

import numpy as np
import pytest

from pregao.clock import MINUTE
from pregao.lake.analytics.latency import latency_minutes
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.reading import incremental_templates
from pregao.lake.storage.filesystem import Location
from tests.lake.analytics.test_lake_analytics_orders import OLD, OLD_TABLES
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import analysed, messages, rows

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
    found = sorted(rows(lake, "latency"), key=lambda row: (row["channel"], row["event"]))
    assert len(found) == len(expected) > 1000
    for row, wanted in zip(found, expected, strict=True):
        assert {name: row[name] for name in wanted} == wanted


def test_from_version_15_on_orders_alone_have_no_t10():
    for tables, settings, has_t10 in ((None, SETTINGS, False), (OLD_TABLES, OLD, True)):
        lake, _ = analysed(tables, **settings)
        added = [row for row in messages(lake, 50) if row["md_update_action"] == "NEW"]
        alone = {row["event"] for row in rows(lake, "latency", messages=1)}
        events = {row["event"] for row in added} & alone
        times = [row for row in rows(lake, "latency") if row["event"] in events]
        assert len(times) > 100
        for row in times:
            assert row["t5_ns"] is not None
            assert (row["t10_ns"] is not None) == has_t10


def test_percentiles_of_a_minute_are_those_of_its_events():
    lake, _ = analysed(**SETTINGS)
    spans = {}
    for row in rows(lake, "latency"):
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


def test_an_event_counts_in_the_minute_in_which_it_was_sent(tmp_path):
    """Also one that was captured in the next minute, or that lacks some measures."""
    names = ("t5_ns", "t11_ns", "network_raw_ns", "network_ns", "feed_difference_ns")
    columns = ", ".join(["channel smallint", *[f"{name} bigint" for name in names]])
    events = [
        (1, MINUTE - 30, MINUTE - 10, -5, 15, None),
        (1, None, MINUTE, -17, 3, 7),
        (1, None, MINUTE + 1, -16, 4, 9),
    ]
    with LocalSession(Location.parse(tmp_path)) as session:
        found = latency_minutes(session.createDataFrame(events, columns)).collect()
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
