"""Group phases and instrument states, and the consequences of their changes.

An instrument follows its group unless it has its own state; the more restrictive of the two
applies. FORBIDDEN (for a group: PRE-CLOSE) lets a running auction continue, and a forbidden
instrument remains so until it rejoins its group by command. An auction that ends, in whatever
state, is uncrossed before the change is published. An instrument that stays in its auction when its
group moves on says so before the phase, so that receivers keep its theoretical price. MOC orders
enter the book when the closing call has started.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import InstrumentGroup, Listing, SessionStatistics
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.matching.price_bands import refresh
from pregao.exchange.engine.model.enums import ExecRestatementReason, TimeInForce, TradingStatus
from pregao.exchange.engine.model.events import (
    ExecutionStatistics,
    HighPrice,
    LowPrice,
    MarketItem,
    News,
    OpeningPrice,
    SecurityGroupPhase,
    SecurityStatus,
)
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    RejoinGroup,
    SetGroupPhase,
    SetSecurityStatus,
)
from pregao.exchange.engine.phases.auction import (
    PROTECTION,
    RANDOM_END,
    SYNCHRONIZATION,
    announcement,
    clear_theoretical,
    outside_protection,
    publish_theoretical,
    random_extension_ns,
    rules_of,
    theoretical_deletions,
    uncross,
    watch_for_extension,
)
from pregao.umdf.phases import TradingEvent

PAUSE = TradingStatus.PAUSE
CLOSE = TradingStatus.CLOSE
OPEN = TradingStatus.OPEN
FORBIDDEN = TradingStatus.FORBIDDEN
RESERVED = TradingStatus.RESERVED
FINAL_CLOSING_CALL = TradingStatus.FINAL_CLOSING_CALL

AUCTIONS = frozenset({RESERVED, FINAL_CLOSING_CALL})
"""States in which orders are collected without trading."""
_CHANGED = TradingEvent.SECURITY_STATUS_CHANGE
_UNCROSSED_ON_ENTRY = frozenset({OPEN, CLOSE})
_STATES = AUCTIONS | {PAUSE, CLOSE, OPEN, FORBIDDEN}


def ruling(phase: TradingStatus, own: TradingStatus | None) -> TradingStatus:
    """Return the state in effect, from the group's phase and the instrument's own state."""
    if own is None:
        return phase
    if own == FORBIDDEN or phase == OPEN:
        return own
    if phase == FORBIDDEN:
        return RESERVED if own == RESERVED else FORBIDDEN
    if phase in AUCTIONS:
        return phase if own == OPEN else own
    # The group is closed or halted: no state is more restrictive than closed.
    return CLOSE if CLOSE in (phase, own) else phase


def set_group_phase(market: Market, command: SetGroupPhase, now_ns: int) -> None:
    """Move a group to a phase, with the instruments that follow it."""
    group = market.groups.get(command.group)
    if group is None:
        raise UsageError(f"no instrument is listed in a group named {command.group!r}")
    _check_state(command.phase)
    scheduled_end = group.open_time_ns
    group.phase = command.phase
    if command.session is not None:
        group.session = command.session
    group.open_time_ns = command.open_time_ns if command.phase == RESERVED else None
    group.auction = command.auction if command.phase in AUCTIONS else None
    group.since_ns = now_ns
    held: list[MarketItem] = []
    before: list[MarketItem] = []
    after: list[MarketItem] = []
    news: list[MarketItem] = []
    for listing in group.members:
        # When a group starts collecting orders, its instruments do too, except forbidden ones.
        if command.phase == RESERVED and listing.own_status not in (None, FORBIDDEN):
            detach(market, listing, None, None, now_ns)
            after.append(_status(market, listing, RESERVED, REJOINS, group.open_time_ns, now_ns))
        if _stays(market, listing, command.phase, scheduled_end, news, now_ns):
            open_time = listing.open_time_ns
            held.append(_status(market, listing, RESERVED, _CHANGED, open_time, now_ns))
        elif listing.own_status is None:
            _follow(market, listing, now_ns)
        _change(market, listing, command.new_session, before, after, now_ns)
    market.publish(held, event=False)
    _publish(market, before, phase_message(market, group, command.new_session, now_ns), after)
    market.publish(news, event=False)
    for listing in group.members:
        # Instruments that only waited for one of this group can now end their auction too.
        pair = listing.pair
        if pair is not None and pair.pending and listing.status not in AUCTIONS:
            detach(market, pair, None, None, now_ns)
            publish_status_change(market, pair, pair.group.phase, REJOINS, now_ns)


def _stays(
    market: Market,
    listing: Listing,
    phase: TradingStatus,
    scheduled_end_ns: int | None,
    news: list[MarketItem],
    now_ns: int,
) -> bool:
    """Keep an instrument in its auction if it must not follow its group yet.

    ``scheduled_end_ns`` is the end that the phase before had. Appends the news about it.
    """
    if listing.own_status is not None or listing.status not in AUCTIONS:
        return False
    if phase == FORBIDDEN and listing.status == RESERVED:
        if scheduled_end_ns is None or scheduled_end_ns > now_ns:
            _detach_in_auction(market, listing, scheduled_end_ns, now_ns)
            return True
    elif phase != OPEN:
        return False
    if (postponed := postpone(market, listing, now_ns)) is not None:
        news.append(postponed)
        return True
    if phase != OPEN or listing.pair is None or not _must_wait(listing, listing.pair):
        return False
    detach(market, listing, RESERVED, None, now_ns)
    listing.pending = True
    news.append(announcement(listing, SYNCHRONIZATION, now_ns))
    return True


def _detach_in_auction(market: Market, listing: Listing, end_ns: int | None, now_ns: int) -> None:
    """Separate an instrument from its group within an auction, which keeps its rules."""
    rules, extended = listing.auction, listing.extended
    detach(market, listing, RESERVED, end_ns, now_ns)
    watch_for_extension(listing, rules, end_ns, now_ns, extended)


def _must_wait(listing: Listing, pair: Listing) -> bool:
    """Whether an instrument must stay in its auction because its pair's has not reached its end."""
    if pair.status not in AUCTIONS or pair.pending:
        return False
    return pair.own_status is not None or pair.group is not listing.group


