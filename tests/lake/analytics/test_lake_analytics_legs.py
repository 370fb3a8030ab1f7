"""Trades of legs in the tables: whose they are, that they set no last price, and what counts."""

from decimal import Decimal
from itertools import pairwise

import pytest

from pregao.exchange.engine.model.enums import TrdSubType
from pregao.lake.analytics.run import analyse
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import rows
from tests.lake.leg_session import FAR, NEAR, SPREAD, Session


@pytest.fixture(scope="module")
def session_and_lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("legs")
    session = Session(folder)
    lake = LakeStore(tmp_path_factory.mktemp("lake") / "lake")
    ingest([str(folder)], lake.location)
    analyse(lake, tables=("trades", "session_stats", "bars"))
    return session, lake


@pytest.fixture(scope="module")
def trades(session_and_lake):
    return {
        (row["security_id"], row["trade_id"]): row for row in rows(session_and_lake[1], "trades")
    }


def test_every_trade_of_a_spread_and_its_legs_is_present(session_and_lake, trades):
    session, _ = session_and_lake
    assert trades.keys() == session.trades.keys()
    for key, trade in session.trades.items():
        row = trades[key]
        assert (row["price"], row["size"]) == (Decimal(trade.price).scaleb(-4), trade.size)
        assert row["leg"] == (trade.trd_sub_type == TrdSubType.LEG_TRADE)
        assert row["implied"] == trade.implied
        assert row["busted"] == (key in session.busted)
    legs = {key[0] for key, row in trades.items() if row["leg"]}
    assert legs == {NEAR, FAR}
    assert any(row["implied"] for key, row in trades.items() if key[0] == SPREAD)
    assert any(key[0] == session.made for key in trades)
    assert session.busted


def test_a_trade_of_a_leg_sets_no_last_price(trades):
    assert {row["sets_last_price"] for row in trades.values() if row["leg"]} == {False}
    assert any(row["sets_last_price"] for row in trades.values())


def test_legs_count_in_the_volume_but_not_in_the_last_price(session_and_lake, trades):
    _, lake = session_and_lake
    for security_id in (NEAR, FAR):
        own = [row for key, row in sorted(trades.items()) if key[0] == security_id]
        counted = [row for row in own if not row["busted"]]
        closes = [row["close"] for row in rows(lake, "bars", security_id=security_id)]
        assert set(closes) - {None} <= {row["price"] for row in own if not row["leg"]}
        volume = sum(row["volume"] for row in rows(lake, "bars", security_id=security_id)
                     if row["interval"] == "1m")  # fmt: skip
        assert volume == sum(row["size"] for row in counted)


def test_leg_trades_have_the_event_of_their_own_instrument(trades):
    """Each instrument has a separate event (000 §18): none is shared with the spread."""
    events = {}
    for (security_id, _), row in trades.items():
        events.setdefault(row["event"], set()).add(security_id)
    assert all(len(found) == 1 for found in events.values())
    times = [row["time_ns"] for _, row in sorted(trades.items()) if row["security_id"] == NEAR]
    assert all(one <= other for one, other in pairwise(times))
