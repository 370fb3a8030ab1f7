"""Exercise of options: on request, or automatic on the last day (003 §15.2 leaves the rules open).

A holder can exercise at most its position; writers whose position is not blocked are assigned in a
random order. An American option can be exercised on any day, a European one on its last. On its
last day an option in the money is exercised automatically, unless its holder instructed otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.positions import Position
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import CancelMaintenance, MaintainPosition
from pregao.exchange.engine.model.enums import PosMaintAction, PosMaintStatus, PosTransType, PosType
from pregao.exchange.engine.model.instruments import ExerciseStyle, PutOrCall
from pregao.exchange.engine.model.operations_commands import SetPosition
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import PositionReported
from pregao.exchange.engine.phases.trading_phases import CLOSE, FORBIDDEN

_EXERCISE = PosTransType.EXERCISE
_AUTOMATIC = PosTransType.AUTOMATIC_EXERCISE


def maintain_position(market: Market, command: MaintainPosition, now_ns: int) -> None:
    """Exercise an option, or set the instruction for its last day."""
    listing = market.listings.get(command.security_id)
    reject = _fault(market, listing, command)
    if reject is not None or listing is None:
        reject = reject or reject_codes.UNKNOWN_INSTRUMENT
        _report(market, command, PosMaintStatus.REJECTED, now_ns, reject=reject)
        return
    if command.kind == _EXERCISE:
        status, trade_id = PosMaintStatus.COMPLETED, _exercise(market, command, now_ns)
    else:
        status, trade_id = PosMaintStatus.ACCEPTED, 0
        _forget_instruction(market, command)
    report_id = _report(market, command, status, now_ns, trade_id=trade_id)
    market.positions.requests[command.session, command.request_id] = report_id
    if command.kind != _EXERCISE:
        market.positions.instructions[report_id] = command


def _fault(market: Market, listing: Listing | None, command: MaintainPosition) -> Reject | None:
    """Return the reason to reject a request, or None."""
    if listing is None:
        return reject_codes.UNKNOWN_INSTRUMENT
    if not listing.keeps_positions:
        return reject_codes.NOT_AN_OPTION.because(listing.instrument.symbol)
    if (command.session, command.request_id) in market.positions.requests:
        return reject_codes.DUPLICATE_POSITION_REQUEST
    if command.trade_day != market.trade_day:
        return reject_codes.CLEARING_DATE_INVALID
    if listing.status in (CLOSE, FORBIDDEN):
        return reject_codes.MARKET_CLOSED
    held = market.positions.held.get((command.firm, command.account, command.security_id))
    if held is None or not 0 < command.quantity <= held.long:
        has = 0 if held is None else held.long
        return reject_codes.POSITION_TOO_SMALL.because(f"{command.quantity} of {has}")
    if command.kind != _EXERCISE:
        return None
    instrument = listing.instrument
    if (
        instrument.exercise_style == ExerciseStyle.EUROPEAN
        and instrument.maturity_date != market.trade_date
    ):
        return reject_codes.EXERCISE_TOO_EARLY
    gain = intrinsic(market, listing)
    if gain is not None and gain <= 0 and not command.contrary:
        return reject_codes.NOT_IN_THE_MONEY
    assignable = sum(
        each.assignable for _, each in market.positions.of_instrument(command.security_id)
    )
    return None if assignable >= command.quantity else reject_codes.NOBODY_TO_ASSIGN


def intrinsic(market: Market, listing: Listing) -> int | None:
    """Return the gain of an exercise now (1e-4), or None if the underlying has no price."""
    instrument = listing.instrument
    underlying = market.listings.get(instrument.underlyings[0].security_id)
    price = None if underlying is None else underlying.reference_price()
    if price is None or instrument.strike_price is None:
        return None
    gain = price - instrument.strike_price
    return gain if instrument.put_or_call == PutOrCall.CALL else -gain


def _exercise(market: Market, command: MaintainPosition, now_ns: int) -> int:
    """Exercise a quantity of the holder's position, report to the writers, and return its ID."""
    positions = market.positions
    own = positions.of(command.firm, command.account, command.security_id)
    assigned = positions.assign(market.seed, command.security_id, command.quantity)
    exercised = sum(part for _, part in assigned)
    own.long -= exercised
    own.exercised += exercised
    for (firm, account, _), part in assigned:
        quantities = ((PosType.OPTION_EXERCISE_QTY, 0, part),)
        _report_position(
            market,
            MaintainPosition(
                0, firm, 0, command.security_id, account, _EXERCISE, part, market.trade_day
            ),
            PosMaintStatus.COMPLETED,
            now_ns,
            quantities,
            trade_id=positions.exercises,
        )
    return positions.exercises


def _forget_instruction(market: Market, command: MaintainPosition) -> None:
    """Remove the holder's previous instruction for a position, which the new one replaces."""
    market.positions.instructions = {
        report_id: each
        for report_id, each in market.positions.instructions.items()
        if _holder(each) != _holder(command)
    }


def _holder(command: MaintainPosition) -> tuple[int, int, int]:
    return command.firm, command.account, command.security_id


