"""Trades corrected or busted after others were made: what counts in trades, bars and sessions."""

from decimal import Decimal

import pytest

from pregao.lake.analytics.run import analyse
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.templates import OUT_OF_SEQUENCE
from tests.lake.analytics.test_lake_analytics_examples import CHANNEL, Tape
from tests.lake.analytics_support import DATE, rows

REGULAR = 1 << 13
ON_BEHALF = 1 << 6
CORRECTED, LEG = 1, 2


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
    """A trade reported late is the highest, one of a leg the lowest."""
    tape.event()
    tape.trade(LEG, 10, "5.00", 100)
    tape.event()
    tape.trade(LEG, 20, "8.00", 300, trade_condition=REGULAR | OUT_OF_SEQUENCE)
    tape.event()
    tape.trade(LEG, 30, "1.00", 600, trade_condition=0, trd_sub_type="LEG_TRADE")
    tape.event()
    tape.trade(LEG, 40, "6.00", 100)


def lake_of(folder, tape, *tables):
    """A lake with the messages of a tape, and tables made of them."""
    numbers = {row["security_id"] for content in tape.rows.values() for row in content} - {None}
    tape.rows["instruments"] = [
        {"channel": CHANNEL, "security_id": number, "symbol": f"S{number}", "date": DATE}
        for number in sorted(numbers)
    ]
    tape.rows["packets"] = [{"channel": CHANNEL, "date": DATE}]
    lake = LakeStore(folder / "lake")
    tape.write(lake)
    analyse(lake, tables=tables)
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    tape = Tape()
    corrected_first_trade(tape)
    late_and_leg(tape)
    return lake_of(tmp_path_factory.mktemp("corrections"), tape, "bars")


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
