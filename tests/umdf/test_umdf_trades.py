"""Which trades set the last price: one rule for trades, columns and all packages."""

import datetime

import numpy as np
import pytest

from pregao.exchange.engine.matching.statistics import sets_last_price as engine_sets_last_price
from pregao.exchange.engine.model.enums import TradeCondition, TradingSession, TrdSubType
from pregao.exchange.engine.model.events import Trade
from pregao.umdf.phases import NOT_LAST_SUB_TYPES, set_last_price, sets_last_price

REGULAR, LATE = TradeCondition.REGULAR_TRADE, TradeCondition.OUT_OF_SEQUENCE
CASES = [
    (REGULAR, None, True),
    (REGULAR | TradeCondition.CROSSED, None, True),
    (LATE, None, False),
    (REGULAR | LATE, "RLP_TRADE", False),
    *[(REGULAR, kind.name, kind is not TrdSubType.LEG_TRADE) for kind in TrdSubType],
]


@pytest.mark.parametrize(("condition", "sub_type", "sets"), CASES)
def test_000_13_3_neither_a_late_trade_nor_a_leg_sets_the_last_price(condition, sub_type, sets):
    assert sets_last_price(int(condition), sub_type) is sets
    excluded = np.array([sub_type in NOT_LAST_SUB_TYPES])
    assert set_last_price(np.array([int(condition)]), excluded).tolist() == [sets]


@pytest.mark.parametrize(("condition", "sub_type", "sets"), CASES)
def test_the_engine_follows_the_rule(condition, sub_type, sets):
    kind = None if sub_type is None else TrdSubType[sub_type]
    day = (datetime.date(2026, 5, 21) - datetime.date(1970, 1, 1)).days
    trade = Trade(
        1, TradingSession.REGULAR, int(condition), 10, 100, 10, 1, 2, day, kind, 0, False
    )  # fmt: skip
    assert engine_sets_last_price(trade) is sets


def test_an_unknown_number_for_a_sub_type_does_not_keep_a_trade_from_being_the_last():
    assert sets_last_price(int(REGULAR), 250)
