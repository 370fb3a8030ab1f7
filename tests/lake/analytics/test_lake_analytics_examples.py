"""The documents' worked examples, and rare cases, as messages written by hand."""

import json
from datetime import date
from decimal import Decimal
from itertools import pairwise

import pytest

from pregao.lake.analytics.run import analyse
from pregao.lake.ingest.tables import table_specs
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import day_number
from tests.lake.analytics_support import DATE, rows
from tests.lake.lake_support import ingest_row, write_file

CHANNEL = 51
RECOVERY = 1 << 5
START = 1_779_364_800_000_000_000


class Tape:
    """Messages one by one; each belongs to the event that was begun last."""

    def __init__(self):
        self.rows = {}
        self._number = 0
        self._event = 0
        self._lost = []

    def event(self):
        self._event = 10**14 + (self._number + 1) * 10**4

    def lose(self):
        """Lose a packet."""
        self._number += 1
        self._lost.append(self._number)

    def snapshot(self, loop, table, security_id=None, **values):
        """Send a message of a snapshot loop."""
        own = {"stream": "snapshot", "sequence_version": loop, "sequence_number": 1}
        self.send(table, security_id, **own, event=None, **values)

    def header(self, loop, security_id):
        """Begin the snapshot of an instrument, as of the last message."""
        as_of = {"last_msg_seq_num_processed": self._number, "last_sequence_version": 1}
        self.snapshot(loop, "umdf_snapshot_full_refresh_header_30", security_id, **as_of)

    def send(self, table, security_id=None, **values):
        self._number += values.get("stream") != "snapshot"
        self.rows.setdefault(table, []).append(
            {
                "channel": CHANNEL,
                "stream": "incremental",
                "sequence_version": 1,
                "sequence_number": self._number,
                "index_in_packet": 0,
                "event": self._event,
                "sending_time_ns": START + self._number,
                "capture_time_ns": START + self._number + 5,
                "feed": "A",
                "capture_id": "tape",
                "security_id": security_id,
                "transact_time_ns": START + self._number,
                "md_entry_timestamp_ns": START + self._number,
                "match_event_indicator": 0,
                "date": DATE,
                **values,
            }
        )

    def order(self, security_id, number, side, price, size, firm=1, flags=0, action="NEW"):
        self.send(
            "umdf_order_mbo_50",
            security_id,
            secondary_order_id=number,
            md_entry_type=side,
            md_entry_px=price and Decimal(price),
            md_entry_size=size,
            entering_firm=firm,
            md_update_action=action,
            match_event_indicator=flags,
            md_insert_timestamp_ns=START,
        )

    def delete(self, security_id, number, side, price, size):
        self.send(
            "umdf_delete_order_mbo_51",
            security_id,
            secondary_order_id=number,
            md_entry_type=side,
            md_entry_px=Decimal(price),
            md_entry_size=size,
        )

    def summary(self, security_id, side):
        self.send(
            "umdf_execution_summary_55",
            security_id,
            aggressor_side=side,
            aggressor_time_ns=START - 7,
        )

    def trade(self, security_id, number, price, size, table="umdf_trade_53", **values):
        self.send(
            table,
            security_id,
            trade_id=number,
            md_entry_px=Decimal(price),
            md_entry_size=size,
            **{"trade_condition": 1 << 13, "trade_date": DATE, **values},
        )

    def write(self, lake, unit="tape", day=DATE):
        """Put all that was sent into a lake."""
        specs = {spec.name: spec for spec in table_specs()}
        lake.ensure_tables(specs.values())
        files = []
        for table, content in self.rows.items():
            whole = [{name: row.get(name) for name in specs[table].schema.names} for row in content]
            files.append(write_file(lake.location, specs[table], whole, str(day)))
        ingested = {**ingest_row(unit, str(day)), "unit_id": unit, "report": self._report()}
        lake.commit(CommitUnit(unit, (unit,), tuple(files), (ingested,)))

    def _report(self):
        """The numbers that were received, as an ingest reports them."""
        ends = [0, *self._lost, self._number + 1]
        runs = [(before + 1, after - 1) for before, after in pairwise(ends) if after > before + 1]
        version = f"{day_number(DATE)}/{CHANNEL}/1"
        return json.dumps({"coverage": {version: runs}}) if self._lost else None


def iceberg(tape):
    """000 §13.1.1, all at 20.50 as the text says."""
    tape.event()
    tape.order(1, 21, "BID", "20.50", 800)
    tape.event()
    tape.order(1, 31, "BID", "20.50", 500, firm=7)
    tape.event()
    tape.summary(1, "SELL")
    for number, size in ((10, 800), (20, 500), (30, 500)):
        tape.trade(1, number, "20.50", size)
    tape.delete(1, 21, "BID", "20.50", 800)
    tape.delete(1, 31, "BID", "20.50", 500)
    tape.order(1, 32, "BID", "20.50", 500, firm=7)
    tape.delete(1, 32, "BID", "20.50", 500)
    tape.order(1, 33, "BID", "20.50", 500, firm=7)


