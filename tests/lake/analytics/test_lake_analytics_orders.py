"""The lives of orders: equal to a plain recomputation, and to the books that the exchange kept."""

import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pregao.lake.analytics.run import analyse
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import (
    analysed,
    message_key,
    messages,
    rows,
    truth_lines,
)

OLD = {
    "seed": 7,
    "schema_version": 9,
    "profile": "derivatives",
    "reset_at": ("sequence@0.6",),
}
OLD_TABLES = ("trades", "latency", "orders")
BY_HAND = 1 << 1 | 1 << 3 | 1 << 6


@pytest.fixture(scope="module", params=["new", "old"])
def lake_and_truth(request):
    if request.param == "old":
        return analysed(OLD_TABLES, **OLD)
    return analysed(**SETTINGS)


def final_books(truth):
    for book in truth_lines(truth, "books.jsonl"):
        if book["final"]:
            for side, entries in (("BUY", book["bids"]), ("SELL", book["asks"])):
                for price, size, order_id, firm, time_ns in entries:
                    yield (
                        book["security_id"], order_id, side,
                        None if price is None else Decimal(price), size, firm, time_ns,
                    )  # fmt: skip


def test_the_resting_orders_at_the_end_are_those_of_the_exchange(lake_and_truth):
    lake, truth = lake_and_truth
    standing = {
        (row["security_id"], row["secondary_order_id"], row["side"], row["price"],
         row["last_size"], row["firm"], row["entered_ns"])
        for row in rows(lake, "orders", end_reason=None)
    }  # fmt: skip
    expected = set(final_books(truth))
    assert expected
    assert standing == expected


def test_filled_quantities_of_orders_equal_the_traded_ones(lake_and_truth):
    """A trade in the auction fills an order of each side, any other only the passive one.

    The passive order of a liquidity provider or at the midpoint is hidden.
    """
    lake, _ = lake_and_truth
    traded, filled = {}, {}
    for row in rows(lake, "trades"):
        security_id = row["security_id"]
        if row["original_trade_condition"] & BY_HAND or row["forward"]:
            continue
        if row["trd_sub_type"] in ("RLP_TRADE", "MIDPOINT_TRADE"):
            continue
        sides = {"BUY": 1, "SELL": 1, None: 2}[row["aggressor_side"]]
        traded[security_id] = traded.get(security_id, 0) + sides * row["original_size"]
    for row in rows(lake, "orders"):
        if row["filled_quantity"]:
            security_id = row["security_id"]
            filled[security_id] = filled.get(security_id, 0) + row["filled_quantity"]
    assert filled == traded


def test_lives_equal_a_plain_recomputation(lake_and_truth):
    lake, _ = lake_and_truth
    lives = {}
    for row in messages(lake, 50, 51):
        key = row["security_id"], row["secondary_order_id"]
        lives.setdefault(key, []).append(row)
    orders = {(row["security_id"], row["secondary_order_id"]): row for row in rows(lake, "orders")}
    assert orders.keys() == lives.keys()
    for key, own in lives.items():
        order, first, last = orders[key], own[0], own[-1]
        changes = [row for row in own if row.get("md_update_action") == "CHANGE"]
        assert order["event"] == first["event"]
        assert order["entry_seen"] == (
            first["template"] == 50 and first["md_update_action"] == "NEW"
        )
        assert order["side"] == {"BID": "BUY", "OFFER": "SELL"}[first["md_entry_type"]]
        assert order["size"] == first["md_entry_size"]
        assert order["price"] == first["md_entry_px"]
        assert order["firm"] == first["entering_firm"]
        assert order["changes"] == len(changes)
        if last["template"] == 51:
            assert order["end_reason"] in ("FILLED", "CANCELLED")
            assert order["end_event"] == last["event"]
            assert order["ended_ns"] == (last["transact_time_ns"] or last["md_entry_timestamp_ns"])
            assert order["lifetime_ns"] == order["ended_ns"] - order["entered_ns"]
        # All that an order ever showed was traded, reduced, cancelled or remains.
        left = 0 if order["end_reason"] == "FILLED" else order["last_size"]
        spent = order["filled_quantity"] + order["reduced_quantity"]
        assert order["size"] == spent + left


def test_every_way_for_an_order_to_end_was_tried(lake_and_truth):
    lake, _ = lake_and_truth
    reasons = {row["end_reason"] for row in rows(lake, "orders")}
    assert reasons >= {"FILLED", "CANCELLED", None}


def test_an_order_of_the_same_firm_side_and_price_follows_in_a_chain(lake_and_truth):
    lake, _ = lake_and_truth
    orders = {(row["security_id"], row["secondary_order_id"]): row for row in rows(lake, "orders")}
    chained = [row for row in orders.values() if row["chain"] is not None]
    assert any(row["chain_position"] > 1 for row in chained)
    for row in chained:
        if row["chain_position"] == 1:
            assert row["replenishes"] is None
            assert row["chain"] == row["secondary_order_id"]
            continue
        before = orders[row["security_id"], row["replenishes"]]
        assert before["end_reason"] == "FILLED"
        assert before["end_event"] == row["event"]
        assert before["chain"] == row["chain"]
        assert before["chain_position"] == row["chain_position"] - 1
        alike = ("side", "price", "firm")
        assert [before[name] for name in alike] == [row[name] for name in alike]


def test_whether_an_order_is_implied_is_unknown_below_version_10_message_by_message(tmp_path):
    copy = LakeStore(tmp_path / "lake")
    shutil.copytree(analysed(**SETTINGS)[0].location.path, copy.location.path)
    older = set()
    for file in Path(copy.location.path, "umdf_order_mbo_50").rglob("*.parquet"):
        found = pq.read_table(file, partitioning=None)
        at = found.column_names.index("schema_version")
        versions = [9 if number % 3 else 16 for number in range(found.num_rows)]
        kind = found.schema.field(at).type
        found = found.set_column(at, "schema_version", pa.array(versions, kind))
        pq.write_table(found, file)
        older |= {message_key(row) for row in found.to_pylist() if row["schema_version"] == 9}
    analyse(copy, tables=["orders"], force=True)
    entered = [row for row in rows(copy, "orders") if row["entry_seen"]]
    unknown = [row for row in entered if row["implied"] is None]
    assert {message_key(row) for row in unknown} == {
        message_key(row) for row in entered if message_key(row) in older
    }
    assert 0 < len(unknown) < len(entered)
