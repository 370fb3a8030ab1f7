"""Days that begin with a snapshot, and gaps that snapshots heal: what analytics make of them."""

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest

from pregao.feed.packet_keys import INDEX_BITS
from pregao.feed.replay.day import LAST_SERIAL
from pregao.lake.analytics import _order_kernels as k
from pregao.lake.analytics.order_histories import histories, order_tasks
from pregao.lake.analytics.session_stats import session_stats
from pregao.lake.analytics.trades import stored_trades
from pregao.lake.books.reader import SecurityRange
from tests.lake.analytics.test_lake_analytics_orders import final_books
from tests.lake.analytics_support import (
    analysed,
    messages,
    rows,
    the_day,
    truth_lines,
)

TABLES = ("session_stats", "orders")
LATE = {"seed": 5, "instruments": 3, "duration": "40s", "late_join": "0.6"}
LATE_OLD = LATE | {"schema_version": 9, "profile": "derivatives"}
LOSSY = {"seed": 12, "instruments": 4, "duration": "40s", "loss": "A=0.06,B=0.06"}


@pytest.fixture(scope="module", params=[LATE, LATE_OLD, LOSSY], ids=["late", "old", "lossy"])
def lake_and_truth(request):
    return analysed(TABLES, **request.param)


@pytest.fixture(scope="module")
def late():
    return analysed(TABLES, **LATE)


def test_the_orders_at_the_end_are_those_of_the_exchange(lake_and_truth):
    lake, truth = lake_and_truth
    there = {
        (row["security_id"], row["secondary_order_id"], row["side"], row["price"],
         row["last_size"], row["firm"], row["entered_ns"])
        for row in rows(lake, "orders", end_reason=None)
    }  # fmt: skip
    expected = set(final_books(truth))
    assert expected
    assert there == expected


def test_the_shown_quantity_of_an_order_was_traded_reduced_cancelled_missed_or_remains(
    lake_and_truth,
):
    lake, _ = lake_and_truth
    orders = rows(lake, "orders")
    assert any(row["filled_quantity"] for row in orders)
    for row in orders:
        if row["filled_quantity"] is None or row["size"] is None:
            continue  # never in a message or snapshot with its size
        left = 0 if row["end_reason"] == "FILLED" else row["last_size"] or 0
        gone = row["filled_quantity"] + row["reduced_quantity"] + row["unobserved_quantity"]
        assert row["size"] == gone + left


def test_an_order_of_a_snapshot_has_its_size_there_and_its_own_time_of_entry(late):
    lake, _ = late
    shown = {}
    for row in rows(lake, "umdf_snapshot_full_refresh_orders_mbo_71"):
        for entry in row["no_md_entries"]:
            key = row["security_id"], entry["secondary_order_id"]
            shown.setdefault(key, []).append(entry)
    named = {(row["security_id"], row["secondary_order_id"]) for row in messages(lake, 50, 51)}
    orders = {(row["security_id"], row["secondary_order_id"]): row for row in rows(lake, "orders")}
    first = {key: row for key, row in orders.items() if row["origin"] == "snapshot"}
    assert len(first) > 100
    assert orders.keys() == named | first.keys()
    begins = min(row["sending_time_ns"] for row in rows(lake, "packets"))
    for key, row in first.items():
        entry = shown[key][0]
        assert row["size"] == entry["md_entry_size"]
        assert row["price"] == entry["md_entry_px"]
        assert row["entered_ns"] == entry["md_insert_timestamp_ns"]
        assert not row["entry_seen"]
        assert row["event"] is None
        assert row["index_in_packet"] is None
    assert any(row["entered_ns"] < begins for row in first.values())
    # Filled ones are called so, with what they had.
    filled = [row for row in first.values() if row["end_reason"] == "FILLED"]
    assert filled
    assert all(row["filled_quantity"] > 0 for row in filled)
    assert any(row["lifetime_ns"] > 0 for row in filled)
    assert {row["origin"] for row in orders.values()} == {"message", "snapshot"}


