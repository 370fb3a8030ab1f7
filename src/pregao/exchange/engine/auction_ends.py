"""Auctions whose end has come, and auctions of two instruments that begin and end together.

Of a pair, the instrument whose end comes first asks the other one. While it waits for the answer
it takes no requests; then either both auctions end, or it goes on without a scheduled end until
the other one can end too. Market operations can end either by hand, without asking.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.auction_times import EXTENSION, SYNCHRONIZATION, announcement
from pregao.exchange.engine.commands import PairAuctions
from pregao.exchange.engine.events import News
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.phases import (
    AUCTIONS,
    OPEN,
    REJOINS,
    RESERVED,
    detach,
    extend,
    postpone,
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
        elif listing.active_auction:
            _reached(market, listing, _end(listing))
    market.next_due_ns = min(
        (
            _end(listing)
            for listing in running
            if listing.active_auction or listing.window_ns is not None
        ),
        default=None,
    )


def drop_due(market: Market, now_ns: int) -> None:
    """Let auctions whose end has come go on without a scheduled end: that end cannot be run."""
    for listing in market.listings.values():
        if (listing.active_auction or listing.window_ns is not None) and _end(listing) <= now_ns:
            listing.window_ns = None
            listing.active_auction = False
    market.next_due_ns = min(
        (
            _end(listing)
            for listing in market.listings.values()
            if listing.active_auction or listing.window_ns is not None
        ),
        default=None,
    )


def _end(listing: Listing) -> int:
    """When something happens to an auction by itself."""
    if listing.window_ns is not None:
        return listing.window_ns
    end = listing.open_time_ns if listing.closes_ns is None else listing.closes_ns
    assert end is not None
    return end


def _reached(market: Market, listing: Listing, now_ns: int) -> None:
    """The end of an auction has come: it ends, unless its rules or its pair say otherwise."""
    news = postpone(market, listing, now_ns)
    if news is not None:
        _tell(market, listing, news, now_ns)
    elif listing.pair is not None and listing.pair.status in AUCTIONS:
        _ask(market, listing, now_ns)
    else:
        _close(market, listing, now_ns)


def extend_auctions(market: Market, now_ns: int) -> None:
    """Move the ends of auctions whose theoretical price or quantity has changed late."""
    extending, market.extending = market.extending, []
    for listing in extending:
        rules, end = listing.auction, listing.open_time_ns
        if listing.own_status is None:
            end = listing.group.open_time_ns
        # It may have ended, or moved already, within the same command.
        if listing.watch_ns is None or listing.watch_ns > now_ns or rules is None or end is None:
            continue
        # The end of a phase may have passed, if nobody has moved its group on yet.
        end = max(end, now_ns) + rules.extension_ns
        news = extend(market, listing, end, EXTENSION, now_ns)
        _tell(market, listing, news, now_ns)


def _tell(market: Market, listing: Listing, news: News, now_ns: int) -> None:
    """Tell that an auction goes on, and why."""
    tell_change(market, listing, RESERVED, _CHANGED, now_ns)
    market.tell([news], event=False)


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
    _tell(market, listing, announcement(listing, SYNCHRONIZATION, now_ns), now_ns)


def _answer(market: Market, listing: Listing, now_ns: int) -> None:
    """The other instrument answers: both end, if its own end has come as well."""
    listing.window_ns = None
    pair = listing.pair
    if pair is not None and pair.status in AUCTIONS and not pair.pending:
        market.tell([announcement(listing, SYNCHRONIZATION, now_ns)], event=False)
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
