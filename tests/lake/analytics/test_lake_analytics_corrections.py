"""Trades corrected or busted after others were made: what counts in trades, bars and sessions."""

from datetime import timedelta
from decimal import Decimal

import pytest

from pregao.lake.analytics.run import analyse
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.templates import OUT_OF_SEQUENCE
from tests.lake.analytics.test_lake_analytics_examples import CHANNEL, Tape
from tests.lake.analytics_support import DATE, rows

REGULAR = 1 << 13
ON_BEHALF = 1 << 6
CORRECTED, LEG, MIDPOINT, ENDED, BASELINE, ROUNDED, MISROUNDED = range(1, 8)


def session(tape, security_id):
    tape.event()
    tape.send(
        "umdf_security_status_3",
        security_id,
        security_trading_event="TRADING_SESSION_CHANGE",
        security_trading_status="OPEN",
    )


def published(tape, security_id, volume, trades, average, **prices):
    """Publish statistics, after the prices that changed."""
    for name, price in prices.items():
        table = {"opening": "opening_price_15", "high": "high_price_24", "low": "low_price_25"}
        kind = {"open_close_settl_flag": "DAILY"} if name == "opening" else {}
        price = {"md_update_action": "NEW", "md_entry_px": Decimal(price), **kind}
        tape.send(f"umdf_{table[name]}", security_id, **price)
    figures = {"trade_volume": volume, "number_of_trades": trades, "vwap_px": Decimal(average)}
    tape.send("umdf_execution_statistics_56", security_id, **figures)


def corrected_first_trade(tape):
    """The first trade, which is the highest, is corrected after another: out of sequence."""
    tape.event()
    tape.trade(CORRECTED, 10, "9.00", 100)
    tape.event()
    tape.trade(CORRECTED, 20, "7.00", 100)
    tape.event()
    again = {"trade_condition": REGULAR | ON_BEHALF | OUT_OF_SEQUENCE}
    tape.trade(CORRECTED, 10, "9.50", 100, **again)


def late_and_leg(tape):
    """A trade reported late is the highest, one of a leg the lowest; the published range is not."""
    session(tape, LEG)
    tape.event()
    tape.trade(LEG, 10, "5.00", 100)
    tape.event()
    tape.trade(LEG, 20, "8.00", 300, trade_condition=REGULAR | OUT_OF_SEQUENCE)
    tape.event()
    tape.trade(LEG, 30, "1.00", 600, trade_condition=0, trd_sub_type="LEG_TRADE")
    tape.event()
    tape.trade(LEG, 40, "6.00", 100)
    published(tape, LEG, 1100, 4, "3.7273", opening=5, high=6, low=5)


def midpoint_first(tape):
    """000 §13.3.3: a block trade has no opening condition."""
    session(tape, MIDPOINT)
    tape.event()
    block = {"trade_condition": 1 << 14, "trd_sub_type": "MIDPOINT_TRADE"}
    tape.trade(MIDPOINT, 10, "4.00", 100, **block)
    published(tape, MIDPOINT, 100, 1, 4, high=4, low=4)


def ended_session(tape):
    """Trades of a session that are busted and corrected in the next."""
    session(tape, ENDED)
    for number, price in ((10, "5.00"), (20, "7.00"), (30, "6.00")):
        tape.event()
        tape.trade(ENDED, number, price, 100)
    published(tape, ENDED, 300, 3, 6, opening=5, high=7, low=5)
    session(tape, ENDED)
    tape.event()
    tape.send("umdf_trade_bust_57", ENDED, trade_id=20, trade_date=DATE)
    tape.trade(ENDED, 30, "9.00", 200, trade_condition=REGULAR | ON_BEHALF | OUT_OF_SEQUENCE)
    tape.event()
    tape.trade(ENDED, 40, "8.00", 100)
    published(tape, ENDED, 100, 1, 8, opening=8, high=8, low=8)


