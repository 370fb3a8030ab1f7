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
from pregao.exchange.engine.commands import (
    AdvanceTime,
    EndDay,
    RejoinGroup,
    SetGroupPhase,
    SetSecurityStatus,
    StartDay,
)
from pregao.exchange.engine.events import (
    ClosingPrice,
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
from pregao.exchange.engine.orders import Order
from pregao.exchange.engine.session_statistics import regular_close
from pregao.exchange.engine.terms import (
    PRICE8_PER_PRICE,
    NewsSource,
    OpenCloseSettlFlag,
    TimeInForce,
    TradingStatus,
)
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
    group.since_ns = now_ns
    before: list[MarketItem] = []
    after: list[MarketItem] = []
    held: list[Listing] = []
    for listing in group.members:
        # When a group gathers orders again, so do its instruments, but for forbidden ones.
        if command.phase == RESERVED and listing.own_status not in (None, FORBIDDEN):
            detach(market, listing, None, None, now_ns)
            after.append(_status(market, listing, RESERVED, REJOINS, group.open_time_ns, now_ns))
        if listing.pair is not None and _must_wait(listing, listing.pair, command.phase):
            detach(market, listing, RESERVED, None, now_ns)
            listing.pending = True
            held.append(listing)
            after.append(_status(market, listing, RESERVED, _CHANGED, None, now_ns))
        _change(market, listing, command.new_session, before, after, now_ns)
    _publish(market, before, _phase(market, group, command.new_session, now_ns), after)
    market.tell([synchronization(listing, now_ns) for listing in held], event=False)
    for listing in group.members:
        # Instruments that only waited for one of this group can end their auction too.
        pair = listing.pair
        if pair is not None and pair.pending and listing.status not in AUCTIONS:
            detach(market, pair, None, None, now_ns)
            tell_change(market, pair, pair.group.phase, REJOINS, now_ns)


def _must_wait(listing: Listing, pair: Listing, phase: TradingStatus) -> bool:
    """Must an instrument stay in its auction, because its pair's has not come to its end?"""
    if phase != OPEN or listing.own_status is not None:
        return False
    if listing.status not in AUCTIONS or pair.status not in AUCTIONS or pair.pending:
        return False
    return pair.own_status is not None or pair.group is not listing.group


def synchronization(listing: Listing, now_ns: int) -> News:
    """What tells the market that an auction waits for that of another instrument."""
    symbol = listing.instrument.symbol
    return News(
        listing.security_id,
        NewsSource.MARKET_SURVEILLANCE,
        None,
        None,
        now_ns,
        f"Auction for instrument {symbol} - synchronization",
        f"Call for instrument {symbol} -Reason: synchronization",
        "",
    )


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
    end = now_ns + market.auction_duration_ns
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
    listing.active_auction = listing.open_time_ns is not None
    due = market.next_due_ns
    if listing.open_time_ns is not None and (due is None or listing.open_time_ns < due):
        market.next_due_ns = listing.open_time_ns


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
        _expire_auction_orders(market, listing, before, now_ns)
    withdraw_theoretical(listing)
    if priced and listing.own_status in AUCTIONS:
        # The phase of the group has ended an auction of its own, which its state does not tell.
        before += deleted_theoretical(market, listing.security_id, now_ns)
    if new_session:
        reset_statistics(listing)


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


def end_day(market: Market, _command: EndDay, now_ns: int) -> None:
    """Expire the orders whose validity ends with the day, one event per instrument."""
    for listing in market.listings.values():
        ending = [
            order
            for side in (listing.bids, listing.offers)
            for order in side
            if _ends_today(market, order)
        ]
        items: list[MarketItem] = [market.take(listing, order, now_ns) for order in ending]
        for order in listing.waiting:
            if _ends_today(market, order):
                listing.waiting.remove(order)
                ending.append(order)
        if items and listing.status in AUCTIONS:
            publish_theoretical(market, listing, items, now_ns)
        market.expire(ending, now_ns)
        market.tell(items)


def _ends_today(market: Market, order: Order) -> bool:
    if order.implied or order.time_in_force == TimeInForce.GOOD_TILL_CANCEL:
        return False
    if order.time_in_force == TimeInForce.GOOD_TILL_DATE:
        return order.expire_date is None or order.expire_date <= market.trade_date
    return True


def start_day(market: Market, command: StartDay, now_ns: int) -> None:
    """Begin a trading day: new statistics and trade numbers, and the previous close of each.

    The day before is ended if it was not. The previous close is the day's closing price if one
    was published, else the last price of its regular session, else the last trade.
    """
    if command.trade_date < market.trade_date:
        raise UsageError(
            f"the trading day {command.trade_date} lies before the current one "
            f"({market.trade_date})"
        )
    if command.trade_date > market.trade_date:
        end_day(market, EndDay(), now_ns)
    market.set_trade_date(command.trade_date)
    for listing in market.listings.values():
        closing = listing.shown.pop((ClosingPrice, OpenCloseSettlFlag.DAILY), None)
        if isinstance(closing, ClosingPrice):
            listing.previous_close8 = closing.price8
        elif (last := regular_close(listing)) is not None or (
            last := listing.statistics.last
        ) is not None:
            listing.previous_close8 = last * PRICE8_PER_PRICE
        reset_statistics(listing)
        listing.trades.clear()
        listing.trade_id = 0
    market.kept_trades.clear()
    for group in market.groups.values():
        market.tell([_phase(market, group, True, now_ns)], event=False)
    closes: list[MarketItem] = []
    flag = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY
    for listing in market.listings.values():
        if listing.previous_close8 is not None:
            close = ClosingPrice(
                listing.security_id,
                listing.previous_close8,
                flag,
                None,
                market.trade_day,
                now_ns,
            )
            listing.shown[(ClosingPrice, flag)] = close
            closes.append(close)
    market.tell(closes, event=False)
    for listing in market.listings.values():
        if listing.status in AUCTIONS:
            items: list[MarketItem] = []
            publish_theoretical(market, listing, items, now_ns)
            market.tell(items)


def _phase(market: Market, group: Group, new_session: bool, now_ns: int) -> SecurityGroupPhase:
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
