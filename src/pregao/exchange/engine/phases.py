"""Group phases and instrument states: what follows when one changes.

An instrument follows its group unless it has a state of its own; the more restrictive of the two
rules. FORBIDDEN (for a group: PRE-CLOSE) lets a running auction go on, and a forbidden instrument
stays so until it is made to rejoin. An auction that ends towards OPEN or CLOSE is uncrossed before
the change is told; MOC orders join the book when the closing call has begun.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.auction import (
    deleted_theoretical,
    publish_theoretical,
    uncross,
    withdraw_theoretical,
)
from pregao.exchange.engine.auction_times import (
    OSCILLATION,
    PROTECTION,
    RANDOM_END,
    SYNCHRONIZATION,
    announcement,
    outside_protection,
    random_part,
    rules_of,
    watch,
)
from pregao.exchange.engine.bands import refresh
from pregao.exchange.engine.commands import (
    AdvanceTime,
    RejoinGroup,
    SetGroupPhase,
    SetSecurityStatus,
)
from pregao.exchange.engine.events import (
    ExecutionStatistics,
    HighPrice,
    LowPrice,
    MarketItem,
    News,
    OpeningPrice,
    SecurityGroupPhase,
    SecurityStatus,
)
from pregao.exchange.engine.listing import Group, Listing, Statistics
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.terms import ExecRestatementReason, TimeInForce, TradingStatus
from pregao.umdf.phases import TradingEvent

PAUSE = TradingStatus.PAUSE
CLOSE = TradingStatus.CLOSE
OPEN = TradingStatus.OPEN
FORBIDDEN = TradingStatus.FORBIDDEN
RESERVED = TradingStatus.RESERVED
FINAL_CLOSING_CALL = TradingStatus.FINAL_CLOSING_CALL

AUCTIONS = frozenset({RESERVED, FINAL_CLOSING_CALL})
"""The states in which orders gather without trading."""
_CHANGED = TradingEvent.SECURITY_STATUS_CHANGE
_UNCROSSED_ON_ENTRY = frozenset({OPEN, CLOSE})
_STATES = AUCTIONS | {PAUSE, CLOSE, OPEN, FORBIDDEN}


def ruling(phase: TradingStatus, own: TradingStatus | None) -> TradingStatus:
    """The state that rules an instrument, from its group's phase and its own state."""
    if own is None:
        return phase
    if own == FORBIDDEN or phase == OPEN:
        return own
    if phase == FORBIDDEN:
        return RESERVED if own == RESERVED else FORBIDDEN
    if phase in AUCTIONS:
        return phase if own == OPEN else own
    # The group is closed or halted: nothing is more restrictive than closed.
    return CLOSE if CLOSE in (phase, own) else phase


def set_group_phase(market: Market, command: SetGroupPhase, now_ns: int) -> None:
    """Move a group to a phase, and with it the instruments that follow."""
    group = market.groups.get(command.group)
    if group is None:
        raise UsageError(f"no instrument is listed in a group named {command.group!r}")
    _check_state(command.phase)
    group.phase = command.phase
    if command.session is not None:
        group.session = command.session
    group.open_time_ns = command.open_time_ns if command.phase == RESERVED else None
    group.auction = command.auction if command.phase in AUCTIONS else None
    group.since_ns = now_ns
    before: list[MarketItem] = []
    after: list[MarketItem] = []
    news: list[MarketItem] = []
    for listing in group.members:
        # When a group gathers orders again, so do its instruments, but for forbidden ones.
        if command.phase == RESERVED and listing.own_status not in (None, FORBIDDEN):
            detach(market, listing, None, None, now_ns)
            after.append(_status(market, listing, RESERVED, REJOINS, group.open_time_ns, now_ns))
        if (told := _held(market, listing, command.phase, now_ns)) is not None:
            news.append(told)
            open_time = listing.open_time_ns
            after.append(_status(market, listing, RESERVED, _CHANGED, open_time, now_ns))
        elif listing.own_status is None:
            _follow(market, listing, now_ns)
        _change(market, listing, command.new_session, before, after, now_ns)
    _publish(market, before, phase_message(market, group, command.new_session, now_ns), after)
    market.tell(news, event=False)
    for listing in group.members:
        # Instruments that only waited for one of this group can end their auction too.
        pair = listing.pair
        if pair is not None and pair.pending and listing.status not in AUCTIONS:
            detach(market, pair, None, None, now_ns)
            tell_change(market, pair, pair.group.phase, REJOINS, now_ns)


