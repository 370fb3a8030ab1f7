"""User-defined spreads: a member combines listed instruments into one that trades immediately.

A proposal of an existing strategy returns the existing instrument; the opposite of one is refused,
since selling the existing one is equivalent. After seven days without activity the instrument is
delisted.
"""

from __future__ import annotations

from datetime import timedelta
from math import gcd

from pregao.exchange.engine.instruments import (
    Instrument,
    Leg,
    MultiLegModel,
    MultiLegPriceMethod,
    Product,
    SecurityType,
)
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.member_commands import DefineSpread
from pregao.exchange.engine.operations_commands import AddInstrument, RemoveInstrument
from pregao.exchange.engine.registration import add_instrument, remove_instrument
from pregao.exchange.engine.reports import SpreadDefined
from pregao.exchange.engine.spreads import register
from pregao.exchange.engine.strategies import MAX_LEGS, StrategyLeg, reduced, strategy_type
from pregao.exchange.engine.terms import RATIO_SCALE, OrderSide, SecurityResponseType

IDLE = timedelta(days=7)
_STRATEGY_SUB_TYPE = 90
_AS_IS = SecurityResponseType.ACCEPT_SECURITY_PROPOSAL_AS_IS
_REVISED = SecurityResponseType.ACCEPT_SECURITY_AS_PROPOSAL_WITH_REVISIONS
_REJECTED = SecurityResponseType.REJECT_SECURITY_PROPOSAL


def define_spread(market: Market, command: DefineSpread, now_ns: int) -> None:
    """List a spread that a member proposes, or report why it is refused."""
    found = _legs(market, command)
    if isinstance(found, str):
        _answer(market, command, _REJECTED, None, now_ns, found)
        return
    legs = reduced(found)
    response = _AS_IS if legs == found else _REVISED
    existing = _listed(market, legs)
    if existing is not None:
        _answer(market, command, response, existing, now_ns)
        return
    opposite = [leg._replace(side=OrderSide(3 - leg.side)) for leg in legs]
    if (other := _listed(market, opposite)) is not None:
        text = f"Opposite of a listed strategy: sell {other.symbol} instead"
        _answer(market, command, _REJECTED, None, now_ns, text)
        return
    instrument = _instrument(market, legs)
    add_instrument(market, AddInstrument(instrument), now_ns)
    register(market, market.listings[instrument.security_id])
    market.user_spreads[instrument.security_id] = market.trade_date
    _answer(market, command, response, instrument, now_ns)


def _answer(
    market: Market,
    command: DefineSpread,
    response: SecurityResponseType,
    instrument: Instrument | None,
    now_ns: int,
    text: str = "",
) -> None:
    market.exec_id += 1
    market.reports.append(
        SpreadDefined(
            market.exec_id,
            command.session,
            command.request_id,
            response,
            0 if instrument is None else instrument.security_id,
            "" if instrument is None else instrument.symbol,
            None if instrument is None else instrument.security_strategy_type,
            text,
            now_ns,
        )
    )


def _legs(market: Market, command: DefineSpread) -> list[StrategyLeg] | str:
    """Return the proposed legs, or the text that explains why they are refused."""
    by_symbol = {x.instrument.symbol: x for x in market.listings.values()}
    legs: list[StrategyLeg] = []
    for proposed in command.legs:
        listing = by_symbol.get(proposed.symbol)
        if listing is None:
            return f"The instrument {proposed.symbol} is unknown"
        instrument = listing.instrument
        if not listing.takes_orders or instrument.legs:
            return f"{instrument.symbol} cannot be a leg: it is not an outright instrument"
        if listing.security_id in market.no_legs:
            return f"{instrument.symbol} cannot be a leg: it is on the blacklist"
        if listing.reference_price() is None:
            return f"{instrument.symbol} cannot be a leg: it has no reference price"
        if proposed.ratio_qty <= 0 or proposed.ratio_qty % RATIO_SCALE:
            return f"The ratio of {instrument.symbol} must be an integer greater than zero"
        legs.append(StrategyLeg(instrument, proposed.side, proposed.ratio_qty // RATIO_SCALE))
    if not 2 <= len(legs) <= MAX_LEGS:
        return f"A strategy must have 2 to {MAX_LEGS} legs"
    if len({leg.instrument.security_id for leg in legs}) < len(legs):
        return "The same instrument is in two legs"
    first = legs[0].instrument
    for leg in legs:
        if leg.instrument.channel != first.channel:
            return f"{leg.instrument.symbol} is not on the same engine as {first.symbol}"
        if leg.instrument.min_price_increment != first.min_price_increment:
            return f"{leg.instrument.symbol} has a different tick size than {first.symbol}"
    ratios = sorted(leg.ratio for leg in reduced(legs))
    if all(gcd(ratios[0], ratio) > 1 for ratio in ratios[1:]):
        return "With these ratios the leg prices cannot add up to every spread price"
    return legs


def _listed(market: Market, legs: list[StrategyLeg]) -> Instrument | None:
    """Return the listed spread with these legs, if any."""
    proposed = {(leg.instrument.security_id, leg.side, leg.ratio * RATIO_SCALE) for leg in legs}
    for listing in market.listings.values():
        existing = listing.instrument.legs
        if len(existing) == len(proposed) and (
            {(leg.security_id, leg.side, leg.ratio_qty) for leg in existing} == proposed
        ):
            return listing.instrument
    return None


def _instrument(market: Market, legs: list[StrategyLeg]) -> Instrument:
    """Return the definition of a new spread, based on its first leg."""
    first = legs[0].instrument
    kind = strategy_type(legs)
    security_id = max(market.listings) + 1
    lot = max(leg.instrument.lot for leg in legs)
    return Instrument(
        security_id=security_id,
        symbol=f"{first.asset[:6]}{kind}{security_id % 1_000_000:06d}",
        security_group=first.security_group,
        security_type=SecurityType.MLEG,
        security_sub_type=_STRATEGY_SUB_TYPE,
        product=Product.MULTILEG,
        asset=first.asset,
        cfi_code="KXXXXX",
        min_price_increment=first.min_price_increment,
        currency=first.currency,
        settl_currency=first.settl_currency,
        min_order_qty=lot,
        min_lot_size=lot,
        issue_date=market.trade_date,
        security_strategy_type=kind,
        price_type=first.price_type,
        market_segment_id=first.market_segment_id,
        multi_leg_model=MultiLegModel.USER_DEFINED,
        multi_leg_price_method=MultiLegPriceMethod.NET_PRICE,
        legs=tuple(
            Leg(
                leg.instrument.security_id,
                leg.instrument.symbol,
                leg.ratio * RATIO_SCALE,
                leg.instrument.security_type,
                leg.side,
            )
            for leg in legs
        ),
        security_desc=" / ".join(leg.instrument.symbol for leg in legs)[:100],
        channel=first.channel,
    )


def note_activity(market: Market) -> None:
    """Record, before a day ends, which spreads traded or have orders."""
    for security_id in market.user_spreads:
        listing = market.listings.get(security_id)
        if listing is not None and (listing.trades or listing.bids.count or listing.offers.count):
            market.user_spreads[security_id] = market.trade_date


def remove_idle(market: Market, now_ns: int) -> None:
    """Delist spreads that have been unused for more than seven days."""
    for security_id, last in list(market.user_spreads.items()):
        if security_id not in market.listings:
            del market.user_spreads[security_id]
        elif market.trade_date - last > IDLE:
            remove_instrument(market, RemoveInstrument(security_id), now_ns)
            del market.user_spreads[security_id]
