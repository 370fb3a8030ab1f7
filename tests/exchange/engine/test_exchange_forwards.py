"""Forwards (003 §15.3; 000 §13.5): declaration, acceptance, refusal, cancellation, expiry."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pregao.exchange.engine.model.commands import (
    AcceptForward,
    CancelForward,
    DeclareForward,
    RefuseForward,
)
from pregao.exchange.engine.model.enums import (
    QuoteStatus,
    QuoteStatusResponseTo,
    TradeCondition,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import ExecutionSummary, ForwardTrade, Trade
from pregao.exchange.engine.model.instruments import Instrument, SecurityType, Underlying
from pregao.exchange.engine.model.operations_commands import (
    EndDay,
    RemoveInstrument,
    SetGroupPhase,
    StartDay,
)
from pregao.exchange.engine.model.reports import ForwardOffered, ForwardReported, ForwardTraded
from tests.exchange.floor import BUY, DAY, OTHER, SELL, SHARE, Floor, px, share

ACME4, ACME4T, ACME4S = SHARE, OTHER, 100_000_000_003
A, B = 11, 22


def forward(security_id: int = ACME4T, symbol: str = "ACME4T") -> Instrument:
    return share(
        security_id,
        symbol=symbol,
        security_type=SecurityType.FORWARD,
        security_group="T1",
        min_lot_size=100,
        underlyings=(Underlying(ACME4, "ACME4"),),
    )


def market() -> Floor:
    return Floor(share(ACME4, symbol="ACME4"), forward(), forward(ACME4S, "ACME4S"))


def declaration(**changes: Any) -> DeclareForward:
    terms = DeclareForward(1, A, "Q1", ACME4T, B, BUY, 500, px(12.5), 150, 30)
    return replace(terms, **changes)


def declare(floor: Floor, **changes: Any) -> int:
    """Declare a forward and give its quote id."""
    floor.do(declaration(**changes))
    reported, offered = floor.reports()
    assert isinstance(reported, ForwardReported)
    assert (reported.session, reported.status) == (1, QuoteStatus.PENDING)
    assert reported.response_to == QuoteStatusResponseTo.QUOTE_REQUEST
    assert isinstance(offered, ForwardOffered)
    assert (offered.firm, offered.quote_id) == (B, reported.quote_id)
    assert offered.terms.price == px(12.5)
    assert not floor.last.market
    return reported.quote_id


def forward_reports(floor: Floor) -> list[tuple[int, int, QuoteStatus]]:
    return [(r.session, r.firm, r.status) for r in floor.reports(ForwardReported)]


@pytest.mark.parametrize("side", [BUY, SELL])
def test_003_15_3_6_3_an_accepted_forward_is_traded(side):
    floor = market()
    quote = declare(floor, side=side)
    floor.do(AcceptForward(2, B, quote))
    accepted = QuoteStatus.ACCEPTED
    assert forward_reports(floor) == [(1, A, accepted), (2, B, accepted)]
    (trade,) = floor.items(ForwardTrade)
    assert (trade.security_id, trade.price, trade.size) == (ACME4T, px(12.5), 500)
    assert (trade.buyer, trade.seller) == ((A, B) if side == BUY else (B, A))
    assert (trade.seller_days, trade.interest_rate) == (30, 150)
    assert not floor.items(ExecutionSummary, Trade)
    fills = floor.reports(ForwardTraded)
    assert [(fill.session, fill.contra_firm) for fill in fills] == [(1, B), (2, A)]
    assert fills[0].side == side != fills[1].side
    assert {fill.trade_id for fill in fills} == {trade.trade_id}
    floor.do(AcceptForward(2, B, quote))
    assert forward_reports(floor) == [(2, B, QuoteStatus.QUOTE_NOT_FOUND)]


@pytest.mark.parametrize("side", [BUY, SELL])
def test_003_15_3_2_with_cash_the_underlying_is_traded_the_other_way_round(side):
    floor = market()
    floor.do(AcceptForward(2, B, declare(floor, side=side, with_cash=True)))
    (trade,) = floor.items(ForwardTrade)
    (cash,) = floor.items(Trade)
    assert (cash.security_id, cash.price, cash.size) == (ACME4, px(12.5), 500)
    parties = (A, B) if side == BUY else (B, A)
    assert (trade.buyer, trade.seller) == (cash.seller, cash.buyer) == parties
    assert cash.trd_sub_type == TrdSubType.MULTI_ASSET_TRADE
    assert not cash.trade_condition & TradeCondition.REGULAR_TRADE
    assert not floor.items(ExecutionSummary)
    other = SELL if side == BUY else BUY
    fills = [(r.session, r.security_id, r.side) for r in floor.reports(ForwardTraded)]
    assert fills == [(1, ACME4T, side), (2, ACME4T, other), (1, ACME4, other), (2, ACME4, side)]


def test_003_15_3_3_with_registered_cash_an_earlier_trade_is_named():
    floor = market()
    floor.do(declaration(cash_trade_id=10))
    assert floor.reports()[0].status == QuoteStatus.REJECTED
    floor.order(SELL, 500, 12, security_id=ACME4)
    floor.order(BUY, 500, 12, security_id=ACME4, session=2)
    number = floor.items(Trade)[0].trade_id
    floor.do(AcceptForward(2, B, declare(floor, cash_trade_id=number)))
    assert (floor.items(Trade)[0].buyer, floor.items(Trade)[0].seller) == (B, A)


def test_003_15_3_6_4_a_refused_forward_is_over():
    floor = market()
    quote = declare(floor)
    floor.do(RefuseForward(2, B, quote))
    assert forward_reports(floor) == [(1, A, QuoteStatus.PASS), (2, B, QuoteStatus.PASS)]
    assert not floor.last.market
    floor.do(AcceptForward(2, B, quote))
    assert forward_reports(floor) == [(2, B, QuoteStatus.QUOTE_NOT_FOUND)]


def test_003_15_3_6_2_the_initiator_can_cancel_until_it_is_accepted():
    floor = market()
    quote = declare(floor)
    floor.do(CancelForward(2, B, quote))
    assert forward_reports(floor) == [(2, B, QuoteStatus.QUOTE_NOT_FOUND)]
    floor.do(CancelForward(1, A, quote))
    assert forward_reports(floor) == [(1, A, QuoteStatus.CANCELED), (0, B, QuoteStatus.CANCELED)]
    floor.do(CancelForward(1, A, quote))
    assert forward_reports(floor) == [(1, A, QuoteStatus.QUOTE_NOT_FOUND)]


@pytest.mark.parametrize("command", [EndDay(), StartDay(DAY + timedelta(1))])
def test_003_15_3_6_5_declarations_expire_with_the_day(command):
    floor = market()
    quote = declare(floor)
    floor.do(command)
    assert forward_reports(floor) == [(1, A, QuoteStatus.EXPIRED), (0, B, QuoteStatus.EXPIRED)]
    floor.do(RefuseForward(2, B, quote))
    assert forward_reports(floor) == [(2, B, QuoteStatus.QUOTE_NOT_FOUND)]


def test_003_15_3_6_3_a_delisted_forward_cancels_its_declarations():
    floor = market()
    quote, other = declare(floor), declare(floor, security_id=ACME4S)
    floor.do(RemoveInstrument(ACME4T))
    assert forward_reports(floor) == [(1, A, QuoteStatus.CANCELED), (0, B, QuoteStatus.CANCELED)]
    assert {r.quote_id for r in floor.reports(ForwardReported)} == {quote}
    for answer in (AcceptForward(2, B, quote), RefuseForward(2, B, quote)):
        floor.do(answer)
        assert forward_reports(floor) == [(2, B, QuoteStatus.QUOTE_NOT_FOUND)]
    floor.do(AcceptForward(2, B, other))
    assert forward_reports(floor) == [(1, A, QuoteStatus.ACCEPTED), (2, B, QuoteStatus.ACCEPTED)]


@pytest.mark.parametrize(
    ("terms", "ends"), [({"with_cash": True}, True), ({"cash_trade_id": 10}, True), ({}, False)]
)
def test_003_15_3_6_3_a_declaration_with_cash_ends_with_its_cash_instrument(terms, ends):
    floor = market()
    floor.order(SELL, 500, 12, security_id=ACME4)
    floor.order(BUY, 500, 12, security_id=ACME4, session=2)
    quote = declare(floor, **terms)
    floor.do(RemoveInstrument(ACME4))
    ended = [(1, A, QuoteStatus.CANCELED), (0, B, QuoteStatus.CANCELED)]
    assert forward_reports(floor) == (ended if ends else [])
    floor.do(AcceptForward(2, B, quote))
    accepted = [(1, A, QuoteStatus.ACCEPTED), (2, B, QuoteStatus.ACCEPTED)]
    unknown = [(2, B, QuoteStatus.QUOTE_NOT_FOUND)]
    assert forward_reports(floor) == (unknown if ends else accepted)


def test_003_15_3_only_the_respondent_accepts_and_never_by_direct_access():
    floor = market()
    quote = declare(floor)
    floor.do(AcceptForward(3, 33, quote))
    assert forward_reports(floor) == [(3, 33, QuoteStatus.QUOTE_NOT_FOUND)]
    floor.do(AcceptForward(2, B, quote, dma=True))
    (refused,) = floor.reports()
    assert (refused.status, refused.code) == (QuoteStatus.REJECTED, 2311)
    floor.do(AcceptForward(2, B, quote))
    assert floor.items(ForwardTrade)


def test_003_15_3_5_only_while_the_forward_is_open():
    floor = market()
    quote = declare(floor)
    floor.do(SetGroupPhase("T1", TradingStatus.FORBIDDEN))
    floor.do(AcceptForward(2, B, quote))
    assert forward_reports(floor) == [(2, B, QuoteStatus.REJECTED)]
    floor.do(declaration())
    assert forward_reports(floor) == [(1, A, QuoteStatus.REJECTED)]
    floor.do(SetGroupPhase("T1", TradingStatus.OPEN))
    floor.do(AcceptForward(2, B, quote))
    assert floor.items(ForwardTrade)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"security_id": 5}, "unknown"),
        ({"security_id": ACME4}, "not a forward"),
        ({"quantity": 150}, "multiple"),
        ({"quantity": 0}, "multiple"),
        ({"price": px(12.505)}, ""),
        ({"days_to_settlement": 15}, "16 to 999"),
        ({"days_to_settlement": 1000}, "16 to 999"),
        ({"security_id": ACME4S, "days_to_settlement": 91}, "1 to 90"),
        ({"security_id": ACME4S, "days_to_settlement": 0}, "1 to 90"),
        ({"fixed_rate": -1}, "rate"),
        ({"private": False}, "private"),
    ],
)
def test_003_15_3_7_what_a_declaration_must_be(changes, words):
    floor = market()
    floor.do(declaration(**changes))
    (refused,) = floor.reports()
    assert refused.status == QuoteStatus.REJECTED
    assert words in refused.text
    assert refused.code


@pytest.mark.parametrize("days", [1, 15, 90])
def test_a_flexible_forward_is_settled_within_90_days(days):
    declare(market(), security_id=ACME4S, days_to_settlement=days)
