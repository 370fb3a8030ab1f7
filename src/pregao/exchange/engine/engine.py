"""Matching engine: applies commands at given times and returns the market's outcomes.

It is a pure state machine: no clock, no floats, no I/O, and random draws derived from a seed. The
same commands at the same times produce the same outcomes. After each command it settles the
consequences: legs, paired auctions, protections, stop orders, implied orders. A request that a
gateway rejects gets the IDs and the report of any reject (`refuse`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from pregao.clock import MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.book.market import Market, SilentMarket
from pregao.exchange.engine.book.snapshots import BookView, group_phases, view
from pregao.exchange.engine.matching import give_ups
from pregao.exchange.engine.model import commands, operations_commands
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.commands import Command
from pregao.exchange.engine.model.enums import CxlRejResponseTo
from pregao.exchange.engine.model.events import SecurityGroupPhase
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import CommandOutcome, EngineReport
from pregao.exchange.engine.operations import market_control, trade_corrections
from pregao.exchange.engine.orders import (
    cross_orders,
    order_amend,
    order_cancel,
    order_entry,
    protected_mode,
)
from pregao.exchange.engine.orders.protected_mode import protect
from pregao.exchange.engine.orders.stop_orders import enter_triggered
from pregao.exchange.engine.phases import auction_close, trading_day, trading_phases
from pregao.exchange.engine.phases.auction_close import extend_auctions, join_pairs
from pregao.exchange.engine.phases.trading_phases import release_spreads
from pregao.exchange.engine.products import (
    blocking,
    exercise,
    forwards,
    implied_spreads,
    instrument_changes,
    user_defined_spreads,
)
from pregao.exchange.engine.products.implied_spreads import refresh_implied, trade_legs
from pregao.units import PRICE_SCALE

_Handler = Callable[[Market, Any, int], None]


def settle(market: Market, now_ns: int) -> None:
    """Process all consequences, round by round, until none is left."""
    while True:
        if market.spread_fills:
            trade_legs(market, now_ns)
        elif market.announced:
            announced, market.announced = market.announced, []
            market.publish([*announced], event=False)
        elif market.extending:
            extend_auctions(market, now_ns)
        elif market.called:
            join_pairs(market, now_ns)
        elif market.reached:
            # Before triggered stop orders: those of a protected account must no longer trade.
            protect(market, now_ns)
        elif market.touched:
            refresh_implied(market, now_ns)
        elif market.triggered:
            enter_triggered(market, now_ns)
        elif market.held and release_spreads(market, now_ns):
            market.touched.update(market.implied_of)
        else:
            market.follows = False
            return


def _end_day(market: Market, command: operations_commands.EndDay, now_ns: int) -> None:
    """End the trading day: exercise matured options and expire forwards that were not accepted."""
    exercise.exercise_matured(market, now_ns)
    forwards.expire_declarations(market, now_ns)
    trading_day.end_day(market, command, now_ns)


def _start_day(market: Market, command: operations_commands.StartDay, now_ns: int) -> None:
    """Start a trading day with reset protections and without idle user-defined spreads."""
    if command.trade_date > market.trade_date:
        exercise.exercise_matured(market, now_ns)
        forwards.expire_declarations(market, now_ns)
    user_defined_spreads.note_activity(market)
    trading_day.start_day(market, command, now_ns)
    market.positions.start_day()
    market.give_ups.clear()
    order_cancel.carry_over(market)
    protected_mode.reset_all(market)
    user_defined_spreads.remove_idle(market, now_ns)


_HANDLERS: dict[type, _Handler] = {
    commands.NewOrder: order_entry.new_order,
    commands.ModifyOrder: order_amend.modify_order,
    commands.CancelOrder: order_cancel.cancel_order,
    commands.MassCancel: order_cancel.mass_cancel,
    commands.RestateOrders: order_cancel.restate_orders,
    commands.NewCross: cross_orders.new_cross,
    commands.DeclareForward: forwards.declare_forward,
    commands.AcceptForward: forwards.accept_forward,
    commands.RefuseForward: forwards.refuse_forward,
    commands.CancelForward: forwards.cancel_forward,
    commands.DefineSpread: user_defined_spreads.define_spread,
    commands.MaintainPosition: exercise.maintain_position,
    commands.CancelMaintenance: exercise.cancel_maintenance,
    commands.AllocateTrade: blocking.allocate_trade,
    operations_commands.SetPosition: exercise.set_position,
    operations_commands.LinkAccounts: give_ups.link_accounts,
    operations_commands.AnswerGiveUp: give_ups.answer_give_up,
    operations_commands.SetProtection: protected_mode.set_protection,
    operations_commands.RemoveProtection: protected_mode.remove_protection,
    operations_commands.SetDelta: protected_mode.set_delta,
    operations_commands.SetBlacklisted: user_defined_spreads.set_blacklisted,
    operations_commands.SetGroupPhase: trading_phases.set_group_phase,
    operations_commands.SetSecurityStatus: trading_phases.set_security_status,
    operations_commands.PairAuctions: auction_close.pair_auctions,
    operations_commands.RejoinGroup: trading_phases.rejoin_group,
    operations_commands.AdvanceTime: trading_phases.advance_time,
    operations_commands.EndDay: _end_day,
    operations_commands.StartDay: _start_day,
    operations_commands.AddInstrument: instrument_changes.add_instrument,
    operations_commands.ChangeInstrument: instrument_changes.change_instrument,
    operations_commands.RemoveInstrument: instrument_changes.remove_instrument,
    operations_commands.BustTrade: trade_corrections.bust_trade,
    operations_commands.EnterTrade: trade_corrections.enter_trade,
    operations_commands.AmendTrade: trade_corrections.amend_trade,
    operations_commands.ExpelOrder: market_control.expel_order,
    operations_commands.DeleteSide: market_control.delete_side,
    operations_commands.EnterImplied: market_control.enter_implied,
    operations_commands.PublishNews: market_control.publish_news,
    operations_commands.ResetBook: market_control.reset_book,
    operations_commands.ResetChannel: market_control.reset_channel,
    operations_commands.ResetStream: market_control.reset_stream,
    operations_commands.SetClosingPrice: market_control.set_closing_price,
    operations_commands.SetSettlementPrice: market_control.set_settlement_price,
    operations_commands.SetOpenInterest: market_control.set_open_interest,
    operations_commands.SetPriceBand: market_control.set_price_band,
    operations_commands.SetQuantityBand: market_control.set_quantity_band,
    operations_commands.AdjustLastTrade: market_control.adjust_last_trade,
}


def _touch(market: Market, command: Command) -> None:
    """Record which books a command may have changed."""
    if isinstance(command, commands.NewOrder | commands.ModifyOrder | commands.CancelOrder):
        if command.security_id in market.implied_of:
            market.touched.add(command.security_id)
            market.follows = True
    else:
        market.touched.update(market.implied_of)
        market.follows = True


class MatchingEngine:
    """Matching engine for a list of instruments.

    With ``track_positions`` every book update has its position in the book, which schema versions
    below 15 publish; each one costs a walk over the price levels. With ``reports=False`` owners get
    no reports on their orders except rejects. ``auction_duration_ns`` is the duration of an auction
    that a band calls; ``trade_memory`` the number of trades that can still be busted; ``rlp_share``
    the share of an instrument's volume that retail liquidity providers may trade (1e-4, None for no
    limit); ``synchronism_ns`` how long an instrument whose auction ends waits for its pair, at most
    one second. With ``implied_orders`` eligible spreads get implied orders from the books of their
    legs. Instruments in ``no_legs`` cannot be legs of user-defined spreads. ``auction_rules`` state
    how auctions end if neither the instrument nor the phase has rules; random ends are drawn from
    ``seed``. With ``keeps_numbers`` an order without a published firm keeps its secondary order ID
    when its owner replaces it, as on feeds of schema versions below 15 (000 §12.1).
    """

    def __init__(
        self,
        instruments: Iterable[Instrument],
        trade_date: date,
        *,
        track_positions: bool = False,
        reports: bool = True,
        auction_duration_ns: int = 5 * MINUTE,
        trade_memory: int = 100_000,
        first_order_id: int = 1,
        rlp_share: int | None = None,
        synchronism_ns: int = 10 * MILLISECOND,
        implied_orders: bool = False,
        no_legs: Iterable[int] = (),
        auction_rules: AuctionRules | None = None,
        seed: int = 0,
        keeps_numbers: bool = False,
    ) -> None:
        if not 0 <= synchronism_ns <= SECOND:
            raise UsageError(
                f"synchronism_ns must be from 0 to {SECOND} (one second), was {synchronism_ns}"
            )
        if rlp_share is not None and not 0 <= rlp_share < PRICE_SCALE:
            raise UsageError(
                f"rlp_share must be from 0 to {PRICE_SCALE - 1} (1e-4 of the volume; None for no "
                f"limit), was {rlp_share}"
            )
        self.market = (Market if reports else SilentMarket)(
            trade_date,
            track_positions,
            auction_duration_ns,
            trade_memory,
            first_order_id,
            rlp_share,
            synchronism_ns,
            frozenset(no_legs),
            auction_rules,
            seed,
            keeps_numbers,
        )
        self._now_ns = 0
        self._pending_outcome: CommandOutcome | None = None
        for instrument in instruments:
            if instrument.security_id in self.market.listings:
                raise UsageError(f"security ID {instrument.security_id} is used by two instruments")
            self.market.list_instrument(instrument)
        if implied_orders:
            for listing in self.market.listings.values():
                implied_spreads.register(self.market, listing)

    def apply(self, command: Command, now_ns: int) -> CommandOutcome:
        """Apply a command at a time that must not decrease, and return its outcome.

        Events that came due since the previous command happen first, at their own times. An invalid
        command of market operations raises ``UsageError`` and changes nothing (events that came due
        are then part of the next outcome); a member's request that cannot be met produces a reject
        among the reports.
        """
        market = self.market
        if now_ns < self._now_ns:
            raise UsageError(f"time must not decrease: {now_ns} ns after {self._now_ns} ns")
        handler = _HANDLERS.get(type(command))
        if handler is None:
            raise UsageError(f"{type(command).__name__} is not a command of the engine")
        self._now_ns = now_ns
        outcome = self._pending_outcome or CommandOutcome([], [])
        self._pending_outcome = None
        market.units, market.reports = outcome
        while (due := market.next_due_ns) is not None and due <= now_ns:
            auction_close.run_due(market, due)
            market.touched.update(market.implied_of)
            settle(market, due)
        try:
            handler(market, command, now_ns)
        except UsageError:
            self._pending_outcome = outcome
            raise
        if market.implied_of:
            _touch(market, command)
        if market.follows or market.held:
            settle(market, now_ns)
        return outcome

    def state(self) -> tuple[Market, int, CommandOutcome | None]:
        """Return the complete state between two commands, for a copy."""
        self.market.units, self.market.reports = [], []
        return self.market, self._now_ns, self._pending_outcome

    def restore(self, state: tuple[Market, int, CommandOutcome | None]) -> None:
        """Restore the state of a copy that has the same instruments."""
        self.market, self._now_ns, self._pending_outcome = state

    def drop_due(self, now_ns: int) -> None:
        """Drop auction ends that are due; market operations must end those auctions."""
        auction_close.drop_due(self.market, now_ns)

    @property
    def next_due_ns(self) -> int | None:
        """Time of the next scheduled event (the end of an auction), or None."""
        return self.market.next_due_ns

    @property
    def trade_date(self) -> date:
        """Current trading day."""
        return self.market.trade_date

    @property
    def instruments(self) -> list[Instrument]:
        """Listed instruments, in order of listing."""
        return [listing.instrument for listing in self.market.listings.values()]

    def book(self, security_id: int) -> BookView:
        """Return a view of an instrument: orders in queue order, statistics, state."""
        return view(self.market, self.market.listing(security_id))

    def group_phases(self) -> list[SecurityGroupPhase]:
        """Return the current phase of every group."""
        return group_phases(self.market)


def refuse(
    market: Market,
    session: int,
    cl_ord_id: int,
    security_id: int,
    response_to: CxlRejResponseTo,
    reject: Reject,
    now_ns: int,
    order_id: int = 0,
    orig_cl_ord_id: int = 0,
) -> list[EngineReport]:
    """Return the reports about a request that did not reach the market."""
    market.units, market.reports = [], []
    market.rejected(
        session, cl_ord_id, security_id, response_to, reject, now_ns, order_id, orig_cl_ord_id
    )
    return market.reports