def self_trade(tape):
    """000 §13.1.2, the trade at the resting order's 21.00."""
    tape.event()
    tape.order(2, 42, "BID", "20.50", 200)
    tape.event()
    tape.order(2, 41, "BID", "21.00", 100)
    tape.event()
    tape.summary(2, "SELL")
    tape.delete(2, 42, "BID", "20.50", 200)
    tape.trade(2, 40, "21.00", 100)
    tape.delete(2, 41, "BID", "21.00", 100)
    tape.order(2, 43, "OFFER", "20.50", 200)


def stops(tape):
    """000 §13.1.3: three stop orders in one event."""
    for number, price, size in ((800, "7.31", 100), (320, "7.32", 100), (600, "7.32", 200)):
        tape.event()
        tape.order(3, number, "OFFER", price, size)
    tape.event()
    tape.summary(3, "BUY")
    for number, price in ((1210, "7.31"), (1220, "7.32"), (1230, "7.32"), (1240, "7.32")):
        tape.trade(3, number, price, 100)
    for number, price, size in ((800, "7.31", 100), (320, "7.32", 100), (600, "7.32", 200)):
        tape.delete(3, number, "OFFER", price, size)
    tape.order(3, 720, "BID", "7.32", 100)


def cleared(tape):
    """Books that are emptied and sent again, sides that are cancelled."""
    tape.event()
    tape.order(4, 1, "BID", "1.00", 10)
    tape.order(4, 2, "BID", None, 20)
    tape.order(4, 3, "OFFER", "2.00", 30)
    tape.event()
    tape.send("umdf_empty_book_9", 4)
    tape.order(4, 2, "BID", None, 20, flags=RECOVERY)
    tape.event()
    tape.order(4, 2, "BID", None, 15, action="CHANGE")
    tape.event()
    tape.send(
        "umdf_mass_delete_orders_mbo_52",
        4,
        md_entry_type="BID",
        md_update_action="DELETE_THRU",
    )
    tape.event()
    tape.order(4, 4, "OFFER", "2.00", 40)
    tape.event()
    tape.send("umdf_channel_reset_11")
    tape.event()
    tape.order(4, 5, "BID", "1.00", 50)


def corrections(tape):
    """A trade busted and published again, a bust of a trade not seen, a forward."""
    tape.event()
    tape.trade(5, 10, "5.00", 100, trd_sub_type="RLP_TRADE")
    tape.event()
    tape.send("umdf_trade_bust_57", 5, trade_id=10, trade_date=DATE)
    tape.event()
    tape.trade(5, 10, "6.00", 100)
    tape.event()
    tape.send("umdf_trade_bust_57", 5, trade_id=99, trade_date=DATE)
    tape.event()
    rate = {"seller_days": 30, "md_entry_interest_rate": Decimal("0.0100")}
    tape.trade(5, 20, "7.00", 100, "umdf_forward_trade_54", **rate)
    # The same number on another trading day is another trade.
    tape.send("umdf_trade_bust_57", 5, trade_id=20, trade_date=date(2026, 5, 20))


def busts(tape):
    """000 §19: prices of busted trades stay (6), unless no trade is left (7)."""
    for security_id in (6, 7):
        tape.event()
        tape.send(
            "umdf_security_status_3",
            security_id,
            security_trading_event="TRADING_SESSION_CHANGE",
            security_trading_status="OPEN",
        )
        for number, price in ((10, "5.00"), (20, "7.00"), (30, "6.00")):
            tape.event()
            tape.trade(security_id, number, price, 100)
        for name, number, price in (("opening", 15, 5), ("high", 24, 7), ("low", 25, 5)):
            kind = {"open_close_settl_flag": "DAILY"} if name == "opening" else {}
            tape.send(
                f"umdf_{name}_price_{number}",
                security_id,
                md_update_action="NEW",
                md_entry_px=Decimal(price),
                **kind,
            )
    statistics = "umdf_execution_statistics_56"
    for number in (10, 20):
        tape.event()
        tape.send("umdf_trade_bust_57", 6, trade_id=number, trade_date=DATE)
    figures = {"trade_volume": 100, "number_of_trades": 1, "vwap_px": Decimal(6)}
    tape.send(statistics, 6, **figures)
    for number in (10, 20, 30):
        tape.event()
        tape.send("umdf_trade_bust_57", 7, trade_id=number, trade_date=DATE)
    tape.send(statistics, 7, trade_volume=0, number_of_trades=0)
    tape.event()
    tape.trade(7, 40, "6.00", 100)
    for name, number in (("opening", 15), ("high", 24), ("low", 25)):
        kind = {"open_close_settl_flag": "DAILY"} if name == "opening" else {}
        price = {"md_entry_px": Decimal(6), **kind}
        tape.send(f"umdf_{name}_price_{number}", 7, md_update_action="NEW", **price)
    tape.send(statistics, 7, **figures)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = LakeStore(tmp_path_factory.mktemp("examples") / "lake")
    tape = Tape()
    for example in (cleared, iceberg, self_trade, stops, corrections, busts):
        example(tape)
    tape.rows["instruments"] = [
        {"channel": CHANNEL, "security_id": number, "symbol": f"S{number}", "date": DATE}
        for number in range(1, 8)
    ]
    tape.rows["packets"] = [{"channel": CHANNEL, "date": DATE}]
    tape.write(lake)
    analyse(lake, tables=["trades", "orders", "session_stats"])
    return lake


