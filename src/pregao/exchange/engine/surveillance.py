"""Commands of market operations on orders and books.

They are not requests of members: an invalid one raises ``UsageError`` and changes nothing.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.events import (
    ChannelReset,
    EmptyBook,
    MarketItem,
    MassDeleteOrders,
    NewOrderMbo,
    SequenceReset,
)
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.operations_commands import (
    MARKET_OPERATIONS,
    DeleteSide,
    EnterImplied,
    ExpelOrder,
    ResetBook,
    ResetChannel,
    ResetStream,
)
from pregao.exchange.engine.orders import BookSide, EngineOrder
from pregao.exchange.engine.terms import (
    ExecRestatementReason,
    OrderSide,
    OrdType,
    TimeInForce,
)
from pregao.exchange.engine.withdrawal import refresh_auction, withdraw


def expel_order(market: Market, command: ExpelOrder, now_ns: int) -> None:
    """Cancel an order by decision of the exchange."""
    order = market.orders.get(command.order_id)
    if order is None:
        raise UsageError(f"no active order has the ID {command.order_id}")
    listing = market.listings[order.security_id]
    items: list[MarketItem] = []
    withdraw(market, listing, order, items, now_ns)
    market.cancelled(order, now_ns, command.reason)
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def delete_side(market: Market, command: DeleteSide, now_ns: int) -> None:
    """Cancel all orders on one side of a book with a single message."""
    listing = market.listing(command.security_id)
    items: list[MarketItem] = []
    clear_side(market, listing, listing.side(command.side), items, now_ns)
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def clear_side(
    market: Market, listing: Listing, side: BookSide, items: list[MarketItem], now_ns: int
) -> None:
    """Empty a side and report the cancellations to the owners."""
    orders = side.clear()
    if not orders:
        return
    items.append(
        MassDeleteOrders(
            listing.security_id,
            side.side,
            len(orders),
            now_ns,
            1 if market.track_positions else None,
        )
    )
    for order in orders:
        market.forget(order)
        market.cancelled(order, now_ns, ExecRestatementReason.MARKET_OPTION)


def enter_implied(market: Market, command: EnterImplied, now_ns: int) -> None:
    """Queue a synthetic order after the ordinary ones at its price."""
    listing = market.listing(command.security_id)
    symbol = listing.instrument.symbol
    if not listing.instrument.implied_market_indicator:
        raise UsageError(f"{symbol} is not eligible for implied orders")
    if command.quantity <= 0 or command.price % listing.tick:
        raise UsageError(
            f"an implied order of {symbol} requires a quantity greater than zero and a price "
            f"that is a multiple of its tick"
        )
    best = listing.opposite(command.side).best_price()
    if best is not None and (
        best <= command.price if command.side == OrderSide.BUY else best >= command.price
    ):
        raise UsageError(f"an implied order of {symbol} must not cross the book")
    market.order_id += 1
    order = EngineOrder(
        market.order_id,
        0,
        MARKET_OPERATIONS,
        0,
        market.order_id,
        listing.security_id,
        command.side,
        command.price,
        command.quantity,
        OrdType.LIMIT,
        TimeInForce.DAY,
        0,
        0,
        now_ns,
    )
    order.implied = True
    market.new_secondary_id(order)
    market.orders[order.order_id] = order
    market.by_client[(order.session, order.security_id, order.cl_ord_id)] = order
    market.report_accepted(order, now_ns)
    items: list[MarketItem] = [market.add_to_book(listing, order, now_ns)]
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def reset_book(market: Market, command: ResetBook, now_ns: int) -> None:
    """Republish a book."""
    _republish_book(market, market.listing(command.security_id), now_ns)


def reset_channel(market: Market, command: ResetChannel, now_ns: int) -> None:
    """Republish all books of a channel after a ChannelReset; statistics are kept."""
    listings = _channel(market, command.channel)
    market.publish([ChannelReset(command.channel, now_ns)], event=False)
    for listing in listings:
        if listing.bids.count or listing.offers.count:
            _republish_book(market, listing, now_ns)


def reset_stream(market: Market, command: ResetStream, now_ns: int) -> None:
    """Restart the incremental stream of a channel and republish its books."""
    listings = _channel(market, command.channel)
    market.publish([SequenceReset(command.channel)], event=False)
    for listing in listings:
        if listing.bids.count or listing.offers.count:
            _republish_book(market, listing, now_ns)


def _channel(market: Market, channel: int) -> list[Listing]:
    listings = [
        listing for listing in market.listings.values() if listing.instrument.channel == channel
    ]
    if not listings:
        known = ", ".join(
            str(number)
            for number in sorted({x.instrument.channel for x in market.listings.values()})
        )
        raise UsageError(f"no instrument is on channel {channel}; choose from {known}")
    return listings


def _republish_book(market: Market, listing: Listing, now_ns: int) -> None:
    """Publish EmptyBook, then every order as a recovery message."""
    items: list[MarketItem] = [EmptyBook(listing.security_id, now_ns)]
    for side in (listing.bids, listing.offers):
        items.extend(
            NewOrderMbo(
                order.security_id,
                order.side,
                order.price,
                order.visible,
                order.secondary_order_id,
                order.firm or None,
                order.insert_time_ns,
                now_ns,
                position if market.track_positions else None,
                order.implied,
                True,
            )
            for position, order in enumerate(side, 1)
        )
    market.publish(items)
