"""Auctions: their prices on the way, and the trades that end them."""

from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pregao.lake.analytics.run import analyse
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics.test_lake_analytics_examples import CHANNEL, Tape
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import DATE, analysed, messages, rows


@pytest.fixture(scope="module")
def lake():
    return analysed(**SETTINGS)[0]


@pytest.fixture(scope="module")
def auctions(lake):
    return rows(lake, "auctions")


def within(row, auction):
    last = auction["end_event"]
    return row["security_id"] == auction["security_id"] and (
        auction["start_event"] <= row["event"] and (last is None or row["event"] < last)
    )


def test_groups_have_auctions_of_both_kinds(auctions):
    own = {row["kind"] for row in auctions if row["own_status"]}
    assert {row["kind"] for row in auctions if not row["own_status"]} == {
        "RESERVED",
        "FINAL_CLOSING_CALL",
    }
    assert own <= {"RESERVED"}


def test_auctions_are_the_times_in_which_orders_gather(lake, auctions):
    expected = []
    status = rows(lake, "status")
    for security_id in {row["security_id"] for row in status} - {None}:
        before = None
        for row in (row for row in status if row["security_id"] == security_id):
            if row["status"] in ("RESERVED", "FINAL_CLOSING_CALL"):
                if before is not None and before["status"] == row["status"]:
                    expected[-1][3] = row["until_ns"]
                else:
                    expected.append([security_id, row["status"], row["from_ns"], row["until_ns"]])
            before = row
    found = [[r["security_id"], r["kind"], r["start_ns"], r["end_ns"]] for r in auctions]
    assert sorted(found) == sorted(expected)


def test_000_13_9_2_the_theoretical_prices_are_published_in_order(lake, auctions):
    published = messages(lake, 16)
    shown = 0
    for auction in auctions:
        expected = [
            (row["md_entry_timestamp_ns"], row["md_entry_px"], row["md_entry_size"])
            for row in published
            if within(row, auction)
        ]
        found = [tuple(one.values()) for one in auction["theoretical"]]
        assert found == expected
        # The price is withdrawn with the uncrossing: the result is the last published one.
        standing = [each for each in expected if each[1] is not None]
        counted = standing if auction["uncross_trades"] else expected
        last = counted[-1] if counted else (None, None, None)
        assert (auction["theoretical_price"], auction["theoretical_size"]) == last[1:]
        shown += len(found)
    assert shown == len(published)


def test_000_13_10_the_imbalances_are_published_in_order(lake, auctions):
    sides = {1 << 8: "BUY", 1 << 9: "SELL", 0: "BALANCED"}
    published = messages(lake, 19)
    for auction in auctions:
        expected = [
            (sides[row["imbalance_condition"]], row["md_entry_size"])
            if row["md_update_action"] != "DELETE"
            else (None, None)
            for row in published
            if within(row, auction)
        ]
        assert [(one["side"], one["size"]) for one in auction["imbalances"]] == expected
    assert sum(len(auction["imbalances"]) for auction in auctions) == len(published)


def test_000_14_1_an_auction_ends_with_trades_at_the_theoretical_price(lake, auctions):
    """The last published price is traded, unless the next auction takes over the orders."""
    taken_over = {(row["security_id"], row["start_event"]) for row in auctions}
    tried = 0
    for auction in auctions:
        if (auction["security_id"], auction["end_event"]) in taken_over:
            assert auction["uncross_trades"] == 0
        elif auction["theoretical_size"] is not None:
            assert auction["uncross_price"] == auction["theoretical_price"]
            assert auction["uncross_volume"] == auction["theoretical_size"]
            tried += 1
    assert tried > 8
    by_hand = 1 << 1 | 1 << 3 | 1 << 6
    assert sum(row["uncross_trades"] for row in auctions) == sum(
        not row["original_trade_condition"] & by_hand and row["aggressor_side"] is None
        for row in rows(lake, "trades", forward=False)
    )


