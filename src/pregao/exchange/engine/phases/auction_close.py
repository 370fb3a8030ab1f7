"""Ends of auctions, including auctions of two paired instruments that start and end together.

Of a pair, the instrument that reaches its end first asks the other one. Until the answer it accepts
no requests; then either both auctions end, or it continues without a scheduled end until the other
one can end too. Market operations can end either one manually, without asking.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.events import News
from pregao.exchange.engine.model.operations_commands import PairAuctions
from pregao.exchange.engine.phases.auction import EXTENSION, SYNCHRONIZATION, announcement
from pregao.exchange.engine.phases.trading_phases import (
    AUCTIONS,
    OPEN,
    REJOINS,
    RESERVED,
    detach,
    extend,
    postpone,
    publish_status_change,
)
from pregao.umdf.phases import TradingEvent

_CHANGED = TradingEvent.SECURITY_STATUS_CHANGE


def pair_auctions(market: Market, command: PairAuctions, _now_ns: int) -> None:
    """Pair two instruments so that their auctions start and end together."""
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
    """End the auctions that are due, and schedule the next end."""
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
    """Remove the ends that are due: the auctions continue without a scheduled end."""
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
    """Return the time of an auction's next scheduled event."""
    if listing.window_ns is not None:
        return listing.window_ns
    end = listing.open_time_ns if listing.closes_ns is None else listing.closes_ns
    assert end is not None
    return end


def _reached(market: Market, listing: Listing, now_ns: int) -> None:
    """Handle the scheduled end of an auction: end it, unless its rules or its pair postpone it."""
    news = postpone(market, listing, now_ns)
    if news is not None:
        _announce(market, listing, news, now_ns)
    elif listing.pair is not None and listing.pair.status in AUCTIONS:
        _ask(market, listing, now_ns)
    else:
        _close(market, listing, now_ns)


def extend_auctions(market: Market, now_ns: int) -> None:
    """Extend auctions whose theoretical price or quantity changed late."""
    extending, market.extending = market.extending, []
    for listing in extending:
        rules, end = listing.auction, listing.open_time_ns
        if listing.own_status is None:
            end = listing.group.open_time_ns
        # It may have ended, or been extended already, within the same command.
        if listing.watch_ns is None or listing.watch_ns > now_ns or rules is None or end is None:
            continue
        # The phase's end may have passed without a command that moves the group on.
        end = max(end, now_ns) + rules.extension_ns
        news = extend(market, listing, end, EXTENSION, now_ns)
        _announce(market, listing, news, now_ns)


def _announce(market: Market, listing: Listing, news: News, now_ns: int) -> None:
    """Publish that an auction continues, and why."""
    publish_status_change(market, listing, RESERVED, _CHANGED, now_ns)
    market.publish([news], event=False)


def _close(market: Market, listing: Listing, now_ns: int) -> None:
    """End an auction: the instrument follows its group again."""
    detach(market, listing, None, None, now_ns)
    publish_status_change(market, listing, listing.group.phase, REJOINS, now_ns)


def _ask(market: Market, listing: Listing, now_ns: int) -> None:
    """Ask the paired instrument to end too, and accept no requests until its answer."""
    _wait(market, listing, now_ns)
    listing.window_ns = now_ns + market.synchronism_ns


def _wait(market: Market, listing: Listing, now_ns: int) -> None:
    """Continue an auction without a scheduled end, and publish it."""
    detach(market, listing, RESERVED, None, now_ns)
    listing.pending = True
    _announce(market, listing, announcement(listing, SYNCHRONIZATION, now_ns), now_ns)


def _answer(market: Market, listing: Listing, now_ns: int) -> None:
    """Handle the pair's answer: both auctions end if the pair's end has come as well."""
    listing.window_ns = None
    pair = listing.pair
    if pair is not None and pair.status in AUCTIONS and not pair.pending:
        market.publish([announcement(listing, SYNCHRONIZATION, now_ns)], event=False)
        return
    if pair is not None and pair.pending:
        _close(market, pair, now_ns)
    _close(market, listing, now_ns)


def join_pairs(market: Market, now_ns: int) -> None:
    """Move instruments into an auction whose pair has entered one."""
    called, market.called = market.called, []
    for listing in called:
        pair = listing.pair
        if pair is not None and pair.status == OPEN and listing.status in AUCTIONS:
            _wait(market, pair, now_ns)