def postpone(market: Market, listing: Listing, now_ns: int) -> News | None:
    """Postpone an auction that reached its scheduled end, if its rules say so, and return the news.

    The caller publishes the state, then the news.
    """
    if not legs_ready(listing):
        return _hold(market, listing, now_ns)
    rules = listing.auction
    if rules is None:
        return None
    if listing.extended < rules.extensions and outside_protection(listing, rules):
        return extend(market, listing, now_ns + rules.extension_ns, PROTECTION, now_ns)
    if not rules.random_ns or listing.closes_ns is not None:
        return None
    _detach_in_auction(market, listing, None, now_ns)
    listing.closes_ns = now_ns + random_extension_ns(market, listing, rules, now_ns)
    _plan(market, listing, listing.closes_ns)
    return announcement(listing, RANDOM_END, now_ns)


def legs_ready(listing: Listing) -> bool:
    """Whether an auction of a user-defined spread can end: its legs can trade what it would."""
    strategy, uncrossing = listing.strategy, listing.theoretical
    return strategy is None or uncrossing is None or strategy.trades_at(uncrossing.price)


def _hold(market: Market, listing: Listing, now_ns: int) -> News:
    """Continue the auction of a user-defined spread until its legs can trade; return the news."""
    detach(market, listing, RESERVED, None, now_ns)
    listing.pending = True
    market.held.append(listing)
    market.follows = True
    return announcement(listing, SYNCHRONIZATION, now_ns)


def release_spreads(market: Market, now_ns: int) -> bool:
    """End the auctions of user-defined spreads whose legs can trade now; return whether any did."""
    waiting, market.held = market.held, []
    released = False
    for listing in waiting:
        if not listing.pending or market.listings.get(listing.security_id) is not listing:
            continue  # market operations have set another state
        if listing.group.phase == OPEN and legs_ready(listing):
            detach(market, listing, None, None, now_ns)
            publish_status_change(market, listing, OPEN, REJOINS, now_ns)
            released = True
        else:
            market.held.append(listing)
    return released


def _check_legs_ready(listing: Listing, status: TradingStatus) -> None:
    """Refuse to end the auction of a user-defined spread while its legs cannot trade."""
    if status == OPEN and listing.status in AUCTIONS and not legs_ready(listing):
        raise UsageError(
            f"the auction of {listing.instrument.symbol} cannot end: its legs must be open and "
            "have prices within their hard limits that add up to its theoretical price"
        )


def extend(market: Market, listing: Listing, end_ns: int, reason: str, now_ns: int) -> News:
    """Extend an auction and return the news; the caller publishes the state, then the news."""
    rules, extended = listing.auction, listing.extended + 1
    before = listing.group.open_time_ns if listing.own_status is None else listing.open_time_ns
    detach(market, listing, RESERVED, end_ns, now_ns)
    # Changes up to the previously scheduled end do not extend it again.
    watch_for_extension(listing, rules, end_ns, max(now_ns, before or 0), extended)
    return announcement(listing, reason, now_ns)