DEFINED = 77
"""An instrument whose auctions are written by hand."""


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """Auctions that end as the exchange ends them: publications are withdrawn first."""
    tape = Tape()

    def state(code):
        tape.send(
            "umdf_security_status_3",
            DEFINED,
            security_trading_status=code,
            security_trading_event="SECURITY_STATUS_CHANGE",
        )

    def theoretical(price, size, action="NEW"):
        tape.send(
            "umdf_theoretical_opening_price_16",
            DEFINED,
            md_update_action=action,
            md_entry_px=price and Decimal(price),
            md_entry_size=size,
        )

    def imbalance(bits, size, action="NEW"):
        tape.send(
            "umdf_auction_imbalance_19",
            DEFINED,
            md_update_action=action,
            imbalance_condition=bits,
            md_entry_size=size,
        )

    def begin(*prices):
        tape.event()
        state("RESERVED")
        for price, size, left in prices:
            tape.event()
            theoretical(price, size)
            imbalance(1 << 8, left)

    def withdraw():
        theoretical(None, None, "DELETE")
        imbalance(0, None, "DELETE")

    # Withdrawn in the event of the uncrossing.
    begin(("5.00", 100, 30), ("5.10", 200, 50))
    tape.event()
    withdraw()
    tape.trade(DEFINED, 10, "5.10", 200)
    state("OPEN")
    # Withdrawn in an event before it.
    begin(("6.00", 300, 70))
    tape.event()
    withdraw()
    tape.event()
    tape.trade(DEFINED, 20, "6.00", 300)
    state("OPEN")
    # Withdrawn with the end, without a trade.
    begin(("7.00", 400, 90))
    tape.event()
    withdraw()
    state("OPEN")
    # Withdrawn for good while the auction continues.
    begin(("8.00", 500, 20))
    tape.event()
    withdraw()
    tape.event()
    state("OPEN")
    # The imbalance is withdrawn while prices continue.
    begin(("9.00", 600, 10))
    tape.event()
    imbalance(0, None, "DELETE")
    theoretical("9.10", 700)
    tape.event()
    theoretical(None, None, "DELETE")
    tape.event()
    tape.trade(DEFINED, 30, "9.10", 700)
    state("OPEN")
    # Market operations enter trades while it goes on: before a price, and after the last one.
    begin(("3.00", 100, 10))
    tape.event()
    tape.trade(DEFINED, 40, "3.10", 11)
    tape.event()
    theoretical("3.10", 120)
    tape.event()
    tape.trade(DEFINED, 50, "3.05", 22)
    tape.event()
    withdraw()
    tape.trade(DEFINED, 60, "3.10", 90)
    tape.trade(DEFINED, 70, "3.10", 30)
    state("OPEN")
    # Only such a trade, and no uncrossing.
    begin(("2.00", 100, 10))
    tape.event()
    tape.trade(DEFINED, 80, "2.00", 33)
    tape.event()
    imbalance(1 << 8, 20)
    tape.event()
    withdraw()
    state("OPEN")
    # Not ended when the data ends.
    begin(("1.00", 100, 10))
    tape.event()
    tape.trade(DEFINED, 90, "1.00", 44)
    tape.rows["instruments"] = [
        {"channel": CHANNEL, "security_id": DEFINED, "symbol": "HAND", "date": DATE}
    ]
    tape.rows["packets"] = [{"channel": CHANNEL, "date": DATE}]
    lake = LakeStore(tmp_path_factory.mktemp("auctions") / "lake")
    tape.write(lake)
    analyse(lake, tables=["auctions"])
    return sorted(rows(lake, "auctions"), key=lambda row: row["auction"])


def test_orders_withdrawn_for_the_uncrossing_were_published_before(by_hand):
    published = [
        (
            row["uncross_price"],
            row["theoretical_price"],
            row["theoretical_size"],
            row["imbalance_side"],
            row["imbalance_size"],
        )
        for row in by_hand[:5]
    ]
    assert published == [
        (Decimal("5.10"), Decimal("5.10"), 200, "BUY", 50),
        (Decimal("6.00"), Decimal("6.00"), 300, "BUY", 70),
        (None, Decimal("7.00"), 400, "BUY", 90),
        (None, None, None, None, None),
        (Decimal("9.10"), Decimal("9.10"), 700, None, None),
    ]


def test_withdrawals_are_in_the_lists_of_their_auction(by_hand):
    assert [one["price"] for one in by_hand[0]["theoretical"]] == [
        Decimal("5.00"),
        Decimal("5.10"),
        None,
    ]
    assert [one["side"] for one in by_hand[1]["imbalances"]] == ["BUY", None]
    assert len(by_hand) == 8


def test_trades_of_market_operations_during_an_auction_do_not_uncross_it(by_hand):
    found = [
        (row["uncross_price"], row["uncross_volume"], row["uncross_trades"]) for row in by_hand[4:]
    ]
    assert found == [
        (Decimal("9.10"), 700, 1), (Decimal("3.10"), 120, 2), (None, 0, 0), (None, 0, 0)
    ]  # fmt: skip
    assert [row["theoretical_size"] for row in by_hand[5:]] == [120, 100, 100]


def test_times_and_sizes_in_lists_are_stored_as_differences_and_compressed(lake):
    """Dictionaries of times that never repeat would be most of the table."""
    (file,) = Path(lake.location.path, "auctions").rglob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    for name in ("theoretical", "imbalances"):
        for member in ("time_ns", "size"):
            stored = columns[f"{name}.list.element.{member}"]
            assert "DELTA_BINARY_PACKED" in stored.encodings
            assert stored.compression == "ZSTD"
            assert stored.total_compressed_size < 8 * stored.num_values