def baselines(tape):
    """A snapshot shows a high; the first volume follows a trade above it."""
    tape.event()
    tape.trade(BASELINE, 10, "4.00", 100)
    tape.header(1, BASELINE)
    high = {"md_update_action": "NEW", "md_entry_px": Decimal(5)}
    tape.snapshot(1, "umdf_high_price_24", BASELINE, **high)
    tape.event()
    tape.trade(BASELINE, 20, "9.00", 100)
    published(tape, BASELINE, 500, 5, 6, high=9)
    tape.event()
    tape.trade(BASELINE, 30, "6.00", 100)
    published(tape, BASELINE, 600, 6, 6)


def averages(tape):
    """Averages of three decimals, and one that is not, after another of four."""
    for security_id, first, last in (
        (ROUNDED, "10.000", "10.007"), (MISROUNDED, "10.0001", "10.007")
    ):  # fmt: skip
        session(tape, security_id)
        tape.event()
        tape.trade(security_id, 10, "10.00", 100, trade_condition=REGULAR | 1)
        published(tape, security_id, 100, 1, first, opening=10, high=10, low=10)
        tape.event()
        tape.trade(security_id, 20, "10.01", 200)
        published(tape, security_id, 300, 2, last, high="10.01")


def lake_of(folder, tape, *tables, **instruments):
    """A lake with the messages of a tape, and tables made of them; all instruments are alike."""
    numbers = {row["security_id"] for content in tape.rows.values() for row in content} - {None}
    known = {"channel": CHANNEL, "date": DATE, **instruments}
    tape.rows["instruments"] = [
        {**known, "security_id": number, "symbol": f"S{number}"} for number in sorted(numbers)
    ]
    tape.rows["packets"] = [{"channel": CHANNEL, "date": DATE}]
    lake = LakeStore(folder / "lake")
    tape.write(lake)
    analyse(lake, tables=tables)
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    tape = Tape()
    for example in (
        corrected_first_trade, late_and_leg, midpoint_first, ended_session, baselines, averages
    ):  # fmt: skip
        example(tape)
    return lake_of(tmp_path_factory.mktemp("corrections"), tape, "bars", "session_stats")


def daily(lake, security_id):
    (bar,) = rows(lake, "bars", security_id=security_id, interval="1d")
    return bar


def test_000_13_3_1_a_correction_out_of_sequence_takes_no_price_back(lake):
    first, _ = rows(lake, "trades", security_id=CORRECTED)
    assert (first["corrected"], first["out_of_sequence"]) == (True, True)
    assert first["sets_last_price"] is True
    bar = daily(lake, CORRECTED)
    prices = [bar[name] for name in ("open", "high", "low", "close")]
    assert prices == [Decimal("9.5"), Decimal("9.5"), Decimal(7), Decimal(7)]


def test_the_average_of_a_bar_lies_between_low_and_high(lake):
    bar = daily(lake, LEG)
    assert [bar["low"], bar["high"], bar["trades"]] == [1, 8, 4]
    assert [bar["open"], bar["close"]] == [5, 6]
    # 500 + 2,400 + 600 + 600 of 1,100: below every price that set the last one.
    assert bar["vwap"] == Decimal("3.72727273")
    for row in rows(lake, "bars"):
        assert row["low"] <= row["vwap"] <= row["high"]


def sessions(lake, security_id):
    found = rows(lake, "session_stats", security_id=security_id)
    return sorted(found, key=lambda row: row["session"])


def test_a_published_range_without_late_trades_and_legs_differs_from_that_of_bars(lake):
    (found,) = sessions(lake, LEG)
    bar = daily(lake, LEG)
    assert [found["high"], found["low"]] == [bar["high"], bar["low"]] == [8, 1]
    assert [found["last_price_high"], found["last_price_low"]] == [6, 5]
    assert (found["equal"], found["differences"]) == (False, ["high", "low"])


def test_000_13_3_3_a_midpoint_trade_does_not_open_the_session(lake):
    (found,) = sessions(lake, MIDPOINT)
    assert (found["open"], found["published_open"]) == (None, None)
    assert (found["high"], found["equal"]) == (4, True)


