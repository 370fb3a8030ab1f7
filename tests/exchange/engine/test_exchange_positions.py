"""Positions in options: trades make them, exercise and blocking change them, days settle them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.engine.book.positions import Position
from pregao.exchange.engine.model.commands import AllocateTrade, CancelMaintenance, MaintainPosition
from pregao.exchange.engine.model.enums import (
    PosMaintAction,
    PosMaintStatus,
    PosTransType,
    PosType,
    TradingStatus,
)
from pregao.exchange.engine.model.events import Trade
from pregao.exchange.engine.model.instruments import (
    ExerciseStyle,
    PutOrCall,
    SecurityType,
    Underlying,
)
from pregao.exchange.engine.model.operations_commands import (
    AmendTrade,
    AnswerGiveUp,
    BustTrade,
    EndDay,
    LinkAccounts,
    SetGroupPhase,
    SetPosition,
    StartDay,
)
from pregao.exchange.engine.model.reports import AllocationReported, PositionReported
from pregao.units import day_number
from tests.exchange.floor import BUY, DAY, OTHER, SELL, SHARE, Floor, px, share

OPTION = OTHER
EXERCISE, AUTOMATIC, NOT_AUTOMATIC = PosTransType
ACCEPTED, REJECTED, COMPLETED, NOT_EXECUTED = PosMaintStatus
TODAY = day_number(DAY)
HOLDER, WRITER = 101, 102
"""The firms of sessions 1 and 2."""


def option(**changes: Any) -> Any:
    usual = {
        "symbol": "ACMEA30",
        "security_type": SecurityType.OPT,
        "put_or_call": PutOrCall.CALL,
        "strike_price": px(30),
        "exercise_style": ExerciseStyle.AMERICAN,
        "maturity_date": date(2026, 5, 29),
        "underlyings": (Underlying(SHARE, "ACME1"),),
    }
    return share(OPTION, **(usual | changes))


def market(close: float = 32, **changes: Any) -> Floor:
    """A share at a price, and a call on it at 30."""
    return Floor(share(SHARE, previous_close=px(close) * 10_000), option(**changes))


def trade(floor: Floor, quantity: int = 100, account: int = 7, writer: int = 8) -> int:
    """The option is written by one account and bought by another; gives the trade's number."""
    floor.order(SELL, quantity, 2, security_id=OPTION, session=2, account=writer)
    floor.order(BUY, quantity, 2, security_id=OPTION, account=account)
    (done,) = floor.items(Trade)
    number: int = done.trade_id
    return number


def held(floor: Floor, firm: int, account: int) -> Position:
    return floor.engine.market.positions.of(firm, account, OPTION)


_numbers = iter(range(1, 10_000))


def ask(floor: Floor, quantity: int, kind: PosTransType = EXERCISE, **changes: Any) -> Any:
    """Ask something about the position of account 7; gives the answer to that."""
    usual = {"account": 7, "trade_day": TODAY, "request_id": next(_numbers)}
    floor.do(
        MaintainPosition(
            session=1, firm=HOLDER, security_id=OPTION, kind=kind, quantity=quantity,
            **(usual | changes),
        )
    )  # fmt: skip
    return floor.reports(PositionReported)[-1]


def test_trades_make_positions_and_busts_take_them_back():
    floor = market()
    number = trade(floor)
    assert (held(floor, HOLDER, 7).long, held(floor, WRITER, 8).short) == (100, 100)
    floor.do(AmendTrade(OPTION, number, quantity=60))
    assert (held(floor, HOLDER, 7).long, held(floor, WRITER, 8).short) == (60, 60)
    floor.do(BustTrade(OPTION, number))
    assert held(floor, HOLDER, 7).empty
    assert held(floor, WRITER, 8).empty


def test_003_15_2_an_exercise_takes_from_the_holder_and_is_assigned_to_a_writer():
    floor = market()
    trade(floor)
    answer = ask(floor, 40)
    assert (answer.status, answer.action, answer.code) == (COMPLETED, PosMaintAction.NEW, 0)
    assert answer.quantities == (
        (PosType.TRANSACTION_QUANTITY, 100, 0),
        (PosType.OPTION_EXERCISE_QTY, 40, 0),
    )
    assigned = floor.reports(PositionReported)[0]
    assert (assigned.session, assigned.firm, assigned.account) == (0, WRITER, 8)
    assert assigned.quantities == ((PosType.OPTION_EXERCISE_QTY, 0, 40),)
    assert assigned.trade_id == answer.trade_id > 0
    assert (held(floor, HOLDER, 7).long, held(floor, WRITER, 8).short) == (60, 60)