def set_security_status(market: Market, command: SetSecurityStatus, now_ns: int) -> None:
    """Set an instrument's own state."""
    listing = market.listing(command.security_id)
    _check_state(command.status)
    _check_legs_ready(listing, ruling(listing.group.phase, command.status))
    if command.open_time_ns is not None and command.open_time_ns <= now_ns:
        raise UsageError(
            f"the end of the auction of {listing.instrument.symbol} must be in the future"
        )
    detach(market, listing, command.status, command.open_time_ns, now_ns)
    if listing.pair is not None:
        market.called.append(listing)
        market.follows = True
    event = TradingEvent.SECURITY_STATUS_CHANGE
    if command.new_session:
        event = TradingEvent.TRADING_SESSION_CHANGE
    publish_status_change(market, listing, command.status, event, now_ns)


def rejoin_group(market: Market, command: RejoinGroup, now_ns: int) -> None:
    """Make an instrument follow its group again."""
    listing = market.listing(command.security_id)
    if listing.own_status is None:
        raise UsageError(
            f"{listing.instrument.symbol} already follows the phase of its group "
            f"{listing.group.name!r}"
        )
    _check_legs_ready(listing, listing.group.phase)
    detach(market, listing, None, None, now_ns)
    publish_status_change(market, listing, listing.group.phase, REJOINS, now_ns)


def call_auction(market: Market, listing: Listing, reason: str, now_ns: int) -> SecurityStatus:
    """Freeze an instrument whose next trade calls an auction.

    The caller adds the order that called the auction, and publishes.
    """
    rules = rules_of(market, listing, None)
    end = now_ns + market.auction_duration_ns
    if rules is not None:
        if rules.duration_ns is not None:
            end = now_ns + rules.duration_ns
        market.announced.append(announcement(listing, reason, now_ns))
        market.follows = True
    detach(market, listing, RESERVED, end, now_ns)
    listing.status = RESERVED
    if listing.pair is not None:
        market.called.append(listing)
        market.follows = True
    return _status(market, listing, RESERVED, TradingEvent.SECURITY_STATUS_CHANGE, end, now_ns)


def advance_time(_market: Market, _command: AdvanceTime, _now_ns: int) -> None:
    """Do nothing: the engine has already handled what came due by this time."""


REJOINS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS


def _check_state(status: TradingStatus) -> None:
    if status not in _STATES:
        known = ", ".join(sorted(state.name for state in _STATES))
        raise UsageError(f"{status!r} cannot be set as a state; choose one of {known}")


def detach(
    market: Market,
    listing: Listing,
    own: TradingStatus | None,
    open_time_ns: int | None,
    now_ns: int,
) -> None:
    """Set an instrument's own state; None makes it follow its group."""
    listing.pending = False
    listing.window_ns = None
    listing.own_status = own
    listing.open_time_ns = open_time_ns if own == RESERVED else None
    listing.since_ns = now_ns
    listing.active_auction = False
    if own is None:
        _follow(market, listing, now_ns)
        return
    end = listing.open_time_ns
    watch_for_extension(listing, rules_of(market, listing, None), end, now_ns)
    if end is not None:
        _plan(market, listing, end)


def _plan(market: Market, listing: Listing, end_ns: int) -> None:
    """Schedule the end of an auction."""
    listing.active_auction = True
    if market.next_due_ns is None or end_ns < market.next_due_ns:
        market.next_due_ns = end_ns


def _follow(market: Market, listing: Listing, now_ns: int) -> None:
    """Make an instrument follow its group: its auctions have the rules of the phase."""
    group = listing.group
    rules = rules_of(market, listing, group.auction) if group.phase in AUCTIONS else None
    watch_for_extension(listing, rules, group.open_time_ns, now_ns)


def publish_status_change(
    market: Market, listing: Listing, status: TradingStatus, event: TradingEvent, now_ns: int
) -> None:
    """Apply a change of one instrument's state and publish it."""
    before: list[MarketItem] = []
    after: list[MarketItem] = []
    new_session = event == TradingEvent.TRADING_SESSION_CHANGE
    _change(market, listing, new_session, before, after, now_ns)
    open_time = listing.open_time_ns
    if listing.own_status is None:
        open_time = listing.group.open_time_ns
    message = _status(market, listing, status, event, open_time, now_ns)
    _publish(market, before, message, after)


def _publish(
    market: Market, before: list[MarketItem], item: MarketItem, after: list[MarketItem]
) -> None:
    """Publish a change of state: first what it ends, per instrument, and then the state.

    The state is one event with the book changes that it causes; without any it is a separate event.
    """
    for _, items in groupby(before, key=attrgetter("security_id")):
        market.publish(list(items))
    touched = any(not isinstance(item, SecurityStatus) for item in after)
    market.publish([item, *after], event=touched)


