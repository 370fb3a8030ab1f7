"""Our statistics of a session against those that the exchange published."""

import pytest

from pregao.lake.analytics.session_stats import session_starts, session_stats
from pregao.lake.analytics.trades import stored_trades
from pregao.umdf.phases import GroupKey, Phases, StatisticsReset
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import analysed, messages, rows, the_day


@pytest.fixture(scope="module")
def lake():
    return analysed(**SETTINGS)[0]


def test_000_13_8_and_14_3_published_figures_equal_ours_on_a_clean_day(lake):
    stats = rows(lake, "session_stats")
    assert {row["security_id"] for row in stats} == {
        row["security_id"] for row in rows(lake, "trades")
    }
    assert [row for row in stats if not row["equal"]] == []
    everything = ["open", "high", "low", "volume", "vwap", "trades"]
    assert all(row["compared"] == everything for row in stats)
    assert sum(row["busts"] for row in stats) == len(rows(lake, "trades", busted=True)) > 0
    for row in stats:
        last = [m for m in messages(lake, 56) if m["security_id"] == row["security_id"]][-1]
        assert row["published_volume"] == row["volume"] == last["trade_volume"]
        assert row["published_trades"] == row["trades"] == last["number_of_trades"]
        assert row["published_vwap"] == last["vwap_px"] == round(row["vwap"], 4)
        assert row["session"] >= 1
        assert row["session_start_ns"] is not None


def test_000_14_3_sessions_begin_where_the_rules_reset_the_statistics(lake):
    phases, expected = Phases(), set()
    for row in rows(lake, "instruments"):
        phases.define(row["security_id"], GroupKey(row["security_group"]))
    for row in messages(lake, 3, 10):
        event = row["security_trading_event"]
        if row["template"] == 3:
            changes = phases.security_status(
                row["security_id"], row["security_trading_status"], event
            )
        else:
            key = GroupKey(row["security_group"])
            changes = phases.group_phase(key, row["trading_session_sub_id"], event)
        at = 10**14 * row["sequence_version"] + 10**4 * row["sequence_number"]
        for change in changes:
            if isinstance(change, StatisticsReset):
                expected |= {(one, at + row["index_in_packet"]) for one in change.security_ids}
    with the_day(lake) as day:
        found = session_starts(day).collect()
    assert {(row["security_id"], row["place"]) for row in found} == expected
    assert len(found) == len(expected) > 0


def test_losses_show_as_a_difference(lake):
    busted = {row["security_id"] for row in rows(lake, "trades") if row["busted"]}
    counted = [row for row in rows(lake, "trades") if row["security_id"] not in busted]
    highest = max(counted, key=lambda row: row["price"])
    lost = f"security_id = {highest['security_id']} and price = {highest['price']}"
    with the_day(lake) as day:
        left = stored_trades(day).where(f"not ({lost})")
        found = [row for row in session_stats(day, left).collect() if not row["equal"]]
    assert [row["security_id"] for row in found] == [highest["security_id"]]
    assert {"high", "volume", "vwap", "trades"} <= set(found[0]["differences"])
    assert "low" not in found[0]["differences"]


def test_a_session_without_its_beginning_has_number_0():
    lake, _ = analysed(
        ("session_stats", "status"), seed=5, instruments=3, duration="40s", late_join="0.6"
    )
    stats = rows(lake, "session_stats")
    assert stats
    for row in stats:
        assert row["session"] == 0
        assert row["session_start_ns"] is None
        assert row["published_trades"] >= row["trades"]
        assert row["differences"] == []