def ends(lake, security_id):
    """By order: its end, its traded quantity, and its position in a chain."""
    return {
        row["secondary_order_id"]: (
            row["end_reason"],
            row["filled_quantity"],
            row["chain"],
            row["chain_position"],
        )
        for row in rows(lake, "orders", security_id=security_id)
    }


def test_000_13_1_1_the_parts_of_an_iceberg_are_a_chain(lake):
    assert ends(lake, 1) == {
        21: ("FILLED", 800, None, None),
        31: ("FILLED", 500, 31, 1),
        32: ("FILLED", 500, 31, 2),
        33: (None, 0, 31, 3),
    }
    for row in rows(lake, "trades", security_id=1):
        assert row["aggressor_side"] == "SELL"
        assert row["aggressor_time_ns"] == START - 7


def test_000_13_1_2_what_self_trade_prevention_cancels_was_not_filled(lake):
    assert ends(lake, 2) == {
        42: ("CANCELLED", 0, None, None),
        41: ("FILLED", 100, None, None),
        43: (None, 0, None, None),
    }


def test_000_13_1_3_several_stop_orders_trade_in_one_event(lake):
    assert ends(lake, 3) == {
        800: ("FILLED", 100, None, None),
        320: ("FILLED", 100, None, None),
        600: ("FILLED", 200, None, None),
        720: (None, 0, None, None),
    }
    trades = rows(lake, "trades", security_id=3)
    assert [row["trade_id"] for row in trades] == [1210, 1220, 1230, 1240]
    assert {row["aggressor_side"] for row in trades} == {"BUY"}


def test_000_6_5_12_orders_end_with_their_book_unless_they_are_sent_again(lake):
    assert {number: end[0] for number, end in ends(lake, 4).items()} == {
        1: "BOOK_EMPTIED",
        2: "SIDE_CANCELLED",
        3: "BOOK_EMPTIED",
        4: "BOOK_EMPTIED",
        5: None,
    }
    (again,) = rows(lake, "orders", security_id=4, secondary_order_id=2)
    assert again["entry_seen"]
    assert (again["reductions"], again["reduced_quantity"], again["last_size"]) == (1, 5, 15)
    assert again["price"] is None


def test_000_13_4_a_trade_republished_after_its_bust_is_valid(lake):
    again, forward = rows(lake, "trades", security_id=5)
    assert again["trade_id"] == 10
    assert not again["busted"]
    assert again["bust_time_ns"] is None
    assert (again["publications"], again["corrected"]) == (2, True)
    assert (again["original_price"], again["price"]) == (Decimal(5), Decimal(6))
    assert again["rlp"] is False, "the correction made it a regular trade"
    assert forward["trade_id"] == 20
    assert forward["forward"]
    assert not forward["busted"]
    assert (forward["seller_days"], forward["md_entry_interest_rate"]) == (30, Decimal("0.01"))


@pytest.mark.parametrize(
    ("security_id", "ours", "published"), [(6, (6, 6, 6), (5, 7, 5)), (7, (6, 6, 6), (6, 6, 6))]
)
def test_000_19_published_prices_are_compared_with_busted_trades_too(
    lake, security_id, ours, published
):
    (session,) = rows(lake, "session_stats", security_id=security_id)
    assert (session["open"], session["high"], session["low"]) == ours
    names = ("published_open", "published_high", "published_low")
    assert tuple(session[name] for name in names) == published
    assert session["compared"] == ["open", "high", "low", "volume", "vwap", "trades"]
    assert session["differences"] == []