@pytest.mark.parametrize(
    ("changes", "quantity", "code"),
    [
        ({"security_id": 5}, 10, 2047),
        ({"security_id": SHARE}, 10, 2047),
        ({"trade_day": TODAY + 1}, 10, 2019),
        ({"account": 9}, 10, 2115),
        ({}, 101, 2115),
        ({}, 0, 2115),
    ],
)
def test_003_15_2_what_cannot_be_exercised_is_refused_with_a_reason(changes, quantity, code):
    floor = market()
    trade(floor)
    usual = {"security_id": OPTION, "account": 7, "trade_day": TODAY, "request_id": 77}
    floor.do(
        MaintainPosition(
            session=1, firm=HOLDER, kind=EXERCISE, quantity=quantity, **(usual | changes)
        )
    )
    (answer,) = floor.reports(PositionReported)
    assert (answer.status, answer.code) == (REJECTED, code)
    assert answer.text
    assert held(floor, HOLDER, 7).long == 100


def test_a_number_is_used_once_and_a_closed_market_takes_nothing():
    floor = market()
    trade(floor)
    assert ask(floor, 10, request_id=500).status == COMPLETED
    assert ask(floor, 10, request_id=500).code == 6
    floor.do(SetGroupPhase("XX", TradingStatus.CLOSE))
    assert ask(floor, 10).code == 1003


def test_a_european_option_is_exercised_on_its_last_day_only():
    floor = market(exercise_style=ExerciseStyle.EUROPEAN)
    trade(floor)
    assert ask(floor, 10).code == 2311
    floor = market(exercise_style=ExerciseStyle.EUROPEAN, maturity_date=DAY)
    trade(floor)
    assert ask(floor, 10).status == COMPLETED


def test_an_exercise_without_gain_must_be_requested():
    floor = market(close=30)
    trade(floor)
    assert ask(floor, 10).code == 2013
    assert ask(floor, 10, contrary=True).status == COMPLETED


def test_a_put_gains_when_the_price_falls():
    floor = market(close=28, put_or_call=PutOrCall.PUT)
    trade(floor)
    assert ask(floor, 10).status == COMPLETED


def block(floor: Floor, trade_id: int, quantity: int, part: int, **changes: Any) -> Any:
    usual = {"allocation_id": next(_numbers), "account": 8}
    floor.do(
        AllocateTrade(
            session=2, firm=WRITER, security_id=OPTION, trade_id=trade_id, quantity=quantity,
            account_quantity=part, **(usual | changes),
        )
    )  # fmt: skip
    return floor.reports(AllocationReported)[-1]


def written_and_bought_back(floor: Floor) -> int:
    """Account 8 writes 100 for 7; its firm buys 60 back from 7, for no account yet."""
    trade(floor)
    floor.order(SELL, 60, 2, security_id=OPTION, account=7)
    floor.order(BUY, 60, 2, security_id=OPTION, session=2)
    (done,) = floor.items(Trade)
    number: int = done.trade_id
    return number


def test_003_15_2_blocked_positions_are_not_assigned():
    floor = market()
    bought = written_and_bought_back(floor)
    answer = block(floor, bought, 60, 60, allocation_id=4000)
    assert answer.code == 0
    assert held(floor, WRITER, 8).blocked == 60
    # Of the 100 that were written by account 8, 40 are left; account 7 has written 60 itself.
    held(floor, HOLDER, 7).short = 0
    assert ask(floor, 50).code == 2046
    assert ask(floor, 40).status == COMPLETED
    assert (held(floor, WRITER, 8).short, held(floor, WRITER, 8).blocked) == (60, 60)
    # Taken back, it can be assigned again.
    assert block(floor, bought, 60, 60, allocation_id=4000, cancels=True).code == 0
    assert ask(floor, 50).status == COMPLETED


