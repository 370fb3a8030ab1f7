"""The table of trades: each trade once, in its final state, and how it came about."""

from collections import Counter
from decimal import Decimal

import pytest

from pregao.umdf.phases import sets_last_price
from tests.lake.analytics_support import (
    analysed,
    message_key,
    messages,
    rows,
    truth_lines,
)

SETTINGS = {"seed": 9}


@pytest.fixture(scope="module")
def lake_and_truth():
    return analysed(**SETTINGS)


@pytest.fixture(scope="module")
def trades(lake_and_truth):
    return rows(lake_and_truth[0], "trades")


def test_every_trade_appears_once_in_its_final_state(lake_and_truth, trades):
    stands, corrected, busted = {}, Counter(), set()
    for line in truth_lines(lake_and_truth[1], "trades.jsonl"):
        key = line["security_id"], line["trade_id"]
        if line["action"] == "BUST":
            busted.add(key)
        else:
            corrected[key] += key in stands
            stands[key] = line
    assert busted
    assert any(corrected.values())
    assert len(trades) == len(stands)
    by_key = {(row["security_id"], row["trade_id"]): row for row in trades}
    assert by_key.keys() == stands.keys()
    for key, row in by_key.items():
        line = stands[key]
        assert (row["price"], row["size"]) == (Decimal(line["price"]), line["size"])
        assert (row["buyer"], row["seller"]) == (line.get("buyer"), line.get("seller"))
        assert row["trade_condition"] == line["trade_condition"]
        assert row["symbol"] == line["symbol"]
        assert row["busted"] == (key in busted)
        assert (row["bust_time_ns"] is not None) == (key in busted)
        assert row["corrected"] == (corrected[key] > 0)
        assert row["publications"] == 1 + corrected[key]
        time_ns = row["correction_time_ns"] if row["corrected"] else row["time_ns"]
        assert time_ns == line["time_ns"]


def test_the_aggressor_is_that_of_the_summary_ahead_in_the_event(lake_and_truth, trades):
    summaries, expected = {}, {}
    for row in messages(lake_and_truth[0], 53, 54, 55):
        event = row["channel"], row["event"], row["security_id"]
        if row["template"] == 55:
            summaries[event] = row["aggressor_side"], row["aggressor_time_ns"]
        else:
            key = row["security_id"], row["trade_id"]
            expected.setdefault(key, summaries.get(event, (None, None)))
    for row in trades:
        found = row["aggressor_side"], row["aggressor_time_ns"]
        assert found == expected[row["security_id"], row["trade_id"]]
    assert {side for side, _ in expected.values()} >= {None, "BUY", "SELL"}


def test_flags_agree_with_conditions_and_sub_type(trades):
    bits = {
        "opening": 0, "crossed": 1, "same_price": 2, "out_of_sequence": 3, "on_behalf": 6,
        "regular": 13, "block": 14,
    }  # fmt: skip
    kinds = {"leg": "LEG_TRADE", "rlp": "RLP_TRADE", "multi_asset": "MULTI_ASSET_TRADE"}
    seen = set()
    for row in trades:
        for name, bit in bits.items():
            assert row[name] == bool(row["trade_condition"] >> bit & 1)
        for name, kind in kinds.items():
            assert row[name] == (row["trd_sub_type"] == kind)
        assert row["sets_last_price"] == sets_last_price(
            row["original_trade_condition"], row["trd_sub_type"]
        )
        if not row["corrected"]:
            assert row["sets_last_price"] == (not row["out_of_sequence"] and not row["leg"])
        assert row["implied"] is False
        seen |= {name for name in (*bits, *kinds) if row[name]}
    assert seen >= {"opening", "out_of_sequence", "on_behalf", "regular", "block", "rlp"}


def test_a_trade_stays_where_it_was_first_published(lake_and_truth, trades):
    first = {}
    for row in messages(lake_and_truth[0], 53, 54):
        first.setdefault((row["security_id"], row["trade_id"]), row)
    for row in trades:
        published = first[row["security_id"], row["trade_id"]]
        assert message_key(row) == message_key(published)
        assert row["event"] == published["event"]
        assert row["time_ns"] == published["transact_time_ns"]
        assert row["sending_time_ns"] == published["sending_time_ns"]
        assert row["original_price"] == published["md_entry_px"]
        assert row["original_size"] == published["md_entry_size"]


def test_without_ticks_the_quotes_are_null(trades):
    assert all(row["bid_price"] is None and row["spread"] is None for row in trades)


def test_columns_have_comments(lake_and_truth):
    schema = lake_and_truth[0].schema("trades")
    assert all(field.metadata[b"comment"] for field in schema)
    assert lake_and_truth[0].delta("trades").metadata().partition_columns == ["date"]
