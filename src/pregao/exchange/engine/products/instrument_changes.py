"""Listing, redefining and delisting of instruments during the day."""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.matching.price_bands import refresh
from pregao.exchange.engine.model.enums import ExecRestatementReason, SecurityUpdateAction
from pregao.exchange.engine.model.events import MarketItem, SecurityDefinition
from pregao.exchange.engine.model.instruments import MultiLegModel
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    ChangeInstrument,
    RemoveInstrument,
)
from pregao.exchange.engine.operations.market_control import clear_side
from pregao.exchange.engine.orders.order_cancel import refresh_auction, withdraw
from pregao.exchange.engine.orders.validation import GTC, GTD
from pregao.exchange.engine.phases.trading_phases import REJOINS, detach, publish_status_change
from pregao.exchange.engine.products.forwards import cancel_declarations
from pregao.exchange.engine.products.implied_spreads import unregister


def add_instrument(market: Market, command: AddInstrument, now_ns: int) -> None:
    """List an instrument during the day; it follows its group."""
    instrument = command.instrument
    if instrument.security_id in market.listings:
        raise UsageError(f"security ID {instrument.security_id} is already listed")
    listing = market.list_instrument(instrument)
    listing.status = listing.group.phase
    market.publish([SecurityDefinition(SecurityUpdateAction.ADD, instrument, now_ns)], event=False)


def change_instrument(market: Market, command: ChangeInstrument, now_ns: int) -> None:
    """Replace a definition, keeping the group, the channel and the market segment.

    A new corporate action cancels the orders that outlive the day, since it changes what they
    trade.
    """
    instrument = command.instrument
    listing = market.listing(instrument.security_id)
    if (
        instrument.security_group != listing.instrument.security_group
        or instrument.channel != listing.instrument.channel
        or instrument.market_segment_id != listing.instrument.market_segment_id
    ):
        raise UsageError(
            f"{instrument.symbol} cannot change its group, channel or market segment during the "
            "day: remove it and add it again"
        )
    action = instrument.corporate_action_event_id
    if action is not None and action != listing.instrument.corporate_action_event_id:
        _cancel_good_till(market, listing, now_ns)
    listing.define(instrument)
    refresh(listing)
    market.publish(
        [SecurityDefinition(SecurityUpdateAction.MODIFY, instrument, now_ns)], event=False
    )


def _cancel_good_till(market: Market, listing: Listing, now_ns: int) -> None:
    """Cancel the GTC and GTD orders, as one event."""
    items: list[MarketItem] = []
    for order in [*listing.bids, *listing.offers, *listing.waiting]:
        if order.time_in_force in (GTC, GTD):
            withdraw(market, listing, order, items, now_ns)
            market.cancelled(order, now_ns, ExecRestatementReason.MARKET_OPTION)
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def remove_instrument(market: Market, command: RemoveInstrument, now_ns: int) -> None:
    """Delist an instrument, after canceling its orders and declarations.

    User-defined spreads with it as a leg are delisted first: without it they could not trade.
    """
    listing = market.listing(command.security_id)
    for spread in _strategies_with_leg(market, listing.security_id):
        remove_instrument(market, RemoveInstrument(spread.security_id), now_ns)
    items: list[MarketItem] = []
    clear_side(market, listing, listing.bids, items, now_ns)
    clear_side(market, listing, listing.offers, items, now_ns)
    market.publish(items)
    for order in listing.waiting:
        market.remove_from_indexes(order)
        market.cancelled(order, now_ns, ExecRestatementReason.MARKET_OPTION)
    cancel_declarations(market, listing.security_id, now_ns)
    unregister(market, listing.security_id, now_ns)
    del market.listings[listing.security_id]
    if listing.trade_id:
        market.last_trade_ids[listing.security_id] = listing.trade_id
    market.user_spreads.pop(listing.security_id, None)
    listing.group.members.remove(listing)
    listing.active_auction = False
    listing.window_ns = None
    market.publish(
        [SecurityDefinition(SecurityUpdateAction.DELETE, listing.instrument, now_ns)], event=False
    )
    if (pair := listing.pair) is not None:
        pair.pair = listing.pair = None
        if pair.pending:
            # Only the end of this instrument's auction would have ended the pair's.
            detach(market, pair, None, None, now_ns)
            publish_status_change(market, pair, pair.group.phase, REJOINS, now_ns)


def _strategies_with_leg(market: Market, security_id: int) -> list[Listing]:
    """Return the user-defined spreads that have an instrument as a leg."""
    return [
        listing
        for listing in market.listings.values()
        if listing.instrument.multi_leg_model == MultiLegModel.USER_DEFINED
        and any(leg.security_id == security_id for leg in listing.instrument.legs)
    ]