def cancel_maintenance(market: Market, command: CancelMaintenance, now_ns: int) -> None:
    """Cancel an instruction for the last day; an exercise is completed and cannot be canceled."""
    positions = market.positions
    own = (command.session, command.orig_request_id)
    matching = (
        n for n, each in positions.instructions.items() if (each.session, each.request_id) == own
    )
    # ``asked`` has only requests of today: older ones are found by their instruction.
    report_id = command.report_id or next(matching, 0) or positions.requests.get(own, 0)
    found = positions.instructions.get(report_id)
    if found is None or found.firm != command.firm or found.security_id != command.security_id:
        request = MaintainPosition(
            command.session,
            command.firm,
            command.request_id,
            command.security_id,
            0,
            _EXERCISE,
            0,
            market.trade_day,
        )
        reject = reject_codes.UNKNOWN_POSITION_REQUEST
        if report_id in positions.requests.values():
            reject = reject_codes.EXERCISE_DONE
        _report_position(
            market,
            request,
            PosMaintStatus.REJECTED,
            now_ns,
            (),
            reject=reject,
            action=PosMaintAction.CANCEL,
            original=command.orig_request_id,
        )
        return
    del positions.instructions[report_id]
    _report(
        market,
        found,
        PosMaintStatus.ACCEPTED,
        now_ns,
        action=PosMaintAction.CANCEL,
        session=command.session,
        request_id=command.request_id,
    )


def exercise_matured(market: Market, now_ns: int) -> None:
    """Exercise options on their last day automatically, or let them expire, at the day's end."""
    if not market.positions.held:
        return
    for listing in list(market.listings.values()):
        if listing.keeps_positions and listing.instrument.maturity_date == market.trade_date:
            gain = intrinsic(market, listing)
            for holder, position in market.positions.of_instrument(listing.security_id):
                if position.long:
                    _end(market, holder, position, gain, now_ns)
            market.positions.remove_instrument(listing.security_id)


def _end(
    market: Market,
    holder: tuple[int, int, int],
    position: Position,
    gain: int | None,
    now_ns: int,
) -> None:
    """Exercise a position on its last day as its holder instructed, and report it."""
    firm, account, security_id = holder
    instruction = next(
        (each for each in market.positions.instructions.values() if _holder(each) == holder), None
    )
    if instruction is None:
        instruction = MaintainPosition(
            0, firm, 0, security_id, account, _AUTOMATIC, position.long, market.trade_day
        )
    pays = gain is not None and gain > 0 and gain >= instruction.threshold
    status, trade_id = PosMaintStatus.NOT_EXECUTED, 0
    if instruction.kind == _AUTOMATIC and (pays or instruction.contrary):
        # Some of the position may have been exercised or sold after the instruction.
        quantity = min(instruction.quantity, position.long)
        before = position.exercised
        exercise_id = _exercise(market, replace(instruction, quantity=quantity), now_ns)
        if position.exercised > before:
            status, trade_id = PosMaintStatus.COMPLETED, exercise_id
    elif not instruction.session:
        return  # it expires without a report: its holder gave no instruction
    _report(market, instruction, status, now_ns, trade_id=trade_id)


def set_position(market: Market, command: SetPosition, _now_ns: int) -> None:
    """Set an account's position at the start of the day, as received from clearing."""
    listing = market.listing(command.security_id)
    if not listing.keeps_positions:
        raise UsageError(
            f"{listing.instrument.symbol} is not an option: only options have positions"
        )
    if command.long_qty < 0 or command.short_qty < 0:
        raise UsageError("the quantities of a position must not be negative")
    key = (command.firm, command.account, command.security_id)
    market.positions.held[key] = Position(command.long_qty, command.short_qty)


def _report(
    market: Market,
    command: MaintainPosition,
    status: PosMaintStatus,
    now_ns: int,
    *,
    trade_id: int = 0,
    reject: Reject | None = None,
    action: PosMaintAction = PosMaintAction.NEW,
    session: int | None = None,
    request_id: int | None = None,
) -> int:
    """Answer a request with the current position, and return the ID of the report."""
    position = market.positions.held.get(_holder(command), Position())
    original = 0
    if request_id is not None:
        original, command_id = command.request_id, request_id
    else:
        command_id = command.request_id
    return _report_position(
        market,
        command,
        status,
        now_ns,
        position.quantities(),
        trade_id=trade_id,
        reject=reject,
        action=action,
        original=original,
        session=command.session if session is None else session,
        request_id=command_id,
    )


def _report_position(
    market: Market,
    command: MaintainPosition,
    status: PosMaintStatus,
    now_ns: int,
    quantities: tuple[tuple[PosType, int, int], ...],
    *,
    trade_id: int = 0,
    reject: Reject | None = None,
    action: PosMaintAction = PosMaintAction.NEW,
    original: int = 0,
    session: int | None = None,
    request_id: int | None = None,
) -> int:
    market.exec_id += 1
    market.reports.append(
        PositionReported(
            market.exec_id,
            command.session if session is None else session,
            command.firm,
            command.request_id if request_id is None else request_id,
            original,
            command.security_id,
            command.account,
            command.kind,
            action,
            status,
            quantities,
            trade_id,
            command.threshold,
            command.contrary,
            0 if reject is None else reject.code,
            "" if reject is None else reject.text,
            now_ns,
        )
    )
    return market.exec_id