def _held(market: Market, listing: Listing, phase: TradingStatus, now_ns: int) -> News | None:
    """Does an instrument stay in its auction when its group opens? Then the news of it."""
    if phase != OPEN or listing.own_status is not None or listing.status not in AUCTIONS:
        return None
    if (told := postpone(market, listing, now_ns)) is not None:
        return told
    if listing.pair is None or not _must_wait(listing, listing.pair):
        return None
    detach(market, listing, RESERVED, None, now_ns)
    listing.pending = True
    return announcement(listing, SYNCHRONIZATION, now_ns)


def _must_wait(listing: Listing, pair: Listing) -> bool:
    """Must an instrument stay in its auction, because its pair's has not come to its end?"""
    if pair.status not in AUCTIONS or pair.pending:
        return False
    return pair.own_status is not None or pair.group is not listing.group


def postpone(market: Market, listing: Listing, now_ns: int) -> News | None:
    """The scheduled end of an auction has come: what its rules say instead, if they do.

    The caller tells the state, then the news.
    """
    rules = listing.auction
    if rules is None:
        return None
    if listing.extended < rules.extensions and outside_protection(listing, rules):
        return extend(market, listing, now_ns + rules.extension_ns, PROTECTION, now_ns)
    if not rules.random_ns or listing.closes_ns is not None:
        return None
    extended = listing.extended
    detach(market, listing, RESERVED, None, now_ns)
    watch(listing, rules, None, now_ns, extended)
    listing.closes_ns = now_ns + random_part(market, listing, rules, now_ns)
    _plan(market, listing, listing.closes_ns)
    return announcement(listing, RANDOM_END, now_ns)


def extend(market: Market, listing: Listing, end_ns: int, reason: str, now_ns: int) -> News:
    """Move the end of an auction; the caller tells the state, then the news."""
    rules, extended = listing.auction, listing.extended + 1
    before = listing.group.open_time_ns if listing.own_status is None else listing.open_time_ns
    detach(market, listing, RESERVED, end_ns, now_ns)
    # Up to the end that was scheduled before, nothing moves it again.
    watch(listing, rules, end_ns, max(now_ns, before or 0), extended)
    return announcement(listing, reason, now_ns)


def set_security_status(market: Market, command: SetSecurityStatus, now_ns: int) -> None:
    """Give an instrument a state of its own."""
    listing = market.listing(command.security_id)
    _check_state(command.status)
    if command.open_time_ns is not None and command.open_time_ns <= now_ns:
        raise UsageError(
            f"the end of the auction of {listing.instrument.symbol} does not lie in the future"
        )
    detach(market, listing, command.status, command.open_time_ns, now_ns)
    if listing.pair is not None:
        market.called.append(listing)
        market.follows = True
    event = TradingEvent.SECURITY_STATUS_CHANGE
    if command.new_session:
        event = TradingEvent.TRADING_SESSION_CHANGE
    tell_change(market, listing, command.status, event, now_ns)


def rejoin_group(market: Market, command: RejoinGroup, now_ns: int) -> None:
    """Let an instrument follow its group again."""
    listing = market.listing(command.security_id)
    if listing.own_status is None:
        raise UsageError(
            f"{listing.instrument.symbol} already follows the phase of its group "
            f"{listing.group.name!r}"
        )
    detach(market, listing, None, None, now_ns)
    tell_change(market, listing, listing.group.phase, REJOINS, now_ns)


def call_auction(market: Market, listing: Listing, now_ns: int) -> SecurityStatus:
    """Freeze an instrument whose next trade would leave the auction band.

    The caller adds the order that called the auction, and publishes.
    """
    rules = rules_of(market, listing, None)
    end = now_ns + market.auction_duration_ns
    if rules is not None:
        if rules.duration_ns is not None:
            end = now_ns + rules.duration_ns
        market.announced.append(announcement(listing, OSCILLATION, now_ns))
        market.follows = True
    detach(market, listing, RESERVED, end, now_ns)
    listing.status = RESERVED
    if listing.pair is not None:
        market.called.append(listing)
        market.follows = True
    return _status(market, listing, RESERVED, TradingEvent.SECURITY_STATUS_CHANGE, end, now_ns)


def advance_time(_market: Market, _command: AdvanceTime, _now_ns: int) -> None:
    """Time alone does nothing that has not been done when the command came in."""


REJOINS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS


def _check_state(status: TradingStatus) -> None:
    if status not in _STATES:
        known = ", ".join(sorted(state.name for state in _STATES))
        raise UsageError(f"{status!r} is not a state that can be set; choose one of {known}")


def detach(
    market: Market,
    listing: Listing,
    own: TradingStatus | None,
    open_time_ns: int | None,
    now_ns: int,
) -> None:
    """Take note of an instrument's own state; None joins it to its group."""
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
    watch(listing, rules_of(market, listing, None), end, now_ns)
    if end is not None:
        _plan(market, listing, end)


def _plan(market: Market, listing: Listing, end_ns: int) -> None:
    """An auction ends by itself at a time."""
    listing.active_auction = True
    if market.next_due_ns is None or end_ns < market.next_due_ns:
        market.next_due_ns = end_ns