def _change(
    market: Market,
    listing: Listing,
    new_session: bool,
    before: list[MarketItem],
    after: list[MarketItem],
    now_ns: int,
) -> None:
    """Apply the state now in effect to an instrument.

    ``before`` collects messages to publish before the change (an auction's trades, orders that end
    with it), ``after`` its consequences (activated orders, a theoretical price).
    """
    was = listing.status
    status = listing.status = ruling(listing.group.phase, listing.own_status)
    priced = listing.theoretical is not None
    closing: list[MarketItem] = []
    if status in _UNCROSSED_ON_ENTRY or _ends_auction(was, status, listing.own_status):
        if legs_ready(listing):
            closing = uncross(market, listing, before, now_ns)
        _thaw(market, listing, before, now_ns)
        _expire_auction_orders(market, listing, before, now_ns)
        before += closing
    if status in AUCTIONS:
        if new_session:
            reset_statistics(listing)
        if status == FINAL_CLOSING_CALL:
            _wake_closing_orders(market, listing, after, now_ns)
        publish_theoretical(market, listing, after, now_ns)
        return
    clear_theoretical(listing)
    if priced and not closing and listing.own_status in AUCTIONS:
        # The group's phase ended the instrument's own auction, which its own status does not show.
        before += theoretical_deletions(market, listing.security_id, now_ns)
    if new_session:
        reset_statistics(listing)


def _ends_auction(was: TradingStatus, status: TradingStatus, own: TradingStatus | None) -> bool:
    """Whether a change ends an auction, which trades before it (000 §14.1).

    A closing call that is extended continues as RESERVED; the auction of an instrument's own state
    is only suspended by a phase of its group.
    """
    if was not in AUCTIONS or status in (was, RESERVED):
        return False
    return own not in AUCTIONS or own == status


def _thaw(market: Market, listing: Listing, items: list[MarketItem], now_ns: int) -> None:
    """Cancel the rest of the order that called the auction if a band now rejects it (§14.1.2).

    The auction may have moved the bands away from its price.
    """
    order, listing.frozen_by = listing.frozen_by, None
    if order is None or order.level is None or not order.leaves or order.price is None:
        return
    refresh(listing)
    if not listing.reject_low <= order.price <= listing.reject_high:
        items.append(market.remove_from_book(listing, order, now_ns))
        market.remove_from_indexes(order)
        market.cancelled(order, now_ns, ExecRestatementReason.MARKET_OPTION)


def _expire_auction_orders(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> None:
    """Expire orders that are valid only for the auction or at the close."""
    ending = [
        order
        for side in (listing.bids, listing.offers)
        for order in side
        if order.time_in_force in (TimeInForce.GOOD_FOR_AUCTION, TimeInForce.AT_THE_CLOSE)
    ]
    items.extend(market.remove_from_book(listing, order, now_ns) for order in ending)
    market.expire(ending, now_ns)


def _wake_closing_orders(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> None:
    """Move waiting MOC orders to the book, by time of entry."""
    for order in listing.waiting:
        if order.time_in_force != TimeInForce.AT_THE_CLOSE:
            continue
        listing.waiting.activate(order)
        market.new_secondary_id(order)
        order.insert_time_ns = now_ns
        items.append(market.add_to_book(listing, order, now_ns))
        market.report_accepted(order, now_ns)


def reset_statistics(listing: Listing) -> None:
    """Reset the statistics for a new session."""
    listing.statistics = SessionStatistics(after_id=listing.trade_id)
    listing.last_trade = None
    for shown in (OpeningPrice, HighPrice, LowPrice, ExecutionStatistics):
        listing.shown.pop(shown, None)
    clear_theoretical(listing)


def phase_message(
    market: Market, group: InstrumentGroup, new_session: bool, now_ns: int
) -> SecurityGroupPhase:
    """Return the message with a group's phase."""
    return SecurityGroupPhase(
        group.name,
        group.session,
        group.phase,
        TradingEvent.TRADING_SESSION_CHANGE if new_session else None,
        market.trade_day,
        group.open_time_ns,
        now_ns,
    )


def _status(
    market: Market,
    listing: Listing,
    status: TradingStatus | None,
    event: TradingEvent | None,
    open_time_ns: int | None,
    now_ns: int,
) -> SecurityStatus:
    """Return the message with an instrument's state."""
    return SecurityStatus(
        listing.security_id,
        listing.group.session,
        status,
        event,
        market.trade_day,
        open_time_ns,
        now_ns,
    )
