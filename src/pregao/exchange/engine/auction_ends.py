"""Auctions whose end has come, and auctions of two instruments that begin and end together.

Of a pair, the instrument whose end comes first asks the other one. While it waits for the answer
it takes no requests; then either both auctions end, or it goes on without a scheduled end until
the other one can end too. Market operations can end either by hand, without asking.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.commands import PairAuctions
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.phases import (
    AUCTIONS,
    OPEN,
    REJOINS,
    RESERVED,
    detach,
    synchronization,
    tell_change,
)
from pregao.umdf.phases import TradingEvent

_CHANGED = TradingEvent.SECURITY_STATUS_CHANGE


def pair_auctions(market: Market, command: PairAuctions, _now_ns: int) -> None:
    """Let the auctions of two instruments begin and end together from now on."""
    first, second = market.listing(command.first), market.listing(command.second)
    if first is second:
        raise UsageError(f"{first.instrument.symbol} cannot be paired with itself")
    for listing in (first, second):
        if listing.pair is not None:
            raise UsageError(
                f"{listing.instrument.symbol} is already paired with "
                f"{listing.pair.instrument.symbol}"
            )
    first.pair, second.pair = second, first


def run_due(market: Market, now_ns: int) -> None:
    """End the auctions whose end has come, and find when the next one ends."""
    running = [
        listing
        for listing in market.listings.values()
        if listing.active_auction or listing.window_ns is not None
    ]
    due = [listing for listing in running if _end(listing) <= now_ns]
    due.sort(key=lambda listing: (_end(listing), listing.security_id))
    for listing in due:
        if listing.window_ns is not None:
            _answer(market, listing, listing.window_ns)
        elif listing.active_auction and listing.open_time_ns is not None:
            if listing.pair is not None and listing.pair.status in AUCTIONS:
                _ask(market, listing, listing.open_time_ns)
            else:
                _close(market, listing, listing.open_time_ns)
    market.next_due_ns = min(
        (
            _end(listing)
            for listing in running
            if listing.active_auction or listing.window_ns is not None
        ),
        default=None,
    )


def _end(listing: Listing) -> int:
    """When something happens to an auction by itself."""
    end = listing.open_time_ns if listing.window_ns is None else listing.window_ns
    assert end is not None
    return end


def _close(market: Market, listing: Listing, now_ns: int) -> None:
    """End an auction: the instrument follows its group again."""
    detach(market, listing, None, None, now_ns)
    tell_change(market, listing, listing.group.phase, REJOINS, now_ns)


def _ask(market: Market, listing: Listing, now_ns: int) -> None:
    """The end has come: take no requests until the other instrument has answered."""
    _wait(market, listing, now_ns)
    listing.window_ns = now_ns + market.synchronism_ns


def _wait(market: Market, listing: Listing, now_ns: int) -> None:
    """Let an auction go on without a scheduled end, and say so."""
    detach(market, listing, RESERVED, None, now_ns)
    listing.pending = True
    tell_change(market, listing, RESERVED, _CHANGED, now_ns)
    market.tell([synchronization(listing, now_ns)], event=False)


def _answer(market: Market, listing: Listing, now_ns: int) -> None:
    """The other instrument answers: both end, if its own end has come as well."""
    listing.window_ns = None
    pair = listing.pair
    if pair is not None and pair.status in AUCTIONS and not pair.pending:
        market.tell([synchronization(listing, now_ns)], event=False)
        return
    if pair is not None and pair.pending:
        _close(market, pair, now_ns)
    _close(market, listing, now_ns)


def join_pairs(market: Market, now_ns: int) -> None:
    """Take instruments into an auction whose pair has gone into one."""
    called, market.called = market.called, []
    for listing in called:
        pair = listing.pair
        if pair is not None and pair.status == OPEN and listing.status in AUCTIONS:
            _wait(market, pair, now_ns)