def _follow(market: Market, listing: Listing, now_ns: int) -> None:
    """An instrument follows its group: its auctions are those of the phase."""
    group = listing.group
    rules = rules_of(market, listing, group.auction) if group.phase in AUCTIONS else None
    watch(listing, rules, group.open_time_ns, now_ns)


def tell_change(
    market: Market, listing: Listing, status: TradingStatus, event: TradingEvent, now_ns: int
) -> None:
    """Carry out a change of one instrument's state and publish it."""
    before: list[MarketItem] = []
    after: list[MarketItem] = []
    new_session = event == TradingEvent.TRADING_SESSION_CHANGE
    _change(market, listing, new_session, before, after, now_ns)
    open_time = listing.open_time_ns
    if listing.own_status is None:
        open_time = listing.group.open_time_ns
    told = _status(market, listing, status, event, open_time, now_ns)
    _publish(market, before, told, after)


def _publish(
    market: Market, before: list[MarketItem], told: MarketItem, after: list[MarketItem]
) -> None:
    """Publish a change of state: one event if it touched a book, else messages on their own."""
    touched = bool(before) or any(not isinstance(item, SecurityStatus) for item in after)
    market.tell([*before, told, *after], event=touched)


def _change(
    market: Market,
    listing: Listing,
    new_session: bool,
    before: list[MarketItem],
    after: list[MarketItem],
    now_ns: int,
) -> None:
    """Bring an instrument under the state that now rules it.

    ``before`` gets what happens ahead of the change (an auction's trades, orders that end with
    it), ``after`` what it brings about (orders that wake up, a theoretical price).
    """
    status = listing.status = ruling(listing.group.phase, listing.own_status)
    priced = listing.theoretical is not None
    if status in AUCTIONS:
        if new_session:
            reset_statistics(listing)
        if status == FINAL_CLOSING_CALL:
            _wake_closing_orders(market, listing, after, now_ns)
        publish_theoretical(market, listing, after, now_ns)
        return
    if status in _UNCROSSED_ON_ENTRY:
        uncross(market, listing, before, now_ns)
        _thaw(market, listing, before, now_ns)
        _expire_auction_orders(market, listing, before, now_ns)
    withdraw_theoretical(listing)
    if priced and listing.own_status in AUCTIONS:
        # The phase of the group has ended an auction of its own, which its state does not tell.
        before += deleted_theoretical(market, listing.security_id, now_ns)
    if new_session:
        reset_statistics(listing)


def _thaw(market: Market, listing: Listing, items: list[MarketItem], now_ns: int) -> None:
    """After the auction that an order has called: is what is left of it still taken (§14.1.2)?

    The auction may have moved the bands away from its price; then it is cancelled.
    """
    order, listing.frozen_by = listing.frozen_by, None
    if order is None or order.level is None or not order.leaves or order.price is None:
        return
    refresh(listing)
    if not listing.reject_low <= order.price <= listing.reject_high:
        items.append(market.take(listing, order, now_ns))
        market.forget(order)
        market.cancelled(order, now_ns, ExecRestatementReason.MARKET_OPTION)


def _expire_auction_orders(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> None:
    """Orders good for the auction alone, or at the close, end with it."""
    ending = [
        order
        for side in (listing.bids, listing.offers)
        for order in side
        if order.time_in_force in (TimeInForce.GOOD_FOR_AUCTION, TimeInForce.AT_THE_CLOSE)
    ]
    items.extend(market.take(listing, order, now_ns) for order in ending)
    market.expire(ending, now_ns)


def _wake_closing_orders(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> None:
    """MOC orders that have waited join the book, by their time of entry."""
    for order in listing.waiting:
        if order.time_in_force != TimeInForce.AT_THE_CLOSE:
            continue
        listing.waiting.remove(order)
        market.new_secondary_id(order)
        order.insert_time_ns = now_ns
        items.append(market.put(listing, order, now_ns))
        market.accepted(order, now_ns)


def reset_statistics(listing: Listing) -> None:
    """A new session: the statistics of the old one are void."""
    listing.statistics = Statistics(after_id=listing.trade_id)
    listing.last_trade = None
    for shown in (OpeningPrice, HighPrice, LowPrice, ExecutionStatistics):
        listing.shown.pop(shown, None)
    withdraw_theoretical(listing)


def phase_message(
    market: Market, group: Group, new_session: bool, now_ns: int
) -> SecurityGroupPhase:
    """The message that tells a group's phase."""
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
    """The message that tells an instrument's state."""
    return SecurityStatus(
        listing.security_id,
        listing.group.session,
        status,
        event,
        market.trade_day,
        open_time_ns,
        now_ns,
    )