def test_000_14_3_what_happens_after_the_end_of_a_session_changes_nothing_in_it(lake):
    first, second = sessions(lake, ENDED)
    assert [first[name] for name in ("open", "high", "low", "last")] == [5, 7, 5, 6]
    assert (first["volume"], first["trades"], first["busts"]) == (300, 3, 0)
    assert (first["equal"], second["equal"]) == (True, True)
    assert (second["volume"], second["trades"]) == (100, 1)
    # The day has the bust and the correction.
    bar = daily(lake, ENDED)
    assert (bar["volume"], bar["high"], bar["trades"]) == (400, 9, 3)


def test_every_statistic_is_compared_from_its_own_first_publication(lake):
    (found,) = sessions(lake, BASELINE)
    assert (found["session"], found["initial_high"], found["initial_volume"]) == (0, 5, 500)
    assert found["published_high"] == 9
    assert (found["compared"], found["differences"]) == (["high", "volume", "vwap", "trades"], [])


def test_an_average_of_three_decimals_is_compared_within_its_rounding(lake):
    (rounded,), (misrounded,) = sessions(lake, ROUNDED), sessions(lake, MISROUNDED)
    assert rounded["vwap"] == Decimal("10.00666667")
    assert (rounded["equal"], rounded["differences"]) == (True, [])
    assert (misrounded["equal"], misrounded["differences"]) == (False, ["vwap"])


NEXT = DATE + timedelta(1)


def test_a_correction_or_bust_on_a_later_date_changes_the_trade_of_its_day(tmp_path):
    tape = Tape()
    for number in (10, 20, 30):
        tape.event()
        tape.trade(1, number, "5.00", 100)
    lake = lake_of(tmp_path, tape, "bars", "session_stats")
    assert {row["volume"] for row in rows(lake, "bars")} == {300}
    # The numbers of packets begin again on the next day.
    later = Tape()
    sent = {"date": NEXT}
    later.event()
    again = {"trade_condition": REGULAR | ON_BEHALF | OUT_OF_SEQUENCE, **sent}
    later.trade(1, 10, "6.00", 300, **again)
    later.send("umdf_trade_bust_57", 1, trade_id=20, trade_date=DATE, **sent)
    # The same number is another trade on the next trading day; one that was never seen is kept.
    later.trade(1, 30, "7.00", 50, **sent | {"trade_date": NEXT})
    later.trade(1, 99, "8.00", 5, **again)
    add_day(lake, later, NEXT)
    built = {(one.table, one.date): one.rows for one in analyse(lake, tables=["bars"])}
    assert built["trades", DATE] == 3
    assert built["trades", NEXT] == 2
    found = {
        (row["date"], row["trade_date"], row["trade_id"]): (
            int(row["price"]), row["size"], row["publications"], row["busted"],
        )
        for row in rows(lake, "trades")
    }  # fmt: skip
    assert found == {
        (DATE, DATE, 10): (6, 300, 2, False),
        (DATE, DATE, 20): (5, 100, 1, True),
        (DATE, DATE, 30): (5, 100, 1, False),
        (NEXT, NEXT, 30): (7, 50, 1, False),
        (NEXT, DATE, 99): (8, 5, 1, False),
    }
    (first,) = [row for row in rows(lake, "trades", date=DATE) if row["trade_id"] == 10]
    assert (first["original_price"], first["sets_last_price"]) == (5, True)
    daily = {row["date"]: row for row in rows(lake, "bars", interval="1d")}
    assert (daily[DATE]["volume"], daily[DATE]["high"]) == (400, 6)
    # The session of the day had ended.
    (session,) = analyse(lake, tables=["session_stats"], dates=[DATE])[-1:]
    assert session.rows == 1
    (stats,) = rows(lake, "session_stats", date=DATE)
    assert (stats["volume"], stats["busts"]) == (300, 0)
    assert {one.rows for one in analyse(lake, tables=["bars"])} == {None}


def add_day(lake, tape, day):
    """Put the messages of another day into a lake."""
    tape.rows["packets"] = [{"channel": CHANNEL, "date": day}]
    tape.write(lake, "later", day)