def test_an_allocation_that_cannot_be_is_refused_with_a_reason():
    floor = market()
    bought = written_and_bought_back(floor)
    assert block(floor, 99, 60, 10).code == 5
    assert block(floor, 1, 100, 10).code == 5  # the purchase of another firm
    assert block(floor, bought, 50, 10).code == 2115
    assert block(floor, bought, 60, 61).code == 2115
    assert block(floor, bought, 60, 0).code == 2115
    assert block(floor, bought, 60, 10, account=9).code == 2046
    assert block(floor, bought, 60, 10, trade_day=TODAY - 1).code == 2019
    assert block(floor, bought, 60, 10, allocation_id=5, cancels=True).code == 2047
    assert block(floor, bought, 60, 40, allocation_id=5).code == 0
    assert block(floor, bought, 60, 20, allocation_id=5).code == 6
    assert block(floor, bought, 60, 21, allocation_id=6).code == 2115
    assert block(floor, bought, 60, 20, allocation_id=6).code == 0
    own = trade(floor)  # a purchase for an account
    floor.do(
        AllocateTrade(
            session=1, firm=HOLDER, allocation_id=1, security_id=OPTION, trade_id=own,
            quantity=100, account=7, account_quantity=10,
        )
    )  # fmt: skip
    assert floor.reports(AllocationReported)[0].code == 7031


@pytest.mark.parametrize(
    ("close", "wishes", "status", "left"),
    [
        (32, None, COMPLETED, 0),
        (30, None, None, 0),
        (32, (NOT_AUTOMATIC, {}), NOT_EXECUTED, 0),
        (32, (AUTOMATIC, {}), COMPLETED, 0),
        (32, (AUTOMATIC, {"threshold": px("2.01")}), NOT_EXECUTED, 0),
        (32, (AUTOMATIC, {"threshold": px(2)}), COMPLETED, 0),
        (29, (AUTOMATIC, {}), NOT_EXECUTED, 0),
        (29, (AUTOMATIC, {"contrary": True}), COMPLETED, 0),
    ],
)
def test_003_15_2_on_the_last_day_an_option_in_the_money_is_exercised(close, wishes, status, left):
    floor = market(close=close, maturity_date=DAY)
    trade(floor)
    if wishes is not None:
        kind, terms = wishes
        assert ask(floor, 100, kind, **terms).status == ACCEPTED
    floor.do(EndDay())
    reports = [each for each in floor.reports(PositionReported) if each.firm == HOLDER]
    assert [each.status for each in reports] == ([] if status is None else [status])
    assert floor.engine.market.positions.of_instrument(OPTION) == []
    floor.do(StartDay(date(2026, 5, 22)))
    assert not floor.reports(PositionReported)


def test_an_instruction_exercises_at_most_the_position_that_is_left():
    floor = market(maturity_date=DAY)
    trade(floor)
    trade(floor, account=9)
    assert ask(floor, 100, AUTOMATIC).status == ACCEPTED
    assert ask(floor, 80).status == COMPLETED
    floor.do(EndDay())
    reports = floor.reports(PositionReported)
    exercised = {
        each.account: long
        for each in reports
        for kind, long, _ in each.quantities
        if each.firm == HOLDER and kind == PosType.OPTION_EXERCISE_QTY
    }
    assert exercised == {7: 100, 9: 100}
    assert [each.quantities[0][2] for each in reports if each.firm == WRITER] == [20, 100]


def test_an_automatic_exercise_without_writers_is_not_executed_despite_an_earlier_one():
    floor = market(maturity_date=DAY)
    bought = written_and_bought_back(floor)
    assert block(floor, bought, 60, 60).code == 0
    held(floor, HOLDER, 7).short = 0
    assert ask(floor, 40).status == COMPLETED
    floor.do(EndDay())
    reports = [each for each in floor.reports(PositionReported) if each.firm == HOLDER]
    assert [(each.status, each.trade_id) for each in reports] == [(NOT_EXECUTED, 0)]


def test_a_request_can_be_cancelled_but_not_an_exercise():
    floor = market(maturity_date=DAY)
    trade(floor)
    ask(floor, 100, NOT_AUTOMATIC, request_id=600)
    ask(floor, 10, request_id=601)
    floor.do(CancelMaintenance(1, HOLDER, 602, OPTION, orig_request_id=601))
    (refused,) = floor.reports(PositionReported)
    assert (refused.status, refused.code, refused.action) == (
        REJECTED,
        7018,
        PosMaintAction.CANCEL,
    )
    floor.do(CancelMaintenance(1, HOLDER, 603, OPTION, orig_request_id=600))
    (answer,) = floor.reports(PositionReported)
    assert (answer.status, answer.request_id, answer.orig_request_id) == (ACCEPTED, 603, 600)
    floor.do(CancelMaintenance(1, HOLDER, 604, OPTION, orig_request_id=600))
    assert floor.reports(PositionReported)[0].code == 7018
    floor.do(CancelMaintenance(1, HOLDER, 605, OPTION, orig_request_id=999))
    assert floor.reports(PositionReported)[0].code == 5
    floor.do(EndDay())
    assert [each.status for each in floor.reports(PositionReported)][-1] == COMPLETED