@pytest.mark.parametrize("count", [2, 7, 50])
def test_an_instrument_that_is_read_in_windows_has_the_same_orders(lake_and_truth, count):
    """Open orders, queues, traded volumes, the open event and losses carry over."""
    lake, _ = lake_and_truth
    with the_day(lake) as day:
        compared = 0
        for task in order_tasks(day):
            whole = of_instruments(histories(day, task))
            security, rows_of_it = max(whole.items(), key=lambda found: len(found[1]))
            last = max(row[k.SERIAL] for row in rows_of_it) >> INDEX_BITS
            cuts = [0, *(last * number // count for number in range(1, count)), LAST_SERIAL + 1]
            windows = tuple((first, end - 1) for first, end in pairwise(cuts))
            alone = replace(task, part=SecurityRange(security, security), windows=windows)
            parts = list(histories(day, alone))
            assert len(parts) == count
            assert sum(len(part.lives) > 0 for part in parts) > count // 8
            assert of_instruments(parts) == {security: rows_of_it}
            compared += len(rows_of_it)
    assert compared > 100


def of_instruments(parts):
    """The histories of each instrument, in order."""
    found = {}
    for part in parts:
        for row in part.lives.tolist():
            row[k.RANK] = part.securities[row[k.RANK]]
            found.setdefault(row[k.RANK], []).append(row)
    return {security: sorted(own) for security, own in found.items()}


def test_orders_that_went_in_a_gap_ended_unseen():
    lake, _ = analysed(TABLES, **LOSSY)
    unseen = rows(lake, "orders", end_reason="UNOBSERVED")
    assert unseen
    assert all(row["ended_ns"] is None and row["end_event"] is None for row in unseen)
    assert rows(lake, "orders", origin="snapshot")


@pytest.mark.parametrize("settings", [LATE, LATE_OLD, LATE | {"seed": 7, "late_join": "0.3"}])
def test_on_perfect_data_rows_after_the_first_known_statistics_are_equal(settings):
    lake, _ = analysed(TABLES if settings in (LATE, LATE_OLD) else TABLES[:1], **settings)
    stats = [row for row in rows(lake, "session_stats") if row["session"] == 0]
    assert stats
    assert [row for row in stats if row["differences"]] == []
    assert any(row["equal"] for row in stats)
    for row in stats:
        assert row["equal"] == (True if row["compared"] else None)
        assert "open" not in row["compared"]
        if row["equal"]:
            assert row["initial_trades"] + row["trades"] >= row["published_trades"]
            assert {"volume", "vwap", "trades"} <= set(row["compared"])


def test_a_trade_that_was_lost_after_the_first_known_statistics_shows(late):
    lake, _ = late
    equal = [row for row in rows(lake, "session_stats") if row["equal"] and row["trades"] > 1]
    security_id = equal[0]["security_id"]
    last = max(
        (row for row in rows(lake, "trades", security_id=security_id) if not row["busted"]),
        key=lambda row: row["event"],
    )
    lost = f"security_id = {security_id} and trade_id = {last['trade_id']}"
    with the_day(lake) as day:
        left = stored_trades(day).where(f"not ({lost})")
        found = session_stats(day, left).where(f"security_id = {security_id}").collect()
    assert {"volume", "trades"} <= set(found[-1]["differences"])
    assert found[-1]["equal"] is False


def test_ours_are_of_the_captured_trades(late):
    lake, truth = late
    busted = {
        (line["security_id"], line["trade_id"])
        for line in truth_lines(truth, "trades.jsonl")
        if line["action"] == "BUST"
    }
    for row in rows(lake, "session_stats"):
        own = [
            trade
            for trade in rows(lake, "trades", security_id=row["security_id"])
            if (trade["security_id"], trade["trade_id"]) not in busted
        ]
        assert row["trades"] == len(own)
        assert row["notional"] == sum((t["price"] * t["size"] for t in own), Decimal(0))