def test_a_request_of_an_earlier_day_can_be_cancelled():
    floor = market()
    trade(floor)
    ask(floor, 100, NOT_AUTOMATIC, request_id=700)
    floor.do(StartDay(date(2026, 5, 22)))
    floor.do(CancelMaintenance(1, HOLDER, 701, OPTION, orig_request_id=700))
    assert floor.reports(PositionReported)[0].status == ACCEPTED
    assert not floor.engine.market.positions.instructions


def test_a_day_sets_off_what_was_bought_against_what_was_written():
    floor = market()
    trade(floor, 100)
    floor.order(SELL, 30, 2, security_id=OPTION, account=7)
    floor.order(BUY, 30, 2, security_id=OPTION, session=2, account=8)
    floor.do(StartDay(date(2026, 5, 22)))
    position = held(floor, HOLDER, 7)
    assert (position.long, position.short, position.start_long, position.bought) == (70, 0, 70, 0)
    assert held(floor, WRITER, 8).short == 70


def test_clearing_sets_start_of_day_positions():
    floor = market()
    floor.do(SetPosition(HOLDER, 7, OPTION, 50, 0))
    floor.do(SetPosition(WRITER, 8, OPTION, 0, 50))
    assert ask(floor, 50).quantities[0] == (PosType.START_OF_DAY_QTY, 50, 0)
    with pytest.raises(UsageError, match="is not an option"):
        floor.do(SetPosition(HOLDER, 7, SHARE, 50, 0))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 3), st.integers(4, 6)), max_size=8),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 80)), max_size=8),
)
def test_whatever_is_exercised_as_many_are_held_as_were_written(trades, exercises):
    floor = market()
    for quantity, holder, writer in trades:
        trade(floor, quantity, holder, writer)
    done = 0
    for account, quantity in exercises:
        if ask(floor, quantity, account=account).status == COMPLETED:
            done += quantity
    positions = [each for _, each in floor.engine.market.positions.of_instrument(OPTION)]
    total = sum(quantity for quantity, _, _ in trades)
    assert sum(each.long for each in positions) == total - done
    assert sum(each.short for each in positions) == total - done
    assert sum(each.exercised for each in positions) == done
    assert all(each.long >= 0 and each.short >= 0 for each in positions)


def test_003_14_2_2_a_trade_of_a_source_account_is_given_up_and_carried_if_accepted():
    floor = market()
    floor.do(LinkAccounts(HOLDER, 1234, 300, 9898))
    number = trade(floor, 100, account=1234)
    ((give_up, pending),) = floor.engine.market.give_ups.items()
    assert (pending.trade_id, pending.firm, pending.account) == (number, HOLDER, 1234)
    assert (pending.to_firm, pending.to_account) == (300, 9898)
    floor.do(AnswerGiveUp(give_up, accepted=True))
    assert held(floor, 300, 9898).long == 100
    assert held(floor, HOLDER, 1234).empty
    # A refused one is carried by the firm that executed it.
    trade(floor, 50, account=1234)
    (give_up,) = floor.engine.market.give_ups
    floor.do(AnswerGiveUp(give_up, accepted=False))
    assert held(floor, HOLDER, 1234).long == 50
    with pytest.raises(UsageError, match="no give-up with ID"):
        floor.do(AnswerGiveUp(give_up, accepted=True))


def test_give_ups_of_any_instrument_wait_and_end_with_a_bust():
    floor = market()
    floor.do(LinkAccounts(HOLDER, 1234, 300, 9898))
    floor.order(SELL, 10, 32, session=2)
    floor.order(BUY, 10, 32, account=1234)
    (done,) = floor.items(Trade)
    assert len(floor.engine.market.give_ups) == 1
    floor.do(BustTrade(SHARE, done.trade_id))
    assert not floor.engine.market.give_ups
    floor.do(LinkAccounts(HOLDER, 1234, 0, 0))
    floor.order(SELL, 10, 32, session=2)
    floor.order(BUY, 10, 32, account=1234)
    assert not floor.engine.market.give_ups
    for wrong in (LinkAccounts(HOLDER, 0, 300, 1), LinkAccounts(HOLDER, 5, HOLDER, 1),
                  LinkAccounts(HOLDER, 5, 0, 0)):  # fmt: skip
        with pytest.raises(UsageError):
            floor.do(wrong)
